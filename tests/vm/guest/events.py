"""What the VM tells the host: events, a JSON object to a line; output of a command, as it comes."""

import functools
import json
import os

EVENTS = "/dev/vport0p1"
OUTPUT = "/dev/vport0p2"


def send(event, **fields):
    """Tells the host of an event."""
    write(_port(EVENTS), json.dumps({"event": event, **fields}).encode() + b"\n")


def output(data):
    """Hands on what a command has printed."""
    write(_port(OUTPUT), data)


def write(port, data):
    """Writes all of it, which may take as long as the host does not read."""
    view = memoryview(data)
    while view:
        view = view[os.write(port, view[:16384]) :]


@functools.cache
def _port(path):
    # A port has one user at a time, and no child of this process is that.
    return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
