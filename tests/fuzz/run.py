#!/usr/bin/env python3
"""Parsers of bytes from the network against libFuzzer, each for some seconds.

Builds with the coverage that libFuzzer goes by; the compiler's stable options are enough for that.
What it found worth keeping stays in `build/fuzz`, where the next run goes on; an input that breaks
a parser is left there, too, and belongs into `corpus` with the repair.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.children import Failed, run  # noqa: E402
from harness.libraries import BUILD, ROOT, require  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
COVERAGE = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
]
# Longer than the longest of what is parsed, with a few of them in a row.
LONGEST = 1024


def main():
    targets = sorted(path.stem for path in (HERE / "fuzz_targets").glob("*.rs"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10, help="for each target")
    parser.add_argument("targets", nargs="*", choices=[[], *targets], help=", ".join(targets))
    args = parser.parse_args()

    # Whoever ends this run ends its children, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    folder = build()
    failures = 0
    chosen = args.targets or targets
    for target in chosen:
        try:
            print(f"{target}: {fuzz(folder / target, args.seconds)}", flush=True)
        except Failed as failure:
            failures += 1
            print(f"{target}: FAILED\n{failure}", flush=True)
    print(f"{len(chosen) - failures} passed, {failures} failed, 0 skipped")
    return 1 if failures else 0


def build():
    """Builds all targets; where they are."""
    require(shutil.which("c++"), "libFuzzer is built from source and needs a C++ compiler")
    host = re.search(r"^host: (.+)$", run(["rustc", "-vV"], 60, cwd=ROOT), re.M)[1]
    output = ROOT / "target" / "fuzz"
    env = {**os.environ, "RUSTFLAGS": " ".join(COVERAGE), "CARGO_TARGET_DIR": str(output)}
    # A target triple keeps build scripts and macros without coverage.
    command = ["cargo", "build", "--release", "--locked", "--target", host]
    run([*command, "--manifest-path", HERE / "Cargo.toml"], 900, env, ROOT)
    return output / host / "release"


def fuzz(program, seconds):
    """Runs a target and says how far it came."""
    found = BUILD / "fuzz" / program.name
    found.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST}",
        f"-artifact_prefix={found.parent}/{program.name}-",
        "-timeout=5",
        "-print_final_stats=1",
    ]
    printed = run([program, *options, found, HERE / "corpus" / program.name], seconds + 60)
    inputs = re.search(r"^stat::number_of_executed_units:\s*(\d+)", printed, re.M)
    places = re.findall(r"\bcov: (\d+)", printed)
    if not inputs or not places:
        raise Failed(f"{program.name} ran without coverage:\n{printed[-2000:]}")
    return f"{int(inputs[1]):,} inputs in {seconds} s, {places[-1]} places reached"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        print(failure)
        print("0 passed, 1 failed, 0 skipped")
        sys.exit(1)
