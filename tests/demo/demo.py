#!/usr/bin/env python3
"""Runs unmodified programs on Percale and shows that they really do.

1. Debian's `fi_pingpong` in two processes, every size, contents checked, both kinds of messages.
2. An MPI job compiled with the MPICH wheel: messages, collectives, one-sided access.
3. The same programs on upstream libfabric, for a table of figures from the same minutes.

Each running process's own list of mappings tells which libfabric it has loaded.
"""

import argparse
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import libraries, mpi, pingpong, prepare  # noqa: E402
from harness.children import Failed  # noqa: E402
from harness.prepare import say  # noqa: E402

SIZES = [8, 64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 4 << 20]
ROUNDS = 3
MPI_ROUNDS = 5
PROGRAMS = {
    "fi_pingpong": "libfabric-bin",
    "taskset": "util-linux",
    "cc": "gcc",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="checks only, no figures")
    parser.add_argument("--no-build", action="store_true", help="the release build is there")
    args = parser.parse_args()

    prepare.packages(PROGRAMS)
    prepare.venv()
    if not args.no_build:
        prepare.release()
    library = libraries.percale()
    libraries.require(library.path.exists(), f"{library.path} is missing: make build")

    check_pingpong(library, args.quick)
    check_mpi(library)
    if not args.quick:
        figures(library)
    say("all of it worked")


def check_pingpong(library, quick):
    """Every size, contents checked."""
    say(f"Debian's fi_pingpong on {library.path}")
    for mode in ("msg", "tagged"):
        options = ["-c", "-m", mode, "-S", "all", "-I", 10 if quick else 50]
        witnesses = []
        rows = pingpong.exchange(
            library,
            options,
            witness=lambda role, pid, path, seen=witnesses: seen.append((role, pid, path)),
        )
        for role, pid, path in witnesses:
            print(f"    /proc/{pid}/maps of the {role}: {path}")
        least, most = pingpong.label(rows[0].size), pingpong.label(rows[-1].size)
        say(f"fi_pingpong -m {mode}: {len(rows)} sizes from {least} to {most}, contents checked")


def check_mpi(library):
    """The MPI job with two ranks."""
    say("compiling tests/mpi/smoke.c with the wheel's mpicc, running two ranks")
    result = mpi.program(mpi.mpich(), library, 2, "smoke")
    for pid, path in result.maps.items():
        print(f"    /proc/{pid}/maps of a rank: {path}")
    say("MPI: " + ", ".join(part for part in result.parts if part != "end"))


def figures(library):
    """A table beside upstream's figures."""
    say("measuring, on processors of their own where there are two")
    pins = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2]]
    pins = pins if len(pins) == 2 else None
    upstream = [x for x in (libraries.debian(), libraries.wheel()) if x is not None]
    names = ["Percale", *(f"{x.name} {libraries.version(x)}" for x in upstream)]
    columns = {}
    for _ in range(ROUNDS):
        for name, each in zip(names, [library, *upstream]):
            for size in SIZES:
                options = ["-m", "tagged", "-S", size, "-I", 5000 if size <= 64 << 10 else 200]
                (row,) = pingpong.exchange(each, options, pins)
                best = columns.setdefault(name, {}).setdefault(size, row)
                if row.micros < best.micros:
                    columns[name][size] = row
    print(f"\nfi_pingpong -p shm -e rdm -m tagged, least of {ROUNDS} turns each")
    print(f"{'size':>9}" + "".join(f" | {name:>10} usec {'MB/s':>7}" for name in names))
    for size in SIZES:
        cells = [columns[name][size] for name in names]
        print(
            f"{pingpong.label(size):>9}"
            + "".join(f" | {row.micros:>15.3f} {row.megabytes:>7.0f}" for row in cells)
        )
    bundled = libraries.wheel()
    if bundled:
        mpi_figures({"Percale": library, names[-1]: bundled})
    print("\nfor orientation; `make bench` measures with more care\n")


def mpi_figures(sides):
    """The MPI job's own ping-pong: the libraries take turns, and each has its median."""
    passes = {name: [] for name in sides}
    for _ in range(MPI_ROUNDS):
        for name, each in sides.items():
            passes[name].append(mpi.program(mpi.mpich(), each, 2, "smoke").times)
    print(f"\nMPI ping-pong between two ranks (MPICH), median of {MPI_ROUNDS} turns each, usec")
    print(f"{'size':>9}" + "".join(f" | {name:>18}" for name in sides))
    for size in passes["Percale"][0]:
        medians = [statistics.median(times[size] for times in passes[name]) for name in sides]
        print(f"{pingpong.label(size):>9}" + "".join(f" | {micros:>18.3f}" for micros in medians))


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"failed: {failure}")
