use crate::av::{AddressFormat, Av};
use proptest::prelude::*;

use super::*;

fn address(text: &str) -> SocketAddress {
    SocketAddress(text.parse().unwrap())
}

#[test]
fn bytes_of_both_families() {
    let v4 = address("1.2.3.4:567").to_bytes();
    assert_eq!(v4, [2, 0, 2, 55, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    let v6 = SocketAddress(SocketAddrV6::new("fe80::1".parse().unwrap(), 0x102, 3, 4).into());
    let bytes = v6.to_bytes();
    assert_eq!(bytes.len(), IPV6_LEN);
    assert_eq!(bytes[..4], [10, 0, 1, 2]);
    assert_eq!(bytes[8..10], [0xfe, 0x80]);
    assert_eq!(SocketAddress::parse(&bytes), Ok(v6));
    assert_eq!((v6.scope(), v6.with_scope(9).scope()), (4, 9));
}

#[test]
fn what_is_no_address_is_refused() {
    let good = address("[::1]:1").to_bytes();
    for bad in
        [&[][..], &[2], &[2, 0], &good[..27], &[1; 28], &address("1.1.1.1:1").to_bytes()[..15]]
    {
        assert_eq!(SocketAddress::parse(bad), Err(Errno::EINVAL), "{bad:?}");
    }
}

#[test]
fn one_peer_has_one_spelling() {
    let with = |ip: &str, flow, scope| {
        SocketAddress(SocketAddrV6::new(ip.parse().unwrap(), 5, flow, scope).into()).canonical()
    };
    assert_eq!(with("fd00::1", 1, 2), with("fd00::1", 0, 0));
    assert_eq!(with("fe80::1", 1, 2), with("fe80::1", 0, 2));
    assert_ne!(with("fe80::1", 0, 2), with("fe80::1", 0, 3));
}

#[test]
fn the_contest_is_by_bytes_of_address_then_port() {
    let order = |a, b| address(a).contest(address(b));
    assert_eq!(order("10.0.0.9:5", "10.0.0.10:1"), Ordering::Less);
    assert_eq!(order("10.0.0.9:255", "10.0.0.9:256"), Ordering::Less);
    assert_eq!(order("200.0.0.1:1", "100.0.0.1:9"), Ordering::Greater);
    assert_eq!(order("[fe80::1%1]:7", "[fe80::1%2]:7"), Ordering::Equal);
    assert_eq!(order("[fe80::2]:1", "[fe80::1]:7"), Ordering::Greater);
}

#[test]
fn texts() {
    assert_eq!(address("1.2.3.4:567").to_string(), "fi_sockaddr_in://1.2.3.4:567");
    assert_eq!(address("[fe80::1%4]:5").to_string(), "fi_sockaddr_in6://[fe80::1]:5");
    assert_eq!(format!("{:?}", address("[fe80::1%4]:5")), "[fe80::1%4]:5");
}

#[test]
fn formats_take_their_families() {
    let (v4, v6) = (address("1.2.3.4:5").to_bytes(), address("[::1]:5").to_bytes());
    for (format, len, takes_v4, takes_v6) in [
        (addr_format::SOCKADDR_IN, Some(16), true, false),
        (addr_format::SOCKADDR_IN6, Some(28), false, true),
        (addr_format::SOCKADDR, None, true, true),
    ] {
        let of = addresses(format).unwrap();
        assert_eq!((of.addr_format(), of.addr_len()), (format, len));
        assert_eq!(of.parse(&v4).is_ok(), takes_v4);
        assert_eq!(of.parse(&v6).is_ok(), takes_v6);
        assert_eq!(of.family_len().is_some(), len.is_none());
    }
    let len = addresses(addr_format::SOCKADDR).unwrap().family_len().unwrap();
    assert_eq!([2, 10, 1, 27].map(len), [Some(16), Some(28), None, None]);
    assert!(addresses(addr_format::STR).is_none());
}

#[test]
fn vectors_know_peers_by_what_they_are() {
    let av = Av::open(Default::default(), 0, Default::default(), addresses(2).unwrap()).unwrap();
    let mut bytes = address("1.2.3.4:5").to_bytes();
    let handle = av.insert(&bytes, None).unwrap();
    bytes[9] = 0xff;
    assert_eq!(av.insert(&bytes, None), Ok(handle), "padding is none of a peer");
    assert_eq!(av.straddr(&bytes).unwrap(), "fi_sockaddr_in://1.2.3.4:5");
    let by_name = av.insert_service(Some("1.2.3.4"), Some("5"), None);
    assert_eq!(by_name, Ok(handle));
    assert_eq!(av.insert_service(Some("::1"), Some("5"), None), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(av.insert_service(None, None, None), Err(Errno::EINVAL));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(address) = SocketAddress::parse(&bytes) {
            let back = address.to_bytes();
            prop_assert_eq!(SocketAddress::parse(&back), Ok(address));
            let canonical = address.canonical();
            prop_assert_eq!(canonical.canonical(), canonical);
            let _ = (address.to_string(), address.contest(canonical));
        }
    }

    #[test]
    fn written_addresses_are_read_back(ip: [u8; 16], port: u16, flow: u32, scope: u32) {
        let address = SocketAddress(SocketAddrV6::new(ip.into(), port, flow, scope).into());
        prop_assert_eq!(SocketAddress::parse(&address.to_bytes()), Ok(address));
        prop_assert_eq!(address.contest(address), Ordering::Equal);
    }
}
