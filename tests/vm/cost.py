#!/usr/bin/env python3
"""Instructions of data calls over verbs, of this build and of the distribution's library.

    tests/vm/run.py --deadline 1800 tests/vm/cost.py

Counts them with callgrind where a device in software is: for each call, those in the libfabric that is
loaded, and those in the device's driver behind it. The job `costs` of tests/vm/suite.py runs it.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import libraries  # noqa: E402

# How often each is made in a round.
CALLS = {
    "call_send": 1,
    "call_inject": 1,
    "call_write": 1,
    "call_receive": 3,
    "call_read": 2,
    "call_read_empty": 2,
}
ROUNDS = 20
NAME = re.compile(r"\((\d+)\)(?: (.*))?")


def main():
    for library, suffix in ((libraries.percale(), ""), (libraries.debian(), "-debian")):
        for call, counted in measure(library, libraries.BUILD / f"verbs-cost{suffix}").items():
            each = {name: total / CALLS[call] / ROUNDS for name, total in counted.items()}
            listed = [f"{each[name]:.0f} {name}" for name in sorted(each, key=each.get, reverse=True)]
            print(f"{library.title}, {call}: {', '.join(listed)}", flush=True)


def measure(library, program):
    """Instructions during all calls of each name, by library."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out")
        command = ["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no",
                   # A function counts apart for each way that it was called.
                   "--separate-callers=24", *(f"--toggle-collect={call}" for call in CALLS),
                   f"--callgrind-out-file={out}.%p",
                   program, "verbs", os.environ["VM_ADDR"], str(ROUNDS)]
        # The first call of each function is to be like all others.
        environment = {**library.env(), "LD_BIND_NOW": "1"}
        process = subprocess.Popen(list(map(str, command)), env=environment)
        if process.wait(900):
            sys.exit(f"{library.title}: it failed")
        return parse(pathlib.Path(f"{out}.{process.pid}").read_text(encoding="utf-8"))


def parse(text):
    """Sums a profile's own costs, by the call that they are part of and by the names of libraries."""
    libraries_, functions, costs = {}, {}, {call: {} for call in CALLS}
    library, call, inclusive = "?", None, False
    for line in text.splitlines():
        key, _, rest = line.partition("=")
        if key in ("ob", "cob"):
            number, name = NAME.match(rest).groups()
            if name:
                libraries_[number] = pathlib.Path(name).name
            if key == "ob":
                library = libraries_[number]
        elif key in ("fn", "cfn"):
            number, name = NAME.match(rest).groups()
            if name:
                # The function, and those that it was called by.
                way = name.split("'")
                functions[number] = next((each for each in way if each in CALLS), None)
            if key == "fn":
                call = functions[number]
        elif key == "calls":
            # The next line has what the function that is called costs.
            inclusive = True
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            if not inclusive and call:
                costs[call][library] = costs[call].get(library, 0) + int(line.split()[-1])
            inclusive = False
    for of_call in costs.values():
        for name in [name for name in of_call if name.startswith("verbs-cost")]:
            del of_call[name]
    return costs


if __name__ == "__main__":
    main()
