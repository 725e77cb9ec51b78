"""The hosts that have the devices, and what starts a program on one of them.

One host has a device of each kind, on a netdev of its own. Two hosts, a and b, are joined by a
cable; each has one device, a host name, System V objects and a /dev/shm of its own.
"""

import pathlib
import shlex
import subprocess

import devices
import processes
from devices import ADDRESS, ADDRESS6, Broken, command

NAMES = ("a", "b")
PROGRAMS = pathlib.Path("/run/vm/bin")
# The port that packets of RoCE v2 go to, as /proc/net/udp has it.
ROCE = ":12B7 "


class Host:
    """A host as its programs see it."""

    def __init__(self, variables, enter=()):
        # Its device, addresses and so on, for the environment.
        self.variables = variables
        # What starts a command there.
        self.enter = list(enter)


class Network:
    """All hosts by name, and what every program has in its environment."""

    def __init__(self, hosts, variables):
        self.hosts = hosts
        release = pathlib.Path("/proc/sys/kernel/osrelease").read_text(encoding="ascii").strip()
        self.variables = {"VM_HOSTS": str(len(hosts)), "VM_KERNEL": release, **variables}


def make(count, kinds, mtu):
    """Makes the hosts, with devices of these kinds."""
    devices.ip(["link set lo up"])
    network = one(kinds, mtu) if count == 1 else two(kinds[0], mtu)
    for device in pathlib.Path("/dev/infiniband").iterdir():
        device.chmod(0o666)
    return network


def one(kinds, mtu):
    """One host. Programs that know of one device use the first."""
    first, every = {}, {}
    for number, kind in enumerate(kinds, 1):
        netdev, device = f"net{number}", f"{kind}0"
        devices.ip([f"link add {netdev} type dummy"])
        devices.address(netdev, number, mtu)
        devices.add(device, kind, netdev)
        found = devices.variables(device, netdev, number)
        first = first or found
        every |= prefixed(found, kind)
    first |= {"VM_PEER": first["VM_ADDR"], "VM_PEER6": first["VM_ADDR6"]}
    return Network({"a": Host(first)}, first | every)


def two(kind, mtu):
    """Two hosts, each with a device on its end of the cable."""
    apart = kind == "rxe" and apart_for_rxe()
    if not apart:
        devices.ip(["link add veth-a type veth peer name veth-b"])
    enter = {name: ["ip", "netns", "exec", name] if apart else [] for name in NAMES}
    for number, name in enumerate(NAMES, 1):
        devices.address(f"veth-{name}", number, mtu, enter[name])
    if not apart:
        routes()
    every, found = {"VM_NETNS": "own" if apart else "one"}, {}
    for number, name in enumerate(NAMES, 1):
        netdev, device = f"veth-{name}", f"{kind}_{name}"
        devices.add(device, kind, netdev, enter[name])
        enter[name] = namespaces(name, apart)
        found[name] = devices.variables(device, netdev, number, enter[name])
        every |= prefixed(found[name], name)
    hosts = {}
    for name, peer in zip(NAMES, reversed(NAMES)):
        other = {"VM_PEER": found[peer]["VM_ADDR"], "VM_PEER6": found[peer]["VM_ADDR6"]}
        hosts[name] = Host({**found[name], **other, "VM_HOST": name}, enter[name])
    write_programs(hosts)
    return Network(hosts, every)


def prefixed(variables, which):
    """Names that say which host or kind it is: `VM_A_ADDR` for `VM_ADDR`."""
    return {f"VM_{which.upper()}_{name[3:]}": value for name, value in variables.items()}


def apart_for_rxe():
    """Puts the ends of a cable into network namespaces of their own, if rxe can live there.

    In older kernels it receives packets in the first namespace only, wherever its netdev is. Then
    nothing is left of them.
    """
    devices.ip(
        [
            *("netns add a", "netns add b", "link add veth-a type veth peer name veth-b"),
            *("link set veth-a netns a", "link set veth-b netns b"),
        ]
    )
    for name in NAMES:
        devices.ip(["link set lo up"], ["ip", "netns", "exec", name])
    enter = ["ip", "netns", "exec", "a"]
    try:
        devices.add("trial", "rxe", "veth-a", enter)
        able = ROCE in command("cat", "/proc/net/udp", enter=enter)
        command("rdma", "link", "delete", "trial", enter=enter)
    except Broken:
        able = False
    if not able:
        devices.ip(["link delete veth-a"], enter)
        devices.ip(["netns delete a", "netns delete b"])
    return able


def routes():
    """Sends what goes between two addresses of one namespace over the cable that joins them.

    A packet to an address of this host's own is delivered at once, as the rules have it that come
    first; here that is left to those that have come in through the cable.
    """
    for netdev in ("all", "veth-a", "veth-b"):
        settings = pathlib.Path("/proc/sys/net/ipv4/conf") / netdev
        for name, value in (
            ("accept_local", "1"),
            ("rp_filter", "0"),
            # Each end answers for its own address only.
            ("arp_ignore", "1"),
            ("arp_announce", "2"),
        ):
            (settings / name).write_text(value, encoding="ascii")
    for family, pattern in (("-4", ADDRESS), ("-6", ADDRESS6)):
        a, b = pattern.format(1), pattern.format(2)
        rules = [
            *("iif veth-a lookup local", "iif veth-b lookup local"),
            # A host talks to itself without the cable.
            *(f"from {a} to {a} lookup local", f"from {b} to {b} lookup local"),
            *(f"from {a} to {b} lookup 101", f"from {b} to {a} lookup 102"),
            # What has no address of its own yet gets that of the other host.
            *(f"to {b} lookup 101", f"to {a} lookup 102"),
            "lookup local",
        ]
        lines = [
            f"route add {b} dev veth-a src {a} table 101",
            f"route add {a} dev veth-b src {b} table 102",
            *(f"rule add pref {pref} {rule}" for pref, rule in enumerate(rules, 10)),
            "rule delete pref 0",
        ]
        for netdev, other, far in (("veth-a", "veth-b", b), ("veth-b", "veth-a", a)):
            hardware = devices.read(pathlib.Path("/sys/class/net") / other / "address").strip()
            lines.append(f"neigh replace {far} lladdr {hardware} dev {netdev} nud permanent")
        devices.ip(lines, family=family)


def namespaces(name, apart):
    """Makes a host's namespaces, which a process holds; what starts a command in them."""
    script = f"hostname {name} && mount -t tmpfs -o mode=1777 shm /dev/shm && echo ready"
    holder = subprocess.Popen(
        # In a network of its own, this shows the devices of that in /sys.
        [
            *(["ip", "netns", "exec", name] if apart else []),
            *("unshare", "--uts", "--ipc", "--mount"),
            *("sh", "-c", f"{script} && exec sleep infinity"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    if holder.stdout.readline() != b"ready\n":
        raise Broken(f"host {name} has no namespaces of its own")
    processes.OWN.add(holder.pid)
    kinds = ["--uts", "--ipc", "--mount", *(["--net"] if apart else [])]
    return ["nsenter", f"--target={holder.pid}", *kinds]


def write_programs(hosts):
    """Writes `on`, which starts a program on a host, and the `ssh` that MPI's launchers call."""
    cases, names = [], []
    for name, host in hosts.items():
        settings = [f"{key}={value}" for key, value in host.variables.items()]
        # Whoever enters a mount namespace starts at its root.
        there = ["sh", "-c", 'cd "$0" && exec "$@"']
        words = shlex.join([*host.enter, "env", *settings, *there])
        cases.append(f'{name}) shift; exec {words} "$PWD" "$@" ;;\n')
        names.append(f"{host.variables['VM_ADDR']} {name}\n")
    usage = '*) echo "usage: on a|b COMMAND..." >&2; exit 125 ;;\n'
    on = f'case "$1" in\n{"".join(cases)}{usage}esac\n'
    # Options without values, the host, a command for its shell.
    ssh = 'while [ "${1#-}" != "$1" ]; do shift; done\nhost=$1\nshift\n'
    ssh += 'exec on "$host" sh -c "$*"\n'
    for name, script in (("on", on), ("ssh", ssh)):
        (PROGRAMS / name).write_text(f"#!/bin/sh\n{script}", encoding="ascii")
        (PROGRAMS / name).chmod(0o755)
    with open("/etc/hosts", "a", encoding="utf-8") as file:
        file.writelines(names)
