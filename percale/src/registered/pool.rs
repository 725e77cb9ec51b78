//! PENDING. Places of memory that are registered once and used many times.

use core::fmt;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

use fabric_core::{
    Errno,
    attr::{Info, protocol},
    flags::{Flags, MrMode},
    mr::MrTable,
    op::IoVec,
};

use super::{Mark, Registration};
use crate::memory::Memory;

/// Bytes of the places of each class.
const PLACES: [usize; 3] = [1 << 10, 8 << 10, 64 << 10];
/// Bytes of the largest place. What is longer is cheaper to register than to copy.
pub(crate) const PLACE_MOST: usize = PLACES[PLACES.len() - 1];
/// Bytes that are registered at once and cut into places.
const CHUNK: usize = 256 << 10;
/// Bytes of a domain's pool at most; operations beyond it are registered one by one.
const POOL_MOST: usize = 64 << 20;

/// The places of one domain. It is a handle.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Shared>);

struct Shared {
    /// Unlike that of any other pool of this process.
    id: u32,
    /// Where memory is to be registered, if it has to be, and for what.
    registers: Option<(Arc<MrTable>, Flags)>,
    free: [Mutex<Vec<Spot>>; PLACES.len()],
    bytes: AtomicUsize,
}

/// A piece of a chunk.
struct Spot {
    memory: Arc<Memory>,
    at: usize,
}

static POOLS: AtomicU32 = AtomicU32::new(1);

impl Pool {
    /// The pool of a domain with these regions, opened for an offer.
    pub(crate) fn new(table: &Arc<MrTable>, info: &Info) -> Self {
        let mode = info.domain.as_ref().map_or(MrMode::empty(), |domain| domain.mr_mode);
        let iwarp = info.ep.as_ref().is_some_and(|ep| ep.protocol == protocol::IWARP);
        let mut access = Flags::SEND | Flags::RECV | Flags::WRITE;
        // What an iWARP device reads into, the peer writes, and could do so at any time.
        access.set(Flags::READ, !iwarp);
        Self(Arc::new(Shared {
            id: POOLS.fetch_add(1, Ordering::Relaxed),
            registers: mode.contains(MrMode::LOCAL).then(|| (table.clone(), access)),
            free: Default::default(),
            bytes: AtomicUsize::new(0),
        }))
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id
    }

    /// What its memory is registered for; `None` where nothing has to be.
    #[inline]
    pub(super) fn access(&self) -> Option<Flags> {
        self.0.registers.as_ref().map(|(_, access)| *access)
    }

    /// Registers memory for one operation.
    #[cold]
    pub(super) fn register(&self, memory: IoVec, access: Flags) -> Result<Registration, Errno> {
        let (table, _) = self.0.registers.as_ref().ok_or(Errno::ENOSYS)?;
        Registration::new(table, memory, access)
    }

    /// Memory of its own, which is known where it has to be.
    pub(crate) fn memory(&self, len: usize) -> Result<Memory, Errno> {
        let memory = Memory::new(len).ok_or(Errno::ENOMEM)?;
        match &self.0.registers {
            Some((table, access)) if len != 0 => {
                let registration = Registration::new(table, memory.iov(), *access)?;
                Ok(memory.known(Mark::new(self.0.id, registration.descriptor()), registration))
            }
            _ => Ok(memory),
        }
    }

    /// A place of at least so many bytes; `None` if there is none, and none can be made.
    pub(super) fn place(&self, len: usize) -> Result<Option<Place>, Errno> {
        let Some(class) = PLACES.iter().position(|size| len <= *size) else { return Ok(None) };
        let mut free = self.free(class);
        if free.is_empty() {
            // Relaxed: a bound, and nobody's order.
            let before = self.0.bytes.fetch_add(CHUNK, Ordering::Relaxed);
            if before + CHUNK > POOL_MOST {
                self.0.bytes.fetch_sub(CHUNK, Ordering::Relaxed);
                return Ok(None);
            }
            let memory = self.memory(CHUNK).inspect_err(|_| {
                self.0.bytes.fetch_sub(CHUNK, Ordering::Relaxed);
            })?;
            let memory = Arc::new(memory);
            let spots = (0..CHUNK).step_by(PLACES[class]);
            free.extend(spots.map(|at| Spot { memory: memory.clone(), at }));
        }
        let spot = free.pop();
        drop(free);
        Ok(spot.map(|Spot { memory, at }| Place { memory, at, class, pool: self.clone() }))
    }

    // A panic cannot leave a list half changed, so a poisoned lock is as good as any.
    fn free(&self, class: usize) -> MutexGuard<'_, Vec<Spot>> {
        self.0.free[class].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("id", &self.0.id).finish_non_exhaustive()
    }
}

/// A place of a pool, to which it returns.
pub(crate) struct Place {
    memory: Arc<Memory>,
    at: usize,
    class: usize,
    pool: Pool,
}

impl Place {
    pub(super) fn base(&self) -> *mut u8 {
        self.memory.at(self.at)
    }

    /// Bytes.
    pub(super) const fn len(&self) -> usize {
        PLACES[self.class]
    }

    pub(super) fn mark(&self) -> Mark {
        self.memory.mark()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let spot = Spot { memory: self.memory.clone(), at: self.at };
        self.pool.free(self.class).push(spot);
    }
}
