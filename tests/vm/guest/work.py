"""The task itself: one command whose output goes to the host as it comes, or jobs one by one."""

import os
import pathlib
import signal
import subprocess
import threading
import time

import events

# What ends itself when it is told to has this long.
GRACE = 2.0


def run(task, network, environment):
    """Does what the task asks for and tells the host of it."""
    command(task, environment)


def command(task, environment):
    """Runs the one command."""
    messages = Messages()
    begin = time.monotonic()
    reading, writing = os.pipe()
    relay = threading.Thread(target=hand_on, args=[reading], daemon=True)
    try:
        process = subprocess.Popen(
            task["command"],
            cwd=task["folder"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            start_new_session=True,
        )
    except OSError as error:
        status = 126 if isinstance(error, PermissionError) else 127
        text = f"{error.filename}: {error.strerror}"
        events.send("result", status=status, text=text, left=[], messages=[], seconds=0)
        return
    os.close(writing)
    relay.start()
    late = False
    try:
        status = process.wait(task["seconds"])
    except subprocess.TimeoutExpired:
        late, status = True, 124
    # Ended by a signal, it has the status that a shell would show.
    status = 128 - status if status < 0 else status
    left = [described for _, described in others()] if late else []
    seconds = time.monotonic() - begin
    sweep(process.pid)
    # All writers are gone, so the relay comes to its end.
    relay.join(20)
    events.send(
        "result", status=status, late=late, left=left, messages=messages.new(), seconds=seconds
    )


def hand_on(reading):
    """Passes on what the command prints, until nobody can print any more."""
    while True:
        data = os.read(reading, 65536)
        if not data:
            break
        events.output(data)


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
    while found := others():
        for pid, _ in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


def others():
    """Processes that are neither the kernel's nor the VM's own: number, and a line of text each."""
    found = []
    own = (1, os.getpid())
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in own:
            continue
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            waits = (entry / "wchan").read_text(encoding="ascii")
        except OSError:
            continue
        # The kernel's have no command line, nor have those that only wait to be reaped.
        if words and state != "Z":
            found.append((int(entry.name), f"{entry.name} {state} {waits} {words.strip()[:200]}"))
    return found


class Messages:
    """The kernel's warnings and errors since this was made."""

    # Said each time a program looks at the port of a netdev that has no speed.
    USUAL = ("speed is unknown, defaulting",)

    def __init__(self):
        self._file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._file, 0, os.SEEK_END)

    def new(self):
        """Those that have not been asked for yet."""
        found = []
        while True:
            try:
                head, _, text = os.read(self._file, 8192).decode(errors="replace").partition(";")
            except BlockingIOError:
                return found
            except OSError:
                # Some were overwritten before they were read.
                continue
            line = text.split("\n")[0]
            if int(head.split(",")[0]) & 7 <= 4 and not any(word in line for word in self.USUAL):
                found.append(line)
