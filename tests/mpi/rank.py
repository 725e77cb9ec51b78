#!/usr/bin/env python3
"""One rank of a job that runs modules of mpi4py's own test suite.

Every rank keeps a record of its own, one JSON array a line, written as things happen: what a rank
was doing when its job was ended can be read from it. Ranks that share an output would mix theirs.
"""

import argparse
import json
import os
import pathlib
import sys
import unittest

# What lets an MPI library hand accumulate operations to the network's own atomics.
NATIVE = {
    "accumulate_ops": "same_op",
    "accumulate_ordering": "none",
    "which_accumulate_ops": "sum,replace,no_op,cswap",
}


class Record(unittest.TestResult):
    """Writes each event to the rank's file."""

    def __init__(self, file):
        super().__init__()
        self._file = file

    def write(self, event, *words):
        """One event, in the file when this returns."""
        self._file.write(json.dumps([event, *words]) + "\n")
        self._file.flush()

    def startTest(self, test):
        super().startTest(test)
        self.write("start", test.id())

    def stopTest(self, test):
        super().stopTest(test)
        self.write("stop", test.id())

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.write("skip", test.id(), reason)

    def addError(self, test, err):
        super().addError(test, err)
        self.write("fail", test.id(), self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.write("fail", test.id(), self.failures[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            text = self._exc_info_to_string(err, test)
            self.write("fail", test.id(), f"{subtest.id()}\n{text}")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.write("fail", test.id(), "succeeded against expectation")


class Runner:
    """What `unittest` asks to run the tests."""

    def __init__(self, record):
        self._record = record

    def run(self, tests):
        """Runs them all."""
        tests(self._record)
        return self._record


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", type=pathlib.Path, help="folder of the ranks' records")
    parser.add_argument("suite", type=pathlib.Path, help="the suite, unpacked")
    parser.add_argument("--native", action="store_true", help="windows promise simple accumulates")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="options and modules of the suite")
    args = parser.parse_args()
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.fspath(args.suite / "test"))
    sys.argv = [os.fspath(args.suite / "test" / "main.py"), *args.rest]

    from mpi4py import MPI

    import main as suite

    if args.native:
        promise(MPI)
    path = args.records / f"{MPI.COMM_WORLD.Get_rank()}.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        record = Record(file)
        record.write("library", mapped())
        # Failures are in the record; an exit status would make the launcher end the other ranks.
        try:
            suite.TestProgram(module=None, testRunner=Runner(record), verbosity=0)
        except SystemExit as end:
            # An option or a module that the suite does not know.
            if end.code not in (0, 1, True, False, None):
                raise
        record.write("end")


def promise(mpi):
    """Gives the windows of the one-sided modules the information that `NATIVE` has."""
    import test_rma
    import test_rma_nb

    for module in (test_rma, test_rma_nb):
        for case in vars(module).values():
            if isinstance(case, type) and hasattr(case, "INFO"):
                case.INFO = mpi.Info.Create(NATIVE)


def mapped():
    """The libfabric that this process has mapped."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.rstrip("\n").split(maxsplit=5)[5:]
            if path and os.path.basename(path[0]).startswith("libfabric.so"):
                return path[0]
    return None


if __name__ == "__main__":
    main()
