#!/usr/bin/env python3
"""Compares the providers tcp and `tcp;ofi_rxm` with those of another libfabric, and with bare
sockets as the limit.

One program, compiled once, runs on both libraries by what the loader finds; another one does the
same over non-blocking sockets. All take turns, over the loopback interface and over a veth cable
between two network namespaces, which takes root and is left out without. The namespaces belong to
children of this program and end with it.

Every figure is the median of the rounds, with the least and the largest beside it. A ratio is the
median over pairs of runs that followed each other.

With --sizes, one endpoint of both libraries is measured size by size instead.

Writes build/bench/tcp.md and tcp.json, or tcp-sizes.md and tcp-sizes.json.
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import figures, libraries, pingpong  # noqa: E402
from harness.children import Failed, Family, run, until  # noqa: E402

SOURCES = pathlib.Path(__file__).resolve().parent / "tcp"
OUTPUT = libraries.BUILD / "bench"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]

ENDPOINTS = {
    "rdm-tagged": "RDM, tagged",
    "rdm-msg": "RDM, untagged",
    "rxm-tagged": "`tcp;ofi_rxm`, tagged",
    "rxm-msg": "`tcp;ofi_rxm`, untagged",
    "msg": "MSG",
}
# What is measured, in how many rounds of its own (see measure.h).
MEASURES = {
    "latency": ("half round trip of 8 B, µs", 20_000),
    "rate": ("messages of 8 B, 64 outstanding, M/s", 2_000),
    "announced": ("the same, announced (`FI_MORE`), M/s", 2_000),
    "bandwidth": ("messages of 1 MiB, GB/s", 60),
}
# Measured by size.
BY_SIZE_MEASURES = ("latency", "rate", "bandwidth")
# Round trips of each size, for all that are not large.
BY_SIZE = 1_000
SOCKETS = "sockets"
# The window of "rate" over sockets, with a call for each message.
EACH = "calls"


def main():
    args = arguments()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    ours, theirs = choose()
    host = figures.describe()
    figures.introduce(host)
    versions = {library.name: libraries.version(library) for library in (ours, theirs)}
    for library in (ours, theirs):
        print(f"  {library.name:8} {library.title} {versions[library.name]}: {library.path}")
    compile_programs(ours)

    with contextlib.ExitStack() as stack:
        networks = [Network("loopback", "127.0.0.1")]
        if "veth" in args.networks:
            cable = stack.enter_context(Family())
            networks.append(lay(cable))
        networks = [network for network in networks if network and network.name in args.networks]
        turns = sizes_round if args.sizes else one_round
        samples = {}
        for number in range(args.rounds):
            print(f"round {number + 1}/{args.rounds}", flush=True)
            for network in networks:
                turns(args, network, (ours, theirs), number, samples)

    results = {case: figures.summary(values) for case, values in samples.items()}
    write = sizes_markdown if args.sizes else markdown
    table = write(args, networks, theirs, versions, results, host)
    print("\n" + table)
    document = {
        "host": host,
        "rounds": args.rounds,
        "pins": args.pins,
        "libraries": [
            {"name": x.name, "version": versions[x.name], "path": str(x.path)}
            for x in (ours, theirs)
        ],
        "figures": [
            {"network": network, "endpoint": endpoint, "measure": measure, "of": of, **figure}
            for (network, endpoint, measure, of), figure in results.items()
        ],
    }
    name = "tcp-sizes" if args.sizes else "tcp"
    (OUTPUT / f"{name}.md").write_text(table, encoding="utf-8")
    (OUTPUT / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"written: {OUTPUT}/{name}.md and {name}.json")
    if args.docs:
        figures.into(libraries.ROOT / "docs/src/benchmarks.md", name, table)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-n", "--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--pins", default="0,1", help="processors of server and client")
    parser.add_argument("--networks", default="loopback,veth", help="which of the two")
    parser.add_argument("--endpoints", default=",".join(ENDPOINTS), help="which of these")
    parser.add_argument("--measures", default=",".join(MEASURES), help="which of these")
    parser.add_argument("--sizes", metavar="ENDPOINT", choices=ENDPOINTS, help="by size, of this one")
    parser.add_argument("--brief", action="store_true", help="a tenth of the messages")
    parser.add_argument("--docs", action="store_true", help="put the table into the book")
    args = parser.parse_args()
    args.pins = figures.processors(parser, args.pins)
    for name, known in (
        ("networks", ["loopback", "veth"]), ("endpoints", ENDPOINTS), ("measures", MEASURES),
    ):
        chosen = getattr(args, name).split(",")
        if not set(chosen) <= set(known):
            parser.error(f"--{name} takes some of {','.join(known)}")
        setattr(args, name, chosen)
    return args


def choose():
    for program in ("taskset", "cc"):
        libraries.require(shutil.which(program), f"{program} is missing")
    ours, theirs = libraries.percale(), libraries.wheel()
    libraries.require(ours.path.exists(), f"{ours.path} is missing: make build")
    libraries.require(theirs, "no other library: the wheel of MPICH is not in build/venv")
    return ours, theirs


def compile_programs(library):
    include = ["-I", libraries.ROOT / "ffi" / "include"]
    run(["cc", *FLAGS, SOURCES / "sockets.c", "-o", OUTPUT / "tcp-sockets"], 60)
    run(["cc", *FLAGS, *include, SOURCES / "fabric.c", "-o", OUTPUT / "tcp-fabric", library.path], 60)


class Network:
    """Where the two programs are, and the server's address."""

    def __init__(self, name, address, server=(), client=()):
        self.name = name
        self.address = address
        # In front of their commands.
        self.wrappers = [list(server), list(client)]


def lay(family):
    """Two namespaces with a cable between them; `None` where that is not allowed."""
    missing = [name for name in ("ip", "unshare", "nsenter") if not shutil.which(name)]
    if missing:
        print(f"no veth: {', '.join(missing)} missing")
        return None
    ends = [family.start(["unshare", "--net", "sleep", "infinity"]) for _ in range(2)]
    own = pathlib.Path("/proc/self/ns/net").readlink()

    def apart(end):
        return not end.running() or pathlib.Path(f"/proc/{end.pid}/ns/net").readlink() != own

    try:
        for end in ends:
            until("a network namespace", 10, lambda end=end: apart(end))
            if not end.running():
                end.wait(1)
        within = [["nsenter", f"--net=/proc/{end.pid}/ns/net"] for end in ends]
        peer = ["peer", "name", "percale1", "netns", ends[1].pid]
        run([*within[0], "ip", "link", "add", "percale0", "type", "veth", *peer], 10)
        for number, enter in enumerate(within):
            # A range of addresses that is there for benchmarks.
            address = ["198.18.0.%d/30" % (number + 1), "dev", f"percale{number}"]
            run([*enter, "ip", "address", "add", *address], 10)
            run([*enter, "ip", "link", "set", "lo", "up"], 10)
            run([*enter, "ip", "link", "set", f"percale{number}", "up"], 10)
    except (Failed, OSError) as failure:
        print(f"no veth, which takes root: {failure}")
        return None
    return Network("veth", "198.18.0.1", *within)


def one_round(args, network, pair, number, samples):
    """Measure by measure, so that all meet the host in one mood."""
    # Every other round turns the order round: nobody always runs first.
    order = pair if number % 2 == 0 else pair[::-1]
    for measure in args.measures:
        if measure != "announced":
            case = (network.name, SOCKETS, measure, SOCKETS)
            samples.setdefault(case, []).append(figure(args, network, None, None, measure))
        if measure == "rate":
            each = figure(args, network, None, None, EACH)
            samples.setdefault((network.name, SOCKETS, EACH, SOCKETS), []).append(each)
        for endpoint in args.endpoints:
            for library in order:
                case = (network.name, endpoint, measure, library.name)
                one = figure(args, network, library, endpoint, measure)
                samples.setdefault(case, []).append(one)


def sizes_round(args, network, pair, number, samples):
    """Both libraries, one behind the other, each with all sizes."""
    for library in pair if number % 2 == 0 else pair[::-1]:
        text = exchange(args, network, library, args.sizes, "sizes", BY_SIZE)
        for line in text.splitlines():
            size, *three = map(float, line.split())
            for measure, one in zip(BY_SIZE_MEASURES, three):
                case = (network.name, int(size), measure, library.name)
                samples.setdefault(case, []).append(one)


def figure(args, network, library, endpoint, measure):
    """One number."""
    count = MEASURES["rate" if measure == EACH else measure][1]
    return float(exchange(args, network, library, endpoint, measure, count))


def exchange(args, network, library, endpoint, measure, count):
    """What a client prints that runs to its end with a server."""
    port = pingpong.free_port()
    if args.brief:
        count //= 10
    what = [network.address, port, measure, count]
    if library:
        program, what, env = OUTPUT / "tcp-fabric", [endpoint, *what], library.env()
    else:
        program, env = OUTPUT / "tcp-sockets", None

    def command(role, number):
        words = pingpong.pinned(args.pins, number, [program, role, *what])
        return [*network.wrappers[number], *words]

    with Family() as family:
        server = family.start(command("server", 0), env)
        until("the server is ready", 20, lambda: server.output() or not server.running())
        if library and server.running():
            pingpong.prove(library, "server", server, None)
        client = family.start(command("client", 1), env)
        try:
            text = client.wait(90)
            server.wait(20)
        except Failed as failure:
            raise Failed(f"{failure}\noutput of the server:\n{server.output()}") from None
    return text


def markdown(args, networks, theirs, versions, results, host):
    other = f"{theirs.name} {versions[theirs.name]}"
    lines = [
        f"Median of {args.rounds} (least..largest). `sockets` are non-blocking ones without a library, "
        "a window in one call: the limit; where messages are counted, below it with a call for each of "
        "them. A ratio is the median over pairs of runs that followed each "
        "other; below 1 is better for times, above 1 for the others. `wheel` is the libfabric inside "
        "the MPICH wheel of PyPI.",
        figures.signature(host, args.pins),
        "",
        f"| | endpoint | sockets | Percale | {other} | Percale / {other} |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for network in networks:
        for measure in args.measures:
            title = f"{network.name}: {MEASURES[measure][0]}"
            limits = {"rate": [measure, EACH], "announced": []}.get(measure, [measure])
            limits = [
                figures.spread(results[network.name, SOCKETS, limit, SOCKETS]) for limit in limits
            ]
            for endpoint in args.endpoints:
                pair = [
                    results[network.name, endpoint, measure, name]
                    for name in ("percale", theirs.name)
                ]
                limit = limits.pop(0) if limits else ""
                cells = [title, ENDPOINTS[endpoint], limit, *map(figures.spread, pair)]
                lines.append(f"| {' | '.join(cells)} | {figures.ratio(*pair):.2f} |")
                title = ""
    return "\n".join(lines) + "\n"


def sizes_markdown(args, networks, theirs, versions, results, host):
    other = f"{theirs.name} {versions[theirs.name]}"
    lines = [
        f"{ENDPOINTS[args.sizes]}: median of {args.rounds} (least..largest); windows are of 64 "
        "messages, or of 16 MiB. A ratio is the median over pairs of runs that followed each other: "
        "of times it is good below 1, of rates above 1.",
        figures.signature(host, args.pins),
        "",
        f"| | size | µs, Percale | µs, {other} | ratio | MB/s, Percale | MB/s, {other} | ratio |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for network in networks:
        title = network.name
        for size in sorted({size for name, size, _, _ in results if name == network.name}):
            cells = [title, pingpong.label(size)]
            for measure, scale in (("latency", 1), ("rate", size)):
                pair = [results[network.name, size, measure, name] for name in ("percale", theirs.name)]
                scaled = [figures.summary([scale * one for one in each["each"]]) for each in pair]
                cells += [*map(figures.spread, scaled), f"{figures.ratio(*pair):.2f}"]
            lines.append(f"| {' | '.join(cells)} |")
            title = ""
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"failed: {failure}")
