"""The VM's process 1, in the host's file system: makes the network, runs the task, stops the VM."""

import json
import os
import pathlib
import resource
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import command  # noqa: E402
import events  # noqa: E402
import hosts  # noqa: E402
import jobs  # noqa: E402

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main():
    """A process of its own does the work; this one reaps what has lost its parent."""
    worker = os.fork()
    if worker == 0:
        os.setsid()
        perform()
        os._exit(0)
    while os.wait()[0] != worker:
        pass
    os.sync()
    # QEMU was told to end where a computer would start again.
    pathlib.Path("/proc/sysrq-trigger").write_text("b", encoding="ascii")


def perform():
    """The task, from its file to the last event."""
    try:
        prepare()
        task = json.loads(pathlib.Path("/run/vm/task.json").read_bytes())
        network = hosts.make(task["hosts"], task["kinds"], task["mtu"])
        environment = {**task["environment"], **network.variables}
        # The task's own programs come first, and those of root's are there, too.
        environment["PATH"] = f"/run/vm/bin:{environment.get('PATH', PATH)}:{PATH}"
        events.send("started")
        if "jobs" in task:
            jobs.run(task, network, environment)
        else:
            command.run(task, environment)
        events.send("ended")
    except hosts.Broken as broken:
        events.send("broken", text=str(broken))
    except BaseException:
        events.send("broken", text=traceback.format_exc())


def prepare():
    """Limits, and what differs from a computer that has started in the usual manner."""
    os.environ.update(PATH=PATH, HOME="/root", LC_ALL="C.UTF-8")
    for limit, value in (
        (resource.RLIMIT_MEMLOCK, resource.RLIM_INFINITY),
        (resource.RLIMIT_NOFILE, 65536),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    pathlib.Path("/proc/sys/kernel/hostname").write_text("vm", encoding="ascii")
    with open("/etc/hosts", "a", encoding="utf-8") as file:
        file.write("127.0.0.1 vm\n")
    # Sanitizers reserve more than there is.
    pathlib.Path("/proc/sys/vm/overcommit_memory").write_text("1", encoding="ascii")


if __name__ == "__main__":
    main()
