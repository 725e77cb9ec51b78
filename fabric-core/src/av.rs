//! SETUP. Address vectors: peers by number (`fi_av(3)`).
//!
//! # Indices
//!
//! A handle is the lowest free index, for both `FI_AV_TABLE` and the deprecated `FI_AV_MAP`, so
//! that an application that inserts *n* peers into a fresh table may compute their handles.
//!
//! # Duplicates
//!
//! Addresses are compared in the canonical form that their format defines, so padding and spelling
//! do not matter. Inserting an address that is present returns the index that it has and counts
//! the reference; the entry goes when every insertion has been removed. A peer is therefore known
//! under one handle only, and removing one duplicate does not disturb the other.
//!
//! # Caching
//!
//! Endpoints keep what they know of a peer by handle and must notice when an index changes hands.
//! [`Av::generation`] moves with every change of the vector; each entry has an identity that no
//! other entry of the vector ever had. An endpoint compares the generation (one atomic load) with
//! the one that its knowledge comes from. If it differs, [`Av::resolve`] tells whether the entry
//! is still the same one, and as of which generation.

mod format;
mod routes;
mod symmetric;
mod table;

use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::{
    Errno, Result,
    attr::{AvType, addr_format},
    flags::Flags,
    log::Subsys,
    op::ADDR_UNSPEC,
};
pub use format::{AddressFormat, FamilyLen};
pub use routes::{Routes, Sender};
pub use symmetric::symmetric_names;
use table::{Change, Table};

/// `FI_SYMMETRIC`, a hint that every process inserts the same addresses; of no effect here.
const SYMMETRIC: Flags = Flags::from_bits_retain(1 << 59);

/// An address vector, shared by the endpoints bound to it.
pub struct Av {
    format: &'static dyn AddressFormat,
    flags: Flags,
    generation: AtomicU64,
    table: RwLock<Table>,
}

/// One entry as of one generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The canonical address.
    pub address: Arc<[u8]>,
    /// Identity of the entry: differs if the index was removed and given away again.
    pub entry: u64,
    /// The generation that this is true for.
    pub generation: u64,
}

impl Av {
    /// Opens a vector of addresses in one format. `count` is a hint.
    ///
    /// `EBADFLAGS` for flags other than `AV_USER_ID`, `FI_EVENT` (insertions are done when they
    /// return, reporting them as events is the caller's), `READ` and `FI_SYMMETRIC`.
    pub fn open(
        _kind: AvType,
        count: usize,
        flags: Flags,
        format: &'static dyn AddressFormat,
    ) -> Result<Arc<Self>> {
        let known = Flags::AV_USER_ID | Flags::COMPLETION | Flags::READ | SYMMETRIC;
        if !known.contains(flags) {
            return Err(Errno::EBADFLAGS);
        }
        Ok(Arc::new(Self {
            format,
            flags,
            generation: AtomicU64::new(1),
            table: RwLock::new(Table::new(count)?),
        }))
    }

    /// The kind that every vector has, whatever was asked for.
    pub const fn kind(&self) -> AvType {
        AvType::Table
    }

    /// Flags given at open.
    pub const fn flags(&self) -> Flags {
        self.flags
    }

    /// The format of the addresses.
    pub const fn format(&self) -> &'static dyn AddressFormat {
        self.format
    }

    /// Inserts one address, canonical or not, and returns its handle.
    ///
    /// `user_id` is the number that completions will report instead of the handle, the latest one
    /// for duplicates; `EINVAL` with it if the vector itself was opened with `AV_USER_ID`. An
    /// address that its format does not accept is an error of the format, normally `EINVAL`.
    pub fn insert(&self, address: &[u8], user_id: Option<u64>) -> Result<u64> {
        if user_id.is_some() && self.has_user_ids() {
            return Err(Errno::EINVAL);
        }
        let (canonical, _) = self.format.parse(address).inspect_err(|_| self.refuse(address))?;
        self.change(|table, generation| table.insert(&canonical, user_id, generation))
    }

    /// Inserts the address of a node and service (`fi_av_insertsvc`).
    pub fn insert_service(
        &self,
        node: Option<&str>,
        service: Option<&str>,
        user_id: Option<u64>,
    ) -> Result<u64> {
        self.insert(&self.format.service_address(node, service)?, user_id)
    }

    /// Tells the log why an address is not taken.
    pub fn refuse(&self, address: &[u8]) {
        crate::warn_few!(
            "core",
            Subsys::Av,
            "{} is no address: {}",
            self.shown(address),
            self.format.fault(address)
        );
    }

    /// Bytes that are no address: the text, or for binary formats the bytes, as far as a line has
    /// room.
    fn shown(&self, address: &[u8]) -> String {
        const ROOM: usize = 100;
        if self.format.addr_format() == addr_format::STR {
            let text = address.split(|byte| *byte == 0).next().unwrap_or_default();
            let dots = if text.len() > ROOM { "..." } else { "" };
            return format!("\"{}{dots}\"", text[..text.len().min(ROOM)].escape_ascii());
        }
        let bytes = address.iter().take(ROOM / 3).map(|byte| format!("{byte:02x}"));
        format!("[{}]", bytes.collect::<Vec<_>>().join(" "))
    }

    /// Takes back one insertion. `EINVAL` for an index that holds nothing.
    pub fn remove(&self, addr: u64) -> Result<()> {
        self.change(|table, _| table.remove(addr))
    }

    /// The canonical address at an index; `EINVAL` if it holds nothing.
    pub fn lookup(&self, addr: u64) -> Result<Arc<[u8]>> {
        self.resolve(addr).map(|peer| peer.address).ok_or(Errno::EINVAL)
    }

    /// The address at an index and its identity, for endpoints; see the module's notes on caching.
    pub fn resolve(&self, addr: u64) -> Option<Peer> {
        let table = self.read();
        let entry = table.get(addr)?;
        Some(Peer {
            address: entry.address().clone(),
            entry: entry.id(),
            generation: self.generation(),
        })
    }

    /// The handle of a canonical address, for reporting and matching the source of a message.
    pub fn find(&self, canonical: &[u8]) -> Option<u64> {
        self.read().find(canonical)
    }

    /// Every handle with its canonical address, in no order that counts.
    pub fn for_each(&self, mut each: impl FnMut(u64, &[u8])) {
        self.read().for_each(&mut each);
    }

    /// What completions report for a handle: the application's id if it has one, else the handle;
    /// [`ADDR_UNSPEC`] for an empty index, and for a missing id if the vector was opened with
    /// `AV_USER_ID`.
    pub fn report_id(&self, addr: u64) -> u64 {
        match self.read().get(addr).map(|entry| entry.user_id()) {
            Some(Some(id)) => id,
            Some(None) if !self.has_user_ids() => addr,
            _ => ADDR_UNSPEC,
        }
    }

    /// Gives an entry the application's id. `EINVAL` for an index that holds nothing, and unless
    /// the vector was opened with `AV_USER_ID`.
    pub fn set_user_id(&self, addr: u64, id: u64) -> Result<()> {
        if !self.has_user_ids() {
            return Err(Errno::EINVAL);
        }
        self.change(|table, _| table.set_user_id(addr, id))
    }

    /// An address as text (`fi_av_straddr`).
    pub fn straddr(&self, address: &[u8]) -> Result<String> {
        let (canonical, _) = self.format.parse(address)?;
        Ok(self.format.text(&canonical))
    }

    /// Changes whenever an index, an address or an id does.
    pub fn generation(&self) -> u64 {
        // Acquire: pairs with the Release in `change`; whoever sees a generation sees its table.
        self.generation.load(Ordering::Acquire)
    }

    /// Addresses present, duplicates counted once.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// No address present.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the vector into use by an endpoint, until the guard goes. `EINVAL` once closed.
    pub fn bind(self: &Arc<Self>) -> Result<BoundAv> {
        self.change(|table, _| table.bind().map(|()| ((), Change::None)))?;
        Ok(BoundAv(self.clone()))
    }

    /// Ends the vector. `EBUSY`, without effect, while endpoints are bound to it.
    pub fn close(&self) -> Result<()> {
        self.change(|table, _| table.close().map(|()| ((), Change::None)))
    }

    const fn has_user_ids(&self) -> bool {
        self.flags.contains(Flags::AV_USER_ID)
    }

    /// Changes the table; `f` gets the generation that the change will have.
    fn change<R>(&self, f: impl FnOnce(&mut Table, u64) -> Result<(R, Change)>) -> Result<R> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: written under this lock only.
        let next = self.generation.load(Ordering::Relaxed) + 1;
        let (result, change) = f(&mut table, next)?;
        if change == Change::Visible {
            // Release: pairs with the Acquire in `generation`.
            self.generation.store(next, Ordering::Release);
        }
        Ok(result)
    }

    // No change of the table can panic half-way, so a poisoned lock is as good as any.
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Av {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Av")
            .field("flags", &self.flags)
            .field("len", &self.len())
            .field("generation", &self.generation())
            .finish()
    }
}

/// An address vector in use by an endpoint.
#[derive(Debug)]
pub struct BoundAv(Arc<Av>);

impl core::ops::Deref for BoundAv {
    type Target = Arc<Av>;
    fn deref(&self) -> &Arc<Av> {
        &self.0
    }
}

impl Drop for BoundAv {
    fn drop(&mut self) {
        self.0.table.write().unwrap_or_else(PoisonError::into_inner).unbind();
    }
}

#[cfg(test)]
mod tests;
