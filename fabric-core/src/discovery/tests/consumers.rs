//! The hints of programs that matter, and what they rely on in the answer.

use super::*;
use crate::{
    attr::{AvType, Progress, ResourceMgmt, Threading},
    flags::{Mode, MrMode, Order},
};

fn order(bits: &[Order]) -> Order {
    bits.iter().copied().fold(Order::empty(), |a, b| a | b)
}

#[test]
fn mpich() {
    let source = Fixed::one("shm", shm());
    let listed = getinfo(&[&source], &Request::default(), &ProviderFilter::all()).unwrap();
    let mut wish = hints();
    wish.caps = listed[0].caps;
    wish.mode = Mode::CONTEXT | Mode::CONTEXT2 | Mode::ASYNC_IOV | Mode::RX_CQ_DATA;
    let tx = wish.tx.as_mut().unwrap();
    tx.op_flags = Flags::COMPLETION | Flags::DELIVERY_COMPLETE;
    tx.msg_order = order(&[
        Order::SAS,
        Order::ATOMIC_RAR,
        Order::ATOMIC_RAW,
        Order::ATOMIC_WAR,
        Order::ATOMIC_WAW,
    ]);
    let rx = wish.rx.as_mut().unwrap();
    rx.op_flags = Flags::COMPLETION;
    rx.msg_order = Order::SAS;
    let ep = wish.ep.as_mut().unwrap();
    ep.ep_type = 3;
    ep.mem_tag_format = 0x00c0_0000_7fff_ffff;
    let domain = wish.domain.as_mut().unwrap();
    domain.threading = Threading::Domain as u32;
    domain.progress = Progress::Manual as u32;
    domain.resource_mgmt = ResourceMgmt::Enabled as u32;
    domain.av_type = AvType::Table as u32;
    domain.mr_mode = MrMode::VIRT_ADDR | MrMode::ENDPOINT;
    domain.cq_data_size = 4;
    // A retired bit that old programs still set.
    domain.mode = Mode::from_bits_retain(1 << 53);
    wish.fabric.as_mut().unwrap().prov_name = Some("shm".into());

    let info = ask(&source, &wish).unwrap().remove(0);
    assert_eq!(info.caps, listed[0].caps);
    assert_eq!(info.mode, Mode::empty());
    let domain = info.domain.unwrap();
    assert_eq!(domain.threading, Threading::Domain as u32);
    assert_eq!(domain.progress, Progress::Manual as u32);
    assert_eq!(domain.av_type, AvType::Table as u32);
    assert_eq!(domain.mr_mode, MrMode::VIRT_ADDR);
    assert_eq!((domain.cq_data_size, domain.mr_key_size), (8, 8));
    let tx = info.tx.unwrap();
    assert_eq!(tx.op_flags, Flags::COMPLETION | Flags::DELIVERY_COMPLETE);
    assert_eq!((tx.inject_size, tx.size, tx.iov_limit), (4096, 1024, 4));
    assert_eq!(info.rx.unwrap().op_flags, Flags::COMPLETION);
    assert_eq!(info.ep.unwrap().mem_tag_format, 0xaaaa_aaaa_aaaa_aaaa);
}

#[test]
fn open_mpi() {
    let source = Fixed::one("shm", shm());
    let at_1_18 = |wish: &Info| {
        let version = Version::new(1, 18);
        let request = Request { version, hints: Some(wish), ..Request::default() };
        getinfo(&[&source], &request, &ProviderFilter::all())
    };
    // The message layer needs other hosts, which shared memory does not reach.
    let mut wish = hints();
    wish.caps =
        Flags::MSG | Flags::TAGGED | Flags::LOCAL_COMM | Flags::REMOTE_COMM | Flags::DIRECTED_RECV;
    wish.mode = Mode::CONTEXT | Mode::CONTEXT2;
    wish.domain.as_mut().unwrap().mr_mode = MrMode::ALLOCATED;
    let error = at_1_18(&wish).unwrap_err();
    assert_eq!(error.rejections().len(), 1, "{error}");
    assert_eq!(error.rejections()[0].fix, "do without FI_REMOTE_COMM");

    // The one-sided layer.
    wish.caps = Flags::RMA | Flags::ATOMIC;
    wish.tx.as_mut().unwrap().op_flags = Flags::COMPLETION | Flags::DELIVERY_COMPLETE;
    wish.tx.as_mut().unwrap().iov_limit = 1;
    wish.rx.as_mut().unwrap().op_flags = Flags::COMPLETION;
    wish.domain.as_mut().unwrap().mr_mode =
        MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY | MrMode::ENDPOINT;
    let info = at_1_18(&wish).unwrap().remove(0);
    assert_eq!(info.caps.bits(), 0x0108_0000_0001_3314);
    let domain = info.domain.unwrap();
    assert_eq!(domain.mr_mode, MrMode::VIRT_ADDR);
    assert_eq!(domain.caps, Flags::LOCAL_COMM);
    assert_eq!(info.tx.unwrap().iov_limit, 1);
    assert!(!info.rx.unwrap().caps.contains(Flags::SOURCE));

    wish.caps |= Flags::HMEM;
    assert_eq!(at_1_18(&wish).unwrap_err().rejections()[0].fix, "do without FI_HMEM");
}

#[test]
fn intel_mpi() {
    let source = Fixed::one("shm", shm());
    let listing = Request { version: Version(0), ..Request::default() };
    let listed = getinfo(&[&source], &listing, &ProviderFilter::all()).unwrap();
    assert_eq!(listed[0].domain.as_ref().unwrap().mr_mode, MrMode::BASIC);
    let mut wish = hints();
    wish.caps = listed[0].caps;
    wish.addr_format = listed[0].addr_format;
    wish.mode = Mode::CONTEXT | Mode::CONTEXT2 | Mode::ASYNC_IOV | Mode::RX_CQ_DATA;
    wish.ep.as_mut().unwrap().ep_type = 3;
    let domain = wish.domain.as_mut().unwrap();
    domain.threading = Threading::Domain as u32;
    domain.progress = Progress::Manual as u32;
    domain.resource_mgmt = ResourceMgmt::Enabled as u32;
    domain.av_type = AvType::Map as u32;
    domain.mr_mode = MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY;
    let version = Version::new(1, 5);
    let request = Request { version, hints: Some(&wish), ..Request::default() };
    let info = getinfo(&[&source], &request, &ProviderFilter::all()).unwrap().remove(0);
    let domain = info.domain.unwrap();
    assert_eq!(domain.av_type, AvType::Map as u32);
    assert_eq!(domain.threading, Threading::Domain as u32);
    assert_eq!(domain.mr_mode, MrMode::VIRT_ADDR);
    assert_eq!(info.caps, listed[0].caps);
    assert_eq!(info.tx.unwrap().op_flags, Flags::empty());
}

#[test]
fn mercury() {
    let source = Fixed::one("shm", shm());
    let mut wish = hints();
    wish.caps = Flags::MSG | Flags::TAGGED | Flags::RMA | Flags::DIRECTED_RECV;
    wish.mode = Mode::ASYNC_IOV | Mode::CONTEXT;
    wish.addr_format = addr_format();
    wish.ep.as_mut().unwrap().ep_type = 3;
    wish.ep.as_mut().unwrap().protocol = crate::attr::protocol::SHM;
    wish.tx.as_mut().unwrap().op_flags = Flags::INJECT_COMPLETE;
    wish.tx.as_mut().unwrap().size = 512;
    wish.rx.as_mut().unwrap().size = 512;
    let domain = wish.domain.as_mut().unwrap();
    domain.resource_mgmt = ResourceMgmt::Enabled as u32;
    domain.threading = Threading::Safe as u32;
    domain.progress = Progress::Manual as u32;
    domain.mr_mode =
        MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY | MrMode::LOCAL | MrMode::ENDPOINT;
    wish.fabric.as_mut().unwrap().prov_name = Some("shm".into());
    let version = Version::new(1, 20);
    let request = Request {
        version,
        node: Some("42-0"),
        flags: Flags::SOURCE | Flags::NUMERICHOST,
        hints: Some(&wish),
        ..Request::default()
    };
    let info = getinfo(&[&source], &request, &ProviderFilter::all()).unwrap().remove(0);
    assert!(info.caps.contains(Flags::DIRECTED_RECV | Flags::MULTI_RECV));
    assert!(!info.caps.intersects(Flags::SOURCE | Flags::AV_USER_ID | Flags::ATOMIC));
    assert_eq!((info.tx.unwrap().size, info.rx.unwrap().size), (512, 512));
    assert_eq!(info.domain.unwrap().mr_mode, MrMode::VIRT_ADDR);
}

#[test]
fn openshmem() {
    let source = Fixed::one("shm", shm());
    let mut wish = hints();
    wish.caps = Flags::RMA | Flags::ATOMIC | Flags::RMA_EVENT;
    wish.rx = None;
    wish.tx.as_mut().unwrap().op_flags = Flags::DELIVERY_COMPLETE;
    wish.tx.as_mut().unwrap().inject_size = 16;
    wish.domain.as_mut().unwrap().mr_key_size = 1;
    let info = ask(&source, &wish).unwrap().remove(0);
    assert_eq!(info.tx.unwrap().inject_size, 16);
    assert_eq!(info.rx.unwrap().op_flags, Flags::COMPLETION);
}

const fn addr_format() -> u32 {
    crate::attr::addr_format::STR
}
