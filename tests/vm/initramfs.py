"""The VM's first file system: drivers, busybox, the script that goes on in the host's, the task."""

import hashlib
import json
import pathlib
import shlex
import shutil
import stat
import sys

import siw
from harness.children import Failed

HERE = pathlib.Path(__file__).resolve().parent
INIT = HERE / "guest" / "init.sh"
# In the order of loading; what each needs comes before it.
DRIVERS = [
    *("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"),
    # Checksums of RoCE packets, of iWARP's.
    *("crc32_generic", "crc32_pclmul", "crc32c_generic", "crc32c_intel"),
    *("dummy", "veth", "ib_uverbs", "rdma_ucm", "ib_umad"),
]
# Implementations that some kernels have inside or under another name.
OPTIONAL = {"crc32_generic", "crc32_pclmul", "crc32c_generic", "crc32c_intel"}
LINKS = {"rxe": ["rdma_rxe"], "siw": ["iw_cm", "libcrc32c"]}


def make(path, kernel, kinds, task):
    """Writes the file: the drivers for links of these kinds from the cache, and the task.

    The kernel unpacks archives that follow each other, the later over the earlier.
    """
    drivers = kernel_part(kernel, kinds)
    busybox = shutil.which("busybox")
    if not busybox:
        raise Failed("busybox is missing")
    settings = {"PYTHON": sys.executable, "MAIN": HERE / "guest" / "main.py"}
    conf = "".join(f"{key}={shlex.quote(str(value))}\n" for key, value in settings.items())
    shares = "".join(f"{tag} {folder}\n" for tag, folder in task["shares"].items())
    with open(path, "wb") as file:
        file.write(drivers.read_bytes())
        file.write(
            archive(
                {
                    "bin": None,
                    "bin/busybox": (pathlib.Path(busybox).resolve().read_bytes(), 0o755),
                    "init": (INIT.read_bytes(), 0o755),
                    "conf": (conf.encode(), 0o644),
                    "shares": (shares.encode(), 0o644),
                    "task.json": (json.dumps(task).encode(), 0o644),
                }
            )
        )


def kernel_part(kernel, kinds):
    """The archive of drivers, made once for each choice of them."""
    names = [*DRIVERS, *(name for kind in kinds for name in LINKS[kind])]
    key = hashlib.sha256(" ".join([*names, *kinds]).encode()).hexdigest()[:12]
    path = kernel.folder / f"drivers-{key}.cpio"
    if path.exists():
        return path
    added = [("siw", siw.module(kernel))] if "siw" in kinds else []
    with kernel.unpacked() as tree:
        wanted = [name for name in names if name not in OPTIONAL or tree.has(name)]
        modules = [*tree.closure(wanted), *added]
    files = {"mod": None}
    for name, content in modules:
        files[f"mod/{name}.ko"] = (content, 0o644)
    files["mod/list"] = ("".join(f"{name}.ko\n" for name, _ in modules).encode(), 0o644)
    partial = path.with_suffix(".part")
    partial.write_bytes(archive(files))
    partial.rename(path)
    return path


def archive(files):
    """A cpio archive (format newc) of files, `(content, mode)` each, and of folders, `None`.

    It is not compressed: an emulated processor takes longer to decompress than to copy.
    """
    parts = []
    for number, (name, file) in enumerate(files.items(), 1):
        content, mode = file or (b"", 0o755)
        kind = stat.S_IFREG if file else stat.S_IFDIR
        parts.append(entry(number, name, kind | mode, content))
    parts.append(entry(0, "TRAILER!!!", 0, b""))
    whole = b"".join(parts)
    # Another archive may follow, at a multiple of four.
    return whole + bytes(-len(whole) % 512)


def entry(number, name, mode, content):
    """A file or a folder in the archive: header, name, content, at multiples of four."""
    encoded = name.encode() + b"\0"
    fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)
