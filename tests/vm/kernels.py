"""Debian's kernels, as far as a VM needs them: downloaded once, never installed.

Of a kernel the cache keeps its packages, its image without the compression, and the archives of
drivers that were made of it. The packages are unpacked for a new archive only.
"""

import contextlib
import lzma
import pathlib
import re
import struct
import subprocess
import tempfile
import zlib

import apt
from harness.children import Failed, run

# Suites, and what stands behind `linux-image-`.
STABLE = (apt.RELEASE, f"{apt.RELEASE}-security")
CHOICES = {
    "6.1": (STABLE, r"6\.1\.0-\d+-amd64"),
    "6.12": (STABLE, r"6\.12\.[\d.]+\+deb12-amd64"),
    "backports": (("trixie-backports",), r"\d[\d.]*\+deb13-amd64"),
}
DEFAULT = "6.1"


class Kernel:
    """A kernel in the cache."""

    def __init__(self, release, folder, archive):
        self.release = release
        self.folder = folder
        # Where it is from.
        self.archive = archive
        self.image = folder / "vmlinux"

    @contextlib.contextmanager
    def unpacked(self):
        """The files of its packages, in a folder for the time of a `with` block."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            tree = pathlib.Path(name)
            for package in self.folder.glob("*.deb"):
                apt.unpack(package, tree)
            # Newer packages have it where the link /lib leads to.
            for modules in (tree / "lib" / "modules", tree / "usr" / "lib" / "modules"):
                if (modules / self.release / "kernel").is_dir():
                    run(["depmod", "-b", modules.parents[1], self.release], 300)
                    yield Tree(tree, modules / self.release)
                    return
            raise Failed(f"the packages of kernel {self.release} have no modules in them")


class Tree:
    """An unpacked kernel."""

    def __init__(self, root, modules):
        self.root = root
        self._modules = modules
        self._needs = {}
        for line in (modules / "modules.dep").read_text(encoding="utf-8").splitlines():
            path, _, needs = line.partition(":")
            self._needs[path] = needs.split()
        self._paths = {module_name(path): path for path in self._needs}
        # Drivers that are part of the image itself.
        inside = (modules / "modules.builtin").read_text(encoding="utf-8").split()
        self._inside = {module_name(path) for path in inside}

    def closure(self, names):
        """Pairs of name and content of these modules and of all that they need, in the order of
        loading. `Failed` for a module that is not there."""
        order = []
        for name in names:
            if name in self._inside:
                continue
            if name not in self._paths:
                raise Failed(f"the kernel has no module {name}")
            path = self._paths[name]
            # What is needed is listed with the nearest first.
            for each in [*reversed(self._needs[path]), path]:
                if each not in order:
                    order.append(each)
        return [(module_name(path), plain(self._modules / path)) for path in order]

    def has(self, name):
        """Whether there is such a module."""
        return name in self._paths


def get(which=DEFAULT, refresh=False):
    """The newest kernel of a series, from the cache if it is there and not to be refreshed."""
    if which not in CHOICES:
        raise Failed(f"there is no kernel {which}: {', '.join(CHOICES)}")
    suites, pattern = CHOICES[which]
    base = apt.cache()
    archive = apt.Archive(base / "apt", suites)
    latest = base / f"{which}.release"
    release = None
    if latest.exists() and not refresh:
        release = latest.read_text(encoding="utf-8").strip()
    release = release or archive.newest(pattern)
    kernel = Kernel(release, base / release, archive)
    if not kernel.image.exists():
        fetch(kernel)
    latest.write_text(release, encoding="utf-8")
    return kernel


def fetch(kernel):
    """Downloads a kernel. Its image comes last: where that is, the rest is, too."""
    for left in kernel.folder.glob("*.deb"):
        left.unlink()
    files = kernel.archive.download([f"linux-image-{kernel.release}"], kernel.folder)
    # Newer kernels come in several packages of the same release.
    needs = run(["dpkg-deb", "-f", files[0], "Depends"], 60)
    parts = re.findall(rf"\blinux-[a-z-]+-{re.escape(kernel.release)}(?=[ ,|)\n])", needs + "\n")
    if parts:
        kernel.archive.download(sorted(set(parts)), kernel.folder)
    with kernel.unpacked() as tree:
        found = [*tree.root.glob("boot/vmlinuz-*"), *tree.root.glob("usr/lib/modules/*/vmlinuz")]
        if not found:
            raise Failed(f"the packages of kernel {kernel.release} have no kernel in them")
        image = payload(found[0].read_bytes())
    partial = kernel.image.with_suffix(".part")
    partial.write_bytes(image)
    partial.rename(kernel.image)


def payload(image):
    """What is compressed in a bootable image: emulated processors take long to decompress it.

    Its place is in the header that boot loaders read, fields `setup_sects`, `payload_offset` and
    `payload_length` of the x86 boot protocol. The last four bytes are the size.
    """
    if image[0x202:0x206] != b"HdrS":
        raise Failed("the kernel has no boot header")
    sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (sectors + 1) * 512 + offset
    content = decompress(image[start : start + length])
    if content[:4] != b"\x7fELF":
        raise Failed("the kernel is packed in an unknown manner")
    return content


def plain(path):
    """The content of a module, decompressed."""
    return decompress(path.read_bytes())


def decompress(data):
    """Decompresses whatever it is; what is not compressed stays as it is."""
    if data.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(data)
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31).decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        # The rest of a kernel's payload is not of the frame, which zstd complains about.
        done = subprocess.run(
            ["zstd", "-dc"],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=300,
            check=False,
        )
        if not done.stdout:
            raise Failed(f"zstd: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout
    return data


def module_name(path):
    """`crc32c_intel` for `kernel/arch/x86/crypto/crc32c-intel.ko.xz`: the kernel takes - for _."""
    return pathlib.PurePath(path).name.split(".ko")[0].replace("-", "_")
