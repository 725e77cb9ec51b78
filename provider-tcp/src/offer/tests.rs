use std::net::SocketAddr;

use fabric_core::{
    attr::{EpType, addr_format, protocol},
    discovery::satisfy,
};

use super::*;
use crate::{address::SocketAddress, interfaces::tests::workstation};

fn host(filter: &str) -> Interfaces {
    Interfaces::new(workstation(), InterfaceFilter::parse(filter).unwrap())
}

fn address(text: &str) -> SocketAddress {
    text.parse::<SocketAddr>().unwrap().into()
}

/// What fits, as `type domain source > destination`.
fn ask(interfaces: &Interfaces, request: &Request<'_>) -> Result<Vec<String>, Box<Rejection>> {
    let show = |bytes: &[u8]| match SocketAddress::parse(bytes) {
        Ok(address) => format!("{address:?}"),
        Err(_) => "-".to_owned(),
    };
    let line = |info: Info| {
        let kind = info.ep.unwrap().ep_type;
        let domain = info.domain.unwrap().name.unwrap();
        format!("{kind} {domain} {} > {}", show(&info.src_addr), show(&info.dest_addr))
    };
    let offers = offers_on(interfaces, request)?;
    Ok(offers.iter().filter_map(|offer| satisfy(offer, request).ok()).map(line).collect())
}

fn rdm() -> Info {
    Info {
        ep: Some(EpAttr { ep_type: EpType::Rdm as u32, ..EpAttr::default() }),
        ..Info::default()
    }
}

#[test]
fn the_listing_is_by_kind_then_by_rank() {
    let all = offers_on(&host(""), &Request::default()).unwrap();
    assert_eq!(all.len(), 27);
    let (rdm, rest) = all.split_at(9);
    let (msg, shared) = rest.split_at(9);
    for (group, kind, protocol, contexts) in [
        (rdm, EpType::Rdm, protocol::XNET, 1),
        (msg, EpType::Msg, protocol::SOCK_TCP, 1),
        (shared, EpType::Msg, protocol::SOCK_TCP, usize::MAX),
    ] {
        let ep = group[0].ep.as_ref().unwrap();
        assert_eq!((ep.ep_type, ep.protocol, ep.rx_ctx_cnt), (kind as u32, protocol, contexts));
        assert_eq!(group[0].domain.as_ref().unwrap().name.as_deref(), Some("eth0"));
        assert_eq!(group[0].fabric.as_ref().unwrap().name.as_deref(), Some("10.0.0.0/24"));
        assert_eq!(group[0].addr_format, addr_format::SOCKADDR_IN);
        assert_eq!(group[1].addr_format, addr_format::SOCKADDR_IN6);
        assert_eq!(group[8].fabric.as_ref().unwrap().name.as_deref(), Some("::1/128"));
    }
}

/// The numbers that jobs across libraries rest on.
#[test]
fn capabilities_and_orders() {
    let all = offers_on(&host("eth0,lo,^fe80::/10,^fd00::/8"), &Request::default()).unwrap();
    let caps = |at: usize| {
        let info = &all[at];
        [info.caps, info.tx.as_ref().unwrap().caps, info.rx.as_ref().unwrap().caps]
            .map(|caps| caps.bits())
    };
    assert_eq!(caps(0), [0x0b1a_0000_0001_3f0e, 0x0002_0000_0000_0b0e, 0x0b02_0000_0001_340e]);
    assert_eq!(caps(1)[0], 0x0b0a_0000_0001_3f0e, "loopback reaches no other host");
    assert_eq!(caps(3), [0x011a_0000_0000_3f06, 0x0002_0000_0000_0b06, 0x0102_0000_0000_3406]);
    assert_eq!(caps(6), caps(0));
    let tx = all[0].tx.as_ref().unwrap();
    assert_eq!((tx.msg_order.bits(), tx.op_flags.bits()), (0xbb_0000_01b7, 0x5f00_0000));
    assert_eq!((tx.inject_size, tx.size), (128, 256));
    let sizes: Vec<usize> = all.iter().map(|info| info.rx.as_ref().unwrap().size).collect();
    assert_eq!(sizes, [65536, 65536, 65536, 1024, 1024, 1024, 65536, 65536, 65536]);
}

#[test]
fn sizes_follow_hints_up_to_a_limit() {
    for (kind, shared, wanted, offered) in [
        (EpType::Rdm, false, 0, Some((256, 256))),
        (EpType::Rdm, false, 4096, Some((4096, 4096))),
        (EpType::Rdm, false, 65536, Some((65536, 65536))),
        (EpType::Rdm, false, 65537, None),
        (EpType::Msg, false, 1024, Some((1024, 1024))),
        (EpType::Msg, false, 1025, None),
        (EpType::Msg, true, 0, Some((256, 1024))),
    ] {
        let mut hints = rdm();
        let ep = hints.ep.as_mut().unwrap();
        (ep.ep_type, ep.rx_ctx_cnt) = (kind as u32, if shared { usize::MAX } else { 0 });
        hints.tx = Some(TxAttr { size: wanted, ..TxAttr::default() });
        hints.rx = Some(RxAttr { size: wanted, ..RxAttr::default() });
        let request = Request { hints: Some(&hints), ..Request::default() };
        let offers = offers_on(&host("eth0"), &request).unwrap();
        let fits = offers.iter().find_map(|offer| satisfy(offer, &request).ok());
        let sizes = fits.map(|info| (info.tx.unwrap().size, info.rx.unwrap().size));
        assert_eq!(sizes, offered, "{kind:?} {wanted}");
    }
}

#[test]
fn tags_on_connections_take_a_shared_context() {
    let mut hints = Info { caps: Flags::TAGGED, ..rdm() };
    hints.ep.as_mut().unwrap().ep_type = EpType::Msg as u32;
    let count = |hints: &Info| {
        let request = Request { hints: Some(hints), ..Request::default() };
        ask(&host("10.0.0.0/24"), &request).unwrap().len()
    };
    assert_eq!(count(&hints), 0);
    hints.ep.as_mut().unwrap().rx_ctx_cnt = usize::MAX;
    assert_eq!(count(&hints), 1);
    hints.caps = Flags::MSG;
    assert_eq!(count(&hints), 2);
}

#[test]
fn loopback_reaches_others_where_there_is_nothing_else() {
    let hints = Info { caps: Flags::MSG | Flags::REMOTE_COMM, ..rdm() };
    let request = Request { hints: Some(&hints), ..Request::default() };
    let only = ask(&host("lo"), &request).unwrap();
    assert_eq!(only, ["3 lo 127.0.0.1:0 > -", "3 lo [::1]:0 > -"]);
    let all = ask(&host(""), &request).unwrap();
    assert!(all.len() == 7 && all.iter().all(|line| !line.contains(" lo ")), "{all:?}");
}

#[test]
fn own_addresses() {
    let hints = rdm();
    let own = |filter: &str, node, service| {
        let flags = Flags::SOURCE | Flags::NUMERICHOST;
        let request = Request { node, service, flags, hints: Some(&hints), ..Request::default() };
        ask(&host(filter), &request)
    };
    assert_eq!(own("", Some("10.0.0.5"), Some("7")).unwrap(), ["3 eth0 10.0.0.5:7 > -"]);
    assert_eq!(own("", Some("127.0.0.9"), None).unwrap(), ["3 lo 127.0.0.9:0 > -"]);
    assert_eq!(own("", Some("fe80::5"), Some("7")).unwrap(), ["3 eth0 [fe80::5%4]:7 > -"]);
    let all = own("", None, Some("7")).unwrap();
    assert_eq!(
        all[..4],
        [
            "3 tcp 0.0.0.0:7 > -",
            "3 tcp [::]:7 > -",
            "3 eth0 10.0.0.5:7 > -",
            "3 eth0 [fd00::5]:7 > -",
        ]
    );
    assert_eq!(all.len(), 11);
    assert_eq!(own("wlan0", None, Some("7")).unwrap(), ["3 wlan0 10.1.0.5:7 > -"]);
    assert_eq!(
        own("", Some("0.0.0.0"), Some("7")).unwrap()[..2],
        ["3 tcp 0.0.0.0:7 > -", "3 eth0 10.0.0.5:7 > -"]
    );
    for (filter, node, service, attribute) in [
        ("", Some("10.9.9.9"), None, "node"),
        ("", Some("10.2.0.5"), None, "node"),
        ("wlan0", Some("10.0.0.5"), None, "node"),
        ("", Some("host"), None, "node"),
        ("", Some("10.0.0.5"), Some("no such service"), "service"),
        ("", None, None, "node"),
    ] {
        let error = own(filter, node, service).unwrap_err();
        assert_eq!(error.attribute, attribute, "{error}");
    }
}

#[test]
fn own_addresses_of_the_hints() {
    let own = |text: &str| {
        let hints = Info { src_addr: address(text).to_bytes(), ..rdm() };
        ask(&host(""), &Request { hints: Some(&hints), ..Request::default() })
    };
    assert_eq!(own("10.0.0.5:7").unwrap(), ["3 eth0 10.0.0.5:7 > -"]);
    assert_eq!(own("0.0.0.0:7").unwrap()[..2], ["3 tcp 0.0.0.0:7 > -", "3 eth0 0.0.0.0:7 > -"]);
    assert_eq!(own("10.9.9.9:7").unwrap_err().attribute, "src_addr");
    let hints = Info { src_addr: vec![2, 0, 0], ..rdm() };
    let error = ask(&host(""), &Request { hints: Some(&hints), ..Request::default() }).unwrap_err();
    assert_eq!(error.attribute, "src_addr");
}

/// Routes are the real host's; loopback is on each.
#[test]
fn destinations() {
    let hints = rdm();
    let request =
        |node, service| Request { node, service, hints: Some(&hints), ..Request::default() };
    let to = |filter: &str, node| ask(&host(filter), &request(Some(node), Some("7")));
    assert_eq!(to("", "127.0.0.2").unwrap(), ["3 lo 127.0.0.1:0 > 127.0.0.2:7"]);
    assert_eq!(to("eth0", "127.0.0.1").unwrap_err().attribute, "dest_addr");
    assert_eq!(to("", "fe80::9").unwrap_err().attribute, "dest_addr");
    let here = ask(&host(""), &request(None, Some("7"))).unwrap();
    assert_eq!(here[0], "3 lo 127.0.0.1:0 > 127.0.0.1:7");

    let hints = Info {
        src_addr: address("10.0.0.5:0").to_bytes(),
        dest_addr: address("10.0.0.6:9").to_bytes(),
        ..rdm()
    };
    let both = ask(&host(""), &Request { hints: Some(&hints), ..Request::default() }).unwrap();
    assert_eq!(both, ["3 eth0 10.0.0.5:0 > 10.0.0.6:9"]);
    let hints = Info { dest_addr: address("[fd00::6]:9").to_bytes(), ..hints };
    let request = Request { hints: Some(&hints), ..Request::default() };
    assert_eq!(ask(&host(""), &request).unwrap_err().attribute, "dest_addr");
}

#[test]
fn a_filter_that_takes_nothing_names_what_there_is() {
    let error = ask(&host("eth7"), &Request::default()).unwrap_err();
    assert_eq!(error.attribute, "FI_TCP_IFACE");
    assert!(error.offered.contains("wlan0 10.1.0.5"), "{error}");
    let error = offers_on(&Interfaces::default(), &Request::default()).unwrap_err();
    assert_eq!(
        (error.attribute, error.offered.as_str()),
        ("interfaces", "no interface with an address")
    );
}

/// What other libraries' peers do not have is for programs that ask for it.
#[test]
fn extensions_are_for_who_asks() {
    let host = host("eth0");
    let offer = |hints: &Info| {
        let request = Request { hints: Some(hints), ..Request::default() };
        satisfy(&offers_on(&host, &request).unwrap()[0], &request).unwrap()
    };
    let plain = offer(&rdm());
    assert!(!plain.caps.intersects(EXTENSIONS));
    assert!(!plain.tx.as_ref().unwrap().msg_order.intersects(WAR));
    assert_eq!(plain.ep.unwrap().max_order_war_size, 0);

    let order = |msg_order| Some(TxAttr { msg_order, ..TxAttr::default() });
    let atomic = Info { tx: order(Order::ATOMIC_WAR), ..rdm() };
    let request = Request { hints: Some(&atomic), ..Request::default() };
    let offers = offers_on(&host, &request).unwrap();
    assert!(
        satisfy(&offers[0], &request).is_err(),
        "an order of operations that are not asked for"
    );

    let tx = order(Order::WAR);
    let wish = Flags::RMA | Flags::FENCE | Flags::AV_USER_ID;
    let info = offer(&Info { caps: wish, tx, ..rdm() });
    assert!(info.caps.contains(wish));
    assert!(info.tx.as_ref().unwrap().caps.contains(Flags::FENCE));
    assert!(!info.rx.as_ref().unwrap().caps.intersects(EXTENSIONS));
    assert!(info.domain.as_ref().unwrap().caps.contains(Flags::AV_USER_ID));
    assert!(info.tx.as_ref().unwrap().msg_order.contains(Order::WAR));
    assert_eq!(info.ep.unwrap().max_order_war_size, usize::MAX);
}

#[test]
fn wildcards_are_told_as_the_best_address() {
    let best = |filter: &str, family| best_of(&host(filter), family);
    assert_eq!(best("", Family::Ipv4), Some(address("10.0.0.5:0")));
    assert_eq!(best("", Family::Ipv6), Some(address("[fd00::5]:0")));
    assert_eq!(best("wlan0", Family::Ipv4), Some(address("10.1.0.5:0")));
    assert_eq!(best("wlan0", Family::Ipv6), None);

    let told = reachable(Family::Ipv4.wildcard(7));
    assert!(!told.is_wildcard() && told.port() == 7, "{told:?}");
    assert_eq!(reachable(address("127.0.0.9:7")), address("127.0.0.9:7"));
}

#[test]
fn automatic_progress_is_for_who_asks() {
    for (asked, got) in [(0, 2), (1, 1), (2, 2), (3, 3)] {
        let mut hints = rdm();
        hints.domain = Some(DomainAttr { progress: asked, ..DomainAttr::default() });
        let request = Request { hints: Some(&hints), ..Request::default() };
        let offers = offers_on(&host("eth0"), &request).unwrap();
        assert_eq!(satisfy(&offers[0], &request).unwrap().domain.unwrap().progress, got);
    }
}

#[test]
fn this_host_offers_something() {
    let found = offers(&Request::default());
    assert!(found.is_ok_and(|found| !found.is_empty()));
}
