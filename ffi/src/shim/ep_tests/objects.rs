use super::*;
use crate::{
    abi::{
        attr::{fi_av_attr, fi_cntr_attr, fi_cq_attr, fi_eq_attr},
        constants::{FI_ALIAS, FI_CLASS_UNSPEC, FI_ENABLE, FI_GETOPSFLAG, FI_SETOPSFLAG},
        fid::fid,
        ops::{fi_ops_cm, fi_ops_ep},
    },
    shim::{av, cntr, cq, eq},
};

const NULL: *mut c_void = core::ptr::null_mut();

fn bind(opened: &Opened, bound: *mut fid, flags: Flags) -> i32 {
    // SAFETY: an open or closed endpoint, and null or an object.
    unsafe { ((*(*opened.ep).fid.ops).bind)(opened.ep.cast(), bound, flags.bits()) }
}

fn control(opened: &Opened, command: i32) -> i32 {
    // SAFETY: an open or closed endpoint.
    unsafe { ((*(*opened.ep).fid.ops).control)(opened.ep.cast(), command, NULL) }
}

fn ep_table(opened: &Opened) -> fi_ops_ep {
    // SAFETY: the tables of shells are complete and static.
    unsafe { *(*opened.ep).ops }
}

fn cm_table(opened: &Opened) -> fi_ops_cm {
    // SAFETY: the tables of shells are complete and static.
    unsafe { *(*opened.ep).cm }
}

#[test]
fn opening() {
    let domain = domain();
    let open = |info: *mut fi_info, flags: Flags| {
        // SAFETY: null or a complete info of full size.
        unsafe { ep::open(&domain, info, flags.bits(), context()) }.err()
    };
    let mut info = fi_info::zeroed();
    assert_eq!(open(core::ptr::null_mut(), Flags::empty()), Some(Errno::EINVAL));
    assert_eq!(open(&raw mut info, Flags::PEER), Some(Errno::EINVAL));
    assert_eq!(open(&raw mut info, Flags::MORE), Some(Errno::EBADFLAGS));
    info.caps = Flags::MULTICAST.bits();
    assert_eq!(open(&raw mut info, Flags::empty()), Some(Errno::EOPNOTSUPP));
}

#[test]
fn no_table_is_null() {
    let o = Opened::new();
    // SAFETY: the head of an open endpoint.
    let head = unsafe { *o.ep };
    assert_eq!(head.fid.context, context());
    assert!(!head.fid.ops.is_null() && !head.ops.is_null() && !head.cm.is_null());
    assert!(!head.msg.is_null() && !head.rma.is_null() && !head.tagged.is_null());
    assert!(!head.atomic.is_null() && !head.collective.is_null());
    // SAFETY: as above; this slot looks at nothing.
    unsafe {
        assert_eq!(((*head.collective).barrier)(o.ep, DEST, NULL), Errno::ENOSYS.to_c());
    }
    assert_eq!(o.close(), 0);
}

#[test]
fn binding() {
    let o = Opened::new();
    // SAFETY: complete attributes of full size.
    let (cq, counter, av, eq) = unsafe {
        (
            cq::open(&o.domain, &mut fi_cq_attr::zeroed(), NULL).expect("cq"),
            cntr::open(&o.domain, &mut fi_cntr_attr::zeroed(), NULL).expect("counter"),
            av::open(&o.domain, &mut fi_av_attr::zeroed(), NULL).expect("av"),
            eq::open(&o.domain.fabric.0, &mut fi_eq_attr::zeroed(), NULL).expect("eq"),
        )
    };
    let (cq, counter, av, eq) =
        (cq.cast::<fid>(), counter.cast::<fid>(), av.cast::<fid>(), eq.cast::<fid>());

    let flags = Flags::SEND | Flags::SELECTIVE_COMPLETION;
    o.did(bind(&o, cq, flags), &("cq", flags));
    o.did(bind(&o, counter, Flags::READ), &("counter", Flags::READ));
    o.did(bind(&o, av, Flags::empty()), &"av");
    o.did(bind(&o, eq, Flags::empty()), &"eq");
    o.refused(bind(&o, av, Flags::SEND), Errno::EBADFLAGS);
    o.refused(bind(&o, eq, Flags::SEND), Errno::EBADFLAGS);
    o.refused(bind(&o, core::ptr::null_mut(), Flags::SEND), Errno::EINVAL);
    o.refused(bind(&o, o.ep.cast(), Flags::empty()), Errno::EINVAL);

    assert_eq!(o.close(), 0);
    o.mock.take();
    o.refused(bind(&o, cq, Flags::RECV), Errno::EINVAL);
}

#[test]
fn control_commands() {
    let o = Opened::new();
    o.did(control(&o, FI_ENABLE), &"enable");
    for command in [FI_GETOPSFLAG, FI_SETOPSFLAG, FI_ALIAS, -1, 99] {
        o.refused(control(&o, command), Errno::ENOSYS);
    }
    *o.mock.refuse.lock().expect("refusal") = Some(Errno::ENOCQ);
    assert_eq!(control(&o, FI_ENABLE), -Errno::ENOCQ.get());
    *o.mock.refuse.lock().expect("refusal") = None;
    assert_eq!(o.close(), 0);
    o.mock.take();
    o.refused(control(&o, FI_ENABLE), Errno::EINVAL);
}

#[test]
fn closing_once() {
    let o = Opened::new();
    o.did(o.close(), &"close");
    o.refused(o.close(), Errno::EINVAL);
    // SAFETY: shells stay readable.
    assert_eq!(unsafe { (*o.ep).fid.fclass }, FI_CLASS_UNSPEC);
    assert_eq!(Arc::strong_count(&o.mock), 1);
}

#[test]
fn options() {
    let o = Opened::new();
    let (t, fid) = (ep_table(&o), o.ep.cast::<fid>());
    let (mut value, mut len) = (0usize, 4usize);
    let (at, room) = ((&raw mut value).cast(), &raw mut len);
    // SAFETY: an open endpoint and buffers of the lengths named.
    unsafe {
        assert_eq!((t.getopt)(fid, 0, 0, at, room), -Errno::ETOOSMALL.get());
        assert_eq!((*room, value), (8, 0));
        assert_eq!((t.getopt)(fid, 0, 0, at, room), 0);
        assert_eq!((*room, value), (8, 4096));
        assert_eq!((t.getopt)(fid, 0, 0, NULL, room), -Errno::EINVAL.get());
        assert_eq!((t.getopt)(fid, 0, 0, at, core::ptr::null_mut()), -Errno::EINVAL.get());
        assert_eq!((t.getopt)(fid, 1, 0, at, room), -Errno::ENOPROTOOPT.get());
        assert_eq!((t.getopt)(fid, 0, 10, at, room), -Errno::ENOPROTOOPT.get());

        let bytes = 4096usize.to_ne_bytes();
        o.did((t.setopt)(fid, 0, 0, at, 8), &("option", 0, bytes.as_slice()));
        o.did((t.setopt)(fid, 0, 10, NULL, 8), &("option", 10, [0u8; 0].as_slice()));
        o.refused((t.setopt)(fid, 1, 0, at, 8), Errno::ENOPROTOOPT);
        o.did((t.cancel)(fid, context()) as i32, &("cancel", CONTEXT));
        assert_eq!((t.tx_size_left)(o.ep), Errno::ENOSYS.to_c());

        assert_eq!(o.close(), 0);
        o.mock.take();
        o.refused((t.setopt)(fid, 0, 0, at, 8), Errno::EINVAL);
        o.refused((t.cancel)(fid, context()) as i32, Errno::EINVAL);
        o.refused((t.cancel)(core::ptr::null_mut(), context()) as i32, Errno::EINVAL);
    }
}

#[test]
fn names() {
    let o = Opened::new();
    let (t, fid) = (cm_table(&o), o.ep.cast::<fid>());
    let mut room = [0xffu8; 32];
    let at = room.as_mut_ptr();
    let mut len = 0usize;
    let len_at = &raw mut len;
    let too_small = -Errno::ETOOSMALL.get();
    // SAFETY: an open endpoint and buffers of the lengths named.
    unsafe {
        for start in [0, 32] {
            *len_at = start;
            assert_eq!((t.getname)(fid, NULL, len_at), too_small);
            assert_eq!(*len_at, NAME.len());
        }
        *len_at = 3;
        assert_eq!((t.getname)(fid, at.cast(), len_at), too_small);
        assert_eq!(*len_at, NAME.len());
        assert_eq!(core::slice::from_raw_parts(at, 4), [b'm', b'o', b'c', 0xff]);
        *len_at = 32;
        assert_eq!((t.getname)(fid, at.cast(), len_at), 0);
        assert_eq!(core::slice::from_raw_parts(at, *len_at), NAME);
        assert_eq!((t.getname)(fid, at.cast(), core::ptr::null_mut()), -Errno::EINVAL.get());

        o.did((t.setname)(fid, at.cast(), 4), &("name", &NAME[..4]));
        o.refused((t.setname)(fid, NULL, 4), Errno::EINVAL);
        o.refused((t.setname)(fid, at.cast(), 0), Errno::EINVAL);
        o.refused((t.setname)(fid, at.cast(), usize::MAX), Errno::EINVAL);
        o.refused((t.getpeer)(o.ep, at.cast(), len_at), Errno::ENOSYS);
        o.refused((t.shutdown)(o.ep, 0), Errno::ENOSYS);

        assert_eq!(o.close(), 0);
        assert_eq!((t.getname)(fid, at.cast(), len_at), -Errno::EINVAL.get());
    }
}
