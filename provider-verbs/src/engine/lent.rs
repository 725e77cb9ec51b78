//! HOT. Local memory of reads and writes, and memory that peers read, made known to the device.
//!
//! | bytes of a read or write | where registrations are kept | elsewhere |
//! |---|---|---|
//! | a write, as many as a request carries | in the request | the same |
//! | at most a packet's | by way of a packet | the same |
//! | at most four packets' (64 KiB) | a registration, kept | by way of packets |
//! | more | a registration, kept | a registration for this operation |
//!
//! Packets are registered once. Half of them are left for messages.

use std::sync::Arc;

use fabric_core::{Errno, Result, mem::Buffers, op::IoVec};

use super::{Engine, layer::Layer};
use crate::{
    mr::say_refused,
    sys::{
        Mr, PIECES, Pieces,
        abi::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE},
    },
};

/// What the device has of a read or write until that has ended.
#[derive(Debug)]
pub(super) enum Lent {
    /// Nothing: the request has taken the bytes along.
    None,
    Regions(#[allow(dead_code, reason = "held until it is dropped")] Vec<Arc<Mr>>),
    Packets(Bounce),
}

/// Packets that the bytes go through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounce {
    packets: [u32; PIECES],
    count: usize,
    /// The layer knows where a read wants them.
    reads: bool,
}

impl Lent {
    /// The packets, to be given back if the request is not posted.
    pub(super) const fn bounce(&self) -> Option<Bounce> {
        match self {
            Self::Packets(bounce) => Some(*bounce),
            Self::None | Self::Regions(_) => None,
        }
    }
}

impl Layer {
    /// The device has no part any more in memory. `done`: a read has brought its bytes.
    pub(super) fn take_back(&mut self, bounce: &Bounce, done: bool) {
        let mut at = 0;
        let into = self.into.get(bounce.packets[0] as usize).filter(|_| bounce.reads && done);
        for packet in &bounce.packets[..bounce.count] {
            if let Some(into) = into {
                let len = self.outgoing.size().min(into.len() - at);
                into.fill(at, self.outgoing.bytes(*packet, len));
                at += len;
            }
            self.outgoing.give_back(*packet);
        }
    }

    /// Takes packets for the bytes, and fills them for a write; `None`: they are needed for messages.
    fn lend_packets(&mut self, local: &Buffers, reads: bool) -> Option<(Pieces, Bounce)> {
        let mut bounce = Bounce { packets: [0; PIECES], count: 0, reads };
        let mut pieces = Pieces::NONE;
        let mut at = 0;
        while at < local.len() {
            let len = self.outgoing.size().min(local.len() - at);
            let taken = if self.outgoing.is_scarce() { None } else { self.outgoing.take() };
            let filled = taken.ok_or(Errno::EAGAIN).and_then(|packet| {
                bounce.packets[bounce.count] = packet;
                bounce.count += 1;
                if !reads {
                    self.outgoing.fill(packet, &[], &local.slice(at, len))?;
                }
                self.outgoing.add(packet, len, &mut pieces)
            });
            if filled.is_err() {
                self.take_back(&bounce, false);
                return None;
            }
            at += len;
        }
        if let (true, Some(into)) = (reads, self.into.get_mut(bounce.packets[0] as usize)) {
            *into = *local;
        }
        Some((pieces, bounce))
    }
}

impl Engine {
    /// Makes the memory of a read or write known to the device, until that has ended.
    #[inline]
    pub(super) fn lend(&mut self, local: &Buffers, reads: bool) -> Result<(Pieces, Lent)> {
        let layer = self.layer.as_mut().ok_or(Errno::EOPBADSTATE)?;
        // On iWARP, the peer's answer to a read is a write of its own.
        let remote = self.device.limits.iwarp && reads;
        let (len, packet) = (local.len(), layer.outgoing.size());
        let few = (self.device.limits.pieces as usize).min(PIECES);
        if (len <= packet || len <= few * packet && !layer.cache.is_on())
            && !remote
            && let Some((pieces, bounce)) = layer.lend_packets(local, reads)
        {
            return Ok((pieces, Lent::Packets(bounce)));
        }
        let rights = if reads { IBV_ACCESS_LOCAL_WRITE } else { 0 };
        let rights = if remote { rights | IBV_ACCESS_REMOTE_WRITE } else { rights };
        let (mut pieces, mut regions) = (Pieces::NONE, Vec::new());
        for piece in local.iov().iter().filter(|piece| piece.len != 0) {
            let mr = self.register(*piece, rights)?;
            pieces.push(piece.base.addr(), piece.len, mr.lkey())?;
            regions.push(mr);
        }
        Ok((pieces, Lent::Regions(regions)))
    }

    /// A registration of memory for `rights` (`IBV_ACCESS_*`), which may be one that was kept.
    pub(crate) fn register(&mut self, memory: IoVec, rights: i32) -> Result<Arc<Mr>> {
        let layer = self.layer.as_mut().ok_or(Errno::EOPBADSTATE)?;
        layer.cache.get(&self.pd, memory, rights).inspect_err(|&reason| say_refused(memory, reason))
    }
}
