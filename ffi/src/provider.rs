//! SETUP. The providers that this library was built with, in the order of preference.

use core::ffi::c_void;
use std::sync::Arc;

use fabric_core::{
    Errno, Result,
    api::Endpoint,
    attr::{EpType, Info},
    av::AddressFormat,
    discovery::Source,
    domain::Domain,
    lock::{NoLock, SafeLock},
};
use provider_shm::{ShmAddresses, ShmEndpoint, ShmSource};
use provider_tcp::{RxmSource, TcpEndpoint, TcpPassive, TcpRxmEndpoint, TcpSource, address};
use provider_verbs::{
    DatagramAddresses, VerbsDatagramEndpoint, VerbsEndpoint, VerbsPassive, VerbsRxmEndpoint,
    VerbsRxmSource, VerbsSource,
};

use crate::{
    abi::fid::{fid_domain, fid_pep},
    shim::{
        domain,
        payload::FabricObject,
        pep,
        wait::{TryWait, try_wait_queue},
    },
};

/// One provider as the C face sees it.
pub struct Provider {
    /// Its side of discovery.
    pub source: &'static dyn Source,
    /// What opens objects; `None` for a provider that offers nothing.
    pub objects: Option<Objects>,
}

impl core::fmt::Debug for Provider {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Provider").field("name", &self.source.name()).finish_non_exhaustive()
    }
}

/// What a provider's endpoint types are good for, with the types erased.
#[derive(Clone, Copy)]
pub struct Objects {
    /// The format of its address vectors.
    pub addresses: &'static dyn AddressFormat,
    /// Opens a domain whose objects have the locks that its attributes call for.
    pub open_domain: OpenDomain,
    /// Opens a passive endpoint; `None` for a provider without connections.
    pub open_passive: Option<OpenPassive>,
    /// `fi_trywait` on its queues and counters, one for each endpoint type.
    pub try_wait: &'static [TryWait],
}

impl core::fmt::Debug for Objects {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

/// Opens a domain of a fabric with the attributes of an info and the application's context.
pub type OpenDomain = fn(&Arc<FabricObject>, &Info, *mut c_void) -> Result<*mut fid_domain>;

/// Opens a passive endpoint of a fabric, as [`OpenDomain`]; `shim::pep::open` of the provider's type.
pub type OpenPassive = fn(&Arc<FabricObject>, &Info, *mut c_void) -> Result<*mut fid_pep>;

/// All of them.
pub static PROVIDERS: [Provider; 5] = [
    Provider {
        source: &VerbsSource,
        objects: Some(Objects {
            addresses: &address::EITHER,
            open_domain: open_verbs,
            open_passive: Some(pep::open::<VerbsPassive>),
            try_wait: &[
                try_wait_queue::<VerbsEndpoint>,
                try_wait_queue::<VerbsDatagramEndpoint<NoLock>>,
                try_wait_queue::<VerbsDatagramEndpoint<SafeLock>>,
            ],
        }),
    },
    Provider {
        source: &VerbsRxmSource,
        objects: Some(Objects {
            addresses: &address::EITHER,
            open_domain: open_verbs_rxm,
            open_passive: None,
            try_wait: &[
                try_wait_queue::<VerbsRxmEndpoint<NoLock>>,
                try_wait_queue::<VerbsRxmEndpoint<SafeLock>>,
            ],
        }),
    },
    Provider {
        source: &ShmSource,
        objects: Some(Objects {
            addresses: &ShmAddresses,
            open_domain: open_shm,
            open_passive: None,
            try_wait: &[
                try_wait_queue::<ShmEndpoint<NoLock>>,
                try_wait_queue::<ShmEndpoint<SafeLock>>,
            ],
        }),
    },
    Provider {
        source: &TcpSource,
        objects: Some(Objects {
            addresses: &address::EITHER,
            open_domain: open_tcp,
            open_passive: Some(pep::open::<TcpPassive>),
            try_wait: &[try_wait_queue::<TcpEndpoint>],
        }),
    },
    Provider {
        source: &RxmSource,
        objects: Some(Objects {
            addresses: &address::EITHER,
            open_domain: open_rxm,
            open_passive: None,
            try_wait: &[
                try_wait_queue::<TcpRxmEndpoint<NoLock>>,
                try_wait_queue::<TcpRxmEndpoint<SafeLock>>,
            ],
        }),
    },
];

/// The provider of this name, in any case; of a name with layers that is none, the last one counts.
pub fn find(name: &str) -> Option<&'static Provider> {
    let whole = |provider: &&Provider| provider.source.name().eq_ignore_ascii_case(name);
    if let Some(provider) = PROVIDERS.iter().find(whole) {
        return Some(provider);
    }
    let last = name.rsplit(';').next().unwrap_or(name).trim();
    PROVIDERS.iter().find(|provider| provider.source.name().eq_ignore_ascii_case(last))
}

fn open_shm(
    fabric: &Arc<FabricObject>,
    info: &Info,
    context: *mut c_void,
) -> Result<*mut fid_domain> {
    let core = Domain::open(info)?;
    open_as_needed::<ShmEndpoint<SafeLock>, ShmEndpoint<NoLock>>(
        fabric,
        core,
        &ShmAddresses,
        context,
    )
}

fn open_verbs(
    fabric: &Arc<FabricObject>,
    info: &Info,
    context: *mut c_void,
) -> Result<*mut fid_domain> {
    if info.ep.as_ref().is_some_and(|ep| ep.ep_type == EpType::Dgram as u32) {
        let core = provider_verbs::open_datagram_domain(info)?;
        return open_as_needed::<VerbsDatagramEndpoint<SafeLock>, VerbsDatagramEndpoint<NoLock>>(
            fabric,
            core,
            &DatagramAddresses,
            context,
        );
    }
    let core = provider_verbs::open_domain(info)?;
    domain::open::<VerbsEndpoint>(fabric, core, addresses(info)?, context)
}

fn open_verbs_rxm(
    fabric: &Arc<FabricObject>,
    info: &Info,
    context: *mut c_void,
) -> Result<*mut fid_domain> {
    let core = provider_verbs::open_domain(info)?;
    open_as_needed::<VerbsRxmEndpoint<SafeLock>, VerbsRxmEndpoint<NoLock>>(
        fabric,
        core,
        addresses(info)?,
        context,
    )
}

fn open_tcp(
    fabric: &Arc<FabricObject>,
    info: &Info,
    context: *mut c_void,
) -> Result<*mut fid_domain> {
    let core = Domain::open(info)?;
    domain::open::<TcpEndpoint>(fabric, core, addresses(info)?, context)
}

fn open_rxm(
    fabric: &Arc<FabricObject>,
    info: &Info,
    context: *mut c_void,
) -> Result<*mut fid_domain> {
    let core = Domain::open(info)?;
    open_as_needed::<TcpRxmEndpoint<SafeLock>, TcpRxmEndpoint<NoLock>>(
        fabric,
        core,
        addresses(info)?,
        context,
    )
}

/// Opens a domain of endpoints with locks, or of those without where the application has said that
/// it needs none.
fn open_as_needed<Locked: Endpoint, Bare: Endpoint>(
    fabric: &Arc<FabricObject>,
    core: Arc<Domain>,
    addresses: &'static dyn AddressFormat,
    context: *mut c_void,
) -> Result<*mut fid_domain> {
    if core.needs_locks() {
        domain::open::<Locked>(fabric, core, addresses, context)
    } else {
        domain::open::<Bare>(fabric, core, addresses, context)
    }
}

/// The socket addresses that an info speaks of.
fn addresses(info: &Info) -> Result<&'static dyn AddressFormat> {
    Ok(address::addresses(info.addr_format).ok_or(Errno::EINVAL)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_below_layers() {
        let name = |text| find(text).map(|provider| provider.source.name());
        assert_eq!(name("SHM"), Some("shm"));
        assert_eq!(name("ofi_layer;tcp"), Some("tcp"));
        assert_eq!(name("tcp;ofi_layer"), None);
        assert_eq!(name("TCP;ofi_rxm"), Some("tcp;ofi_rxm"));
        assert_eq!(name(""), None);
    }
}
