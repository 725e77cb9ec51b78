//! SETUP. The socket between two endpoints: introductions, rings as descriptors, the doorbell, and
//! by its hang-up the news of a peer's end.

use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    sync::OnceLock,
};

use fabric_core::{
    Errno, Result,
    fork::{NotInherited, Owner},
    ring::Geometry,
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    io::Errno as Sys,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix,
        SocketFlags, SocketType, connect, recv, recvmsg, send, sendmsg, shutdown, socket_with,
    },
    process::{Pid, PidfdFlags, getuid, pidfd_open, test_kill_process},
};

use crate::address::ADDRESS_MAX;

const HELLO: u64 = u64::from_ne_bytes(*b"PercaleH");
const RING: u64 = u64::from_ne_bytes(*b"PercaleR");

/// Version of the introduction, the rings and the packets in them. Others are refused.
const VERSION: u32 = 1;

/// Bytes of the longest message.
const MESSAGE_MAX: usize = 64 + ADDRESS_MAX;

/// Who an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Drawn at random when the endpoint was opened: tells a restarted peer from the old one.
    pub id: [u8; 16],
    /// The endpoint sleeps at times and wants its bell rung.
    pub sleeps: bool,
    /// Address and value of a word in its memory, to try out direct copies.
    pub probe: (u64, u64),
    /// Canonical address.
    pub address: Box<[u8]>,
}

/// A ring that has been handed over.
#[derive(Debug)]
pub struct Handed {
    /// The memory.
    pub fd: OwnedFd,
    /// As the peer says, to be checked.
    pub slots: u32,
    /// As the peer says, to be checked.
    pub bytes: usize,
}

/// What a peer says over the socket.
#[derive(Debug)]
pub enum Said {
    /// An introduction.
    Hello(Hello),
    /// A ring that it will produce into.
    Ring(Handed),
    /// Ding.
    Bell,
}

/// One connected socket. It ends for the peer when this is dropped, or with the process: children do
/// not keep it.
#[derive(Debug)]
pub struct Link {
    /// Dropped before the socket.
    _not_inherited: NotInherited,
    socket: OwnedFd,
    owner: Owner,
    pid: i32,
    /// The peer's process, where it can be named: a child that it has made by `clone(2)` may keep its
    /// socket open beyond its end.
    process: OnceLock<OwnedFd>,
}

impl Link {
    /// Connects. `EAGAIN` when the peer's queue of connections is full, `ECONNREFUSED` when nobody
    /// listens, `EACCES` when the listener is another user's.
    pub fn connect(address: &SocketAddrUnix) -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let link = Self::open(|| {
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            connect(&socket, address)?;
            Ok(socket)
        })?;
        let _ = link.find_process();
        // A listener that has ended may have left its socket to a child that will never answer.
        if link.has_exited() { Err(Errno::ECONNREFUSED) } else { Ok(link) }
    }

    /// A link by the connected socket that `open` opens. `EACCES` if the peer is another user's.
    pub(crate) fn open(open: impl FnOnce() -> Result<OwnedFd>) -> Result<Self> {
        let (not_inherited, socket) = NotInherited::open(open)?;
        let peer = credentials(socket.as_fd())?;
        if peer.uid != getuid().as_raw() {
            return Err(Errno::EACCES);
        }
        Ok(Self {
            _not_inherited: not_inherited,
            socket,
            owner: Owner::here(),
            pid: peer.pid,
            process: OnceLock::new(),
        })
    }

    /// Gets hold of the peer's process, so that its end is seen whoever keeps its socket. `ESRCH`: it has
    /// ended, or cannot be named from here or on this kernel. `EMFILE`: there is no descriptor for it
    /// now.
    pub fn find_process(&self) -> Result<()> {
        if self.process.get().is_some() {
            return Ok(());
        }
        let process = match peer_process(self.socket.as_fd()) {
            Err(Sys::NOPROTOOPT) => {
                let pid = Pid::from_raw(self.pid).ok_or(Errno::new(libc::ESRCH))?;
                let found = pidfd_open(pid, PidfdFlags::NONBLOCK);
                // The id is the peer's own as long as it has its end of the socket.
                if self.is_connected() { found } else { Err(Sys::SRCH) }
            }
            found => found,
        };
        match process {
            Ok(process) => {
                let _ = self.process.set(process);
                Ok(())
            }
            Err(Sys::MFILE | Sys::NFILE | Sys::NOMEM) => Err(Errno::EMFILE),
            Err(_) => Err(Errno::new(libc::ESRCH)),
        }
    }

    /// The peer's process id as this process sees it, zero in a PID namespace beside ours.
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Introduces this endpoint. `EAGAIN` when the socket is full, `ECONNRESET` when the peer has
    /// ended.
    pub fn say_hello(&self, hello: &Hello) -> Result<()> {
        let mut message = Vec::with_capacity(MESSAGE_MAX);
        message.extend_from_slice(&HELLO.to_ne_bytes());
        message.extend_from_slice(&VERSION.to_ne_bytes());
        message.extend_from_slice(&u32::from(hello.sleeps).to_ne_bytes());
        message.extend_from_slice(&hello.id);
        message.extend_from_slice(&hello.probe.0.to_ne_bytes());
        message.extend_from_slice(&hello.probe.1.to_ne_bytes());
        message.extend_from_slice(&hello.address);
        said(send(&self.socket, &message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL))
    }

    /// Hands a ring over; errors as with [`Self::say_hello`].
    pub fn give_ring(&self, fd: BorrowedFd<'_>, geometry: Geometry) -> Result<()> {
        let mut message = [0u8; 24];
        message[..8].copy_from_slice(&RING.to_ne_bytes());
        message[8..16].copy_from_slice(&u64::from(geometry.slots()).to_ne_bytes());
        message[16..].copy_from_slice(&(geometry.bytes() as u64).to_ne_bytes());
        let fds = [fd];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(Errno::ENOBUFS);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        said(sendmsg(&self.socket, &[IoSlice::new(&message)], &mut control, flags))
    }

    /// Rings the peer's bell. A full socket has bells enough in it.
    pub fn ring_bell(&self) {
        let _ = send(&self.socket, b"!", SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// The next thing the peer said, `None` if there is nothing now. `ECONNRESET` at its end,
    /// `EPROTO` for anything that this version does not say. `EMFILE`: there is no descriptor for
    /// what it hands over, which is still there to be heard.
    pub fn hear(&self) -> Result<Option<Said>> {
        let mut bytes = [0u8; MESSAGE_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        // Looked at first: a message that is taken without a descriptor free for what comes with it
        // has lost that for ever.
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC | RecvFlags::PEEK;
        let got = beyond_reset(|| {
            recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)
        });
        let got = match got {
            Ok(got) => got,
            Err(Sys::AGAIN | Sys::INTR) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let mut fd = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                fd = fds.last();
            }
        }
        if got.bytes == 0 {
            return Err(Errno::ECONNRESET);
        }
        let lost = got.flags.contains(ReturnFlags::CTRUNC);
        if lost && fd.is_none() && eventfd(0, EventfdFlags::CLOEXEC).is_err() {
            return Err(Errno::EMFILE);
        }
        // The rest of the message goes with its first byte.
        beyond_reset(|| recv(&self.socket, &mut [0u8; 1], RecvFlags::DONTWAIT))?;
        let cut = lost || got.flags.contains(ReturnFlags::TRUNC);
        match parse(&bytes[..got.bytes], fd) {
            Some(said) if !cut => Ok(Some(said)),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Whether the peer still has its end. While it has, its process id is its own.
    pub fn is_alive(&self) -> bool {
        !self.has_exited() && self.is_connected()
    }

    fn is_connected(&self) -> bool {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::empty())];
        matches!(poll(&mut fds, Some(&zero)), Ok(0))
    }

    /// Whether the peer's process is known to have ended, whoever holds its socket.
    pub fn has_exited(&self) -> bool {
        let Some(process) = self.process.get() else {
            let Some(pid) = Pid::from_raw(self.pid) else { return false };
            return test_kill_process(pid) == Err(Sys::SRCH);
        };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
        matches!(poll(&mut fds, Some(&zero)), Ok(1))
    }

    /// A descriptor that turns readable when the peer's process ends.
    pub fn process(&self) -> Option<BorrowedFd<'_>> {
        self.process.get().map(AsFd::as_fd)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Closing alone does not end it as long as a child has the socket; and none of its parent's is a
        // child's to end.
        if self.owner.is_here() {
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Receives, once more after a reset. A peer that closes without having read all that we said resets the
/// socket, which is told before, and only once, what it had said is given out; its end comes behind
/// that in any case.
fn beyond_reset<T>(mut receive: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    match receive() {
        Err(Sys::CONNRESET) => receive(),
        received => received,
    }
}

/// A peer that has ended is one error, whether that shows in hearing or in saying.
fn said(result: rustix::io::Result<usize>) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(Sys::PIPE) => Err(Errno::ECONNRESET),
        Err(reason) => Err(reason.into()),
    }
}

/// Who is at the other end, as the kernel noted it. The process id is zero where ours cannot name
/// the process, which safe wrappers do not expect.
fn credentials(socket: BorrowedFd<'_>) -> Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `peer`, whose size that is.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    };
    match got {
        0 => Ok(peer),
        _ => Err(Errno::new(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))),
    }
}

/// The process at the other end, whatever its id is or means here. `NOPROTOOPT` before Linux 6.5.
fn peer_process(socket: BorrowedFd<'_>) -> Result<OwnedFd, Sys> {
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut fd: RawFd = -1;
    let mut len = size_of::<RawFd>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `fd`, whose size that is.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut len,
        )
    };
    if got != 0 {
        let reason = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
        return Err(Sys::from_raw_os_error(reason));
    }
    // SAFETY: the kernel has opened it for this call.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn parse(bytes: &[u8], fd: Option<OwnedFd>) -> Option<Said> {
    if let ([_], None) = (bytes, &fd) {
        return Some(Said::Bell);
    }
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    match (word(0)?, fd) {
        (HELLO, None) => {
            let version = u32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?);
            let sleeps = u32::from_ne_bytes(bytes.get(12..16)?.try_into().ok()?);
            if version != VERSION || sleeps > 1 {
                return None;
            }
            let address = bytes.get(48..)?;
            let canonical = crate::address::canonical(address).ok()?;
            (*canonical == *address).then_some(Said::Hello(Hello {
                id: bytes.get(16..32)?.try_into().ok()?,
                sleeps: sleeps == 1,
                probe: (word(32)?, word(40)?),
                address: canonical,
            }))
        }
        (RING, Some(fd)) if bytes.len() == 24 => {
            let (slots, bytes) = (word(8)?, word(16)?);
            Some(Said::Ring(Handed {
                fd,
                slots: u32::try_from(slots).ok()?,
                bytes: usize::try_from(bytes).ok()?,
            }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        address::{socket_address, unique},
        listener::Listener,
        segment::{Segment, cold},
    };

    /// A link to a listener that has not accepted it, and what is said over it.
    fn connected() -> (Listener, Link, Hello) {
        let name = unique().unwrap();
        let address = socket_address(&name).unwrap();
        let listener = Listener::open(&address).unwrap();
        let ours = Link::connect(&address).unwrap();
        (listener, ours, Hello { id: [7; 16], sleeps: true, probe: (1, 2), address: name })
    }

    fn introduce(link: &Link, hello: &Hello) -> Result<()> {
        link.say_hello(hello)?;
        give_ring(link)
    }

    fn give_ring(link: &Link) -> Result<()> {
        let (segment, fd) = Segment::create(cold().unwrap()).unwrap();
        link.give_ring(fd.as_fd(), segment.geometry())
    }

    #[test]
    fn introductions_and_rings_cross_without_an_accept() {
        let (listener, ours, hello) = connected();
        introduce(&ours, &hello).unwrap();
        ours.ring_bell();

        let theirs = listener.accept().unwrap().unwrap();
        assert!(matches!(theirs.hear(), Ok(Some(Said::Hello(said))) if said == hello));
        assert!(matches!(
            theirs.hear(),
            Ok(Some(Said::Ring(Handed { slots: 16, bytes: 4096, .. })))
        ));
        assert!(matches!(theirs.hear(), Ok(Some(Said::Bell))));
        assert!(matches!(theirs.hear(), Ok(None)));
        assert!(theirs.is_alive());
        drop(ours);
        assert!(!theirs.is_alive());
        assert_eq!(theirs.hear().unwrap_err(), Errno::ECONNRESET);
    }

    #[test]
    fn what_was_said_is_heard_though_our_own_words_were_not() {
        let (listener, ours, hello) = connected();
        introduce(&ours, &hello).unwrap();
        let theirs = listener.accept().unwrap().unwrap();
        theirs.say_hello(&hello).unwrap();
        drop(ours);
        assert!(matches!(theirs.hear(), Ok(Some(Said::Hello(said))) if said == hello));
        assert!(matches!(theirs.hear(), Ok(Some(Said::Ring(_)))));
        assert_eq!(theirs.hear().unwrap_err(), Errno::ECONNRESET);
    }

    #[test]
    fn nothing_is_said_to_a_peer_that_has_ended() {
        let (listener, ours, hello) = connected();
        drop(listener.accept().unwrap().unwrap());
        assert_eq!(ours.say_hello(&hello).unwrap_err(), Errno::ECONNRESET);
        assert_eq!(give_ring(&ours).unwrap_err(), Errno::ECONNRESET);
    }

    #[test]
    fn a_link_ends_for_the_peer_whoever_keeps_the_socket() {
        let (listener, ours, hello) = connected();
        introduce(&ours, &hello).unwrap();
        let theirs = listener.accept().unwrap().unwrap();
        let kept = rustix::io::dup(&ours).unwrap();
        assert!(theirs.is_alive());
        drop(ours);
        assert!(!theirs.is_alive());
        assert!(matches!(theirs.hear(), Ok(Some(Said::Hello(said))) if said == hello));
        assert!(matches!(theirs.hear(), Ok(Some(Said::Ring(_)))));
        assert_eq!(theirs.hear().unwrap_err(), Errno::ECONNRESET);
        drop(kept);
    }

    #[test]
    fn garbage_is_no_message() {
        assert!(parse(b"GET / HTTP/1.0", None).is_none());
        assert!(parse(&[0; 48], None).is_none());
        assert!(parse(&HELLO.to_ne_bytes(), None).is_none());
        assert!(parse(&RING.to_ne_bytes(), None).is_none());
    }

    #[test]
    fn nobody_listens() {
        let address = socket_address(&unique().unwrap()).unwrap();
        assert_eq!(Link::connect(&address).unwrap_err(), Errno::ECONNREFUSED);
    }
}
