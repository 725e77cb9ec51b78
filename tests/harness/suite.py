"""mpi4py's own test suite on an MPI library and a libfabric of choice, a job for each module."""

import fnmatch
import json
import os
import pathlib
import tarfile
import tempfile
import time
import tomllib

from .children import Failed, run
from .libraries import BUILD, VENV
from .mpi import SOURCES
from .prepare import say

RELEASE = "mpi4py-4.1.2"
KNOWN = SOURCES / "known.toml"


class Known:
    """Tests that fail for reasons outside libfabric, or are left out for such reasons."""

    def __init__(self, path=KNOWN):
        with open(path, "rb") as file:
            self._entries = tomllib.load(file)["known"]

    def excluded(self, mpi, ranks):
        """Patterns of tests that are left out."""
        return self._patterns(mpi, ranks, "leave out")

    def allowed(self, mpi, ranks):
        """What says of a test whether it may fail."""
        patterns = self._patterns(mpi, ranks, "allow")
        return lambda test: any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns)

    def _patterns(self, mpi, ranks, do):
        found = []
        for entry in self._entries:
            concerns = (
                mpi.name in entry["mpi"]
                and ranks in entry.get("ranks", [ranks])
                and mpi.provider in entry.get("providers", [mpi.provider])
            )
            if concerns and entry["do"] == do:
                found += entry["tests"]
        return found


class Outcome:
    """What became of one job."""

    def __init__(self, records, complaint):
        self.seconds = 0.0
        # Of the launcher: a deadline, an exit status.
        self.complaint = complaint
        ranks = [_Rank(events) for events in records]
        self.library = {rank.library for rank in ranks}
        self.ran = max((rank.ran for rank in ranks), default=0)
        self.skipped = max((rank.skipped for rank in ranks), default=0)
        self.failures = {}
        for number, rank in enumerate(ranks):
            for test, text in rank.failures:
                self.failures.setdefault(test, f"rank {number}: {text}")
        # Tests in which a rank was when its job was ended, or in which it died.
        self.unfinished = sorted({rank.running for rank in ranks if not rank.ended})
        if self.unfinished and not complaint:
            self.complaint = "a rank ended early"

    @property
    def late(self):
        """Whether the job was ended at its deadline."""
        return self.complaint.startswith("no end")


class _Rank:
    def __init__(self, events):
        self.ran = self.skipped = 0
        self.failures = []
        self.running = "start"
        self.library = None
        self.ended = False
        for event, *words in events:
            if event == "library":
                self.library = words[0]
            elif event == "start":
                self.ran += 1
                self.running = words[0]
            elif event == "stop":
                self.running = f"after {words[0]}"
            elif event == "skip":
                self.skipped += 1
            elif event == "fail":
                self.failures.append(words)
            elif event == "end":
                self.ended = True


def modules(suite):
    """The names of all modules."""
    return sorted(path.stem for path in (suite / "test").glob("test_*.py"))


def fetch():
    """Where the suite is. It comes with the source distribution only; nothing in it is built."""
    target = BUILD / RELEASE
    if not target.exists():
        say(f"fetching the tests of {RELEASE}")
        pip = VENV / "bin" / "pip"
        wanted = RELEASE.replace("-", "==")
        options = ["--no-deps", "--no-binary", "mpi4py", "--dest", BUILD]
        run([pip, "download", "--quiet", *options, wanted], 300)
        with tarfile.open(BUILD / f"{RELEASE}.tar.gz") as archive:
            archive.extractall(BUILD, filter="data")
    return target


def job(mpi, library, ranks, suite, module, seconds, options=(), native=False):
    """Runs a module in a job of its own; every end of it has an outcome."""
    command = [mpi.python, SOURCES / "rank.py", *(["--native"] if native else [])]
    begin = time.monotonic()
    complaint = ""
    # In memory where that can be had: the suite writes files, too, and waits for each.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="percale-mpi-", dir=memory) as name:
        records = pathlib.Path(name)
        try:
            # Processes that a test starts import from its module.
            path = str(suite / "test")
            command += [records, suite, *options, module]
            mpi.job(library, ranks, command, seconds, PYTHONPATH=path, TMPDIR=name)
        except Failed as failure:
            complaint = failure.args[0].split("\n  ", 1)[-1]
        outcome = Outcome([_read(records / f"{n}.jsonl") for n in range(ranks)], complaint)
    outcome.seconds = time.monotonic() - begin
    return outcome


def _read(path):
    """A rank's record. Its last line may be half written."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    events = []
    for line in lines:
        try:
            events.append(json.loads(line))
        except ValueError:
            break
    return events
