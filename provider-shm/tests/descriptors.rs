//! A process without descriptors left. One test, since the limit is the process's.

use std::{fs::File, os::fd::BorrowedFd};

use fabric_core::{
    Errno,
    attr::Info,
    wait::{Deadline, sleep_on},
    wire::{Event, Head, Source, Wire, WireRx, WireTx},
};
use provider_shm::{
    ShmWire,
    address::{socket_address, unique},
    link::Link,
    listener::Listener,
};
use rustix::process::{Resource, getrlimit, setrlimit};

fn open() -> ShmWire {
    let mut wire = ShmWire::open(&Info::default()).unwrap();
    wire.enable(true).unwrap();
    wire
}

/// Sends to `name`; `len` decides which ring it goes through.
fn send(from: &mut ShmWire, name: &[u8], a: u64, len: usize) {
    let peer = from.peer(name).unwrap();
    from.tx().grow(peer, len);
    let head = Head { op: 1, flags: 0, a, b: 0 };
    from.tx().try_emit(peer, head, &Source::fixed(&vec![0; len])).unwrap();
}

fn received(wire: &mut ShmWire) -> Vec<u64> {
    let mut words = Vec::new();
    for _ in 0..4 {
        while let Some(event) = wire.poll_event(true) {
            assert!(!matches!(event, Event::Down(..)), "{event:?}");
        }
        let rx = wire.split().1;
        while let Some(peer) = rx.next_ready() {
            while let Some(packet) = rx.peek(peer).unwrap() {
                words.push(packet.head.a);
                rx.consume(peer);
            }
        }
    }
    words
}

#[test]
fn whoever_needs_a_descriptor_waits_for_one_and_nothing_is_lost() {
    let address = socket_address(&unique().unwrap()).unwrap();
    let listener = Listener::open(&address).unwrap();
    let _caller = Link::connect(&address).unwrap();
    let met = listener.accept().unwrap().unwrap();
    let waiting = Link::connect(&address).unwrap();
    let (mut host, mut busy, mut first, mut second) = (open(), open(), open(), open());
    let name = host.name().to_vec();
    send(&mut busy, &name, 1, 8);
    assert_eq!(received(&mut host), [1]);
    // All that these have to say is on its way now.
    send(&mut busy, &name, 2, 8000);
    send(&mut first, &name, 3, 8);
    send(&mut second, &name, 4, 8);

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).unwrap();
    let fill: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert_eq!(listener.accept().unwrap_err(), Errno::EMFILE);
    assert!(waiting.is_alive());
    assert_eq!(met.find_process(), Err(Errno::EMFILE));

    let mut words = received(&mut host);
    words.sort_unstable();
    assert_eq!(words, [2, 3], "of newcomers, one is let in");
    assert!(host.arm(&[]));
    let wait_fd = host.wait_fd().unwrap();
    // SAFETY: the host keeps its descriptor open.
    let wait_fd = unsafe { BorrowedFd::borrow_raw(wait_fd) };
    let looks_again = sleep_on(wait_fd, Deadline::from_millis(5000));
    assert_eq!(looks_again, Ok(()), "nobody tells of a free descriptor");
    assert_eq!(received(&mut host), []);

    drop(fill);
    assert!(listener.accept().unwrap().is_some());
    assert_eq!(met.find_process().map(|()| met.process().is_some()), Ok(true));
    assert_eq!(received(&mut host), [4]);
    assert!(host.arm(&[]));
}
