"""Child processes with a deadline, each in a session of its own.

A `Family` ends what it started and nothing else: it signals the process groups of its own
children, by number, when its block is left, whatever the reason.
"""

import os
import signal
import subprocess
import tempfile
import time


class Failed(Exception):
    """A child or a check failed; the text says which, and what was printed."""


class Child:
    """A running process, its output kept in a file."""

    def __init__(self, command, env=None, cwd=None):
        self.command = [str(word) for word in command]
        self._output = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def running(self):
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    def output(self):
        """Everything printed so far."""
        self._output.seek(0)
        return self._output.read().decode(errors="replace")

    def wait(self, seconds):
        """Waits for success. `Failed` after the deadline or for an exit status other than 0."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.end()
            raise Failed(self._report(f"no end after {seconds:.0f} s")) from None
        if status != 0:
            raise Failed(self._report(f"exit status {status}"))
        return self.output()

    def end(self):
        """Ends the process and what it started in its session."""
        for number, grace in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 5.0)):
            if not self.running():
                break
            try:
                os.killpg(self.pid, number)
                self._process.wait(grace)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass

    def _report(self, what):
        tail = "\n".join(self.output().splitlines()[-30:])
        return f"{' '.join(self.command)}\n  {what}, output:\n{tail}"


class Family:
    """Children that end with the `with` block."""

    def __init__(self):
        self._children = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in reversed(self._children):
            child.end()

    def start(self, command, env=None, cwd=None):
        """Starts a child."""
        child = Child(command, env, cwd)
        self._children.append(child)
        return child


def run(command, seconds, env=None, cwd=None):
    """Runs a command to its end and returns what it printed."""
    with Family() as family:
        return family.start(command, env, cwd).wait(seconds)


def until(what, seconds, condition):
    """Polls `condition` until it answers something true, which is returned."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.005)
