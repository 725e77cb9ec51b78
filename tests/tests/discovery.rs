//! What the tcp provider offers, beside what an upstream library offers for the same request on the
//! same host. Processes of one job may run on either and have to choose alike, so every field is
//! compared, and each difference that is allowed stands here with its reason.
//!
//! Upstream is what `PERCALE_UPSTREAM_LIB` names, else the library inside the MPICH wheel of
//! `build/venv`; without one nothing is compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
    time::Duration,
};

use percale_tests::{
    library,
    programs::{Running, compile},
    rig::{scratch, unshare},
    upstream,
};

const DEADLINE: Duration = Duration::from_secs(60);

/// A request: its name, and the arguments of `c/fields.c`.
type Case = (&'static str, &'static [&'static str]);

/// A field that may differ where the last function, given the case, upstream's offer and ours, says
/// so; and why it may.
type Allowed = (&'static str, &'static str, fn(&str, &Fields, &Fields) -> bool);

/// Lists that programs are known to make, and what else has an answer of its own.
const CASES: &[Case] = &[
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

const ALLOWED: &[Allowed] = &[
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
const MORE: &[(&str, &str)] =
    &[(SERVER, "IPv6, and each interface at that port for programs that name a domain")];

#[test]
fn tcp_offers_what_upstream_offers() {
    let Some(upstream) = upstream() else {
        eprintln!("there is no upstream library: nothing to compare with");
        return;
    };
    let ours = library();
    let program = scratch("fields");
    compile("fields.c", &program);
    if ask(&program, &ours, &["version=2.5"]).is_empty() {
        eprintln!("this build offers no tcp: nothing to compare");
        return;
    }
    let mut wrong = String::new();
    for (name, arguments) in CASES {
        let theirs = ask(&program, &upstream, arguments);
        let mut own = ask(&program, &ours, arguments);
        for (key, offer) in &theirs {
            match own.remove(key) {
                None => wrong += &format!("{name}: {key:?} is missing\n"),
                Some(mine) => compare(name, key, offer, &mine, &mut wrong),
            }
        }
        if !MORE.iter().any(|(case, _)| case == name) {
            for key in own.keys() {
                wrong += &format!("{name}: {key:?} is not upstream's\n");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// What tells offers of one answer apart: type, receive contexts, tags, interface, addresses.
type Key = [String; 6];
type Fields = BTreeMap<String, String>;

fn compare(name: &str, key: &Key, theirs: &Fields, mine: &Fields, wrong: &mut String) {
    for (field, value) in theirs {
        let own = mine.get(field).map_or("nothing", String::as_str);
        let allowed =
            ALLOWED.iter().any(|(allowed, _, holds)| allowed == field && holds(name, theirs, mine));
        if own != value && !allowed {
            *wrong += &format!("{name}: {key:?}: {field} is {own}, upstream {value}\n");
        }
    }
}

fn number(offer: &Fields, field: &str) -> u64 {
    let text = offer[field].trim_start_matches("0x");
    u64::from_str_radix(text, 16).expect("a number")
}

/// The offers of tcp itself, without layers above it; none for a call that fails.
fn ask(program: &Path, library: &Path, arguments: &[&str]) -> BTreeMap<Key, Fields> {
    let mut command = Command::new(program);
    without_settings(&mut command).arg(library);
    let answer = Running::start(command, arguments, DEADLINE).output("fields");
    let mut offers = BTreeMap::new();
    for fields in offers_in(&answer) {
        let twin = offers.insert(key(&fields), fields);
        assert!(twin.is_none(), "an offer twice: {twin:?}");
    }
    offers
}

/// Settings of the user are not those of the test.
fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FI_")) {
        command.env_remove(name);
    }
    command.env("FI_PROVIDER", "tcp")
}

fn offers_in(answer: &str) -> Vec<Fields> {
    let fields = |text: &str| -> Fields {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let all = answer.split("info ").skip(1).map(fields);
    all.filter(|fields| fields["fabric.prov_name"] == "tcp").collect()
}

fn key(fields: &Fields) -> Key {
    ["ep.type", "ep.rx_ctx_cnt", "ep.mem_tag_format", "domain.name", "src_addr", "dest_addr"]
        .map(|name| fields[name].clone())
}

/// A host with more interfaces than anybody looks through: a cable with the default route, another
/// one, a bridge that claims to be fast, pairs of containers, what is down and what has no carrier.
const CROWDED: &str = r#"
    set -e
    # More than a pipe holds.
    exec > "$ANSWER"
    PATH=$PATH:/usr/sbin:/sbin
    for on in all default; do echo 0 > /proc/sys/net/ipv6/conf/$on/accept_dad; done
    ip link set lo up
    pair() { # name number address
        ip link add "$1" type veth peer name "p$1"
        ip addr add "$3" dev "$1"
        ip link set "$1" up
        ip link set "p$1" up
    }
    for n in 1 2 3 4 5 6; do
        ip link add "br$n" type bridge
        ip addr add "172.2$n.0.1/16" dev "br$n"
        ip link set "br$n" up
        pair "vc$n" "$n" "10.20.$n.1/24"
    done
    pair net0 0 10.0.0.1/24
    ip addr add 10.0.0.7/24 dev net0
    ip addr add 10.9.0.7/32 dev net0 label net0:1
    ip -6 addr add fd01::1/64 dev net0 nodad
    ip route add default via 10.0.0.2
    ip link add down0 type veth peer name pdown0
    ip addr add 10.1.0.1/24 dev down0
    ip link add idle0 type veth peer name pidle0
    ip addr add 10.2.0.1/24 dev idle0
    ip link set idle0 up
    for library; do
        "$FIELDS" "$library" ep.type=3 domain.progress=2
        echo "end "
    done
    for list in net0 '^br*,vc*' 'br2,10.20.0.0/16,^vc1' idle0 bogus; do
        FI_TCP_IFACE=$list "$FIELDS" "$1" ep.type=3 domain.progress=2 addr_format=2
        echo "end "
    done
    "$FIELDS" "$1" ep.type=3 node=172.23.5.5 domain.progress=2
    echo "end "
    "$FIELDS" "$1" ep.type=3 node=8.8.8.8 domain.progress=2
"#;

#[test]
fn many_interfaces() {
    let ip = Command::new("ip").arg("-V").output().is_ok_and(|output| output.status.success());
    let Some(unshare) = unshare(&["--net"]).filter(|_| ip) else {
        eprintln!("no network namespace, or no ip: nothing is tried");
        return;
    };
    let (ours, upstream) = (library(), upstream());
    let program = scratch("fields-many");
    compile("fields.c", &program);
    if ask(&program, &ours, &["version=2.5"]).is_empty() {
        eprintln!("this build offers no tcp: nothing is tried");
        return;
    }
    let answer = scratch("fields-many.txt");
    let mut command = Command::new(&unshare[0]);
    without_settings(&mut command).env("FIELDS", &program).env("ANSWER", &answer);
    command.args(&unshare[1..]).args(["sh", "-c", CROWDED, "crowded"]).arg(&ours);
    command.args(&upstream);
    Running::start(command, &[], DEADLINE).finish_silently("many interfaces");
    let answer = fs::read_to_string(answer).expect("the answers");
    let mut answers = answer.split("end \n").map(offers_in);
    let mut next = || answers.next().expect("an answer");

    let listing = next();
    if upstream.is_some() {
        let set = |offers: &[Fields]| offers.iter().map(key).collect::<BTreeSet<_>>();
        assert_eq!(set(&listing), set(&next()), "the same addresses, in an order of our own");
    }
    let all = places(&listing);
    assert_eq!(all[..3], ["net0 0a000001", "net0:1 0a090007", "net0 0a000007"]);
    assert!(all[3].starts_with("net0 fd01"), "{all:?}");
    assert_eq!(all[4..6], ["vc1 0a140101", "vc2 0a140201"]);
    assert_eq!(all[10..12], ["br1 ac150001", "br2 ac160001"]);
    assert!(all[16].contains(" fe80"), "{all:?}");
    assert!(all.iter().rev().take(2).all(|place| place.starts_with("lo ")), "{all:?}");

    assert_eq!(places(&next()), ["net0 0a000001", "net0:1 0a090007", "net0 0a000007"]);
    let rest = ["net0 0a000001", "net0:1 0a090007", "net0 0a000007", "lo 7f000001"];
    assert_eq!(places(&next()), rest);
    let chosen = places(&next());
    assert_eq!(chosen[..2], ["vc2 0a140201", "vc3 0a140301"]);
    assert_eq!(chosen.last().map(String::as_str), Some("br2 ac160001"));
    assert_eq!(chosen.len(), 6);
    assert!(next().is_empty() && next().is_empty(), "no carrier, and no interface");
    assert_eq!(places(&next())[..2], ["br3 ac170001", "net0 0a000001"], "the route's comes first");
    assert_eq!(places(&next())[..2], ["net0 0a000001", "net0:1 0a090007"]);
}

/// Interfaces and IP addresses of offers.
fn places(offers: &[Fields]) -> Vec<String> {
    let place = |fields: &Fields| {
        let (name, source) = (&fields["domain.name"], &fields["src_addr"]);
        let ip = if source.len() == 32 { &source[8..16] } else { &source[16..48] };
        format!("{name} {ip}")
    };
    offers.iter().map(place).collect()
}
