"""The jobs that run in the machine. A job is a line; `$VM_...` are what tests/vm/run.py names."""

import dataclasses
import functools
import json
import pathlib
import shlex
import sys
from collections.abc import Callable

from harness import libraries, mpi, prepare
from harness.children import run
from harness.libraries import ROOT

# Soft RoCE gives less than older libraries ask for as soon as they ask for many peers.
# Where fi_pingpong serves.
CONTROL = 47592
FEW = {"FI_UNIVERSE_SIZE": "16"}


@dataclasses.dataclass
class Job:
    """A program, or a server and its client.

    With two hosts, the server is on host a and the client on b. A program that is alone is on a and
    can use `on`.
    """

    name: str
    client: str
    server: str | None = None
    # Where the server listens, on the device or with TCP: the client is started then.
    port: int = 0
    tcp: bool = False
    hosts: int = 1
    link: str = "rxe"
    # The libfabric of each end, the server's first: `percale`, `debian` or `wheel`.
    libraries: tuple[str, ...] = ()
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    # From its start to its end, on a host with other things to do.
    seconds: int = 120
    # What is to be built outside, before the machine starts: more of its environment.
    build: Callable[[], dict[str, str]] | None = None
    # Its output ends with totals like those of cargo's tests, and they are what counts.
    counts: bool = False
    # The devices must hold afterwards what they held before.
    leaks: bool = True
    # Part of `make test`.
    always: bool = True


def everything():
    """All jobs."""
    return [*tools(), *debian(), *ours()]


def tools():
    """Programs without libfabric: they show that the machine is in order."""
    verbs = "-d $VM_DEV -g $VM_GID -n 100"
    for kind, port in (("rc", 18515), ("ud", 18515), ("srq", 18515)):
        program = f"ibv_{kind}_pingpong {verbs}"
        yield pair(f"ibv_{kind}_pingpong", program, port, always=kind == "rc")
    for hosts, link in ((1, "rxe"), (2, "rxe"), (1, "siw"), (2, "siw")):
        rping = "rping -C 10 -v -V -p 7174"
        yield Job(
            f"rping over {link}{between(hosts)}",
            server=f"{rping} -s -a 0.0.0.0",
            client=f"{rping} -c -a $VM_PEER",
            port=7174,
            hosts=hosts,
            link=link,
            always=link == "rxe",
        )


def debian():
    """The distribution's libfabric with itself."""
    yield fabric("msg", ("debian", "debian"))
    yield fabric("msg", ("debian", "debian"), hosts=2)
    yield fabric("msg", ("debian", "debian"), sizes="all", always=False, seconds=900)
    yield fabric("dgram", ("debian", "debian"), always=False)
    rxm = {"provider": "verbs;ofi_rxm", "environment": FEW, "always": False}
    yield fabric("rdm", ("debian", "debian"), **rxm)


def ours():
    """This library, alone and with others."""
    alone = ("percale", "percale")
    yield fabric("rdm", alone, provider="tcp", hosts=2)
    rxm = {"provider": "verbs;ofi_rxm", "environment": FEW}
    for ends in (alone, ("percale", "debian"), ("debian", "percale")):
        yield fabric("msg", ends)
        yield fabric("rdm", ends, **rxm)
        later = {"sizes": "all", "always": False, "seconds": 900}
        yield fabric("msg", ends, **later)
        yield fabric("rdm", ends, **rxm, **later)
        yield fabric("msg", ends, link="siw", always=False)
        yield fabric("dgram", ends)
        yield fabric("dgram", ends, sizes="all", always=False, seconds=300)
    yield fabric("msg", alone, hosts=2)
    yield fabric("dgram", alone, hosts=2)
    chosen = {"FI_VERBS_PKEY": "0xffff", "FI_VERBS_GID_IDX": "1"}
    yield fabric("dgram", alone, about=", partition and identifier", environment=chosen)
    yield refused("FI_VERBS_PKEY=0x8001", "not in partition 0x8001 but in 0xffff")
    yield refused("FI_VERBS_GID_IDX=200", "no identifier 200", "-t FI_EP_DGRAM")
    yield examples()
    yield fabric("rdm", alone, hosts=2, **rxm)
    many = {"always": False, "seconds": 3600}
    yield conformance("verbs", "dgram", **many)
    for hosts in (1, 2):
        yield conformance("verbs", "msg", hosts=hosts, **many)
        yield conformance("verbs;ofi_rxm", "rdm", hosts=hosts, **many)
    yield conformance("verbs", "msg", link="siw", **many)
    yield program("endings", "verbs $VM_ADDR")
    yield program("connections", "verbs $VM_ADDR 2000", always=False, seconds=1800)
    yield Job("costs", f"{sys.executable} tests/vm/cost.py", build=costs, always=False, seconds=1800)
    yield program("monitor", "$VM_ADDR", always=False)
    # Memory of soft-RoCE is pinned whatever is asked for.
    yield program("ondemand", "$VM_ADDR 16384", environment={"FI_VERBS_USE_ODP": "1"}, always=False)
    yield program("groups", "224.1.2.3 $VM_A_DEV $VM_B_DEV", hosts=2)
    addresses = "$VM_A_ADDR $VM_B_ADDR $VM_A_NETDEV"
    yield program("link", f"'verbs;ofi_rxm' {addresses}", hosts=2, always=False, seconds=600)


def refused(setting, reason, wish=""):
    """Discovery finds nothing with a setting, and says why."""
    listing = f"{setting} FI_LOG_LEVEL=warn fi_info -p verbs {wish} 2>&1"
    return Job(
        f"fi_info -p verbs, {setting}",
        f"said=$({listing}); [ $? = 61 ] && echo \"$said\" | grep -m 1 '{reason}'",
        libraries=("percale",),
    )


def conformance(provider, endpoint, *cases, hosts=1, **fields):
    """The conformance suite on this build."""
    words = " ".join(f"'{case}'" for case in cases)
    # What devices do by themselves is not told to their hosts: events of remote access are skipped.
    kind = "" if endpoint == "rdm" else "--offered"
    title = f"conformance of {provider} {endpoint}{between(hosts)}"
    title += f" over {fields['link']}" if "link" in fields else ""
    # With two hosts, each side has the address of one of them.
    node = "$VM_A_ADDR,$VM_B_ADDR" if hosts == 2 else "$VM_ADDR"
    options = f"-n {node} --plain --brief {kind} {words}"
    return Job(
        title,
        f"build/conformance -p '{provider}' -e {endpoint} {options}",
        libraries=("percale",),
        hosts=hosts,
        counts=True,
        build=suite,
        **fields,
    )


def program(name, words, **fields):
    """A program of tests/c/verbs on this build."""
    return Job(
        f"{name}{between(fields.get('hosts', 1))}",
        f"build/verbs-{name} {words}",
        libraries=("percale",),
        build=functools.partial(compiled, name),
        **fields,
    )


def compiled(name):
    """Compiles a program of tests/c/verbs."""
    libraries.BUILD.mkdir(exist_ok=True)
    flags = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "ffi" / "include"]
    source, made = ROOT / "tests" / "c" / "verbs" / f"{name}.c", libraries.BUILD / f"verbs-{name}"
    run(["cc", *flags, source, "-o", made, libraries.percale().path], 120)
    return {}


def costs():
    """Compiles a program with data calls, for this build and for the distribution's library."""
    prepare.packages({"valgrind": "valgrind"})
    if not pathlib.Path("/usr/include/rdma/fabric.h").exists():
        prepare.install(["libfabric-dev"])
    source = ROOT / "tests" / "c" / "verbs" / "cost.c"
    run(["cc", "-O1", "-g", source, "-o", libraries.BUILD / "verbs-cost-debian", "-lfabric"], 120)
    return compiled("cost")


def rust(package, **fields):
    """The tests of a package, as they were built outside."""
    return Job(
        f"tests of {package}",
        "status=0; for program in $PROGRAMS; do $program || status=1; done; exit $status",
        counts=True,
        build=functools.partial(tests, package),
        **fields,
    )


def examples():
    """The examples of the Rust interface over verbs, each as its user starts it."""
    programs = ("connection", "kv", "rpc_tokio", "rpc_smol")
    alone = "; ".join(f"./{each} || status=1" for each in programs)
    pair = (
        "./hello >/run/hello & until grep -q address /run/hello; do sleep 0.2; done;"
        " ./hello $(sed -n 's/address //p' /run/hello) || status=1; wait $! || status=1"
    )
    return Job(
        "examples of percale over verbs",
        f"cd $EXAMPLES; status=0; {alone}; {pair}; exit $status",
        environment={"FI_PROVIDER": "verbs"},
        build=example_programs,
        seconds=300,
    )


def example_programs():
    """Builds the examples; where they are."""
    build = ["cargo", "build", "-p", "percale", "--all-features", "--examples", "--locked"]
    run(build, 1200, cwd=ROOT)
    return {"EXAMPLES": str(ROOT / "target" / "debug" / "examples")}


def mpich(provider, library, program="smoke", **fields):
    """A program of tests/mpi with a rank on each of two hosts, on the wheel's MPICH."""
    # Where hosts share a network namespace, each has the other's device before it, too.
    own = f"FI_VERBS_IFACE=$VM_NETDEV exec build/mpi-{program}-mpich"
    rank = shlex.join(["sh", "-c", f"exec on $(hostname) sh -c '{own}'"])
    fields["environment"] = {
        "FI_PROVIDER": provider,
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        **fields.get("environment", {}),
    }
    return Job(
        f"MPICH over {provider}, {library}, {program}{between(2)}",
        f"build/venv/bin/mpiexec -hosts a,b -n 2 {rank}",
        hosts=2,
        libraries=(library,),
        build=functools.partial(mpi_program, program),
        **fields,
    )


def mpi_program(source):
    """Compiles a program of tests/mpi."""
    prepare.venv()
    mpi.mpich().compile(source)
    return {}


def suite():
    """Compiles the conformance suite."""
    run([sys.executable, ROOT / "tests" / "conformance" / "run.py", "--build"], 600)
    return {}


@functools.cache
def tests(package):
    """Builds a package's tests; where they are."""
    command = ["cargo", "test", "-p", package, "--locked", "--no-run", "--message-format", "json"]
    printed = run(command, 1200, cwd=ROOT).splitlines()
    messages = [json.loads(line) for line in printed if line.startswith("{")]
    programs = [message["executable"] for message in messages if message.get("executable")]
    return {"PROGRAMS": " ".join(programs)}


def fabric(endpoint, libraries, provider="verbs", hosts=1, sizes=None, about="", **fields):
    """The distribution's `fi_pingpong`; the libraries are those of server and client."""
    server, client = libraries
    # A datagram is as large as a packet.
    sizes = sizes or {"dgram": "1024"}.get(endpoint, "65536")
    way = f"{provider} {endpoint}, {server}" + ("" if server == client else f" - {client}")
    program = f"fi_pingpong -p '{provider}' -e {endpoint} -I 5 -S {sizes} -c"
    title = f"fi_pingpong {way}{between(hosts)}" + (", all sizes" if sizes == "all" else "")
    title += f" over {fields['link']}" if "link" in fields else ""
    title += about
    return pair(title, program, CONTROL, hosts=hosts, libraries=libraries, **fields)


def pair(name, program, port, **fields):
    """A program that serves without an address, is a client with one, and first uses TCP."""
    return Job(
        name, server=program, client=f"{program} $VM_PEER", port=port, tcp=True, **fields
    )


def between(hosts):
    return ", two hosts" if hosts == 2 else ""
