//! SETUP. Memory that peers may read and write.

mod part;
mod view;

use core::{fmt, marker::PhantomData};
use std::sync::Arc;

use fabric_core::{
    Errno,
    flags::{Flags, MrMode},
    mr::{MrRequest, Region as Core},
    op::RmaIov,
};

pub use self::{part::Part, view::View};
use crate::{
    dispatch::{Any, Provider, Threads},
    domain::{Domain, DomainInner},
    error::{Error, Result},
    memory::Memory,
    trace::span,
};

/// What peers may do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read it.
    Read,
    /// Write it, and apply atomic operations that fetch nothing.
    Write,
    /// Both, and every atomic operation.
    ReadWrite,
}

impl Access {
    const fn flags(self) -> Flags {
        match self {
            Self::Read => Flags::REMOTE_READ,
            Self::Write => Flags::REMOTE_WRITE,
            Self::ReadWrite => Flags::REMOTE_READ.union(Flags::REMOTE_WRITE),
        }
    }
}

/// Memory that peers reach without asking: bytes of zero at first, aligned to a page.
///
/// Peers change it at any time, so there is no slice of it: [`Region::view`] reads and writes it as
/// memory that others write, too. Dropping the region ends peers' access to it; its memory lasts as
/// long as a view.
///
/// ```
/// use percale::{Access, Fabric};
///
/// # fn main() -> percale::Result<()> {
/// let domain = Fabric::loopback()?.domain()?;
/// let (server, client) = (domain.endpoint()?, domain.endpoint()?);
/// let region = domain.region(4096, Access::ReadWrite)?;
/// region.view().write(100, b"shared");
///
/// // The other process gets this as 24 bytes.
/// let remote = region.remote();
/// let peer = domain.peer(&server.address()?)?;
/// let read = client.read(peer, remote.slice(100, 6).expect("inside"), Vec::<u8>::with_capacity(6));
/// assert_eq!(read.wait()?, b"shared");
/// # Ok(())
/// # }
/// ```
pub struct Region<P: Provider = Any> {
    memory: Arc<Memory>,
    core: Arc<Core>,
    domain: Arc<DomainInner<P>>,
    marker: PhantomData<<P::Threads as Threads>::Marker>,
}

impl<P: Provider> fmt::Debug for Region<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("len", &self.memory.len()).finish_non_exhaustive()
    }
}

impl<P: Provider> Domain<P> {
    /// Memory of so many bytes that peers may reach ([`Hints::rma`](crate::Hints::rma),
    /// [`Hints::atomics`](crate::Hints::atomics)).
    pub fn region(&self, len: usize, access: Access) -> Result<Region<P>> {
        span!("register", len = len);
        let refused = |errno| Error::Refused { call: "register memory", errno };
        let domain = self.inner();
        let memory = domain.pool().memory(len).map_err(refused)?;
        let iov = [memory.iov()];
        let request = MrRequest {
            iov: &iov,
            access: access.flags(),
            requested_key: unguessable().map_err(refused)?,
            offset: 0,
            flags: Flags::empty(),
            context: 0,
        };
        let core = domain.core.regions().register(&request).map_err(refused)?;
        Ok(Region { memory: Arc::new(memory), core, domain: domain.clone(), marker: PhantomData })
    }
}

impl<P: Provider> Region<P> {
    /// Its memory, to read and write.
    pub fn view(&self) -> View {
        View::new(self.memory.clone())
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What peers name it by.
    pub fn remote(&self) -> Remote {
        let mode = self.domain.core.attr().mr_mode;
        let virtual_addresses = mode.intersects(MrMode::VIRT_ADDR | MrMode::BASIC);
        let base = if virtual_addresses { self.memory.iov().base as u64 } else { 0 };
        Remote { base, key: self.core.key(), len: self.memory.len() as u64 }
    }

    /// A part of the memory as the buffer of an operation, so that nothing need be copied.
    ///
    /// Nobody keeps the program from writing to it meanwhile, nor peers: what is sent are the bytes as
    /// they are when they leave. `None` if it is not inside.
    pub fn part(&self, at: usize, len: usize) -> Option<Part> {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.memory.len());
        inside.then(|| Part::new(self.memory.clone(), at, len))
    }
}

/// A key, where keys are ours to choose: peers reach what they were told about, and nothing by trying.
fn unguessable() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    // All ones is no key.
    Ok(u64::from_ne_bytes(bytes) >> 1)
}

impl<P: Provider> Drop for Region<P> {
    fn drop(&mut self) {
        // Fails for a region that has been closed, which only happens here.
        let _ = self.domain.core.regions().close(&self.core);
        // Who was answering a peer asks before each piece whether the region is open; from here on
        // nobody is inside a piece. The memory may go now.
        self.domain.quiesce();
    }
}

/// Memory of a peer, as an operation names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Remote {
    base: u64,
    key: u64,
    len: u64,
}

impl Remote {
    /// Bytes of its form for sending.
    pub const BYTES: usize = 24;

    /// Its form for sending.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip([self.base, self.key, self.len]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From [`Remote::to_bytes`]. Any bytes are accepted; the peer checks what is asked of it.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        Self { base: word(0), key: word(8), len: word(16) }
    }

    /// Bytes of it.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of it; `None` if that is not inside.
    pub fn slice(&self, at: usize, len: usize) -> Option<Self> {
        let end = at.checked_add(len)?;
        let base = self.base.checked_add(at as u64)?;
        (end as u64 <= self.len).then_some(Self { base, key: self.key, len: len as u64 })
    }

    pub(crate) const fn iov(&self) -> RmaIov {
        RmaIov { addr: self.base, len: self.len(), key: self.key }
    }
}
