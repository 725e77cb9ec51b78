//! SETUP. The socket that peers connect to.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fabric_core::{
    Errno, Result,
    fork::{NotInherited, Owner},
};
use rustix::{
    io::Errno as Sys,
    net::{
        AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
        listen, shutdown, socket_with,
    },
};

use crate::link::Link;

/// Connections that may wait to be accepted; the kernel lowers it to its own limit.
const BACKLOG: i32 = 4096;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    /// Dropped before the socket.
    _not_inherited: NotInherited,
    socket: OwnedFd,
    owner: Owner,
}

impl Listener {
    /// Listens. `EADDRINUSE` if another endpoint of this user has the address.
    pub fn open(address: &SocketAddrUnix) -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (not_inherited, socket) = NotInherited::open(|| {
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            bind(&socket, address)?;
            listen(&socket, BACKLOG)?;
            Ok::<_, Errno>(socket)
        })?;
        Ok(Self { _not_inherited: not_inherited, socket, owner: Owner::here() })
    }

    /// Takes one waiting connection. `EACCES`: it was another user's and is closed. `EMFILE`:
    /// there is no descriptor for one, and if one waits, it still does.
    pub fn accept(&self) -> Result<Option<Link>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accepted = || match accept_with(&self.socket, flags) {
            Err(Sys::NFILE) => Err(Errno::EMFILE),
            other => other.map_err(Errno::from),
        };
        match Link::open(accepted) {
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => Ok(None),
            other => other.map(Some),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            return;
        }
        // Nobody is to connect to what a child keeps of it, nor to wait there for ever.
        let _ = shutdown(&self.socket, Shutdown::Both);
        while let Ok(Some(_)) | Err(Errno::EACCES) = self.accept() {}
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{socket_address, unique};

    #[test]
    fn an_address_is_taken_once() {
        let address = socket_address(&unique().unwrap()).unwrap();
        let listener = Listener::open(&address).unwrap();
        assert_eq!(Listener::open(&address).unwrap_err(), Errno::EADDRINUSE);
        drop(listener);
        assert!(Listener::open(&address).is_ok());
    }

    #[test]
    fn nobody_connects_to_what_is_left_of_one() {
        let address = socket_address(&unique().unwrap()).unwrap();
        let listener = Listener::open(&address).unwrap();
        let waiting = [Link::connect(&address).unwrap(), Link::connect(&address).unwrap()];
        let kept = rustix::io::dup(&listener).unwrap();
        assert!(waiting.iter().all(Link::is_alive));
        drop(listener);
        assert!(!waiting.iter().any(Link::is_alive), "they were not accepted");
        assert_eq!(Link::connect(&address).unwrap_err(), Errno::ECONNREFUSED);
        drop(kept);
    }
}
