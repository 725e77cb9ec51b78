//! HOT. Peers of a datagram endpoint: where a handle of the address vector leads, and under which one
//! the sender of a message is known.

use std::{collections::HashMap, sync::Arc};

use fabric_core::{Errno, Result, av::Av, log::Subsys, op::ADDR_UNSPEC};

use super::{address::DatagramAddress, gids::Gids, header::Source};
use crate::{
    NAME,
    sys::{AddressHandle, Pd, Way},
};

/// Where datagrams to a handle go.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) way: Arc<AddressHandle>,
    /// The queue pair there.
    pub(super) number: u32,
    /// The entry of the address vector, and when it was last seen there.
    entry: u64,
    generation: u64,
}

/// What is known of an address vector.
#[derive(Debug)]
pub(super) struct Peers {
    av: Option<Arc<Av>>,
    targets: Vec<Option<Target>>,
    /// Handles by the senders that they stand for, as of a generation of the vector.
    senders: HashMap<Source, u64>,
    senders_of: u64,
    pd: Arc<Pd>,
    gids: Gids,
    port: u8,
}

impl Peers {
    /// Of a port of a device, without an address vector.
    pub(super) fn new(pd: Arc<Pd>, gids: Gids, port: u8) -> Self {
        Self {
            av: None,
            targets: Vec::new(),
            senders: HashMap::new(),
            senders_of: u64::MAX,
            pd,
            gids,
            port,
        }
    }

    pub(super) fn set_av(&mut self, av: Option<Arc<Av>>) {
        self.av = av;
    }

    /// Forgets all ways.
    pub(super) fn clear(&mut self) {
        self.targets.clear();
        self.senders.clear();
        self.av = None;
    }

    /// Where a handle leads. `EINVAL` if the vector does not have it, and the kernel's error if there is
    /// no way.
    #[inline]
    pub(super) fn target(&mut self, handle: u64) -> Result<&Target> {
        let generation = self.av.as_ref().ok_or(Errno::EINVAL)?.generation();
        let at = usize::try_from(handle).map_err(|_| Errno::EINVAL)?;
        let fresh = self.targets.get(at).and_then(Option::as_ref);
        if fresh.is_none_or(|target| target.generation != generation) {
            self.resolve(handle, at)?;
        }
        self.targets.get(at).and_then(Option::as_ref).ok_or(Errno::EINVAL)
    }

    #[cold]
    fn resolve(&mut self, handle: u64, at: usize) -> Result<()> {
        let peer = self.av.as_ref().and_then(|av| av.resolve(handle));
        let Some(peer) = peer else {
            if let Some(target) = self.targets.get_mut(at) {
                *target = None;
            }
            return Err(Errno::EINVAL);
        };
        if let Some(Some(target)) = self.targets.get_mut(at)
            && target.entry == peer.entry
        {
            target.generation = peer.generation;
            return Ok(());
        }
        let address = DatagramAddress::read(&peer.address).ok_or(Errno::EINVAL)?;
        let way = self.way(&address).inspect_err(|reason| {
            fabric_core::warn_few!(NAME, Subsys::Av, "there is no way to {address}: {reason}");
        })?;
        if self.targets.len() <= at {
            self.targets.resize(at + 1, None);
        }
        self.targets[at] = Some(Target {
            way: Arc::new(way),
            number: address.number,
            entry: peer.entry,
            generation: peer.generation,
        });
        Ok(())
    }

    /// The way to an address.
    pub(super) fn way(&self, address: &DatagramAddress) -> Result<AddressHandle> {
        let named = address.gid != [0; 16];
        let way = Way {
            gid: named.then_some(address.gid),
            own: self.gids.towards(&address.gid),
            lid: address.lid,
            level: address.level,
            port: self.port,
        };
        AddressHandle::new(&self.pd, &way)
    }

    /// How the application knows a sender; [`ADDR_UNSPEC`] if it does not.
    pub(super) fn sender(&mut self, source: &Source) -> u64 {
        let Some(av) = &self.av else { return ADDR_UNSPEC };
        let generation = av.generation();
        if generation != self.senders_of {
            self.senders.clear();
            let senders = &mut self.senders;
            av.for_each(|handle, address| {
                if let Some(address) = DatagramAddress::read(address) {
                    senders.insert(Source::of(&address), handle);
                }
            });
            self.senders_of = generation;
        }
        self.senders.get(source).map_or(ADDR_UNSPEC, |handle| av.report_id(*handle))
    }
}
