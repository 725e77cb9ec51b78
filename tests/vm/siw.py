"""Soft-iWARP, a driver of Linux that Debian does not build: built from Debian's kernel source."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import apt
from harness.children import Failed, run

TOOLS = ["gcc-12", "make", "xz-utils", "binutils"]
SOURCE = "drivers/infiniband/sw/siw"


def module(kernel):
    """The module for a kernel, from the cache if it was built before."""
    built = kernel.folder / "siw.ko"
    if not built.exists():
        apt.install(TOOLS)
        with tempfile.TemporaryDirectory(dir=kernel.folder) as name:
            result = build(kernel, pathlib.Path(name))
            partial = built.with_suffix(".part")
            shutil.copyfile(result, partial)
            partial.rename(built)
    return built.read_bytes()


def build(kernel, folder):
    """Builds the module in a folder; where it is."""
    release = kernel.release
    series = re.match(r"6\.\d+", release)
    if not series or "+deb13" in release:
        raise Failed(f"siw cannot be built for kernel {release}, only for 6.1 and 6.12")
    base = release.removesuffix("-amd64")
    # The tools of 6.1 are the same for all its releases.
    tools = "linux-kbuild-6.1" if series[0] == "6.1" else f"linux-kbuild-{base}"
    headers = [f"linux-headers-{release}", f"linux-headers-{base}-common", tools]
    for package in kernel.archive.download(headers, folder / "headers.d"):
        apt.unpack(package, folder / "headers")
    tree = folder / "headers" / "usr" / "src" / f"linux-headers-{release}"
    # The top of the headers names the common ones by where they would be installed.
    top = tree / "Makefile"
    there = f"{folder}/headers/usr/src/linux-headers"
    text = top.read_text(encoding="utf-8").replace("/usr/src/linux-headers", there)
    top.write_text(text, encoding="utf-8")

    source = sources(kernel, folder, series[0])
    settings = ["CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES="]
    command = ["make", f"-j{os.cpu_count()}", "-C", tree, f"M={source}", *settings, "modules"]
    run(command, 900)
    result = source / "siw.ko"
    run(["strip", "-g", result], 60)
    return result


def sources(kernel, folder, series):
    """Unpacks the driver's source: of this very kernel, if the mirror still has it."""
    package = f"linux-source-{series}"
    exact = kernel.version() in kernel.archive.versions(package)
    wanted = f"{package}={kernel.version()}" if exact else package
    (file,) = kernel.archive.download([wanted], folder / "source.d")
    target = folder / "siw"
    target.mkdir()
    # A pipe: the tree of the kernel has more than a gigabyte, and this is one folder of it.
    inner = f"./usr/src/{package}.tar.xz"
    pipe = (
        f'dpkg-deb --fsys-tarfile "$1" | tar -xOf - {inner} |'
        f" tar -xJf - -C \"$2\" --strip-components=5 --wildcards '*/{SOURCE}/*'"
    )
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", pipe, "siw", file, target],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode or not (target / "siw_main.c").exists():
        raise Failed(f"the source of siw is not in {file.name}: {done.stdout[-300:]}")
    return target
