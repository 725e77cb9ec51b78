"""The Intel MPI Benchmarks of the Intel MPI wheel, for whether they come to their end."""

import re

from .children import Failed
from .mpi import intel

# Benchmarks of a whole run, by ranks: some are for two ranks only.
BENCHMARKS = {
    "IMB-MPI1": {2: 19, 4: 19},
    "IMB-RMA": {2: 17, 4: 15},
}


def whole(mpi, library, ranks, name, seconds, options=()):
    """Runs everything that a program measures between `ranks` ranks; how many benchmarks."""
    program = intel().prefix / "bin" / name
    text = mpi.job(library, ranks, [program, "-npmin", ranks, *options], seconds)
    found = set(re.findall(r"# Benchmarking (\w+)", text))
    if "All processes entering MPI_Finalize" not in text or len(found) != BENCHMARKS[name][ranks]:
        raise Failed(f"{name} on {ranks} ranks ended early, after: {', '.join(sorted(found))}")
    return len(found)
