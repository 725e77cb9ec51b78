//! HOT. Endpoints over any [`Wire`]: the engine of packets as they drive it.

use std::{
    ffi::CStr,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{RdmEndpoint, RdmEngine};
use crate::{
    Errno, Result,
    attr::Info,
    av::Av,
    closing::{self, Patience},
    completion::Report,
    domain::Domain,
    engine::{Engine, Limits, Stats},
    flags::{Flags, Order},
    lock::Lock,
    mem::Buffers,
    op::{AtomicOp, RecvOp, RmaOp, SendOp},
    options::Sizes,
    wire::Wire,
};

/// An endpoint of reliable datagrams over packets.
pub type WireRdmEndpoint<W, L> = RdmEndpoint<Engine<W, L>>;

/// Bytes of one message in one packet, where the transport can.
const EAGER: usize = 64 * 1024;
/// Progress calls in which a sender may answer before its memory is copied: some microseconds.
const PATIENCE: u32 = 256;
/// Direct copies from both ends start here: below, the invitation costs more than it saves.
const SHARED: usize = 384 * 1024;
/// Largest atomic payload.
const ATOMIC: usize = 4096;
/// Bytes from one peer without receives before it keeps its payloads.
const WAITING_BYTES: usize = 16 << 20;
/// How long closing waits for a peer that is writing to our memory at this very moment.
const LENT_PATIENCE: Duration = Duration::from_secs(1);
/// How long closing waits for room for what the application believes sent, and how long while none
/// is made.
const OWED: Patience =
    Patience { whole: Duration::from_secs(1), stalled: Duration::from_millis(50) };
/// Sizes of an endpoint whose info names none.
const SIZES: Sizes =
    Sizes { tx: 1024, rx: 1024, inject: 4096, max_msg: usize::MAX, atomic: ATOMIC };
/// Default of `FI_OPT_MIN_MULTI_RECV`.
const MIN_MULTI_RECV: usize = 4096;

impl<W: Wire, L: Lock> RdmEngine for Engine<W, L> {
    type Lock = L;

    const CAPS: Flags = W::CAPS;
    const NAME: &'static str = "core";

    fn words(prov_errno: i32) -> Option<&'static CStr> {
        W::words(Errno::new(prov_errno))
    }

    fn open(domain: &Arc<Domain>, info: &Info) -> Result<(Self, Sizes)> {
        let sizes = Sizes::of(info, SIZES);
        let limits = Limits {
            inject: sizes.inject,
            eager: EAGER,
            patience: PATIENCE,
            shared: SHARED,
            lends: domain.lends(),
            outstanding: sizes.tx,
            atomic: ATOMIC,
            waiting_bytes: WAITING_BYTES,
            min_multi_recv: MIN_MULTI_RECV,
            ordered: info.tx.as_ref().is_some_and(|tx| !Order::SAS.contains(tx.msg_order)),
            directed: info.caps.contains(Flags::DIRECTED_RECV),
            source: info.caps.contains(Flags::SOURCE),
            rma_event: info.caps.contains(Flags::RMA_EVENT),
        };
        Ok((Self::new(W::open(info)?, domain.regions().clone(), limits), sizes))
    }

    fn enable(&mut self, av: Option<Arc<Av>>, sleeps: bool) -> Result<()> {
        self.set_av(av);
        self.wire.enable(sleeps)
    }

    /// Lets peers finish writing to the endpoint's memory, and what is owed leave as long as they make
    /// room for it.
    fn settle(&mut self) {
        let begin = Instant::now();
        // A peer that fills memory for us says so soon, or ends.
        while self.core.lends() && begin.elapsed() < LENT_PATIENCE {
            self.progress();
        }
        closing::settle(self.core.owed(), begin, OWED, || {
            self.progress();
            self.core.owed()
        });
    }

    fn close(&mut self) {
        self.drop_all();
        self.wire.close();
    }

    fn name(&mut self) -> Result<Vec<u8>> {
        Ok(self.wire.name().to_vec())
    }

    fn set_name(&mut self, name: &[u8]) -> Result<()> {
        self.wire.set_name(name)
    }

    #[inline]
    fn report(&mut self) -> &mut Report<L> {
        &mut self.core.report
    }

    fn min_multi_recv(&mut self) -> &mut usize {
        &mut self.core.inbox.min_multi_recv
    }

    #[inline]
    fn post_send(&mut self, op: &SendOp<'_>, buffers: Buffers) -> Result<()> {
        self.post_send(op, buffers)
    }

    #[inline]
    fn post_recv(&mut self, op: &RecvOp<'_>, buffers: Buffers) -> Result<()> {
        self.post_recv(op, buffers)
    }

    fn post_rma(&mut self, op: &RmaOp<'_>, buffers: Buffers) -> Result<()> {
        self.post_rma(op, buffers)
    }

    fn post_atomic(&mut self, op: &AtomicOp<'_>, buffers: [Buffers; 3]) -> Result<()> {
        let [operand, compare, result] = buffers;
        self.post_atomic(op, operand, compare, result)
    }

    fn cancel(&mut self, context: usize) {
        self.cancel(context);
    }

    #[inline]
    fn hand_on(&mut self) {
        self.hand_on();
    }

    #[inline]
    fn progress(&mut self) {
        self.progress();
    }

    fn wait_fd(&mut self) -> Result<i32> {
        self.wire.wait_fd()
    }

    fn arm(&mut self) -> bool {
        self.arm()
    }

    fn stats(&self) -> Stats {
        self.stats()
    }
}
