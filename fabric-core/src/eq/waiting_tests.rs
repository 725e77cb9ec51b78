//! Driving what is bound, and sleeping on it.

use std::{
    os::fd::AsRawFd,
    sync::{OnceLock, atomic::AtomicBool},
    thread,
    time::Duration,
};

use super::*;
use crate::wait::Signal;

const NONE: Flags = Flags::empty();
const SHUTDOWN: Event = Event::Shutdown { object: 1 };

fn open(wait_obj: WaitObj) -> Arc<EventQueue> {
    EventQueue::open(&EqAttr { wait_obj, ..EqAttr::default() }).unwrap()
}

fn readable(eq: &EventQueue) -> bool {
    let wait = eq.driven.wait_set().unwrap();
    sleep_on(wait.as_fd(), Deadline::from_millis(0)).is_ok()
}

/// A socket that brings one event each time it is readable.
struct Socket {
    eq: Arc<EventQueue>,
    bound: OnceLock<BoundEq>,
    signal: Signal,
    driven: AtomicUsize,
    /// Has something in hand that no descriptor tells of.
    busy: AtomicBool,
}

impl Socket {
    fn new(eq: &Arc<EventQueue>) -> Arc<Self> {
        Arc::new(Self {
            eq: eq.clone(),
            bound: OnceLock::new(),
            signal: Signal::new().unwrap(),
            driven: AtomicUsize::new(0),
            busy: AtomicBool::new(false),
        })
    }

    fn bind(self: &Arc<Self>) -> BoundEq {
        let object: Weak<dyn Drive> = Arc::<Self>::downgrade(self);
        self.eq.bind_driven(object).unwrap()
    }
}

impl Drive for Socket {
    fn drive(&self) {
        self.driven.fetch_add(1, Ordering::Relaxed);
        let busy = self.busy.swap(false, Ordering::Relaxed);
        let ready = sleep_on(self.signal.as_fd(), Deadline::from_millis(0)).is_ok();
        if ready || busy {
            self.signal.clear();
            self.eq.push(SHUTDOWN);
        }
    }

    fn arm(&self) -> Result<bool> {
        Ok(!self.busy.load(Ordering::Relaxed))
    }

    fn wait_fd(&self) -> Result<RawFd> {
        Ok(self.signal.as_fd().as_raw_fd())
    }
}

#[test]
fn reading_an_empty_queue_drives() {
    let eq = open(WaitObj::None);
    let socket = Socket::new(&eq);
    let (first, second) = (socket.bind(), socket.bind());
    assert_eq!(eq.read(NONE).unwrap_err(), Errno::EAGAIN);
    assert_eq!(socket.driven.load(Ordering::Relaxed), 1, "bound twice, driven once");
    socket.signal.set();
    assert_eq!(eq.read(Flags::PEEK).unwrap().number(), 3);
    assert_eq!(eq.read(NONE).unwrap().number(), 3);
    assert_eq!(socket.driven.load(Ordering::Relaxed), 2, "what is there need not be fetched");
    drop(first);
    assert_eq!(eq.read(NONE).unwrap_err(), Errno::EAGAIN);
    assert_eq!(socket.driven.load(Ordering::Relaxed), 3, "still bound once");
    drop(second);
    assert_eq!(eq.read(NONE).unwrap_err(), Errno::EAGAIN);
    assert_eq!(socket.driven.load(Ordering::Relaxed), 3);
    assert_eq!(eq.close(), Ok(()));
}

#[test]
fn the_descriptor_tells_of_events_and_of_what_is_bound() {
    assert_eq!(open(WaitObj::None).wait_fd(), Err(Errno::ENODATA));
    assert_eq!(open(WaitObj::Yield).wait_fd(), Err(Errno::ENODATA));
    assert_eq!(open(WaitObj::Unspec).wait_fd(), Err(Errno::ENODATA));
    let attr = EqAttr { wait_obj: WaitObj::Set, ..EqAttr::default() };
    assert_eq!(EventQueue::open(&attr).unwrap_err(), Errno::EINVAL);

    let eq = open(WaitObj::Fd);
    assert!(eq.wait_fd().is_ok());
    let socket = Socket::new(&eq);
    let bound = socket.bind();
    assert_eq!((eq.try_wait(), readable(&eq)), (Ok(true), false));
    socket.signal.set();
    assert!(readable(&eq));
    assert_eq!(eq.try_wait(), Ok(false));
    assert!(readable(&eq), "by the event that has come of it");
    eq.read(NONE).unwrap();
    assert!(!readable(&eq));
    socket.busy.store(true, Ordering::Relaxed);
    assert_eq!(eq.try_wait(), Ok(false));
    eq.forget(1);
    assert_eq!((eq.try_wait(), readable(&eq)), (Ok(true), false));
    drop(bound);
    socket.signal.set();
    assert!(!readable(&eq));
}

#[test]
fn blocking_reads() {
    assert_eq!(open(WaitObj::None).read_blocking(NONE, 0).unwrap_err(), Errno::ENOSYS);
    for wait_obj in [WaitObj::Yield, WaitObj::Unspec, WaitObj::PollFd] {
        let eq = open(wait_obj);
        let socket = Socket::new(&eq);
        let _bound = socket.bind();
        assert_eq!(eq.read_blocking(NONE, 0).unwrap_err(), Errno::EAGAIN);
        assert_eq!(eq.read_blocking(NONE, 5).unwrap_err(), Errno::EAGAIN);
        let soon = |act: &(dyn Fn() + Sync)| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(5));
                    act();
                });
                eq.read_blocking(NONE, -1)
            })
        };
        assert_eq!(soon(&|| socket.signal.set()).unwrap().number(), 3);
        let failure = || eq.push_error(ErrorEvent::new(1, 0, Errno::EIO));
        assert_eq!(soon(&failure).unwrap_err(), Errno::EAVAIL);
    }
}

/// What one sleeper leaves behind wakes the next.
#[test]
fn no_sleeper_misses_an_event() {
    const EVENTS: usize = if cfg!(miri) { 20 } else { 500 };
    let eq = open(WaitObj::Unspec);
    thread::scope(|scope| {
        let readers = [(); 3].map(|()| {
            scope.spawn(|| {
                let mut count = 0;
                while !matches!(eq.read_blocking(NONE, -1), Ok(Event::Notify(_))) {
                    count += 1;
                }
                count
            })
        });
        (0..EVENTS).for_each(|_| eq.push(SHUTDOWN));
        let end = ControlEvent { object: 1, context: 0, data: 0 };
        readers.iter().for_each(|_| eq.push(Event::Notify(end)));
        let read: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert_eq!(read, EVENTS);
    });
}

#[test]
fn a_refused_event_stays() {
    let eq = open(WaitObj::None);
    eq.push(SHUTDOWN);
    let refused = eq.read_with(NONE, |_| Err::<(), _>(Errno::ETOOSMALL));
    assert_eq!(refused, Err(Errno::ETOOSMALL));
    assert_eq!(eq.read_with(NONE, |event| Ok(event.number())), Ok(3));
    assert!(eq.is_empty());
}

#[test]
fn objects_may_end_before_they_are_released() {
    let eq = open(WaitObj::Fd);
    let socket = Socket::new(&eq);
    let bound = socket.bind();
    drop(socket);
    assert_eq!(eq.read(NONE).unwrap_err(), Errno::EAGAIN);
    assert_eq!(eq.try_wait(), Ok(true));
    drop(bound);

    let owner = Socket::new(&eq);
    owner.bound.set(owner.bind()).unwrap();
    drop(owner);
    assert_eq!(eq.close(), Ok(()));
}
