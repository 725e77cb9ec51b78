"""The jobs that run in the machine. A job is a line; `$VM_...` are what tests/vm/run.py names."""

import dataclasses

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
    # The libfabric of each end, `percale` or `debian`, and of the server's first; none without it.
    libraries: tuple[str, ...] = ()
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    # From its start to its end, on a host with other things to do.
    seconds: int = 120
    # Its output ends with totals like those of cargo's tests, and they are what counts.
    counts: bool = False
    # The devices must hold afterwards what they held before.
    leaks: bool = True
    # Part of `make test`.
    always: bool = True


def everything():
    """All jobs."""
    return [*tools(), *debian()]


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
    yield fabric("msg", ("debian", "debian"), options="-I 5 -S all -c", always=False, seconds=600)
    yield fabric("dgram", ("debian", "debian"), always=False)
    yield fabric("rdm", ("debian", "debian"), provider="verbs;ofi_rxm", always=False, environment=FEW)


def fabric(endpoint, libraries, provider="verbs", hosts=1, options="-I 10 -S 65536 -c", **fields):
    """The distribution's `fi_pingpong`; the libraries are those of server and client."""
    server, client = libraries
    way = f"{provider} {endpoint}, {server}" + ("" if server == client else f" - {client}")
    program = f"fi_pingpong -p '{provider}' -e {endpoint} {options}"
    title = f"fi_pingpong {way}{between(hosts)}"
    return pair(title, program, CONTROL, hosts=hosts, libraries=libraries, **fields)


def pair(name, program, port, **fields):
    """A program that serves without an address, is a client with one, and first uses TCP."""
    return Job(
        name, server=program, client=f"{program} $VM_PEER", port=port, tcp=True, **fields
    )


def between(hosts):
    return ", two hosts" if hosts == 2 else ""
