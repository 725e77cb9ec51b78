"""Soft RDMA devices, and the hosts that have them.

One host has a device of each kind on a netdev of its own. Two hosts, a and b, are joined by a
cable, and `on a COMMAND` runs something on one of them.
"""

import ipaddress
import json
import pathlib
import subprocess
import time

ADDRESS = "10.99.0.{}"
ADDRESS6 = "fd99::{}"
CLASS = pathlib.Path("/sys/class/infiniband")


class Broken(Exception):
    """The VM's network cannot be made; the text says why."""


class Host:
    """A host as its programs see it."""

    def __init__(self, variables, enter=()):
        # Its device, addresses and so on, for its environment.
        self.variables = variables
        # What starts a program there, before its command.
        self.enter = list(enter)


class Network:
    """All hosts by name; where there is one, it has none."""

    def __init__(self, hosts, variables):
        self.hosts = hosts
        self.variables = {"VM_HOSTS": str(len(hosts)), "VM_KERNEL": kernel(), **variables}


def make(count, kinds, mtu):
    """Makes devices of these kinds, on one host or on two."""
    command("ip", "link", "set", "lo", "up")
    network = one(kinds, mtu) if count == 1 else two(kinds, mtu)
    for device in pathlib.Path("/dev/infiniband").iterdir():
        device.chmod(0o666)
    return network


def one(kinds, mtu):
    """One host. Programs that know of one device use the first."""
    first, every = {}, {}
    for number, kind in enumerate(kinds, 1):
        netdev = f"net{number}"
        command("ip", "link", "add", netdev, "type", "dummy")
        address(netdev, number, mtu)
        device = f"{kind}0"
        command("rdma", "link", "add", device, "type", kind, "netdev", netdev)
        found = variables(device, netdev, number)
        first = first or found
        every |= {name.replace("VM_", f"VM_{kind.upper()}_"): value for name, value in found.items()}
    peer = {"VM_PEER": first["VM_ADDR"], "VM_PEER6": first["VM_ADDR6"]}
    return Network({"": Host(first | peer)}, first | peer | every)


def address(netdev, number, mtu, enter=()):
    """Gives a netdev its addresses."""
    lines = [
        f"link set {netdev} mtu {mtu}",
        f"addr add {ADDRESS.format(number)}/24 dev {netdev}",
        f"addr add {ADDRESS6.format(number)}/64 dev {netdev} nodad",
        f"link set {netdev} up",
    ]
    batch(lines, enter)


def variables(device, netdev, number, enter=()):
    """What describes a device to programs, once its port is up."""
    until_active(device, enter)
    return {
        "VM_DEV": device,
        "VM_NETDEV": netdev,
        "VM_ADDR": ADDRESS.format(number),
        "VM_ADDR6": ADDRESS6.format(number),
        "VM_GID": gid(device, ADDRESS.format(number), enter),
    }


def until_active(device, enter=()):
    """Waits for the port of a device."""
    end = time.monotonic() + 60
    while "ACTIVE" not in read(CLASS / device / "ports/1/state", enter):
        if time.monotonic() > end:
            raise Broken(f"the port of {device} does not come up")
        time.sleep(0.1)


def gid(device, wanted, enter=()):
    """The index by which programs name the address: that of its RoCE v2 identifier."""
    port = CLASS / device / "ports/1"
    mapped = ipaddress.IPv6Address(f"::ffff:{wanted}").exploded
    for index in range(16):
        if read(port / f"gids/{index}", enter).strip() != mapped:
            continue
        if read(port / f"gid_attrs/types/{index}", enter).strip() == "RoCE v2":
            return str(index)
    # iWARP has one identifier, which is no address.
    return "0"


def read(path, enter=()):
    """A file as a host sees it; nothing where it is not."""
    if enter:
        done = subprocess.run(
            [*enter, "cat", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
        )
        return done.stdout.decode()
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def resources():
    """What each device holds, by kind of object: `{"rxe0": {"qp": 1, ...}}`."""
    listing = json.loads(command("rdma", "-j", "resource"))
    return {entry.pop("ifname"): entry for entry in listing if entry.pop("ifindex", True) is not None}


def command(*words, enter=(), stdin=None):
    """Runs a command of the system's to its end; what it printed."""
    done = subprocess.run(
        [*enter, *words],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Broken(f"{' '.join(words)}: {done.stdout.strip() or done.returncode}")
    return done.stdout


def batch(lines, enter=()):
    """Runs commands of `ip` in one process."""
    command("ip", "-batch", "-", enter=enter, stdin="".join(f"{line}\n" for line in lines))


def kernel():
    return pathlib.Path("/proc/sys/kernel/osrelease").read_text(encoding="ascii").strip()
