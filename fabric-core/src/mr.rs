//! HOT. Memory regions of a domain: registration, and the target's answer to a key.
//!
//! A peer names memory by key, address and length. [`MrTable::resolve`] turns that into pieces of
//! local memory or refuses, and nothing is touched before it has said yes:
//!
//! | a peer's request                                               | answer   |
//! |----------------------------------------------------------------|----------|
//! | key never given out, closed, or of a region not yet enabled     | `ENOKEY` |
//! | region lacks the `REMOTE_READ` or `REMOTE_WRITE` that is needed | `EACCES` |
//! | any byte outside the region, or an address that wraps           | `EINVAL` |
//! | no byte at all, at any address                                  | no piece |
//! | the region is the whole address space, and a page is not mapped or not writable | `EFAULT` |
//!
//! | registration                                                    | answer         |
//! |-----------------------------------------------------------------|----------------|
//! | no piece, more than the table's limit, a piece that wraps, an offset, unknown access bits | `EINVAL` |
//! | bytes at null, other than the whole address space                | `EINVAL`       |
//! | unknown flags                                                   | `EBADFLAGS`    |
//! | requested key in use                                            | `ENOKEY`       |
//! | requested key is all ones, which means "no key"                 | `EKEYREJECTED` |
//!
//! The table is one hash map behind a reader-writer lock, held for one look-up. A lock, although
//! this is a hot path: every thread of the process may register and close while others serve
//! peers, and one uncontended atomic is small against the copy that follows. The hash is a
//! multiplication, because peers look keys up but cannot insert any.

mod probe;
mod region;
mod registrar;
mod words;

use core::{
    fmt,
    hash::{BuildHasherDefault, Hasher},
};
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use crate::{
    Errno, Result,
    flags::{Flags, MrMode},
    op::IoVec,
};
pub use region::{Pieces, Region, RemoteWriteEvent, Resolved};
pub use registrar::{Registered, Registrar};
pub use words::words;

/// Pieces of memory in one region (`mr_iov_limit`).
pub const IOV_LIMIT: usize = 4;

/// The key of a region that has none (`FI_KEY_NOTAVAIL`).
pub const KEY_NOTAVAIL: u64 = u64::MAX;

/// Bytes of a key in raw form, and of the keys themselves (`mr_key_size`), where no device has others.
pub const KEY_SIZE: usize = 8;

/// Operations that a region may be registered for.
const ACCESS: Flags = Flags::SEND
    .union(Flags::RECV)
    .union(Flags::READ)
    .union(Flags::WRITE)
    .union(Flags::REMOTE_READ)
    .union(Flags::REMOTE_WRITE)
    .union(Flags::COLLECTIVE);

/// A wish to register memory (`fi_mr_attr`).
#[derive(Clone, Copy, Debug)]
pub struct MrRequest<'a> {
    /// The memory, 1 to [`IOV_LIMIT`] pieces. Base null with all ones as length is everything.
    pub iov: &'a [IoVec],
    /// What the region is used for.
    pub access: Flags,
    /// The application's key; ignored where the provider chooses.
    pub requested_key: u64,
    /// Reserved, zero.
    pub offset: u64,
    /// `RMA_EVENT` and `RMA_PMEM`; others are refused.
    pub flags: Flags,
    /// The application's context.
    pub context: usize,
}

/// The regions of one domain.
pub struct MrTable {
    mode: MrMode,
    /// Most pieces in one region.
    limit: usize,
    regions: RwLock<Regions>,
    /// A device that has to know the regions, and names them.
    device: Option<Arc<dyn Registrar>>,
    /// Places of a device's regions by their keys, of those that peers can reach.
    named: RwLock<HashMap<u64, u64, BuildHasherDefault<KeyHasher>>>,
}

type Regions = HashMap<u64, Arc<Region>, BuildHasherDefault<KeyHasher>>;

impl MrTable {
    /// An empty table. The legacy modes are taken for what they stand for: `BASIC` for virtual
    /// addresses and provider keys, `SCALABLE` for neither.
    pub fn new(mode: MrMode) -> Self {
        let mode = if mode.contains(MrMode::BASIC) {
            mode | MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY
        } else {
            mode
        };
        Self {
            mode,
            limit: IOV_LIMIT,
            regions: RwLock::default(),
            device: None,
            named: RwLock::default(),
        }
    }

    /// The same with regions of at most `limit` pieces; zero leaves [`IOV_LIMIT`].
    #[must_use]
    pub fn limited_to(self, limit: usize) -> Self {
        let limit = if limit == 0 { IOV_LIMIT } else { limit.min(IOV_LIMIT) };
        Self { limit, ..self }
    }

    /// The same with regions of a device, which serves peers by itself.
    #[must_use]
    pub fn on(self, device: Arc<dyn Registrar>) -> Self {
        Self { device: Some(device), ..self }
    }

    /// Registers memory. The region ends with [`MrTable::close`], not with the last `Arc`.
    ///
    /// With `PROV_KEY` the key is 64 random bits of the operating system, so that a peer reaches
    /// only what it was told about; else it is the requested one. A region waits for
    /// [`Region::enable`] if the domain's mode has `ENDPOINT`, or `RMA_EVENT` and so has `flags`.
    /// A device chooses the keys of its own regions, and has reasons of its own to refuse.
    pub fn register(&self, request: &MrRequest<'_>) -> Result<Arc<Region>> {
        if request.offset != 0 || !ACCESS.contains(request.access) || request.iov.len() > self.limit
        {
            return Err(Errno::EINVAL);
        }
        if !(Flags::RMA_EVENT | Flags::RMA_PMEM).contains(request.flags) {
            return Err(Errno::EBADFLAGS);
        }
        let pieces = Pieces::of_region(request.iov)?;
        if let Some(device) = &self.device {
            // The system call is made without the lock.
            let registered = device.register(request)?;
            let key = registered.key;
            let region = Arc::new(Region::new(self.mode, key, pieces, request).on(registered));
            self.write().insert(region.place, region.clone());
            if request.access.intersects(Flags::REMOTE_READ | Flags::REMOTE_WRITE) {
                let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
                named.insert(key, region.place);
            }
            return Ok(region);
        }

        let mut regions = self.write();
        let mut key = request.requested_key;
        if self.mode.contains(MrMode::PROV_KEY) {
            key = random_key()?;
            while key == KEY_NOTAVAIL || regions.contains_key(&key) {
                key = random_key()?;
            }
        }
        if key == KEY_NOTAVAIL {
            return Err(Errno::EKEYREJECTED);
        }
        match regions.entry(key) {
            Entry::Occupied(_) => Err(Errno::ENOKEY),
            Entry::Vacant(place) => {
                let region = Arc::new(Region::new(self.mode, key, pieces, request));
                Ok(place.insert(region).clone())
            }
        }
    }

    /// Ends a region: its key is free again and no later request finds it. Accesses already
    /// resolved are not waited for. `EINVAL` if it is not, or no longer, in this table.
    pub fn close(&self, region: &Region) -> Result<()> {
        let mut regions = self.write();
        match regions.entry(region.place) {
            Entry::Occupied(place) if core::ptr::eq(&raw const **place.get(), region) => {
                place.remove().end();
                if self.device.is_some() {
                    let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
                    // The device may have given the key to another one already.
                    if named.get(&region.key()) == Some(&region.place) {
                        named.remove(&region.key());
                    }
                }
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Finds the memory that a peer names, for operations that need `need` (`REMOTE_READ`,
    /// `REMOTE_WRITE` or both). Answers as in the module's table.
    pub fn resolve(&self, key: u64, addr: u64, len: u64, need: Flags) -> Result<Resolved> {
        let place = match &self.device {
            Some(_) => {
                let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
                *named.get(&key).ok_or(Errno::ENOKEY)?
            }
            None => key,
        };
        self.read().get(&place).ok_or(Errno::ENOKEY)?.resolve(addr, len, need)
    }

    /// Bytes of a key in raw form.
    pub fn key_size(&self) -> usize {
        self.device.as_ref().map_or(KEY_SIZE, |device| device.key_size().clamp(1, KEY_SIZE))
    }

    /// The key in raw bytes (`fi_mr_map_raw`); `EINVAL` unless there are [`MrTable::key_size`].
    pub fn key_from_raw(&self, raw: &[u8]) -> Result<u64> {
        let mut key = [0; KEY_SIZE];
        if raw.len() != self.key_size() {
            return Err(Errno::EINVAL);
        }
        key[..raw.len()].copy_from_slice(raw);
        Ok(u64::from_le_bytes(key))
    }

    /// Regions present; a domain with any is busy.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// No region present.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    // A panic cannot leave the map half changed, so a poisoned lock is as good as any.
    fn read(&self) -> RwLockReadGuard<'_, Regions> {
        self.regions.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Regions> {
        self.regions.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MrTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MrTable").field("mode", &self.mode).field("len", &self.len()).finish()
    }
}

/// A key as the bytes that applications exchange with `FI_MR_RAW`: least significant first on
/// every host.
pub const fn raw_key(key: u64) -> [u8; KEY_SIZE] {
    key.to_le_bytes()
}

fn random_key() -> Result<u64> {
    use rustix::{
        io::Errno as Os,
        rand::{GetRandomFlags, getrandom},
    };
    let mut bytes = [0; KEY_SIZE];
    loop {
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(KEY_SIZE) => return Ok(u64::from_ne_bytes(bytes)),
            Ok(_) | Err(Os::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Spreads keys that applications number from zero, or align, over the whole word.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }
    fn write_u64(&mut self, key: u64) {
        let product = (self.0 ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests;
