//! The same for `tcp;ofi_rxm`, which upstream makes of its connected endpoints.

use super::{
    Fields,
    cases::{Allowed, Case},
    number,
};

pub(super) const NAME: &str = "tcp;ofi_rxm";

/// Requests, of programs that name it and others.
pub(super) const CASES: &[Case] = &[
    (LISTING, &["version=2.5"]),
    ("Intel MPI lists", &["version=0.0"]),
    ("without a wish", &["version=2.5", "ep.type=3", "domain.progress=2"]),
    (
        "Intel MPI",
        &[
            "version=1.6",
            "caps=0x0018020000013f0e",
            "mode=0x0b10000000000000",
            "addr_format=2",
            "ep.type=3",
            "domain.threading=3",
            "domain.progress=2",
            "domain.resource_mgmt=2",
            "domain.av_type=1",
            "domain.mr_mode=0x70",
        ],
    ),
    (
        "Mercury",
        &[
            "version=1.20",
            "caps=0x080000000001000e",
            "mode=0x0a00000000000000",
            "addr_format=2",
            "tx.op_flags=0x04000000",
            "tx.size=512",
            "rx.size=512",
            "ep.type=3",
            "ep.protocol=11",
            "domain.threading=1",
            "domain.progress=2",
            "domain.resource_mgmt=2",
            "domain.mr_mode=0x274",
            "fabric.prov_name=tcp;ofi_rxm",
        ],
    ),
    (
        "Mercury on loopback, at a port",
        &[
            "version=1.20",
            "node=127.0.0.1",
            "service=4711",
            "flags=0x0204000000000000",
            "caps=0x080000000001000e",
            "mode=0x0a00000000000000",
            "addr_format=2",
            "ep.type=3",
            "ep.protocol=11",
            "domain.name=lo",
            "domain.progress=2",
            "domain.mr_mode=0x274",
        ],
    ),
    (
        "Open MPI for matching",
        &[
            "version=1.18",
            "caps=0x081800000000000a",
            "mode=0x0810000000000000",
            "tx.op_flags=0x01000000",
            "rx.op_flags=0x01000000",
            "tx.msg_order=0x100",
            "rx.msg_order=0x100",
            "ep.type=3",
            "domain.threading=1",
            "domain.resource_mgmt=2",
            "domain.av_type=1",
            "domain.mr_mode=0x20",
            "domain.cq_data_size=4",
        ],
    ),
    (
        "Open MPI for one-sided operations",
        &[
            "version=1.18",
            "caps=0x14",
            "mode=0x0810000000000000",
            "tx.op_flags=0x11000000",
            "tx.iov_limit=1",
            "rx.op_flags=0x01000000",
            "rx.iov_limit=1",
            "ep.type=3",
            "domain.threading=1",
            "domain.mr_mode=0x270",
        ],
    ),
    (
        "NCCL",
        &[
            "version=1.18",
            "caps=0x001800000000000a",
            "mode=0x0810000000000000",
            "tx.msg_order=0x100",
            "rx.msg_order=0x100",
            "ep.type=3",
            "domain.threading=1",
            "domain.mr_mode=0x274",
        ],
    ),
    ("OpenSHMEM", &["version=1.5", "caps=0x14", "ep.type=3", "domain.progress=1"]),
    ("automatic progress", &["version=2.5", "ep.type=3", "domain.progress=1"]),
    ("messages alone", &["version=2.5", "caps=2", "ep.type=3", "domain.progress=2"]),
    ("one-sided alone", &["version=2.5", "caps=4", "ep.type=3", "domain.progress=2"]),
    ("registration before 1.5", &["version=1.4", "ep.type=3", "domain.progress=2"]),
    (
        "scalable registration",
        &["version=1.4", "ep.type=3", "domain.mr_mode=2", "domain.progress=2"],
    ),
    ("connections", &["version=2.5", "ep.type=1", "domain.progress=2"]),
    ("the protocol of tcp", &["version=2.5", "ep.type=3", "ep.protocol=25"]),
    ("most sends", &["version=2.5", "ep.type=3", "tx.size=16384", "domain.progress=2"]),
    ("too many sends", &["version=2.5", "ep.type=3", "tx.size=16385"]),
    ("most receives", &["version=2.5", "ep.type=3", "rx.size=65536", "domain.progress=2"]),
    ("too many receives", &["version=2.5", "ep.type=3", "rx.size=65537"]),
    ("an inject", &["version=2.5", "ep.type=3", "tx.inject_size=100", "domain.progress=2"]),
    ("the longest", &["version=2.5", "ep.type=3", "tx.inject_size=16384", "domain.progress=2"]),
    ("too long an inject", &["version=2.5", "ep.type=3", "tx.inject_size=16385"]),
    ("too many pieces", &["version=2.5", "ep.type=3", "tx.iov_limit=5"]),
    ("IPv6", &["version=2.5", "ep.type=3", "addr_format=3", "domain.progress=2"]),
    (
        "a target over IPv6",
        &["version=2.5", "node=::1", "service=4711", "ep.type=3", "domain.progress=2"],
    ),
];

const LISTING: &str = "the listing";
/// Programs that state no wish about progress.
const NO_PROGRESS: &[&str] = &[
    LISTING,
    "Intel MPI lists",
    "Open MPI for matching",
    "Open MPI for one-sided operations",
    "NCCL",
];
/// Programs that ask to reach other hosts.
const OTHER_HOSTS: &[&str] = &["Intel MPI", "Open MPI for matching", "NCCL"];
const NO_HINTS: &[&str] = &[LISTING, "Intel MPI lists"];

/// Beside those of tcp.
pub(super) const ALLOWED: &[Allowed] = &[
    (
        "caps",
        "that of providers for other providers is none for programs, other hosts are not reached by \
         loopback, and whoever asks for nothing may ask for sources, too",
        |case, theirs, mine| {
            let (theirs, mine) = (number(theirs, "caps"), number(mine, "caps"));
            let source = if NO_HINTS.contains(&case) { SOURCE } else { 0 };
            mine | REMOTE_COMM == (theirs | source | REMOTE_COMM) & !PEER
        },
    ),
    ("rx.caps", "as above", |case, theirs, mine| {
        let source = if NO_HINTS.contains(&case) { SOURCE } else { 0 };
        number(mine, "rx.caps") == (number(theirs, "rx.caps") | source) & number(mine, "caps")
    }),
    ("domain.caps", "as above", |_, theirs, mine| {
        number(mine, "domain.caps") == number(theirs, "domain.caps") & number(mine, "caps")
    }),
    (
        "domain.control_progress",
        "upstream's connected endpoints have some of their own",
        |case, _, _| NO_PROGRESS.contains(&case),
    ),
];

/// Cases in which we offer more, behind what upstream offers.
pub(super) const MORE: &[(&str, &str)] = &[];

const PEER: u64 = 1 << 43;
const REMOTE_COMM: u64 = 1 << 52;
const SOURCE: u64 = 1 << 57;
/// What upstream puts into each tag of endpoints that leave matching to those beneath.
const OF_CONNECTIONS: &str = "0x5555555555555555";

/// Offers of upstream that we do not repeat: one more for each kind of connected endpoint beneath, of
/// which one has a protocol of its own; and loopback for those who ask to reach other hosts.
pub(super) fn is_left_out(provider: &str, case: &str, offer: &Fields) -> bool {
    let of_this_host = OTHER_HOSTS.contains(&case) && offer["domain.name"] == "lo";
    provider == NAME && (offer["ep.mem_tag_format"] == OF_CONNECTIONS || of_this_host)
}
