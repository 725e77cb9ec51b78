//! HOT. Reads and writes of peers' memory.

use fabric_core::Errno;

use super::{Endpoint, Outgoing};
use crate::{
    address::Peer,
    buf::{Buf, BufMut},
    dispatch::Provider,
    op::{Op, Parked, Reading, Request, Sending},
    region::Remote,
};

impl<P: Provider> Endpoint<P> {
    /// Writes a buffer to the start of a peer's memory, which has to have room for all of it.
    pub fn write<B: Buf>(&self, peer: Peer, remote: Remote, buffer: B) -> Op<P, Sending<B>> {
        self.to(peer).write(remote, buffer)
    }

    /// Reads a peer's memory, all of it: the buffer has to have room.
    pub fn read<B: BufMut>(&self, peer: Peer, remote: Remote, buffer: B) -> Op<P, Reading<B>> {
        self.to(peer).read(remote, buffer)
    }
}

impl<P: Provider> Outgoing<'_, P> {
    /// Writes a buffer to the start of the peer's memory, which has to have room for all of it.
    pub fn write<B: Buf>(self, remote: Remote, buffer: B) -> Op<P, Sending<B>> {
        let mut buffer = Parked::new(buffer);
        let len = buffer.get_mut().piece().len();
        let request = self.fitting(len, remote.len()).map(|peer| {
            let remote = fabric_core::op::RmaIov { len, ..remote.iov() };
            Request::write(peer, buffer.get_mut(), remote)
        });
        self.start(request, Sending(buffer))
    }

    /// Reads the peer's memory, all of it: the buffer has to have room.
    pub fn read<B: BufMut>(self, remote: Remote, buffer: B) -> Op<P, Reading<B>> {
        let mut buffer = Parked::new(buffer);
        let (len, room) = (remote.len(), buffer.get_mut().piece_mut().len());
        let request =
            self.fitting(len, room).map(|peer| Request::read(peer, buffer.get_mut(), remote.iov()));
        self.start(request, Reading { buffer, len })
    }

    /// What the provider calls the peer, if so many bytes fit.
    fn fitting(&self, len: usize, room: usize) -> Result<u64, Errno> {
        if len > room { Err(Errno::ETOOSMALL) } else { self.index() }
    }
}
