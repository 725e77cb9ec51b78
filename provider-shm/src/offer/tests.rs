use fabric_core::{
    attr::Version,
    discovery::{NoProvider, ProviderFilter, getinfo},
};

use super::*;

fn ask(request: &Request<'_>) -> Result<Info, NoProvider> {
    getinfo(&[&ShmSource], request, &ProviderFilter::all()).map(|mut infos| {
        assert_eq!(infos.len(), 1);
        infos.remove(0)
    })
}

fn hints(mr_mode: MrMode, tx_order: Order) -> Info {
    Info {
        tx: Some(TxAttr { msg_order: tx_order, ..TxAttr::default() }),
        domain: Some(DomainAttr { mr_mode, ..DomainAttr::default() }),
        ..Info::default()
    }
}

fn outcome(version: Version, mr_mode: MrMode, tx_order: Order) -> (MrMode, Order, usize) {
    let hints = hints(mr_mode, tx_order);
    let info = ask(&Request { version, hints: Some(&hints), ..Request::default() }).unwrap();
    assert!(info.caps.contains(Flags::REMOTE_READ | Flags::REMOTE_WRITE));
    (info.domain.unwrap().mr_mode, info.tx.unwrap().msg_order, info.ep.unwrap().max_order_raw_size)
}

#[test]
fn the_listing() {
    let info = ask(&Request::default()).unwrap();
    assert_eq!(info.caps.bits(), 0x0b08_0200_0021_3f1e);
    assert!(info.src_addr.is_empty() && info.dest_addr.is_empty());
    assert_eq!(info.domain.as_ref().unwrap().mr_mode, MrMode::VIRT_ADDR);
    assert_eq!(info.tx.as_ref().unwrap().msg_order, Order::SAS);
    assert_eq!(info.rx.as_ref().unwrap().msg_order.bits(), 0xff_0000_01ff);
    assert_eq!(info.ep.as_ref().unwrap().max_order_waw_size, 0);
}

#[test]
fn flavours() {
    let wide = Order::SAS | Order::ATOMIC_WAW;
    let none = MrMode::empty();
    let all = (EVERY_ORDER, usize::MAX);
    let sends = (Order::SAS, 0);
    let many = MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY | MrMode::ENDPOINT;
    for (minor, wish, order, mr_mode, (got, size)) in [
        (20, many, Order::empty(), MrMode::VIRT_ADDR, sends),
        (20, many, Order::SAS, MrMode::VIRT_ADDR, sends),
        (20, many, wide, none, all),
        (20, none, Order::SAS, none, all),
        (20, MrMode::ALLOCATED | MrMode::LOCAL, Order::empty(), none, all),
        (20, MrMode::BASIC, Order::empty(), MrMode::BASIC, sends),
        (20, MrMode::BASIC, wide, MrMode::BASIC, all),
        (20, MrMode::SCALABLE, Order::empty(), MrMode::SCALABLE, all),
        (4, none, Order::empty(), MrMode::BASIC, sends),
        (4, MrMode::SCALABLE, Order::empty(), MrMode::SCALABLE, all),
    ] {
        let result = outcome(Version::new(1, minor), wish, order);
        assert_eq!(result, (mr_mode, got, size), "{wish:?} {order:?}");
    }
}

#[test]
fn automatic_progress_is_for_who_asks() {
    let mut wish = hints(MrMode::empty(), Order::empty());
    for (asked, got) in [(0, 2), (1, 1), (2, 2), (3, 3)] {
        wish.domain.as_mut().unwrap().progress = asked;
        let info = ask(&Request { hints: Some(&wish), ..Request::default() }).unwrap();
        assert_eq!(info.domain.unwrap().progress, got);
    }
}

#[test]
fn names() {
    let named = |node, service, flags| {
        let info = ask(&Request { node, service, flags, ..Request::default() })?;
        Ok::<_, NoProvider>((
            String::from_utf8(info.src_addr).unwrap(),
            String::from_utf8(info.dest_addr).unwrap(),
        ))
    };
    let none = Flags::empty();
    let source = Flags::SOURCE;
    let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
    assert_eq!(named(Some("x"), None, none), pair("", "fi_shm://x\0"));
    assert_eq!(named(Some("x"), None, source), pair("fi_shm://x\0", ""));
    assert_eq!(named(Some("fi_shm://7"), Some("9"), none), pair("", "fi_shm://7\0"));
    assert_eq!(named(Some("h"), Some("9"), source), pair("fi_shm://h:9\0", ""));
    assert_eq!(named(None, Some("9"), source), pair("fi_shm://9\0", ""));
    let error = named(None, None, source).unwrap_err();
    assert_eq!(error.rejections()[0].attribute, "node");
    assert!(named(Some("x".repeat(300).leak()), None, none).is_err());
}

#[test]
fn sizes_beyond_the_usual() {
    for (wanted, offered) in [(0, 1024), (512, 512), (4096, 4096), (SIZE_MAX, SIZE_MAX)] {
        let mut wish = hints(MrMode::empty(), Order::empty());
        wish.tx.as_mut().unwrap().size = wanted;
        wish.rx = Some(RxAttr { size: wanted, ..RxAttr::default() });
        let info = ask(&Request { hints: Some(&wish), ..Request::default() }).unwrap();
        assert_eq!((info.tx.unwrap().size, info.rx.unwrap().size), (offered, offered));
    }
    let mut wish = hints(MrMode::empty(), Order::empty());
    wish.tx.as_mut().unwrap().size = SIZE_MAX + 1;
    assert!(ask(&Request { hints: Some(&wish), ..Request::default() }).is_err());
}
