//! Shared receive contexts.

use fabric_core::{
    flags::Flags,
    op::{ADDR_UNSPEC, IoVec, RecvOp},
};

use super::*;
use crate::{
    abi::{
        info::fi_rx_attr,
        iovec,
        msg::{fi_msg, fi_msg_tagged},
    },
    shim::{
        payload::{EpObject, SrxObject},
        srx,
    },
};

const BUFFER: *mut c_void = core::ptr::without_provenance_mut(0x100);
const PIECE: IoVec = IoVec { base: core::ptr::without_provenance_mut(0x100), len: 8 };
const CONTEXT: *mut c_void = core::ptr::without_provenance_mut(0x70);

fn open(world: &World, attr: &fi_rx_attr) -> Result<*mut fid_ep, Errno> {
    // SAFETY: whole attributes.
    unsafe { srx::open(world.domain(), &raw const *attr, context(0x5)) }
}

fn posted(flags: Flags, src: u64, tag: Option<(u64, u64)>) -> String {
    let (tagged, (tag, ignore)) = (tag.is_some(), tag.unwrap_or_default());
    let op = RecvOp { iov: &[PIECE], src, tagged, tag, ignore, context: CONTEXT.addr(), flags };
    format!("{op:?}")
}

#[test]
fn receives_are_posted_to_the_context() {
    let world = World::new();
    let defaults = Flags::COMPLETION | Flags::MULTI_RECV;
    let attr = fi_rx_attr { op_flags: defaults.bits(), size: 12, ..fi_rx_attr::zeroed() };
    let srx = open(&world, &attr).expect("context");
    assert_eq!(class(srx), FI_CLASS_SRX_CTX);
    // SAFETY: the context is open and of this type.
    let shell = unsafe { from_fid::<SrxObject<Peer>>(srx.cast()) };
    let posts = shell.and_then(|shell| shell.payload()).expect("open").srx.clone();
    assert_eq!((posts.attr.size, posts.attr.op_flags), (12, defaults));
    let mut iov = iovec { iov_base: BUFFER, iov_len: 8 };
    let msg = fi_msg { msg_iov: &raw mut iov, iov_count: 1, context: CONTEXT, ..fi_msg::zeroed() };
    let tagged = fi_msg_tagged {
        msg_iov: &raw mut iov,
        iov_count: 1,
        context: CONTEXT,
        tag: 3,
        ..fi_msg_tagged::zeroed()
    };
    let none = core::ptr::null_mut();
    // SAFETY: an open context; arrays and structs are whole.
    unsafe {
        let (m, t) = (&*(*srx).msg, &*(*srx).tagged);
        assert_eq!((m.recv)(srx, BUFFER, 8, NULL, ADDR_UNSPEC, CONTEXT), 0);
        assert_eq!((m.recvv)(srx, &raw const iov, none, 1, 4, CONTEXT), 0);
        assert_eq!((m.recvmsg)(srx, &raw const msg, FI_MULTI_RECV), 0);
        assert_eq!((t.recv)(srx, BUFFER, 8, NULL, ADDR_UNSPEC, 1, 2, CONTEXT), 0);
        assert_eq!((t.recvv)(srx, &raw const iov, none, 1, 4, 1, 2, CONTEXT), 0);
        assert_eq!((t.recvmsg)(srx, &raw const tagged, NONE), 0);
        assert_eq!(((*(*srx).ops).cancel)(srx.cast(), CONTEXT), 0);
        let unsupported = Errno::ENOSYS.to_c();
        assert_eq!((m.send)(srx, BUFFER, 8, NULL, 0, CONTEXT), unsupported);
        assert_eq!((t.inject)(srx, BUFFER, 8, 0, 0), unsupported);
        assert_eq!(((*(*srx).rma).read)(srx, BUFFER, 8, NULL, 0, 0, 0, CONTEXT), unsupported);
        assert_eq!((m.recv)(none.cast(), BUFFER, 8, NULL, 0, CONTEXT), Errno::EINVAL.to_c());
    }
    let some = Some((1, 2));
    let expected = [
        "open 0x5".to_owned(),
        posted(defaults, ADDR_UNSPEC, None),
        posted(defaults, 4, None),
        posted(Flags::MULTI_RECV, 0, None),
        posted(Flags::COMPLETION, ADDR_UNSPEC, some),
        posted(Flags::COMPLETION, 4, some),
        posted(Flags::empty(), 0, Some((3, 0))),
        "cancel 0x70".to_owned(),
    ];
    assert_eq!(*posts.calls.lock().unwrap(), expected);
    assert_eq!(control(srx, FI_ENABLE, NULL), -Errno::ENOSYS.get());
    assert_eq!(close(srx), 0);
    assert_eq!(posts.calls.lock().unwrap().last().unwrap(), "close");
    // SAFETY: closed objects keep whole tables.
    let code = unsafe { ((*(*srx).msg).recv)(srx, BUFFER, 8, NULL, 0, CONTEXT) };
    assert_eq!(code, Errno::EINVAL.to_c());
}

#[test]
fn endpoints_keep_their_context_open() {
    let world = World::new();
    let srx = open(&world, &fi_rx_attr::zeroed()).expect("context");
    let eps = [(); 2].map(|()| world.try_ep(Owned::new("mem://srx").0).expect("endpoint"));
    assert_eq!(bind(eps[0], srx, FI_RECV), -Errno::EBADFLAGS.get());
    for ep in eps {
        assert_eq!(bind(ep, srx, NONE), 0);
        assert_eq!(bind(ep, srx, NONE), EINVAL, "it has one");
        // SAFETY: the endpoint is open and of this type.
        let shell = unsafe { from_fid::<EpObject<Peer>>(ep.cast()) };
        let peer = shell.and_then(|shell| shell.payload()).expect("open").ep.clone();
        assert!(peer.shared.lock().unwrap().is_some());
    }
    assert!(world.domain().domain.in_use());
    for ep in eps {
        assert_eq!(close(srx), -Errno::EBUSY.get());
        assert_eq!(close(ep), 0);
    }
    assert_eq!((close(srx), close(srx)), (0, EINVAL));
    assert!(!world.domain().domain.in_use());
}

#[test]
fn contexts_of_other_libraries_are_refused() {
    let world = World::new();
    let attr = fi_rx_attr { op_flags: FI_PEER, ..fi_rx_attr::zeroed() };
    assert_eq!(open(&world, &attr), Err(Errno::EINVAL));
    // SAFETY: no attributes are those of zeros.
    let srx = unsafe { srx::open(world.domain(), core::ptr::null(), NULL) }.expect("context");
    assert_eq!(close(srx), 0);
}
