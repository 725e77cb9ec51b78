"""Processes of the VM, and what the kernel says of what they do."""

import os
import pathlib
import signal
import time

# Those that the VM needs, beside the one that asks.
OWN = {1}
# What ends itself when it is told to has this long.
GRACE = 2.0


def sweep(group=None):
    """Ends every process but the VM's own, that group first, in good time to leave."""
    if group is not None:
        try:
            os.killpg(group, signal.SIGTERM)
        except ProcessLookupError:
            pass
    end = time.monotonic() + (GRACE if group is not None else 0)
    while others() and time.monotonic() < end:
        time.sleep(0.05)
    # What is deep in the kernel does not end, or much later.
    while (found := others()) and time.monotonic() < end + 10:
        for pid, _ in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


def others():
    """Processes that are neither the kernel's nor the VM's own: number, and a line of text each."""
    found = []
    own = OWN | {os.getpid()}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in own:
            continue
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            # The kernel's have none, nor have those that only wait to be reaped.
            if not words:
                continue
            state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            waits = (entry / "wchan").read_text(encoding="ascii")
        except OSError:
            continue
        line = " ".join(words.split())[:200]
        found.append((int(entry.name), f"{entry.name} {state} {waits} {line}"))
    return found


def loaded(setting, name):
    """Files whose names begin so that processes with a setting in their environment have mapped."""
    found = set()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if setting not in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                continue
            lines = pathlib.Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        except OSError:
            continue
        paths = {line.split(maxsplit=5)[5] for line in lines if "/" in line}
        found |= {path for path in paths if os.path.basename(path).startswith(name)}
    return found


class Messages:
    """The kernel's warnings and errors since this was made."""

    # Of ports whose netdev has no speed, and of emulated processors that were late.
    USUAL = ("speed is unknown, defaulting", "hrtimer: interrupt took")

    def __init__(self):
        self._file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._file, 0, os.SEEK_END)

    def end(self):
        """All of them; there will be no more."""
        found = []
        while True:
            try:
                head, _, text = os.read(self._file, 8192).decode(errors="replace").partition(";")
            except BlockingIOError:
                os.close(self._file)
                return found
            except OSError:
                # Some were overwritten before they were read.
                continue
            line = text.split("\n")[0]
            if int(head.split(",")[0]) & 7 <= 4 and not any(word in line for word in self.USUAL):
                found.append(line)
