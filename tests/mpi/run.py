#!/usr/bin/env python3
"""MPI libraries on Percale: C programs, the Intel MPI Benchmarks, mpi4py's own test suite.

Fails for anything that `known.toml` does not list. Results are kept in
`build/mpi-PROVIDER-LIBRARY.json`, of which `table.py` makes the tables of the book.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import imb, libraries, mpi, prepare, suite  # noqa: E402
from harness.children import Failed  # noqa: E402
from harness.prepare import say  # noqa: E402

PROGRAMS = ["smoke", "windows"]
# Processors are fewer than ranks here: only what does not take minutes by that alone.
FOUR_RANKS = r"test_p2p_|test_cco_|test_msgspec$|test_rma$"
FOUR_RANKS_RMA = ["testPut", "testGetProcNull", "testFence"]
# Where ranks on two libraries talk to each other, and do nothing else.
TWO_LIBRARIES = r"test_p2p_|test_cco_|test_msgspec$|test_rma|test_win$"
QUICK = ["test_p2p_buf", "test_cco_buf", "test_msgspec", "test_rma", "test_spawn"]
# What tells jobs apart.
ABOUT = ["mpi", "ranks", "what", "job"]
# A job's deadline, by ranks. Two ranks need a tenth of it on a quiet host; four take turns on two
# processors.
SECONDS = {1: 300, 2: 300, 4: 600}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a part that takes some minutes")
    parser.add_argument("--mpi", default="mpich,intel,openmpi,debian", help="which of them")
    parser.add_argument("--parts", default="c,imb,mpi4py", help="which parts")
    parser.add_argument("--ranks", default="1,2,4", help="numbers of ranks")
    parser.add_argument("-p", "--provider", default="shm", choices=["shm", "tcp", "tcp;ofi_rxm"])
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--upstream", action="store_true", help="on the libfabric of each MPI")
    whose.add_argument(
        "--mixed", action="store_true", help="one rank on this library, one on libfabric 2"
    )
    parser.add_argument("modules", nargs="*", help="of mpi4py's suite, instead of all")
    args = parser.parse_args()

    # Whoever ends this run ends its jobs, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    chosen = install(args.mpi.split(","), args.provider)
    ours = libraries.percale()
    libraries.require(ours.path.exists(), f"{ours.path} is missing: make build")
    run = Run(args, [(each, one) for each in chosen for one in on(args, each, ours)])
    for part in args.parts.split(","):
        {"c": run.programs, "imb": run.benchmarks, "mpi4py": run.mpi4py}[part]()
    if run.complaints:
        print("failed: " + "; ".join(run.complaints))
    print(f"{run.passed} passed, {len(run.complaints)} failed, {run.skipped} skipped")
    return 1 if run.complaints else 0


def on(args, each, ours):
    """What an MPI library's jobs run on, one after the other."""
    if args.upstream:
        return [each.upstream()]
    if not args.mixed:
        return [ours]
    # Reliable datagrams of releases before 2.0 are another protocol.
    theirs = libraries.wheel() if each.name == "debian" else each.upstream()
    return [libraries.Mixed(ours, theirs), libraries.Mixed(theirs, ours)]


def install(names, provider):
    """The MPI libraries, installed where they are missing and this host can have them."""
    prepare.packages({"cc": "gcc"})
    prepare.venv()
    found = [mpi.mpich(provider)]
    if os.uname().machine == "x86_64":
        found.append(mpi.intel(provider))
        prepare.venv(mpi.intel().prefix, prepare.INTEL)
    else:
        say("there is no Intel MPI for this processor")
    found.append(mpi.openmpi(provider))
    prepare.venv(mpi.openmpi().prefix, prepare.OPENMPI)
    debian = mpi.debian(provider)
    if debian:
        found.append(debian)
    elif "debian" in names:
        say("Open MPI of the distribution is not installed, and left out")
    return [each for each in found if each.name in names]


class Run:
    """One run over several MPI libraries."""

    def __init__(self, args, pairs):
        self.complaints = []
        self.passed = self.skipped = 0
        self._args = args
        self._pairs = pairs
        self._ranks = [int(word) for word in args.ranks.split(",")]

    def programs(self):
        """The C programs, on every MPI library."""
        for each, library in self._pairs:
            title = f"C programs{library.mark}"
            for source in PROGRAMS:
                for ranks in self._some(2, 4):
                    what = f"{each.title}, {ranks} ranks, {source}.c{library.mark}"
                    try:
                        parts = mpi.program(each, library, ranks, source, 180).parts
                        say(f"{what}: {', '.join(parts[:-1])}")
                        self._count(row(each, ranks, title, source, len(parts) - 1))
                    except Failed as failure:
                        self._complain(what, failure)
                        self._count(row(each, ranks, title, source, **of(failure)))

    def benchmarks(self):
        """The Intel MPI Benchmarks, where their binary interface fits."""
        for each, library in self._pairs:
            if each.abi != "mpich" or not mpi.intel().prefix.exists():
                continue
            title = f"benchmarks{library.mark}"
            for name, ranks, options in self._benchmarks(each):
                what = f"{each.title}, {ranks} ranks, {name}{library.mark}"
                try:
                    count = imb.whole(each, library, ranks, name, 180, options)
                    say(f"{what}: {count} benchmarks")
                    self._count(row(each, ranks, title, name, count))
                except Failed as failure:
                    self._complain(what, failure)
                    self._count(row(each, ranks, title, name, **of(failure)))

    def _benchmarks(self, each):
        # Seconds for each line of a table, at most.
        short = ["-time", "0.1"]
        if self._args.quick:
            return [("IMB-RMA", 2, short), ("IMB-MPI1", 2, short)] if each.name == "intel" else []
        both = [(name, ranks) for ranks in self._some(2, 4) for name in imb.BENCHMARKS]
        return [(name, ranks, ["-time", "1"] if ranks == 2 else short) for name, ranks in both]

    def mpi4py(self):
        """mpi4py's suite, a job for each module, without a second try."""
        source, known = suite.fetch(), suite.Known()
        for each, library in self._pairs:
            if each.name == "debian" and self._args.quick:
                continue
            pairs_only = self._args.quick or self._args.mixed
            for ranks in self._some(2) if pairs_only else self._some(1, 2, 4):
                for native, title in self._variants(each, ranks):
                    title += library.mark
                    for module in self._modules(ranks, source, native):
                        options = choice(each, ranks, module, known)
                        about = each, library, ranks, source, module, SECONDS[ranks], options, native
                        outcome = suite.job(*about)
                        fresh = row(each, ranks, title, module, outcome.ran)
                        self._judge(fresh, library, outcome, known.allowed(each, ranks))

    def _variants(self, each, ranks):
        yield False, "mpi4py"
        if each.name in ("mpich", "intel") and ranks == 2:
            yield True, "mpi4py, native atomics"

    def _modules(self, ranks, source, native):
        names = suite.modules(source)
        if self._args.modules:
            names = self._args.modules
        elif self._args.quick:
            names = QUICK
        elif self._args.mixed:
            names = [name for name in names if re.match(TWO_LIBRARIES, name)]
        if native:
            names = [name for name in names if name in ("test_rma", "test_rma_nb")]
        if ranks == 4:
            names = [name for name in names if re.match(FOUR_RANKS, name)]
        return names

    def _judge(self, fresh, library, outcome, allowed):
        """Says what became of a module's job, and counts it."""
        broken = dict(outcome.failures)
        if outcome.complaint:
            where = ", ".join(outcome.unfinished) or "the end"
            broken[f"{fresh['job']} in {where}"] = outcome.complaint
        wrong = any(path is None or not library.is_at(path) for path in outcome.library)
        if wrong or not library.is_all(outcome.library):
            broken[f"{fresh['job']} on another libfabric"] = str(outcome.library)
        title = f"{fresh['mpi']}, {fresh['ranks']} ranks, {fresh['what']}"
        unexpected = [test for test in broken if not allowed(test)]
        tail = f", {len(broken)} failed ({len(unexpected)} unexpectedly)" if broken else ""
        say(
            f"{title}, {fresh['job']}: {outcome.ran} tests, {outcome.skipped} skipped{tail}, "
            f"{outcome.seconds:.0f} s"
        )
        for test in unexpected:
            self._complain(f"{title}: {test}", f"\n{broken[test]}")
        fresh |= {"failures": sorted(broken), "skipped": outcome.skipped, "late": outcome.late}
        self._count(fresh)

    def _count(self, fresh):
        """Adds a job to the totals, and keeps it beside, or in place of, those of other runs."""
        self.passed += max(0, fresh["tests"] - fresh["skipped"] - len(fresh["failures"]))
        self.skipped += fresh["skipped"]
        if self._args.quick:
            return
        args = self._args
        whose = "upstream" if args.upstream else "mixed" if args.mixed else "percale"
        path = libraries.BUILD / f"mpi-{args.provider}-{whose}.json"
        rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        about = [fresh[key] for key in ABOUT]
        rows = [each for each in rows if [each[key] for key in ABOUT] != about]
        path.write_text(json.dumps([*rows, fresh], indent=1) + "\n", encoding="utf-8")

    def _some(self, *ranks):
        return [number for number in ranks if number in self._ranks]

    def _complain(self, what, failure):
        print(f"FAILED {what}: {failure}", flush=True)
        self.complaints.append(what)


def choice(each, ranks, module, known):
    """Options that choose the tests of a module."""
    options = [word for test in known.excluded(each, ranks) for word in ("-x", test)]
    if ranks == 4 and module == "test_rma":
        options += [word for test in FOUR_RANKS_RMA for word in ("-k", test)]
    return options


def row(each, ranks, what, job, tests=0, failures=(), late=False):
    """What is kept of a job."""
    return {
        "mpi": each.title,
        "ranks": ranks,
        "what": what,
        "job": job,
        "tests": tests,
        "failures": list(failures),
        "skipped": 0,
        "late": late,
    }


def of(failure):
    """What a failed program means for its row."""
    text = str(failure)
    return {"tests": 1, "failures": [text.splitlines()[0]], "late": "no end after" in text}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(f"failed: {failure}")
