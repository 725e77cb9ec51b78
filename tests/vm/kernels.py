"""Debian's kernels, as far as a VM needs them: downloaded once, never installed.

Of a kernel the cache keeps its image, without the compression, and a few of its drivers.
"""

import hashlib
import lzma
import pathlib
import re
import shutil
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
# In the order of loading; what each needs comes before it.
COMMON = [
    *("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"),
    # Checksums of RoCE packets, of iWARP's.
    *("crc32_generic", "crc32_pclmul", "crc32c_generic", "crc32c_intel"),
    *("dummy", "veth", "ib_uverbs", "rdma_ucm", "ib_umad"),
]
# For each kind of device.
KINDS = {"rxe": ["rdma_rxe"], "siw": ["iw_cm", "libcrc32c"]}
# Some kernels have them inside, or under another name.
OPTIONAL = {"crc32_generic", "crc32_pclmul", "crc32c_generic", "crc32c_intel", "libcrc32c"}
KEPT = [*COMMON, *(name for names in KINDS.values() for name in names)]


class Kernel:
    """A kernel in the cache."""

    def __init__(self, release, folder, archive):
        self.release = release
        self.folder = folder
        # Where it is from.
        self.archive = archive
        self.image = folder / "vmlinux"
        # Another choice of drivers has another name.
        key = hashlib.sha256(" ".join(KEPT).encode()).hexdigest()[:12]
        self.drivers = folder / f"drivers-{key}"

    def version(self):
        """That of its package."""
        return (self.folder / "version").read_text(encoding="ascii").strip()


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
        kernel = Kernel(release, base / release, archive)
        if kernel.drivers.exists():
            return kernel
    release = archive.newest(pattern)
    kernel = Kernel(release, base / release, archive)
    if not kernel.drivers.exists():
        fetch(kernel)
    latest.write_text(release, encoding="utf-8")
    return kernel


def fetch(kernel):
    """Downloads a kernel. Its drivers come last: where they are, the rest is, too."""
    kernel.folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kernel.folder) as name:
        folder = pathlib.Path(name)
        (first,) = kernel.archive.download([f"linux-image-{kernel.release}"], folder / "deb")
        # Newer kernels come in several packages of the same release.
        needs = run(["dpkg-deb", "-f", first, "Depends"], 60)
        parts = re.findall(rf"\blinux-[a-z-]+-{re.escape(kernel.release)}(?![\w.+-])", needs)
        if parts:
            kernel.archive.download(sorted(set(parts)), folder / "deb")
        tree = folder / "tree"
        for package in (folder / "deb").glob("*.deb"):
            apt.unpack(package, tree)
        images = [*tree.glob("boot/vmlinuz-*"), *tree.glob("usr/lib/modules/*/vmlinuz")]
        modules = [*tree.glob("lib/modules/*/kernel"), *tree.glob("usr/lib/modules/*/kernel")]
        if not images or not modules:
            raise Failed(f"the packages of kernel {kernel.release} have no kernel in them")
        version = run(["dpkg-deb", "-f", first, "Version"], 60)
        (kernel.folder / "version").write_text(version, encoding="ascii")
        partial = folder / "vmlinux"
        partial.write_bytes(payload(images[0].read_bytes()))
        partial.rename(kernel.image)
        kept = folder / "drivers"
        keep(modules[0], kept)
        shutil.rmtree(kernel.drivers, ignore_errors=True)
        kept.rename(kernel.drivers)


def keep(modules, folder):
    """Decompresses the drivers to keep, and all that they need, into a folder."""
    folder.mkdir()
    paths = {module_name(path): path for path in modules.rglob("*.ko*")}
    inside = (modules.parent / "modules.builtin").read_text(encoding="utf-8").split()
    inside = {module_name(path) for path in inside}
    wanted = list(KEPT)
    for name in wanted:
        if name in paths:
            content = decompress(paths[name].read_bytes())
            (folder / f"{name}.ko").write_bytes(content)
            wanted += [each for each in depends(content) if each not in wanted]
        elif name not in inside and name not in OPTIONAL:
            raise Failed(f"the kernel has no driver {name}")


def closure(kernel, kinds):
    """Drivers for devices of these kinds: pairs of name and content, in the order of loading."""
    order = {}

    def add(name):
        path = kernel.drivers / f"{name}.ko"
        if name in order or not path.exists():
            return
        content = path.read_bytes()
        for each in depends(content):
            add(each)
        order[name] = content

    for name in [*COMMON, *(name for kind in kinds for name in KINDS[kind])]:
        add(name)
    return list(order.items())


def depends(module):
    """The modules that a module needs, as it says itself."""
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    return found[1].decode().replace("-", "_").split(",") if found and found[1] else []


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
