//! SETUP. Version nodes: which struct sizes a caller was compiled with.
//!
//! A program binds `fi_getinfo`, `fi_dupinfo` and `fi_freeinfo` at the newest node of the headers
//! it was built with. The node says how long its attribute structs are, whatever interface version
//! it asks for: programs pass `fi_version()` of the library they meet at run time.

use std::sync::atomic::{AtomicU8, Ordering};

use fabric_core::attr::Version;

/// A version node that carries discovery functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "named after the nodes")]
pub enum Node {
    V1_0,
    V1_1,
    V1_2,
    V1_3,
    V1_7,
    V1_8,
    V1_9,
    V1_10,
}

/// Bytes of each struct of discovery in a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the structs")]
pub struct Sizes {
    pub info: usize,
    pub tx_attr: usize,
    pub rx_attr: usize,
    pub ep_attr: usize,
    pub domain_attr: usize,
    pub fabric_attr: usize,
}

impl Node {
    /// The caller's struct sizes.
    pub const fn sizes(self) -> Sizes {
        let (info, tx_attr, ep_attr, domain_attr) = match self {
            Self::V1_0 => (112, 72, 80, 120),
            Self::V1_1 => (112, 72, 96, 184),
            Self::V1_2 => (120, 72, 96, 184),
            Self::V1_3 => (120, 80, 96, 192),
            Self::V1_7 => (120, 80, 96, 200),
            Self::V1_8 => (120, 80, 96, 208),
            Self::V1_9 => (120, 80, 96, 224),
            Self::V1_10 => (120, 80, 104, 232),
        };
        Sizes { info, tx_attr, rx_attr: 64, ep_attr, domain_attr, fabric_attr: 32 }
    }

    /// The oldest node whose headers can ask for `version`: whoever asks for it has structs of this
    /// node's sizes at least.
    pub fn of(version: Version) -> Self {
        ALL.into_iter().find(|node| version <= node.newest_version()).unwrap_or(Self::V1_10)
    }

    /// The newest interface version whose headers bind this node.
    pub const fn newest_version(self) -> Version {
        match self {
            Self::V1_0 => Version::new(1, 4),
            Self::V1_1 => Version::new(1, 6),
            Self::V1_2 => Version::new(1, 8),
            Self::V1_3 => Version::new(1, 19),
            Self::V1_7 => Version::new(1, 22),
            Self::V1_8 => Version::new(2, 4),
            Self::V1_9 | Self::V1_10 => Version::new(2, 6),
        }
    }
}

/// The oldest node at which this process has called `fi_getinfo`.
static OLDEST: AtomicU8 = AtomicU8::new(Node::V1_10 as u8);

/// Notes that a caller with structs of `node` is present.
pub fn record(node: Node) {
    // Relaxed: the value guards no other memory, and the caller's later opens follow this call in
    // its own program order.
    OLDEST.fetch_min(node as u8, Ordering::Relaxed);
}

/// The version to size a caller's structs by, where it asked for `requested`.
///
/// Some structs grew without a new node (`fi_cq_err_entry`, `fi_mr_attr`) and the functions that
/// take them are not versioned. A caller built with old headers may still request the library's
/// own version; sizing by that would write past its struct. All callers in a process share the
/// bound of the oldest: too small only leaves the newest fields out.
pub fn sizing_version(requested: Version) -> Version {
    requested.min(oldest().newest_version())
}

/// The oldest node at which this process has called `fi_getinfo`: structs that reach a function
/// without versions are at least that long.
pub fn oldest() -> Node {
    let oldest = OLDEST.load(Ordering::Relaxed);
    ALL.into_iter().find(|node| *node as u8 == oldest).unwrap_or(Node::V1_0)
}

const ALL: [Node; 8] = [
    Node::V1_0,
    Node::V1_1,
    Node::V1_2,
    Node::V1_3,
    Node::V1_7,
    Node::V1_8,
    Node::V1_9,
    Node::V1_10,
];

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn sizes_are_those_of_the_table_of_record() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/abi/abi-compat-layout.tsv");
        let text = fs::read_to_string(path).expect("the layout table");
        let mut checked = 0;
        for row in text.lines().map(|line| line.split('\t').collect::<Vec<_>>()) {
            let node = match row[0] {
                "1.0" => Node::V1_0,
                "1.1" => Node::V1_1,
                "1.2" => Node::V1_2,
                "1.3" => Node::V1_3,
                "1.7" => Node::V1_7,
                "1.8" => Node::V1_8,
                "1.9" => Node::V1_9,
                _ => continue,
            };
            let sizes = node.sizes();
            let found = match row[1] {
                "fi_info" => sizes.info,
                "fi_tx_attr" => sizes.tx_attr,
                "fi_rx_attr" => sizes.rx_attr,
                "fi_ep_attr" => sizes.ep_attr,
                "fi_domain_attr" => sizes.domain_attr,
                "fi_fabric_attr" => sizes.fabric_attr,
                _ => continue,
            };
            assert_eq!(row[3].parse(), Ok(found), "{} at {node:?}", row[1]);
            checked += 1;
        }
        assert_eq!(checked, 7 * 6);
    }

    #[test]
    fn versions_have_the_structs_of_their_time() {
        assert_eq!(Node::of(Version(0)), Node::V1_0);
        assert_eq!(Node::of(Version::new(1, 5)), Node::V1_1);
        assert_eq!(Node::of(Version::new(2, 4)), Node::V1_8);
        assert_eq!(Node::of(Version::new(2, 6)), Node::V1_9);
        assert_eq!(Node::of(Version::new(9, 0)), Node::V1_10);
    }

    #[test]
    fn the_newest_node_has_the_full_structs() {
        use crate::abi::info::{fi_domain_attr, fi_ep_attr, fi_info, fi_tx_attr};
        let sizes = Node::V1_10.sizes();
        assert_eq!(sizes.info, size_of::<fi_info>());
        assert_eq!(sizes.tx_attr, size_of::<fi_tx_attr>());
        assert_eq!(sizes.ep_attr, size_of::<fi_ep_attr>());
        assert_eq!(sizes.domain_attr, size_of::<fi_domain_attr>());
    }
}
