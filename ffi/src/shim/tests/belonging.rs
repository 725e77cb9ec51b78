//! What may be put together.

use super::*;
use crate::abi::{
    attr::fi_cq_attr,
    fid::{fid_ep, fid_pep},
};

const EDOMAIN: c_int = -262;
const EINVAL: c_int = -22;

impl Open {
    fn endpoint(&self, info: *mut fi_info) -> Result<*mut fid_ep, c_int> {
        let mut ep = core::ptr::null_mut();
        // SAFETY: the domain is open, the info whole.
        let code =
            unsafe { ((*(*self.domain).ops).endpoint)(self.domain, info, &raw mut ep, NULL) };
        if code == 0 { Ok(ep) } else { Err(code) }
    }

    fn shared_receive(&self) -> *mut fid_ep {
        let (mut srx, none) = (core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: the domain is open.
        let code =
            unsafe { ((*(*self.domain).ops).srx_ctx)(self.domain, none, &raw mut srx, NULL) };
        assert_eq!(code, 0);
        srx
    }

    fn region(&self) -> *mut fid_mr {
        static MEMORY: [u8; 8] = [0; 8];
        let piece = iovec { iov_base: MEMORY.as_ptr().cast_mut().cast(), iov_len: MEMORY.len() };
        let attr = fi_mr_attr {
            mr_iov: &raw const piece,
            iov_count: 1,
            access: FI_RECV,
            ..fi_mr_attr::zeroed()
        };
        self.mr_regattr(&attr, 0).unwrap()
    }
}

/// Binds one of each kind from `other` to an endpoint and a region of `own`.
fn bind_from(own: &Open, other: &Open, code: c_int) {
    let ep = own.endpoint(own.info).unwrap();
    let cq = other.cq(&fi_cq_attr::zeroed()).unwrap();
    let cntr = other.cntr(FI_WAIT_NONE);
    let av = other.av(&mut fi_av_attr::zeroed()).unwrap();
    assert_eq!(bind(ep, cq, FI_TRANSMIT), code);
    assert_eq!(bind(ep, cntr, FI_SEND), code);
    assert_eq!(bind(ep, av, 0), code);
    let mr = own.region();
    assert_eq!(bind(mr, cntr, FI_REMOTE_WRITE), code);
    for object in [mr.cast::<fid>(), ep.cast(), av.cast(), cntr.cast(), cq.cast()] {
        assert_eq!(close(object), 0);
    }
}

#[test]
fn objects_of_one_domain_only() {
    let own = Open::new();
    bind_from(&own, &own, 0);
    bind_from(&own, &Open::new(), EDOMAIN);
    let bare = Open::with(|attr| attr.threading = FI_THREAD_DOMAIN);
    bind_from(&own, &bare, EDOMAIN);
    bind_from(&bare, &own, EDOMAIN);
    let tcp = Open::of(c"tcp", |_| {});
    bind_from(&own, &tcp, EINVAL);
    bind_from(&tcp, &own, EINVAL);
}

#[test]
fn shared_receives_and_regions_of_one_domain_only() {
    let (own, other) = (Open::of(c"tcp", |_| {}), Open::of(c"tcp", |_| {}));
    let (ep, srx, mr) = (own.endpoint(own.info).unwrap(), other.shared_receive(), other.region());
    assert_eq!(bind(ep, srx, 0), EDOMAIN);
    assert_eq!(bind(mr, ep, 0), EDOMAIN);
    for object in [mr.cast::<fid>(), srx.cast(), ep.cast()] {
        assert_eq!(close(object), 0);
    }
}

#[test]
fn event_queues_of_one_fabric_only() {
    let (own, other) = (Open::of(c"tcp", |_| {}), Open::of(c"tcp", |_| {}));
    let (eq, foreign) = (own.eq(FI_WAIT_NONE), other.eq(FI_WAIT_NONE));
    let ep = own.endpoint(own.info).unwrap();
    let av = own.av(&mut fi_av_attr::zeroed()).unwrap();
    let mut pep: *mut fid_pep = core::ptr::null_mut();
    // SAFETY: the fabric is open, the info whole.
    let code =
        unsafe { ((*(*own.fabric).ops).passive_ep)(own.fabric, own.info, &raw mut pep, NULL) };
    assert_eq!(code, 0);
    assert_eq!(bind(own.domain, foreign, 0), EINVAL);
    for object in [ep.cast::<fid>(), av.cast(), pep.cast()] {
        assert_eq!(bind(object, foreign, 0), EINVAL);
        assert_eq!(bind(object, eq, 0), 0);
    }
    for object in [ep.cast::<fid>(), av.cast(), pep.cast(), eq.cast(), foreign.cast()] {
        assert_eq!(close(object), 0);
    }
}

#[test]
fn infos_of_the_domains_provider_only() {
    let (shm, tcp) = (Open::new(), Open::of(c"tcp", |_| {}));
    for (own, other) in [(&shm, &tcp), (&tcp, &shm)] {
        assert_eq!(own.endpoint(other.info).err(), Some(EINVAL));
        // SAFETY: the copy has all its structs, is private to this test and freed once.
        unsafe {
            let copy = info::dup(other.info, Node::V1_9);
            let name = core::mem::replace(&mut (*(*copy).fabric_attr).prov_name, NULL.cast());
            assert_eq!(own.endpoint(copy).err(), Some(EINVAL), "the addresses are of another kind");
            (*(*copy).fabric_attr).prov_name = name;
            info::free(copy);
        }
        // SAFETY: the info is private to this test; the name is put back.
        unsafe {
            let attr = (*own.info).fabric_attr;
            let name = core::mem::replace(&mut (*attr).prov_name, NULL.cast());
            let ep = own.endpoint(own.info);
            (*attr).prov_name = name;
            assert_eq!(close(ep.unwrap()), 0);
        }
    }
}
