//! SETUP. The entries of an address vector.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::{Errno, Result};

/// Whether what endpoints may have cached is out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Visible,
}

/// One address.
#[derive(Debug)]
pub(super) struct Entry {
    address: Arc<[u8]>,
    id: u64,
    user_id: Option<u64>,
    insertions: usize,
}

impl Entry {
    pub(super) const fn address(&self) -> &Arc<[u8]> {
        &self.address
    }

    /// The generation of the first insertion, which no other entry has.
    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    pub(super) const fn user_id(&self) -> Option<u64> {
        self.user_id
    }
}

/// Entries by index and by address, and the users of the vector.
#[derive(Debug)]
pub(super) struct Table {
    entries: Vec<Option<Entry>>,
    by_address: HashMap<Arc<[u8]>, usize>,
    /// Empty indices below the length of `entries`.
    free: BTreeSet<usize>,
    bound: usize,
    closed: bool,
}

/// A hint asks for no more room than this in advance.
const RESERVE_LIMIT: usize = 1 << 16;

impl Table {
    pub(super) fn new(count: usize) -> Result<Self> {
        let mut entries = Vec::new();
        entries.try_reserve_exact(count.min(RESERVE_LIMIT)).map_err(|_| Errno::ENOMEM)?;
        Ok(Self {
            entries,
            by_address: HashMap::new(),
            free: BTreeSet::new(),
            bound: 0,
            closed: false,
        })
    }

    pub(super) fn insert(
        &mut self,
        canonical: &[u8],
        user_id: Option<u64>,
        generation: u64,
    ) -> Result<(u64, Change)> {
        if let Some(&index) = self.by_address.get(canonical)
            && let Some(entry) = &mut self.entries[index]
        {
            entry.insertions += 1;
            let new_id = user_id.is_some() && user_id != entry.user_id;
            entry.user_id = user_id.or(entry.user_id);
            return Ok((index as u64, if new_id { Change::Visible } else { Change::None }));
        }
        let address: Arc<[u8]> = canonical.into();
        let entry = Entry { address: address.clone(), id: generation, user_id, insertions: 1 };
        let index = match self.free.pop_first() {
            Some(index) => {
                self.entries[index] = Some(entry);
                index
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        };
        self.by_address.insert(address, index);
        Ok((index as u64, Change::Visible))
    }

    pub(super) fn remove(&mut self, addr: u64) -> Result<((), Change)> {
        let entry = self.get_mut(addr)?;
        entry.insertions -= 1;
        if entry.insertions > 0 {
            return Ok(((), Change::None));
        }
        let address = entry.address.clone();
        if let Some(index) = self.by_address.remove(&address) {
            self.entries[index] = None;
            self.free.insert(index);
        }
        Ok(((), Change::Visible))
    }

    pub(super) fn set_user_id(&mut self, addr: u64, id: u64) -> Result<((), Change)> {
        self.get_mut(addr)?.user_id = Some(id);
        Ok(((), Change::Visible))
    }

    pub(super) fn get(&self, addr: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(addr).ok()?)?.as_ref()
    }

    pub(super) fn for_each(&self, each: &mut dyn FnMut(u64, &[u8])) {
        for (index, entry) in self.entries.iter().enumerate() {
            if let Some(entry) = entry {
                each(index as u64, &entry.address);
            }
        }
    }

    pub(super) fn find(&self, canonical: &[u8]) -> Option<u64> {
        self.by_address.get(canonical).map(|index| *index as u64)
    }

    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    pub(super) fn bind(&mut self) -> Result<()> {
        if self.closed {
            return Err(Errno::EINVAL);
        }
        self.bound += 1;
        Ok(())
    }

    pub(super) fn unbind(&mut self) {
        self.bound = self.bound.saturating_sub(1);
    }

    pub(super) fn close(&mut self) -> Result<()> {
        if self.bound > 0 {
            return Err(Errno::EBUSY);
        }
        self.closed = true;
        Ok(())
    }

    fn get_mut(&mut self, addr: u64) -> Result<&mut Entry> {
        let index = usize::try_from(addr).map_err(|_| Errno::EINVAL)?;
        self.entries.get_mut(index).and_then(Option::as_mut).ok_or(Errno::EINVAL)
    }
}
