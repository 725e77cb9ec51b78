//! Texts that applications and their logs know.

use core::ffi::{CStr, c_void};

use super::*;
use crate::abi::{
    Plain,
    attr::{fi_av_attr, fi_cntr_attr, fi_cq_attr, fi_mr_attr},
    event::fi_cq_err_entry,
    info::{
        fi_bus_attr, fi_device_attr, fi_domain_attr, fi_fabric_attr, fi_info, fi_link_attr,
        fi_pci_attr, fi_tx_attr, fid_nic,
    },
};

fn text_of<T>(value: &T, datatype: fi_type) -> String {
    // SAFETY: the tests pass values of the named type.
    let text = unsafe { tostr((&raw const *value).cast(), datatype) };
    assert!(!text.is_null());
    // SAFETY: `tostr` terminates its text.
    unsafe { CStr::from_ptr(text) }.to_str().expect("UTF-8").to_owned()
}

#[test]
fn values_and_bits() {
    assert_eq!(text_of(&3_u32, FI_TYPE_EP_TYPE), "FI_EP_RDM");
    assert_eq!(text_of(&4_u32, FI_TYPE_EP_TYPE), "Unknown");
    assert_eq!(text_of(&2_u32, FI_TYPE_THREADING), "FI_THREAD_FID");
    assert_eq!(text_of(&26_u32, FI_TYPE_PROTOCOL), "FI_PROTO_COLL");
    assert_eq!(text_of(&19_u32, FI_TYPE_ATOMIC_OP), "FI_DIFF");
    assert_eq!(text_of(&17_u32, FI_TYPE_ATOMIC_TYPE), "FI_BFLOAT16");
    assert_eq!(text_of(&2_u32, FI_TYPE_LOG_LEVEL), "info");
    assert_eq!(text_of(&3_u32, FI_TYPE_LOG_SUBSYS), "ep_ctrl");
    assert_eq!(text_of(&0_u64, FI_TYPE_CAPS), "");
    assert_eq!(
        text_of(&(FI_TAGGED | FI_MSG | FI_SEND), FI_TYPE_CAPS),
        "FI_MSG, FI_TAGGED, FI_SEND"
    );
    assert_eq!(text_of(&FI_TAGGED_DIRECTED_RECV, FI_TYPE_CAPS), "FI_TAGGED_DIRECTED_RECV");
    assert_eq!(text_of(&(FI_MR_HMEM | FI_MR_BASIC), FI_TYPE_MR_MODE), "FI_MR_BASIC, FI_MR_HMEM");
    assert_eq!(text_of(&(FI_RECV | FI_MSG), FI_TYPE_CQ_EVENT_FLAGS), "FI_RECV, FI_MSG");
    assert_eq!(text_of(&0_u32, 999), "Unknown type");
}

#[test]
fn every_type_prints_something() {
    // As large as the largest struct, so that every type may read it.
    let zeros = [0_u64; 64];
    for datatype in FI_TYPE_INFO..=FI_TYPE_WAIT_OBJ {
        assert_ne!(text_of(&zeros, datatype), "Unknown type", "type {datatype}");
    }
}

#[test]
fn the_version_starts_with_the_interfaces() {
    assert!(text_of(&0_u32, FI_TYPE_VERSION).starts_with("2.6.0 (percale "));
}

#[test]
fn an_info_without_blocks() {
    let info = fi_info { addr_format: FI_SOCKADDR_IN6, caps: FI_MSG, ..fi_info::zeroed() };
    let expected = "\
fi_info:
    caps: [ FI_MSG ]
    mode: [  ]
    addr_format: FI_SOCKADDR_IN6
    src_addrlen: 0
    dest_addrlen: 0
    src_addr: (null)
    dest_addr: (null)
    handle: (nil)
    fi_tx_attr: (null)
    fi_rx_attr: (null)
    fi_ep_attr: (null)
    fi_domain_attr: (null)
    fi_fabric_attr: (null)
    nic: (nil)
";
    assert_eq!(text_of(&info, FI_TYPE_INFO), expected);
}

#[test]
fn blocks_are_indented_inside_an_info_only() {
    let mut tx = fi_tx_attr { tclass: 0x203, inject_size: 64, ..fi_tx_attr::zeroed() };
    let alone = text_of(&tx, FI_TYPE_TX_ATTR);
    assert!(alone.starts_with("fi_tx_attr:\n    caps: [  ]\n"));
    assert!(alone.ends_with("    rma_iov_limit: 0\n    tclass: 0x203\n"));
    let info = fi_info { tx_attr: &raw mut tx, ..fi_info::zeroed() };
    let inside: String = alone.lines().map(|line| format!("    {line}\n")).collect();
    assert!(text_of(&info, FI_TYPE_INFO).contains(&inside));
}

#[test]
fn domain_and_fabric() {
    let domain = fi_domain_attr {
        name: c"shm".as_ptr().cast_mut(),
        threading: FI_THREAD_SAFE,
        mr_mode: FI_MR_VIRT_ADDR,
        max_cntr_value: u64::MAX,
        ..fi_domain_attr::zeroed()
    };
    let text = text_of(&domain, FI_TYPE_DOMAIN_ATTR);
    assert!(text.starts_with("fi_domain_attr:\n    domain: (nil)\n    name: shm\n"));
    assert!(text.contains("    mr_mode: [ FI_MR_VIRT_ADDR ]\n"));
    assert!(text.contains("    tclass: 0x0\n"));
    assert!(text.contains("    max_cntr_value: 18446744073709551615\n"));
    let fabric = fi_fabric_attr {
        prov_version: 206 << 16,
        api_version: 2 << 16 | 6,
        ..fi_fabric_attr::zeroed()
    };
    assert_eq!(
        text_of(&fabric, FI_TYPE_FABRIC_ATTR),
        "fi_fabric_attr:\n    name: (null)\n    prov_name: (null)\n    prov_version: 206.0\n    \
         api_version: 2.6\n"
    );
}

#[test]
fn attributes_of_objects() {
    let av = fi_av_attr { count: 3, name: c"x".as_ptr(), flags: FI_EVENT, ..fi_av_attr::zeroed() };
    assert_eq!(
        text_of(&av, FI_TYPE_AV_ATTR),
        "fi_av_attr:\n    type: FI_AV_UNSPEC\n    count: 3\n    ep_per_node: 0\n    name: x\n    \
         flags: [ FI_EVENT ]\n"
    );
    let cq = fi_cq_attr { wait_obj: FI_WAIT_FD, flags: FI_AFFINITY, ..fi_cq_attr::zeroed() };
    assert_eq!(
        text_of(&cq, FI_TYPE_CQ_ATTR),
        "fi_cq_attr:\n    size: 0\n    flags: [ FI_AFFINITY ]\n    format: FI_CQ_FORMAT_UNSPEC\n    \
         wait_obj: FI_WAIT_FD\n    signaling_vector: 0\n    wait_cond: FI_CQ_COND_NONE\n"
    );
    assert_eq!(
        text_of(&fi_cntr_attr::zeroed(), FI_TYPE_CNTR_ATTR),
        "fi_cntr_attr:\n    events: FI_CNTR_EVENTS_COMP\n    wait_obj: FI_WAIT_NONE\n    \
         flags: 0x0\n"
    );
    let mr = fi_mr_attr { iov_count: 1, access: FI_READ, ..fi_mr_attr::zeroed() };
    assert!(text_of(&mr, FI_TYPE_MR_ATTR).contains("    access: [ FI_READ ]\n    offset: 0x0\n"));
}

#[test]
fn an_error_entry_shows_both_numbers() {
    let entry = fi_cq_err_entry { err: 265, prov_errno: -265, ..fi_cq_err_entry::zeroed() };
    let text = text_of(&entry, FI_TYPE_CQ_ERR_ENTRY);
    assert!(text.contains("    err: 265\n    prov_errno: -265\n"));
}

#[test]
fn addresses() {
    let bytes: Vec<u8> = (1..=48).collect();
    let with_family = |family: i32| {
        let mut bytes = bytes.clone();
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        bytes
    };
    let text = |format, bytes: &[u8]| {
        // SAFETY: a slice is readable for its length.
        unsafe { address::text(format, bytes.as_ptr().cast(), bytes.len()) }
    };
    let v4 = with_family(libc::AF_INET);
    assert_eq!(text(FI_SOCKADDR_IN, &v4[..16]), "fi_sockaddr_in://5.6.7.8:772");
    assert_eq!(text(FI_SOCKADDR, &v4), "fi_sockaddr_in://5.6.7.8:772");
    assert_eq!(text(FI_SOCKADDR_IN, &v4[..7]), "0x02000304050607");
    assert_eq!(
        text(FI_SOCKADDR_IN6, &with_family(libc::AF_INET6)[..28]),
        "fi_sockaddr_in6://[90a:b0c:d0e:f10:1112:1314:1516:1718]:772"
    );
    assert_eq!(
        text(FI_SOCKADDR_IB, &with_family(libc::AF_IB)),
        "fi_sockaddr_ib://[90a:b0c:d0e:f10:1112:1314:1516:1718]:0x304:0xd1e:0x30"
    );
    assert_eq!(
        text(FI_ADDR_IB_UD, &bytes),
        "fi_addr_ib_ud://102:304:506:708:90a:b0c:d0e:f10:14131211/1615/1817/1b"
    );
    assert_eq!(text(FI_ADDR_STR, b"fi_shm://1:2:3\0..."), "fi_shm://1:2:3");
    assert_eq!(text(FI_ADDR_STR, b"fi_shm://1"), "fi_shm://1");
    assert_eq!(text(FI_ADDR_EFA, &bytes[..2]), "fi_addr_efa://0x0102");
    assert_eq!(text(FI_ADDR_STR, b""), "");
}

#[test]
fn a_card_prints_its_attributes() {
    let mut device = fi_device_attr {
        name: c"mlx5_0".as_ptr().cast_mut(),
        vendor_id: c"0x15b3".as_ptr().cast_mut(),
        ..fi_device_attr::zeroed()
    };
    let mut bus = fi_bus_attr {
        bus_type: FI_BUS_PCI,
        attr: fi_pci_attr { bus_id: 0x17, ..fi_pci_attr::zeroed() },
    };
    let mut link = fi_link_attr { mtu: 4096, state: FI_LINK_UP, ..fi_link_attr::zeroed() };
    let mut nic = fid_nic {
        device_attr: &raw mut device,
        bus_attr: &raw mut bus,
        link_attr: &raw mut link,
        ..fid_nic::zeroed()
    };
    let info = fi_info { nic: &raw mut nic, ..fi_info::zeroed() };
    let text = text_of(&info, FI_TYPE_INFO);
    assert!(text.contains("    nic:\n        fi_device_attr:\n            name: mlx5_0\n"));
    assert!(text.contains("                bus_id: 23\n"));
    assert!(text.ends_with("            state: FI_LINK_UP\n            network_type: (null)\n"));
}

#[test]
fn texts_are_cut_where_the_room_ends() {
    let info = fi_info::zeroed();
    let data = (&raw const info).cast::<c_void>();
    let mut buf = [1 as c_char; 8];
    // SAFETY: the buffer has the given length.
    unsafe {
        assert_eq!(tostr_r(buf.as_mut_ptr(), 7, data, FI_TYPE_INFO), buf.as_mut_ptr());
        assert_eq!(CStr::from_ptr(buf.as_ptr()), c"fi_inf");
        assert_eq!(buf[7], 1);
        assert!(tostr_r(buf.as_mut_ptr(), 0, data, FI_TYPE_INFO).is_null());
        assert!(tostr_r(core::ptr::null_mut(), 8, data, FI_TYPE_INFO).is_null());
        assert!(tostr(core::ptr::null(), FI_TYPE_INFO).is_null());
    }
}
