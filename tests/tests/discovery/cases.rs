//! The requests that are compared, and the differences that are allowed.

use super::{Fields, number};

/// A request: its name, and the arguments of `c/fields.c`.
pub(super) type Case = (&'static str, &'static [&'static str]);

/// A field that may differ where the last function, given the case, upstream's offer and ours, says
/// so; and why it may.
pub(super) type Allowed = (&'static str, &'static str, fn(&str, &Fields, &Fields) -> bool);

/// Lists that programs are known to make, and what else has an answer of its own.
pub(super) const CASES: &[Case] = &[
    (LISTING, &["version=2.5"]),
    ("Intel MPI lists", &["version=0.0"]),
    (
        "MPICH asks for every order of atomics",
        &[
            "version=2.5",
            "caps=0x0b1a000000013f0e",
            "mode=0x0b10000000000000",
            "tx.op_flags=0x11000000",
            "rx.op_flags=0x01000000",
            "tx.msg_order=0xf000000100",
            "rx.msg_order=0x100",
            "ep.type=3",
            "ep.mem_tag_format=0x00c000007fffffff",
            "domain.threading=3",
            "domain.progress=2",
            "domain.resource_mgmt=2",
            "domain.av_type=2",
            "domain.mr_mode=0x200",
            "domain.cq_data_size=4",
        ],
    ),
    (
        "MPICH takes the order that is offered",
        &[
            "version=2.5",
            "caps=0x0b1a000000013f0e",
            "mode=0x0b10000000000000",
            "tx.op_flags=0x11000000",
            "rx.op_flags=0x01000000",
            "tx.msg_order=0xbb000001b7",
            "rx.msg_order=0x100",
            "ep.type=3",
            "ep.mem_tag_format=0x00c000007fffffff",
            "domain.threading=3",
            "domain.progress=2",
            "domain.resource_mgmt=2",
            "domain.av_type=2",
            "domain.mr_mode=0x200",
            "domain.cq_data_size=4",
        ],
    ),
    (
        "Intel MPI",
        &[
            "version=1.8",
            "caps=0x0b1a000000013f0e",
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
        "Open MPI for matching, with device memory",
        &[
            "version=1.18",
            "caps=0x081880000000000a",
            "mode=0x0810000000000000",
            "tx.op_flags=0x01000000",
            "rx.op_flags=0x01000000",
            "tx.msg_order=0x100",
            "rx.msg_order=0x100",
            "ep.type=3",
            "domain.threading=1",
            "domain.resource_mgmt=2",
            "domain.av_type=1",
            "domain.mr_mode=0x420",
            "domain.cq_data_size=4",
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
            "ep.protocol=25",
            "domain.threading=1",
            "domain.progress=2",
            "domain.resource_mgmt=2",
            "domain.mr_mode=0x274",
            "fabric.prov_name=tcp",
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
            "ep.protocol=25",
            "domain.name=lo",
            "domain.progress=2",
            "domain.mr_mode=0x274",
        ],
    ),
    (
        "NIXL",
        &[
            "version=1.18",
            "caps=0x0018000000000006",
            "mode=0x0800000000000000",
            "ep.type=3",
            "domain.threading=4",
            "domain.mr_mode=0x24",
            "fabric.prov_name=tcp",
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
    ("senders", &["version=2.5", "caps=0x802", "ep.type=3", "domain.progress=2"]),
    ("sources", &["version=2.5", "caps=0x0200000000000002", "domain.progress=2"]),
    ("registration before 1.5", &["version=1.4", "ep.type=3", "domain.progress=2"]),
    (
        "scalable registration",
        &["version=1.4", "ep.type=3", "domain.mr_mode=2", "domain.progress=2"],
    ),
    ("basic registration", &["version=2.5", "ep.type=3", "domain.mr_mode=1", "domain.progress=2"]),
    ("connections", &["version=2.5", "ep.type=1", "domain.progress=2"]),
    ("tags on connections", &["version=2.5", "ep.type=1", "caps=8", "domain.progress=2"]),
    (
        "a shared context",
        &["version=2.5", "ep.type=1", "ep.rx_ctx_cnt=0xffffffffffffffff", "domain.progress=2"],
    ),
    (
        "tags in a shared context",
        &[
            "version=2.5",
            "ep.type=1",
            "caps=8",
            "ep.rx_ctx_cnt=0xffffffffffffffff",
            "domain.progress=2",
        ],
    ),
    ("datagrams", &["version=2.5", "ep.type=2"]),
    ("a protocol of others", &["version=2.5", "ep.type=3", "ep.protocol=6"]),
    ("many sends", &["version=2.5", "ep.type=3", "tx.size=65536", "domain.progress=2"]),
    ("too many sends", &["version=2.5", "ep.type=3", "tx.size=65537"]),
    ("too long an inject", &["version=2.5", "ep.type=3", "tx.inject_size=129"]),
    ("too many pieces", &["version=2.5", "ep.type=3", "tx.iov_limit=5"]),
    ("IPv6", &["version=2.5", "ep.type=3", "addr_format=3", "domain.progress=2"]),
    ("either family", &["version=2.5", "ep.type=3", "addr_format=1", "domain.progress=2"]),
    ("loopback by name", &["version=2.5", "domain.name=lo", "domain.progress=2"]),
    (
        "a target on this host",
        &["version=2.5", "node=127.0.0.1", "service=4711", "ep.type=1", "domain.progress=2"],
    ),
    (
        "a target over IPv6",
        &["version=2.5", "node=::1", "service=4711", "ep.type=3", "domain.progress=2"],
    ),
    (
        SERVER,
        &[
            "version=2.5",
            "service=4711",
            "flags=0x0200000000000000",
            "ep.type=1",
            "domain.progress=2",
        ],
    ),
    ("a name without an address", &["version=2.5", "node=no such host", "ep.type=3"]),
    ("a source without a name", &["version=2.5", "flags=0x0200000000000000", "ep.type=3"]),
];

const LISTING: &str = "the listing";
const SERVER: &str = "a server of connections";

/// Programs that state no wish about it.
const NO_PROGRESS: &[&str] = &[LISTING, "Intel MPI lists", "Open MPI for matching", "NIXL", "NCCL"];
const NO_HINTS: &[&str] = &[LISTING, "Intel MPI lists"];

pub(super) const ALLOWED: &[Allowed] = &[
    ("fabric.prov_version", "each library's own version", |_, _, _| true),
    (
        "domain.progress",
        "automatic progress is a thread, which is for who asks for it",
        |case, _, _| NO_PROGRESS.contains(&case),
    ),
    ("domain.control_progress", "follows domain.progress", |case, _, _| {
        NO_PROGRESS.contains(&case)
    }),
    (
        "tx.op_flags",
        "without hints only what can be a default: a level of completion is the program's choice",
        |case, _, _| NO_HINTS.contains(&case),
    ),
    ("rx.op_flags", "as tx.op_flags: multi-receive is the program's choice", |case, _, _| {
        NO_HINTS.contains(&case)
    }),
    ("rx.caps", "a side has no more than the whole", |_, theirs, mine| {
        number(mine, "rx.caps") == number(theirs, "rx.caps") & number(theirs, "caps")
    }),
    ("domain.caps", "nor has a domain", |_, theirs, mine| {
        number(mine, "domain.caps") == number(theirs, "domain.caps") & number(theirs, "caps")
    }),
];

/// Cases in which we offer more, behind what upstream offers.
pub(super) const MORE: &[(&str, &str)] = &[
    (SERVER, "IPv6, and each interface at that port for programs that name a domain"),
    ("Open MPI for one-sided operations", ATOMICS),
    ("OpenSHMEM", ATOMICS),
];

const ATOMICS: &str =
    "atomic operations, which upstream has in a layer above only, of another wire";
