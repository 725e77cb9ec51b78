#!/usr/bin/env python3
"""Instructions of data calls over verbs, of this build and of the distribution's library.

    tests/vm/run.py --deadline 1800 tests/vm/cost.py

Counts them with callgrind where a device in software is: for each call, those in the libfabric that is
loaded, and those in the device's driver behind it. Needs build/verbs-cost (`suite.py connections`
compiles its neighbours), and valgrind.
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
    for library in (libraries.percale(), libraries.debian()):
        for call in CALLS:
            counted = measure(library, call)
            each = {name: total / CALLS[call] / ROUNDS for name, total in counted.items()}
            listed = [f"{each[name]:.0f} {name}" for name in sorted(each, key=each.get, reverse=True)]
            print(f"{library.title}, {call}: {', '.join(listed)}", flush=True)


def measure(library, call):
    """Instructions during all calls of a name, by library."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out")
        command = ["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no",
                   f"--toggle-collect={call}", f"--callgrind-out-file={out}.%p",
                   libraries.BUILD / "verbs-cost", "verbs", os.environ["VM_ADDR"], str(ROUNDS)]
        process = subprocess.Popen(list(map(str, command)), env=library.env())
        if process.wait(900):
            sys.exit(f"{call} on {library.title} failed")
        return parse(pathlib.Path(f"{out}.{process.pid}").read_text(encoding="utf-8"))


def parse(text):
    """Sums a profile's own costs by the names of the libraries."""
    names, costs = {}, {}
    library, inclusive = "?", False
    for line in text.splitlines():
        key, _, rest = line.partition("=")
        if key in ("ob", "cob"):
            number, name = NAME.match(rest).groups()
            if name:
                names[number] = pathlib.Path(name).name
            if key == "ob":
                library = names[number]
        elif key == "calls":
            # The next line has what the function that is called costs.
            inclusive = True
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            if not inclusive:
                costs[library] = costs.get(library, 0) + int(line.split()[-1])
            inclusive = False
    costs.pop("verbs-cost", None)
    return costs


if __name__ == "__main__":
    main()
