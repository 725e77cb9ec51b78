#!/usr/bin/env python3
"""Everything that must hold, in order of cost. The last line has the totals of all of it.

A step that counts its tests adds those numbers; any other step is one test. A failed step does not
keep the next from running, unless there is nothing to run them on.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
# As cargo's tests end, and as our own programs do.
RESULT = re.compile(r"^(?:test result: \w+\. )?(\d+) passed[;,] (\d+) failed[;,] (\d+) (?:ignored|skipped)")


# Steps that are one test.
PLAIN = {"install", "demo"}


class Totals:
    """Counts of the whole run."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.complaints = []

    def step(self, title, command, seconds, counts=False, env=None):
        """Runs a command, showing what it prints; whether it succeeded."""
        print(f"\n==> {title}: {' '.join(map(str, command))}", flush=True)
        begin = time.monotonic()
        status, results = follow(command, seconds, env)
        took = time.monotonic() - begin
        passed, failed, skipped = (sum(column) for column in zip(*results, (0, 0, 0)))
        if not counts:
            passed, failed, skipped = (1, 0, 0) if status == 0 else (0, 1, 0)
        elif failed == 0 and (status != 0 or passed + skipped == 0):
            # It did not compile, was cut off, died, or found no test where there are some.
            failed = 1
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        if failed:
            self.complaints.append(title)
        print(f"==> {title}: {passed} passed, {failed} failed, {skipped} skipped, {took:.0f} s")
        return status == 0

    def skip(self, title, reason):
        """Notes a step that this host cannot run."""
        print(f"\n==> {title}: skipped, {reason}", flush=True)
        self.skipped += 1


def follow(command, seconds, env):
    """Runs a command in a session of its own, ended at the deadline: status, lines of totals."""
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    late = threading.Timer(seconds, end, [process, seconds])
    late.daemon = True
    late.start()
    results = []
    try:
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            found = RESULT.match(line)
            if found:
                results.append(tuple(int(count) for count in found.groups()))
        return process.wait(), results
    finally:
        late.cancel()
        if process.poll() is None:
            end(process, None)


def end(process, seconds):
    if seconds is not None:
        print(f"no end after {seconds} s", flush=True)
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            # Steps with children in sessions of their own end those first.
            process.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rust-only", action="store_true", help="no demo, no MPI, no install")
    args = parser.parse_args()
    totals = Totals()
    python = sys.executable

    formatting = ["cargo", "fmt", "--check"]
    totals.step("formatting", [*formatting, "--all"], 60)
    apart = (("fuzz targets", "fuzz"), ("clients of bindings", "bindings"), ("oracle", "oracle"))
    for title, place in apart:
        manifest = ["--manifest-path", f"tests/{place}/Cargo.toml"]
        totals.step(f"formatting of {title}", [*formatting, *manifest], 60)
    built = totals.step("release build", ["make", "build"], 1200)
    everything = ["--workspace", "--all-features", "--locked"]
    clippy = ["cargo", "clippy", *everything, "--all-targets", "--", "-D", "warnings"]
    totals.step("clippy", clippy, 900)
    documents = ["cargo", "doc", *everything, "--no-deps"]
    totals.step("documentation", documents, 600, env={"RUSTDOCFLAGS": "-D warnings"})
    oldest(totals)
    if shutil.which("cargo-deny"):
        # It reads the manifests of all crates, those for other systems too.
        totals.step("crates", ["cargo", "fetch", "--locked"], 600)
        deny = ["cargo", "deny", "--offline", "check", "licenses", "bans", "sources"]
        totals.step("dependencies", deny, 120)
    else:
        totals.skip("dependencies", "cargo-deny is not installed")
    if shutil.which("mdbook"):
        totals.step("book", ["mdbook", "build", "docs", "--dest-dir", ROOT / "build" / "book"], 60)
    else:
        totals.skip("book", "mdbook is not installed")
    if not args.rust_only:
        # Some of what follows runs on its libfabric, too, and its jobs on ours; without it they are
        # left out.
        prepare = [python, "-m", "harness.prepare"]
        totals.step("MPICH of PyPI", prepare, 600, env={"PYTHONPATH": str(ROOT / "tests")})
    tests = ["cargo", "test", *everything, "--no-fail-fast"]
    totals.step("Rust and C tests", tests, 1200, counts=True)
    oracle = ["cargo", "test", "--manifest-path", "tests/oracle/Cargo.toml", "--locked"]
    target = {"CARGO_TARGET_DIR": str(ROOT / "target" / "oracle")}
    totals.step("structs of verbs by rdma-sys", oracle, 600, counts=True, env=target)
    models(totals)
    totals.step("fuzzing", [python, "tests/fuzz/run.py"], 1200, counts=True)

    if not args.rust_only:
        if built:
            suite = [python, "tests/conformance/run.py"]
            totals.step("conformance of shm", suite, 900, counts=True)
            # Threads vary everything; between processes, the cases as they are.
            for title, kind in (("tcp", "rdm"), ("connections over tcp", "msg")):
                command = [*suite, "-p", "tcp", "-e", kind]
                totals.step(f"conformance of {title}", [*command, "-i", "threads"], 900, counts=True)
                between = f"conformance of {title}, between processes"
                totals.step(between, [*command, "-i", "processes", "--plain"], 900, counts=True)
            wildcard = [*suite, "-p", "tcp", "-n", "0.0.0.0", "-i", "processes", "--plain"]
            some = ["messages/*", "addresses/*", "controls/*", "rma/*"]
            totals.step("conformance of tcp at all addresses", [*wildcard, *some], 300, counts=True)
            layered = [*suite, "-p", "tcp;ofi_rxm", "-i", "threads"]
            totals.step("conformance of tcp;ofi_rxm", layered, 900, counts=True)
        mpi_over_tcp, mpi_over_rxm = (
            [
                *("tests/mpi/run.py", "-p", provider, "--quick", "--ranks", "2"),
                *("--parts", "c,mpi4py", "--mpi", "mpich,openmpi"),
            ]
            for provider in ("tcp", "tcp;ofi_rxm")
        )
        later = {
            "install": ["tests/install/run.py"],
            "bindings for Rust of libfabric": ["tests/bindings/run.py"],
            "demo": ["tests/demo/demo.py", "--quick", "--no-build"],
            "two libraries on one wire": ["tests/mixed/run.py"],
            "MPI": ["tests/mpi/run.py", "--quick"],
            # Two modules: messages of all kinds, and processes that come and go.
            "MPI over tcp": [*mpi_over_tcp, "test_p2p_buf", "test_spawn"],
            "MPI over tcp on two libraries": [
                *(*mpi_over_tcp, "--mixed"),
                *("--mpi", "mpich", "test_p2p_buf"),
            ],
            "MPI over tcp;ofi_rxm": [*mpi_over_rxm, "test_p2p_buf"],
        }
        # Their processors are emulated, so that they take long on a busy host.
        later |= {
            "virtual machines": ["tests/vm/check.py"],
            "RDMA devices in virtual machines": ["tests/vm/suite.py"],
        }
        for title, command in later.items():
            if built:
                seconds = 1800 if "virtual" in title else 900
                totals.step(title, [python, *command], seconds, counts=title not in PLAIN)
            else:
                totals.skip(title, "there is no library")

    if totals.complaints:
        print("\nfailed: " + ", ".join(totals.complaints))
    print(f"\n{totals.passed} passed, {totals.failed} failed, {totals.skipped} skipped")
    return 1 if totals.failed else 0


def oldest(totals):
    """The oldest compiler that is to be enough, where it is installed; `make msrv` installs none."""
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    version = re.search(r'^rust-version = "(.+)"', manifest, re.M).group(1)
    command = ["rustup", "toolchain", "list"]
    found = shutil.which("rustup") and subprocess.run(command, capture_output=True, text=True)
    if found and re.search(rf"^{re.escape(version)}\.0-", found.stdout, re.M):
        totals.step("oldest compiler", ["make", "msrv"], 900)
    else:
        totals.skip("oldest compiler", f"Rust {version}.0 is not installed")


def models(totals):
    """The loom models, in a target folder of their own: the flag rebuilds every crate."""
    found = any("loom::model" in path.read_text(encoding="utf-8") for path in sources())
    if not found:
        totals.skip("loom models", "there are none")
        return
    command = ["cargo", "test", "-p", "percale-core", "--release", "--locked", "models::"]
    env = {"RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": str(ROOT / "target" / "loom")}
    # Whole-program optimisation buys nothing here and takes most of the time.
    env |= {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}
    totals.step("loom models", command, 900, counts=True, env=env)


def sources():
    for folder in ("src", "tests"):
        yield from (ROOT / "fabric-core" / folder).rglob("*.rs")


if __name__ == "__main__":
    sys.exit(main())
