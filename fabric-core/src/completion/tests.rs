//! Queues and counters without endpoints: order, room, sleeping.

use std::{os::fd::AsFd, ptr, sync::Arc, thread, time::Duration};

use super::{
    counter::{Next, Until},
    *,
};
use crate::{
    Errno, Result,
    attr::{CntrEvents, CqFormat, WaitObj},
    engine::tests::TestWire,
    flags::Flags,
    lock::SafeLock,
    rdm::WireRdmEndpoint,
    wait::{Deadline, Signal, sleep_on},
};

type TestEndpoint = WireRdmEndpoint<TestWire, SafeLock>;

fn cq(wait_obj: WaitObj) -> Arc<Cq<TestEndpoint>> {
    Cq::open(&CqAttr { wait_obj, ..CqAttr::default() }).unwrap()
}

fn counter(wait_obj: WaitObj) -> Arc<Counter<TestEndpoint>> {
    Counter::open(&CounterAttr { wait_obj, ..CounterAttr::default() }).unwrap()
}

fn entry(context: usize) -> Entry {
    Entry::new(context, Flags::SEND)
}

fn error(context: usize) -> CqError {
    CqError::new(entry(context), Errno::EIO)
}

/// Up to `room` contexts.
fn read(room: usize, call: impl FnOnce(&mut EntryBuf) -> Read) -> Result<Vec<usize>> {
    let mut contexts = vec![0usize; room];
    let base = contexts.as_mut_ptr().cast();
    // SAFETY: an entry of this format is one word.
    let mut out = unsafe { EntryBuf::new(base, CqFormat::Context, room, ptr::null_mut()) };
    let count = call(&mut out)?;
    contexts.truncate(count);
    Ok(contexts)
}

#[test]
fn errors_keep_their_place_among_entries() {
    let cq = cq(WaitObj::None);
    let next = |room| read(room, |out| cq.read(out));
    assert_eq!(next(4), Err(Errno::EAGAIN));
    assert_eq!(cq.read_error(), Err(Errno::EAGAIN));
    cq.queue().push(entry(1));
    cq.queue().push(entry(2));
    cq.queue().push_error(error(3));
    cq.queue().push_error(error(4));
    cq.queue().push(entry(5));
    cq.queue().push_error(error(6));
    assert_eq!(cq.read_error(), Err(Errno::EAGAIN), "entries come first");
    assert_eq!(next(1), Ok(vec![1]));
    assert_eq!(next(4), Ok(vec![2]));
    for context in [3, 4] {
        assert_eq!(next(4), Err(Errno::EAVAIL));
        assert_eq!(cq.read_error(), Ok(error(context)));
    }
    assert_eq!(cq.read_error(), Err(Errno::EAGAIN));
    assert_eq!(next(4), Ok(vec![5]));
    assert_eq!(next(4), Err(Errno::EAVAIL));
    assert_eq!(cq.read_error(), Ok(error(6)));
    assert_eq!(next(4), Err(Errno::EAGAIN));
}

#[test]
fn a_read_without_room_only_looks() {
    let cq = cq(WaitObj::None);
    assert_eq!(read(0, |out| cq.read(out)), Err(Errno::EAGAIN));
    cq.queue().push(entry(1));
    assert_eq!(read(0, |out| cq.read(out)), Ok(vec![]));
    assert_eq!(read(1, |out| cq.read(out)), Ok(vec![1]));
}

#[test]
fn a_queue_grows_beyond_its_size() {
    let attr = CqAttr { size: 1, ..CqAttr::default() };
    let cq = Cq::<TestEndpoint>::open(&attr).unwrap();
    (0..5000).for_each(|n| cq.queue().push(entry(n)));
    assert_eq!(read(6000, |out| cq.read(out)), Ok((0..5000).collect()));
}

#[test]
fn blocking_reads_end_by_entry_deadline_and_signal() {
    for wait_obj in [WaitObj::None, WaitObj::Yield, WaitObj::Fd] {
        let cq = cq(wait_obj);
        let next = |timeout| read(1, |out| cq.sread(out, timeout));
        assert_eq!(next(0), Err(Errno::EAGAIN));
        assert_eq!(next(5), Err(Errno::EAGAIN));
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(5));
                cq.queue().push(entry(1));
                thread::sleep(Duration::from_millis(5));
                cq.signal();
            });
            assert_eq!(next(-1), Ok(vec![1]));
            assert_eq!(next(-1), Err(Errno::EAGAIN));
        });
        cq.signal();
        assert_eq!(next(-1), Err(Errno::EAGAIN), "a signal is kept for the next sleeper");
    }
}

#[test]
fn every_sleeper_of_a_queue_is_woken() {
    let cq = cq(WaitObj::Fd);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..200 {
                    read(1, |out| cq.sread(out, -1)).unwrap();
                }
            });
        }
        (0..600).for_each(|n| cq.queue().push(entry(n)));
    });
    assert_eq!(read(1, |out| cq.read(out)), Err(Errno::EAGAIN));
}

#[test]
fn a_queue_allows_sleep_only_when_it_is_empty() {
    let cq = cq(WaitObj::Fd);
    assert_eq!(cq.try_wait(), Ok(true));
    cq.queue().push_error(error(1));
    assert_eq!(cq.try_wait(), Ok(false));
    cq.read_error().unwrap();
    assert_eq!(cq.try_wait(), Ok(true));
}

#[test]
fn retired_wait_objects_are_refused() {
    for wait_obj in [WaitObj::Set, WaitObj::MutexCond] {
        let attr = CqAttr { wait_obj, ..CqAttr::default() };
        assert_eq!(Cq::<TestEndpoint>::open(&attr).unwrap_err(), Errno::EINVAL);
        let attr = CounterAttr { wait_obj, ..CounterAttr::default() };
        assert_eq!(Counter::<TestEndpoint>::open(&attr).unwrap_err(), Errno::EINVAL);
    }
    assert_eq!(cq(WaitObj::None).wait_fd(), Err(Errno::ENODATA));
    assert_eq!(counter(WaitObj::Unspec).wait_fd(), Err(Errno::ENODATA));
    assert!(cq(WaitObj::Fd).wait_fd().is_ok());
}

#[test]
fn a_counter_allows_sleep_only_when_its_values_were_read() {
    let counter = counter(WaitObj::Fd);
    assert_eq!(counter.try_wait(), Ok(true));
    counter.value().count(10);
    assert_eq!(counter.try_wait(), Ok(false), "one success that nobody has read");
    assert_eq!(counter.read(), 1);
    assert_eq!(counter.try_wait(), Ok(true));
    counter.value().count_error();
    assert_eq!(counter.read(), 1);
    assert_eq!(counter.try_wait(), Ok(false), "one error that nobody has read");
    assert_eq!(counter.read_error(), 1);
    assert_eq!(counter.try_wait(), Ok(true));
    // A change after that makes the descriptor readable.
    counter.set(1);
    // SAFETY: the counter keeps it open.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(counter.wait_fd().unwrap()) };
    assert_eq!(sleep_on(fd, Deadline::from_millis(0)), Ok(()));
    assert_eq!(counter.try_wait(), Ok(true));
    assert_eq!(sleep_on(fd, Deadline::from_millis(0)), Err(Errno::EAGAIN));
}

#[test]
fn a_wait_and_the_application_leave_each_other_the_signal() {
    let value = CounterValue::new(false, Some(Signal::new().unwrap()));
    let is_set = || sleep_on(value.signal().unwrap().as_fd(), Deadline::from_millis(0)).is_ok();
    let until = |threshold| Until { threshold, errors: 0 };
    assert_eq!(value.arm_waiter(until(1), (0, 0)), Next::Sleep);
    value.count(1);
    assert!(is_set());
    assert!(!value.arm_application((0, 0)) && is_set());
    assert!(value.arm_application((1, 0)) && is_set(), "the wait has not ended yet");
    value.waited();
    assert!(value.arm_application((1, 0)) && !is_set());

    value.count(1);
    assert_eq!(value.arm_waiter(until(3), (1, 0)), Next::Nap);
    assert!(is_set(), "the application has not read it yet");
    assert_eq!(value.arm_waiter(until(3), (2, 0)), Next::Sleep);
    assert!(!is_set());
    value.count_error();
    assert_eq!(value.arm_waiter(until(3), (2, 1)), Next::Look);
}

#[test]
fn an_interrupt_reaches_a_blocking_read_past_those_that_look() {
    let cq = cq(WaitObj::Fd);
    // SAFETY: the queue keeps it open.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(cq.wait_fd().unwrap()) };
    let is_set = || sleep_on(fd, Deadline::from_millis(0)).is_ok();
    cq.signal();
    assert!(is_set());
    assert!(cq.try_wait().unwrap() && !is_set(), "told once to those that poll");
    let reading = cq.interrupt().begin();
    assert!(cq.try_wait().unwrap() && is_set());
    assert!(reading.is_due() && reading.take() && !reading.take());
    assert!(cq.try_wait().unwrap() && !is_set());
}

#[test]
fn waits_end_by_value_error_and_deadline() {
    for wait_obj in [WaitObj::None, WaitObj::Fd] {
        let counter = counter(wait_obj);
        assert_eq!(counter.wait(0, 0), Ok(()));
        assert_eq!(counter.wait(1, 5), Err(Errno::ETIMEDOUT));
        thread::scope(|scope| {
            // Each waits for less than the next one.
            for threshold in 1..4 {
                let counter = &counter;
                scope.spawn(move || assert_eq!(counter.wait(threshold, -1), Ok(())));
            }
            for _ in 0..3 {
                thread::sleep(Duration::from_millis(2));
                counter.value().count(1);
            }
        });
        counter.add_error(1);
        assert_eq!(counter.wait(4, 0), Err(Errno::ETIMEDOUT), "an old error ends no wait");
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(5));
                counter.value().count_error();
            });
            assert_eq!(counter.wait(4, -1), Err(Errno::EAVAIL));
        });
    }
}

#[test]
fn counters_count_bytes_if_asked() {
    let attr = CounterAttr { events: CntrEvents::Bytes, ..CounterAttr::default() };
    let counter = Counter::<TestEndpoint>::open(&attr).unwrap();
    counter.value().count(10);
    counter.value().count(0);
    counter.add(5);
    assert_eq!((counter.read(), counter.read_error()), (15, 0));
}
