//! SETUP. The socket that peers connect to.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fabric_core::{Errno, Result, fork::NotInherited};
use rustix::{
    io::Errno as Sys,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen,
        socket_with,
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
}

impl Listener {
    /// Listens. `EADDRINUSE` if another endpoint of this user has the address.
    pub fn open(address: &SocketAddrUnix) -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, address)?;
        listen(&socket, BACKLOG)?;
        Ok(Self { _not_inherited: NotInherited::new(socket.as_fd()), socket })
    }

    /// Takes one waiting connection. `EACCES`: it was another user's and is closed. `EMFILE`:
    /// there is no descriptor for one, and if one waits, it still does.
    pub fn accept(&self) -> Result<Option<Link>> {
        match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Link::new(socket).map(Some),
            Err(Sys::AGAIN | Sys::INTR | Sys::CONNABORTED) => Ok(None),
            Err(Sys::MFILE | Sys::NFILE) => Err(Errno::EMFILE),
            Err(reason) => Err(reason.into()),
        }
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
}
