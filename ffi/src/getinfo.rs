//! SETUP. Discovery and fabrics behind the C edge: versions and sizes are settled, data is owned.

use core::ffi::c_void;

use fabric_core::{
    Errno, Result,
    attr::{API_VERSION, FabricAttr, Info, Version},
    discovery::{self, ProviderFilter, Request},
    flags::Flags,
};

use crate::{
    abi::fid::{fid, fid_domain, fid_fabric},
    info::Hints,
    opened, provider,
    shim::{fabric, no_flags},
};

/// One result of discovery, with the open objects that it belongs to; null where there are none.
#[derive(Debug)]
pub struct Offer {
    /// What is offered.
    pub info: Info,
    /// The fabric in question.
    pub fabric: *mut fid_fabric,
    /// The domain in question.
    pub domain: *mut fid_domain,
    /// The connection request or passive endpoint of the hints, passed on unseen.
    pub handle: *mut fid,
}

/// Lists what matches `hints`, best first. An empty list is never returned: no match is
/// `ENODATA`.
///
/// A fabric or domain in the hints restricts the list to it; a pointer to no open object matches
/// nothing. Without one, each offer names the object that was opened first under its names.
pub fn getinfo(
    version: Version,
    node: Option<&str>,
    service: Option<&str>,
    flags: Flags,
    hints: Option<&Hints>,
) -> Result<Vec<Offer>> {
    let sources = provider::PROVIDERS.each_ref().map(|provider| provider.source);
    let request = Request { version, node, service, flags, hints: hints.map(|hints| &hints.info) };
    let found = discovery::getinfo(&sources, &request, &ProviderFilter::from_env())
        .map_err(|none| none.errno())?;

    let null = (core::ptr::null_mut(), core::ptr::null_mut());
    let (fabric, domain) = hints.map_or(null, |hints| (hints.fabric, hints.domain));
    let handle = hints.map_or(core::ptr::null_mut(), |hints| hints.handle);
    let offers: Vec<Offer> = found
        .into_iter()
        .filter_map(|info| {
            let fabric = opened::fabric(&info, fabric).ok()?;
            let domain = opened::domain(&info, domain).ok()?;
            Some(Offer { info, fabric, domain, handle })
        })
        .collect();
    if offers.is_empty() { Err(Errno::ENODATA) } else { Ok(offers) }
}

/// Opens the fabric that `attr` names. `attr.api_version` is what the application asked for.
///
/// `EINVAL` without a provider name, for a fabric name that the provider does not have, and for a
/// version beyond this library's; `ENODEV` for a provider that is not here; what is short, such as
/// `EMFILE`, where that keeps the provider from looking.
pub fn open_fabric(attr: &FabricAttr, flags: u64, context: *mut c_void) -> Result<*mut fid_fabric> {
    no_flags(flags)?;
    if attr.api_version > API_VERSION {
        return Err(Errno::EINVAL);
    }
    let name = attr.prov_name.as_deref().filter(|name| !name.is_empty()).ok_or(Errno::EINVAL)?;
    let provider = provider::find(name).ok_or(Errno::ENODEV)?;
    let objects = provider.objects.ok_or(Errno::ENODEV)?;

    let offers = provider
        .source
        .offers(&Request::default())
        .map_err(|rejection| rejection.shortage.unwrap_or(Errno::ENODEV))?;
    let mut fabrics = offers.into_iter().filter_map(|offer| offer.fabric);
    let own = match &attr.name {
        None => fabrics.next(),
        Some(name) if provider.source.has_fabric(name) => {
            fabrics.next().map(|own| FabricAttr { name: Some(name.clone()), ..own })
        }
        Some(name) => {
            fabrics.find(|own| own.name.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(name)))
        }
    };
    let own = own.ok_or(Errno::EINVAL)?;
    fabric_core::info!(name, fabric_core::log::Subsys::Fabric, "this provider has been chosen");
    fabric::open(FabricAttr { api_version: attr.api_version, ..own }, objects, context)
}
