"""What the host must have, and what a machine gets of its environment."""

import os

import apt
import kernels
import siw
from harness.children import Failed

PACKAGES = [
    *("qemu-system-x86", "busybox-static", "zstd", "iproute2"),
    *("ibverbs-providers", "ibverbs-utils", "rdmacm-utils"),
]
INHERITED = ("HOME", "USER", "LANG", "TERM", "TZ", "PATH", "LD_LIBRARY_PATH")
FAMILIES = ("FI_", "LC_", "RUST_", "CARGO_", "RUSTUP_", "PERCALE_")


def prepare(which, kinds, refresh=False):
    """Installs and downloads what is needed; the kernel."""
    reason = apt.unfit()
    if reason:
        raise Failed(f"this host cannot run the machine: {reason}")
    with apt.locked():
        apt.install(PACKAGES)
        kernel = kernels.get(which, refresh)
        if "siw" in kinds:
            siw.module(kernel)
    return kernel


def environment(additions):
    """What the command's environment has of this one's, with additions."""
    chosen = {k: v for k, v in os.environ.items() if k in INHERITED or k.startswith(FAMILIES)}
    for addition in additions:
        name, equals, value = addition.partition("=")
        if not equals and name not in os.environ:
            raise Failed(f"--env {name}: there is no such variable")
        chosen[name] = value if equals else os.environ[name]
    return chosen
