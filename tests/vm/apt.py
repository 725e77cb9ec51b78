"""Debian's archive: packages that this host lacks, and packages that are only downloaded.

Downloads go by package lists of their own, kept in the cache: the lists of the system are left as
they are, and neither they nor root are needed.
"""

import contextlib
import fcntl
import os
import pathlib
import platform
import re
import shutil
import subprocess

from harness import prepare
from harness.children import Failed, run

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
RELEASE = "bookworm"


def unfit():
    """Why this host cannot download and run Debian's kernels; `None` if it can."""
    if os.uname().machine != "x86_64":
        return f"it is made for x86-64, and this is {os.uname().machine}"
    if not shutil.which("apt-get") or not shutil.which("dpkg-query"):
        return "it takes Debian packages"
    if platform.freedesktop_os_release().get("VERSION_CODENAME") != RELEASE:
        return f"it is made for Debian's release {RELEASE}"
    return None


def install(packages):
    """Installs what is not there yet. `Failed` where that takes root, with the names."""
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages]
    found = subprocess.run(
        query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    there = {line.removesuffix(" installed") for line in found.stdout.splitlines()}
    missing = [name for name in packages if name not in there]
    if not missing:
        return
    if os.geteuid() != 0:
        raise Failed(f"packages are missing, please install: {' '.join(missing)}")
    prepare.install(missing)


class Archive:
    """Suites of Debian's archive, at the mirror that this system uses."""

    def __init__(self, folder, suites):
        self._state = folder / suites[0]
        self._suites = suites
        self._fresh = False

    def newest(self, pattern):
        """The newest of the packages `linux-image-(PATTERN)`: what the pattern stands for."""
        self.update()
        names = self._apt("apt-cache", ["pkgnames", "linux-image-"], 60)
        found = re.findall(rf"^linux-image-({pattern})$", names, re.M)
        if not found:
            raise Failed(f"{', '.join(self._suites)} have no package linux-image-{pattern}")
        return max(found, key=numbers)

    def versions(self, package):
        """The versions of a package that can be downloaded."""
        self.update()
        lines = self._apt("apt-cache", ["madison", package], 60).splitlines()
        return [line.split("|")[1].strip() for line in lines if line.count("|") == 2]

    def download(self, packages, folder):
        """Downloads packages into a folder: their files, in no order."""
        self.update()
        folder.mkdir(parents=True, exist_ok=True)
        self._apt("apt-get", ["download", *packages], 900, folder)
        return sorted(folder.glob("*.deb"))

    def update(self):
        """Reads the package lists, once."""
        if self._fresh:
            return
        for name in ("lists/partial", "cache/archives/partial"):
            (self._state / name).mkdir(parents=True, exist_ok=True)
        sites = {release: site for site, release in _sites()}
        lines = []
        for suite in self._suites:
            # A suite that the system does not use is where its release is.
            site = sites.get(suite, None if suite.endswith("-security") else sites.get(RELEASE))
            if site:
                lines.append(f"deb [signed-by={KEYS}] {site} {suite} main\n")
        (self._state / "sources.list").write_text("".join(lines), encoding="utf-8")
        printed = self._apt("apt-get", ["update"], 600)
        complaint = re.search(r"^[EW]: .*(?:[Ff]ail|[Ee]rr).*", printed, re.M)
        if complaint:
            raise Failed(f"the package lists of {self._suites[0]} cannot be had: {complaint[0]}")
        self._fresh = True

    def _apt(self, program, words, seconds, folder=None):
        settings = {
            "Dir::Etc::sourcelist": self._state / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State::lists": self._state / "lists",
            "Dir::Cache": self._state / "cache",
            "Acquire::Languages": "none",
            # The user of apt's own cannot write to the folders of another.
            "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        return run([program, *options, *words], seconds, cwd=folder)


def unpack(package, folder):
    """Unpacks a package's files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    run(["dpkg-deb", "-x", package, folder], 300)


def numbers(release):
    """A key that sorts `6.1.0-9` before `6.1.0-10`."""
    return [int(word) for word in re.findall(r"\d+", release)]


@contextlib.contextmanager
def locked():
    """Keeps other runs from the cache for the time of a `with` block."""
    with open(cache() / "lock", "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cache():
    """Where downloads are kept between runs, outside the tree wherever that can be."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(base) / "percale-vm"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        folder = pathlib.Path(__file__).resolve().parents[2] / "build" / "vm"
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _sites():
    """The system's own sources: sites and suites."""
    query = ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages"]
    words = [line.split() for line in run(query, 60).splitlines()]
    return [(line[0], line[1]) for line in words if len(line) == 2]
