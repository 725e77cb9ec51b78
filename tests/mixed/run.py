#!/usr/bin/env python3
"""Two libraries on one wire: programs over tcp and `tcp;ofi_rxm` whose ends run on this build and on
another one.

The distribution's `fi_pingpong`, with checked patterns and all sizes, and `tests/c/mixed/peer.c`.
Every pair takes both roles. The last line has the totals; `PERCALE_LONG=1` runs more sizes and
iterations.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import libraries, pingpong, prepare  # noqa: E402
from harness.children import Failed, Family, run  # noqa: E402

SOURCE = libraries.ROOT / "tests" / "c" / "mixed" / "peer.c"
FLAGS = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
LONG = os.environ.get("PERCALE_LONG", "0") != "0"
# No run takes longer, on a busy host either.
SECONDS = 120


class Counts:
    """What became of the runs."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def run(self, title, body):
        """Runs one case; what fails is told and counted."""
        try:
            body()
        except Failed as failure:
            print(f"FAILED {title}\n{failure}", flush=True)
            self.failed += 1
        else:
            print(f"ok     {title}", flush=True)
            self.passed += 1

    def skip(self, title, reason):
        """Notes a case that this host cannot run."""
        print(f"skipped {title}: {reason}", flush=True)
        self.skipped += 1


def main():
    prepare.packages({"cc": "gcc", pingpong.PROGRAM: "libfabric-bin"})
    prepare.venv()
    ours, wheel, debian = libraries.percale(), libraries.wheel(), libraries.debian()
    libraries.require(ours.path.exists(), f"{ours.path} is missing: make build")
    counts = Counts()
    program = build(ours)
    tcp, msg, rxm = ("tcp", "rdm"), ("tcp", "msg"), ("tcp;ofi_rxm", "rdm")
    pairs = [(kind, ours, ours) for kind in (tcp, msg, rxm)]
    # Older libraries speak another protocol between reliable datagrams of tcp.
    for kind, other in ((tcp, wheel), (msg, wheel), (msg, debian), (rxm, wheel), (rxm, debian)):
        if other is None:
            counts.skip(f"{' '.join(kind)} with another library", "it is not installed")
            continue
        pairs += [(kind, ours, other), (kind, other, ours)]
    for kind, server, client in pairs:
        ping(counts, kind, server, client)
        # Connected endpoints of other libraries have no tags of their own; our program needs an
        # interface that is newer than the distribution's.
        if kind != msg and debian not in (server, client):
            title = f"peer {kind[0]} {server.name} - {client.name}"
            counts.run(title, lambda: meet(program, kind[0], server, client))
    print(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed else 0


def build(library):
    """Compiles the program; the loader finds the library by its name."""
    libraries.BUILD.mkdir(exist_ok=True)
    program = libraries.BUILD / "mixed-peer"
    include = ["-I", libraries.ROOT / "ffi" / "include"]
    run(["cc", *FLAGS, *include, SOURCE, "-o", program, library.path], 120)
    return program


def ping(counts, kind, server, client):
    """`fi_pingpong` in both of its modes."""
    options = ["-c", "-S", "all", "-I", "10" if LONG else "2"]
    provider, endpoint = kind
    # Its tagged mode asks for tags, which only reliable datagrams have, and for nothing else: older
    # libraries then leave out the protocol of `ofi_rxm`, for one that later ones do not know, either.
    alone = endpoint == "msg" or "ofi_rxm" in provider and "debian" in (server.name, client.name)
    for mode in ["msg"] if alone else ["msg", "tagged"]:
        def body(mode=mode):
            way = ("-p", provider, "-e", endpoint)
            rows = pingpong.exchange(
                server, [*options, "-m", mode], seconds=SECONDS, way=way, client_library=client
            )
            if len(rows) < 40:
                raise Failed(f"{len(rows)} sizes only")

        counts.run(f"fi_pingpong {provider} {endpoint} {mode} {server.name} - {client.name}", body)


def meet(program, provider, server, client):
    """Our program as a pair of processes."""
    port = pingpong.free_port()
    more = ["long"] if LONG else []
    with Family() as family:
        ends = []
        for role, library in (("0", server), ("1", client)):
            # Upstream frees something twice when it closes an endpoint of this layer.
            leave = ["leave"] if library.name == "wheel" and "ofi_rxm" in provider else []
            command = [program, role, port, provider, *more, *leave]
            ends.append(family.start(command, library.env()))
        for library, end in zip((server, client), ends):
            pingpong.prove(library, "peer", end, None, may_be_over=True)
        complaints = []
        for end in ends:
            try:
                end.wait(SECONDS)
            except Failed as failure:
                complaints.append(str(failure))
        if complaints:
            raise Failed("\n".join(complaints))


if __name__ == "__main__":
    os.chdir(libraries.ROOT)
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(f"failed: {failure}")
