//! The table against a model that knows every registered byte.

use core::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;

const REMOTE: Flags = Flags::REMOTE_READ.union(Flags::REMOTE_WRITE);

fn piece(base: usize, len: usize) -> IoVec {
    IoVec { base: core::ptr::without_provenance_mut(base), len }
}

fn request(iov: &[IoVec], requested_key: u64) -> MrRequest<'_> {
    MrRequest { iov, access: REMOTE, requested_key, offset: 0, flags: Flags::empty(), context: 7 }
}

fn pieces(resolved: &Resolved) -> Vec<(usize, usize)> {
    resolved.pieces().iter().map(|p| (p.base as usize, p.len)).collect()
}

#[test]
fn application_keys() {
    let table = MrTable::new(MrMode::empty());
    let iov = [piece(0x1000, 16)];
    let region = table.register(&request(&iov, u64::MAX - 1)).unwrap();
    assert_eq!((region.key(), region.context(), table.len()), (u64::MAX - 1, 7, 1));
    assert_eq!(table.register(&request(&iov, u64::MAX - 1)).unwrap_err(), Errno::ENOKEY);
    assert_eq!(table.register(&request(&iov, u64::MAX)).unwrap_err(), Errno::EKEYREJECTED);

    table.close(&region).unwrap();
    assert_eq!(table.resolve(region.key(), 0, 1, REMOTE).unwrap_err(), Errno::ENOKEY);
    let successor = table.register(&request(&iov, u64::MAX - 1)).unwrap();
    assert_eq!(table.close(&region), Err(Errno::EINVAL), "its successor stays");
    assert!(table.resolve(successor.key(), 0, 16, REMOTE).is_ok());
    assert_eq!(MrTable::new(MrMode::empty()).close(&successor), Err(Errno::EINVAL));
}

#[test]
fn provider_keys_are_unlike_each_other() {
    for mode in [MrMode::PROV_KEY, MrMode::BASIC] {
        let table = MrTable::new(mode);
        let iov = [piece(0x1000, 16)];
        let keys: std::collections::HashSet<u64> =
            (0..64).map(|_| table.register(&request(&iov, 1)).unwrap().key()).collect();
        assert_eq!((keys.len(), table.len()), (64, 64));
        assert!(keys.iter().fold(0, |all, key| all | key) >> 56 != 0, "keys use all 64 bits");
    }
}

#[test]
fn pieces_up_to_the_limit() {
    let iov = [piece(0x1000, 16); IOV_LIMIT + 1];
    for (limit, most) in [(0, IOV_LIMIT), (1, 1), (3, 3), (9, IOV_LIMIT)] {
        let table = MrTable::new(MrMode::empty()).limited_to(limit);
        assert!(table.register(&request(&iov[..most], 1)).is_ok());
        assert_eq!(table.register(&request(&iov[..=most], 2)).unwrap_err(), Errno::EINVAL);
    }
}

#[test]
fn refused_registrations() {
    let table = MrTable::new(MrMode::empty());
    let refused = |change: &dyn Fn(&mut MrRequest<'_>)| {
        let iov = [piece(0x1000, 16)];
        let mut request = request(&iov, 1);
        change(&mut request);
        table.register(&request).unwrap_err()
    };
    assert_eq!(refused(&|r| r.iov = &[]), Errno::EINVAL);
    assert_eq!(refused(&|r| r.iov = &[IoVec::EMPTY; 5]), Errno::EINVAL);
    assert_eq!(refused(&|r| r.offset = 1), Errno::EINVAL);
    assert_eq!(refused(&|r| r.access = Flags::MSG), Errno::EINVAL);
    assert_eq!(refused(&|r| r.flags = Flags::AV_USER_ID), Errno::EBADFLAGS);
    let wrapping = [piece(1, usize::MAX)];
    assert_eq!(table.register(&request(&wrapping, 1)).unwrap_err(), Errno::EINVAL);
    let null = [piece(0x1000, 16), piece(0, 100)];
    assert_eq!(table.register(&request(&null, 1)).unwrap_err(), Errno::EINVAL);
    let endless = [piece(0, usize::MAX), piece(0, 1)];
    assert_eq!(table.register(&request(&endless, 1)).unwrap_err(), Errno::EINVAL);
    assert!(table.is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "asks the kernel")]
fn everything() {
    for mode in [MrMode::empty(), MrMode::VIRT_ADDR] {
        let table = MrTable::new(mode);
        table.register(&request(&[piece(0, usize::MAX)], 3)).unwrap();
        let at = |addr, len| table.resolve(3, addr, len, REMOTE).map(|r| pieces(&r));
        let memory = [0u8; 99];
        let here = memory.as_ptr() as usize;
        assert_eq!(at(here as u64, 99), Ok(vec![(here, 99)]));
        assert_eq!(at(0, u64::MAX), Err(Errno::EFAULT));
        assert_eq!(at(0, 8), Err(Errno::EFAULT));
        assert_eq!(at(64, 8), Err(Errno::EFAULT));
        assert_eq!(at(u64::MAX, 0), Ok(vec![]));
        assert_eq!(at(u64::MAX, 1), Err(Errno::EINVAL));
        assert_eq!(at(2, u64::MAX), Err(Errno::EINVAL));
    }
}

#[test]
fn access_is_checked_before_range() {
    let table = MrTable::new(MrMode::empty());
    let iov = [piece(0x1000, 16)];
    let only_read = MrRequest { access: Flags::REMOTE_READ | Flags::SEND, ..request(&iov, 1) };
    table.register(&only_read).unwrap();
    assert!(table.resolve(1, 0, 16, Flags::REMOTE_READ).is_ok());
    assert_eq!(table.resolve(1, 99, 1, Flags::REMOTE_WRITE).unwrap_err(), Errno::EACCES);
    assert_eq!(table.resolve(1, 0, 0, REMOTE).unwrap_err(), Errno::EACCES);
    assert_eq!(table.resolve(1, 16, 1, Flags::REMOTE_READ).unwrap_err(), Errno::EINVAL);
}

#[test]
fn virtual_addresses_do_not_reach_between_pieces() {
    let table = MrTable::new(MrMode::VIRT_ADDR);
    let iov = [piece(0x3000, 8), piece(0x1000, 8), piece(0x3008, 8)];
    let region = table.register(&request(&iov, 1)).unwrap();
    let at = |addr, len| table.resolve(1, addr, len, REMOTE).map(|r| pieces(&r));
    assert_eq!(at(0x3004, 8), Ok(vec![(0x3004, 4), (0x3008, 4)]));
    assert_eq!(at(0x1000, 8), Ok(vec![(0x1000, 8)]));
    assert_eq!(at(0x1000, 9), Err(Errno::EINVAL));
    assert_eq!(at(0x2000, 1), Err(Errno::EINVAL));
    assert_eq!(region.raw_attr(), (0x3000, [1, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(region.refresh(&[piece(0x1000, 8), piece(0x3000, 16)]), Ok(()));
    assert_eq!(region.refresh(&[piece(0x1001, 8)]), Err(Errno::EINVAL));
}

#[derive(Debug, Default)]
struct Tally(AtomicU64);

impl RemoteWriteEvent for Tally {
    fn count(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[test]
fn regions_with_events() {
    let table = MrTable::new(MrMode::RMA_EVENT);
    let iov = [piece(0x1000, 16)];
    let tally = Arc::new(Tally::default());

    let plain = table.register(&request(&iov, 1)).unwrap();
    assert!(table.resolve(1, 0, 1, REMOTE).is_ok(), "no events, nothing to wait for");
    assert_eq!(plain.bind_events(tally.clone()), Err(Errno::EINVAL));

    let announced = MrRequest { flags: Flags::RMA_EVENT, ..request(&iov, 2) };
    let counted = table.register(&announced).unwrap();
    assert_eq!(table.resolve(2, 0, 1, REMOTE).unwrap_err(), Errno::ENOKEY);
    counted.bind_events(tally.clone()).unwrap();
    assert_eq!(counted.bind_events(tally.clone()), Err(Errno::EINVAL));
    counted.enable().unwrap();
    assert_eq!(counted.bind_events(tally.clone()), Err(Errno::EOPBADSTATE));

    table.resolve(2, 0, 4, Flags::REMOTE_WRITE).unwrap().complete_write(4);
    table.resolve(2, 0, 4, Flags::REMOTE_READ).unwrap().complete_write(4);
    assert_eq!(tally.0.load(Ordering::Relaxed), 4);

    table.close(&counted).unwrap();
    drop(counted);
    assert_eq!(Arc::strong_count(&tally), 1, "a closed region lets its counter go");
}

#[test]
fn regions_bound_to_endpoints() {
    let table = MrTable::new(MrMode::ENDPOINT);
    let region = table.register(&request(&[piece(0x1000, 16)], 1)).unwrap();
    assert_eq!(region.enable(), Err(Errno::EOPBADSTATE));
    region.bind_endpoint().unwrap();
    assert_eq!(table.resolve(1, 0, 1, REMOTE).unwrap_err(), Errno::ENOKEY);
    region.enable().unwrap();
    region.enable().unwrap();
    assert_eq!(region.bind_endpoint(), Err(Errno::EOPBADSTATE));
    assert!(table.resolve(1, 0, 1, REMOTE).is_ok());
}

#[test]
fn raw_keys() {
    let key = 0x0102_0304_0506_0708;
    let table = MrTable::new(MrMode::empty());
    assert_eq!(raw_key(key), [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(table.key_from_raw(&raw_key(key)), Ok(key));
    assert_eq!(table.key_from_raw(&[1; 7]), Err(Errno::EINVAL));
    assert_eq!(table.key_from_raw(&[1; 9]), Err(Errno::EINVAL));
}

/// A device with keys of four bytes, which gives all regions the same one.
#[derive(Debug)]
struct Narrow;

impl Registrar for Narrow {
    fn key_size(&self) -> usize {
        4
    }

    fn register(&self, _: &MrRequest<'_>) -> Result<Registered> {
        Ok(Registered { key: 0x0102_0304, descriptor: 1, hold: Box::new(()) })
    }
}

/// What a peer asks for in a message, it names by the device's key.
#[test]
fn regions_of_devices_are_found_by_the_keys_of_theirs() {
    let mode = MrMode::VIRT_ADDR | MrMode::PROV_KEY | MrMode::ALLOCATED;
    let table = MrTable::new(mode).on(Arc::new(Narrow));
    let at = |start, access| {
        let iov = [piece(start, 64)];
        table.register(&MrRequest { access, ..request(&iov, 9) }).unwrap()
    };
    let own = at(0x1000, Flags::WRITE);
    let resolve = |addr| table.resolve(0x0102_0304, addr, 8, Flags::REMOTE_READ).map(|_| ());
    assert_eq!(resolve(0x1000), Err(Errno::ENOKEY), "of no peer's concern");
    let open = at(0x2000, Flags::REMOTE_READ);
    assert_eq!((resolve(0x2000), resolve(0x1000)), (Ok(()), Err(Errno::EINVAL)));
    table.close(&own).unwrap();
    assert_eq!(resolve(0x2000), Ok(()), "another one with the same key");
    let next = at(0x3000, Flags::REMOTE_READ);
    table.close(&open).unwrap();
    assert_eq!(resolve(0x3000), Ok(()));
    table.close(&next).unwrap();
    assert_eq!(resolve(0x3000), Err(Errno::ENOKEY));
}

#[test]
fn raw_keys_of_devices_have_the_size_of_theirs() {
    let table = MrTable::new(MrMode::empty()).on(Arc::new(Narrow));
    assert_eq!(table.key_size(), 4);
    assert_eq!(table.key_from_raw(&[4, 3, 2, 1]), Ok(0x0102_0304));
    assert_eq!(table.key_from_raw(&[0; 8]), Err(Errno::EINVAL));
}

#[test]
fn nothing_is_kept_when_the_table_goes() {
    let table = MrTable::new(MrMode::empty());
    let region = Arc::downgrade(&table.register(&request(&[piece(0x1000, 16)], 1)).unwrap());
    assert!(region.upgrade().is_some(), "the table keeps a region that its owner let go");
    drop(table);
    assert!(region.upgrade().is_none());
}

/// The bytes that a request means, one by one.
fn naive(iov: &[IoVec], virt: bool, addr: u64, len: u64) -> Option<Vec<usize>> {
    let bytes: Vec<usize> =
        iov.iter().flat_map(|p| (0..p.len).map(|i| p.base as usize + i)).collect();
    let byte = |at: u64| {
        let at = usize::try_from(at).ok()?;
        if virt { bytes.contains(&at).then_some(at) } else { bytes.get(at).copied() }
    };
    (0..len).map(|i| byte(addr.checked_add(i)?)).collect()
}

proptest! {
    #[test]
    fn resolves_as_the_model(
        virt: bool,
        layout in prop::collection::vec((1usize..60, 0usize..20), 1..=IOV_LIMIT),
        requests in prop::collection::vec((0u64..90, 0u64..40), 1..40),
    ) {
        let table = MrTable::new(if virt { MrMode::VIRT_ADDR } else { MrMode::empty() });
        let iov: Vec<_> = layout.iter().map(|(base, len)| piece(*base, *len)).collect();
        table.register(&request(&iov, 9)).unwrap();
        for (addr, len) in requests {
            let got = table.resolve(9, addr, len, REMOTE);
            let got = got.map(|r| pieces(&r).into_iter().flat_map(|(b, n)| b..b + n).collect::<Vec<_>>());
            let want = naive(&iov, virt, addr, len).ok_or(Errno::EINVAL);
            prop_assert_eq!(got, want);
        }
    }

    #[test]
    fn hostile_numbers_never_overflow(virt: bool, base: usize, len: usize, addr: u64, n: u64) {
        let table = MrTable::new(if virt { MrMode::VIRT_ADDR } else { MrMode::empty() });
        let iov = [piece(base, len)];
        if table.register(&request(&iov, 9)).is_ok()
            && let Ok(found) = table.resolve(9, addr, n, REMOTE)
        {
            let end = base as u128 + len as u128;
            prop_assert!(found.pieces().iter().all(|p| p.base as usize >= base
                && p.base as usize as u128 + p.len as u128 <= end));
        }
    }

    #[test]
    fn opening_and_closing_as_a_map(script in prop::collection::vec((any::<bool>(), 0u64..6), 0..120)) {
        let table = MrTable::new(MrMode::empty());
        let mut model: HashMap<u64, Arc<Region>> = HashMap::new();
        let iov = [piece(0x1000, 16)];
        for (open, key) in script {
            if open {
                match table.register(&request(&iov, key)) {
                    Ok(region) => prop_assert!(model.insert(key, region).is_none()),
                    Err(e) => prop_assert!(e == Errno::ENOKEY && model.contains_key(&key)),
                }
            } else if let Some(region) = model.remove(&key) {
                prop_assert_eq!(table.close(&region), Ok(()));
                prop_assert_eq!(table.close(&region), Err(Errno::EINVAL));
                prop_assert_eq!(Arc::strong_count(&region), 1);
            }
            prop_assert_eq!(table.len(), model.len());
            for key in 0..6 {
                prop_assert_eq!(table.resolve(key, 0, 1, REMOTE).is_ok(), model.contains_key(&key));
            }
        }
    }
}

/// A device with keys of its own, that counts its registrations.
#[derive(Debug, Default)]
struct Device(Arc<std::sync::atomic::AtomicUsize>);

struct Held(Arc<std::sync::atomic::AtomicUsize>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Registrar for Device {
    fn register(&self, request: &MrRequest<'_>) -> Result<Registered> {
        if request.access.contains(Flags::REMOTE_READ) {
            return Err(Errno::ENOMEM);
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        let hold = Box::new(Held(self.0.clone()));
        let remote = request.access.contains(Flags::REMOTE_WRITE);
        Ok(Registered { key: if remote { 0x100 } else { 0 }, descriptor: 7, hold })
    }
}

#[test]
fn a_device_names_its_regions_and_lets_go_of_them() {
    let device = Device::default();
    let held = device.0.clone();
    let table = MrTable::new(MrMode::PROV_KEY | MrMode::VIRT_ADDR).on(Arc::new(device));
    let memory = [0u8; 16];
    let iov = [IoVec { base: memory.as_ptr().cast_mut(), len: memory.len() }];
    let request = |access| MrRequest {
        iov: &iov,
        access,
        requested_key: 5,
        offset: 0,
        flags: Flags::empty(),
        context: 0,
    };
    let region = table.register(&request(Flags::REMOTE_WRITE)).unwrap();
    assert_eq!((region.key(), region.descriptor(), table.len()), (0x100, 7, 1));
    assert_eq!(table.register(&request(Flags::REMOTE_READ)).unwrap_err(), Errno::ENOMEM);
    assert_eq!(table.len(), 1, "what the device refuses leaves nothing behind");
    let local = [Flags::SEND, Flags::RECV].map(|access| table.register(&request(access)).unwrap());
    assert_eq!(local.each_ref().map(|region| region.key()), [0, 0], "keys of no use");
    local.iter().for_each(|region| table.close(region).unwrap());
    table.close(&region).unwrap();
    assert_eq!(held.load(Ordering::Relaxed), 0, "closing ends it, though the region lives on");
    assert_eq!(table.close(&region).unwrap_err(), Errno::EINVAL);
}
