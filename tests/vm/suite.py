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
RESULT = re.compile(r"^(?:test result: \w+\. )?(\d+) passed[;,] (\d+) failed[;,] (\d+) (?:ignored|skipped)", re.M)
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
    parser.add_argument("--hosts", type=int, choices=[1, 2], help="jobs of one or of two hosts only")
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
    for _ in range(BOOTS):
        begin = time.monotonic()
        running = []

        def handle(kind, event):
            if kind == "job":
                running[:] = [event["name"], time.monotonic()]
            elif kind == "result":
                running.clear()
                totals.add(left.pop(event["name"]), event, args.verbose)

        try:
            told = [described(job) for job in left.values()]
            seconds = sum(job.seconds + 30 for job in left.values())
            vm.run(
                {
                    "jobs": told,
                    "folder": str(libraries.ROOT),
                    "environment": provision.environment([]),
                },
                seconds,
                handle,
            )
            took = time.monotonic() - begin
            print(f"machine: {hosts} with {link}, started in {vm.booted:.0f} s, over in {took:.0f} s")
        except machine.Broken as broken:
            # The job in which it broke, or all of them.
            names = running[:1] or list(left)
            for name in names:
                empty = {"output": {}, "messages": [], "seconds": time.monotonic() - begin}
                totals.add(left.pop(name), {"complaints": [str(broken)], **empty}, False)
        if not left:
            return
    for job in left.values():
        empty = {"output": {}, "messages": [], "seconds": 0}
        totals.add(job, {"complaints": ["the machine crashed too often"], **empty}, False)


def described(job):
    """A job as the machine takes it."""
    known = {"percale": libraries.percale, "debian": libraries.debian}
    ends = {"client": job.client} if job.server is None else {"server": job.server, "client": job.client}
    told = {"name": job.name, "port": job.port, "tcp": job.tcp, "seconds": job.seconds, "leaks": job.leaks}
    for number, (role, command) in enumerate(ends.items()):
        library = known[job.libraries[number]]() if job.libraries else None
        if job.libraries:
            libraries.require(library and library.path.exists(), f"there is no {job.libraries[number]}")
        path = {"LD_LIBRARY_PATH": str(library.directory)} if library else {}
        told[role] = {
            "command": command,
            "host": "b" if role == "client" and job.hosts == 2 and job.server else "a",
            "library": library and str(library.path),
            "environment": {**path, **job.environment},
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
