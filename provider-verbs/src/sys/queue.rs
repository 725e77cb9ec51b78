//! HOT. Queue pairs: work requests on their way to the device.

use core::ffi::{c_int, c_uint};
use std::{fmt, sync::Arc};

use fabric_core::{Errno, Result};

use super::{Cq, Pd, Srq, abi::*, returned};

/// Most pieces of local memory in one request.
pub(crate) const PIECES: usize = fabric_core::mem::IOV_LIMIT;

/// Local memory of a request.
#[derive(Clone, Copy)]
pub(crate) struct Pieces {
    list: [ibv_sge; PIECES],
    count: usize,
}

impl Pieces {
    /// No memory.
    pub(crate) const NONE: Self = Self { list: [ibv_sge::zeroed(); PIECES], count: 0 };

    /// Appends a piece of memory that is registered under `lkey`; more than there is room for, and a
    /// piece longer than a request can say, is `EINVAL`. A piece without bytes is left out: to a
    /// device its length of zero may mean 2^31.
    #[inline]
    pub(crate) fn push(&mut self, address: usize, len: usize, lkey: u32) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let length = u32::try_from(len).map_err(|_| Errno::EINVAL)?;
        let place = self.list.get_mut(self.count).ok_or(Errno::EINVAL)?;
        *place = ibv_sge { addr: address as u64, length, lkey };
        self.count += 1;
        Ok(())
    }

    /// Appends other pieces; more than there is room for is `EINVAL`.
    #[inline]
    pub(crate) fn append(&mut self, other: &Self) -> Result<()> {
        let room = self.list.get_mut(self.count..self.count + other.count).ok_or(Errno::EINVAL)?;
        room.copy_from_slice(&other.list[..other.count]);
        self.count += other.count;
        Ok(())
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pieces({})", self.count)
    }
}

/// A receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvWork {
    /// Comes back in the completion.
    pub(crate) id: u64,
    /// Where the bytes go.
    pub(crate) pieces: Pieces,
}

/// What is asked of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A message.
    Send,
    /// Bytes into the peer's memory.
    Write {
        /// Its address there.
        address: u64,
        /// The key that it is registered under there.
        key: u32,
    },
    /// Bytes out of the peer's memory.
    Read {
        /// Its address there.
        address: u64,
        /// The key that it is registered under there.
        key: u32,
    },
    /// Adds to a word there; the old value comes back.
    FetchAdd {
        /// Its address there.
        address: u64,
        /// The key that it is registered under there.
        key: u32,
        /// What is added.
        add: u64,
    },
    /// Replaces a word there if it is the expected one; the old value comes back.
    CompareSwap {
        /// Its address there.
        address: u64,
        /// The key that it is registered under there.
        key: u32,
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
}

/// A request of the sending side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWork {
    /// Comes back in the completion.
    pub(crate) id: u64,
    /// What is to be done.
    pub(crate) what: What,
    /// The bytes here.
    pub(crate) pieces: Pieces,
    /// Data for the peer's completion, of messages and writes.
    pub(crate) immediate: Option<u32>,
    /// `IBV_SEND_*`.
    pub(crate) flags: c_uint,
}

/// Sizes of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QpCap {
    /// Requests of the sending side that may be outstanding.
    pub(crate) sends: u32,
    /// Receives.
    pub(crate) receives: u32,
    /// Pieces of a request.
    pub(crate) pieces: u32,
    /// Bytes that a request may carry itself.
    pub(crate) inline: u32,
}

/// What a queue pair completes in, and receives from.
#[derive(Clone, Debug)]
pub(crate) struct QpQueues {
    /// The domain.
    pub(crate) pd: Arc<Pd>,
    /// Completions of both sides.
    pub(crate) cq: Arc<Cq>,
    /// A shared receive queue, instead of receives of its own.
    pub(crate) srq: Option<Arc<Srq>>,
}

impl QpCap {
    /// As the library takes it.
    pub(super) const fn raw(&self) -> ibv_qp_cap {
        ibv_qp_cap {
            max_send_wr: self.sends,
            max_recv_wr: self.receives,
            max_send_sge: self.pieces,
            max_recv_sge: self.pieces,
            max_inline_data: self.inline,
        }
    }
}

impl QpQueues {
    pub(super) fn init_attr(&self, cap: &QpCap) -> ibv_qp_init_attr {
        let mut attr = ibv_qp_init_attr::zeroed();
        (attr.send_cq, attr.recv_cq) = (self.cq.raw(), self.cq.raw());
        attr.srq = self.srq.as_ref().map_or(core::ptr::null_mut(), |srq| srq.raw());
        attr.qp_type = IBV_QPT_RC;
        attr.cap = cap.raw();
        if self.srq.is_some() {
            (attr.cap.max_recv_wr, attr.cap.max_recv_sge) = (0, 0);
        }
        attr
    }
}

/// A queue pair, which the connection that it was made for owns.
pub(super) struct Qp {
    raw: *mut ibv_qp,
    post_send: PostSend,
    post_recv: PostRecv,
    iwarp: bool,
    /// Live as long as it does.
    queues: QpQueues,
}

impl Qp {
    /// # Safety
    /// `raw` is a queue pair that lives as long as the value, and was made with `queues`.
    pub(super) unsafe fn new(raw: *mut ibv_qp, queues: QpQueues) -> Result<Self> {
        // SAFETY: the library fills a device's table before it hands out the device.
        let ops = unsafe { &(*(*raw).context).ops };
        match (ops.post_send, ops.post_recv) {
            (Some(post_send), Some(post_recv)) => {
                let iwarp = queues.pd.context().is_iwarp();
                Ok(Self { raw, post_send, post_recv, iwarp, queues })
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    pub(super) fn number(&self) -> u32 {
        // SAFETY: the queue pair lives.
        unsafe { (*self.raw).qp_num }
    }

    pub(super) fn set_min_rnr_timer(&self, code: u8) -> Result<()> {
        let mut attr = ibv_qp_attr::zeroed();
        attr.min_rnr_timer = code;
        let ibv = &self.queues.pd.context().tables().ibv;
        // SAFETY: a live queue pair; the attributes are ours.
        let changed = unsafe { (ibv.ibv_modify_qp)(self.raw, &raw mut attr, IBV_QP_MIN_RNR_TIMER) };
        returned(changed)
    }

    #[inline]
    pub(super) fn post_recv(&self, work: &RecvWork) -> Result<()> {
        let mut pieces = work.pieces;
        let mut wr = recv_wr(work.id, &mut pieces);
        if wr.num_sge == 0 && self.iwarp {
            // Soft-iWARP takes no receive without a piece; this one has no bytes.
            wr.num_sge = 1;
        }
        let mut bad = core::ptr::null_mut();
        // SAFETY: a live queue pair; the request and its list are whole during the call.
        returned(unsafe { (self.post_recv)(self.raw, &raw mut wr, &raw mut bad) })
    }

    #[inline]
    pub(super) fn post_send(&self, work: &SendWork) -> Result<()> {
        let mut pieces = work.pieces;
        let mut wr = send_wr(work, &mut pieces);
        let mut bad = core::ptr::null_mut();
        // SAFETY: a live queue pair; the request and its list are whole during the call.
        returned(unsafe { (self.post_send)(self.raw, &raw mut wr, &raw mut bad) })
    }

    /// Posts all in one call of the device; how many it took, and why no more.
    pub(super) fn post_sends(&self, work: &[SendWork]) -> (usize, Result<()>) {
        let mut pieces: Vec<Pieces> = work.iter().map(|work| work.pieces).collect();
        let mut list: Vec<ibv_send_wr> =
            work.iter().zip(&mut pieces).map(|(work, pieces)| send_wr(work, pieces)).collect();
        let first = list.as_mut_ptr();
        for at in 1..list.len() {
            list[at - 1].next = first.wrapping_add(at);
        }
        let mut bad: *mut ibv_send_wr = core::ptr::null_mut();
        // SAFETY: a live queue pair; the requests and their lists are whole during the call.
        match returned(unsafe { (self.post_send)(self.raw, first, &raw mut bad) }) {
            Ok(()) => (list.len(), Ok(())),
            refused => {
                let taken = bad.addr().wrapping_sub(first.addr()) / size_of::<ibv_send_wr>();
                // A driver that names no request has taken none.
                (if taken < list.len() { taken } else { 0 }, refused)
            }
        }
    }
}

#[inline]
pub(super) fn recv_wr(id: u64, pieces: &mut Pieces) -> ibv_recv_wr {
    ibv_recv_wr {
        wr_id: id,
        next: core::ptr::null_mut(),
        sg_list: pieces.list.as_mut_ptr(),
        num_sge: pieces.count as c_int,
    }
}

#[inline]
pub(super) fn send_wr(work: &SendWork, pieces: &mut Pieces) -> ibv_send_wr {
    let mut wr = ibv_send_wr::zeroed();
    wr.wr_id = work.id;
    wr.sg_list = pieces.list.as_mut_ptr();
    wr.num_sge = pieces.count as c_int;
    wr.send_flags = work.flags;
    // Data for the peer's completion travels in network order.
    wr.imm_data = work.immediate.unwrap_or(0).to_be();
    let with_data = work.immediate.is_some();
    let rdma = |remote_addr, rkey| ibv_wr_target { rdma: ibv_wr_rdma { remote_addr, rkey } };
    match work.what {
        What::Send => wr.opcode = if with_data { IBV_WR_SEND_WITH_IMM } else { IBV_WR_SEND },
        What::Write { address, key } => {
            wr.opcode = if with_data { IBV_WR_RDMA_WRITE_WITH_IMM } else { IBV_WR_RDMA_WRITE };
            wr.wr = rdma(address, key);
        }
        What::Read { address, key } => {
            wr.opcode = IBV_WR_RDMA_READ;
            wr.wr = rdma(address, key);
        }
        What::FetchAdd { address, key, add } => {
            wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
            let atomic =
                ibv_wr_atomic { remote_addr: address, compare_add: add, swap: 0, rkey: key };
            wr.wr = ibv_wr_target { atomic };
        }
        What::CompareSwap { address, key, compare, swap } => {
            wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
            let atomic =
                ibv_wr_atomic { remote_addr: address, compare_add: compare, swap, rkey: key };
            wr.wr = ibv_wr_target { atomic };
        }
    }
    wr
}
