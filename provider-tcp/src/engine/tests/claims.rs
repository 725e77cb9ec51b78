//! Requests in the name of a peer that is connected.

use std::time::Duration;

use super::{
    net::{Script, Shared},
    node::{LIMITS, Node, iov, meta, pattern, settle},
    stranger::{Claim, Stranger},
};
use crate::{address::SocketAddress, frame::cm::CmKind};

/// Of the library of others, and of our own kind.
const KINDS: [Option<u64>; 2] = [None, Some(3)];
const PORT: u16 = 7777;

fn claim(nonce: u32, epoch: Option<u64>) -> Claim {
    Claim { port: PORT, nonce, epoch }
}

/// An endpoint with a peer that is not to be told from another at its address.
fn connected(epoch: Option<u64>) -> (Shared, Node, Stranger) {
    let shared = Shared::new(Script::default());
    let mut a = Node::new(&shared, "10.0.0.1:0", "10.0.0.1:0", LIMITS);
    let peer: std::net::SocketAddr = format!("10.0.0.2:{PORT}").parse().unwrap();
    a.av.insert(&SocketAddress::from(peer).to_bytes(), None).unwrap();
    let mut stranger = Stranger::new(&shared, "10.0.0.2", &mut a, claim(1, epoch));
    settle(&mut [&mut a]);
    assert_eq!(stranger.answer(), Some(CmKind::Response));
    (shared, a, stranger)
}

/// A request in the peer's name.
fn pretender(shared: &Shared, a: &mut Node, epoch: Option<u64>) -> Stranger {
    let other = Stranger::new(shared, "10.0.0.2", a, claim(2, epoch.map(|epoch| epoch + 1)));
    settle(&mut [a]);
    other
}

/// One send, which the peer must get.
fn still_served(a: &mut Node, peer: &mut Stranger) {
    let mut bytes = pattern(1, 8);
    a.send(meta(0, 5), Some(5), &[iov(&mut bytes)]).unwrap();
    settle(&mut [&mut *a]);
    assert_eq!(a.sent()[0].ok().context, 5);
    assert_eq!(peer.take(&mut [0; 100]), Ok(24 + 8));
}

#[test]
fn a_live_peer_is_not_cut_off_in_its_own_name() {
    for epoch in KINDS {
        let (shared, mut a, mut peer) = connected(epoch);
        let mut others = [(); 3].map(|()| pretender(&shared, &mut a, epoch));
        for other in &mut others {
            assert_eq!(other.answer(), None, "nothing has shown");
        }
        still_served(&mut a, &mut peer);
        for _ in 0..4 {
            shared.wait(Duration::from_millis(30));
            settle(&mut [&mut a]);
        }
        for other in &mut others {
            assert_eq!(other.answer(), Some(CmKind::Reject));
            assert!(other.has_ended());
        }
        still_served(&mut a, &mut peer);
        assert_eq!(a.engine.conns.len(), 1);
    }
}

#[test]
fn a_successor_waits_for_its_predecessors_end() {
    for epoch in KINDS {
        let (shared, mut a, peer) = connected(epoch);
        shared.silence();
        let mut next = pretender(&shared, &mut a, epoch);
        shared.wait(Duration::from_secs(1));
        settle(&mut [&mut a]);
        assert_eq!(next.answer(), None, "nothing has shown");
        drop(peer);
        shared.wait(Duration::from_secs(1));
        settle(&mut [&mut a]);
        assert_eq!(next.answer(), Some(CmKind::Response));
        still_served(&mut a, &mut next);
        assert_eq!(a.engine.conns.len(), 1);
    }
}

/// Nor does it wait for ever, and it may leave.
#[test]
fn a_claim_that_nothing_shows_for() {
    let (shared, mut a, peer) = connected(None);
    shared.silence();
    let gone = pretender(&shared, &mut a, None);
    let mut next = pretender(&shared, &mut a, None);
    assert_eq!(a.engine.conns.len(), 3);
    drop(gone);
    shared.wait(Duration::from_secs(1));
    settle(&mut [&mut a]);
    assert_eq!(a.engine.conns.len(), 2);
    shared.wait(LIMITS.connect);
    settle(&mut [&mut a]);
    assert!(next.has_ended());
    assert_eq!(a.engine.conns.len(), 1);
    assert!(a.engine.conns.iter().all(|(_, conn)| conn.claimants == 0 && conn.claim.is_none()));
    drop(peer);
}
