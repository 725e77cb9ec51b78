use super::*;
use crate::abi::{
    data_ops::{fi_ops_msg, fi_ops_tagged},
    iovec,
    msg::{fi_msg, fi_msg_tagged},
};

const NULL: *mut c_void = core::ptr::null_mut();
const TAG: u64 = 0xfeed;
const IGNORE: u64 = 0xff;
const DATA: u64 = 0xda7a;

/// Two pieces, as C and as the core sees them.
const C_IOV: [iovec; 2] =
    [iovec { iov_base: buffer(0x10), iov_len: 3 }, iovec { iov_base: buffer(0x20), iov_len: 4 }];
const IOV: [IoVec; 2] = [piece(0x10, 3), piece(0x20, 4)];

fn send<'a>(meta: TxMeta, iov: &'a [IoVec], tag: Option<u64>) -> SendOp<'a> {
    SendOp { meta, iov, tagged: tag.is_some(), tag: tag.unwrap_or(0) }
}

fn recv<'a>(flags: Flags, iov: &'a [IoVec], tag: Option<(u64, u64)>) -> RecvOp<'a> {
    let (tag, ignore) = tag.unwrap_or((0, 0));
    let tagged = tag != 0;
    RecvOp { iov, src: DEST, tagged, tag, ignore, context: CONTEXT, flags }
}

fn message(count: usize) -> fi_msg {
    fi_msg {
        msg_iov: C_IOV.as_ptr(),
        desc: core::ptr::null_mut(),
        iov_count: count,
        addr: DEST,
        context: context(),
        data: DATA,
    }
}

fn tagged_message(count: usize) -> fi_msg_tagged {
    fi_msg_tagged {
        msg_iov: C_IOV.as_ptr(),
        desc: core::ptr::null_mut(),
        iov_count: count,
        addr: DEST,
        tag: TAG,
        ignore: IGNORE,
        context: context(),
        data: DATA,
    }
}

fn msg_table(opened: &Opened) -> fi_ops_msg {
    // SAFETY: the tables of shells are complete and static.
    unsafe { *(*opened.ep).msg }
}

fn tagged_table(opened: &Opened) -> fi_ops_tagged {
    // SAFETY: the tables of shells are complete and static.
    unsafe { *(*opened.ep).tagged }
}

#[test]
fn every_untagged_slot() {
    let o = Opened::new();
    let (t, ep) = (msg_table(&o), o.ep);
    let (no_desc, iov) = (core::ptr::null_mut(), C_IOV.as_ptr());
    let one = [piece(0x30, 9)];
    let buf = buffer(0x30);
    let flags = Flags::FENCE | Flags::REMOTE_CQ_DATA;
    // SAFETY: an open endpoint, readable arrays and messages; the mock touches no buffer.
    unsafe {
        o.did(code((t.recv)(ep, buf, 9, NULL, DEST, context())), &recv(RX_FLAGS, &one, None));
        o.did(code((t.recvv)(ep, iov, no_desc, 2, DEST, context())), &recv(RX_FLAGS, &IOV, None));
        o.did(
            code((t.recvmsg)(ep, &message(2), Flags::MULTI_RECV.bits())),
            &recv(Flags::MULTI_RECV, &IOV, None),
        );
        o.did(code((t.send)(ep, buf, 9, NULL, DEST, context())), &send(meta(TX_FLAGS), &one, None));
        o.did(
            code((t.sendv)(ep, iov, no_desc, 2, DEST, context())),
            &send(meta(TX_FLAGS), &IOV, None),
        );
        o.did(
            code((t.sendmsg)(ep, &message(1), flags.bits())),
            &send(meta_data(flags, DATA), &IOV[..1], None),
        );
        o.did(code((t.inject)(ep, buf, 9, DEST)), &send(silent(), &one, None));
        o.did(
            code((t.senddata)(ep, buf, 9, NULL, DATA, DEST, context())),
            &send(meta_data(TX_FLAGS, DATA), &one, None),
        );
        o.did(code((t.injectdata)(ep, buf, 9, DATA, DEST)), &send(silent_data(DATA), &one, None));
    }
    assert_eq!(o.close(), 0);
}

#[test]
fn every_tagged_slot() {
    let o = Opened::new();
    let (t, ep) = (tagged_table(&o), o.ep);
    let (no_desc, iov) = (core::ptr::null_mut(), C_IOV.as_ptr());
    let one = [piece(0x30, 9)];
    let buf = buffer(0x30);
    let (tag, matched) = (Some(TAG), Some((TAG, IGNORE)));
    let rx_flags = RX_FLAGS - Flags::MULTI_RECV;
    // SAFETY: an open endpoint, readable arrays and messages; the mock touches no buffer.
    unsafe {
        o.did(
            code((t.recv)(ep, buf, 9, NULL, DEST, TAG, IGNORE, context())),
            &recv(rx_flags, &one, matched),
        );
        o.did(
            code((t.recvv)(ep, iov, no_desc, 2, DEST, TAG, IGNORE, context())),
            &recv(rx_flags, &IOV, matched),
        );
        o.did(
            code((t.recvmsg)(ep, &tagged_message(2), Flags::CLAIM.bits())),
            &recv(Flags::CLAIM, &IOV, matched),
        );
        o.did(
            code((t.send)(ep, buf, 9, NULL, DEST, TAG, context())),
            &send(meta(TX_FLAGS), &one, tag),
        );
        o.did(
            code((t.sendv)(ep, iov, no_desc, 2, DEST, TAG, context())),
            &send(meta(TX_FLAGS), &IOV, tag),
        );
        let expected = TxMeta { data: DATA, ..meta(Flags::INJECT) };
        o.did(
            code((t.sendmsg)(ep, &tagged_message(2), Flags::INJECT.bits())),
            &send(expected, &IOV, tag),
        );
        o.did(code((t.inject)(ep, buf, 9, DEST, TAG)), &send(silent(), &one, tag));
        o.did(
            code((t.senddata)(ep, buf, 9, NULL, DATA, DEST, TAG, context())),
            &send(meta_data(TX_FLAGS, DATA), &one, tag),
        );
        o.did(
            code((t.injectdata)(ep, buf, 9, DATA, DEST, TAG)),
            &send(silent_data(DATA), &one, tag),
        );
    }
    assert_eq!(o.close(), 0);
}

#[test]
fn looking_and_dropping_need_no_buffer() {
    let o = Opened::new();
    let garbage = fi_msg_tagged { msg_iov: core::ptr::null(), ..tagged_message(9) };
    for flags in [Flags::PEEK, Flags::PEEK | Flags::CLAIM, Flags::CLAIM | Flags::DISCARD] {
        // SAFETY: an open endpoint and a readable message.
        let result = unsafe { (tagged_table(&o).recvmsg)(o.ep, &raw const garbage, flags.bits()) };
        o.did(code(result), &recv(flags, &[], Some((TAG, IGNORE))));
    }
    assert_eq!(o.close(), 0);
}

#[test]
fn empty_and_too_long_arrays() {
    let o = Opened::new();
    let (t, ep, no_desc) = (msg_table(&o), o.ep, core::ptr::null_mut());
    let five = [C_IOV[0]; 5];
    // SAFETY: an open endpoint, arrays of these lengths or none.
    unsafe {
        let none = core::ptr::null();
        o.did(
            code((t.sendv)(ep, none, no_desc, 0, DEST, context())),
            &send(meta(TX_FLAGS), &[], None),
        );
        o.did(
            code((t.sendv)(ep, five.as_ptr(), no_desc, 4, DEST, context())),
            &send(meta(TX_FLAGS), &[IOV[0]; 4], None),
        );
        o.did(
            code((t.send)(ep, NULL, 0, NULL, DEST, context())),
            &send(meta(TX_FLAGS), &[IoVec::EMPTY], None),
        );
        let long = (t.sendv)(ep, five.as_ptr(), no_desc, 5, DEST, context());
        o.refused(code(long), Errno::EINVAL);
        o.refused(code((t.recvv)(ep, none, no_desc, 1, DEST, context())), Errno::EINVAL);
        o.refused(code((t.recvmsg)(ep, &message(usize::MAX), 0)), Errno::EINVAL);
    }
    assert_eq!(o.close(), 0);
}

#[test]
fn refusals() {
    let o = Opened::new();
    let (t, ep) = (msg_table(&o), o.ep);
    // SAFETY: null or an open endpoint, null or readable messages.
    unsafe {
        let null_ep = core::ptr::null_mut();
        o.refused(code((t.send)(null_ep, NULL, 0, NULL, DEST, context())), Errno::EINVAL);
        o.refused(code((t.sendmsg)(ep, core::ptr::null(), 0)), Errno::EINVAL);
        o.refused(code((t.sendmsg)(ep, core::ptr::without_provenance(9), 0)), Errno::EINVAL);
        o.refused(code((t.sendmsg)(ep, &message(1), Flags::TRIGGER.bits())), Errno::ENOSYS);
        o.refused(code((t.recvmsg)(ep, &message(1), Flags::TRIGGER.bits())), Errno::ENOSYS);

        *o.mock.refuse.lock().expect("refusal") = Some(Errno::EAGAIN);
        assert_eq!((t.inject)(ep, NULL, 0, DEST), Errno::EAGAIN.to_c());
        *o.mock.refuse.lock().expect("refusal") = None;

        assert_eq!(o.close(), 0);
        o.mock.take();
        // The slot of the open table, as a racing caller may have read it, and the closed table's.
        o.refused(code((t.send)(ep, NULL, 0, NULL, DEST, context())), Errno::EINVAL);
        let (msg, tagged) = (msg_table(&o), tagged_table(&o));
        o.refused(code((msg.send)(ep, NULL, 0, NULL, DEST, context())), Errno::EINVAL);
        o.refused(code((tagged.inject)(ep, NULL, 0, DEST, TAG)), Errno::EINVAL);
    }
}
