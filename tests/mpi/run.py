#!/usr/bin/env python3
"""MPI on Percale: the C job with two and four ranks, then modules of mpi4py's own test suite."""

import argparse
import pathlib
import re
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import libraries, mpi, prepare  # noqa: E402
from harness.children import Failed, run  # noqa: E402
from harness.prepare import say  # noqa: E402

SUITE = "mpi4py-4.1.2"
MODULES = ["test_p2p_buf", "test_msgspec", "test_cco_buf", "test_rma", "test_util_pool"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--ranks", type=int, default=2, help="ranks of mpi4py's suite")
    parser.add_argument("--smoke-only", action="store_true", help="the C job only")
    parser.add_argument("modules", nargs="*", default=MODULES, help="of mpi4py's suite")
    args = parser.parse_args()

    prepare.packages({"cc": "gcc"})
    prepare.venv()
    library = libraries.percale()
    libraries.require(library.path.exists(), f"{library.path} is missing: make build")
    mpi.compile_smoke()
    for ranks in (2, 4):
        parts = mpi.smoke(library, ranks, 180).parts
        say(f"C job, {ranks} ranks: {', '.join(parts[:-1])}")
    if args.smoke_only:
        return
    source = suite()
    for module in args.modules:
        text = mpi.mpi4py_suite(library, args.ranks, source, [module], 600)
        ran = re.findall(r"^Ran (\d+) tests? in", text, re.MULTILINE)
        if len(ran) != args.ranks:
            raise Failed(f"{module}: {len(ran)} of {args.ranks} ranks came to the end:\n{text}")
        say(f"mpi4py {module}, {args.ranks} ranks: {ran[0]} tests each")


def suite():
    """The suite is in the source distribution only; fetched once, nothing in it is built."""
    target = libraries.BUILD / SUITE
    if not target.exists():
        say(f"fetching the tests of {SUITE}")
        pip = libraries.VENV / "bin" / "pip"
        wanted = SUITE.replace("-", "==")
        options = ["--no-deps", "--no-binary", "mpi4py", "--dest", libraries.BUILD]
        run([pip, "download", "--quiet", *options, wanted], 300)
        with tarfile.open(libraries.BUILD / f"{SUITE}.tar.gz") as archive:
            archive.extractall(libraries.BUILD, filter="data")
    return target


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"failed: {failure}")
