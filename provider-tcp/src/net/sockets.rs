//! PENDING. TCP sockets.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

use fabric_core::{Errno, Result, mem::Buffers};
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, accept_with, bind, connect, getsockname,
    ipproto, listen, socket_with, sockopt,
};

use super::{Accepted, Interest, Net, Poller, Ready, Stream, errno, memory};

/// Connections that may wait to be accepted; the system may keep fewer (`somaxconn`).
const BACKLOG: i32 = 4096;
/// When the kernel asks an idle peer for a sign of life, how often, and how many times.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(5), 6);

/// Reads of what nobody wants any more, 4 KiB each.
const WASTE: usize = 256;

/// A TCP socket; closing it is dropping it.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Opens a socket for addresses like `address`.
    fn open(address: SocketAddr) -> Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Self(socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?))
    }

    /// Small messages leave at once, and a peer whose host has vanished is noticed some day.
    fn tune(&self) {
        // None of these can fail on a TCP socket; without them it would still work.
        let _ = sockopt::set_tcp_nodelay(&self.0, true);
        let _ = sockopt::set_socket_keepalive(&self.0, true);
        let (idle, interval, count) = KEEPALIVE;
        let _ = sockopt::set_tcp_keepidle(&self.0, idle);
        let _ = sockopt::set_tcp_keepintvl(&self.0, interval);
        let _ = sockopt::set_tcp_keepcnt(&self.0, count);
    }

    /// Begins to connect, from `from` if it names an interface.
    pub(crate) fn connect(from: Option<SocketAddr>, to: SocketAddr) -> Result<Self> {
        let socket = Self::open(to)?;
        socket.tune();
        if let Some(from) = from.filter(|from| !from.ip().is_unspecified()) {
            // Many connections from one address need not share its range of ports.
            let _ = memory::bind_without_port(socket.0.as_fd());
            bind(&socket.0, &SocketAddr::new(from.ip(), 0))?;
        }
        match connect(&socket.0, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
            Err(e) => Err(errno(e)),
        }
    }

    /// What became of a connect.
    pub(crate) fn outcome(&self) -> Result<()> {
        sockopt::socket_error(&self.0)?.map_err(errno)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Stream for Socket {
    #[inline]
    fn send(&mut self, bytes: &[u8], data: &Buffers) -> Result<usize> {
        memory::send(self.0.as_fd(), bytes, data)
    }

    #[inline]
    fn receive(&mut self, data: &Buffers, rest: &mut [u8]) -> Result<usize> {
        memory::receive(self.0.as_fd(), data, rest)
    }

    fn local(&self) -> Result<SocketAddr> {
        getsockname(&self.0)?.try_into().map_err(|_| Errno::new(libc::EAFNOSUPPORT))
    }

    fn finish(&mut self) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Write);
        let mut waste = [0; 4096];
        for _ in 0..WASTE {
            match memory::receive(self.0.as_fd(), &Buffers::EMPTY, &mut waste) {
                Ok(1..) => {}
                _ => return,
            }
        }
    }
}

/// A socket that listens, or is about to.
#[derive(Debug)]
pub(crate) struct Acceptor {
    socket: Socket,
    address: SocketAddr,
}

impl Acceptor {
    /// Takes `address`. Port zero is any, or one of `ports`, if there is a range.
    pub(crate) fn bind(address: SocketAddr, ports: Option<(u16, u16)>) -> Result<Self> {
        let socket = Socket::open(address)?;
        sockopt::set_socket_reuseaddr(&socket.0, true)?;
        match ports.filter(|_| address.port() == 0) {
            Some(range) => bind_within(&socket, address.ip(), range)?,
            None => bind(&socket.0, &address)?,
        }
        let address = socket.local()?;
        Ok(Self { socket, address })
    }

    /// Lets peers connect.
    pub(crate) fn listen(&self, backlog: i32) -> Result<()> {
        Ok(listen(&self.socket.0, backlog)?)
    }

    /// What it has taken.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection; `EAGAIN` if there is none.
    pub(crate) fn accept(&self) -> Result<Accepted<Socket>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match accept_with(&self.socket.0, flags) {
                Ok(fd) => {
                    let stream = Socket(fd);
                    stream.tune();
                    // A peer that has left meanwhile has no address.
                    let Ok(peer) = rustix::net::getpeername(&stream.0) else { continue };
                    let Some(Ok(peer)) = peer.map(SocketAddr::try_from) else { continue };
                    return Ok(Accepted { stream, peer });
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(e) => return Err(errno(e)),
            }
        }
    }
}

impl AsFd for Acceptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Binds to the first free port of a range, beginning anywhere in it, so that endpoints that start
/// together do not all try the same ones.
fn bind_within(socket: &Socket, ip: IpAddr, (low, high): (u16, u16)) -> Result<()> {
    let count = u32::from(high - low) + 1;
    let start = std::process::id().wrapping_mul(0x9e37_79b9) % count;
    for step in 0..count {
        let port = u32::from(low) + (start + step) % count;
        match bind(&socket.0, &SocketAddr::new(ip, port as u16)) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::ADDRINUSE | rustix::io::Errno::ACCESS) => {}
            Err(e) => return Err(errno(e)),
        }
    }
    Err(Errno::EADDRINUSE)
}

/// The sockets of one engine.
#[derive(Debug)]
pub(crate) struct Sockets {
    poller: Poller,
    acceptor: Option<Acceptor>,
    ports: Option<(u16, u16)>,
}

impl Sockets {
    /// None yet. `ports`: where to listen if the application leaves the choice to us.
    pub(crate) fn new(ports: Option<(u16, u16)>) -> Result<Self> {
        Ok(Self { poller: Poller::new()?, acceptor: None, ports })
    }
}

impl Net for Sockets {
    type Stream = Socket;

    fn bind(&mut self, address: SocketAddr) -> Result<SocketAddr> {
        if let Some(own) = &self.acceptor
            && own.address() == address
        {
            return Ok(address);
        }
        self.acceptor = None;
        let acceptor = self.acceptor.insert(Acceptor::bind(address, self.ports)?);
        Ok(acceptor.address())
    }

    fn listen(&mut self, token: u64) -> Result<()> {
        let acceptor = self.acceptor.as_ref().ok_or(Errno::EADDRNOTAVAIL)?;
        acceptor.listen(BACKLOG)?;
        let interest = Interest { read: true, write: false };
        self.poller.watch(acceptor.as_fd(), token, interest)
    }

    fn accept(&mut self) -> Result<Accepted<Socket>> {
        self.acceptor.as_ref().ok_or(Errno::EAGAIN)?.accept()
    }

    fn stop_listening(&mut self) {
        self.acceptor = None;
    }

    fn connect(&mut self, from: Option<SocketAddr>, to: SocketAddr) -> Result<Socket> {
        Socket::connect(from, to)
    }

    fn outcome(&mut self, stream: &Socket) -> Result<()> {
        stream.outcome()
    }

    fn watch(&mut self, stream: &Socket, token: u64, interest: Interest) -> Result<()> {
        self.poller.watch(stream.as_fd(), token, interest)
    }

    fn change(&mut self, stream: &Socket, token: u64, interest: Interest) {
        self.poller.change(stream.as_fd(), token, interest);
    }

    fn ready(&mut self, out: &mut Vec<Ready>) {
        self.poller.ready(out);
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wait_fd(&self) -> RawFd {
        self.poller.raw()
    }

    fn set_alarm(&mut self, at: Option<Instant>) {
        self.poller.set_alarm(at);
    }

    fn wake(&mut self) {
        self.poller.wake();
    }
}
