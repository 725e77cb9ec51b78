#!/usr/bin/env python3
"""The conformance suite: compiles it and runs it on a provider of this build or of another one.

The last line has the totals. What is not known here is an argument of the suite itself: cases,
`--in`, `--verbose`.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import libraries, prepare  # noqa: E402
from harness.children import Failed, run  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BOOK = libraries.ROOT / "docs" / "src" / "conformance.md"
BEGIN, END = "<!-- cases -->\n", "<!-- end of cases -->\n"
SANITIZERS = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}
# Functions of the standard library's that ThreadSanitizer needs help with, by their names in locks.c.
WAITS = {
    "MUTEX_LOCK": ("mutex", "futex", "Mutex", "lock_contended"),
    "RWLOCK_READ": ("rwlock", "futex", "RwLock", "read_contended"),
    "RWLOCK_WRITE": ("rwlock", "futex", "RwLock", "write_contended"),
}
# Own addresses of providers that listen at one.
NODES = {"tcp": "127.0.0.1", "tcp;ofi_rxm": "127.0.0.1"}
MEMCHECK = ["valgrind", "--quiet", "--error-exitcode=9", "--fair-sched=try", "--leak-check=full",
            "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]
FLAGS = ["-std=gnu11", "-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", choices=["percale", "debian", "wheel"], default="percale")
    parser.add_argument("-p", "--provider", default="shm")
    parser.add_argument("-e", "--endpoint", default="rdm", help="rdm, msg or dgram")
    parser.add_argument("-n", "--node", help="own address, for providers that listen at one")
    parser.add_argument("--cc", default="cc", help="compiler")
    parser.add_argument("--debian-headers", action="store_true", help="compile with the system's")
    parser.add_argument("--sanitize", choices=["address", "thread"], help="instrument the library")
    parser.add_argument(
        "--build-std", action="store_true", help="instrument Rust's standard library, too (rust-src)"
    )
    parser.add_argument("--valgrind", action="store_true", help="run it under memcheck")
    parser.add_argument("--build", action="store_true", help="compile it and stop")
    parser.add_argument("--book", action="store_true", help="write the cases into the book and stop")
    args, rest = parser.parse_known_args()
    ours = args.library == "percale"
    node = args.node or NODES.get(args.provider)

    prepare.packages({args.cc: "gcc"})
    program = instrumented(args) if args.sanitize else build(args.cc, args.debian_headers)
    if args.build:
        return 0
    if args.book:
        write_book(program)
        return 0
    library = {
        "percale": libraries.percale, "debian": libraries.debian, "wheel": libraries.wheel,
    }[args.library]()
    libraries.require(library, f"there is no library {args.library} here")
    if not args.sanitize:
        libraries.require(library.path.exists(), f"{library.path} is missing: make build")
    if ours:
        check_book(program)
        # Reliable datagrams have all that there is. Connected endpoints have a part, and another
        # library is compared, not judged.
        rest.append("--complete" if args.endpoint == "rdm" else "--offered")
    command = [program, "-p", args.provider, "-e", args.endpoint, *rest]
    if node:
        command += ["-n", node]
    if args.valgrind:
        prepare.packages({"valgrind": "valgrind"})
        command = [*MEMCHECK, *command]
    if args.valgrind or args.sanitize:
        command.append("--slow")
    env = library.env(**SANITIZERS)
    return subprocess.call(list(map(str, command)), env=env)


def build(compiler, debian_headers):
    """Compiles all of it; the loader finds the library by its name."""
    sources = sorted(HERE.glob("*.c"))
    library = libraries.percale().path
    libraries.BUILD.mkdir(exist_ok=True)
    program = libraries.BUILD / "conformance"
    include = [] if debian_headers else ["-I", libraries.ROOT / "ffi" / "include"]
    # A build against older headers must not need newer symbols than they name.
    link = ["-lfabric"] if debian_headers else [library]
    run([compiler, *FLAGS, *include, *sources, "-o", program, *link], 300)
    return program


def instrumented(args):
    """The suite with the library inside, built with a sanitizer and its runtime of the toolchain.

    The pinned compiler is a stable one: the sanitizers are switched on by RUSTC_BOOTSTRAP, and its
    standard library stays as it is.
    """
    target = libraries.ROOT / "target" / args.sanitize
    triple = f"{os.uname().machine}-unknown-linux-gnu"
    # System calls go through libc, where the sanitizers see what they read, write, map and unmap.
    flags = f"-Zsanitizer={args.sanitize} -Cunsafe-allow-abi-mismatch=sanitizer --cfg rustix_use_libc"
    env = {**os.environ, "RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": flags}
    cargo = ["cargo", "build", "--locked", "-p", "percale-ffi", "--target", triple]
    if args.build_std:
        run(["rustup", "component", "add", "rust-src"], 300, cwd=libraries.ROOT)
        cargo += ["-Zbuild-std"]
        target = target.with_name(f"{target.name}-std")
    run([*cargo, "--target-dir", target], 1800, env, libraries.ROOT)
    archive = target / triple / "debug" / "libfabric.a"
    sysroot = run(["rustc", "--print", "sysroot"], 60, cwd=libraries.ROOT).strip()
    folder = pathlib.Path(sysroot) / "lib" / "rustlib" / triple / "lib"
    short = {"address": "asan", "thread": "tsan"}[args.sanitize]
    runtime = sorted(folder.glob(f"librustc-*_rt.{short}.a"))
    libraries.require(runtime, f"this toolchain has no runtime for {args.sanitize} in {folder}")
    program = libraries.BUILD / f"conformance-{short}"
    include = ["-I", libraries.ROOT / "ffi" / "include"]
    link = ["-rdynamic", "-Wl,--whole-archive", runtime[-1], "-Wl,--no-whole-archive"]
    link += ["-ldl", "-lm", "-lrt", "-lgcc_s"]
    objects = libraries.BUILD / f"conformance-{short}.d"
    objects.mkdir(parents=True, exist_ok=True)
    sources, flags = sorted(HERE.glob("*.c")), [*FLAGS, *include]
    if args.sanitize == "thread" and not args.build_std:
        # Not the suite itself: a target looks on while peers write to its memory, which is a race.
        sources.append(HERE / "thread" / "locks.c")
        defined, wrapped = waits(archive)
        flags, link = flags + defined, link + wrapped
    elif args.sanitize == "address":
        flags.append(f"-fsanitize={args.sanitize}")
    run([args.cc, *flags, "-c", *sources], 300, cwd=objects)
    # Linked without that flag, which would bring the runtime of another compiler along.
    made = [objects / f"{source.stem}.o" for source in sources]
    run([args.cc, *FLAGS, *made, "-o", program, archive, *link], 300)
    return program


def waits(archive):
    """Flags that wrap what std does out of sight of ThreadSanitizer (see locks.c): for the compiler,
    and for the linker."""
    listing = run(["nm", "-u", archive], 60).split()
    defined, wrapped = [], []
    for macro, path in WAITS.items():
        # A mangled path is a sequence of lengths and names; the last is that of the function.
        names = "".join(f"{len(name)}{name}.*" for name in path)
        found = {symbol for symbol in listing if re.fullmatch(f"_R.*3std.*{names}", symbol)}
        libraries.require(len(found) == 1, f"std::{'::'.join(path)} is not in {archive}")
        symbol = found.pop()
        defined.append(f"-D{macro}={symbol}")
        wrapped.append(f"-Wl,--wrap={symbol}")
    return defined, wrapped


def table(program):
    return run([program, "--table"], 20, libraries.percale().env())


def check_book(program):
    """The table in the book is the one that the suite prints."""
    if table(program) not in BOOK.read_text(encoding="utf-8"):
        raise Failed(f"{BOOK} lists other cases: {sys.argv[0]} --book")


def write_book(program):
    before, rest = BOOK.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    BOOK.write_text(before + BEGIN + table(program) + END + after, encoding="utf-8")


if __name__ == "__main__":
    os.chdir(libraries.ROOT)
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(f"failed: {failure}")
