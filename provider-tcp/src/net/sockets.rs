//! PENDING. TCP sockets.

use std::{
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd},
    sync::Arc,
    time::Instant,
};

use fabric_core::{
    Errno, Result,
    fork::{NotInherited, Owner},
    log::Subsys,
    mem::Buffers,
    param::known::{TCP_PORT_HIGH, TCP_PORT_LOW},
    shortage::explained,
    wait::Alarm,
};
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, accept_with, bind, connect, getsockname,
    ipproto, listen, socket_with, sockopt,
};

use super::{
    Accepted, Interest, Life, Net, Options, Poller, Ready, Stream, errno, memory, options,
    spare::Spare,
};

/// Connections that may wait to be accepted; the system may keep fewer (`somaxconn`).
const BACKLOG: i32 = 4096;
/// Reads of what nobody wants any more, 4 KiB each.
const WASTE: usize = 256;

/// A TCP socket; closing it is dropping it. It ends for the peer then, or with the process: a forked
/// child does not keep it.
#[derive(Debug)]
pub(crate) struct Socket {
    /// Dropped before the socket.
    _not_inherited: NotInherited,
    fd: OwnedFd,
    owner: Owner,
}

impl Socket {
    fn opened<E>(open: impl FnOnce() -> Result<OwnedFd, E>) -> Result<Self, E> {
        let (not_inherited, fd) = NotInherited::open(open)?;
        Ok(Self { _not_inherited: not_inherited, fd, owner: Owner::here() })
    }

    /// Opens a socket for addresses like `address`.
    fn open(address: SocketAddr) -> Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Self::opened(|| socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP)))?)
    }

    /// Begins to connect, from `from` if it names an interface. Nobody listens at port 0, though some
    /// hosts say nothing to that.
    fn connect(options: Options, from: Option<SocketAddr>, to: SocketAddr) -> Result<Self> {
        if to.port() == 0 {
            return Err(Errno::ECONNREFUSED);
        }
        let socket = Self::open(to)?;
        options.apply(&socket);
        if let Some(mut from) = from.filter(|from| !from.ip().is_unspecified()) {
            // Many connections from one address need not share its range of ports.
            let _ = options::bind_without_port(socket.fd.as_fd());
            // A link-local one keeps its interface.
            from.set_port(0);
            bind(&socket.fd, &from)?;
        }
        match connect(&socket.fd, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
            Err(e) => Err(errno(e)),
        }
    }

    /// What became of a connect; `EAGAIN` as long as that is not known.
    fn outcome(&self) -> Result<()> {
        sockopt::socket_error(&self.fd)?.map_err(errno)?;
        match rustix::net::getpeername(&self.fd) {
            Err(rustix::io::Errno::NOTCONN) => Err(Errno::EAGAIN),
            // Whatever else there is comes up with the first byte.
            _ => Ok(()),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Closing alone does not end it as long as a child has it, of those that no handler sees.
        if self.owner.is_here() {
            let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Stream for Socket {
    #[inline]
    fn send(&mut self, bytes: &[u8], data: &Buffers, more: bool) -> Result<usize> {
        memory::send(self.fd.as_fd(), bytes, data, more)
    }

    fn push(&mut self) {
        // Says so to the kernel whether or not the option was set. It is off already.
        let _ = sockopt::set_tcp_cork(&self.fd, false);
    }

    #[inline]
    fn receive(&mut self, data: &Buffers, rest: &mut [u8]) -> Result<usize> {
        memory::receive(self.fd.as_fd(), data, rest)
    }

    fn wait_for(&mut self, count: usize) {
        options::set_low_water_mark(self.fd.as_fd(), count);
    }

    fn local(&self) -> Result<SocketAddr> {
        getsockname(&self.fd)?.try_into().map_err(|_| Errno::new(libc::EAFNOSUPPORT))
    }

    fn finish(&mut self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
        let mut waste = [0; 4096];
        for _ in 0..WASTE {
            match memory::receive(self.fd.as_fd(), &Buffers::EMPTY, &mut waste) {
                Ok(1..) => {}
                _ => return,
            }
        }
    }

    fn life(&self) -> Option<Life> {
        options::life(self.fd.as_fd())
    }
}

/// A socket that listens, or is about to.
#[derive(Debug)]
pub(crate) struct Acceptor {
    socket: Socket,
    address: SocketAddr,
    options: Options,
    spare: Arc<Spare>,
}

impl Acceptor {
    /// Takes `address`. Port zero is any, or one of `ports`, if there is a range.
    pub(crate) fn bind(
        options: Options,
        address: SocketAddr,
        ports: Option<(u16, u16)>,
    ) -> Result<Self> {
        let socket = Socket::open(address).inspect_err(|reason| {
            let reason = explained(*reason);
            fabric_core::warn_few!("tcp", Subsys::EpCtrl, "cannot listen at {address}: {reason}");
        })?;
        sockopt::set_socket_reuseaddr(&socket.fd, true)?;
        match ports.filter(|_| address.port() == 0) {
            Some(range) => bind_within(&socket, address, range)?,
            None => bind(&socket.fd, &address).inspect_err(|reason| {
                let hint = match *reason {
                    rustix::io::Errno::ACCESS => {
                        "; ports of this range are not this user's (sysctl \
                         net.ipv4.ip_unprivileged_port_start)"
                    }
                    rustix::io::Errno::ADDRNOTAVAIL => "; this host has no such address",
                    _ => "",
                };
                let reason = errno(*reason);
                fabric_core::warn_few!(
                    "tcp",
                    Subsys::EpCtrl,
                    "cannot listen at {address}: {reason}{hint}"
                );
            })?,
        }
        let address = socket.local()?;
        Ok(Self { socket, address, options, spare: Spare::shared() })
    }

    /// Lets peers connect.
    pub(crate) fn listen(&self, backlog: i32) -> Result<()> {
        Ok(listen(&self.socket.fd, backlog)?)
    }

    /// What it has taken.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection; `EAGAIN` if there is none. `EMFILE`: there was one, and no descriptor
    /// for it. It has been turned away, or `ENOBUFS`: not even that could be done.
    pub(crate) fn accept(&self) -> Result<Accepted<Socket>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match Socket::opened(|| accept_with(&self.socket.fd, flags)) {
                Ok(stream) => {
                    self.options.apply(&stream);
                    // A peer that has left meanwhile has no address.
                    let Ok(peer) = rustix::net::getpeername(&stream.fd) else { continue };
                    let Some(Ok(peer)) = peer.map(SocketAddr::try_from) else { continue };
                    return Ok(Accepted { stream, peer });
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                    // That is said whether or not there is a connection.
                    let accept = || accept_with(&self.socket.fd, flags).map(drop);
                    return Err(match self.spare.with_it_free(accept) {
                        Ok(()) => Errno::EMFILE,
                        Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => Errno::ENOBUFS,
                        Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {
                            Errno::EAGAIN
                        }
                        Err(e) => errno(e),
                    });
                }
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
fn bind_within(socket: &Socket, mut address: SocketAddr, (low, high): (u16, u16)) -> Result<()> {
    let count = u32::from(high - low) + 1;
    let mut denied = 0;
    let start = std::process::id().wrapping_mul(0x9e37_79b9) % count;
    for step in 0..count {
        let port = u32::from(low) + (start + step) % count;
        address.set_port(port as u16);
        match bind(&socket.fd, &address) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::ACCESS) => denied += 1,
            Err(rustix::io::Errno::ADDRINUSE) => {}
            Err(e) => return Err(errno(e)),
        }
    }
    let reason = if denied == count { Errno::EACCES } else { Errno::EADDRINUSE };
    fabric_core::warn_few!(
        "tcp",
        Subsys::EpCtrl,
        "{}={low} and {}={high}: of {count} ports {denied} may not be taken by this user (sysctl \
         net.ipv4.ip_unprivileged_port_start), and all others are in use",
        TCP_PORT_LOW.name,
        TCP_PORT_HIGH.name
    );
    Err(reason)
}

/// The sockets of one engine.
#[derive(Debug)]
pub(crate) struct Sockets {
    poller: Poller,
    acceptor: Option<Acceptor>,
    ports: Option<(u16, u16)>,
    options: Options,
}

impl Sockets {
    /// None yet. `ports`: where to listen if the application leaves the choice to us.
    pub(crate) fn new(options: Options, ports: Option<(u16, u16)>) -> Result<Self> {
        Ok(Self { poller: Poller::new()?, acceptor: None, ports, options })
    }
}

impl Net for Sockets {
    type Stream = Socket;
    type Bell = Alarm;

    fn bind(&mut self, address: SocketAddr) -> Result<SocketAddr> {
        if let Some(own) = &self.acceptor
            && own.address() == address
        {
            return Ok(address);
        }
        self.acceptor = None;
        let acceptor = self.acceptor.insert(Acceptor::bind(self.options, address, self.ports)?);
        Ok(acceptor.address())
    }

    fn listen(&mut self, token: u64) -> Result<()> {
        let acceptor = self.acceptor.as_ref().ok_or(Errno::EADDRNOTAVAIL)?;
        acceptor.listen(BACKLOG)?;
        let interest = Interest::READ;
        self.poller.watch(acceptor.as_fd(), token, interest)
    }

    fn accept(&mut self) -> Result<Accepted<Socket>> {
        self.acceptor.as_ref().ok_or(Errno::EAGAIN)?.accept()
    }

    fn watch_listener(&mut self, token: u64, watch: bool) {
        if let Some(acceptor) = &self.acceptor {
            self.poller.change(acceptor.as_fd(), token, Interest { read: watch, ..Interest::NONE });
        }
    }

    fn stop_listening(&mut self) {
        self.acceptor = None;
    }

    fn connect(&mut self, from: Option<SocketAddr>, to: SocketAddr) -> Result<Socket> {
        Socket::connect(self.options, from, to)
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

    fn ready(&mut self, out: &mut Vec<Ready>) -> bool {
        self.poller.ready(out)
    }

    fn ask_for_life(&mut self, stream: &Socket, soon: bool) {
        options::ask_for_life(stream.as_fd(), self.options, soon);
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wait_fd(&self) -> RawFd {
        self.poller.raw()
    }

    fn set_alarm(&mut self, at: Option<Instant>) {
        self.poller.alarm().set(at);
    }

    fn bell(&mut self) -> &mut Alarm {
        self.poller.alarm()
    }
}
