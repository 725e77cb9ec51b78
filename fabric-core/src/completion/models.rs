//! No wake-up is lost between whoever completes and whoever goes to sleep.

use loom::{sync::Arc, thread};

use super::{
    CompletionQueue, CounterValue, CqError, Entry, EntryBuf,
    counter::{Next, Until},
    interrupt::Interrupt,
};
use crate::{Errno, attr::CqFormat, flags::Flags, lock::SafeLock, wait::Signal};

type Queue = CompletionQueue<SafeLock>;

fn queue() -> Arc<Queue> {
    Arc::new(Queue::new(16, Some(Signal::new().unwrap())))
}

fn read_one(queue: &Queue) -> Result<usize, Errno> {
    let mut context = 0usize;
    let base = std::ptr::from_mut(&mut context).cast();
    // SAFETY: one entry of this format is one word.
    let mut out = unsafe { EntryBuf::new(base, CqFormat::Context, 1, std::ptr::null_mut()) };
    queue.read(&mut out).map(|_| context)
}

/// What a blocking read does.
fn sleep_for_one(queue: &Queue) -> Result<usize, Errno> {
    loop {
        match read_one(queue) {
            Err(Errno::EAGAIN) => {}
            done => return done,
        }
        if queue.arm() {
            queue.signal().unwrap().sleep();
        }
    }
}

fn push(queue: &Queue, context: usize) {
    queue.push(Entry::new(context, Flags::SEND));
}

#[test]
fn one_sleeper_hears_every_entry() {
    loom::model(|| {
        let queue = queue();
        let theirs = queue.clone();
        let pusher = thread::spawn(move || {
            push(&theirs, 1);
            push(&theirs, 2);
        });
        assert_eq!(sleep_for_one(&queue), Ok(1));
        assert_eq!(sleep_for_one(&queue), Ok(2));
        pusher.join().unwrap();
    });
}

#[test]
fn an_error_wakes_too() {
    loom::model(|| {
        let queue = queue();
        let theirs = queue.clone();
        let pusher = thread::spawn(move || {
            theirs.push_error(CqError::new(Entry::new(1, Flags::SEND), Errno::EIO));
        });
        assert_eq!(sleep_for_one(&queue), Err(Errno::EAVAIL));
        pusher.join().unwrap();
    });
}

#[test]
fn two_sleepers_share_two_entries() {
    bounded().check(|| {
        let queue = queue();
        let other = queue.clone();
        let sleeper = thread::spawn(move || sleep_for_one(&other).unwrap());
        let theirs = queue.clone();
        let pusher = thread::spawn(move || {
            push(&theirs, 1);
            push(&theirs, 2);
        });
        let mine = sleep_for_one(&queue).unwrap();
        assert_eq!(mine + sleeper.join().unwrap(), 3);
        pusher.join().unwrap();
    });
}

#[test]
fn an_interrupt_is_not_taken_by_who_looks_only() {
    bounded().check(|| {
        let shared = Arc::new((queue(), Interrupt::new()));
        let theirs = shared.clone();
        let raising = thread::spawn(move || {
            theirs.1.raise();
            theirs.0.signal().unwrap().set();
        });
        let theirs = shared.clone();
        let looking = thread::spawn(move || try_wait(&theirs));
        let reading = shared.1.begin();
        while !reading.take() {
            if try_wait(&shared) && !reading.is_due() {
                shared.0.signal().unwrap().sleep();
            }
        }
        drop(reading);
        raising.join().unwrap();
        looking.join().unwrap();
    });
}

/// What a queue without endpoints does.
fn try_wait((queue, interrupt): &(Arc<Queue>, Interrupt)) -> bool {
    let empty = queue.arm();
    if interrupt.is_owed() {
        queue.signal().unwrap().set();
    }
    empty
}

fn bounded() -> loom::model::Builder {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(2));
    model
}

fn counter() -> Arc<CounterValue> {
    Arc::new(CounterValue::new(false, Some(Signal::new().unwrap())))
}

fn wait_for(value: &CounterValue, threshold: u64) {
    while value.success() < threshold {
        if value.arm_waiter(Until { threshold, errors: 0 }, (0, 0)) == Next::Sleep {
            value.sleep();
        } else {
            thread::yield_now();
        }
        value.waited();
    }
}

#[test]
fn a_counter_wakes_its_sleeper() {
    loom::model(|| {
        let value = counter();
        let theirs = value.clone();
        let counting = thread::spawn(move || {
            theirs.count(1);
            theirs.count(1);
        });
        wait_for(&value, 2);
        counting.join().unwrap();
    });
}

#[test]
fn a_wait_ends_while_the_application_looks() {
    bounded().check(|| {
        let value = counter();
        let theirs = value.clone();
        let counting = thread::spawn(move || theirs.count(1));
        let theirs = value.clone();
        let looking = thread::spawn(move || {
            let seen = theirs.success();
            theirs.arm_application((seen, 0))
        });
        wait_for(&value, 1);
        counting.join().unwrap();
        looking.join().unwrap();
    });
}

#[test]
fn the_application_is_woken_beside_a_wait() {
    bounded().check(|| {
        let value = counter();
        let theirs = value.clone();
        let counting = thread::spawn(move || theirs.count(1));
        let theirs = value.clone();
        // Not enough for this one, who goes to sleep.
        let waiting = thread::spawn(move || {
            theirs.arm_waiter(Until { threshold: 2, errors: 0 }, (0, 0));
        });
        if value.arm_application((0, 0)) {
            value.sleep();
        }
        assert_eq!(value.success(), 1);
        counting.join().unwrap();
        waiting.join().unwrap();
    });
}
