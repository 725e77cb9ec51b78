//! SETUP. What the environment says, in the provider's terms.

use std::time::Duration;

use fabric_core::param::{InterfaceFilter, known};

/// How long a connection may take to come up.
pub(crate) fn connect_timeout() -> Duration {
    Duration::from_secs(known::VERBS_CONNECT_TIMEOUT.size() as u64)
}

/// The interfaces to use.
pub(crate) fn interfaces() -> InterfaceFilter {
    known::VERBS_IFACE.text().and_then(|text| InterfaceFilter::parse(&text)).unwrap_or_default()
}

/// The key of the partition to use, if one is named.
pub(crate) fn pkey() -> Option<u16> {
    u16::try_from(known::VERBS_PKEY.size()).ok().filter(|key| *key != 0)
}

/// Whether memory is to be registered without being pinned.
pub(crate) fn on_demand() -> bool {
    known::VERBS_USE_ODP.truth()
}

/// The entry of the table of global identifiers that endpoints and fabrics are named by, and whether it
/// was chosen.
pub(crate) fn gid() -> (u8, bool) {
    (known::VERBS_GID_IDX.size() as u8, known::VERBS_GID_IDX.is_set())
}

/// The devices to use.
pub(crate) fn devices() -> DeviceFilter {
    known::VERBS_DEVICE_NAME.text().map(|text| DeviceFilter::parse(&text)).unwrap_or_default()
}

/// A comma list of what the names of devices begin with, or behind a `^`, do not begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceFilter {
    leaves_out: bool,
    beginnings: Vec<String>,
}

impl DeviceFilter {
    fn parse(text: &str) -> Self {
        let text = text.trim();
        let (leaves_out, list) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
        Self { leaves_out, beginnings: parts.map(str::to_owned).collect() }
    }

    /// Whether a device may be used.
    pub(crate) fn accepts(&self, name: &str) -> bool {
        let named = self.beginnings.iter().any(|beginning| name.starts_with(beginning));
        self.beginnings.is_empty() || named != self.leaves_out
    }
}

/// What is kept of registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheLimits {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

/// None, or how many.
pub(crate) fn cache() -> CacheLimits {
    let monitor = known::MR_CACHE_MONITOR.text().unwrap_or_default();
    if monitor.trim().eq_ignore_ascii_case("disabled") {
        return CacheLimits { count: 0, bytes: 0 };
    }
    CacheLimits { count: known::MR_CACHE_MAX_COUNT.size(), bytes: known::MR_CACHE_MAX_SIZE.size() }
}

/// The largest inline payload to ask devices for.
pub(crate) fn inline() -> u32 {
    match known::VERBS_INLINE_SIZE.size() {
        0 => 4096,
        size => size as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_by_name() {
        for (text, taken) in [
            ("", vec!["mlx5_0", "mlx5_1", "rxe0"]),
            ("mlx5", vec!["mlx5_0", "mlx5_1"]),
            ("mlx5_1, rxe", vec!["mlx5_1", "rxe0"]),
            ("^mlx5_0", vec!["mlx5_1", "rxe0"]),
            ("irdma", vec![]),
        ] {
            let filter = DeviceFilter::parse(text);
            let all = ["mlx5_0", "mlx5_1", "rxe0"];
            let got: Vec<&str> = all.into_iter().filter(|name| filter.accepts(name)).collect();
            assert_eq!(got, taken, "FI_VERBS_DEVICE_NAME={text:?}");
        }
    }
}
