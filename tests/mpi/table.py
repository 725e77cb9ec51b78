#!/usr/bin/env python3
"""Puts the results of `run.py`, and those of `run.py --upstream` beside them, into the book."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import libraries  # noqa: E402

PAGE = libraries.ROOT / "docs" / "src" / "mpi.md"
MARKS = "<!-- mpi PROVIDER: begin -->\n", "<!-- mpi PROVIDER: end -->"
COLUMNS = ["tests", "skipped", "failures", "late"]


def main():
    for provider in ("shm", "tcp"):
        page(provider, *(load(provider, name) for name in ("percale", "upstream", "mixed")))


def page(provider, ours, theirs, mixed):
    """Renews one provider's table, if there are results for it."""
    if not ours:
        return print(f"{provider}: no results in build, its table stays")
    lines = [
        "| | ranks | | tests | skipped | failed | deadline hit |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    partly = any(key not in theirs for key in ours)
    for key, row in sorted(ours.items()):
        mpi, ranks, what = key
        # Where upstream was not run everywhere, the rows tell where it was.
        mpi += " *" if partly and key in theirs else ""
        lines.append(line((mpi, ranks, what), row, theirs.get(key, row)))
    for (mpi, ranks, what), row in sorted(mixed.items()):
        lines.append(line((mpi, ranks, f"{what}, mixed"), row, row))
    table = "\n".join(lines) + "\n"
    begin, end = (mark.replace("PROVIDER", provider) for mark in MARKS)
    before, rest = PAGE.read_text(encoding="utf-8").split(begin)
    after = rest.split(end)[1]
    PAGE.write_text(before + begin + table + end + after, encoding="utf-8")
    for key, row in ours.items():
        new = set(row["failures"]) - set(theirs.get(key, row)["failures"])
        if new:
            print(f"{provider}, {key}: only with Percale: {sorted(new)}")


def line(key, row, other):
    """A row of the table."""
    mpi, ranks, what = key
    cells = [cell(row[column], other[column]) for column in COLUMNS]
    return f"| {mpi} | {ranks} | {what} | " + " | ".join(cells) + " |"


def cell(ours, theirs):
    """Both figures, or one where they are equal."""
    ours, theirs = (len(x) if isinstance(x, list) else x for x in (ours, theirs))
    return f"{ours}" if theirs == ours else f"{ours} / {theirs}"


def load(provider, name):
    """Sums over the jobs of each part; nothing without results."""
    path = libraries.BUILD / f"mpi-{provider}-{name}.json"
    if not path.exists():
        return {}
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
