#!/usr/bin/env python3
"""The Rust bindings of libfabric's authors on what `make install` installs: they build, their own tests
pass, and programs written with them run on this library. The last line has the totals."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.children import Failed, run  # noqa: E402
from harness.libraries import ROOT, require  # noqa: E402

CLIENT = pathlib.Path(__file__).parent
CRATE = "ofi-libfabric-sys"
BUILD = ROOT / "build" / "bindings"
PROGRAMS = {"message": "through the bindings\n", "remote": "written and read\n"}
PROVIDERS = {"shm": [], "tcp": ["127.0.0.1"], "tcp;ofi_rxm": ["127.0.0.1"]}


def main():
    for program in ("cargo", "make", "pkg-config"):
        require(shutil.which(program), f"{program} is missing")
    prefix = BUILD / "prefix"
    shutil.rmtree(prefix, ignore_errors=True)
    run(["make", "-C", ROOT, "install", f"PREFIX={prefix}"], 1800)
    environment = {
        **os.environ,
        "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig"),
        "LD_LIBRARY_PATH": str(prefix / "lib"),
        "CARGO_TARGET_DIR": str(BUILD / "target"),
        "CARGO_TERM_COLOR": "never",
    }
    own_tests(environment)
    passed, failed = programs(environment, prefix)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def own_tests(environment):
    """The crate's tests, from a copy of its source."""
    copy = BUILD / "crate"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source(), copy)
    with open(copy / "Cargo.toml", "a", encoding="utf-8") as manifest:
        manifest.write("\n[workspace]\n")
    command = ["cargo", "test", "--locked", "--quiet"]
    subprocess.run(command, cwd=copy, env=environment, check=True, timeout=1200)


def source():
    """Where cargo keeps the crate's source."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path"]
    printed = subprocess.check_output([*command, CLIENT / "Cargo.toml"], timeout=600)
    known = json.loads(printed)
    found = next(each for each in known["packages"] if each["name"] == CRATE)
    return pathlib.Path(found["manifest_path"]).parent


def programs(environment, prefix):
    """Builds the programs, and runs each over each provider: counts."""
    build = ["cargo", "build", "--locked", "--quiet", "--manifest-path", CLIENT / "Cargo.toml"]
    run(build, 1200, environment)
    passed = failed = 0
    for provider, place in PROVIDERS.items():
        for name, expected in PROGRAMS.items():
            program = BUILD / "target" / "debug" / name
            done = subprocess.run(
                [program, provider, *place],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
            )
            good = done.returncode == 0 and done.stdout == expected
            print(f"{'ok' if good else 'FAILED'}: {name} over {provider}")
            if not good:
                print(done.stdout, done.stderr)
            passed, failed = passed + good, failed + (not good)
    needed = run(["ldd", BUILD / "target" / "debug" / "message"], 20, environment)
    good = f"=> {prefix}/lib/libfabric.so.1" in needed
    print(f"{'ok' if good else 'FAILED'}: the programs run on what was installed")
    return passed + good, failed + (not good)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
        sys.exit(f"failed: {failure}")
