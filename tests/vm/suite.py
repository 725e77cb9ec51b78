#!/usr/bin/env python3
"""Jobs in virtual machines that have RDMA devices, in software, several jobs to a machine.

A job fails if a program fails or does not end in time, leaves a process, runs on another library
than it should, or changes what the devices hold. The last line has the totals.
"""

import argparse
import fnmatch
import itertools
import os
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import apt  # noqa: E402
import jobs  # noqa: E402
import kernels  # noqa: E402
import machine  # noqa: E402
import provision  # noqa: E402
from harness import libraries, prepare  # noqa: E402
from harness.children import Failed  # noqa: E402

# As cargo's tests end, and as our own programs do.
RESULT = re.compile(
    r"^(?:test result: \w+\. )?(\d+) passed[;,] (\d+) failed[;,] (\d+) (?:ignored|skipped)", re.M
)
PROGRAMS = {"fi_pingpong": "libfabric-bin"}
# A machine that crashes is started again for the jobs that are left, so many times.
BOOTS = 3


class Totals:
    """Counts of all jobs."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, job, result, verbose):
        """Tells what became of a job and counts it."""
        complaints = list(result["complaints"])
        found = [tuple(map(int, each)) for each in RESULT.findall(whole(result))]
        passed, failed, skipped = (sum(column) for column in zip(*found, (0, 0, 0)))
        if not job.counts:
            passed, failed, skipped = 1, 0, 0
        elif passed + failed + skipped == 0:
            complaints.append("it has no totals")
        if complaints and not failed:
            passed, failed = passed if job.counts else 0, 1
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        word = "FAILED" if failed else "ok    "
        counted = f", {passed} passed, {failed} failed, {skipped} skipped" if job.counts else ""
        print(f"{word} {job.name} ({result['seconds']:.1f} s{counted})", flush=True)
        for complaint in complaints:
            print(f"    {complaint}")
        if failed or verbose:
            for role, text in result["output"].items():
                # Indented, no line of it is taken for totals of this program.
                print("".join(f"    {role}: {line}\n" for line in text.splitlines()[-200:]), end="")
            for message in result["messages"][-20:]:
                print(f"    kernel: {message}")
        sys.stdout.flush()


def main():
    args = arguments()
    chosen = [
        job
        for job in jobs.everything()
        if (args.all or job.always or args.names)
        and (not args.names or any(fnmatch.fnmatchcase(job.name, name) for name in args.names))
        and (args.hosts is None or job.hosts == args.hosts)
    ]
    if args.list:
        for job in chosen:
            print(job.name)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    totals = Totals()
    reason = apt.unfit()
    if reason:
        print(f"skipped: {reason}")
        totals.skipped = len(chosen)
    else:
        prepare.packages(PROGRAMS)
        key = machine_of
        for (hosts, link), some in itertools.groupby(sorted(chosen, key=key), key):
            perform(list(some), hosts, link, args, totals)
    print(f"{totals.passed} passed, {totals.failed} failed, {totals.skipped} skipped")
    return 1 if totals.failed else 0


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="those that `make test` leaves out, too")
    parser.add_argument("--list", action="store_true", help="name the jobs and stop")
    parser.add_argument("--hosts", type=int, choices=[1, 2], help="jobs of so many hosts only")
    parser.add_argument("--kernel", choices=kernels.CHOICES, default=kernels.DEFAULT)
    parser.add_argument("-v", "--verbose", action="store_true", help="show what jobs print")
    parser.add_argument("names", nargs="*", help="jobs, by patterns as the shell's")
    return parser.parse_args()


def machine_of(job):
    """Jobs for which this is the same share a machine."""
    return job.hosts, job.link


def perform(wanted, hosts, link, args, totals):
    """Does jobs of one kind of machine."""
    vm = machine.Machine(provision.prepare(args.kernel, [link]), [link], hosts)
    left = {job.name: job for job in wanted}
    task = {"folder": str(libraries.ROOT), "environment": provision.environment([])}
    for _ in range(BOOTS):
        begin = time.monotonic()
        at = []

        def handle(kind, event):
            if kind == "job":
                at[:] = [event["name"]]
            elif kind == "result":
                at.clear()
                totals.add(left.pop(event["name"]), event, args.verbose)

        try:
            seconds = sum(job.seconds + 60 for job in left.values())
            vm.run({**task, "jobs": list(map(described, left.values()))}, seconds, handle)
            took = time.monotonic() - begin
            times = f"started in {vm.booted:.0f} s, over in {took:.0f} s"
            print(f"machine of {hosts} with {link}: {times}", flush=True)
        except machine.Unstarted as failure:
            abandon(left, list(left), failure, totals)
        except machine.Broken as failure:
            # The job that it was doing is to blame.
            abandon(left, at, failure, totals)
        if not left:
            return
    abandon(left, list(left), "the machine has crashed too often", totals)


def abandon(left, names, why, totals):
    """Counts jobs that have not been done as failed."""
    for name in names:
        result = {"complaints": [str(why)], "output": {}, "messages": [], "seconds": 0}
        totals.add(left.pop(name), result, False)


def described(job):
    """A job as the machine takes it."""
    known = {each.__name__: each for each in (libraries.percale, libraries.debian, libraries.wheel)}
    told = {"name": job.name, "port": job.port, "tcp": job.tcp}
    told |= {"seconds": job.seconds, "leaks": job.leaks}
    programs = {"server": job.server, "client": job.client}
    for number, role in enumerate(role for role in programs if programs[role] is not None):
        library, path = None, {}
        if job.libraries:
            name = job.libraries[number]
            library = known[name]()
            libraries.require(library and library.path.exists(), f"there is no library {name}")
            path = {"LD_LIBRARY_PATH": str(library.directory)}
        told[role] = {
            "command": programs[role],
            "host": "b" if job.hosts == 2 and number == 1 else "a",
            "library": library and str(library.path),
            "environment": {**path, **job.environment, **(job.build() if job.build else {})},
        }
    return told


def whole(result):
    """All that the programs of a job have printed."""
    return "\n".join(result["output"].values())


if __name__ == "__main__":
    os.chdir(libraries.ROOT)
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(f"failed: {failure}")
