//! Receives that connections share.

use std::time::Duration;

use percale::{Connection, Domain, Errno, Error, Fabric, Hints, SharedReceive, TagMatch};

use crate::pair::HERE;

fn domain() -> Domain {
    let hints = Hints::msg().messages().tagged().shared_receive().provider("tcp").at(HERE, None);
    hints.open().unwrap().domain().unwrap()
}

/// Connections between two contexts: of those who ask, and of the server.
fn connections(domain: &Domain, count: usize) -> (Vec<Connection>, Vec<Connection>, SharedReceive) {
    let (theirs, ours) = (domain.shared_receive().unwrap(), domain.shared_receive().unwrap());
    let mut listener = domain.listen().unwrap();
    let address = listener.address().unwrap();
    let pair = |_| {
        let asking = domain.connect_sharing(&theirs, &address, b"").unwrap();
        let incoming = listener.wait_incoming().unwrap();
        let accepting = incoming.accept_sharing(&ours, b"").unwrap();
        (asking.wait().unwrap(), accepting.wait().unwrap())
    };
    let (clients, servers) = (0..count).map(pair).unzip();
    (clients, servers, ours)
}

#[test]
fn any_connection_takes_any_receive() {
    let domain = domain();
    let (clients, servers, ours) = connections(&domain, 3);
    let receives: Vec<_> = (0..6).map(|_| ours.recv(Vec::<u8>::with_capacity(200_000))).collect();
    for (size, client) in [10usize, 5000, 100_000, 1, 2, 3].into_iter().zip(clients.iter().cycle())
    {
        client.send(vec![size as u8; size]).wait().unwrap();
    }
    let mut sizes: Vec<usize> =
        receives.into_iter().map(|receive| receive.wait().unwrap().len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 2, 3, 10, 5000, 100_000]);
    drop(servers);
}

#[test]
fn tagged_messages_over_connections() {
    let domain = domain();
    let (clients, servers, ours) = connections(&domain, 2);
    let seven = ours.recv_tagged(7, Vec::<u8>::with_capacity(100));
    let high = ours.recv_tagged(TagMatch::ignoring(0x100, 0xff), domain.buffer(100).unwrap());
    clients[0].send_tagged(0x123, "high").wait().unwrap();
    clients[1].send_tagged(7, "seven").wait().unwrap();
    let (seven, high) = (seven.wait().unwrap(), high.wait().unwrap());
    assert_eq!((&seven.buffer[..], &high.buffer[..]), (&b"seven"[..], &b"high"[..]));
    assert_eq!((seven.tag, high.tag), (7, 0x123));
    drop(servers);
}

#[test]
fn what_is_not_received_ends_with_the_context() {
    let domain = domain();
    let (clients, servers, ours) = connections(&domain, 1);
    drop(ours.recv_tagged(1, vec![0u8; 8]));
    let cancelled = ours.recv_tagged(1, vec![0u8; 8]);
    cancelled.cancel();
    assert!(matches!(cancelled.wait().unwrap_err().error, Error::Cancelled));
    // Neither takes the message.
    let receive = ours.recv_tagged(1, vec![0u8; 8]);
    clients[0].send_tagged(1, "for this").wait().unwrap();
    assert_eq!(receive.wait().unwrap().buffer, b"for this");

    // Without a connection a dropped receive lasts until the context goes.
    drop((clients, servers));
    drop(ours.recv_tagged(2, vec![0u8; 8]));
    let late = ours.recv_tagged(3, vec![0u8; 8]);
    drop(ours);
    assert!(late.wait_timeout(Duration::from_millis(20)).is_err());
}

#[test]
fn only_who_asks_shares() {
    let plain = Hints::msg().messages().provider("tcp").at(HERE, None).open().unwrap();
    let plain = plain.domain().unwrap();
    let (shared, address) = (plain.shared_receive().unwrap(), plain.listen().unwrap());
    let refused = plain.connect_sharing(&shared, &address.address().unwrap(), b"").unwrap_err();
    assert_eq!(refused.errno(), Errno::EINVAL);
    let nowhere = Fabric::loopback().unwrap().domain().unwrap().shared_receive();
    assert_eq!(nowhere.unwrap_err().errno(), Errno::ENOSYS);
    // And who asks has to.
    let domain = domain();
    let listener = domain.listen().unwrap();
    assert!(domain.connect(&listener.address().unwrap(), b"").is_err());
}
