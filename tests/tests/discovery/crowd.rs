//! A host with many interfaces, in a network namespace of its own.

use std::{collections::BTreeSet, fs, process::Command};

use percale_tests::{
    library,
    programs::{Running, compile},
    rig::{scratch, unshare},
    upstream,
};

use super::{DEADLINE, Fields, ask, key, offers_in, without_settings};

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
    for node in 172.23.5.5 8.8.8.8 fe80::99%vc3 fe80::99; do
        "$FIELDS" "$1" ep.type=3 domain.progress=2 node=$node service=7
        echo "end "
    done
    for server in node=10.0.0.7 domain.name=vc2 node=10.0.0.9; do
        "$FIELDS" "$1" ep.type=3 domain.progress=2 addr_format=2 service=7 $server \
            flags=0x0200000000000000
        echo "end "
    done
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
    if ask(&program, &ours, "tcp", &["version=2.5"]).is_empty() {
        eprintln!("this build offers no tcp: nothing is tried");
        return;
    }
    let answer = scratch("fields-many.txt");
    let mut command = Command::new(&unshare[0]);
    without_settings(&mut command)
        .env("FI_PROVIDER", "tcp")
        .env("FIELDS", &program)
        .env("ANSWER", &answer);
    command.args(&unshare[1..]).args(["sh", "-c", CROWDED, "crowded"]).arg(&ours);
    command.args(&upstream);
    Running::start(command, &[], DEADLINE).finish_silently("many interfaces");
    let answer = fs::read_to_string(answer).expect("the answers");
    let mut answers = answer.split("end \n").map(|answer| offers_in(answer, "tcp"));
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
    let link_local = places(&next());
    assert!(link_local.len() == 1 && link_local[0].starts_with("vc3 fe80"), "{link_local:?}");
    assert!(next().is_empty(), "a link-local address without its link");
    assert_eq!(places(&next()), ["net0 0a000007"]);
    assert_eq!(places(&next()), ["vc2 0a140201"]);
    assert!(next().is_empty(), "an address of nobody here");
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
