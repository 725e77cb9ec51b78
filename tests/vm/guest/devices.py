"""Soft RDMA devices on netdevs, made and described with the system's own tools.

`enter` is what starts a command in another namespace; without it, it runs in this one.
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


def address(netdev, number, mtu, enter=()):
    """Gives a netdev its addresses and brings it up."""
    lines = [
        f"link set {netdev} mtu {mtu}",
        f"addr add {ADDRESS.format(number)}/24 dev {netdev}",
        f"addr add {ADDRESS6.format(number)}/64 dev {netdev} nodad",
        f"link set {netdev} up",
    ]
    ip(lines, enter)


def add(device, kind, netdev, enter=()):
    """Makes a device on a netdev."""
    command("rdma", "link", "add", device, "type", kind, "netdev", netdev, enter=enter)


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
    """The index by which programs name an address of the device: that of its RoCE v2 identifier."""
    port = CLASS / device / "ports/1"
    mapped = ipaddress.IPv6Address(f"::ffff:{wanted}").exploded
    for index in range(8):
        if read(port / f"gids/{index}", enter).strip() != mapped:
            continue
        if read(port / f"gid_attrs/types/{index}", enter).strip() == "RoCE v2":
            return str(index)
    # iWARP has one identifier, which is no address.
    return "0"


def resources():
    """What each device holds, by kind of object: `{"rxe0": {"qp": 1, ...}}`."""
    found = {}
    for entry in json.loads(command("rdma", "-j", "resource")):
        held = {key: value for key, value in entry.items() if isinstance(value, int)}
        held.pop("ifindex", None)
        found[entry["ifname"]] = held
    return found


def connections():
    """The identifiers of connections and of listeners, as `rdma` lists them."""
    return json.loads(command("rdma", "-j", "resource", "show", "cm_id"))


def read(path, enter=()):
    """A file as it is seen there; nothing where it is not."""
    if enter:
        done = subprocess.run(
            [*enter, "cat", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
        )
        return done.stdout.decode()
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def ip(lines, enter=(), family=None):
    """Runs commands of `ip` in one process, for addresses of a family."""
    words = ["ip", *([] if family is None else [family]), "-batch", "-"]
    command(*words, enter=enter, stdin="".join(f"{line}\n" for line in lines))


def command(*words, enter=(), stdin=""):
    """Runs a command to its end; what it printed."""
    done = subprocess.run(
        [*enter, *words],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Broken(f"{' '.join(words)}: {done.stdout.strip() or f'status {done.returncode}'}")
    return done.stdout
