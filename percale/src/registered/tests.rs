//! Operations where a device has to know memory: over shared memory, with a device that takes notes.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fabric_core::mr::{MrRequest, Registered, Registrar};

use super::*;
use crate::{Access, Domain, Endpoint, Error, Fabric, Peer, buf::Buf, dispatch::Any};

/// A device: what it knows, by descriptor.
#[derive(Clone, Debug, Default)]
struct Device(Arc<Notes>);

#[derive(Debug, Default)]
struct Notes {
    known: Mutex<HashMap<usize, (usize, usize)>>,
    registrations: AtomicUsize,
    refuses: AtomicBool,
}

struct Hold(Arc<Notes>, usize);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.known.lock().unwrap().remove(&self.1);
    }
}

impl Registrar for Device {
    fn register(&self, request: &MrRequest<'_>) -> Result<Registered, Errno> {
        if self.0.refuses.load(Ordering::Relaxed) {
            return Err(Errno::ENOMEM);
        }
        let descriptor = self.0.registrations.fetch_add(1, Ordering::Relaxed) + 7;
        let [memory] = request.iov else { return Err(Errno::EINVAL) };
        self.known().insert(descriptor, (memory.base.addr(), memory.len));
        let hold = Box::new(Hold(self.0.clone(), descriptor));
        Ok(Registered { key: descriptor as u64, descriptor, hold })
    }
}

impl Device {
    fn known(&self) -> MutexGuard<'_, HashMap<usize, (usize, usize)>> {
        self.0.known.lock().unwrap()
    }

    fn registrations(&self) -> usize {
        self.0.registrations.load(Ordering::Relaxed)
    }

    /// Whether it knows all of the memory by this descriptor.
    fn knows(&self, descriptor: usize, memory: IoVec) -> bool {
        self.known().get(&descriptor).is_some_and(|(base, len)| {
            (*base..=base + len).contains(&memory.base.addr())
                && memory.base.addr() + memory.len <= base + len
        })
    }
}

struct Bench {
    device: Device,
    domain: Domain,
    one: Endpoint,
    two: Endpoint,
    peer: Peer,
}

impl Bench {
    fn new() -> Self {
        let device = Device::default();
        let domain =
            Fabric::loopback().unwrap().builder::<Any>().on(device.clone()).open().unwrap();
        let (one, two) = (domain.endpoint().unwrap(), domain.endpoint().unwrap());
        let peer = domain.peer(&two.address().unwrap()).unwrap();
        Self { device, domain, one, two, peer }
    }

    /// How a request's memory is known.
    fn known(&self, request: &mut Request) -> Option<Known> {
        let known = Known::of(self.domain.inner().pool(), request, 16).unwrap();
        let (memory, ..) = request.memory().unwrap();
        if request.descriptor() != 0 {
            assert!(self.device.knows(request.descriptor(), memory), "{request:?}");
        }
        known
    }
}

#[test]
fn what_the_device_is_told_of() {
    let bench = Bench::new();
    let send = |len: usize| Request::send(0, &vec![1u8; len], None);
    for inline in [0, 1, 16] {
        let mut request = send(inline);
        assert!(bench.known(&mut request).is_none() && request.descriptor() == 0, "{inline}");
    }
    for (len, registrations) in [(17, 1), (1024, 1), (1025, 2), (PLACE_MOST, 3)] {
        let text = vec![7u8; len];
        let mut request = Request::send(0, &text, None);
        let known = bench.known(&mut request).expect("a place");
        let Known::Copied { place, home: None } = &known else { panic!("{known:?}") };
        // SAFETY: the place has room for at least as much, and is this one's.
        assert_eq!(unsafe { core::slice::from_raw_parts(place.base(), len) }, text);
        assert_eq!(bench.device.registrations(), registrations, "{len}");
    }
    // A read or a receive, however short, is never inline.
    let mut room = vec![0u8; 1];
    let mut request = Request::receive(None, &mut room, None);
    assert!(matches!(bench.known(&mut request), Some(Known::Copied { home: Some(_), .. })));
    let long = vec![0u8; PLACE_MOST + 1];
    let before = bench.device.known().len();
    let known = bench.known(&mut Request::send(0, &long, None));
    assert!(matches!(known, Some(Known::Registered(_))));
    assert_eq!(bench.device.known().len(), before + 1);
    drop(known);
    assert_eq!(bench.device.known().len(), before);
}

#[test]
fn memory_of_the_domain_is_told_of_once() {
    let bench = Bench::new();
    let buffer = bench.domain.buffer(500_000).unwrap();
    let region = bench.domain.region(100_000, Access::ReadWrite).unwrap();
    let part = region.part(1000, 90_000).unwrap();
    let before = bench.device.registrations();
    for mut request in [Request::send(0, &buffer, None), Request::send(0, &part, None)] {
        assert!(bench.known(&mut request).is_none());
        assert_ne!(request.descriptor(), 0);
    }
    assert_eq!(bench.device.registrations(), before);
    // Of another domain it is memory like any other.
    let known = Bench::new().known(&mut Request::send(0, &buffer, None));
    assert!(matches!(known, Some(Known::Registered(_))));
    drop((buffer, region));
    assert!(bench.device.knows(descriptor_of(&part), IoVec { len: 1, ..bench_memory(&part) }));
    drop(part);
    assert!(bench.device.known().is_empty());
}

fn descriptor_of(buffer: &impl Buf) -> usize {
    buffer.piece().mark().descriptor()
}

fn bench_memory(buffer: &impl Buf) -> IoVec {
    IoVec { base: buffer.piece().base(), len: buffer.piece().len() }
}

/// Bytes of every size arrive, from and in every kind of buffer; afterwards the device knows the pool
/// and nothing else.
#[test]
fn messages_of_every_size() {
    let Bench { device, domain, one, two, peer } = Bench::new();
    for len in [0usize, 1, 100, 1024, 1025, 8192, 60_000, PLACE_MOST, PLACE_MOST + 1, 300_000] {
        let text: Vec<u8> = (0..len).map(|at| (at * 7 + 1) as u8).collect();
        let receive = two.recv(Vec::<u8>::with_capacity(len));
        assert_eq!(one.send(peer, text.clone()).wait().unwrap(), text);
        assert_eq!(receive.wait().unwrap().buffer, text);

        let receive = two.recv_tagged(len as u64, domain.buffer(len).unwrap());
        let mut buffer = domain.buffer(len).unwrap();
        buffer.copy_from_slice(&text);
        one.send_tagged(peer, len as u64, buffer).wait().unwrap();
        assert_eq!(&receive.wait().unwrap().buffer[..], text);

        let mut room = vec![0u8; len];
        two.scope(|scope| {
            let receive = scope.recv(&mut room);
            one.scope(|scope| scope.send(peer, &text).wait()).unwrap();
            assert_eq!(receive.wait().unwrap(), len);
        });
        assert_eq!(room, text);
    }
    drop((one, two, domain));
    assert!(device.known().is_empty(), "{:?}", device.known());
}

#[test]
fn reads_and_writes_use_places_too() {
    let Bench { domain, one, .. } = Bench::new();
    let theirs = Fabric::loopback().unwrap().domain().unwrap();
    let target = theirs.endpoint().unwrap();
    let region = theirs.region(200_000, Access::ReadWrite).unwrap();
    let peer = domain.peer(&target.address().unwrap()).unwrap();
    for len in [10usize, 5000, 150_000] {
        let text: Vec<u8> = (0..len).map(|at| (at * 3) as u8).collect();
        let remote = region.remote().slice(9, len).unwrap();
        let done = |late: bool| assert!(!late, "{len} bytes take too long");
        let mut write = one.to(peer).delivered().write(remote, text.clone());
        let mut patience = 1000;
        while let Err(late) = write.wait_timeout(Duration::from_millis(10)) {
            target.progress();
            write = late;
            patience -= 1;
            done(patience == 0);
        }
        assert_eq!(region.view().slice(9, len).to_vec(), text);
        let mut read = one.read(peer, remote, vec![0u8; len]);
        loop {
            match read.wait_timeout(Duration::from_millis(10)) {
                Ok(bytes) => break assert_eq!(bytes.unwrap(), text),
                Err(late) => read = late,
            }
            target.progress();
            patience -= 1;
            done(patience == 0);
        }
    }
}

#[test]
fn a_message_that_is_too_long_fills_the_buffer() {
    let Bench { one, two, peer, .. } = Bench::new();
    let receive = two.recv(vec![0u8; 10].into_boxed_slice());
    one.send(peer, "longer than ten").detach();
    let failure = receive.wait().unwrap_err();
    assert!(matches!(failure.error, Error::Truncated { len: 10, missing: 5 }), "{failure:?}");
    assert_eq!(&*failure.buffer, b"longer tha");
}

/// Neither a dropped operation nor a closed endpoint leaves a registration behind, and while an
/// operation lasts it has its own.
#[test]
fn registrations_last_as_long_as_operations() {
    let Bench { device, domain, one, two, .. } = Bench::new();
    let long = || Vec::<u8>::with_capacity(PLACE_MOST + 1);
    drop(two.recv(long()));
    two.progress();
    assert!(device.known().is_empty(), "{:?}", device.known());
    let (kept, detached) = (two.recv(long()), two.recv(long()));
    detached.detach();
    assert_eq!(device.known().len(), 2);
    two.close();
    assert!(kept.wait().is_err());
    assert!(device.known().is_empty(), "{:?}", device.known());
    drop((one, domain));
}

#[test]
fn memory_that_is_refused_fails_its_operation() {
    let Bench { device, one, two, peer, .. } = Bench::new();
    device.0.refuses.store(true, Ordering::Relaxed);
    for len in [5000, 500_000] {
        let failure = two.recv(vec![3u8; len]).wait().unwrap_err();
        assert_eq!(failure.error.errno(), Errno::ENOMEM);
        assert_eq!(failure.buffer, vec![3u8; len]);
    }
    assert_eq!((one.operations(), two.operations()), (0, 0));
    device.0.refuses.store(false, Ordering::Relaxed);
    let receive = two.recv(vec![0u8; 5000]);
    one.send(peer, vec![1u8; 5000]).wait().unwrap();
    assert_eq!(receive.wait().unwrap().len, 5000);
}

/// What the pool has no place for is registered by itself; places come back.
#[test]
fn a_pool_has_a_bound() {
    let Bench { device, domain, .. } = Bench::new();
    let buffers: Vec<_> = (0..1100).map(|_| domain.buffer(PLACE_MOST).unwrap()).collect();
    // 64 MiB in 256 chunks of four places; the others are memory of their own.
    assert_eq!(device.known().len(), 256 + 1100 - 1024);
    drop(buffers);
    assert_eq!(device.known().len(), 256);
    let again = domain.buffer(PLACE_MOST).unwrap();
    assert_eq!((again.capacity(), device.known().len()), (PLACE_MOST, 256));
}
