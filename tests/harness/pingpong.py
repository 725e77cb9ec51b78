"""The distribution's `fi_pingpong`, unmodified, in two processes on a library of choice."""

import socket

from .children import Failed, Family, until
from .libraries import loaded

PROGRAM = "fi_pingpong"
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Row:
    """One line of the program's table."""

    def __init__(self, size, sent, megabytes, micros):
        self.size = size
        self.sent = sent
        # The two columns have two decimals each: take the one with more digits.
        self.micros = size / megabytes if size and megabytes > micros else micros
        self.megabytes = megabytes


SHM = ("-p", "shm", "-e", "rdm")


def exchange(library, options, pins=None, seconds=120, witness=None, way=SHM, client_library=None):
    """Runs server and client to their end; returns the client's rows.

    `way` names the provider and the type of endpoint. The client may run on another library.
    `pins` are the processors of the two. `witness(role, pid, path)` is told which libfabric each
    process has mapped, read from the running processes.
    """
    port = free_port()
    base = [PROGRAM, *way, *options]
    other = client_library or library
    with Family() as family:
        server = family.start(pinned(pins, 0, [*base, "-B", port]), library.env())
        until("server listens", 20, lambda: listens(port) or not server.running())
        if not server.running():
            server.wait(1)
            raise Failed("the server ended before the client came")
        prove(library, "server", server, witness)
        client = family.start(pinned(pins, 1, [*base, "-P", port, "127.0.0.1"]), other.env())
        # A short client may end before it can be looked at; its environment names the library.
        prove(other, "client", client, witness, may_be_over=witness is None)
        try:
            text = client.wait(seconds)
            server.wait(20)
        except Failed as failure:
            raise Failed(f"{failure}\noutput of the server:\n{server.output()}") from None
    return rows(text)


def prove(library, role, child, witness, may_be_over=False):
    """Looks up which libfabric a running process has mapped; anything but `library` is a failure."""
    path = until(f"{role} maps libfabric", 20, lambda: loaded(child.pid) or not child.running())
    if path is True:
        if may_be_over:
            return
        child.wait(1)
        raise Failed(f"the {role} ended before its mappings could be read")
    if not library.is_at(path):
        raise Failed(f"the {role} runs on {path} instead of {library.path}")
    if witness:
        witness(role, child.pid, path)


def rows(text):
    """The rows of a printed table."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) != 8 or not words[2].startswith("="):
            continue
        size, sent, _, _, _, megabytes, micros, _ = words
        found.append(Row(number(size), number(sent), float(megabytes), float(micros)))
    if not found:
        raise Failed(f"{PROGRAM} printed no table:\n{text}")
    return found


def number(text):
    """Reads `1.5k` as 1536."""
    unit = UNITS.get(text[-1], 1)
    return int(float(text.rstrip("kmg")) * unit)


def label(size):
    """Writes 1536 as `1.5 KiB`."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


def pinned(pins, at, command):
    """The command, on one processor if there are pins."""
    return command if pins is None else ["taskset", "-c", pins[at], *command]


def free_port():
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    """Whether somebody listens on a TCP port of this host."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                for line in lines:
                    words = line.split()
                    if len(words) > 3 and words[1].endswith(wanted) and words[3] == "0A":
                        return True
        except OSError:
            continue
    return False
