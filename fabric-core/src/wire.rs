//! HOT. What travels between two endpoints, and what a transport has to offer for it.
//!
//! A packet is a small header and payload bytes. The header's meaning is the engine's
//! ([`Op`]); how it is encoded is the transport's. Everything in it comes from the peer and is
//! therefore parsed before it is used.

use std::{ffi::CStr, os::fd::RawFd};

use crate::{
    Errno, Result,
    attr::Info,
    flags::Flags,
    matching::PeerId,
    mem::{Buffers, SharedBytes},
    wait::Bell,
};

/// A packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Kind; one of [`Op`] in what we send, anything in what we receive.
    pub op: u8,
    /// [`head_flags`].
    pub flags: u8,
    /// First word: a tag or an operation's handle.
    pub a: u64,
    /// Second word: remote CQ data or another handle; zero costs nothing.
    pub b: u64,
}

/// Flags in a packet's header.
pub mod head_flags {
    /// Tagged interface.
    pub const TAGGED: u8 = 1 << 0;
    /// `b` is remote CQ data.
    pub const DATA: u8 = 1 << 1;
    /// The sender waits for an acknowledgement.
    pub const ACK: u8 = 1 << 2;
    /// The handle is one of a read that is served, not of an operation.
    pub const SERVICE: u8 = 1 << 3;
    /// Flags from here on are the transport's.
    pub const TRANSPORT: u8 = 1 << 6;
}

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        /// Kinds of packets.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Op { $($(#[$doc])* $name = $value,)* }
        impl Op {
            /// Parses a kind; values that are not ours are `None`.
            #[inline]
            pub const fn from_raw(raw: u8) -> Option<Self> {
                match raw { $($value => Some(Self::$name),)* _ => None }
            }
        }
    };
}

ops! {
    /// A whole message. a = tag, b = data, payload = [handle if ACK] message.
    Message = 1,
    /// A message whose bytes stay with the sender. a = tag, b = data,
    /// payload = handle, length, pieces (address, length)...
    Offer = 2,
    /// The other side wants an offer's bytes sent. a = sender's handle, b = receiver's handle,
    /// payload = bytes wanted.
    Request = 3,
    /// Part of the requested bytes, in order. a = receiver's handle, payload = bytes.
    Segment = 4,
    /// An operation is over at the other side. a = sender's handle, b = error number or 0.
    Finish = 5,
    /// A one-sided write with its bytes. a = handle, b = data, payload = remote pieces, bytes.
    Write = 6,
    /// A one-sided write whose bytes stay with the initiator. a = handle, b = data,
    /// payload = remote pieces, then local pieces.
    WriteOffer = 7,
    /// A one-sided read. a = handle, payload = remote pieces.
    Read = 8,
    /// An atomic operation, or a part of one: parts come in order. a = handle, b = length << 32 |
    /// offset of the part or 0, payload = kind, all remote pieces, the part's operands and
    /// comparands.
    Atomic = 9,
    /// The answer to a read, whole, or to a fetching atomic, perhaps in several packets.
    /// a = handle, payload = bytes.
    Reply = 10,
    /// A read may be copied directly. a = initiator's handle, b = target's handle,
    /// payload = number of regions, their seals (address, value)..., pieces (address, length)...
    Grant = 11,
    /// The granted bytes have been copied, or are no longer there. a = target's handle.
    Release = 12,
    /// The initiator cannot copy: please send the read's bytes in segments. a = target's handle,
    /// b = initiator's handle.
    Stream = 13,
    /// We are copying and would welcome help. a = owner's handle, b = our transfer.
    Invite = 14,
    /// Help is there. a = transfer.
    Ready = 15,
    /// Memory to fill. a = owner's handle, b = transfer, payload = offset, pieces (address,
    /// length)...
    Share = 16,
    /// It has been filled. a = transfer, b = error number or 0.
    Shared = 17,
}

/// A packet that has arrived; valid until the transport moves on.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Header as received.
    pub head: Head,
    /// Bytes as the peer may still be changing them.
    pub payload: SharedBytes,
}

/// Why a packet was not emitted; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No room now; progress will bring some.
    Again,
    /// Never: the peer is gone or cannot be reached. If it has been reached before, its end is
    /// also reported as an event.
    Down(Errno),
}

/// Where a packet's payload comes from: a few bytes of ours, then application memory.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// First bytes.
    pub fixed: &'a [u8],
    /// Application memory.
    pub data: &'a Buffers,
    /// Bytes of it to skip.
    pub skip: usize,
    /// Bytes of it to take.
    pub len: usize,
}

impl<'a> Source<'a> {
    /// Only bytes of ours.
    #[inline]
    pub const fn fixed(fixed: &'a [u8]) -> Self {
        Self { fixed, data: &Buffers::EMPTY, skip: 0, len: 0 }
    }

    /// All of `data` behind `fixed`.
    #[inline]
    pub const fn all(fixed: &'a [u8], data: &'a Buffers) -> Self {
        Self { fixed, data, skip: 0, len: data.len() }
    }

    /// Bytes in all.
    #[inline]
    pub const fn total(&self) -> usize {
        self.fixed.len() + self.len
    }
}

/// The sending half of a transport.
pub trait WireTx {
    /// A peer's address; empty for one that is not known.
    fn address(&self, peer: PeerId) -> &[u8];

    /// Emits a packet or changes nothing. Packets to one peer arrive in order.
    fn try_emit(&mut self, peer: PeerId, head: Head, source: &Source<'_>) -> Result<(), Refused>;

    /// Most payload bytes of one packet to this peer; no less than 512.
    fn max_payload(&self, peer: PeerId) -> usize;

    /// Makes room for packets of `len` payload bytes, if the transport ever can.
    fn grow(&mut self, peer: PeerId, len: usize) -> bool;

    /// Whether this peer's memory can be copied directly.
    fn can_copy(&mut self, peer: PeerId) -> bool;

    /// Fills `local` with the peer's bytes at `remote` (address, length), skipping `skip` of them.
    /// After an error nothing in `local` may be relied on: the caller falls back or fails.
    fn copy_from(
        &mut self,
        peer: PeerId,
        remote: &[(u64, u64)],
        skip: usize,
        local: &Buffers,
    ) -> Result<(), Errno>;

    /// Writes `local` into the peer's memory at `remote` (address, length).
    fn copy_to(&mut self, peer: PeerId, local: &Buffers, remote: &[(u64, u64)]) -> Result<()>;

    /// Whether the peer holds much of what we sent without a receive for it, so that further
    /// payloads should stay here.
    fn pressure(&self, peer: PeerId) -> bool;
}

/// The receiving half of a transport.
pub trait WireRx {
    /// The next peer that has a packet, looking fairly at all that may have one.
    fn next_ready(&mut self) -> Option<PeerId>;

    /// The packet at the head of a peer's queue. `Err`: the peer broke the transport's rules.
    fn peek(&mut self, peer: PeerId) -> Result<Option<Packet>, Errno>;

    /// Moves on behind the packet that `peek` returned.
    fn consume(&mut self, peer: PeerId);

    /// Tells the peer whether we hold much of what it sent without a receive for it.
    fn set_pressure(&mut self, peer: PeerId, high: bool);
}

/// What a transport has noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Packets can be emitted to this peer again, or for the first time.
    Writable(PeerId),
    /// The peer is gone, with the reason. Its packets have all been delivered.
    Down(PeerId, Errno),
}

/// A transport for reliable datagrams between endpoints.
pub trait Wire: Sized + Send + 'static {
    /// Sending half.
    type Tx: WireTx;
    /// Receiving half.
    type Rx: WireRx;
    /// Of those who sleep on the descriptor.
    type Bell: Bell;

    /// What endpoints over this transport can do at most.
    const CAPS: Flags;

    /// What an error number means on this transport, where there is more to say than the system
    /// does.
    fn words(err: Errno) -> Option<&'static CStr> {
        let _ = err;
        None
    }

    /// Prepares an endpoint with the address that `info` asks for, or one of its own.
    fn open(info: &Info) -> Result<Self>;

    /// Both halves at once.
    fn split(&mut self) -> (&mut Self::Tx, &mut Self::Rx);

    /// Sending half.
    fn tx(&mut self) -> &mut Self::Tx {
        self.split().0
    }

    /// The local address.
    fn name(&self) -> &[u8];

    /// Takes another address; only before [`Wire::enable`].
    fn set_name(&mut self, name: &[u8]) -> Result<()>;

    /// Starts to answer peers. `sleeps`: the owner will at times wait on a descriptor.
    fn enable(&mut self, sleeps: bool) -> Result<()>;

    /// Stops answering and lets everything go; what was emitted stays for peers to read.
    fn close(&mut self);

    /// The peer with this address, made known if it was not.
    fn peer(&mut self, address: &[u8]) -> Result<PeerId>;

    /// A peer's address; see [`WireTx::address`].
    fn address(&self, peer: PeerId) -> &[u8];

    /// Whether so many peers are known that it is time for [`Wire::forget_unused`].
    fn is_crowded(&self) -> bool {
        false
    }

    /// Forgets peers that are not connected and for which `used`, given number and address, does
    /// not hold. Returns them; their numbers may be given to others.
    fn forget_unused(&mut self, used: impl FnMut(PeerId, &[u8]) -> bool) -> Vec<PeerId> {
        let _ = used;
        Vec::new()
    }

    /// Does what is due besides packets: connections, peers that ended. Cheap when nothing is due
    /// and rate-limited unless `now`. Returns one event at a time.
    fn poll_event(&mut self, now: bool) -> Option<Event>;

    /// Gives up a peer that broke the protocol; the `Down` event follows.
    fn fail(&mut self, peer: PeerId, reason: Errno);

    /// A descriptor that turns readable when an armed wire has something to do.
    fn wait_fd(&self) -> Result<RawFd>;

    /// Asks for a ring of the bell at the next packet, and, where `blocked` says that packets wait
    /// here, at the next room. `false`: there is something to do already, and the wire may be armed
    /// in part. Does not wait.
    fn arm(&mut self, blocked: &[PeerId]) -> bool;

    /// Whether something has been done since that an armed wire would not notice.
    fn changed(&self) -> bool {
        false
    }

    /// What makes the descriptor readable where no peer does.
    fn bell(&mut self) -> &mut Self::Bell;
}
