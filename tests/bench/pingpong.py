#!/usr/bin/env python3
"""Compares Percale with other libfabric builds: one unmodified `fi_pingpong`, one run, one host.

The libraries take turns, so that a host that changes its speed changes it for all of them. Every
figure is the median of the rounds, with the least and the largest beside it. The bare cache-line
time of the same run is the floor that the small sizes are to be measured against.

Writes build/bench/pingpong.md and build/bench/pingpong.json.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import figures, libraries, pingpong  # noqa: E402
from harness.children import Failed, run  # noqa: E402

SIZES = [1, 8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20]
# What `fi_pingpong -S all` runs through, but for 0.
ALL = [1, 2, 3, *(n for k in range(2, 23) for n in (1 << k, 3 << (k - 1)))]
OUTPUT = libraries.BUILD / "bench"


# A run that fails is told, and made again.
ATTEMPTS = 3


def main():
    args = arguments()
    chosen = choose(args)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    host = figures.describe()
    figures.introduce(host)
    versions = {library.name: libraries.version(library) for library in chosen}
    for library in chosen:
        print(f"  {library.name:8} {library.title} {versions[library.name]}: {library.path}")

    samples = {library.name: {size: [] for size in args.sizes} for library in chosen}
    floors = []
    for number in range(args.rounds):
        floors.append(cache_line(args.pins))
        print(f"round {number + 1}/{args.rounds}, cache line {floors[-1]:.0f} ns", flush=True)
        # Every other round turns the order round: nobody always runs first.
        order = chosen if number % 2 == 0 else chosen[::-1]
        # Size by size, so that the libraries meet the host in one mood.
        for size in args.sizes:
            for library in order:
                samples[library.name][size].append(measure(library, size, args))

    floor = statistics.median(floors)
    results = {
        library.name: {size: figures.summary(samples[library.name][size]) for size in args.sizes}
        for library in chosen
    }
    table = markdown(args, chosen, versions, results, floor, host)
    print("\n" + table)
    (OUTPUT / "pingpong.md").write_text(table, encoding="utf-8")
    document = {
        "host": host,
        "mode": args.mode,
        "rounds": args.rounds,
        "pins": args.pins,
        "cache_line_ns": {"median": floor, "each": floors},
        "libraries": [
            {"name": x.name, "version": versions[x.name], "path": str(x.path)} for x in chosen
        ],
        "usec_per_transfer": {
            library.name: {
                str(size): results[library.name][size] for size in args.sizes
            }
            for library in chosen
        },
    }
    text = json.dumps(document, indent=1)
    (OUTPUT / "pingpong.json").write_text(text + "\n", encoding="utf-8")
    print(f"written: {OUTPUT}/pingpong.md and pingpong.json")
    if args.readme:
        figures.into(libraries.ROOT / "docs/src/benchmarks.md", "bench", table)
        args.sizes = [size for size in args.sizes if size in SIZES]
        table = markdown(args, chosen, versions, results, floor, host)
        figures.into(libraries.ROOT / "README.md", "bench", table)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--rounds", type=int, default=5, help="turns of each library")
    parser.add_argument("-m", "--mode", choices=["msg", "tagged"], default="tagged")
    parser.add_argument("--pins", default="0,1", help="processors of server and client")
    parser.add_argument("--sizes", help="comma list of bytes, or `all` that fi_pingpong knows")
    parser.add_argument("--libraries", default="percale,debian,wheel", help="which, ours first")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md and the book")
    args = parser.parse_args()
    args.pins = figures.processors(parser, args.pins)
    if args.sizes == "all":
        args.sizes = ALL
    else:
        args.sizes = [int(size) for size in args.sizes.split(",")] if args.sizes else SIZES
    return args


def choose(args):
    """The libraries that are there, in the order asked for; missing ones are named."""
    known = {
        "percale": libraries.percale,
        "debian": libraries.debian,
        "wheel": libraries.wheel,
    }
    for program in (pingpong.PROGRAM, "taskset", "cc"):
        libraries.require(shutil.which(program), f"{program} is missing")
    chosen = []
    for name in args.libraries.split(","):
        libraries.require(name in known, f"there is no library called {name}")
        library = known[name]()
        if library is None or not library.path.exists():
            print(f"left out, not installed: {name}")
        else:
            chosen.append(library)
    libraries.require(chosen, "nothing to measure")
    return chosen


def measure(library, size, args):
    """Microseconds per transfer of one run."""
    iterations = 10_000 if size <= 64 << 10 else 200
    options = ["-m", args.mode, "-S", size, "-I", iterations]
    for attempt in range(ATTEMPTS):
        try:
            (row,) = pingpong.exchange(library, options, args.pins)
            break
        except Failed as failure:
            # Some libraries now and then find the name of an endpoint taken at their start.
            print(f"{library.name} failed at {size} bytes: {failure}", flush=True)
            if attempt + 1 == ATTEMPTS:
                raise
    return row.micros


def cache_line(pins):
    """Half a round trip of a bare cache line between the two processors, in nanoseconds."""
    program = OUTPUT / "cacheline"
    source = pathlib.Path(__file__).with_name("cacheline.c")
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        run(["cc", "-std=c11", "-O2", "-o", program, source], 60)
    return float(run([program, *pins], 60).split()[1])


def markdown(args, chosen, versions, results, floor, host):
    first, others = chosen[0], chosen[1:]
    name = {x.name: f"{x.name} {versions[x.name]}" for x in chosen}
    if first.name == "percale":
        name["percale"] = "Percale"
    lines = [
        f"`fi_pingpong -p shm -e rdm -m {args.mode}`, microseconds per transfer, median of "
        f"{args.rounds} (least..largest); bare cache line {floor:.0f} ns. A ratio is the median over "
        f"{args.rounds} pairs of runs that followed each other, not the quotient of two columns: the "
        "host's clock and placement change from pair to pair. `wheel` is the libfabric inside the "
        "MPICH wheel of PyPI.",
        figures.signature(host, args.pins),
        "",
        "| size | " + " | ".join(name[x.name] for x in chosen)
        + "".join(f" | {name[first.name]} / {name[x.name]}" for x in others) + " |",
        "|---:" * (1 + len(chosen) + len(others)) + "|",
    ]
    for size in args.sizes:
        cells = [pingpong.label(size)]
        cells += [figures.spread(results[library.name][size]) for library in chosen]
        for library in others:
            ours, theirs = results[first.name][size], results[library.name][size]
            cells.append(f"{figures.ratio(ours, theirs):.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"failed: {failure}")
