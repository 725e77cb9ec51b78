"""A QEMU machine: starts it, follows what it tells, and ends it at the latest at a deadline."""

import contextlib
import ctypes
import json
import os
import pathlib
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time

import apt
import initramfs
from harness.children import Failed

# Until the task starts; an emulated processor is slow, and shared with others.
BOOT = {"kvm": 60, "tcg": 600}
# Where KVM can run it at all, the kernel gives a sign of life within this.
SIGN = 40
# What the machine needs after the task's own deadline.
GRACE = 60
KERNEL_OPTIONS = [
    *("console=ttyS0", "quiet", "loglevel=4", "8250.nr_uarts=1"),
    # A crash ends the machine.
    *("panic=-1", "oops=panic"),
    # Where others keep the processors busy, the first timer interrupts come too late for the check.
    "no_timer_check",
    *("random.trust_cpu=on", "mitigations=off", "nmi_watchdog=0"),
]
# Starts on a host that is busy may fail, rarely; what fails again has another reason.
ATTEMPTS = 2
PR_SET_PDEATHSIG = 1


class Broken(Failed):
    """The machine failed, not its task; the text says how."""


class Unstarted(Broken):
    """It failed before its task started."""


class Silent(Unstarted):
    """It gave no sign of life."""


class Machine:
    """A machine to be: kernel, processors, memory, links."""

    def __init__(self, kernel, kinds=("rxe",), hosts=1, mtu=1500, memory="2G", processors=None):
        self.kernel = kernel
        self.kinds = list(kinds)
        self.hosts = hosts
        self.mtu = mtu
        self.memory = memory
        self.processors = processors
        # How long the last one took to start.
        self.booted = None

    def run(self, task, seconds, handle, output=None, log=None):
        """Boots it, has it do the task, and waits for its end.

        `handle` gets each event of the task, `output` what a command prints. The deadline counts
        from the start of the task on. `log` names a file for all that the kernel says.
        """
        task = {"hosts": self.hosts, "kinds": self.kinds, "mtu": self.mtu, "shares": {}, **task}
        for accelerator in accelerators():
            for attempt in range(1, ATTEMPTS + 1):
                run = Run(self, accelerator, task)
                try:
                    run.follow(seconds, handle, output)
                    self.booted = run.booted
                    return
                except Silent:
                    if accelerator == "tcg":
                        raise
                    # It will not be asked again on this host.
                    no_kvm().touch()
                    break
                except Unstarted as failure:
                    if attempt == ATTEMPTS:
                        raise
                    print(f"the machine is started again: {failure}", file=sys.stderr)
                finally:
                    run.close(log)


class Run:
    """A machine that runs."""

    def __init__(self, machine, accelerator, task):
        self._accelerator = accelerator
        self.booted = None
        self._folder = tempfile.TemporaryDirectory(prefix="percale-vm-")
        folder = pathlib.Path(self._folder.name)
        self._console = folder / "console"
        self._errors = folder / "qemu"
        image = folder / "initramfs"
        try:
            initramfs.make(image, machine.kernel, machine.kinds, task)
            self._events, events = socket.socketpair()
            self._output, output = socket.socketpair()
            ends = (events.fileno(), output.fileno())
            command = words(machine, accelerator, image, self._console, ends, task["shares"])
            with open(self._errors, "wb") as errors, events, output:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    pass_fds=ends,
                    start_new_session=True,
                    preexec_fn=end_with_parent(os.getpid()),
                )
        except BaseException:
            self._folder.cleanup()
            raise
        self._begin = time.monotonic()

    def follow(self, seconds, handle, output):
        """Hands on what it tells until it ends."""
        end = self._begin + (SIGN if self._accelerator == "kvm" else BOOT[self._accelerator])
        alive = started = ended = False
        rest = b""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._events, selectors.EVENT_READ)
            waiting.register(self._output, selectors.EVENT_READ)
            while waiting.get_map():
                ready = waiting.select(max(0, end - time.monotonic()))
                if not ready:
                    self._late(alive, started, seconds)
                for key, _ in ready:
                    data = receive(key.fileobj)
                    if not data:
                        waiting.unregister(key.fileobj)
                    elif key.fileobj is self._output:
                        if output:
                            output(data)
                    else:
                        *lines, rest = (rest + data).split(b"\n")
                        for event in map(json.loads, lines):
                            kind = event.pop("event")
                            if kind == "alive":
                                alive, end = True, self._begin + BOOT[self._accelerator]
                            elif kind == "started":
                                self.booted = time.monotonic() - self._begin
                                started, end = True, time.monotonic() + seconds + GRACE
                            elif kind == "broken":
                                kind = Broken if started else Unstarted
                                raise kind(event["text"].strip())
                            elif kind == "ended":
                                ended = True
                            else:
                                handle(kind, event)
        if not ended:
            self._died(alive, started)

    def close(self, log):
        """Ends it, whatever it does, and keeps the kernel's messages if they are wanted."""
        if self._process.poll() is None:
            # Only this process can have taken its number back: it has not been waited for.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._events.close()
        self._output.close()
        if log:
            pathlib.Path(log).write_text(self.console(), encoding="utf-8")
        self._folder.cleanup()

    def console(self):
        """What the kernel has said."""
        try:
            return self._console.read_text(encoding="utf-8", errors="replace").replace("\r", "")
        except OSError:
            return ""

    def _late(self, alive, started, seconds):
        os.killpg(self._process.pid, signal.SIGKILL)
        if started:
            raise Broken(f"it hangs: no answer {GRACE} s after the deadline of {seconds} s")
        if not alive:
            raise Silent(f"no sign of life with {self._accelerator}")
        raise Unstarted(f"it did not start within {BOOT[self._accelerator]} s")

    def _died(self, alive, started):
        """The machine is over before its task is."""
        text = self.console()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        said = self._errors.read_text(encoding="utf-8", errors="replace").strip()
        panic = [line for line in text.splitlines() if "Kernel panic" in line or "BUG:" in line]
        kind, when = (Broken, "during") if started else (Unstarted, "before")
        if panic:
            raise kind(f"the kernel crashed {when} the task: {panic[0].split('] ', 1)[-1]}")
        if said and not alive:
            raise Broken(f"QEMU: {said.splitlines()[-1]}")
        raise kind(f"the machine stopped {when} the task")


def words(machine, accelerator, image, console, ends, shares):
    """QEMU's command line."""
    security = "none" if os.geteuid() == 0 else "passthrough"
    share = f"local,security_model={security},multidevs=remap"
    processor = "max" if accelerator == "tcg" else "host"
    command = [
        *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none", "-vga", "none", "-machine", "q35,i8042=off"),
        *("-accel", accelerator, "-cpu", processor),
        *("-smp", str(machine.processors or processors(accelerator)), "-m", machine.memory),
        *("-kernel", machine.kernel.image, "-initrd", image, "-append", " ".join(KERNEL_OPTIONS)),
        *("-chardev", f"file,id=console,path={console}", "-serial", "chardev:console"),
        *("-device", "virtio-serial-pci,max_ports=3"),
        *("-fsdev", f"{share},id=root,path=/,readonly=on"),
        *("-device", "virtio-9p-pci,fsdev=root,mount_tag=root"),
    ]
    for number, end in enumerate(ends, 1):
        command += ["-chardev", f"socket,id=port{number},fd={end}"]
        command += ["-device", f"virtserialport,chardev=port{number},nr={number}"]
    for tag, folder in shares.items():
        command += ["-fsdev", f"{share},id={tag},path={folder}"]
        command += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    return [str(word) for word in command]


def processors(accelerator):
    """How many, unless somebody asks for a number.

    Programs that poll keep a processor busy, and the kernel's packets need one, too: emulated
    processors are threads, so there may be more of them than there are real ones.
    """
    each = 2 if accelerator == "tcg" else 1
    return min(8, max(2, each * len(os.sched_getaffinity(0))))


def accelerators():
    """What to try, in this order.

    Some hosts have a /dev/kvm without the processor's own means; a stock kernel hangs on it.
    """
    flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split()
    means = "svm" in flags or "vmx" in flags
    if means and os.access("/dev/kvm", os.R_OK | os.W_OK) and not no_kvm().exists():
        return ["kvm", "tcg"]
    return ["tcg"]


def no_kvm():
    """A mark in the cache: here, KVM was tried in vain."""
    return apt.cache() / f"no-kvm-{os.uname().release}"


def end_with_parent(parent):
    """What a child does to be ended with this process, however that ends."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def prepare():
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def receive(end):
    """What has come; nothing where the other end is gone."""
    try:
        return end.recv(65536)
    except ConnectionResetError:
        return b""
