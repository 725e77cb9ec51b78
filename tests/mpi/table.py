#!/usr/bin/env python3
"""Puts the results of `run.py`, and those of `run.py --upstream` beside them, into the book."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import libraries  # noqa: E402

PAGE = libraries.ROOT / "docs" / "src" / "mpi.md"
MARKS = "<!-- mpi: begin -->\n", "<!-- mpi: end -->"
COLUMNS = ["tests", "skipped", "failures", "late"]


def main():
    ours, theirs = (load(name) for name in ("percale", "upstream"))
    lines = [
        "| | ranks | | tests | skipped | failed | deadline hit |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for key, row in sorted(ours.items()):
        mpi, ranks, what = key
        other = theirs.get(key)
        cells = [cell(row[column], other and other[column]) for column in COLUMNS]
        lines.append(f"| {mpi} | {ranks} | {what} | " + " | ".join(cells) + " |")
    table = "\n".join(lines) + "\n"
    before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    PAGE.write_text(before + MARKS[0] + table + MARKS[1] + after, encoding="utf-8")
    for key, row in ours.items():
        new = set(row["failures"]) - set(theirs.get(key, row)["failures"])
        if new:
            print(f"{key}: only with Percale: {sorted(new)}")


def cell(ours, theirs):
    """Both figures, or one where they are equal."""
    ours, theirs = (len(x) if isinstance(x, list) else x for x in (ours, theirs))
    if theirs is None:
        return f"{ours} / not run"
    return f"{ours}" if theirs == ours else f"{ours} / {theirs}"


def load(name):
    """Sums over the jobs of each part."""
    path = libraries.BUILD / f"mpi-{name}.json"
    libraries.require(path.exists(), f"{path} is missing: tests/mpi/run.py")
    rows = json.loads(path.read_text(encoding="utf-8"))
    sums = {}
    for row in rows:
        empty = {"tests": 0, "skipped": 0, "late": 0, "failures": []}
        total = sums.setdefault((row["mpi"], row["ranks"], row["what"]), empty)
        for column in COLUMNS:
            total[column] += row[column]
    return sums


if __name__ == "__main__":
    main()
