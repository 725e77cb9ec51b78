//! SETUP. What may be put together: objects of one domain, event queues of its fabric, and infos of
//! its provider. Each refusal is told to the log with both sides.

use std::sync::Arc;

use fabric_core::{
    Errno, Result,
    api::Endpoint,
    attr::{Info, addr_format},
    discovery::format_name,
    domain::Domain,
    log::Subsys,
};

use super::payload::{DomainObject, EqObject, FabricObject};
use crate::{
    abi::{
        constants::{FI_CLASS_AV, FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_EP, FI_CLASS_SRX_CTX},
        fid::fid,
    },
    object::{CObject, Shell, domain_of, from_fid},
    provider::find,
};

/// What is to be bound to an object of `domain`. `EDOMAIN` for one of another domain of the same
/// provider, `EINVAL` for one of another provider, and what [`from_fid`] refuses.
///
/// # Safety
/// As for [`from_fid`].
pub(super) unsafe fn of_domain<'a, T: CObject>(
    domain: &Arc<Domain>,
    bound: *mut fid,
) -> Result<&'a Shell<T>> {
    // Before the type is looked at: queues of a domain with other locks are of another one.
    // SAFETY: this function's own contract.
    if let Some(own) = unsafe { domain_of::<T>(bound) }
        && !Arc::ptr_eq(&own, domain)
    {
        return Err(other_domain(noun(T::CLASS), &own, domain));
    }
    // SAFETY: as above.
    unsafe { from_fid(bound) }
}

#[cold]
fn other_domain(noun: &str, own: &Domain, domain: &Domain) -> Errno {
    let name = |domain: &Domain| domain.attr().name.clone().unwrap_or_default();
    fabric_core::warn!(
        domain.provider(),
        Subsys::Domain,
        "bind: the {noun} is of another domain: it was opened in \"{}\" of {}, and is to be bound to \
         an object of \"{}\" of {}",
        name(own),
        own.provider(),
        name(domain),
        domain.provider()
    );
    if own.provider() == domain.provider() { Errno::EDOMAIN } else { Errno::EINVAL }
}

fn noun(class: usize) -> &'static str {
    match class {
        FI_CLASS_AV => "address vector",
        FI_CLASS_CNTR => "counter",
        FI_CLASS_CQ => "completion queue",
        FI_CLASS_EP => "endpoint",
        FI_CLASS_SRX_CTX => "shared receive context",
        _ => "object",
    }
}

/// The event queue that is to be bound to an object of `fabric`. `EINVAL` for one of another fabric,
/// and what [`from_fid`] refuses.
///
/// # Safety
/// As for [`from_fid`].
pub(super) unsafe fn event_queue<'a>(
    fabric: &Arc<FabricObject>,
    bound: *mut fid,
) -> Result<&'a EqObject> {
    // SAFETY: this function's own contract.
    let queue = unsafe { from_fid::<EqObject>(bound) }?.payload()?;
    let own = &queue.fabric.0;
    if Arc::ptr_eq(own, fabric) {
        return Ok(queue);
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    fabric_core::warn!(
        fabric.attr.prov_name.as_deref().unwrap_or_default(),
        Subsys::Eq,
        "bind: the event queue is of another fabric: it was opened in \"{}\" of {}, and is to be \
         bound to an object of \"{}\" of {}",
        text(&own.attr.name),
        text(&own.attr.prov_name),
        text(&fabric.attr.name),
        text(&fabric.attr.prov_name)
    );
    Err(Errno::EINVAL)
}

/// `EINVAL` for an info that names another provider than the domain's, or addresses of another kind.
pub(super) fn suits<E: Endpoint>(domain: &DomainObject<E>, info: &Info) -> Result<()> {
    let provider = domain.provider();
    let refuse = |field: &str, named: &str, own: &str| {
        fabric_core::warn!(
            provider,
            Subsys::EpCtrl,
            "fi_endpoint: the info is of another provider: {field} is {named}, of the domain {own}"
        );
        Err(Errno::EINVAL)
    };
    let named = info.fabric.as_ref().and_then(|fabric| fabric.prov_name.as_deref());
    if let Some(named) = named
        && !same_provider(named, provider)
    {
        return refuse("fabric_attr.prov_name", named, provider);
    }
    let (format, own) = (info.addr_format, domain.addresses.addr_format());
    if format == addr_format::UNSPEC || format == own || (is_socket(format) && is_socket(own)) {
        return Ok(());
    }
    refuse("addr_format", &format_name(format), &format_name(own))
}

/// Whether two names are of one provider, as `fi_fabric` reads them.
fn same_provider(named: &str, own: &str) -> bool {
    named.is_empty()
        || named.eq_ignore_ascii_case(own)
        || find(named).is_some_and(|found| found.source.name().eq_ignore_ascii_case(own))
}

/// Which families may meet in one vector is the provider's to say.
const fn is_socket(format: u32) -> bool {
    matches!(
        format,
        addr_format::SOCKADDR
            | addr_format::SOCKADDR_IN
            | addr_format::SOCKADDR_IN6
            | addr_format::SOCKADDR_IP
    )
}
