//! Reads, writes and atomic operations.

use std::time::Duration;

use percale::{Access, Change, Errno, Remote};

use crate::pair::{Pair, fabrics};

#[test]
fn what_is_written_can_be_read() {
    for fabric in fabrics() {
        let Pair { domain, one, second, two, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let region = domain.region(1 << 20, Access::ReadWrite).unwrap();
        let remote = Remote::from_bytes(region.remote().to_bytes());
        for len in [1usize, 64, 5000, 300_000] {
            let text: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5a).collect();
            let place = remote.slice(77, len).unwrap();
            let text = one.to(second).delivered().write(place, text).wait().unwrap();
            let view = region.view().slice(77, len);
            assert_eq!(view.to_vec(), text, "{}", fabric.provider());
            let read = one.read(second, place, vec![0u8; len]).wait().unwrap();
            assert_eq!(read, text);
        }
        drop(two);
    }
}

#[test]
fn a_region_is_a_buffer_too() {
    for fabric in fabrics() {
        let Pair { domain, one, two, second, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let (from, to) =
            (domain.region(64, Access::Read).unwrap(), domain.region(64, Access::Read).unwrap());
        from.view().write(3, b"in place");
        let receive = two.recv(to.part(8, 8).unwrap());
        one.send(second, from.part(3, 8).unwrap()).wait().unwrap();
        assert_eq!(receive.wait().unwrap().buffer.view().to_vec(), b"in place");
        assert!(to.part(60, 5).is_none() && to.part(usize::MAX, 2).is_none());
    }
}

#[test]
fn a_peer_reaches_only_what_it_may() {
    for fabric in fabrics() {
        let Pair { domain, one, second, two, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let region = domain.region(64, Access::Read).unwrap();
        let remote = region.remote();
        assert!(remote.slice(0, 65).is_none());
        let room = one.read(second, remote, vec![0u8; 8].into_boxed_slice()).wait().unwrap_err();
        assert_eq!(room.error.errno(), Errno::ETOOSMALL);
        drop(region);
        let gone = one.read(second, remote, vec![0u8; 64]).wait().unwrap_err();
        assert_eq!(gone.buffer, [0; 64], "{gone:?}");
        drop(two);
    }
}

#[test]
fn atomic_operations_fetch_what_was_there() {
    for fabric in fabrics() {
        let Pair { domain, one, second, two, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let region = domain.region(64, Access::ReadWrite).unwrap();
        let view = region.view();
        let first = region.remote().slice(8, 8).unwrap();
        view.put(8, 40u64);
        assert_eq!(one.fetch_add(second, first, 2u64).wait().unwrap(), [40]);
        assert_eq!(one.compare_swap(second, first, 7u64, 8).wait().unwrap(), [42]);
        assert_eq!(one.compare_swap(second, first, 42u64, 8).wait().unwrap(), [42]);
        assert_eq!(view.get::<u64>(8), 8, "{}", fabric.provider());

        let two_floats = region.remote().slice(16, 16).unwrap();
        let to = || one.to(second).delivered();
        to().change(Change::Write, two_floats, vec![1.5f64, 2.5]).wait().unwrap();
        to().change(Change::Max, two_floats, vec![2.0f64, 2.0]).wait().unwrap();
        assert_eq!(one.to(second).load::<f64>(two_floats).wait().unwrap(), [2.0, 2.5]);
        let bits = one.to(second).fetch(Change::Or, two_floats, vec![1.0f64]);
        assert_eq!(bits.wait().unwrap_err().errno(), Errno::EOPNOTSUPP);
        drop(two);
    }
}

#[test]
fn a_write_with_data_shows_at_the_target() {
    for fabric in fabrics() {
        let Pair { domain, one, second, two, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let region = domain.region(64, Access::ReadWrite).unwrap();
        let mut writes = two.remote_writes();
        assert!(writes.wait_next(Duration::from_millis(5)).is_none());
        one.to(second).data(99).write(region.remote(), "news").wait().unwrap();
        let write = writes.wait_next(Duration::from_secs(10)).unwrap();
        assert_eq!((write.data, &region.view().to_vec()[..4]), (99, &b"news"[..]));
    }
}
