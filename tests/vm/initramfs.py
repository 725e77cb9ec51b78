"""The VM's first file system: drivers, busybox, the script that goes on in the host's, the task."""

import json
import pathlib
import shlex
import shutil
import stat
import sys

import kernels
import siw
from harness.children import Failed

HERE = pathlib.Path(__file__).resolve().parent
INIT = HERE / "guest" / "init.sh"


def make(path, kernel, kinds, task):
    """Writes the file, with drivers for devices of these kinds."""
    modules = kernels.closure(kernel, kinds)
    if "siw" in kinds:
        modules.append(("siw", siw.module(kernel)))
    busybox = shutil.which("busybox")
    if not busybox:
        raise Failed("busybox is missing")
    settings = {"PYTHON": sys.executable, "MAIN": HERE / "guest" / "main.py"}
    conf = "".join(f"{key}={shlex.quote(str(value))}\n" for key, value in settings.items())
    shares = "".join(f"{tag} {folder}\n" for tag, folder in task["shares"].items())
    files = {
        "bin": None,
        "bin/busybox": (pathlib.Path(busybox).resolve().read_bytes(), 0o755),
        "init": (INIT.read_bytes(), 0o755),
        "conf": (conf.encode(), 0o644),
        "shares": (shares.encode(), 0o644),
        "task.json": (json.dumps(task).encode(), 0o644),
        "mod": None,
        "mod/list": ("".join(f"{name}.ko\n" for name, _ in modules).encode(), 0o644),
    }
    for name, content in modules:
        files[f"mod/{name}.ko"] = (content, 0o644)
    path.write_bytes(archive(files))


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
    return b"".join(parts)


def entry(number, name, mode, content):
    """A file or a folder in the archive: header, name, content, at multiples of four."""
    encoded = name.encode() + b"\0"
    fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)
