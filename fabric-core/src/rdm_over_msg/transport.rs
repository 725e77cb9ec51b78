//! HOT. What the protocol needs of connected endpoints.

use core::{cmp::Ordering, fmt, hash::Hash};
use std::{
    ffi::CStr,
    sync::Arc,
    time::{Duration, Instant},
};

use super::packet::Ranges;
use crate::{
    Errno, Result,
    attr::Info,
    domain::Domain,
    flags::Flags,
    mem::Buffers,
    op::{RmaIov, RmaKind},
    reaching::Verdict,
};

/// Private data that every transport takes along with a request, in bytes.
pub const PRIVATE_DATA_MAX: usize = 55;

/// An address of a transport: that of a host, and which of its endpoints.
pub trait Address: Copy + Eq + Hash + fmt::Display + fmt::Debug + Send + 'static {
    /// Reads an address as an address vector has it.
    fn parse(bytes: &[u8]) -> Result<Self>;
    /// As an address vector has it.
    fn to_bytes(&self) -> Vec<u8>;
    /// Which endpoint of its host.
    fn port(&self) -> u16;
    /// Another endpoint of the same host.
    fn with_port(self, port: u16) -> Self;
    /// The same for all who name this host: what is spelled in several ways is one address.
    fn canonical(self) -> Self;
    /// The address as it is seen from an endpoint at `local`.
    fn seen_from(self, local: Self) -> Self {
        let _ = local;
        self
    }
    /// Which of two endpoints keeps its connection where both have asked for one: the greater.
    fn contest(self, other: Self) -> Ordering;
}

/// A connection as the engine names it to the transport, and the transport to the engine. Names of
/// connections that have ended may come back, and mean nothing then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

impl Token {
    /// Of operations whose end nobody needs to hear of.
    pub const NOBODY: Self = Self(0);
}

/// What has happened.
#[derive(Debug)]
pub enum Event<T: Transport> {
    /// A peer asks for a connection.
    Requested {
        /// To accept or reject it by.
        request: T::Request,
        /// Where it comes from; the port is that of the connection.
        from: T::Address,
        /// What the peer says.
        data: Vec<u8>,
    },
    /// A connection is up: messages may travel.
    Connected {
        /// The connection.
        conn: Token,
        /// What the peer says, if it has accepted.
        data: Vec<u8>,
    },
    /// A connection could not be made.
    Refused {
        /// The connection that it would have been, which is no more.
        conn: Token,
        /// What the peer says.
        data: Vec<u8>,
        /// Why.
        reason: Errno,
        /// The peer's host has answered.
        met: bool,
    },
    /// A connection has ended. Nothing of it touches memory any more; operations on it that have not
    /// been reported have failed.
    Ended {
        /// The connection.
        conn: Token,
        /// Why.
        reason: Errno,
    },
    /// A message has arrived that no [`Taker`] has taken.
    Packet {
        /// On this connection.
        conn: Token,
        /// Its bytes.
        packet: T::Packet,
    },
    /// An operation has ended.
    Done {
        /// As it was given.
        token: Token,
        /// How.
        outcome: Result<()>,
    },
    /// A peer has read or written memory here: told where it says so, or where the endpoint is told of
    /// all (`FI_RMA_EVENT`).
    Accessed {
        /// On this connection.
        conn: Token,
        /// `REMOTE_READ` or `REMOTE_WRITE`.
        kind: Flags,
        /// How much.
        bytes: usize,
        /// With these words.
        data: Option<u64>,
    },
    /// It is as late as the alarm was set to.
    Alarm,
}

/// What has become of a message that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is done; no event follows. So are those before it, and have been told.
    Now,
    /// [`Event::Done`] follows.
    Later,
}

/// Who takes messages from where they have been received.
pub trait Taker {
    /// A message has arrived on a connection, and nothing that has happened there before it is left to
    /// be told, but ends of operations. `false`: it is to be told as an event. An error: the connection
    /// is to end for that reason, which is told.
    fn take(&mut self, conn: Token, packet: &[u8]) -> Result<bool>;
}

/// Takes nothing.
impl Taker for () {
    #[inline]
    fn take(&mut self, _: Token, _: &[u8]) -> Result<bool> {
        Ok(false)
    }
}

/// A read or write of a peer's memory.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// Direction.
    pub kind: RmaKind,
    /// Memory here.
    pub local: &'a Buffers,
    /// Memory there: one to [`Transport::RANGES`] ranges of as many bytes together.
    pub remote: &'a [RmaIov],
    /// Tells the peer.
    pub data: Option<u64>,
    /// Levels of completion.
    pub flags: Flags,
}

/// Connected endpoints of one local address, and their listener.
pub trait Transport: Sized + Send + 'static {
    /// Addresses.
    type Address: Address;
    /// A connection.
    type Conn: Copy + fmt::Debug + Send;
    /// A request that has not been answered.
    type Request: fmt::Debug + Send;
    /// A message that has arrived.
    type Packet: AsRef<[u8]> + for<'a> From<&'a [u8]> + fmt::Debug + Send;
    /// Memory that peers may read or write.
    type Exposure: fmt::Debug + Send;

    /// Capabilities of endpoints over this transport.
    const CAPS: Flags;
    /// Ranges of remote memory in one operation.
    const RANGES: usize;
    /// Bytes of a message, headers apart, that are copied when they are sent, where that is possible.
    const COPIED: usize;
    /// Receives that the transport keeps posted for each connection, for peers that count them to be
    /// told of; zero if nobody needs to count. Whatever it is, a message that finds no receive must
    /// wait, and not be lost.
    const RECEIVES: u32;
    /// Bytes of data for the peer's completion (`cq_data_size`). Packets have room for all of eight;
    /// what is beyond is left out, so that data comes the same with messages and with writes.
    const DATA: usize = size_of::<u64>();

    /// What an error number means over this transport, where there is more to say than the system
    /// does.
    fn words(err: Errno) -> Option<&'static CStr> {
        let _ = err;
        None
    }

    /// How long a peer may take to be reached.
    fn connect_timeout() -> Duration;

    /// Opens it, for messages of at most `packet` bytes.
    fn open(domain: &Arc<Domain>, info: &Info, packet: usize) -> Result<Self>;
    /// Starts to listen.
    fn listen(&mut self) -> Result<()>;
    /// Ends everything, without a word.
    fn close(&mut self);
    /// The local address.
    fn name(&mut self) -> Result<Self::Address>;
    /// The address that peers are told: of several that it has, the best.
    fn public_name(&self, name: Self::Address) -> Self::Address {
        name
    }
    /// Takes another local address, before listening.
    fn set_name(&mut self, name: Self::Address) -> Result<()>;

    /// Asks for a connection. Events name it `token`.
    fn connect(&mut self, token: Token, to: Self::Address, data: &[u8]) -> Result<Self::Conn>;
    /// Accepts a request. `Connected` follows, or `Refused`.
    fn accept(&mut self, token: Token, request: Self::Request, data: &[u8]) -> Result<Self::Conn>;
    /// Turns a request down.
    fn reject(&mut self, request: Self::Request, data: &[u8]);
    /// Whether a request is a peer's own that is connected already, as `rival`: then it has been started
    /// anew, or somebody else says so who can connect from its host. What is [`Verdict::Open`] is asked
    /// for again until the request is accepted or rejected; an error: it has been taken back, and is
    /// to be rejected. A transport that cannot tell believes.
    fn judge(
        &mut self,
        request: &Self::Request,
        rival: Self::Conn,
        peer: Self::Address,
    ) -> Result<Verdict> {
        let _ = (request, rival, peer);
        Ok(Verdict::Believed)
    }
    /// The other end of a connection is of our own kind: what only that understands may be used.
    fn extend(&mut self, conn: Self::Conn) {
        let _ = conn;
    }
    /// Gives a connection up. No event of it follows, and none of its operations is reported.
    fn end(&mut self, conn: Self::Conn);
    /// This end of a connection that is being made, with any port.
    fn local(&self, conn: Self::Conn) -> Result<Self::Address>;
    /// This end of the connection that a request is about, with any port.
    fn local_of(&self, request: &Self::Request) -> Result<Self::Address>;
    /// Takes in what has come on a connection, be it its end.
    fn look(&mut self, conn: Self::Conn);

    /// Sends a message whose bytes are copied. It is done when it has left this process: where only a
    /// part has, that may still fail with the connection. `EAGAIN`: nothing has happened, because there
    /// is no room. Other errors, here and below: nothing has happened, and the connection's end is
    /// about to be told. `more`: others will follow at once.
    fn inject(
        &mut self,
        conn: Self::Conn,
        head: &[u8],
        body: &Buffers,
        more: bool,
        token: Token,
    ) -> Result<Sent>;
    /// Sends a message: `head`, which is copied, then `body`. It is done when it has left, and the body
    /// may be used again, or if `flags` have a level of completion, when that is reached. `EAGAIN`:
    /// nothing has happened.
    fn send(
        &mut self,
        conn: Self::Conn,
        head: &[u8],
        body: &Buffers,
        flags: Flags,
        token: Token,
    ) -> Result<Sent>;
    /// Reads or writes the peer's memory. `Done` follows. `EAGAIN`: nothing has happened.
    fn access(&mut self, conn: Self::Conn, access: &Access<'_>, token: Token) -> Result<()>;

    /// Lets the peer at the other end read and write memory.
    fn expose(&mut self, memory: &Buffers, access: Flags) -> Result<(Self::Exposure, Ranges)>;
    /// Ends that.
    fn withdraw(&mut self, exposure: Self::Exposure);

    /// Takes no more messages of a connection for the time being, or takes them again.
    fn pause(&mut self, conn: Self::Conn, pause: bool);
    /// Moves everything forward that can move, and appends what has happened. Messages may be offered to
    /// `taker` before they are told.
    fn poll(&mut self, events: &mut Vec<Event<Self>>, taker: &mut impl Taker);
    /// Messages that are done and have not left. Asked when the endpoint is about to close, with
    /// progress in between until there are none.
    fn owes(&mut self) -> usize;

    /// The present time.
    fn now(&self) -> Instant;
    /// Asks for [`Event::Alarm`] at this time.
    fn set_alarm(&mut self, at: Instant);
    /// A descriptor that is readable when something happens after [`Transport::arm`].
    fn wait_fd(&self) -> Result<i32>;
    /// Prepares for sleeping. `false`: something is ready already.
    fn arm(&mut self) -> bool;
    /// At the end of a call of the application: wakes who sleeps if there is something to do.
    /// `must`: there is.
    fn hand_on(&mut self, must: bool);
}
