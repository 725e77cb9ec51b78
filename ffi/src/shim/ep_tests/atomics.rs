use fabric_core::{
    atomic::{
        atomic_op::{ATOMIC_READ, CSWAP, DIFF, SUM},
        datatype::{INT32, INT64, LONG_DOUBLE},
    },
    op::{
        AtomicKind::{self, Base, Compare, Fetch},
        RmaIov,
    },
};

use super::*;
use crate::abi::{
    data_ops::fi_ops_atomic,
    msg::{fi_ioc, fi_msg_atomic, fi_rma_ioc},
};

const NULL: *mut c_void = core::ptr::null_mut();
const NO_DESC: *mut *mut c_void = core::ptr::null_mut();
const ADDR: u64 = 0xadd0;
const KEY: u64 = 0x6e1;
const DATA: u64 = 0xda7a;

/// Buffers of operands, comparands and results: each as one piece of three elements of four bytes,
/// and as two pieces of one and two elements.
const OPERAND: usize = 0x100;
const COMPARE: usize = 0x200;
const RESULT: usize = 0x300;

const fn one(at: usize) -> [IoVec; 1] {
    [piece(at, 12)]
}

const fn two(at: usize) -> [IoVec; 2] {
    [piece(at, 4), piece(at + 16, 8)]
}

fn c_two(at: usize) -> [fi_ioc; 2] {
    [fi_ioc { addr: buffer(at), count: 1 }, fi_ioc { addr: buffer(at + 16), count: 2 }]
}

const PLAIN_REMOTE: [RmaIov; 1] = [RmaIov { addr: ADDR, len: 12, key: KEY }];
const C_REMOTE: [fi_rma_ioc; 2] =
    [fi_rma_ioc { addr: 1, count: 2, key: 5 }, fi_rma_ioc { addr: 3, count: 1, key: 6 }];
const REMOTE: [RmaIov; 2] =
    [RmaIov { addr: 1, len: 8, key: 5 }, RmaIov { addr: 3, len: 4, key: 6 }];

fn message(ioc: &[fi_ioc], op: u32) -> fi_msg_atomic {
    fi_msg_atomic {
        msg_iov: ioc.as_ptr(),
        desc: NO_DESC,
        iov_count: ioc.len(),
        addr: DEST,
        rma_iov: C_REMOTE.as_ptr(),
        rma_iov_count: C_REMOTE.len(),
        datatype: INT32,
        op,
        context: context(),
        data: DATA,
    }
}

fn table(opened: &Opened) -> fi_ops_atomic {
    // SAFETY: the tables of shells are complete and static.
    unsafe { *(*opened.ep).atomic }
}

fn atomic<'a>(
    meta: TxMeta,
    kind: AtomicKind,
    op: u32,
    local: [&'a [IoVec]; 3],
    remote: &'a [RmaIov],
) -> AtomicOp<'a> {
    let [operand, compare, result] = local;
    AtomicOp { meta, kind, datatype: INT32, op, operand, compare, result, remote }
}

#[test]
fn every_slot() {
    let o = Opened::new();
    let (t, ep) = (table(&o), o.ep);
    let (a, c, r) = (buffer(OPERAND), buffer(COMPARE), buffer(RESULT));
    let (one_a, one_c, one_r) = (one(OPERAND), one(COMPARE), one(RESULT));
    let (two_a, two_c, two_r) = (two(OPERAND), two(COMPARE), two(RESULT));
    let (av, cv, mut rv) = (c_two(OPERAND), c_two(COMPARE), c_two(RESULT));
    let (av, cv, rv) = (av.as_slice(), cv.as_slice(), rv.as_mut_ptr());
    let plain = meta(TX_FLAGS);
    let msg_meta = TxMeta { data: DATA, ..meta(Flags::FENCE) };
    let fence = Flags::FENCE.bits();
    let (dt, iov, x) = (INT32, av.as_ptr(), context());
    // SAFETY: an open endpoint, readable arrays and messages; the mock touches no buffer.
    unsafe {
        o.did(
            code((t.write)(ep, a, 3, NULL, DEST, ADDR, KEY, dt, SUM, x)),
            &atomic(plain, Base, SUM, [&one_a, &[], &[]], &PLAIN_REMOTE),
        );
        o.did(
            code((t.writev)(ep, iov, NO_DESC, 2, DEST, ADDR, KEY, dt, SUM, x)),
            &atomic(plain, Base, SUM, [&two_a, &[], &[]], &PLAIN_REMOTE),
        );
        o.did(
            code((t.writemsg)(ep, &message(av, SUM), fence)),
            &atomic(msg_meta, Base, SUM, [&two_a, &[], &[]], &REMOTE),
        );
        o.did(
            code((t.inject)(ep, a, 3, DEST, ADDR, KEY, dt, SUM)),
            &atomic(silent(), Base, SUM, [&one_a, &[], &[]], &PLAIN_REMOTE),
        );
        o.did(
            code((t.readwrite)(ep, a, 3, NULL, r, NULL, DEST, ADDR, KEY, dt, SUM, x)),
            &atomic(plain, Fetch, SUM, [&one_a, &[], &one_r], &PLAIN_REMOTE),
        );
        o.did(
            code((t.readwritev)(ep, iov, NO_DESC, 2, rv, NO_DESC, 2, DEST, ADDR, KEY, dt, SUM, x)),
            &atomic(plain, Fetch, SUM, [&two_a, &[], &two_r], &PLAIN_REMOTE),
        );
        o.did(
            code((t.readwritemsg)(ep, &message(av, SUM), rv, NO_DESC, 2, fence)),
            &atomic(msg_meta, Fetch, SUM, [&two_a, &[], &two_r], &REMOTE),
        );
        o.did(
            code((t.compwrite)(ep, a, 3, NULL, c, NULL, r, NULL, DEST, ADDR, KEY, dt, CSWAP, x)),
            &atomic(plain, Compare, CSWAP, [&one_a, &one_c, &one_r], &PLAIN_REMOTE),
        );
        o.did(
            code((t.compwritev)(
                ep,
                iov,
                NO_DESC,
                2,
                cv.as_ptr(),
                NO_DESC,
                2,
                rv,
                NO_DESC,
                2,
                DEST,
                ADDR,
                KEY,
                dt,
                CSWAP,
                x,
            )),
            &atomic(plain, Compare, CSWAP, [&two_a, &two_c, &two_r], &PLAIN_REMOTE),
        );
        o.did(
            code((t.compwritemsg)(
                ep,
                &message(av, CSWAP),
                cv.as_ptr(),
                NO_DESC,
                2,
                rv,
                NO_DESC,
                2,
                fence,
            )),
            &atomic(msg_meta, Compare, CSWAP, [&two_a, &two_c, &two_r], &REMOTE),
        );
    }
    assert_eq!(o.close(), 0);
}

#[test]
fn a_pure_read_has_no_operand() {
    let o = Opened::new();
    let (t, ep, x) = (table(&o), o.ep, context());
    let (one_r, two_r) = (one(RESULT), two(RESULT));
    let mut rv = c_two(RESULT);
    let plain = meta(TX_FLAGS);
    let (dt, op) = (INT32, ATOMIC_READ);
    // SAFETY: an open endpoint, readable arrays and messages; the mock touches no buffer.
    unsafe {
        let r = buffer(RESULT);
        o.did(
            code((t.readwrite)(ep, NULL, 3, NULL, r, NULL, DEST, ADDR, KEY, dt, op, x)),
            &atomic(plain, Fetch, op, [&[], &[], &one_r], &PLAIN_REMOTE),
        );
        let rv = rv.as_mut_ptr();
        let none = core::ptr::null();
        o.did(
            code((t.readwritev)(ep, none, NO_DESC, 1, rv, NO_DESC, 2, DEST, ADDR, KEY, dt, op, x)),
            &atomic(plain, Fetch, op, [&[], &[], &two_r], &PLAIN_REMOTE),
        );
        let msg_meta = TxMeta { data: DATA, ..meta(Flags::empty()) };
        o.did(
            code((t.readwritemsg)(ep, &message(&[], op), rv, NO_DESC, 2, 0)),
            &atomic(msg_meta, Fetch, op, [&[], &[], &two_r], &REMOTE),
        );
        // It is no member of the other families.
        o.refused(
            code((t.write)(ep, NULL, 3, NULL, DEST, ADDR, KEY, dt, op, x)),
            Errno::EOPNOTSUPP,
        );
    }
    assert_eq!(o.close(), 0);
}

#[test]
fn refusals() {
    let o = Opened::new();
    let (t, ep, x) = (table(&o), o.ep, context());
    let buf = buffer(OPERAND);
    // SAFETY: null or an open endpoint, readable arrays and messages or none.
    unsafe {
        let write =
            |count, dt, op| code((t.write)(ep, buf, count, NULL, DEST, ADDR, KEY, dt, op, x));
        o.refused(write(0, INT32, SUM), Errno::EINVAL);
        o.refused(write(usize::MAX / 4 + 1, INT32, SUM), Errno::EINVAL);
        o.refused(write(1, INT32, DIFF), Errno::EOPNOTSUPP);
        o.refused(write(1, LONG_DOUBLE, SUM), Errno::EOPNOTSUPP);
        o.refused(write(1, u32::MAX, u32::MAX), Errno::EOPNOTSUPP);

        let halves = [fi_ioc { addr: buf, count: usize::MAX / 4 }; 5];
        let writev = |count| {
            let iov = halves.as_ptr();
            code((t.writev)(ep, iov, NO_DESC, count, DEST, ADDR, KEY, INT32, SUM, x))
        };
        o.refused(writev(0), Errno::EINVAL);
        o.refused(writev(2), Errno::EINVAL);
        o.refused(writev(5), Errno::EINVAL);

        let ioc = c_two(OPERAND);
        let nothing = [fi_rma_ioc { addr: 0, count: 0, key: 0 }];
        let empty =
            fi_msg_atomic { rma_iov: nothing.as_ptr(), rma_iov_count: 1, ..message(&ioc, SUM) };
        o.refused(code((t.writemsg)(ep, &empty, 0)), Errno::EINVAL);
        let trigger = Flags::TRIGGER.bits();
        o.refused(code((t.writemsg)(ep, &message(&ioc, SUM), trigger)), Errno::ENOSYS);
        o.refused(code((t.writemsg)(ep, core::ptr::null(), 0)), Errno::EINVAL);

        assert_eq!(o.close(), 0);
        o.mock.take();
        o.refused(write(1, INT32, SUM), Errno::EINVAL);
        let closed = table(&o);
        o.refused(code((closed.inject)(ep, buf, 1, DEST, ADDR, KEY, INT32, SUM)), Errno::EINVAL);
    }
}

#[test]
fn validity_queries() {
    let o = Opened::new();
    let (t, ep) = (table(&o), o.ep);
    let mut count = 0;
    let place = &raw mut count;
    // SAFETY: null or an open endpoint, null or a place for the count.
    unsafe {
        assert_eq!((t.writevalid)(ep, INT64, SUM, place), 0);
        assert_eq!(*place, ATOMIC_LIMIT / 8);
        assert_eq!((t.readwritevalid)(ep, INT32, ATOMIC_READ, place), 0);
        assert_eq!(*place, ATOMIC_LIMIT / 4);
        assert_eq!((t.compwritevalid)(ep, INT32, CSWAP, core::ptr::null_mut()), 0);
        assert_eq!((t.writevalid)(ep, INT32, ATOMIC_READ, place), -95);
        assert_eq!((t.readwritevalid)(ep, LONG_DOUBLE, SUM, place), -95);
        assert_eq!((t.compwritevalid)(ep, INT32, SUM, place), -95);
        assert_eq!((t.writevalid)(core::ptr::null_mut(), INT64, SUM, place), -22);
    }
    assert_eq!(count, ATOMIC_LIMIT / 4);
    assert_eq!(o.close(), 0);
}
