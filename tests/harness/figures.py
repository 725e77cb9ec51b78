"""What all benchmarks have in common: the host, medians, tables in the book."""

import datetime
import os
import platform
import statistics

# With more load than this before the start, other programs share the processors.
BUSY = 0.7


def describe():
    """The host, as it is before anything is measured."""
    model = "?"
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
        "date": datetime.date.today().isoformat(),
    }


def introduce(host):
    """Says where this runs, and whether that is a place to measure."""
    print(f"host: {host['cpu']}, {host['cores']} cores, Linux {host['kernel']}", flush=True)
    if host["load"] > BUSY:
        print(f"the host is busy (load {host['load']:.1f}): take the best, not the medians")


def signature(host, pins):
    """The same under a table."""
    busy = f" Busy host, load {host['load']:.1f}." if host["load"] > BUSY else ""
    return (
        f"{host['cpu']}, processors {' and '.join(pins)}, Linux {host['kernel']}, "
        f"{host['date']}.{busy}"
    )


def summary(samples):
    """One number of many."""
    median = statistics.median(samples)
    return {"median": median, "min": min(samples), "max": max(samples), "each": samples}


def ratio(ours, theirs):
    """The median over pairs that followed each other: the host changes from pair to pair."""
    return statistics.median(a / b for a, b in zip(ours["each"], theirs["each"]))


def spread(figure):
    """A summary as a cell."""
    return f"{digits(figure['median'])} ({digits(figure['min'])}..{digits(figure['max'])})"


def digits(value):
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def processors(parser, pins):
    """The two processors that were asked for, if this process may use them."""
    pins, cpus = pins.split(","), os.sched_getaffinity(0)
    if len(pins) != 2 or not {int(pin) for pin in pins} <= cpus:
        parser.error(f"--pins takes two of the processors {sorted(cpus)}")
    return pins


def into(path, mark, table):
    """Replaces what stands between the two marks of that name."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, rest = path.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    path.write_text(f"{before}{begin}\n{table}{end}{after}", encoding="utf-8")
