//! Hints that are wrong in one way: the report names that attribute, and nothing else.

use super::*;
use crate::flags::{Mode, MrMode, Order};

type Spoil = fn(&mut Info);

macro_rules! spoil {
    ($($attribute:literal: $side:ident . $field:ident = $value:expr;)*) => {
        &[$(($attribute, |h| h.$side.as_mut().unwrap().$field = $value)),*]
    };
}

const WHOLE: &[(&str, Spoil)] = &[
    ("caps", |h| h.caps = Flags::MSG | Flags::REMOTE_COMM),
    ("caps", |h| h.caps = Flags::HMEM),
    ("caps", |h| h.caps = Flags::from_bits_retain(1 << 60)),
    ("addr_format", |h| h.addr_format = 2),
    ("addr_format", |h| h.addr_format = 77),
];

const FIELDS: &[(&str, Spoil)] = spoil! {
    "ep_attr.type": ep.ep_type = 1;
    "ep_attr.type": ep.ep_type = 4;
    "ep_attr.protocol": ep.protocol = 25;
    "ep_attr.protocol_version": ep.protocol_version = 2;
    "ep_attr.msg_prefix_size": ep.msg_prefix_size = 8;
    "ep_attr.max_order_raw_size": ep.max_order_raw_size = 1;
    "ep_attr.max_order_war_size": ep.max_order_war_size = 1;
    "ep_attr.max_order_waw_size": ep.max_order_waw_size = usize::MAX;
    "ep_attr.tx_ctx_cnt": ep.tx_ctx_cnt = 2;
    "ep_attr.rx_ctx_cnt": ep.rx_ctx_cnt = usize::MAX;
    "ep_attr.auth_key_size": ep.auth_key_size = 16;
    "ep_attr.auth_key_size": ep.auth_key_size = usize::MAX;
    "domain_attr.name": domain.name = Some("eth0".into());
    "domain_attr.threading": domain.threading = 2;
    "domain_attr.threading": domain.threading = 5;
    "domain_attr.threading": domain.threading = 6;
    "domain_attr.progress": domain.progress = 1;
    "domain_attr.progress": domain.progress = 99;
    "domain_attr.resource_mgmt": domain.resource_mgmt = 3;
    "domain_attr.av_type": domain.av_type = 3;
    "domain_attr.mr_mode": domain.mr_mode = MrMode::ENDPOINT;
    "domain_attr.mr_mode": domain.mr_mode = MrMode::SCALABLE;
    "domain_attr.mr_mode": domain.mr_mode = MrMode::BASIC | MrMode::LOCAL;
    "domain_attr.mr_key_size": domain.mr_key_size = 9;
    "domain_attr.cq_data_size": domain.cq_data_size = 16;
    "domain_attr.cq_cnt": domain.cq_cnt = 1025;
    "domain_attr.ep_cnt": domain.ep_cnt = 257;
    "domain_attr.tx_ctx_cnt": domain.tx_ctx_cnt = 2000;
    "domain_attr.rx_ctx_cnt": domain.rx_ctx_cnt = 2000;
    "domain_attr.max_ep_tx_ctx": domain.max_ep_tx_ctx = 2;
    "domain_attr.max_ep_rx_ctx": domain.max_ep_rx_ctx = 2;
    "domain_attr.mr_iov_limit": domain.mr_iov_limit = 5;
    "domain_attr.caps": domain.caps = Flags::REMOTE_COMM;
    "domain_attr.max_err_data": domain.max_err_data = 1;
    "domain_attr.auth_key_size": domain.auth_key_size = 4;
    "domain_attr.max_ep_auth_key": domain.max_ep_auth_key = 1;
    "fabric_attr.name": fabric.name = Some("192.0.2.0/24".into());
    "fabric_attr.prov_name": fabric.prov_name = Some("tcp".into());
    "fabric_attr.prov_version": fabric.prov_version = Version::new(206, 10);
    "fabric_attr.api_version": fabric.api_version = Version::new(3, 0);
    "rx_attr.caps": rx.caps = Flags::HMEM;
    "rx_attr.op_flags": rx.op_flags = Flags::DELIVERY_COMPLETE;
    "rx_attr.msg_order": rx.msg_order = Order::from_bits_retain(1 << 16);
    "rx_attr.comp_order": rx.comp_order = 1;
    "rx_attr.total_buffered_recv": rx.total_buffered_recv = 1;
    "rx_attr.size": rx.size = 1025;
    "rx_attr.iov_limit": rx.iov_limit = 5;
    "tx_attr.caps": tx.caps = Flags::MULTICAST;
    "tx_attr.op_flags": tx.op_flags = Flags::COMMIT_COMPLETE;
    "tx_attr.msg_order": tx.msg_order = Order::from_bits_retain(1 << 16);
    "tx_attr.comp_order": tx.comp_order = 1;
    "tx_attr.inject_size": tx.inject_size = 4097;
    "tx_attr.size": tx.size = usize::MAX;
    "tx_attr.iov_limit": tx.iov_limit = 5;
    "tx_attr.rma_iov_limit": tx.rma_iov_limit = 5;
};

#[test]
fn each_names_its_attribute() {
    let source = Fixed::one("shm", shm());
    assert!(ask(&source, &hints()).is_ok());
    for (attribute, spoil) in WHOLE.iter().chain(FIELDS) {
        let mut wish = hints();
        spoil(&mut wish);
        let error = ask(&source, &wish).expect_err(attribute);
        let named: Vec<_> = error.rejections().iter().map(|r| r.attribute).collect();
        assert_eq!(named, [*attribute], "{error}");
        let rejection = &error.rejections()[0];
        assert!(!rejection.fix.is_empty() && rejection.wanted != rejection.offered, "{rejection}");
    }
}

#[test]
fn duties_that_are_not_taken_on() {
    let source = Fixed::one("far", needy());
    let mut wish = hints();
    wish.mode = Mode::CONTEXT;
    wish.domain.as_mut().unwrap().mr_mode = needy().domain.unwrap().mr_mode;
    assert!(ask(&source, &wish).is_ok());

    let lacking = |spoil: Spoil| {
        let mut wish = wish.clone();
        spoil(&mut wish);
        let error = ask(&source, &wish).unwrap_err();
        assert_eq!(error.rejections().len(), 1, "{error}");
        error.rejections()[0].clone()
    };
    let rejection = lacking(|h| h.mode = Mode::CONTEXT2);
    assert_eq!((rejection.attribute, rejection.offered.as_str()), ("mode", "FI_CONTEXT"));
    let rejection = lacking(|h| h.domain.as_mut().unwrap().mr_mode -= MrMode::LOCAL);
    assert_eq!(rejection.attribute, "domain_attr.mr_mode");
    assert!(rejection.fix.starts_with("add FI_MR_LOCAL "), "{rejection}");
    let rejection = lacking(|h| h.domain.as_mut().unwrap().mr_mode = MrMode::empty());
    assert_eq!(rejection.offered, "FI_MR_LOCAL | FI_MR_ALLOCATED");
    let rejection = lacking(|h| h.domain = None);
    assert_eq!(rejection.attribute, "domain_attr.mr_mode");
}

#[test]
fn before_1_5_there_are_words_instead_of_bits() {
    let at_1_4 = |offer: Info, mr_mode, mode| {
        let mut wish = hints();
        wish.mode = mode;
        let domain = wish.domain.as_mut().unwrap();
        domain.mr_mode = mr_mode;
        // Fields that did not exist then are not looked at.
        domain.mr_cnt = 7;
        domain.max_err_data = 7;
        domain.caps = Flags::REMOTE_COMM;
        let request =
            Request { version: Version::new(1, 4), hints: Some(&wish), ..Request::default() };
        satisfy(&offer, &request)
    };
    let word = |result: Result<Info, _>| result.map(|i: Info| i.domain.unwrap().mr_mode);
    let none = Mode::empty();
    assert_eq!(word(at_1_4(shm(), MrMode::empty(), none)), Ok(MrMode::BASIC));
    assert_eq!(word(at_1_4(shm(), MrMode::BASIC, none)), Ok(MrMode::BASIC));
    assert!(at_1_4(shm(), MrMode::SCALABLE, none).is_err());
    assert!(at_1_4(shm(), MrMode::VIRT_ADDR, none).is_err());
    let mut offsets = shm();
    offsets.domain.as_mut().unwrap().mr_mode = MrMode::empty();
    let scalable = at_1_4(offsets, MrMode::SCALABLE, none).unwrap();
    assert_eq!(scalable.domain.unwrap().mr_mode, MrMode::SCALABLE);
    assert!(scalable.caps.contains(Flags::REMOTE_READ));

    let refused = at_1_4(needy(), MrMode::BASIC, Mode::CONTEXT).unwrap_err();
    assert_eq!((refused[0].attribute, refused[0].offered.as_str()), ("mode", "FI_LOCAL_MR"));
    let info = at_1_4(needy(), MrMode::BASIC, Mode::CONTEXT | Mode::LOCAL_MR).unwrap();
    assert_eq!(info.mode, Mode::CONTEXT | Mode::LOCAL_MR);

    let request = Request { version: Version(0), ..Request::default() };
    let info = satisfy(&needy(), &request).unwrap();
    assert_eq!(info.domain.unwrap().mr_mode, MrMode::BASIC);
    assert!(info.mode.contains(Mode::LOCAL_MR));
}

#[test]
fn a_zero_mr_mode_gives_up_being_a_target() {
    let mut wish = hints();
    wish.domain.as_mut().unwrap().mr_mode = MrMode::empty();
    let answer =
        |wish: &Info| satisfy(&shm(), &Request { hints: Some(wish), ..Request::default() });
    let info = answer(&wish).unwrap();
    assert!(!info.caps.intersects(Flags::REMOTE_READ | Flags::REMOTE_WRITE));
    assert!(info.caps.contains(Flags::RMA | Flags::READ));
    assert!(!info.rx.unwrap().caps.contains(Flags::REMOTE_WRITE));
    wish.caps = Flags::RMA | Flags::REMOTE_WRITE;
    assert_eq!(answer(&wish).unwrap_err()[0].attribute, "domain_attr.mr_mode");
    // Who is no target has no duty.
    wish.caps = Flags::MSG | Flags::TAGGED;
    assert!(answer(&wish).is_ok());
}
