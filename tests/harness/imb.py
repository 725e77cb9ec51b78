"""The Intel MPI Benchmarks of the Intel MPI wheel, for whether they come to their end."""

import re

from .children import Failed
from .mpi import intel

# Measurements of a whole run, by ranks. Some benchmarks are measured in several modes, some with
# two ranks only.
MEASUREMENTS = {
    "IMB-MPI1": {2: 19, 4: 19},
    "IMB-RMA": {2: 26, 4: 22},
}


def whole(mpi, library, ranks, name, seconds, options=()):
    """Runs everything that a program measures between `ranks` ranks; how many measurements."""
    program = intel().prefix / "bin" / name
    text = mpi.job(library, ranks, [program, "-npmin", ranks, *options], seconds)
    found = re.findall(r"^# Benchmarking (\w+)", text, re.MULTILINE)
    if "All processes entering MPI_Finalize" not in text or len(found) != MEASUREMENTS[name][ranks]:
        raise Failed(f"{name} on {ranks} ranks ended early, after: {', '.join(found)}")
    return len(found)
