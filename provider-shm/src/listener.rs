//! SETUP. The socket that peers connect to.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fabric_core::Result;
use rustix::{
    event::{EventfdFlags, eventfd},
    io::Errno as Sys,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen,
        socket_with,
    },
};

use crate::{fork::NotInherited, link::Link};

/// Connections that may wait to be accepted; the kernel lowers it to its own limit.
const BACKLOG: i32 = 4096;

/// A listening socket, and a descriptor in reserve.
#[derive(Debug)]
pub struct Listener {
    /// Dropped before the socket.
    _not_inherited: NotInherited,
    socket: OwnedFd,
    /// Given up for a moment when the process has no descriptor left: a connection that nobody can
    /// accept would keep the socket readable and its watcher awake for ever.
    spare: Option<OwnedFd>,
}

impl Listener {
    /// Listens. `EADDRINUSE` if another endpoint of this user has the address.
    pub fn open(address: &SocketAddrUnix) -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, address)?;
        listen(&socket, BACKLOG)?;
        Ok(Self { _not_inherited: NotInherited::new(socket.as_fd()), socket, spare: spare() })
    }

    /// Takes one waiting connection. `EACCES`: it was another user's and is closed. `EMFILE`,
    /// `ENFILE`: it is closed because there is no descriptor for it.
    pub fn accept(&mut self) -> Result<Option<Link>> {
        match self.take() {
            Ok(socket) => Link::new(socket).map(Some),
            Err(Sys::AGAIN | Sys::INTR | Sys::CONNABORTED) => Ok(None),
            Err(reason @ (Sys::MFILE | Sys::NFILE)) => {
                // The kernel looks for a descriptor before it looks for a connection.
                self.spare = None;
                let waited = self.take().is_ok();
                self.spare = spare();
                if waited { Err(reason.into()) } else { Ok(None) }
            }
            Err(reason) => Err(reason.into()),
        }
    }

    fn take(&self) -> rustix::io::Result<OwnedFd> {
        accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
    }
}

fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use fabric_core::Errno;

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
