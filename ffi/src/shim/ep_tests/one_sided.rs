use fabric_core::op::{
    RmaIov,
    RmaKind::{self, Read, Write},
};

use super::*;
use crate::abi::{
    data_ops::fi_ops_rma,
    iovec,
    msg::{fi_msg_rma, fi_rma_iov},
};

const NULL: *mut c_void = core::ptr::null_mut();
const ADDR: u64 = 0xadd0;
const KEY: u64 = 0x6e1;
const DATA: u64 = 0xda7a;
const C_IOV: [iovec; 2] =
    [iovec { iov_base: buffer(0x10), iov_len: 3 }, iovec { iov_base: buffer(0x20), iov_len: 4 }];
const IOV: [IoVec; 2] = [piece(0x10, 3), piece(0x20, 4)];
const C_REMOTE: [fi_rma_iov; 2] =
    [fi_rma_iov { addr: 1, len: 5, key: 2 }, fi_rma_iov { addr: 3, len: 2, key: 4 }];
const REMOTE: [RmaIov; 2] =
    [RmaIov { addr: 1, len: 5, key: 2 }, RmaIov { addr: 3, len: 2, key: 4 }];

fn rma<'a>(meta: TxMeta, kind: RmaKind, iov: &'a [IoVec], remote: &'a [RmaIov]) -> RmaOp<'a> {
    RmaOp { meta, kind, iov, remote }
}

const fn at(len: usize) -> [RmaIov; 1] {
    [RmaIov { addr: ADDR, len, key: KEY }]
}

fn message(count: usize, remote: usize) -> fi_msg_rma {
    fi_msg_rma {
        msg_iov: C_IOV.as_ptr(),
        desc: core::ptr::null_mut(),
        iov_count: count,
        addr: DEST,
        rma_iov: C_REMOTE.as_ptr(),
        rma_iov_count: remote,
        context: context(),
        data: DATA,
    }
}

fn table(opened: &Opened) -> fi_ops_rma {
    // SAFETY: the tables of shells are complete and static.
    unsafe { *(*opened.ep).rma }
}

#[test]
fn every_slot() {
    let o = Opened::new();
    let (t, ep) = (table(&o), o.ep);
    let (no_desc, iov, buf) = (core::ptr::null_mut(), C_IOV.as_ptr(), buffer(0x30));
    let one = [piece(0x30, 9)];
    let plain = meta(TX_FLAGS);
    let msg_meta = |flags| TxMeta { data: DATA, ..meta(flags) };
    // SAFETY: an open endpoint, readable arrays and messages; the mock touches no buffer.
    unsafe {
        o.did(
            code((t.read)(ep, buf, 9, NULL, DEST, ADDR, KEY, context())),
            &rma(plain, Read, &one, &at(9)),
        );
        o.did(
            code((t.readv)(ep, iov, no_desc, 2, DEST, ADDR, KEY, context())),
            &rma(plain, Read, &IOV, &at(7)),
        );
        o.did(
            code((t.readmsg)(ep, &message(2, 2), Flags::FENCE.bits())),
            &rma(msg_meta(Flags::FENCE), Read, &IOV, &REMOTE),
        );
        o.did(
            code((t.write)(ep, buf, 9, NULL, DEST, ADDR, KEY, context())),
            &rma(plain, Write, &one, &at(9)),
        );
        o.did(
            code((t.writev)(ep, iov, no_desc, 2, DEST, ADDR, KEY, context())),
            &rma(plain, Write, &IOV, &at(7)),
        );
        let flags = Flags::REMOTE_CQ_DATA | Flags::COMPLETION;
        o.did(
            code((t.writemsg)(ep, &message(1, 1), flags.bits())),
            &rma(msg_meta(flags), Write, &IOV[..1], &REMOTE[..1]),
        );
        o.did(code((t.inject)(ep, buf, 9, DEST, ADDR, KEY)), &rma(silent(), Write, &one, &at(9)));
        o.did(
            code((t.writedata)(ep, buf, 9, NULL, DATA, DEST, ADDR, KEY, context())),
            &rma(meta_data(TX_FLAGS, DATA), Write, &one, &at(9)),
        );
        o.did(
            code((t.injectdata)(ep, buf, 9, DATA, DEST, ADDR, KEY)),
            &rma(silent_data(DATA), Write, &one, &at(9)),
        );
    }
    assert_eq!(o.close(), 0);
}

#[test]
fn refusals() {
    let o = Opened::new();
    let (t, ep) = (table(&o), o.ep);
    let huge = [iovec { iov_base: buffer(0x10), iov_len: usize::MAX }; 2];
    let no_desc = core::ptr::null_mut();
    // SAFETY: null or an open endpoint, readable arrays and messages or none.
    unsafe {
        o.refused(
            code((t.writev)(ep, huge.as_ptr(), no_desc, 2, DEST, ADDR, KEY, context())),
            Errno::EINVAL,
        );
        o.refused(code((t.readmsg)(ep, &message(5, 1), 0)), Errno::EINVAL);
        o.refused(code((t.readmsg)(ep, &message(1, 5), 0)), Errno::EINVAL);
        o.refused(code((t.readmsg)(ep, core::ptr::null(), 0)), Errno::EINVAL);
        let nowhere = fi_msg_rma { rma_iov: core::ptr::null(), ..message(1, 1) };
        o.refused(code((t.writemsg)(ep, &nowhere, 0)), Errno::EINVAL);
        o.refused(code((t.writemsg)(ep, &message(1, 1), Flags::TRIGGER.bits())), Errno::ENOSYS);
        assert_eq!(o.close(), 0);
        o.mock.take();
        let closed = table(&o);
        o.refused(code((closed.inject)(ep, NULL, 0, DEST, ADDR, KEY)), Errno::EINVAL);
        o.refused(code((t.inject)(ep, NULL, 0, DEST, ADDR, KEY)), Errno::EINVAL);
    }
}
