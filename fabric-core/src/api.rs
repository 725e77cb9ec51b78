//! The contract between a provider and its callers, the C face and the Rust facade.
//!
//! Objects are shared with `Arc`; `E` is one provider's endpoint at one threading level, so a call
//! from a table entry runs monomorphised code. Data calls are HOT, everything else SETUP.

mod passive;
mod shared_receive;

use std::{ffi::CStr, sync::Arc};

use crate::{
    Errno, Result,
    attr::Info,
    av::Av,
    completion::{CompletionQueue, Counter, Cq, EntryBuf},
    domain::Domain,
    engine::Stats,
    eq::{EventQueue, RequestHandle},
    flags::Flags,
    lock::Lock,
    op::{AtomicKind, AtomicOp, Descs, RecvOp, RmaOp, SendOp},
};
pub use passive::PassiveEndpoint;
pub use shared_receive::{NoSharedReceive, SharedReceive};

/// Bytes that an application may send along with a connection request or an answer to one, where
/// the endpoint's option `FI_OPT_CM_DATA_SIZE` says nothing else.
pub const CM_DATA_SIZE: usize = 256;

/// Largest payload of an atomic operation of endpoints that serve them in software.
pub const ATOMIC_PAYLOAD: usize = 4096;

/// An endpoint of one provider.
///
/// Every operation that a data call accepts (`Ok`) completes exactly once: an entry or a count on
/// success, always an error entry on failure. `Err(EAGAIN)` means that nothing was accepted and
/// that progress of this process can free the resource.
pub trait Endpoint: Sized + Send + Sync + 'static {
    /// How this endpoint and the queues bound to it are guarded.
    type Lock: Lock;
    /// What several endpoints may receive from; [`NoSharedReceive`] if there is no such thing.
    type SharedReceive: SharedReceive;
    /// A device moves operations forward while the application does something else: automatic
    /// progress takes no thread.
    const AUTONOMOUS: bool = false;
    /// Multicast groups can be joined, and sent to with `FI_MULTICAST`.
    const GROUPS: bool = false;

    /// Opens an endpoint that is not yet enabled. `context` is the application's.
    ///
    /// `request` is what `info.handle` names: the connection request that the endpoint is to
    /// accept, or what a passive endpoint has surrendered. Anything else in it, and an answered
    /// request, is `EINVAL`; then and after every other failure the request can be used again.
    fn open(
        domain: &Arc<Domain>,
        info: &Info,
        request: Option<&RequestHandle>,
        context: usize,
    ) -> Result<Arc<Self>>;
    /// What a number in `prov_errno` means to this provider, where there is more to say than the
    /// system does.
    fn words(prov_errno: i32) -> Option<&'static CStr> {
        let _ = prov_errno;
        None
    }

    /// Tells the endpoint what its events name as their object. Called once, before anything can
    /// be reported about it.
    fn introduce(&self, object: usize) {
        let _ = object;
    }

    /// Binds the address vector; a second one is `EINVAL`.
    fn bind_av(self: &Arc<Self>, av: &Arc<Av>) -> Result<()>;
    /// Binds a completion queue for the directions in `flags` (SEND, RECV, SELECTIVE_COMPLETION;
    /// others `EBADFLAGS`); a second one for a direction is `EINVAL`.
    fn bind_cq(self: &Arc<Self>, cq: &Arc<Cq<Self>>, flags: Flags) -> Result<()>;
    /// Binds a counter for SEND, RECV, READ, WRITE, REMOTE_READ, REMOTE_WRITE (others `EBADFLAGS`).
    fn bind_counter(self: &Arc<Self>, counter: &Arc<Counter<Self>>, flags: Flags) -> Result<()>;
    /// Binds an event queue, instead of one bound before.
    fn bind_eq(self: &Arc<Self>, eq: &Arc<EventQueue>) -> Result<()>;
    /// Binds a shared receive context, instead of a receive side of its own. `EINVAL` for a second
    /// one, and where the info did not ask for it.
    fn bind_shared_receive(self: &Arc<Self>, context: &Arc<Self::SharedReceive>) -> Result<()> {
        let _ = context;
        Err(Errno::EINVAL)
    }
    /// Starts the endpoint; missing objects are `ENOAV`, `ENOCQ`. Enabling twice is harmless.
    fn enable(self: &Arc<Self>) -> Result<()>;
    /// Ends the endpoint: outstanding operations are dropped, queues and address vector released.
    /// Buffers may be reused when this returns.
    fn close(self: &Arc<Self>);

    /// Asks the peer at this address for a connection, and enables the endpoint. The outcome is an
    /// event: `Connected`, or an error with the peer's reasons. `EINVAL` for anything but the first
    /// call, `ENOEQ` without an event queue.
    ///
    /// `data` goes to the peer with the request. The caller has checked that it is no longer than
    /// the option `FI_OPT_CM_DATA_SIZE` says.
    fn connect(self: &Arc<Self>, peer: &[u8], data: &[u8]) -> Result<()> {
        let _ = (peer, data);
        Err(Errno::ENOSYS)
    }
    /// Accepts the request that the endpoint was opened with, and enables the endpoint. The event
    /// `Connected` follows. `EINVAL` without such a request and for a second call, `ENOEQ` without
    /// an event queue. `data` as for [`Endpoint::connect`].
    fn accept(self: &Arc<Self>, data: &[u8]) -> Result<()> {
        let _ = data;
        Err(Errno::ENOSYS)
    }
    /// Ends the connection, if there is one; the peer gets the event `Shutdown`.
    fn shutdown(&self) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    /// The connected peer's address, as `fi_getpeer` returns it; `ENOTCONN` if there is none.
    fn peer_name(&self) -> Result<Vec<u8>> {
        Err(Errno::ENOSYS)
    }

    /// A number for the multicast group at an address of the endpoint's format, which is to be joined
    /// for SEND, RECV, or without flags for what the endpoint is for. Sends name the group by it.
    /// `ENOEQ` without an event queue, `EINVAL` for an address of no group, and for directions that the
    /// endpoint is not for.
    fn reserve_group(&self, address: &[u8], flags: Flags) -> Result<u64> {
        let _ = (address, flags);
        Err(Errno::ENOSYS)
    }
    /// Joins the group that has this number. The outcome is an event about `object`: `JoinComplete`, or
    /// an error. After a failure the number is still to be given back with [`Endpoint::leave`].
    fn join(&self, group: u64, object: usize, context: usize) -> Result<()> {
        let _ = (group, object, context);
        Err(Errno::ENOSYS)
    }
    /// Leaves a group, also one that has not been joined yet; events about it are dropped. The
    /// endpoint's close leaves all of them.
    fn leave(&self, group: u64) {
        let _ = group;
    }

    /// The local address in the endpoint's format, as `fi_getname` returns it.
    fn name(&self) -> Result<Vec<u8>>;
    /// Takes another local address, before enabling.
    fn set_name(&self, name: &[u8]) -> Result<()>;
    /// Reads `FI_OPT_ENDPOINT` option `name`, as the bytes of its C type.
    fn option(&self, name: i32) -> Result<Vec<u8>>;
    /// Sets an option from the bytes of its C type; unknown or read-only is `ENOPROTOOPT`.
    fn set_option(&self, name: i32, value: &[u8]) -> Result<()>;
    /// Flags of transmit calls that carry none (`tx_attr.op_flags`).
    fn tx_op_flags(&self) -> Flags;
    /// Flags of receive calls that carry none (`rx_attr.op_flags`).
    fn rx_op_flags(&self) -> Flags;
    /// Largest payload of atomic operations in bytes.
    fn atomic_limit(&self) -> usize;
    /// Largest payload of one atomic operation, which is valid, on endpoints that have any;
    /// `EOPNOTSUPP` if they do not have this one.
    fn atomic_payload(kind: AtomicKind, datatype: u32, op: u32) -> Result<usize> {
        let _ = (kind, datatype, op);
        Ok(ATOMIC_PAYLOAD)
    }

    /// Posts a send.
    ///
    /// # Safety
    /// The memory that `op` describes is valid for the operation's accesses until it completes or
    /// the endpoint is closed; for injects and control structures until the call returns.
    unsafe fn send(&self, op: &SendOp<'_>) -> Result<()>;
    /// Posts a receive, or peeks, claims, discards as the flags say.
    ///
    /// # Safety
    /// As for [`Endpoint::send`].
    unsafe fn recv(&self, op: &RecvOp<'_>) -> Result<()>;
    /// Posts a read or write.
    ///
    /// # Safety
    /// As for [`Endpoint::send`].
    unsafe fn rma(&self, op: &RmaOp<'_>) -> Result<()>;
    /// [`Endpoint::send`] from memory that is registered as `descs` say. Endpoints that register
    /// nothing have no use for that.
    ///
    /// # Safety
    /// As for [`Endpoint::send`]. Descriptors are checked, or numbers that only a device looks at.
    #[inline]
    unsafe fn send_registered(&self, op: &SendOp<'_>, descs: Descs<'_>) -> Result<()> {
        let _ = descs;
        // SAFETY: this function's own contract.
        unsafe { self.send(op) }
    }
    /// [`Endpoint::recv`] into registered memory.
    ///
    /// # Safety
    /// As for [`Endpoint::send_registered`].
    #[inline]
    unsafe fn recv_registered(&self, op: &RecvOp<'_>, descs: Descs<'_>) -> Result<()> {
        let _ = descs;
        // SAFETY: this function's own contract.
        unsafe { self.recv(op) }
    }
    /// [`Endpoint::rma`] with registered local memory.
    ///
    /// # Safety
    /// As for [`Endpoint::send_registered`].
    #[inline]
    unsafe fn rma_registered(&self, op: &RmaOp<'_>, descs: Descs<'_>) -> Result<()> {
        let _ = descs;
        // SAFETY: this function's own contract.
        unsafe { self.rma(op) }
    }
    /// Posts an atomic operation.
    ///
    /// # Safety
    /// As for [`Endpoint::send`].
    unsafe fn atomic(&self, op: &AtomicOp<'_>) -> Result<()>;
    /// Cancels the operation with this context, if it is still waiting; `Ok` either way.
    fn cancel(&self, context: usize) -> Result<()>;

    /// Whether progress of one endpoint is progress of both. Such endpoints have one descriptor
    /// ([`Endpoint::wait_fd`]), and queues drive only one of them.
    fn same_engine(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
    /// Moves everything forward that can move without waiting.
    fn progress(&self);
    /// The same for whoever comes again and again: makes way for threads that post, and leaves it to
    /// another thread that does all of it from after this call began. Returns whether it was done.
    fn poll(&self) -> bool {
        self.progress();
        true
    }
    /// As [`Endpoint::poll`] for the reader of `queue`: as long as the queue is empty, what completes for
    /// it may be written to `out` and never enter it. `false`: others are in front, and there is something
    /// to read meanwhile.
    fn poll_into(&self, queue: &CompletionQueue<Self::Lock>, out: &mut EntryBuf) -> bool {
        let _ = (queue, out);
        self.poll()
    }
    /// A descriptor that turns readable when [`Endpoint::arm`] has been called and something
    /// happened since; stable for the endpoint's life. Opens it on first use.
    fn wait_fd(&self) -> Result<i32>;
    /// Counts of what happened so far.
    fn stats(&self) -> Stats;
    /// Asks peers to ring. `Ok(false)`: something is ready already, do not sleep.
    fn arm(&self) -> Result<bool>;
}
