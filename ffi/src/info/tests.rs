//! Hints and offers through the C edge, with every struct ending at an unmapped page.

use core::ffi::{c_char, c_void};

use fabric_core::{
    Errno,
    attr::{API_VERSION, DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr, Version},
    flags::{Flags, MrMode},
};

use super::{Hints, MAX_BYTES, dup, free, write_list};
use crate::{
    abi::{
        Plain,
        fid::{fi_ops, fid},
        info::{fi_ep_attr, fi_info, fid_nic},
    },
    node::Node,
};

const NODES: [Node; 8] = [
    Node::V1_0,
    Node::V1_1,
    Node::V1_2,
    Node::V1_3,
    Node::V1_7,
    Node::V1_8,
    Node::V1_9,
    Node::V1_10,
];

/// A struct cut to `size` bytes whose end is the end of mapped memory.
struct Guarded {
    map: *mut c_void,
    page: usize,
    size: usize,
}

impl Guarded {
    fn new<T: Plain>(value: &T, size: usize) -> Self {
        // SAFETY: `sysconf` has no requirements.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // SAFETY: a fresh anonymous mapping.
        let map = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                2 * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(map, libc::MAP_FAILED);
        let guarded = Self { map, page, size };
        // SAFETY: the second page is ours.
        assert_eq!(unsafe { libc::mprotect(map.byte_add(page), page, libc::PROT_NONE) }, 0);
        // SAFETY: `size` bytes lie in the first page and in the value.
        unsafe {
            core::ptr::copy_nonoverlapping((&raw const *value).cast::<u8>(), guarded.start(), size);
        }
        guarded
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: within the first page.
        unsafe { self.map.cast::<u8>().add(self.page - self.size) }
    }

    fn pointer<T>(&self) -> *mut T {
        self.start().cast()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { libc::munmap(self.map, 2 * self.page) };
    }
}

fn sample() -> Info {
    Info {
        caps: Flags::MSG | Flags::TAGGED,
        addr_format: 2,
        src_addr: vec![1; 16],
        dest_addr: vec![2; 16],
        tx: Some(TxAttr { size: 7, tclass: 513, ..Default::default() }),
        rx: Some(RxAttr { iov_limit: 4, ..Default::default() }),
        ep: Some(EpAttr {
            ep_type: 3,
            auth_key: vec![5; 8],
            auth_key_size: 8,
            ..Default::default()
        }),
        domain: Some(DomainAttr {
            name: Some("eth0".into()),
            mr_mode: MrMode::VIRT_ADDR,
            mr_cnt: 9,
            tclass: 514,
            max_ep_auth_key: 10,
            max_group_id: 11,
            max_err_cntr_value: 12,
            ..Default::default()
        }),
        fabric: Some(FabricAttr {
            name: Some("192.0.2.0/24".into()),
            prov_name: Some("tcp".into()),
            api_version: API_VERSION,
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The sample as a caller of `node` sees and remembers it.
fn sample_at(node: Node) -> Info {
    let mut info = sample();
    let domain = info.domain.as_mut().expect("the sample has one");
    if node < Node::V1_9 {
        domain.max_err_cntr_value = 0;
    }
    if node < Node::V1_8 {
        domain.max_group_id = 0;
    }
    if node < Node::V1_7 {
        domain.max_ep_auth_key = 0;
    }
    if node < Node::V1_3 {
        domain.tclass = 0;
        info.tx.as_mut().expect("the sample has one").tclass = 0;
    }
    if node < Node::V1_1 {
        domain.mr_cnt = 0;
        let ep = info.ep.as_mut().expect("the sample has one");
        (ep.auth_key, ep.auth_key_size) = (Vec::new(), 0);
    }
    info
}

fn written(info: &Info) -> *mut fi_info {
    write_list(core::slice::from_ref(info)).expect("memory")
}

fn read_back(info: *const fi_info, node: Node) -> Info {
    // SAFETY: the tests pass infos of the node.
    unsafe { Hints::read(info, node, API_VERSION) }.expect("valid").expect("not null").info
}

/// Runs `check` with the sample in structs of `node`, each ending at an unmapped page.
fn with_guarded(node: Node, check: impl FnOnce(*const fi_info)) {
    let full = written(&sample());
    let sizes = node.sizes();
    // SAFETY: `full` is a complete info; only the guarded copies are changed.
    unsafe {
        let tx = Guarded::new(&*(*full).tx_attr, sizes.tx_attr);
        let rx = Guarded::new(&*(*full).rx_attr, sizes.rx_attr);
        let ep = Guarded::new(&*(*full).ep_attr, sizes.ep_attr);
        let domain = Guarded::new(&*(*full).domain_attr, sizes.domain_attr);
        let fabric = Guarded::new(&*(*full).fabric_attr, sizes.fabric_attr);
        let mut raw = full.read();
        raw.tx_attr = tx.pointer();
        raw.rx_attr = rx.pointer();
        raw.ep_attr = ep.pointer();
        raw.domain_attr = domain.pointer();
        raw.fabric_attr = fabric.pointer();
        let info = Guarded::new(&raw, sizes.info);
        check(info.pointer());
        free(full);
    }
}

#[test]
fn hints_are_never_read_beyond_the_callers_structs() {
    for node in NODES {
        with_guarded(node, |info| {
            let mut expected = sample_at(node);
            if node == Node::V1_0 {
                // Padding, for these callers.
                expected.fabric.as_mut().expect("the sample has one").api_version = Version(0);
            }
            assert_eq!(read_back(info, node), expected, "{node:?}");
        });
    }
}

#[test]
fn copies_are_never_read_beyond_the_callers_structs_and_are_of_full_size() {
    for node in NODES {
        with_guarded(node, |info| {
            // SAFETY: the info has the node's sizes.
            let copy = unsafe { dup(info, node) };
            assert!(!copy.is_null());
            assert_eq!(read_back(copy, Node::V1_10), sample_at(node), "{node:?}");
            // SAFETY: the copy is this test's own.
            unsafe { free(copy) };
        });
    }
}

#[test]
fn a_copy_of_nothing_has_its_zeroed_blocks() {
    for node in NODES {
        // SAFETY: null is allowed.
        let info = unsafe { dup(core::ptr::null(), node) };
        // SAFETY: a complete info.
        unsafe {
            assert!((*info).nic.is_null() && (*info).src_addr.is_null());
            assert_eq!((*(*info).tx_attr).caps, 0);
            assert_eq!((*(*info).rx_attr).caps, 0);
            assert_eq!((*(*info).ep_attr).max_msg_size, 0);
            assert!((*(*info).domain_attr).name.is_null());
            assert!((*(*info).fabric_attr).prov_name.is_null());
            free(info);
        }
    }
    // SAFETY: null is allowed.
    unsafe { free(core::ptr::null_mut()) };
}

#[test]
fn lists_keep_their_order_and_applications_may_replace_fields() {
    let mut second = sample();
    second.addr_format = 3;
    let list = write_list(&[sample(), second.clone()]).expect("memory");
    // SAFETY: a complete list, changed as applications do it.
    unsafe {
        assert_eq!(read_back((*list).next, Node::V1_10), second);
        assert!((*(*list).next).next.is_null());
        let fabric = (*list).fabric_attr;
        libc::free((*fabric).prov_name.cast());
        (*fabric).prov_name = libc::strdup(c"shm".as_ptr());
        libc::free((*list).dest_addr);
        (*list).dest_addr = core::ptr::null_mut();
        free(list);
    }
    assert_eq!(write_list(&[]), Ok(core::ptr::null_mut()));
}

#[test]
fn missing_blocks_stay_missing() {
    let empty = written(&Info::default());
    assert_eq!(read_back(empty, Node::V1_9), Info::default());
    // SAFETY: a complete info.
    unsafe {
        let copy = dup(empty, Node::V1_9);
        assert!((*copy).tx_attr.is_null() && (*copy).domain_attr.is_null());
        free(copy);
        free(empty);
    }
}

#[test]
fn unreasonable_input_is_refused() {
    let refused = |change: &dyn Fn(&mut fi_info, &mut fi_ep_attr), errno| {
        let info = written(&sample());
        // SAFETY: a complete info, restored before it is released.
        unsafe {
            let (saved, saved_ep) = (info.read(), (*info).ep_attr.read());
            change(&mut *info, &mut *saved.ep_attr);
            assert_eq!(Hints::read(info, Node::V1_10, API_VERSION).err(), Some(errno));
            saved.ep_attr.write(saved_ep);
            info.write(saved);
            free(info);
        }
    };
    refused(&|info, _| info.src_addrlen = MAX_BYTES + 1, Errno::EINVAL);
    refused(&|info, _| info.dest_addrlen = usize::MAX, Errno::EINVAL);
    refused(&|_, ep| ep.auth_key_size = MAX_BYTES + 1, Errno::EINVAL);
    refused(&|_, ep| ep.auth_key = core::ptr::null_mut(), Errno::EINVAL);
    refused(&|_, ep| ep.xpu_ctx = core::ptr::without_provenance_mut(8), Errno::ENOSYS);
}

#[test]
fn keys_of_the_address_vector_have_a_size_and_no_bytes() {
    let mut info = sample();
    let ep = info.ep.as_mut().expect("the sample has one");
    (ep.auth_key, ep.auth_key_size) = (Vec::new(), usize::MAX);
    let raw = written(&info);
    assert_eq!(read_back(raw, Node::V1_9), info);
    // SAFETY: a complete info.
    unsafe {
        let copy = dup(raw, Node::V1_9);
        assert_eq!(read_back(copy, Node::V1_9), info);
        free(copy);
        free(raw);
    }
}

#[test]
fn keys_do_not_exist_before_1_5() {
    let raw = written(&sample());
    // SAFETY: a complete info.
    let hints = unsafe { Hints::read(raw, Node::V1_9, Version::new(1, 4)) };
    let ep = hints.expect("valid").expect("not null").info.ep.expect("the sample has one");
    assert_eq!((ep.auth_key.len(), ep.auth_key_size), (0, 0));
    // SAFETY: this test's own.
    unsafe { free(raw) };
}

/// A card that counts its copies in `context` and is released by its own `close`.
mod card {
    use super::*;

    unsafe extern "C" fn control(fid: *mut fid, command: i32, arg: *mut c_void) -> i32 {
        assert_eq!(command, crate::abi::constants::FI_DUP);
        // SAFETY: `fi_dupinfo` passes room for a card, the test a counter.
        unsafe {
            *(*fid).context.cast::<i32>() += 1;
            arg.cast::<*mut fid_nic>().write(new((*fid).context, true));
        }
        0
    }

    unsafe extern "C" fn close(fid: *mut fid) -> i32 {
        // SAFETY: the card is a box of `new`.
        unsafe {
            *(*fid).context.cast::<i32>() -= 1;
            drop(Box::from_raw(fid.cast::<fid_nic>()));
        }
        0
    }

    static OPS: fi_ops = fi_ops { control, close, ..fi_ops::UNSUPPORTED };
    static MUTE_OPS: fi_ops = fi_ops { close, ..fi_ops::UNSUPPORTED };

    pub(super) fn new(context: *mut c_void, can_copy: bool) -> *mut fid_nic {
        let mut nic = fid_nic::zeroed();
        nic.fid.context = context;
        nic.fid.ops = (if can_copy { &raw const OPS } else { &raw const MUTE_OPS }).cast_mut();
        Box::into_raw(Box::new(nic))
    }
}

#[test]
fn cards_are_copied_and_closed_by_their_own_functions() {
    let mut living = 1_i32;
    for (can_copy, node, expected) in
        [(true, Node::V1_9, 1), (false, Node::V1_9, 0), (true, Node::V1_1, 0)]
    {
        let info = written(&sample());
        // SAFETY: a complete info with a card of its own.
        unsafe {
            (*info).nic = card::new((&raw mut living).cast(), can_copy);
            let copy = dup(info, node);
            assert_eq!(living, 1 + expected);
            assert_eq!((*copy).nic.is_null(), expected == 0);
            free(copy);
            assert_eq!(living, 1);
            free(info);
        }
        assert_eq!(living, 0);
        living = 1;
    }
}

#[test]
fn a_name_that_does_not_end_is_refused() {
    let info = written(&sample());
    let endless = vec![b'a' as c_char; crate::text::MAX_TEXT + 1];
    // SAFETY: a complete info, restored before it is released.
    unsafe {
        let name = (*(*info).domain_attr).name;
        (*(*info).domain_attr).name = endless.as_ptr().cast_mut();
        assert_eq!(Hints::read(info, Node::V1_9, API_VERSION).err(), Some(Errno::EINVAL));
        assert!(dup(info, Node::V1_9).is_null());
        (*(*info).domain_attr).name = name;
        free(info);
    }
}
