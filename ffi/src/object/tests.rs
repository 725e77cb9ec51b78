use super::*;
use crate::abi::{
    Plain,
    constants::{FI_CLASS_CQ, FI_CLASS_DOMAIN},
    fid::{fi_ops, fid_cq, fid_domain},
    ops::fi_ops_cq,
};

struct Queue(u32);

impl CObject for Queue {
    type Head = fid_cq;
    const CLASS: usize = FI_CLASS_CQ;
}

/// The same class from another provider.
struct OtherQueue;

impl CObject for OtherQueue {
    type Head = fid_cq;
    const CLASS: usize = FI_CLASS_CQ;
}

struct Domain;

impl CObject for Domain {
    type Head = fid_domain;
    const CLASS: usize = FI_CLASS_DOMAIN;
}

fn open_queue(payload: &Arc<Queue>) -> *mut fid_cq {
    let mut head = fid_cq { ops: fi_ops_cq::unsupported(), ..fid_cq::zeroed() };
    head.fid.ops = fi_ops::unsupported();
    open(payload.clone(), core::ptr::without_provenance_mut(8), head)
}

fn shell<'a, T: CObject>(head: *mut fid_cq) -> Result<&'a Shell<T>> {
    // SAFETY: the tests pass shells, open or closed.
    unsafe { from_fid(head.cast()) }
}

#[test]
fn an_open_object_is_found() {
    let queue = Arc::new(Queue(7));
    let head = open_queue(&queue);
    let found = shell::<Queue>(head).expect("open");
    assert_eq!(found.payload().map(|queue| queue.0), Ok(7));
    assert_eq!(found.context().addr(), 8);
    assert_eq!(found.head(), head);
    assert!(Arc::ptr_eq(&found.share().expect("open"), &queue));
    // SAFETY: a shell of this type, open.
    assert_eq!(unsafe { call_target::<Queue>(head) }.map(|queue| queue.0), Ok(7));
    assert_eq!(Arc::strong_count(&queue), 2);
    drop(found.retire());
    assert_eq!(Arc::strong_count(&queue), 1);
}

#[test]
fn null_and_other_types_are_refused() {
    assert_eq!(shell::<Queue>(core::ptr::null_mut()).err(), Some(Errno::EINVAL));
    let head = open_queue(&Arc::new(Queue(0)));
    assert_eq!(shell::<OtherQueue>(head).err(), Some(Errno::EINVAL));
    // SAFETY: a shell of another class.
    assert_eq!(unsafe { from_fid::<Domain>(head.cast()) }.err(), Some(Errno::EINVAL));
    assert!(shell::<Queue>(head).and_then(Shell::retire).is_ok());
}

#[test]
fn a_closed_object_is_recognised_and_its_tables_refuse() {
    let head = open_queue(&Arc::new(Queue(0)));
    let open = shell::<Queue>(head).expect("open");
    assert!(open.retire().is_ok());
    assert_eq!(open.retire().err(), Some(Errno::EINVAL));
    assert_eq!(shell::<Queue>(head).err(), Some(Errno::EINVAL));
    // SAFETY: shells stay readable; the tables are those of a closed object.
    unsafe {
        assert_eq!(call_target::<Queue>(head).err(), Some(Errno::EINVAL));
        assert_eq!((*head).fid.fclass, FI_CLASS_UNSPEC);
        assert_eq!(((*(*head).ops).read)(head, core::ptr::null_mut(), 0), -22);
        assert_eq!(((*(*head).fid.ops).close)(head.cast()), -22);
        assert_eq!((*(*head).ops).size, size_of::<fi_ops_cq>());
    }
}

#[test]
fn a_child_finds_shells_empty() {
    let queue = Arc::new(Queue(7));
    let head = open_queue(&queue);
    // SAFETY: the child ends without running anything else of the test's.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: async-signal-safe: a child that hangs is ended.
        unsafe { libc::alarm(10) };
        let refused = shell::<Queue>(head).err() == Some(Errno::EOPNOTSUPP);
        // SAFETY: a shell of this type, open or closed.
        let end = || unsafe { close(head.cast(), |_: &Shell<Queue>| unreachable!()) };
        let good = refused && end() == 0 && end() == -22 && Arc::strong_count(&queue) == 2;
        let own = open_queue(&queue);
        let good = good && shell::<Queue>(own).and_then(Shell::retire).is_ok();
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = -1;
    // SAFETY: the place is writable for the call; the child is ours.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(status, 0);
    assert!(shell::<Queue>(head).and_then(Shell::retire).is_ok());
}

#[test]
fn a_shell_rests_before_it_is_used_again() {
    /// A type of its own, because other tests open and close queues at the same time.
    struct Resting;
    impl CObject for Resting {
        type Head = fid_cq;
        const CLASS: usize = FI_CLASS_CQ;
    }
    let cycle = || {
        let head = open(Arc::new(Resting), core::ptr::null_mut(), fid_cq::closed());
        assert!(shell::<Resting>(head).and_then(Shell::retire).is_ok());
        head
    };
    let first = cycle();
    for _ in 0..QUARANTINE {
        assert_ne!(cycle(), first);
    }
    assert_eq!(cycle(), first);
}
