//! PENDING. What the engine needs of the network, and real sockets that offer it.
//!
//! The engine sees [`Net`] and [`Stream`] only, so that tests can put two engines on both ends of a
//! scripted stream that splits, delays and cuts.

mod memory;
mod options;
mod poller;
mod sockets;
mod spare;

use std::{
    net::SocketAddr,
    os::fd::RawFd,
    time::{Duration, Instant},
};

use fabric_core::{Errno, Result, log::Subsys, mem::Buffers, shortage::explained, wait::Bell};

pub(crate) use self::{
    options::Options,
    poller::Poller,
    sockets::{Acceptor, Socket, Sockets},
};

/// A connected, or connecting, stream of bytes that never blocks.
pub(crate) trait Stream: Send + 'static {
    /// Hands over `bytes`, then what `data` describes, in one step. Returns how many were taken:
    /// at least one, or `EAGAIN`. With `more` they may be held back for company, for a short time:
    /// until [`Stream::push`], or for 0.2 seconds.
    fn send(&mut self, bytes: &[u8], data: &Buffers, more: bool) -> Result<usize>;
    /// Lets go of what is held back.
    fn push(&mut self);
    /// Fills `data`, then `rest`, in one step. Returns how many bytes there were: zero at the end
    /// of the stream, `EAGAIN` if none is there now.
    fn receive(&mut self, data: &Buffers, rest: &mut [u8]) -> Result<usize>;
    /// From now on the net tells of bytes when there are `count` of them, when it has room for no more,
    /// or at the end; [`Stream::receive`] takes what is there.
    fn wait_for(&mut self, count: usize);
    /// The address at this end.
    fn local(&self) -> Result<SocketAddr>;
    /// Before it is closed: says that nothing more will come, and lets go of what has come, so that
    /// what was handed over is still delivered.
    fn finish(&mut self);
    /// What the kernel knows of the other end's; `None` if it cannot say.
    fn life(&self) -> Option<Life> {
        None
    }
}

/// What is known of a peer's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// Bytes of ours are not acknowledged yet.
    pub(crate) owes: bool,
    /// How often the oldest of them have been sent again.
    pub(crate) again: u8,
    /// How often it has been asked whether it has room now, and has not answered.
    pub(crate) probes: u8,
    /// Since it was last heard.
    pub(crate) silence: Duration,
    /// It has said that nothing more will come.
    pub(crate) ended: bool,
}

/// What to be told about a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    /// Bytes to read, or the end.
    pub(crate) read: bool,
    /// Room to write, or a connection that came up.
    pub(crate) write: bool,
    /// The end alone. A broken stream is told of in any case.
    pub(crate) end: bool,
}

impl Interest {
    /// In what there is to read, or to accept.
    pub(crate) const READ: Self = Self { read: true, write: false, end: false };
    /// In nothing.
    pub(crate) const NONE: Self = Self { read: false, write: false, end: false };
}

/// Something is to be done for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    /// As given to [`Net::watch`] or [`Net::listen`].
    pub(crate) token: u64,
    /// There is something to read, or the stream has ended.
    pub(crate) read: bool,
    /// There is room to write.
    pub(crate) write: bool,
    /// The peer has ended the stream, or it is broken: nothing will come but what is here.
    pub(crate) ended: bool,
}

/// A stream that a peer has opened.
#[derive(Debug)]
pub(crate) struct Accepted<S> {
    /// The stream.
    pub(crate) stream: S,
    /// Where it comes from.
    pub(crate) peer: SocketAddr,
}

/// The network of one engine.
pub(crate) trait Net: Send + 'static {
    /// Streams.
    type Stream: Stream;
    /// Of those who sleep on the descriptor.
    type Bell: Bell;

    /// Takes an address to listen at, and lets another one go; port zero is any. Returns the address
    /// with its port.
    fn bind(&mut self, address: SocketAddr) -> Result<SocketAddr>;
    /// Starts to listen at the address that was taken.
    fn listen(&mut self, token: u64) -> Result<()>;
    /// The next stream that a peer has opened; `EAGAIN` if there is none. `EMFILE`: one has been
    /// turned away. `ENOBUFS`: there is one that cannot be taken now.
    fn accept(&mut self) -> Result<Accepted<Self::Stream>>;
    /// Tells of streams to accept, or does not.
    fn watch_listener(&mut self, token: u64, watch: bool);
    /// Stops listening, and lets the address go.
    fn stop_listening(&mut self);
    /// Begins to connect from an address (with a port of the system's choice) to another.
    fn connect(&mut self, from: Option<SocketAddr>, to: SocketAddr) -> Result<Self::Stream>;
    /// What became of a connect; `EAGAIN` as long as that is not known.
    fn outcome(&mut self, stream: &Self::Stream) -> Result<()>;
    /// Told of a stream from now on, under a token.
    fn watch(&mut self, stream: &Self::Stream, token: u64, interest: Interest) -> Result<()>;
    /// Other interest in a watched stream. Its end is told whatever that is.
    fn change(&mut self, stream: &Self::Stream, token: u64, interest: Interest);
    /// Hands over what is ready, up to a bound. `true`: the alarm has gone off, and must be set anew.
    fn ready(&mut self, out: &mut Vec<Ready>) -> bool;
    /// Whether the kernel of an idle stream's peer is asked for a sign of life within a second, or as
    /// usual.
    fn ask_for_life(&mut self, stream: &Self::Stream, soon: bool);
    /// The present time.
    fn now(&self) -> Instant;
    /// A descriptor that is readable while anything is ready, and from `at` on.
    fn wait_fd(&self) -> RawFd;
    /// Makes the descriptor readable at this time, once.
    fn set_alarm(&mut self, at: Option<Instant>);
    /// Makes the descriptor readable for whoever sleeps on it.
    fn bell(&mut self) -> &mut Self::Bell;
}

/// How long a listener rests whose connections cannot be taken now, nor turned away. Level-triggered, it
/// would wake its sleepers for nothing until they can.
pub(crate) const REST: Duration = Duration::from_millis(50);

/// Tells the log why a listener rests.
#[cold]
pub(crate) fn not_accepted(reason: Errno) {
    let reason = explained(if reason == Errno::ENOBUFS { Errno::EMFILE } else { reason });
    fabric_core::warn_few!("tcp", Subsys::EpCtrl, "accept fails: {reason}");
}

/// An error of the operating system as it is reported.
fn errno(e: rustix::io::Errno) -> Errno {
    e.into()
}
