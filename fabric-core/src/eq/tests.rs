use super::*;
use crate::attr::Info;

const NONE: Flags = Flags::empty();

fn open(flags: Flags) -> Arc<EventQueue> {
    EventQueue::open(&EqAttr { size: usize::MAX, flags, ..EqAttr::default() }).unwrap()
}

fn done(object: usize) -> Event {
    Event::AvComplete(ControlEvent { object, context: 7, data: 3 })
}

fn request(object: usize, handle: RequestHandle) -> Event {
    Event::ConnectionRequest { object, info: Arc::new(Info::default()), handle, data: vec![1] }
}

#[test]
fn one_event_per_read_in_order() {
    let eq = open(NONE);
    assert_eq!(eq.read(NONE).unwrap_err(), Errno::EAGAIN);
    eq.push(Event::Shutdown { object: 1 });
    eq.push(done(2));
    assert_eq!(eq.read(Flags::PEEK).unwrap().number(), 3);
    assert_eq!(eq.read(NONE).unwrap().number(), 3);
    assert!(!eq.is_empty());
    let event = eq.read(NONE).unwrap();
    assert_eq!((event.number(), event.object()), (5, Some(2)));
    assert!(eq.is_empty());
    assert_eq!(eq.read(Flags::PEEK).unwrap_err(), Errno::EAGAIN);
    assert_eq!(eq.read(Flags::MORE).unwrap_err(), Errno::EBADFLAGS);
}

#[test]
fn an_error_stops_events_behind_it() {
    let eq = open(NONE);
    let refused = ErrorEvent {
        err_data: Arc::from(*b"go away"),
        ..ErrorEvent::new(1, 9, Errno::ECONNREFUSED)
    };
    eq.push(done(1));
    eq.push_error(refused.clone());
    eq.push(done(2));
    assert_eq!(eq.read_error(NONE), Err(Errno::EAGAIN), "an event comes first");
    eq.read(NONE).unwrap();
    assert_eq!(eq.read(NONE).unwrap_err(), Errno::EAVAIL);
    assert_eq!(eq.read(Flags::PEEK).unwrap_err(), Errno::EAVAIL);
    assert_eq!(eq.read_error(Flags::PEEK), Ok(refused.clone()));
    assert_eq!(eq.read_error(Flags::TRIGGER), Err(Errno::EBADFLAGS));
    assert_eq!(eq.read_error(NONE), Ok(refused));
    assert_eq!(eq.read_error(NONE), Err(Errno::EAGAIN));
    assert_eq!(eq.read(NONE).unwrap().object(), Some(2));
}

#[test]
fn application_events() {
    assert_eq!(open(NONE).write(100, b"x", NONE), Err(Errno::EINVAL));
    let attr = EqAttr { flags: Flags::PEEK, ..EqAttr::default() };
    assert_eq!(EventQueue::open(&attr).unwrap_err(), Errno::EBADFLAGS);
    let eq = open(Flags::WRITE);
    assert_eq!(eq.write(u32::MAX, b"xyz", NONE), Ok(3));
    assert_eq!(eq.write(0, b"", NONE), Ok(0));
    assert_eq!(eq.write(0, b"", Flags::PEEK), Err(Errno::EBADFLAGS));
    let Ok(Event::Raw { event: u32::MAX, data }) = eq.read(NONE) else { panic!() };
    assert_eq!(data, b"xyz");
    assert_eq!(eq.read(NONE).unwrap().number(), 0);
}

#[test]
fn grows_beyond_its_size() {
    let eq = EventQueue::open(&EqAttr { size: 1, ..EqAttr::default() }).unwrap();
    for object in 0..5000 {
        eq.push(done(object));
    }
    for object in 0..5000 {
        assert_eq!(eq.read(NONE).unwrap().object(), Some(object));
    }
}

#[test]
fn closed_objects_are_forgotten() {
    let eq = open(Flags::WRITE);
    eq.push(done(1));
    eq.push(done(2));
    eq.push_error(ErrorEvent::new(1, 0, Errno::EIO));
    eq.push(Event::Connected { object: 1, data: vec![] });
    eq.write(2, b"mine", NONE).unwrap();
    assert_eq!((eq.pending(1), eq.pending(2)), (3, 1));
    eq.forget(1);
    assert_eq!((eq.pending(1), eq.pending(2)), (0, 1));
    assert_eq!(eq.read(NONE).unwrap().object(), Some(2));
    assert!(matches!(eq.read(NONE), Ok(Event::Raw { event: 2, .. })));
    eq.push(done(3));
    eq.forget(3);
    assert!(eq.is_empty());
}

/// A request that is dropped tells the queue about it.
struct Talkative(Arc<EventQueue>);

impl Drop for Talkative {
    fn drop(&mut self) {
        self.0.push(done(99));
    }
}

#[test]
fn dropped_requests_may_queue_events() {
    let eq = open(NONE);
    eq.push(request(1, Arc::new(Talkative(eq.clone()))));
    let peeked = eq.read(Flags::PEEK).unwrap();
    eq.forget(1);
    assert!(eq.is_empty(), "somebody still holds the request");
    drop(peeked);
    assert_eq!(eq.read(NONE).unwrap().object(), Some(99));

    eq.push(request(1, Arc::new(Talkative(eq.clone()))));
    eq.close().unwrap();
    assert!(eq.is_empty(), "nothing is queued after the end");
}

#[test]
fn busy_while_bound() {
    let eq = open(NONE);
    let bound = eq.bind().unwrap();
    assert_eq!(eq.close(), Err(Errno::EBUSY));
    bound.push(done(1));
    assert!(eq.read(NONE).is_ok(), "still usable");
    drop(bound);
    assert_eq!(eq.close(), Ok(()));
    assert_eq!(eq.bind().unwrap_err(), Errno::EINVAL);
}

#[test]
fn readers_and_writers_on_two_threads() {
    const EVENTS: usize = if cfg!(miri) { 50 } else { 2000 };
    let eq = open(NONE);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..EVENTS).for_each(|object| eq.push(done(object))));
        let mut next = 0;
        while next < EVENTS {
            match eq.read(NONE) {
                Ok(event) => {
                    assert_eq!(event.object(), Some(next));
                    next += 1;
                }
                Err(e) => {
                    assert_eq!(e, Errno::EAGAIN);
                    std::thread::yield_now();
                }
            }
        }
    });
}
