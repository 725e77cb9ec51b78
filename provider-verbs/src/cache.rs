//! HOT. Registrations of local memory that outlive their operation.
//!
//! A registration is a promise of the kernel's about pages, and the program names addresses: between
//! the two, memory may have been unmapped and mapped again. So a registration is kept only where
//! the kernel tells of that before the program can go on ([`Notices`]): whole pages, of this process
//! alone, under a thread that listens ([`Watcher`]); or where the application tells of it
//! ([`Imported`]); or where the device asks for pages when it needs them ([`Fetched`]). All others are for one operation. Nothing is patched, and nothing is guessed from
//! how mappings look.
//!
//! What has gone is let go at once; what an operation still uses ends with it.

mod imported;
mod maps;
mod notices;
mod watcher;

use core::ffi::c_int;
use std::{collections::BTreeMap, sync::Arc};

use fabric_core::{Errno, Result, op::IoVec};

use imported::Imported;
pub(crate) use notices::{Known, Notices};
pub(crate) use watcher::Watcher;

use crate::{
    settings::{self, CacheLimits},
    sys::{
        Gone, Mr, Pd,
        abi::{IBV_ACCESS_ON_DEMAND, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE},
    },
};

/// Registrations that begin before an address and are looked at.
const NEAR: usize = 4;
/// Ranges whose pages may be given back at any moment, since they were once, that are remembered.
const RESTLESS: usize = 256;

/// Who is told of memory that goes.
pub(crate) trait Watch: Send + Sync {
    /// Has whole pages watched from now on; `false`: they cannot be.
    fn watch(&self, start: usize, len: usize) -> bool;
    /// Has a range watched no longer.
    fn unwatch(&self, start: usize, len: usize) {
        let _ = (start, len);
    }
    /// Whether a range that is watched is what it was, as far as notices do not say.
    fn is_valid(&self, start: usize, len: usize) -> bool {
        let _ = (start, len);
        true
    }
    /// What has been told.
    fn notices(&self) -> &Notices;
}

/// What is mapped at an address is what the device finds there, whenever it looks: nothing has to be told.
struct Fetched(Notices);

impl Watch for Fetched {
    fn watch(&self, _: usize, _: usize) -> bool {
        true
    }

    fn notices(&self) -> &Notices {
        &self.0
    }
}

/// The registrations of an engine.
pub(crate) struct Cache {
    /// `None`: nothing is kept, or nobody has asked yet.
    watcher: Option<Arc<dyn Watch>>,
    asked: bool,
    /// Memory is not pinned.
    on_demand: bool,
    page: usize,
    limits: CacheLimits,
    /// By their first byte.
    kept: BTreeMap<usize, Kept>,
    bytes: usize,
    /// Notices up to this one have been seen to.
    from: u64,
    /// Counts uses.
    clock: u64,
    restless: Vec<(usize, usize)>,
}

struct Kept {
    end: usize,
    rights: c_int,
    mr: Arc<Mr>,
    used: u64,
}

impl core::fmt::Debug for Cache {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cache").field("kept", &self.kept.len()).finish_non_exhaustive()
    }
}

impl Cache {
    /// As settings say. The thread is started when there is something to keep, and memory is pinned.
    pub(crate) fn open(on_demand: bool) -> Self {
        let limits = settings::cache();
        let mut cache = Self::with(None, limits);
        cache.asked = limits.count == 0 || limits.bytes == 0;
        cache.on_demand = on_demand;
        cache
    }

    fn with(watcher: Option<Arc<dyn Watch>>, limits: CacheLimits) -> Self {
        let from = watcher.as_ref().map_or(0, |watcher| watcher.notices().now());
        Self {
            watcher,
            asked: true,
            on_demand: false,
            page: rustix::param::page_size(),
            limits,
            kept: BTreeMap::new(),
            bytes: 0,
            from,
            clock: 0,
            restless: Vec::new(),
        }
    }

    /// Whether anything is kept at all.
    #[inline]
    pub(crate) fn is_on(&mut self) -> bool {
        if !self.asked {
            self.begin();
        }
        self.watcher.is_some()
    }

    #[cold]
    fn begin(&mut self) {
        self.asked = true;
        if self.on_demand {
            self.watcher = Some(Arc::new(Fetched(Notices::new())));
            self.from = 0;
            return;
        }
        let watcher: Option<Arc<dyn Watch>> = match Imported::of_process() {
            Some(imported) => Some(Arc::new(imported)),
            None => Watcher::of_process().map(|watcher| watcher as Arc<dyn Watch>),
        };
        if let Some(watcher) = watcher {
            self.from = watcher.notices().now();
            self.watcher = Some(watcher);
        }
    }

    /// A registration of memory for `rights` (`IBV_ACCESS_*`), kept or made now.
    #[inline]
    pub(crate) fn get(&mut self, pd: &Arc<Pd>, memory: IoVec, rights: c_int) -> Result<Arc<Mr>> {
        let start = memory.base.addr();
        let end = start.checked_add(memory.len).ok_or(Errno::EINVAL)?;
        if self.is_on() && self.catch_up(0..0).0 == Known::All {
            self.clock += 1;
            let near = self.kept.range_mut(..=start).rev().take(NEAR);
            let mut stale = None;
            for (first, kept) in near {
                if kept.end >= end && kept.rights & rights == rights {
                    if !is_valid(self.watcher.as_ref(), *first, kept.end) {
                        stale = Some(*first);
                        break;
                    }
                    kept.used = self.clock;
                    return Ok(kept.mr.clone());
                }
            }
            if let Some(stale) = stale {
                self.drop_at(stale);
            }
        }
        self.make(pd, memory, rights)
    }

    #[cold]
    fn make(&mut self, pd: &Arc<Pd>, memory: IoVec, rights: c_int) -> Result<Arc<Mr>> {
        let start = memory.base.addr() / self.page * self.page;
        let end = memory.base.addr() + memory.len;
        let end = end.checked_next_multiple_of(self.page).ok_or(Errno::EINVAL)?;
        if !self.may_keep(start, end, rights) {
            return self.register(pd, memory, rights);
        }
        // What peers may read are the bytes that the program has named, and no neighbours of theirs.
        let remote = rights & IBV_ACCESS_REMOTE_READ != 0;
        let base = memory.base.with_addr(start);
        let whole = if remote { memory } else { IoVec { base, len: end - start } };
        let mr = self.register(pd, whole, rights)?;
        // If the memory has been replaced meanwhile, this operation's has, too: its program's fault.
        // The next one's must not be.
        if self.catch_up(start..end) == (Known::All, false) {
            self.keep(whole, rights, mr.clone());
        }
        Ok(mr)
    }

    fn may_keep(&self, start: usize, end: usize, rights: c_int) -> bool {
        let Some(watcher) = &self.watcher else { return false };
        let restless = self.restless.iter().any(|(first, last)| start < *last && *first < end);
        // Keys that peers may write by end with their operation.
        rights & IBV_ACCESS_REMOTE_WRITE == 0
            && !restless
            && end - start <= self.limits.bytes
            && watcher.watch(start, end - start)
    }

    /// Registers. Where the kernel has no memory to lock, what is kept and unused goes first.
    fn register(&mut self, pd: &Arc<Pd>, memory: IoVec, rights: c_int) -> Result<Arc<Mr>> {
        let rights = if self.on_demand { rights | IBV_ACCESS_ON_DEMAND } else { rights };
        let made = Mr::new(pd, memory, rights);
        let short = matches!(made, Err(Errno::ENOMEM | Errno::EAGAIN));
        if !short || self.kept.is_empty() {
            return made.map(Arc::new);
        }
        self.clear();
        Mr::new(pd, memory, rights).map(Arc::new)
    }

    fn keep(&mut self, memory: IoVec, rights: c_int, mr: Arc<Mr>) {
        let start = memory.base.addr();
        let kept = Kept { end: start + memory.len, rights, mr, used: self.clock };
        self.drop_at(start);
        self.kept.insert(start, kept);
        self.bytes += memory.len;
        while self.kept.len() > self.limits.count || self.bytes > self.limits.bytes {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used);
            let Some(oldest) = oldest.map(|(start, _)| *start) else { break };
            self.drop_at(oldest);
        }
    }

    fn drop_at(&mut self, start: usize) {
        if let Some(kept) = self.kept.remove(&start) {
            self.bytes -= kept.end - start;
            if let Some(watcher) = &self.watcher {
                watcher.unwatch(start, kept.end - start);
            }
        }
    }

    fn clear(&mut self) {
        while let Some((start, _)) = self.kept.first_key_value() {
            self.drop_at(*start);
        }
    }

    /// Lets go what has gone; how much is known, and whether a part of `range` has gone.
    #[inline]
    fn catch_up(&mut self, range: core::ops::Range<usize>) -> (Known, bool) {
        let Some(watcher) = self.watcher.clone() else { return (Known::More, false) };
        let (mut from, mut hit) = (self.from, false);
        let known = watcher.notices().read(&mut from, |gone| {
            hit |= gone.start < range.end && range.start < gone.end;
            self.let_go(gone);
        });
        self.from = from;
        if known == Known::Lost {
            self.clear();
        }
        (known, hit)
    }

    #[cold]
    fn let_go(&mut self, gone: Gone) {
        let over = |(start, kept): (&usize, &Kept)| {
            (*start < gone.end && gone.start < kept.end).then_some(*start)
        };
        let gone_now: Vec<usize> = self.kept.iter().filter_map(over).collect();
        gone_now.into_iter().for_each(|start| self.drop_at(start));
        if !gone.soon {
            // What is mapped there next is other memory.
            let apart = |range: &(usize, usize)| range.0 < gone.start || gone.end < range.1;
            self.restless.retain(apart);
            return;
        }
        // The notice comes before the pages go, and nobody tells when they are gone.
        self.restless.push((gone.start, gone.end));
        if self.restless.len() > RESTLESS {
            self.clear();
            self.watcher = None;
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.clear();
    }
}

#[inline]
fn is_valid(watcher: Option<&Arc<dyn Watch>>, start: usize, end: usize) -> bool {
    watcher.is_some_and(|watcher| watcher.is_valid(start, end - start))
}

#[cfg(test)]
mod tests;
