"""The task of many jobs, one after the other: a job is a program, or a server and its client.

A job is good if all its programs end with status 0 in time, nothing of them goes on, and the
devices hold what they held before.
"""

import os
import pathlib
import signal
import subprocess
import tempfile
import time

import devices
import events
from processes import Messages, loaded, others, sweep

# Of a program's output, the host gets the end.
KEPT = 100_000
# The kernel frees some objects later than a program ends, above all than one that was killed.
SETTLE = 30.0
LISTEN = "0A"


def run(task, network, environment):
    """Does the jobs and tells the host of each."""
    idle = devices.resources()
    for job in task["jobs"]:
        events.send("job", name=job["name"])
        job = Job(job, network, environment, task["folder"], idle)
        events.send("result", **job.run())


class Job:
    """A job at work."""

    def __init__(self, job, network, environment, folder, idle):
        self._job = job
        self._network = network
        self._environment = environment
        self._folder = folder
        # What the devices hold when nobody uses them.
        self._idle = idle
        self._complaints = []
        self._programs = []

    def run(self):
        """Does it; what became of it."""
        job, messages = self._job, Messages()
        begin = time.monotonic()
        end = begin + job["seconds"]
        try:
            self._perform(end)
        except Late as late:
            self._complaints.append(f"{late}: no end after {time.monotonic() - begin:.0f} s")
            self._complaints += [f"process {process}" for _, process in others()]
        seconds = time.monotonic() - begin
        self._tidy()
        return {
            "name": job["name"],
            "seconds": seconds,
            "complaints": self._complaints,
            "output": {program.role: program.output() for program in self._programs},
            "messages": messages.end(),
        }

    def _perform(self, end):
        job = self._job
        if "server" in job:
            server = self._start("server", job["server"])
            while server.running() and not listens(job, server.pid):
                if time.monotonic() > end:
                    raise Late("the server does not listen")
                time.sleep(0.5)
        self._start("client" if "server" in job else "program", job["client"])
        ended = []
        while len(ended) < len(self._programs):
            for program in self._programs:
                program.watch()
                if program in ended or program.running():
                    continue
                ended.append(program)
                self._complaints += program.complaints()
                if program.complaints():
                    # The other end may wait for this one.
                    end = min(end, time.monotonic() + 10)
            if time.monotonic() > end:
                raise Late(" and ".join(each.role for each in self._programs if each.running()))
            time.sleep(0.1)

    def _start(self, role, wanted):
        program = Program(role, wanted, self._network, self._environment, self._folder)
        self._programs.append(program)
        return program

    def _tidy(self):
        """Ends what goes on and looks at what the devices hold."""
        failed = bool(self._complaints)
        end = time.monotonic() + 2
        while not failed and others() and time.monotonic() < end:
            time.sleep(0.1)
        left = others()
        if left and not failed:
            self._complaints.append("processes are left:")
            self._complaints += [f"process {process}" for _, process in left]
        sweep()
        end = time.monotonic() + SETTLE
        while (held := leaks(self._idle, devices.resources())) and time.monotonic() < end:
            time.sleep(0.5)
        if self._job["leaks"] and not failed:
            self._complaints += held


class Late(Exception):
    """A program has not come to its end in time; the text says which."""


class Program:
    """A program at work, its output in a file."""

    def __init__(self, role, wanted, network, environment, folder):
        host = network.hosts[wanted["host"]]
        self.role = role
        # The libfabric that it is to run on, if any, and those that it was seen with.
        self._library = wanted["library"]
        self._seen = set()
        self._output = tempfile.TemporaryFile(dir="/run")
        self._process = subprocess.Popen(
            [*host.enter, "bash", "-c", f'cd "$0" && {{ {wanted["command"]}\n}}', folder],
            env={**environment, **host.variables, **wanted["environment"], "VM_ROLE": role},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def running(self):
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def watch(self):
        """Looks which library it runs on, until that is known."""
        if self._library and not self._seen:
            self._seen = loaded(f"VM_ROLE={self.role}".encode(), "libfabric.so")

    def complaints(self):
        """What is wrong with the end of it, or with the library that it was seen with."""
        found = []
        if self._process.returncode:
            found.append(f"{self.role}: {described(self._process.returncode)}")
        if self._library and not self._seen:
            found.append(f"{self.role}: was not seen with any libfabric")
        for path in self._seen:
            if not os.path.samefile(path, self._library):
                found.append(f"{self.role}: runs on {path} instead of {self._library}")
        return found

    def output(self):
        """What it has printed, at most its end."""
        size = os.fstat(self._output.fileno()).st_size
        self._output.seek(max(0, size - KEPT))
        return self._output.read().decode(errors="replace")


def listens(job, pid):
    """Whether a server listens: at a port of TCP's, or at one of the devices'."""
    if not job["tcp"]:
        return any(
            each["state"] == "LISTEN" and each.get("src-addr", "").endswith(f":{job['port']}")
            for each in devices.connections()
        )
    wanted = f":{job['port']:04X}"
    for table in ("tcp", "tcp6"):
        for line in devices.read(pathlib.Path(f"/proc/{pid}/net/{table}")).splitlines():
            words = line.split()
            if words[1].endswith(wanted) and words[3] == LISTEN:
                return True
    return False


def described(status):
    """An exit status in words."""
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}"


def leaks(idle, now):
    """What devices hold beyond what they hold when nobody uses them."""
    found = []
    for device, held in now.items():
        for kind, count in held.items():
            usual = idle.get(device, {}).get(kind, 0)
            if count > usual:
                found.append(f"{device} holds {count} {kind}, without programs {usual}")
    return found
