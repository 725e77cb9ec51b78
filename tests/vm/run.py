#!/usr/bin/env python3
"""Runs a command in a virtual machine that has RDMA devices, in software.

Boots a Debian kernel in QEMU, which sees this host's files: the command finds everything under the
same path as here. What it writes is gone with the machine, but for --keep.

Prints what the command prints and exits with its status. 124: it was ended at its deadline. 125:
the machine failed, and one line on stderr says how. 126, 127: the command cannot be run.
"""

import argparse
import contextlib
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import kernels  # noqa: E402
import machine  # noqa: E402
import provision  # noqa: E402
from harness.children import Failed  # noqa: E402

BROKEN = 125
# Of their own in the machine, and empty at first.
PRIVATE = ("/run", "/dev", "/proc", "/sys")
VARIABLES = """\
The command finds in its environment: VM_DEV (rxe0), VM_NETDEV, VM_ADDR, VM_ADDR6, VM_GID (the index
of the address), VM_PEER and VM_PEER6 (the address to connect to), VM_KERNEL, VM_HOSTS. With --link
both: VM_RXE_DEV, VM_SIW_DEV and so on as well. With --hosts 2: VM_HOST (a, b), and VM_A_DEV,
VM_B_ADDR and so on everywhere; `on a COMMAND` starts a program on a host.

examples:
  tests/vm/run.py ibv_devinfo
  tests/vm/run.py --hosts 2 bash -c 'on a rping -s -C 9 & sleep 2; on b rping -c -a $VM_A_ADDR -C 9'
"""


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return perform(args)
    except Failed as failure:
        print(f"run.py: {failure}", file=sys.stderr)
        return BROKEN
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=VARIABLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--hosts", type=int, choices=[1, 2], default=1, help="two are joined by a cable")
    add("--link", choices=["rxe", "siw", "both"], default="rxe",
        help="soft-RoCE, soft-iWARP; both on one host only")
    add("--kernel", choices=kernels.CHOICES, default=kernels.DEFAULT,
        help=f"default {kernels.DEFAULT}, the release's own")
    add("--deadline", type=positive, default=600, metavar="S",
        help="seconds for the command, from its start on (600)")
    add("--env", action="append", default=[], metavar="NAME[=VALUE]", help="into its environment")
    add("--keep", action="append", default=[], metavar="FOLDER", type=pathlib.Path,
        help="keep what it writes there")
    add("--mtu", type=positive, default=1500, help="of the netdevs: from 4200 on, packets of 4096")
    add("--memory", default="2G", help="of the machine (2G)")
    add("--processors", type=positive, help="of the machine")
    add("--log", metavar="FILE", help="for all that the kernel says")
    add("--refresh", action="store_true", help="look for a newer kernel")
    add("--prepare", action="store_true", help="install and download what is needed, run nothing")
    add("-v", "--verbose", action="store_true", help="tell how long things take")
    add("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.command[:1] == ["--"]:
        args.command = args.command[1:]
    if not args.command and not args.prepare:
        parser.error("a command is missing")
    if args.link == "both" and args.hosts == 2:
        parser.error("--link both is for one host")
    return args


def positive(text):
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def perform(args):
    """Runs the command; its status."""
    begin = time.monotonic()

    def note(text):
        if args.verbose:
            print(f"run.py: [{time.monotonic() - begin:5.1f} s] {text}", file=sys.stderr)

    folder = pathlib.Path.cwd()
    if str(folder).startswith(PRIVATE):
        raise Failed(f"the machine does not see {folder}: {', '.join(PRIVATE)} are its own there")
    # Progress of what is installed must not be taken for the command's output.
    with contextlib.redirect_stdout(sys.stderr):
        kinds = ["rxe", "siw"] if args.link == "both" else [args.link]
        kernel = provision.prepare(args.kernel, kinds, args.refresh)
    note(f"kernel {kernel.release}")
    if args.prepare:
        return 0
    task = {
        "command": args.command,
        "folder": str(folder),
        "seconds": args.deadline,
        "environment": provision.environment(args.env),
        "shares": {f"keep{n}": str(each.resolve()) for n, each in enumerate(args.keep)},
    }
    results = []
    vm = machine.Machine(kernel, kinds, args.hosts, args.mtu, args.memory, args.processors)
    vm.run(task, args.deadline, lambda _, event: results.append(event), show, args.log)
    note(f"the command started {vm.booted:.1f} s after the machine")
    note("the machine has ended")
    if not results:
        raise machine.Broken("the command has no result")
    return tell(results[0], args.deadline)


def show(data):
    """What the command prints, at once."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def tell(result, deadline):
    """Says on stderr why it ended badly, as far as that can be known; the status."""
    if "text" in result:
        print(f"run.py: {result['text']}", file=sys.stderr)
    if result.get("late"):
        print(f"run.py: no end after {deadline} s", file=sys.stderr)
    for process in result["left"]:
        print(f"run.py: process {process}", file=sys.stderr)
    if result["status"]:
        for message in result["messages"][-20:]:
            print(f"run.py: kernel: {message}", file=sys.stderr)
    return result["status"]


if __name__ == "__main__":
    sys.exit(main())
