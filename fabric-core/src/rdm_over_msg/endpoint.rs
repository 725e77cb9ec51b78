//! HOT. The engine as endpoints drive it.

use std::{
    ffi::CStr,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Address, Engine, Limits, Transport, atomics::atomic_limit, packet::HEAD_LEN};
use crate::{
    Errno, Result,
    attr::Info,
    av::Av,
    closing::{self, Patience},
    completion::Report,
    domain::Domain,
    engine::Stats,
    flags::Flags,
    lock::Lock,
    mem::Buffers,
    op::{AtomicOp, RecvOp, RmaOp, SendOp},
    options::Sizes,
    param::known,
    rdm::{RdmEndpoint, RdmEngine},
};

/// An endpoint of reliable datagrams over connections.
pub type MsgRdmEndpoint<T, L> = RdmEndpoint<Engine<T, L>>;

/// Sizes of an endpoint whose info names none.
const SIZES: Sizes = Sizes { tx: 2048, rx: 2048, inject: 64, max_msg: usize::MAX, atomic: 0 };
/// Default of `FI_OPT_MIN_MULTI_RECV`.
const MIN_MULTI_RECV: usize = 16384;
/// How long closing waits for the network to take what the application believes sent, and how long
/// while it takes nothing.
const OWED: Patience = Patience { whole: Duration::from_secs(5), stalled: Duration::from_secs(1) };

impl<T: Transport, L: Lock> RdmEngine for Engine<T, L> {
    type Lock = L;

    const CAPS: Flags = T::CAPS;
    const NAME: &'static str = "ofi_rxm";

    fn words(prov_errno: i32) -> Option<&'static CStr> {
        T::words(Errno::new(prov_errno))
    }

    fn open(domain: &Arc<Domain>, info: &Info) -> Result<(Self, Sizes)> {
        let eager = u32::try_from(known::RXM_BUFFER_SIZE.size()).unwrap_or(u32::MAX);
        let mut sizes = Sizes::of(info, SIZES);
        if info.caps.contains(Flags::ATOMIC) {
            sizes.atomic = atomic_limit(eager);
        }
        let limits = Limits {
            inject: sizes.inject,
            ranges: info.tx.as_ref().map_or(0, |tx| tx.rma_iov_limit),
            outstanding: sizes.tx.max(1),
            eager,
            segmented: segmented(eager, known::RXM_SAR_LIMIT.size()),
            written: known::RXM_USE_RNDV_WRITE.truth(),
            min_multi_recv: MIN_MULTI_RECV,
            directed: info.caps.contains(Flags::DIRECTED_RECV),
            source: info.caps.contains(Flags::SOURCE),
            rma_event: info.caps.contains(Flags::RMA_EVENT),
            connect: T::connect_timeout(),
        };
        let transport = T::open(domain, info, HEAD_LEN + eager as usize)?;
        Ok((Self::new(transport, domain.regions().clone(), limits), sizes))
    }

    fn enable(&mut self, av: Option<Arc<Av>>, _sleeps: bool) -> Result<()> {
        self.set_av(av);
        self.listen()
    }

    /// Lets what is owed leave, as long as the network takes it.
    fn settle(&mut self) {
        closing::settle(self.owes(), Instant::now(), OWED, || {
            self.progress();
            self.owes()
        });
    }

    fn close(&mut self) {
        self.close();
    }

    fn name(&mut self) -> Result<Vec<u8>> {
        let name = self.name()?;
        Ok(self.transport.public_name(name).to_bytes())
    }

    fn set_name(&mut self, name: &[u8]) -> Result<()> {
        self.transport.set_name(Address::parse(name)?)
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
        self.post_atomic(op, buffers)
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
        self.transport.wait_fd()
    }

    fn arm(&mut self) -> bool {
        self.arm()
    }

    fn stats(&self) -> Stats {
        self.stats()
    }
}

/// Largest message in segments: there are none where a segment's header has no room for its length.
const fn segmented(eager: u32, limit: usize) -> usize {
    if eager > u16::MAX as u32 { 0 } else { limit }
}
