//! SETUP. Discovery: which offers of which providers satisfy a wish, and why the others do not.
//!
//! A provider implements [`Source`]; [`getinfo`] asks each in order, matches its offers against
//! the hints of a [`Request`] and returns those that fit, shaped as `fi_getinfo(3)` promises. What
//! does not fit leaves typed [`Rejection`]s, nearest miss first. They are returned when nothing
//! fits, kept per thread for [`last_report`], and logged at level `warn`: at once where the user's
//! choice is in the way, at the program's end where only its hints are, so that who merely probes has
//! nothing in the log.

mod filter;
mod held;
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
use rejection::Distance;
pub use rejection::{Names, Rejection, format_name};
pub use request::Request;

use crate::{
    Errno,
    attr::{
        API_VERSION, DomainAttr, EpAttr, EpType, FabricAttr, Info, PROV_VERSION, RxAttr,
        SHARED_CONTEXT, TxAttr, Version,
    },
    flags::Flags,
    log::Subsys,
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

    /// Capabilities that connected endpoints have only if they receive from a context that they
    /// share, and are offered with to programs that ask for one.
    fn gained_by_sharing(&self) -> Flags {
        Flags::empty()
    }

    /// Whether asking it touches devices. Such a provider is not asked against the user's will, not even
    /// to tell what it would offer.
    fn touches_devices(&self) -> bool {
        false
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
    /// What `fi_getinfo` returns. A provider that could not look, for want of something, might have
    /// fitted.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Version(_) => Errno::ENOSYS,
            Self::Rejected(list) => {
                list.iter().find_map(|rejection| rejection.shortage).unwrap_or(Errno::ENODATA)
            }
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
    let cores = Cores::of(sources);
    warn_of_strangers(&cores);
    if let Some(stranger) = filter.strangers(&cores.known).first() {
        misses.push(Miss::of(vec![Rejection::no_such(FILTER, stranger, &cores.included)]));
    }
    if let Some(layer) = filter.bare_layer() {
        let names: Vec<&str> = sources.iter().map(|source| source.name()).collect();
        misses.push(Miss::of(vec![Rejection::bare_layer(layer, &names)]));
    }
    let wish = name_hint(request).map(NameWish::parse).unwrap_or_default();
    if let Some(stranger) = wish.strangers(&cores.known).first() {
        misses.push(Miss::of(vec![Rejection::no_such(NAME_HINT, stranger, &cores.included)]));
    }
    let mut hidden = Vec::new();
    for source in sources {
        // Another name than those that were asked for is no news.
        let core = core_of(source.name());
        if !wish.may_take(core) {
            continue;
        }
        // Nor is what this release lacks, unless it is asked for.
        if !source.included() && !wish.names(core) && !filter.names(core) {
            continue;
        }
        if !filter.may_offer(core) {
            hidden.push(*source);
            continue;
        }
        match probe(*source, request) {
            Ok(offers) => collect(*source, offers, request, filter, &mut found, &mut misses),
            Err(rejection) => misses.push(Miss::of(vec![*rejection])),
        }
    }
    for source in hidden {
        let distance = if found.is_empty() && !filter.hides() && !source.touches_devices() {
            hidden_distance(probe(source, request).unwrap_or_default().iter(), request)
        } else {
            Distance::Name
        };
        misses.push(Miss { distance, reasons: vec![Rejection::hidden(source.name(), filter)] });
    }
    let report = nearest_first(misses);
    // Why the others do not fit is news only where none does.
    if found.is_empty() {
        held::tell(&report);
    } else {
        held::forget();
        for rejection in &report {
            crate::info!(&rejection.provider, Subsys::Core, "{rejection}");
        }
    }
    REPORT.set(report.clone());
    if found.is_empty() { Err(NoProvider::Rejected(report)) } else { Ok(found) }
}

/// The provider that a name stands for without its layers.
fn core_of(name: &str) -> &str {
    name.split(';').next().unwrap_or(name)
}

/// Providers without their layers.
#[derive(Debug)]
struct Cores<'a> {
    /// Whose names mean something.
    known: Vec<&'a str>,
    /// Those of them that this release has.
    included: Vec<&'a str>,
}

impl<'a> Cores<'a> {
    fn of(sources: &[&'a dyn Source]) -> Self {
        let cores = || sources.iter().filter(|source| core_of(source.name()) == source.name());
        Self {
            known: cores().map(|source| source.name()).collect(),
            included: cores().filter(|s| s.included()).map(|source| source.name()).collect(),
        }
    }
}

/// Names in variables that no provider has, once per process.
fn warn_of_strangers(cores: &Cores<'_>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (known, speaker) in [(&known::PROVIDER, None), (&known::LOG_PROV, Some("core"))] {
            let filter = known.text().map(|text| ProviderFilter::parse(&text)).unwrap_or_default();
            // The library itself speaks as one, too.
            let names: Vec<&str> = cores.known.iter().copied().chain(speaker).collect();
            for stranger in filter.strangers(&names) {
                let offered: Vec<&str> = cores.included.iter().copied().chain(speaker).collect();
                crate::log::of_settings(format_args!(
                    "{}: there is no provider {stranger:?} here, but {}",
                    known.name,
                    offered.join(", ")
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
    source: &dyn Source,
    offers: Vec<Info>,
    request: &Request<'_>,
    filter: &ProviderFilter,
    found: &mut Vec<Info>,
    misses: &mut Vec<Miss>,
) {
    for offer in offers {
        let name = offer.fabric.as_ref().and_then(|f| f.prov_name.as_deref()).unwrap_or_default();
        if !filter.shows(name) {
            let distance = hidden_distance([&offer], request);
            misses.push(Miss { distance, reasons: vec![Rejection::hidden(name, filter)] });
            continue;
        }
        match satisfy(&offer, request) {
            Ok(info) => found.push(info),
            Err(mut reasons) => {
                advise_sharing(source.gained_by_sharing(), &offer, request, &mut reasons);
                misses.push(Miss::of(reasons));
            }
        }
    }
}

/// Where a shared receive context brings what is missed, that is the way out.
fn advise_sharing(gained: Flags, offer: &Info, request: &Request<'_>, reasons: &mut [Rejection]) {
    let Some(hints) = request.hints else { return };
    let connected = offer
        .ep
        .as_ref()
        .is_some_and(|ep| ep.ep_type == EpType::Msg as u32 && ep.rx_ctx_cnt != SHARED_CONTEXT);
    let caps = |info: &Info, attribute| match attribute {
        "caps" => Some(info.caps),
        "tx_attr.caps" => info.tx.as_ref().map(|tx| tx.caps),
        "rx_attr.caps" => info.rx.as_ref().map(|rx| rx.caps),
        _ => None,
    };
    for reason in reasons.iter_mut().filter(|_| connected) {
        let wanted = caps(hints, reason.attribute).unwrap_or_default();
        let missed = wanted - caps(offer, reason.attribute).unwrap_or_default();
        if !missed.is_empty() && gained.contains(missed) {
            reason.fix = format!(
                "receive from a shared context (ep_attr.rx_ctx_cnt = FI_SHARED_CONTEXT), which has \
                 {}, or use FI_EP_RDM",
                Names("FI_", missed)
            );
        }
    }
}

/// An offer that is not made, or a provider that makes none.
#[derive(Debug)]
struct Miss {
    distance: Distance,
    reasons: Vec<Rejection>,
}

impl Miss {
    /// One that is as far as its first reason.
    fn of(reasons: Vec<Rejection>) -> Self {
        let distance = reasons.first().map_or(Distance::Away, Rejection::distance);
        Self { distance, reasons }
    }
}

/// What only the variable hides is as near as its value; what would not fit without it either is
/// furthest away.
fn hidden_distance<'a>(
    offers: impl IntoIterator<Item = &'a Info>,
    request: &Request<'_>,
) -> Distance {
    let fits = offers.into_iter().any(|offer| satisfy(offer, request).is_ok());
    if fits { Distance::Mistake } else { Distance::Beyond }
}

/// An offer that fails in one point is nearer than one that fails in many, and further away is what
/// no hint can bring. Several offers of a provider often fail alike; each reason is told once.
fn nearest_first(mut misses: Vec<Miss>) -> Vec<Rejection> {
    misses.sort_by_key(|miss| (miss.distance, miss.reasons.len()));
    let mut report: Vec<Rejection> = Vec::new();
    for rejection in misses.into_iter().flat_map(|miss| miss.reasons) {
        match report.iter_mut().find(|told| told.is_like(&rejection)) {
            Some(told) => told.add_domains(rejection.domains),
            None => report.push(rejection),
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
