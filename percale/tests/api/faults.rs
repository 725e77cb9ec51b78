//! Faults on purpose reach the program, and nothing else goes wrong.

use std::time::Duration;

use percale::{Errno, Faults};

use crate::pair::fabrics;

#[test]
fn late_operations_keep_their_order() {
    for fabric in fabrics() {
        let faults = Faults::seeded(3);
        faults.delay(0.5, Duration::from_millis(2));
        let domain = fabric.domain().unwrap();
        let one = domain.builder().faults(&faults).open().unwrap();
        let two = domain.endpoint().unwrap();
        let peer = domain.peer(&two.address().unwrap()).unwrap();
        let sends: Vec<_> = (0..50u32).map(|i| one.send(peer, vec![i])).collect();
        for i in 0..50u32 {
            let received = two.recv(Vec::<u32>::with_capacity(1)).wait().unwrap();
            assert_eq!(received.buffer, [i], "{}", fabric.provider());
        }
        sends.into_iter().for_each(|send| drop(send.wait().unwrap()));
        assert!(faults.met() > 10);
    }
}

#[test]
fn refused_operations_give_their_buffers_back() {
    for fabric in fabrics() {
        let faults = Faults::seeded(4);
        faults.refuse(1.0, Errno::ENOBUFS);
        let domain = fabric.domain().unwrap();
        let one = domain.builder().faults(&faults).open().unwrap();
        let failure = one.recv(vec![5u8; 3]).wait().unwrap_err();
        assert_eq!((failure.error.errno(), failure.buffer), (Errno::ENOBUFS, vec![5; 3]));
        faults.clear();
        drop(one.recv(vec![5u8; 3]));
        one.progress();
        assert_eq!((faults.met(), one.operations()), (1, 0));
    }
}

/// A late operation that is dropped, or whose endpoint closes, before it was started never is.
#[test]
fn late_operations_can_be_dropped() {
    for fabric in fabrics() {
        let faults = Faults::seeded(5);
        faults.delay(1.0, Duration::from_secs(1000));
        let domain = fabric.domain().unwrap();
        let one = domain.builder().faults(&faults).open().unwrap();
        let two = domain.endpoint().unwrap();
        let peer = domain.peer(&two.address().unwrap()).unwrap();
        drop(one.send(peer, "dropped"));
        let kept = one.send(peer, "kept");
        assert_eq!(one.operations(), 1);
        one.close();
        assert!(kept.wait().is_err());
    }
}
