//! HOT. Completions of a datagram endpoint's queue pair, and what becomes of it when a request fails.

use fabric_core::{
    Errno,
    completion::{CqError, Entry},
    flags::Flags,
    lock::Lock,
    log::Subsys,
    op::ADDR_UNSPEC,
};

use super::{BATCH, Datagrams, KIND_RECV, KIND_SEND, Posted, RECEIVE, STARTS, Sent};
use crate::{
    NAME,
    datagram::header::Source,
    engine::{failure, receive_failure},
    sys::{
        HEADER, RecvWork,
        abi::{IBV_WC_SUCCESS, IBV_WC_WITH_IMM, IBV_WC_WR_FLUSH_ERR, ibv_wc},
    },
};

impl<L: Lock> Datagrams<L> {
    /// Takes in all completions; whether there were any.
    #[inline]
    pub(super) fn poll(&mut self) -> bool {
        let mut any = false;
        while !self.broken {
            let count = match self.qp.cq().poll(&mut *self.completions) {
                Ok(count) => count,
                Err(reason) => {
                    self.breaks(reason);
                    break;
                }
            };
            any |= count != 0;
            for place in 0..count {
                let completion = self.completions[place];
                self.complete(&completion);
            }
            if count < BATCH {
                break;
            }
        }
        any
    }

    #[inline]
    fn complete(&mut self, completion: &ibv_wc) {
        let word = completion.wr_id & !RECEIVE;
        let (start, number) = ((word >> 32) as u32, word as u32);
        if u64::from(start) != u64::from(self.starts) & STARTS {
            return;
        }
        if completion.status != IBV_WC_SUCCESS {
            self.stopped = true;
            // What was behind the one that has failed.
            if completion.status == IBV_WC_WR_FLUSH_ERR {
                return;
            }
        }
        if completion.wr_id & RECEIVE != 0 {
            self.end_receive(number, completion);
        } else {
            self.end_send(number, completion);
        }
    }

    /// The queue pair works through its sends in order: with one, all before it have left.
    #[inline]
    fn end_send(&mut self, number: u32, completion: &ibv_wc) {
        let before = number.wrapping_sub(self.first_send) as usize;
        if before >= self.sends.len() {
            return;
        }
        self.first_send = number.wrapping_add(1);
        for sent in self.sends.drain(..before) {
            self.report.sent(&sent.interest, KIND_SEND, sent.bytes);
        }
        let Some(sent) = self.sends.pop_front() else { return };
        self.untold = self.untold.min(self.sends.len());
        if completion.status == IBV_WC_SUCCESS {
            self.report.sent(&sent.interest, KIND_SEND, sent.bytes);
        } else {
            let (errno, status) = failure(completion.status);
            self.send_failed(&sent, errno, status);
        }
    }

    #[inline]
    fn end_receive(&mut self, number: u32, completion: &ibv_wc) {
        if number != self.first_receive {
            return;
        }
        let Some(posted) = self.receives.pop_front() else { return };
        self.first_receive = self.first_receive.wrapping_add(1);
        if completion.status != IBV_WC_SUCCESS {
            let (errno, status) = receive_failure(completion.status);
            self.receive_failed(&posted, errno, status);
            return;
        }
        self.stats.received += 1;
        let src = if self.bounds.sources { self.sender(&posted, completion) } else { ADDR_UNSPEC };
        let with_data = completion.wc_flags & IBV_WC_WITH_IMM != 0;
        let data = if with_data { u64::from(u32::from_be(completion.imm_data)) } else { 0 };
        let flags = if with_data { KIND_RECV | Flags::REMOTE_CQ_DATA } else { KIND_RECV };
        let whole = completion.byte_len as usize;
        let len = if self.bounds.prefixed { whole } else { whole.saturating_sub(HEADER) };
        self.give_back(posted.header);
        self.report.received(
            posted.flags,
            Entry { context: posted.context, flags: flags.bits(), len, buf: 0, data, tag: 0, src },
        );
    }

    fn sender(&mut self, posted: &Posted, completion: &ibv_wc) -> u64 {
        let mut header = [0; HEADER];
        match (posted.header, &self.headers) {
            (Some(packet), Some(headers)) => {
                if let Some(bytes) = headers.bytes(packet, HEADER).first_chunk() {
                    header = *bytes;
                }
            }
            _ => _ = posted.buffers.gather(0, &mut header),
        }
        self.peers.sender(&Source::told(completion, &header))
    }

    pub(super) fn give_back(&mut self, header: Option<u32>) {
        if let (Some(header), Some(headers)) = (header, &mut self.headers) {
            headers.give_back(header);
        }
    }

    fn send_failed(&self, sent: &Sent, errno: Errno, status: i32) {
        let entry = Entry::new(sent.interest.context, KIND_SEND);
        self.report.send_failed(CqError { prov_errno: status, ..CqError::new(entry, errno) });
    }

    fn receive_failed(&mut self, posted: &Posted, errno: Errno, status: i32) {
        self.give_back(posted.header);
        let entry = Entry::new(posted.context, KIND_RECV);
        self.report.receive_failed(CqError { prov_errno: status, ..CqError::new(entry, errno) });
    }

    /// Starts the queue pair again, after it has stopped at a request.
    #[cold]
    pub(super) fn start_again(&mut self) {
        fabric_core::info!(
            NAME,
            Subsys::EpData,
            "queue pair {} has stopped and is started again",
            self.qp.number()
        );
        if let Err(reason) = self.qp.reset() {
            self.breaks(reason);
            return;
        }
        // What had completed before.
        self.poll();
        self.stopped = false;
        self.starts = self.starts.wrapping_add(1);
        for sent in std::mem::take(&mut self.sends) {
            self.report.sent(&sent.interest, KIND_SEND, sent.bytes);
        }
        self.untold = 0;
        (self.first_send, self.first_receive) = (0, 0);
        let started = self.qp.start().and_then(|()| {
            (0..).zip(&self.receives).try_for_each(|(number, posted)| {
                let id = self.word(number) | RECEIVE;
                self.qp.post_recv(&RecvWork { id, pieces: posted.pieces })
            })
        });
        if let Err(reason) = started {
            self.breaks(reason);
        }
    }

    /// Nothing completes any more: every operation fails now.
    #[cold]
    pub(super) fn breaks(&mut self, reason: Errno) {
        if std::mem::replace(&mut self.broken, true) {
            return;
        }
        let device = &self.device.name;
        fabric_core::error!(NAME, Subsys::EpData, "a queue pair of {device} fails: {reason}");
        // So that the device touches nothing of what is told of below.
        let _ = self.qp.reset();
        for posted in std::mem::take(&mut self.receives) {
            self.receive_failed(&posted, reason, reason.get());
        }
        self.untold = 0;
        for sent in std::mem::take(&mut self.sends) {
            self.send_failed(&sent, reason, reason.get());
        }
    }
}
