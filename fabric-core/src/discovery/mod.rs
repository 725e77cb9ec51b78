//! SETUP. Discovery: which offers of which providers satisfy a wish, and why the others do not.
//!
//! A provider implements [`Source`]; [`getinfo`] asks each in order, matches its offers against
//! the hints of a [`Request`] and returns those that fit, shaped as `fi_getinfo(3)` promises. What
//! does not fit leaves typed [`Rejection`]s, nearest miss first. They are returned when nothing
//! fits, kept per thread for [`last_report`], and logged at level `warn`, so that a program that
//! merely probes sees nothing.

mod filter;
mod hints;
mod rejection;
mod request;

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
};

pub use filter::{NameWish, ProviderFilter};
pub use hints::satisfy;
pub use rejection::{Names, Rejection, format_name};
pub use request::Request;

use crate::{
    Errno,
    attr::{
        API_VERSION, DomainAttr, EpAttr, FabricAttr, Info, PROV_VERSION, RxAttr, TxAttr, Version,
    },
    flags::Flags,
    log::{Level, Subsys},
    param::{self, known},
};

/// The discovery side of a provider.
pub trait Source: Send + Sync {
    /// The provider's name, lower case: `shm`, or with what it is a layer of in front:
    /// `tcp;ofi_rxm`.
    fn name(&self) -> &str;

    /// The provider's version, as `fabric_attr.prov_version` carries it.
    fn version(&self) -> Version {
        PROV_VERSION
    }

    /// Whether this release has the provider at all; one that it lacks only explains itself.
    fn included(&self) -> bool {
        true
    }

    /// Whether offers to some request have a fabric of this name, although the listing has none: one
    /// that is no place in particular.
    fn has_fabric(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// What the provider can offer, best first, with every attribute present. Hints are matched
    /// by the caller; the provider looks at them only where it has a choice. A provider that can
    /// offer nothing says why.
    fn offers(&self, request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>>;
}

/// Why discovery found nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProvider {
    /// The interface version asked for is newer than this library.
    #[error("interface version {0} is asked for, this library implements {API_VERSION}")]
    Version(Version),
    /// No offer fits; the nearest miss comes first.
    #[error("no provider fits{}", rejection::list(.0))]
    Rejected(Vec<Rejection>),
}

impl NoProvider {
    /// What `fi_getinfo` returns.
    pub const fn errno(&self) -> Errno {
        match self {
            Self::Version(_) => Errno::ENOSYS,
            Self::Rejected(_) => Errno::ENODATA,
        }
    }

    /// The reasons, nearest miss first.
    pub fn rejections(&self) -> &[Rejection] {
        match self {
            Self::Version(_) => &[],
            Self::Rejected(list) => list,
        }
    }
}

thread_local! {
    static REPORT: RefCell<Vec<Rejection>> = const { RefCell::new(Vec::new()) };
}

/// What the last [`getinfo`] of this thread rejected, nearest miss first; also when it found
/// something.
pub fn last_report() -> Vec<Rejection> {
    REPORT.with_borrow(Clone::clone)
}

/// A discovery of this thread begins, which may fail before it comes to [`getinfo`].
pub fn forget_report() {
    REPORT.take();
}

/// Finds the offers that satisfy `request`, in the order of `sources` and of their offers.
pub fn getinfo(
    sources: &[&dyn Source],
    request: &Request<'_>,
    filter: &ProviderFilter,
) -> Result<Vec<Info>, NoProvider> {
    param::warn_of_mistakes();
    forget_report();
    if request.version > API_VERSION {
        let error = NoProvider::Version(request.version);
        crate::warn!("core", Subsys::Core, "{error}");
        return Err(error);
    }
    if request.flags & request::KNOWN_FLAGS == Flags::PROV_ATTR_ONLY {
        return names_only(sources, filter);
    }

    let mut found = Vec::new();
    let mut misses = Vec::new();
    let names = sources.iter().map(|source| source.name());
    let cores: Vec<&str> = names.filter(|name| core_of(name) == *name).collect();
    warn_of_strangers(&cores);
    if let Some(stranger) = filter.strangers(&cores).first() {
        misses.push(vec![Rejection::no_such(FILTER, stranger, &cores)]);
    }
    let wish = name_hint(request).map(NameWish::parse).unwrap_or_default();
    if let Some(stranger) = wish.strangers(&cores).first() {
        misses.push(vec![Rejection::no_such(NAME_HINT, stranger, &cores)]);
    }
    for source in sources {
        // Another name than those that were asked for is no news.
        let core = core_of(source.name());
        if !wish.may_take(core) {
            continue;
        }
        if !filter.may_offer(core) {
            misses.push(vec![Rejection::hidden(source.name(), filter)]);
            continue;
        }
        match probe(*source, request) {
            Ok(offers) => collect(offers, request, filter, &mut found, &mut misses),
            Err(rejection) => misses.push(vec![*rejection]),
        }
    }
    let report = nearest_first(misses);
    // Why the others do not fit is news only where none does.
    let level = if found.is_empty() { Level::Warn } else { Level::Info };
    for rejection in &report {
        crate::log_at!(level, &rejection.provider, Subsys::Core, "{rejection}");
    }
    REPORT.set(report.clone());
    if found.is_empty() { Err(NoProvider::Rejected(report)) } else { Ok(found) }
}

/// The provider that a name stands for without its layers.
fn core_of(name: &str) -> &str {
    name.split(';').next().unwrap_or(name)
}

/// Names in variables that no provider has, once per process.
fn warn_of_strangers(cores: &[&str]) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // The library itself speaks as one, too.
        let speakers: Vec<&str> = cores.iter().copied().chain(["core"]).collect();
        for (known, names) in [(&known::PROVIDER, cores), (&known::LOG_PROV, &speakers)] {
            let filter = known.text().map(|text| ProviderFilter::parse(&text)).unwrap_or_default();
            for stranger in filter.strangers(names) {
                crate::log::of_settings(format_args!(
                    "{}: there is no provider {stranger:?} here, but {}",
                    known.name,
                    names.join(", ")
                ));
            }
        }
    });
}

/// What rejections by name are about.
const FILTER: &str = "FI_PROVIDER";
const NAME_HINT: &str = "fabric_attr.prov_name";

fn name_hint<'a>(request: &Request<'a>) -> Option<&'a str> {
    request.hints?.fabric.as_ref()?.prov_name.as_deref()
}

/// Asks one provider. Whatever goes wrong inside it stays its own rejection.
fn probe(source: &dyn Source, request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
    catch_unwind(AssertUnwindSafe(|| source.offers(request))).unwrap_or_else(|_| {
        crate::error!(source.name(), Subsys::Core, "the provider failed while it was being asked");
        Err(Box::new(Rejection::failed(source.name())))
    })
}

fn collect(
    offers: Vec<Info>,
    request: &Request<'_>,
    filter: &ProviderFilter,
    found: &mut Vec<Info>,
    misses: &mut Vec<Vec<Rejection>>,
) {
    for offer in offers {
        let name = offer.fabric.as_ref().and_then(|f| f.prov_name.as_deref()).unwrap_or_default();
        if !filter.shows(name) {
            misses.push(vec![Rejection::hidden(name, filter)]);
            continue;
        }
        match satisfy(&offer, request) {
            Ok(info) => found.push(info),
            Err(reasons) => misses.push(reasons),
        }
    }
}

/// An offer that fails in one point is nearer than one that fails in many, and further away is what
/// no hint can bring. Several offers of a provider often fail alike; each reason is told once.
fn nearest_first(mut misses: Vec<Vec<Rejection>>) -> Vec<Rejection> {
    misses.sort_by_key(|reasons| (reasons.first().map(Rejection::distance), reasons.len()));
    let mut report: Vec<Rejection> = Vec::new();
    for rejection in misses.into_iter().flatten() {
        if !report.contains(&rejection) {
            report.push(rejection);
        }
    }
    report
}

/// `FI_PROV_ATTR_ONLY`: each provider once, usable or not, name and version only.
fn names_only(sources: &[&dyn Source], filter: &ProviderFilter) -> Result<Vec<Info>, NoProvider> {
    let shown = sources.iter().filter(|s| s.included() && filter.may_offer(core_of(s.name())));
    let infos: Vec<Info> = shown
        .map(|source| Info {
            tx: Some(TxAttr::default()),
            rx: Some(RxAttr::default()),
            ep: Some(EpAttr::default()),
            domain: Some(DomainAttr::default()),
            fabric: Some(FabricAttr {
                prov_name: Some(source.name().to_owned()),
                prov_version: source.version(),
                ..FabricAttr::default()
            }),
            ..Info::default()
        })
        .collect();
    if infos.is_empty() { Err(NoProvider::Rejected(Vec::new())) } else { Ok(infos) }
}

#[cfg(test)]
mod tests;
