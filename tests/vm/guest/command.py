"""The task of one command, whose output goes to the host as it comes."""

import os
import subprocess
import threading
import time

import events
from processes import Messages, others, sweep


def run(task, environment):
    """Runs the command and tells the host its status."""
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
        "result", status=status, late=late, left=left, messages=messages.end(), seconds=seconds
    )


def hand_on(reading):
    """Passes on what the command prints, until nobody can print any more."""
    while True:
        data = os.read(reading, 65536)
        if not data:
            break
        events.output(data)
