#!/usr/bin/env python3
"""Installs into a scratch folder and builds a program with what pkg-config says of it."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.children import Failed, run  # noqa: E402
from harness.libraries import ROOT, require  # noqa: E402

SOURCE = pathlib.Path(__file__).with_name("consumer.c")


def main():
    for program in ("make", "cc", "pkg-config", "readelf"):
        require(shutil.which(program), f"{program} is missing")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        prefix = scratch / "prefix"
        run(["make", "-C", ROOT, "install", f"PREFIX={prefix}"], 1800)
        shared(scratch, prefix)
        static(scratch, prefix)
        command(prefix)
        staged(scratch)


def shared(scratch, prefix):
    """Dynamic linking, found through pkg-config, run through LD_LIBRARY_PATH."""
    program = scratch / "shared"
    build(program, prefix, ask(prefix, "--cflags", "--libs"))
    needed = run(["readelf", "-d", program], 20)
    check("Shared library: [libfabric.so.1]" in needed, "the soname is not libfabric.so.1")
    env = {**os.environ, "LD_LIBRARY_PATH": str(prefix / "lib")}
    version = run([program], 20, env).strip()
    said = " ".join(ask(prefix, "--modversion"))
    check(said.startswith(version), f"the library says {version}, pkg-config {said}")
    print("ok: compiled and linked by pkg-config")


def static(scratch, prefix):
    """The archive, without any libfabric.so.1 at run time."""
    program = scratch / "static"
    libs = ask(prefix, "--static", "--libs")
    libs = ["-l:libfabric.a" if word == "-lfabric" else word for word in libs]
    build(program, prefix, [*ask(prefix, "--cflags"), *libs])
    run([program], 20)
    check("libfabric" not in run(["readelf", "-d", program], 20), "still needs libfabric.so.1")
    print("ok: linked with the archive")


def command(prefix):
    """The command finds what belongs to it: the library, and the program that measures others."""
    library = prefix / "lib" / "libfabric.so.1"
    words = ["bench", "latency", "-p", "shm", "--sizes", "8", "--time", "0.01", "--vs", library]
    figures = run([prefix / "bin" / "percale", *words, "--rounds", "1"], 60)
    check("TIMES' RATIO" in figures, f"no comparison:\n{figures}")
    page = prefix / "share" / "man" / "man1" / "percale-bench.1"
    check(".SH SYNOPSIS" in page.read_text(encoding="utf-8"), f"{page} is no manual page")
    print("ok: the command measures two libraries")


def staged(scratch):
    """DESTDIR puts files aside; what is written in them is the final place."""
    run(["make", "-C", ROOT, "install", "PREFIX=/opt/x", f"DESTDIR={scratch}/stage"], 1800)
    root = scratch / "stage" / "opt" / "x"
    text = (root / "lib" / "pkgconfig" / "libfabric.pc").read_text(encoding="utf-8")
    check("prefix=/opt/x\n" in text and str(scratch) not in text, "wrong prefix in libfabric.pc")
    own = ROOT / "ffi" / "include"
    for header in own.rglob("*.h"):
        copy = root / "include" / header.relative_to(own)
        check(copy.exists(), f"{copy} is missing")
    link = root / "lib" / "libfabric.so"
    check(os.readlink(link) == "libfabric.so.1", f"{link} leads elsewhere")
    run(["make", "-C", ROOT, "uninstall", "PREFIX=/opt/x", f"DESTDIR={scratch}/stage"], 60)
    left = [str(path) for path in root.rglob("*") if not path.is_dir()]
    check(not left, f"left behind: {left}")
    print("ok: staged with DESTDIR, and taken away")


def build(program, prefix, words):
    # The linker's own default folders may hold another libfabric; -L comes first.
    run(["cc", "-Wall", "-Wextra", "-Werror", SOURCE, "-o", program, *words], 60, environment(prefix))


def ask(prefix, *options):
    command = ["pkg-config", *options, "libfabric"]
    return subprocess.check_output(command, env=environment(prefix), text=True).split()


def environment(prefix):
    return {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}


def check(condition, complaint):
    if not condition:
        raise Failed(complaint)


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"failed: {failure}")
