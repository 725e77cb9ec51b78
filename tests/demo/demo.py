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
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import libraries, mpi, pingpong, prepare  # noqa: E402
from harness.children import Failed  # noqa: E402
from harness.prepare import say  # noqa: E402

SIZES = [8, 64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 4 << 20]
ROUNDS = 3
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
    ours = check_mpi(library)
    if not args.quick:
        figures(library, ours)
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
    return result


def figures(library, ours):
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
        theirs = mpi.program(mpi.mpich(), bundled, 2, "smoke")
        print("\nMPI ping-pong between two ranks (MPICH), one pass")
        print(f"{'size':>9} | {'Percale usec':>15} | {f'{names[-1]} usec':>18}")
        for size, micros in ours.times.items():
            print(f"{pingpong.label(size):>9} | {micros:>15.3f} | {theirs.times[size]:>18.3f}")
    print("\nfor orientation; `make bench` measures with more care\n")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"failed: {failure}")
