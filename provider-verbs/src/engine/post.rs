//! HOT. Operations become work requests.

use fabric_core::{
    Errno, Result,
    atomic::{
        atomic_op::{ATOMIC_READ, CSWAP, SUM},
        datatype,
    },
    flags::Flags,
    log::Subsys,
    mem::Buffers,
    op::{AtomicKind, AtomicOp, Descs, RecvOp, RmaKind, RmaOp, SendOp, TxMeta},
    slab::Handle,
};

use super::{
    Engine,
    ep::{Ep, Phase, RxOp, TxOp},
    id::{self, Id, Side},
    layer::Held,
};
use crate::{
    NAME,
    mr::lkey_of,
    sys::{
        Pieces, RecvWork, SendWork, What,
        abi::{IBV_SEND_FENCE, IBV_SEND_INLINE, IBV_SEND_SIGNALED},
    },
};

/// Flags that receives of a device know nothing of.
pub(crate) const STRANGE: Flags =
    Flags::PEEK.union(Flags::CLAIM).union(Flags::DISCARD).union(Flags::MULTI_RECV);

/// Local memory as the device knows it. `EINVAL` for more pieces than `most`, and for memory without a
/// descriptor, unless its address is all that matters.
#[inline]
pub(crate) fn local(
    buffers: &Buffers,
    descs: Descs<'_>,
    inline: bool,
    most: u32,
) -> Result<Pieces> {
    if buffers.iov().len() > most as usize {
        return Err(Errno::EINVAL);
    }
    let mut pieces = Pieces::NONE;
    for (at, piece) in buffers.iov().iter().enumerate() {
        if piece.len == 0 {
            continue;
        }
        let lkey = match lkey_of(descs.of(at)) {
            Some(lkey) => lkey,
            None if inline => 0,
            None => return Err(unregistered()),
        };
        pieces.push(piece.base.addr(), piece.len, lkey)?;
    }
    Ok(pieces)
}

#[cold]
fn unregistered() -> Errno {
    fabric_core::warn!(
        NAME,
        Subsys::EpData,
        "desc: memory without a descriptor; FI_MR_LOCAL asks for fi_mr_desc() of its region"
    );
    Errno::EINVAL
}

/// The key and address of what one request can reach: one range, under a device's key.
#[inline]
pub(super) fn remote(ranges: &[fabric_core::op::RmaIov], len: usize) -> Result<(u64, u32)> {
    match ranges {
        [range] if range.len == len => {
            Ok((range.addr, u32::try_from(range.key).map_err(|_| Errno::EINVAL)?))
        }
        [] if len == 0 => Ok((0, 0)),
        _ => Err(Errno::EINVAL),
    }
}

/// Data for the peer's completion, which is 32 bits wide here.
#[inline]
fn immediate(meta: &TxMeta) -> Option<u32> {
    meta.cq_data().map(|data| data as u32)
}

/// A completion that waits for persistence would be a promise that nobody keeps: the device's answer comes
/// before its writes have reached persistent memory.
#[cold]
fn not_persistent() -> Errno {
    fabric_core::warn_few!(
        NAME,
        Subsys::EpData,
        "FI_COMMIT_COMPLETE is refused: RDMA FLUSH is not used here"
    );
    Errno::EOPNOTSUPP
}

impl Engine {
    /// Posts a message.
    #[inline]
    pub(crate) fn post_send(
        &mut self,
        handle: Handle,
        op: &SendOp<'_>,
        buffers: &Buffers,
        descs: Descs<'_>,
    ) -> Result<()> {
        if op.tagged {
            return Err(Errno::EOPNOTSUPP);
        }
        let inline = self.check(handle, &op.meta, buffers.len())?;
        let pieces = local(buffers, descs, inline, self.device.limits.pieces)?;
        self.post(
            handle,
            &op.meta,
            Post {
                what: What::Send,
                pieces,
                bytes: buffers.len(),
                kind: Flags::MSG | Flags::SEND,
                immediate: immediate(&op.meta),
                inline,
                result: None,
            },
        )
    }

    /// Posts a read or write.
    pub(crate) fn post_rma(
        &mut self,
        handle: Handle,
        op: &RmaOp<'_>,
        buffers: &Buffers,
        descs: Descs<'_>,
    ) -> Result<()> {
        let inline = self.check(handle, &op.meta, buffers.len())?;
        let (address, key) = remote(op.remote, buffers.len())?;
        let (what, kind, inline) = match op.kind {
            RmaKind::Read if op.meta.injects() => return Err(Errno::EINVAL),
            RmaKind::Read => (What::Read { address, key }, Flags::READ, false),
            RmaKind::Write => (What::Write { address, key }, Flags::WRITE, inline),
        };
        let pieces = local(buffers, descs, inline, self.device.limits.pieces)?;
        let immediate = match op.kind {
            RmaKind::Read => None,
            RmaKind::Write => immediate(&op.meta),
        };
        if immediate.is_some() && self.eps.get(handle).is_some_and(|ep| !ep.limits.data) {
            // It would take a receive, which the peer has for messages.
            return Err(Errno::EOPNOTSUPP);
        }
        self.post(
            handle,
            &op.meta,
            Post {
                what,
                pieces,
                bytes: buffers.len(),
                kind: Flags::RMA | kind,
                immediate,
                inline,
                result: None,
            },
        )
    }

    /// Posts an atomic operation, of those that devices have: additions that fetch or not, reads, and
    /// exchanges where a value is as expected, of one 64-bit integer. Others are `EOPNOTSUPP`.
    ///
    /// `[operand, compare, result]`.
    pub(crate) fn post_atomic(
        &mut self,
        handle: Handle,
        op: &AtomicOp<'_>,
        [operand, compare, result]: &[Buffers; 3],
    ) -> Result<()> {
        if !self.device.limits.atomics || !is_native(op.kind, op.datatype, op.op) {
            return Err(Errno::EOPNOTSUPP);
        }
        self.check(handle, &op.meta, WORD)?;
        let (address, key) = remote(op.remote, WORD)?;
        let value = |buffers: &Buffers| {
            let mut bytes = [0; WORD];
            if buffers.len() != WORD || buffers.gather(0, &mut bytes) != WORD {
                return Err(Errno::EINVAL);
            }
            Ok(u64::from_ne_bytes(bytes))
        };
        let what = if op.kind == AtomicKind::Compare {
            What::CompareSwap { address, key, compare: value(compare)?, swap: value(operand)? }
        } else {
            let add = if op.op == ATOMIC_READ { 0 } else { value(operand)? };
            What::FetchAdd { address, key, add }
        };
        if op.kind != AtomicKind::Base && result.len() != WORD {
            return Err(Errno::EINVAL);
        }
        // The old value comes back even where nobody wants it.
        let words = self.words()?;
        let word = words.take(result).ok_or(Errno::EAGAIN)?;
        let (place, lkey) = words.address(word)?;
        let mut pieces = Pieces::NONE;
        pieces.push(place, WORD, lkey)?;
        let direction = if op.op == ATOMIC_READ { Flags::READ } else { Flags::WRITE };
        let posted = self.post(
            handle,
            &op.meta,
            Post {
                what,
                pieces,
                bytes: WORD,
                kind: Flags::ATOMIC | direction,
                immediate: None,
                inline: false,
                result: Some(word),
            },
        );
        if posted.is_err()
            && let Some(words) = &mut self.words
        {
            words.give_back(word, false);
        }
        posted
    }

    /// Posts a receive.
    #[inline]
    pub(crate) fn post_recv(
        &mut self,
        handle: Handle,
        op: &RecvOp<'_>,
        buffers: &Buffers,
        descs: Descs<'_>,
    ) -> Result<()> {
        if op.tagged || op.flags.intersects(STRANGE) {
            return Err(Errno::EOPNOTSUPP);
        }
        let ep = self.eps.get_mut(handle).ok_or(Errno::EOPBADSTATE)?;
        if !ep.enabled {
            return Err(Errno::EOPBADSTATE);
        }
        if ep.shared.is_some() {
            // Receives are posted to the context.
            return Err(Errno::EOPNOTSUPP);
        }
        if ep.phase == Phase::Ended || ep.failed {
            return Err(Errno::ENOTCONN);
        }
        let pieces = local(buffers, descs, false, ep.limits.pieces)?;
        if ep.receives.list.len() + ep.receives.waiting.len() >= ep.limits.receives as usize {
            return Err(Errno::EAGAIN);
        }
        let rx = RxOp { context: op.context, flags: op.flags };
        if ep.id.as_ref().is_none_or(|id| id.qp_number().is_none()) {
            ep.receives.waiting.push_back((pieces, rx));
            return Ok(());
        }
        ep.post_recv(handle, pieces, rx)
    }

    /// Cancels a receive that the device does not have yet. `ENOSYS` for one that it has, which it
    /// does not give back; what is not there has ended, or is about to be told.
    pub(crate) fn cancel(&mut self, handle: Handle, context: usize) -> Result<()> {
        let Some(ep) = self.eps.get_mut(handle) else { return Ok(()) };
        let waiting = &mut ep.receives.waiting;
        if let Some(at) = waiting.iter().position(|(_, op)| op.context == context)
            && let Some((_, op)) = waiting.remove(at)
        {
            let kind = Flags::MSG | Flags::RECV;
            ep.receive_failed(&op, kind, Errno::ECANCELED, Errno::ECANCELED.get());
            return Ok(());
        }
        let posted = ep.receives.list.iter().any(|op| op.context == context);
        if posted { Err(Errno::ENOSYS) } else { Ok(()) }
    }

    /// Whether an operation of so many bytes can be posted, and whether the request may carry them
    /// itself.
    #[inline]
    fn check(&mut self, handle: Handle, meta: &TxMeta, bytes: usize) -> Result<bool> {
        let ep = self.eps.get(handle).ok_or(Errno::EOPBADSTATE)?;
        ep.connected()?;
        let inline = bytes <= ep.limits.inline as usize;
        if meta.injects() && !inline {
            return Err(Errno::EINVAL);
        }
        if meta.flags.contains(Flags::COMMIT_COMPLETE) {
            return Err(not_persistent());
        }
        if bytes > ep.limits.message {
            return Err(Errno::EMSGSIZE);
        }
        if ep.sends.list.len() >= ep.limits.sends as usize {
            self.make_room(handle)?;
        }
        Ok(inline)
    }

    #[cold]
    fn make_room(&mut self, handle: Handle) -> Result<()> {
        self.flush();
        self.poll();
        let ep = self.eps.get(handle).ok_or(Errno::EOPBADSTATE)?;
        ep.connected()?;
        if ep.sends.list.len() >= ep.limits.sends as usize {
            return Err(Errno::EAGAIN);
        }
        Ok(())
    }

    #[inline]
    fn post(&mut self, handle: Handle, meta: &TxMeta, post: Post) -> Result<()> {
        let ep = self.eps.get_mut(handle).ok_or(Errno::EOPBADSTATE)?;
        let interest = meta.interest();
        // Who counts, or waits for an old value, has to be told of each.
        let told = ep.report.tells(&interest)
            || ep.report.counts_kind(post.kind)
            || post.result.is_some()
            || ep.is_untold_enough();
        let mut flags = if told { IBV_SEND_SIGNALED } else { 0 };
        if post.inline {
            flags |= IBV_SEND_INLINE;
        }
        if meta.flags.contains(Flags::FENCE) {
            flags |= IBV_SEND_FENCE;
        }
        let work = SendWork {
            id: Id::new(Side::Send, handle, ep.next_send()).word(),
            what: post.what,
            pieces: post.pieces,
            immediate: post.immediate,
            flags,
        };
        let op =
            TxOp { interest, kind: post.kind, bytes: post.bytes, result: post.result, held: None };
        // The memory of an inject is the application's again when this returns.
        let more = meta.flags.contains(Flags::MORE) && !meta.injects();
        self.hand_over(handle, work, op, told, more)
    }

    /// Gives a request to the device; or, if others will follow, has it wait for them.
    #[inline]
    pub(super) fn hand_over(
        &mut self,
        handle: Handle,
        work: SendWork,
        op: TxOp,
        told: bool,
        more: bool,
    ) -> Result<()> {
        let ep = self.eps.get_mut(handle).ok_or(Errno::EOPBADSTATE)?;
        if more {
            if ep.sends.staged.is_empty() {
                self.staged.push(handle);
            }
            ep.sends.staged.push(work);
            ep.note(op, told);
            return Ok(());
        }
        if !ep.sends.staged.is_empty() {
            return self.post_with_staged(handle, work, op, told);
        }
        let id = ep.id.as_ref().ok_or(Errno::ENOTCONN)?;
        id.post_send(&work).map_err(full)?;
        ep.note(op, told);
        Ok(())
    }

    /// Posts a request behind those that have waited for it.
    fn post_with_staged(
        &mut self,
        handle: Handle,
        work: SendWork,
        op: TxOp,
        told: bool,
    ) -> Result<()> {
        let ep = self.eps.get_mut(handle).ok_or(Errno::EOPBADSTATE)?;
        ep.sends.staged.push(work);
        ep.note(op, told);
        let count = ep.sends.staged.len();
        let (taken, outcome) = self.post_staged(handle, count);
        if taken == count {
            return Ok(());
        }
        // The last one is refused to its caller, and has not been accepted.
        let ep = self.eps.get_mut(handle).ok_or(Errno::EOPBADSTATE)?;
        ep.sends.list.pop_back();
        self.fail_tail(handle, count - 1 - taken, outcome.err().unwrap_or(Errno::EIO));
        Err(full(outcome.err().unwrap_or(Errno::EIO)))
    }

    /// Posts all requests that wait for others.
    pub(super) fn flush(&mut self) {
        for handle in std::mem::take(&mut self.staged) {
            let count = self.eps.get(handle).map_or(0, |ep| ep.sends.staged.len());
            if count == 0 {
                continue;
            }
            let (taken, outcome) = self.post_staged(handle, count);
            if let Err(reason) = outcome {
                self.fail_tail(handle, count - taken, reason);
            }
        }
    }

    /// How many of the staged requests the device took, and why no more. None is staged then.
    fn post_staged(&mut self, handle: Handle, count: usize) -> (usize, Result<()>) {
        let Some(ep) = self.eps.get_mut(handle) else { return (0, Err(Errno::EOPBADSTATE)) };
        let work = std::mem::take(&mut ep.sends.staged);
        match (&ep.id, count) {
            (Some(id), 1..) => id.post_sends(&work),
            _ => (0, Err(Errno::ENOTCONN)),
        }
    }

    /// The last `count` accepted operations have not reached the device, and fail.
    fn fail_tail(&mut self, handle: Handle, count: usize, reason: Errno) {
        let Some(ep) = self.eps.get_mut(handle) else { return };
        let at = ep.sends.list.len().saturating_sub(count);
        let gone: Vec<TxOp> = ep.sends.list.drain(at..).collect();
        ep.sends.untold = ep.sends.untold.min(at);
        for op in gone {
            self.send_ended(handle, op, Err((reason, reason.get())));
        }
        // Messages that are done, to the protocol above, must not be missing among others.
        if count != 0 && self.is_link(handle) {
            self.lost(handle, reason);
        }
    }

    /// Posts a request that shows by its end that those before it are done, if the device does not
    /// tell of them.
    pub(crate) fn post_end(&mut self, handle: Handle) {
        self.flush();
        let Some(ep) = self.eps.get_mut(handle) else { return };
        if ep.connected().is_err() || ep.sends.untold == 0 {
            return;
        }
        let work = SendWork {
            id: Id::new(Side::Send, handle, ep.next_send()).word(),
            // Of no bytes, so that its address and key do not matter.
            what: What::Write { address: 0, key: 0 },
            pieces: Pieces::NONE,
            immediate: None,
            flags: IBV_SEND_SIGNALED,
        };
        if let Some(id) = &ep.id
            && id.post_send(&work).is_ok()
        {
            ep.note(TxOp::held(Held::Nothing), true);
        }
    }
}

/// What is to be posted, once it is checked.
struct Post {
    what: What,
    pieces: Pieces,
    bytes: usize,
    kind: Flags,
    immediate: Option<u32>,
    inline: bool,
    result: Option<u32>,
}

/// A queue of the device that is full has room later.
pub(crate) fn full(reason: Errno) -> Errno {
    if reason == Errno::ENOMEM { Errno::EAGAIN } else { reason }
}

impl Ep {
    /// A request has been posted, or is about to be.
    #[inline]
    pub(super) fn note(&mut self, op: TxOp, told: bool) {
        self.sends.untold = if told { 0 } else { self.sends.untold + 1 };
        self.sends.list.push_back(op);
    }

    /// Gives a receive to the device.
    #[inline]
    pub(super) fn post_recv(&mut self, handle: Handle, pieces: Pieces, op: RxOp) -> Result<()> {
        let number = id::next(self.receives.first, self.receives.list.len());
        let work = RecvWork { id: Id::new(Side::Receive, handle, number).word(), pieces };
        self.id.as_ref().ok_or(Errno::ENOTCONN)?.post_recv(&work).map_err(full)?;
        self.receives.list.push_back(op);
        Ok(())
    }
}

/// Bytes of what atomic operations of a device work on.
pub(crate) const WORD: usize = size_of::<u64>();

/// Whether devices have an operation.
pub(crate) fn is_native(kind: AtomicKind, datatype: u32, op: u32) -> bool {
    let known = match kind {
        AtomicKind::Base => op == SUM,
        AtomicKind::Fetch => op == SUM || op == ATOMIC_READ,
        AtomicKind::Compare => op == CSWAP,
    };
    known && matches!(datatype, datatype::INT64 | datatype::UINT64)
}
