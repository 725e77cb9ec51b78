#!/usr/bin/env python3
"""Compares Percale with other libfabric builds: one unmodified `fi_pingpong`, one run, one host.

The libraries take turns, so that a host that changes its speed changes it for all of them. Every
figure is the median of the rounds, with the least and the largest beside it. The bare cache-line
time of the same run is the floor that the small sizes are to be measured against.

Writes build/bench/pingpong.md and build/bench/pingpong.json.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import libraries, pingpong  # noqa: E402
from harness.children import Failed, run  # noqa: E402

SIZES = [1, 8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20]
# With more load than this before the start, other programs share the two processors.
BUSY = 0.7
# What `fi_pingpong -S all` runs through, but for 0.
ALL = [1, 2, 3, *(n for k in range(2, 23) for n in (1 << k, 3 << (k - 1)))]
OUTPUT = libraries.BUILD / "bench"


# A run that fails is told, and made again.
ATTEMPTS = 3


def main():
    args = arguments()
    chosen = choose(args)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    host = describe()
    print(f"host: {host['cpu']}, {host['cores']} cores, Linux {host['kernel']}", flush=True)
    if host["load"] > BUSY:
        print(f"the host is busy (load {host['load']:.1f}): take the least, not the medians")
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
        library.name: {size: summary(samples[library.name][size]) for size in args.sizes}
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
        into(libraries.ROOT / "docs/src/benchmarks.md", table)
        args.sizes = [size for size in args.sizes if size in SIZES]
        into(libraries.ROOT / "README.md", markdown(args, chosen, versions, results, floor, host))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--rounds", type=int, default=5, help="turns of each library")
    parser.add_argument("-m", "--mode", choices=["msg", "tagged"], default="tagged")
    parser.add_argument("--pins", default="0,1", help="processors of server and client")
    parser.add_argument("--sizes", help="comma list of bytes, or `all` that fi_pingpong knows")
    parser.add_argument("--libraries", default="percale,debian,wheel", help="which, ours first")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md and the book")
    args = parser.parse_args()
    args.pins = args.pins.split(",")
    if args.sizes == "all":
        args.sizes = ALL
    else:
        args.sizes = [int(size) for size in args.sizes.split(",")] if args.sizes else SIZES
    cpus = os.sched_getaffinity(0)
    if len(args.pins) != 2 or not {int(pin) for pin in args.pins} <= cpus:
        parser.error(f"--pins takes two of the processors {sorted(cpus)}")
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


def summary(samples):
    median = statistics.median(samples)
    return {"median": median, "min": min(samples), "max": max(samples), "each": samples}


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
        f"{host['cpu']}, processors {' and '.join(args.pins)}, Linux {host['kernel']}, "
        f"{host['date']}."
        + (f" Busy host, load {host['load']:.1f}." if host["load"] > BUSY else ""),
        "",
        "| size | " + " | ".join(name[x.name] for x in chosen)
        + "".join(f" | {name[first.name]} / {name[x.name]}" for x in others) + " |",
        "|---:" * (1 + len(chosen) + len(others)) + "|",
    ]
    for size in args.sizes:
        cells = [pingpong.label(size)]
        for library in chosen:
            r = results[library.name][size]
            cells.append(f"{micros(r['median'])} ({micros(r['min'])}..{micros(r['max'])})")
        for library in others:
            pairs = zip(results[first.name][size]["each"], results[library.name][size]["each"])
            cells.append(f"{statistics.median(ours / theirs for ours, theirs in pairs):.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def into(path, table):
    """Replaces what stands between the two marks."""
    before, rest = path.read_text(encoding="utf-8").split("<!-- bench: begin -->")
    _, after = rest.split("<!-- bench: end -->")
    marked = f"<!-- bench: begin -->\n{table}<!-- bench: end -->"
    path.write_text(before + marked + after, encoding="utf-8")


def micros(value):
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def describe():
    model = "?"
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
        "date": datetime.date.today().isoformat(),
    }


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"failed: {failure}")
