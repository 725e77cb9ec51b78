//! HOT. Completions of the device become completions of operations.

use fabric_core::{
    Errno,
    completion::{CqError, Entry},
    flags::Flags,
    log::Subsys,
    op::ADDR_UNSPEC,
    slab::Handle,
};

use super::{
    Engine,
    ep::{Ep, Phase, RxOp, TxOp},
    id::{self, Id, Side},
};
use crate::{
    NAME,
    sys::abi::{
        IBV_WC_LOC_ACCESS_ERR, IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_QP_OP_ERR,
        IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_REM_ABORT_ERR, IBV_WC_REM_ACCESS_ERR,
        IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR, IBV_WC_RESP_TIMEOUT_ERR, IBV_WC_RETRY_EXC_ERR,
        IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_SUCCESS, IBV_WC_WITH_IMM, IBV_WC_WR_FLUSH_ERR, ibv_wc,
    },
};

/// How a request has failed: the error, and the device's own number for it.
pub(crate) type Failure = (Errno, i32);

/// What a status of the device means to an operation.
pub(crate) fn failure(status: u32) -> Failure {
    let errno = match status {
        IBV_WC_LOC_LEN_ERR => Errno::ETRUNC,
        IBV_WC_LOC_PROT_ERR | IBV_WC_LOC_ACCESS_ERR | IBV_WC_REM_ACCESS_ERR => Errno::EACCES,
        IBV_WC_WR_FLUSH_ERR => Errno::ECANCELED,
        IBV_WC_REM_INV_REQ_ERR | IBV_WC_REM_OP_ERR => Errno::EREMOTEIO,
        IBV_WC_RETRY_EXC_ERR | IBV_WC_RESP_TIMEOUT_ERR => Errno::ETIMEDOUT,
        IBV_WC_RNR_RETRY_EXC_ERR => Errno::ENORX,
        IBV_WC_REM_ABORT_ERR => Errno::ECONNABORTED,
        _ => Errno::EIO,
    };
    (errno, status as i32)
}

/// The same of a receive, which has no other way to be at fault than to be too short for its message.
/// Devices differ in what they call that.
pub(crate) fn receive_failure(status: u32) -> Failure {
    match status {
        IBV_WC_LOC_LEN_ERR | IBV_WC_LOC_QP_OP_ERR | IBV_WC_REM_INV_REQ_ERR => {
            (Errno::ETRUNC, status as i32)
        }
        status => failure(status),
    }
}

impl Engine {
    /// Takes one completion in.
    #[inline]
    pub(super) fn complete(&mut self, completion: &ibv_wc) {
        let Some(id) = Id::of(completion.wr_id) else { return };
        match id.side {
            Side::Send => self.complete_sends(id, completion),
            Side::Receive => self.complete_receive(id, completion),
            Side::Shared => self.complete_shared(id, completion),
        }
    }

    /// A queue pair works through its requests in order: with one, all before it have ended, and those
    /// that have not failed themselves have succeeded.
    #[inline]
    fn complete_sends(&mut self, id: Id, completion: &ibv_wc) {
        let Some(handle) = id.owner(&self.eps) else { return };
        let Some(ep) = self.eps.get_mut(handle) else { return };
        let before = id::distance(ep.sends.first, id.number);
        if before >= ep.sends.list.len() {
            return;
        }
        ep.sends.first = id::next(id.number, 1);
        for _ in 0..before {
            let Some(op) = self.eps.get_mut(handle).and_then(|ep| ep.sends.list.pop_front()) else {
                return;
            };
            self.send_ended(handle, op, Ok(()));
        }
        let Some(ep) = self.eps.get_mut(handle) else { return };
        let Some(op) = ep.sends.list.pop_front() else { return };
        ep.sends.untold = ep.sends.untold.min(ep.sends.list.len());
        if completion.status == IBV_WC_SUCCESS {
            self.send_ended(handle, op, Ok(()));
        } else {
            self.send_ended(handle, op, Err(failure(completion.status)));
            self.failed(handle, completion.status);
        }
    }

    /// An operation has ended: its owner is told.
    #[inline]
    pub(super) fn send_ended(&mut self, handle: Handle, op: TxOp, outcome: Result<(), Failure>) {
        if let (Some(word), Some(words)) = (op.result, &mut self.words) {
            words.give_back(word, outcome.is_ok());
        }
        if let Some(held) = op.held {
            self.held_ended(held, outcome);
            return;
        }
        let Some(ep) = self.eps.get_mut(handle) else { return };
        match outcome {
            Ok(()) => ep.report.sent(&op.interest, op.kind, op.bytes),
            Err((err, status)) => {
                let entry = Entry::new(op.interest.context, op.kind);
                ep.report.send_failed(CqError { prov_errno: status, ..CqError::new(entry, err) });
            }
        }
    }

    #[inline]
    fn complete_receive(&mut self, id: Id, completion: &ibv_wc) {
        let Some(handle) = id.owner(&self.eps) else { return };
        let Some(ep) = self.eps.get_mut(handle) else { return };
        if id::distance(ep.receives.first, id.number) != 0 {
            return;
        }
        let Some(op) = ep.receives.list.pop_front() else { return };
        ep.receives.first = id::next(id.number, 1);
        if !ep.end_receive(&op, completion) {
            self.failed(handle, completion.status);
        }
    }

    /// A receive of a shared context has ended. The queue pair that has taken it is told by its
    /// number; of one that is gone, the message is lost, and the receive is posted anew.
    fn complete_shared(&mut self, id: Id, completion: &ibv_wc) {
        if self.layer.is_some() {
            self.complete_layer(id.number, completion);
            return;
        }
        let Some(context) = id.owner(&self.shared) else { return };
        let owner = self.by_qp.get(&completion.qp_num).copied();
        let ep = owner.and_then(|owner| self.eps.get_mut(owner));
        let Some(shared) = self.shared.get_mut(context) else { return };
        let Some(ep) = ep else {
            shared.repost(context, id.number);
            return;
        };
        let Some(op) = shared.take(id.number) else { return };
        if !ep.end_receive(&op, completion)
            && let Some(owner) = owner
        {
            self.failed(owner, completion.status);
        }
    }

    /// A request has failed, so the queue pair is of no more use: the connection ends, which brings
    /// everything else that is posted back.
    #[cold]
    pub(super) fn failed(&mut self, handle: Handle, status: u32) {
        let Some(ep) = self.eps.get_mut(handle) else { return };
        if std::mem::replace(&mut ep.failed, true) {
            return;
        }
        if status != IBV_WC_WR_FLUSH_ERR {
            let peer = ep.peer.map_or_else(String::new, |peer| format!(" to {peer}"));
            let (errno, _) = failure(status);
            fabric_core::warn!(
                NAME,
                Subsys::EpData,
                "the connection{peer} ends: {errno} (ibv_wc_status {status})"
            );
        }
        if self.is_link(handle) {
            let (errno, _) = failure(status);
            self.lost(handle, if errno == Errno::ECANCELED { Errno::ECONNRESET } else { errno });
            return;
        }
        let Some(ep) = self.eps.get_mut(handle) else { return };
        if ep.phase == Phase::Connected
            && let Some(id) = &ep.id
        {
            // The event that follows tells the application.
            let _ = id.disconnect();
        }
    }
}

impl Ep {
    /// Tells the end of a receive. `false`: it has failed.
    #[inline]
    fn end_receive(&mut self, op: &RxOp, completion: &ibv_wc) -> bool {
        if completion.status == IBV_WC_SUCCESS {
            self.stats.received += 1;
            self.report.received(op.flags, received(op.context, completion));
            return true;
        }
        let (err, status) = receive_failure(completion.status);
        self.receive_failed(op, Flags::MSG | Flags::RECV, err, status);
        false
    }
}

/// What a receive has brought. Data that came with a write took one without using its memory.
#[inline]
fn received(context: usize, completion: &ibv_wc) -> Entry {
    let mut flags = if completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM {
        Flags::RMA | Flags::REMOTE_WRITE
    } else {
        Flags::MSG | Flags::RECV
    };
    let mut data = 0;
    if completion.wc_flags & IBV_WC_WITH_IMM != 0 {
        flags |= Flags::REMOTE_CQ_DATA;
        data = u64::from(u32::from_be(completion.imm_data));
    }
    Entry {
        context,
        flags: flags.bits(),
        len: completion.byte_len as usize,
        buf: 0,
        data,
        tag: 0,
        src: ADDR_UNSPEC,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receives_that_are_too_short() {
        for status in [IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_REM_INV_REQ_ERR] {
            assert_eq!(receive_failure(status), (Errno::ETRUNC, status as i32));
        }
        assert_eq!(receive_failure(IBV_WC_WR_FLUSH_ERR).0, Errno::ECANCELED);
        assert_eq!(failure(IBV_WC_REM_INV_REQ_ERR).0, Errno::EREMOTEIO, "of a send");
    }

    #[test]
    fn what_a_receive_brings() {
        let mut wc = ibv_wc::zeroed();
        wc.byte_len = 7;
        let entry = received(5, &wc);
        assert_eq!((entry.context, entry.len, entry.data), (5, 7, 0));
        assert_eq!(entry.flags, (Flags::MSG | Flags::RECV).bits());
        (wc.opcode, wc.wc_flags) = (IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM);
        wc.imm_data = 0x0102_0304_u32.to_be();
        let entry = received(5, &wc);
        assert_eq!(entry.data, 0x0102_0304);
        let flags = Flags::RMA | Flags::REMOTE_WRITE | Flags::REMOTE_CQ_DATA;
        assert_eq!(entry.flags, flags.bits());
    }
}
