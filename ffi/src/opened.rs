//! SETUP. The fabrics and domains that are open, by name: discovery names them in its results, and
//! knows whether a pointer in hints is one of them without touching what it points to.

use std::sync::MutexGuard;

use fabric_core::{attr::Info, fork::ForkSafe};

use crate::abi::fid::{fid_domain, fid_fabric};

/// What an open object is called. `domain` is `None` for a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// The provider, with layers.
    pub(crate) provider: String,
    /// The fabric.
    pub(crate) fabric: String,
    /// The domain.
    pub(crate) domain: Option<String>,
}

struct Opened {
    /// The address that C knows the object by.
    address: usize,
    names: Names,
}

static OPENED: ForkSafe<Vec<Opened>> = ForkSafe::new(Vec::new());

/// Notes an object that has just been handed out.
pub(crate) fn add<T>(object: *const T, names: Names) {
    lock().push(Opened { address: object.expose_provenance(), names });
}

/// Forgets an object that is being closed.
pub(crate) fn remove<T>(object: *const T) {
    lock().retain(|opened| opened.address != object.addr());
}

/// The fabric for an offer: the hinted one if the offer belongs to it, else the one opened first.
/// `Err` if the hint is another fabric, or none.
pub(crate) fn fabric(offer: &Info, hint: *mut fid_fabric) -> Result<*mut fid_fabric, ()> {
    find(offer, false, hint)
}

/// The domain for an offer, as [`fabric`].
pub(crate) fn domain(offer: &Info, hint: *mut fid_domain) -> Result<*mut fid_domain, ()> {
    find(offer, true, hint)
}

fn find<T>(offer: &Info, domain: bool, hint: *mut T) -> Result<*mut T, ()> {
    let opened = lock();
    let mut fitting = opened.iter().filter(|opened| opened.names.fit(offer, domain));
    if hint.is_null() {
        let first = fitting.next().map_or(0, |opened| opened.address);
        return Ok(core::ptr::with_exposed_provenance_mut(first));
    }
    fitting.find(|opened| opened.address == hint.addr()).map(|_| hint).ok_or(())
}

impl Names {
    fn fit(&self, offer: &Info, domain: bool) -> bool {
        let is = |name: Option<&str>, own: &str| name.is_some_and(|n| n.eq_ignore_ascii_case(own));
        let fabric = offer.fabric.as_ref();
        self.domain.is_some() == domain
            && is(fabric.and_then(|f| f.prov_name.as_deref()), &self.provider)
            && is(fabric.and_then(|f| f.name.as_deref()), &self.fabric)
            && self
                .domain
                .as_deref()
                .is_none_or(|own| is(offer.domain.as_ref().and_then(|d| d.name.as_deref()), own))
    }
}

/// Of this process: a child has nothing open.
fn lock() -> MutexGuard<'static, Vec<Opened>> {
    OPENED.lock_own()
}
