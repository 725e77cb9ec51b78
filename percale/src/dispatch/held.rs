//! HOT. One provider's objects behind the calls of this crate.
#![allow(unsafe_code, reason = "passes calls on whose promises are the caller's")]

use std::{
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
};

use fabric_core::{
    Result,
    api::{Endpoint, SharedReceive},
    attr::CqFormat,
    av::Av,
    completion::{Counter, Cq, CqError, EntryBuf},
    engine::Stats,
    eq::EventQueue,
    op::{AtomicOp, Descs, RecvOp, RmaOp, SendOp},
};

use super::{BATCH, Batch, CounterCalls, EndpointCalls, QueueCalls, SharedReceiveCalls};

/// An endpoint of type `E`.
#[derive(Debug)]
pub struct HeldEndpoint<E>(pub(super) Arc<E>);

/// A completion queue of endpoints of type `E`.
#[derive(Debug)]
pub struct HeldQueue<E: Endpoint>(pub(super) Arc<Cq<E>>);

/// A counter of endpoints of type `E`.
#[derive(Debug)]
pub struct HeldCounter<E: Endpoint>(pub(super) Arc<Counter<E>>);

/// A receive context that endpoints of type `E` share.
#[derive(Debug)]
pub struct HeldSharedReceive<E: Endpoint>(pub(super) Arc<E::SharedReceive>);

impl<E> Clone for HeldEndpoint<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: Endpoint> Clone for HeldSharedReceive<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: Endpoint> SharedReceiveCalls for HeldSharedReceive<E> {
    #[inline]
    unsafe fn recv(&self, op: &RecvOp<'_>, descs: Descs<'_>) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.recv_registered(op, descs) }
    }

    fn cancel(&self, context: usize) {
        // Fails on a closed context only, which has no operations.
        let _ = self.0.cancel(context);
    }

    fn close(&self) {
        self.0.close();
    }
}

impl<E: Endpoint> EndpointCalls for HeldEndpoint<E> {
    #[inline]
    unsafe fn send(&self, op: &SendOp<'_>, descs: Descs<'_>) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.send_registered(op, descs) }
    }

    #[inline]
    unsafe fn recv(&self, op: &RecvOp<'_>, descs: Descs<'_>) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.recv_registered(op, descs) }
    }

    #[inline]
    unsafe fn rma(&self, op: &RmaOp<'_>, descs: Descs<'_>) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.rma_registered(op, descs) }
    }

    #[inline]
    unsafe fn atomic(&self, op: &AtomicOp<'_>) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.atomic(op) }
    }

    fn cancel(&self, context: usize) {
        // Fails on a closed endpoint only, which has no operations.
        let _ = self.0.cancel(context);
    }

    fn bind_av(&self, av: &Arc<Av>) -> Result<()> {
        self.0.bind_av(av)
    }

    fn bind_eq(&self, eq: &Arc<EventQueue>) -> Result<()> {
        self.0.bind_eq(eq)
    }

    fn introduce(&self, object: usize) {
        self.0.introduce(object);
    }

    fn enable(&self) -> Result<()> {
        self.0.enable()
    }

    fn close(&self) {
        self.0.close();
    }

    fn connect(&self, peer: &[u8], data: &[u8]) -> Result<()> {
        self.0.connect(peer, data)
    }

    fn accept(&self, data: &[u8]) -> Result<()> {
        self.0.accept(data)
    }

    fn shutdown(&self) -> Result<()> {
        self.0.shutdown()
    }

    fn peer_name(&self) -> Result<Vec<u8>> {
        self.0.peer_name()
    }

    fn name(&self) -> Result<Vec<u8>> {
        self.0.name()
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        self.0.set_name(name)
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn set_option(&self, name: i32, value: &[u8]) -> Result<()> {
        self.0.set_option(name, value)
    }

    fn atomic_limit(&self) -> usize {
        self.0.atomic_limit()
    }
}

/// Another descriptor for the same, so that its owner need not be asked how long it lives.
fn duplicate(descriptor: BorrowedFd<'_>) -> Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, 0)?)
}

/// A descriptor to sleep on for events.
pub fn descriptor_of_events(queue: &EventQueue) -> Result<OwnedFd> {
    let raw = queue.wait_fd()?;
    // SAFETY: the descriptor is open as long as the queue, which is ours during the call.
    duplicate(unsafe { BorrowedFd::borrow_raw(raw) })
}

/// Bytes of an entry of the format that queues are opened with.
const ENTRY: usize = fabric_core::completion::format_size(CqFormat::Tagged);

/// Room for what a queue writes, in its layout.
#[repr(C, align(8))]
struct Room([[u8; ENTRY]; BATCH]);

impl<E: Endpoint> QueueCalls for HeldQueue<E> {
    #[inline]
    fn read(&self, batch: &mut Batch) -> Result<usize> {
        batch.used = 0;
        let mut room = Room([[0; ENTRY]; BATCH]);
        let mut sources = [0u64; BATCH];
        let base = room.0.as_mut_ptr().cast();
        // SAFETY: room for `BATCH` entries of the format that the queue was opened with, and as many
        // sources; both outlive `out`.
        let mut out = unsafe { EntryBuf::new(base, CqFormat::Tagged, BATCH, sources.as_mut_ptr()) };
        let read = self.0.read(&mut out)?;
        for ((entry, bytes), src) in batch.entries.iter_mut().zip(&room.0).zip(&sources).take(read)
        {
            let word = |at: usize| {
                let mut word = [0; 8];
                word.copy_from_slice(&bytes[at * 8..at * 8 + 8]);
                u64::from_ne_bytes(word)
            };
            entry.context = word(0) as usize;
            entry.flags = word(1);
            entry.len = word(2) as usize;
            entry.buf = word(3) as usize;
            entry.data = word(4);
            entry.tag = word(5);
            entry.src = *src;
        }
        batch.used = read;
        Ok(read)
    }

    fn read_error(&self) -> Option<CqError> {
        self.0.read_error().ok()
    }

    fn try_wait(&self) -> Result<bool> {
        self.0.try_wait()
    }

    fn descriptor(&self) -> Result<OwnedFd> {
        let raw = self.0.wait_fd()?;
        // SAFETY: the descriptor is open as long as the object, which is ours during the call.
        duplicate(unsafe { BorrowedFd::borrow_raw(raw) })
    }
}

impl<E: Endpoint> CounterCalls for HeldCounter<E> {
    fn read(&self) -> u64 {
        self.0.read()
    }

    fn read_error(&self) -> u64 {
        self.0.read_error()
    }

    fn add(&self, n: u64) {
        self.0.add(n);
    }

    fn try_wait(&self) -> Result<bool> {
        self.0.try_wait()
    }

    fn descriptor(&self) -> Result<OwnedFd> {
        let raw = self.0.wait_fd()?;
        // SAFETY: the descriptor is open as long as the object, which is ours during the call.
        duplicate(unsafe { BorrowedFd::borrow_raw(raw) })
    }
}
