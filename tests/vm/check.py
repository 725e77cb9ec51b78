#!/usr/bin/env python3
"""Whether tests/vm/run.py says what became of a command, and leaves nothing behind.

Each case starts a machine or two. The last line has the totals.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import apt  # noqa: E402
from harness import libraries  # noqa: E402
from harness.children import Failed, Family, until  # noqa: E402

RUN = pathlib.Path(__file__).resolve().with_name("run.py")
# A host with other things to do takes minutes to start a machine.
SECONDS = 900


class Result:
    """The end of a run."""

    def __init__(self, *words):
        done = subprocess.run(
            [RUN, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        self.status = done.returncode
        self.printed = done.stdout
        lines = [line for line in done.stderr.splitlines() if line.startswith("run.py: ")]
        # On a busy host, the kernel has its own complaints.
        self.complaints = [line for line in lines if not line.startswith("run.py: kernel: ")]

    def expect(self, status, printed, *complaints):
        """`Failed` for another status, output, or number of complaints, or another word in one."""
        same = self.status == status and self.printed == printed
        same = same and len(self.complaints) == len(complaints)
        if not same or not all(word in line for word, line in zip(complaints, self.complaints)):
            told = "\n".join(self.complaints)
            raise Failed(f"status {self.status}, printed {self.printed!r}, complaints:\n{told}")


def status_and_output():
    """Its status and output are handed on; what it writes stays where that was asked for."""
    script = 'echo one; echo two >&2; touch "$1/kept" "$2/lost"; exit 7'
    with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryDirectory() as lost:
        found = Result("--keep", kept, "bash", "-c", script, "bash", kept, lost)
        found.expect(7, "one\ntwo\n")
        if os.listdir(kept) != ["kept"] or os.listdir(lost):
            raise Failed(f"kept: {os.listdir(kept)}, besides: {os.listdir(lost)}")


def missing_command():
    """A command that is not there."""
    Result("there-is-no-such-command").expect(127, "", "there-is-no-such-command")


def deadline():
    """A command that does not end, nor does what it has started in another session."""
    script = "echo begun; setsid sleep 1111 & trap '' TERM; while true; do sleep 2222; done"
    found = Result("--deadline", "3", "bash", "-c", script)
    found.expect(124, "begun\n", "no end after 3 s", "bash", "sleep", "sleep")


def crash():
    """A kernel that crashes."""
    found = Result("bash", "-c", "echo begun; sleep 1; echo c >/proc/sysrq-trigger; sleep 60")
    found.expect(125, "begun\n", "the kernel crashed during the task: Kernel panic")


def ended():
    """A run that is ended, politely or not, takes its machine along."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with tempfile.TemporaryDirectory() as folder, Family() as family:
            env = {**os.environ, "TMPDIR": folder}
            run = family.start([RUN, "bash", "-c", "echo begun; sleep 1111"], env)
            until("the machine starts", SECONDS, lambda: "begun" in run.output())
            (machine,) = children(run.pid)
            os.kill(run.pid, number)
            until("the run ends", 30, lambda: not run.running())
            until("the machine ends", 30, lambda: not alive(machine))
            # Nobody can tidy up who was killed.
            if number == signal.SIGTERM and os.listdir(folder):
                raise Failed(f"files are left: {os.listdir(folder)}")


def children(pid):
    """The processes that a process has started."""
    listed = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(word) for word in listed.split()]


def alive(pid):
    """Whether a process has not ended."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except OSError:
        return False
    return not state.strip().startswith(("Z", "X"))


def main():
    cases = [status_and_output, missing_command, deadline, crash, ended]
    reason = apt.unfit()
    if reason:
        print(f"skipped: {reason}")
        print(f"0 passed, 0 failed, {len(cases)} skipped")
        return 0
    failures = 0
    for case in cases:
        begin = time.monotonic()
        try:
            case()
            word = "ok    "
        except Failed as failure:
            failures += 1
            word = "FAILED"
            print(failure)
        print(f"{word} {case.__doc__} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(cases) - failures} passed, {failures} failed, 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    os.chdir(libraries.ROOT)
    sys.exit(main())
