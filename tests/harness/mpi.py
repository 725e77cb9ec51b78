"""MPI jobs of the MPICH wheel over shm, on a library of choice."""

import pathlib

from .children import Failed, run
from .libraries import BUILD, ROOT, VENV

SMOKE = ROOT / "tests" / "mpi" / "smoke.c"
# All traffic through libfabric, also between ranks of this host, and through shm.
SETTINGS = {
    "FI_PROVIDER": "shm",
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "MPIR_CVAR_NOLOCAL": "1",
}


class Smoke:
    """What a run of `smoke.c` printed."""

    def __init__(self, text):
        words = [line.split(maxsplit=2) for line in text.splitlines()]
        self.maps = {w[1]: w[2] for w in words if len(w) == 3 and w[0] == "maps"}
        self.times = {int(w[1]): float(w[2]) for w in words if len(w) == 3 and w[0] == "time"}
        self.parts = [line[3:] for line in text.splitlines() if line.startswith("ok ")]


def compile_smoke():
    """Compiles the C job with the wheel's compiler wrapper."""
    program = BUILD / "mpi-smoke"
    BUILD.mkdir(exist_ok=True)
    flags = ["-O2", "-Wall", "-Wextra", "-Werror"]
    run([VENV / "bin" / "mpicc", *flags, "-o", program, SMOKE], 120)
    return program


def job(library, ranks, command, seconds):
    """Runs a job on `library` and returns what it printed."""
    command = [VENV / "bin" / "mpiexec", "-n", ranks, *command]
    return run(command, seconds, library.env(**SETTINGS))


def smoke(library, ranks, seconds=120):
    """Runs the compiled C job; `Failed` unless it came to its end on `library`."""
    result = Smoke(job(library, ranks, [BUILD / "mpi-smoke"], seconds))
    if "end" not in result.parts:
        raise Failed(f"the job stopped after: {', '.join(result.parts)}")
    if len(result.maps) != ranks:
        raise Failed(f"{len(result.maps)} of {ranks} ranks told which libfabric they have mapped")
    for pid, path in result.maps.items():
        if not library.is_at(path):
            raise Failed(f"rank with pid {pid} runs on {path} instead of {library.path}")
    return result


def mpi4py_suite(library, ranks, source, modules, seconds):
    """Runs modules of mpi4py's own test suite, unpacked at `source`."""
    main = pathlib.Path(source) / "test" / "main.py"
    python = VENV / "bin" / "python"
    return job(library, ranks, [python, main, "-x", "testGetFortranInfo", *modules], seconds)
