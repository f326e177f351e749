"""The programs that tests and benches run beside Python, each with the Debian package that holds it.

`python -m testing.programs cassandra wrk` makes sure that these are there: it installs Debian's packages as root, else
it says in one sentence what is missing and ends with 1. `tests` stands for all that `make test-all` runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from sysconfig import get_path

_PYTHON = "/usr/lib/python3/dist-packages"
_NODE = "/usr/share/nodejs"
# Name: each program as `command`, or `command:package` where the package has another name. A path stands for a library.
FOR_TESTS: Mapping[str, tuple[str, ...]] = {
    "bash": ("bash",),
    "browser": ("chromium", "npm", "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf:fonts-noto-color-emoji"),
    "caddy": ("caddy",),
    # Maven fetches the jars, Java runs them, faketime puts the clock of one node wrong.
    "cassandra": ("mvn:maven", "java:openjdk-17-jre-headless", "faketime"),
    "compiler": ("cc:gcc", "/usr/include/stdio.h:libc6-dev"),
    "curl": ("curl",),
    "django": (f"{_PYTHON}/django:python3-django",),
    "express": ("node:nodejs", f"{_NODE}/express:node-express"),
    "flask": (f"{_PYTHON}/flask:python3-flask",),
    "go": ("go:golang-go",),
    "groff": ("groff:groff-base",),
    "headers": (f"{get_path('include')}/Python.h:python3-dev",),
    "java": ("java:openjdk-17-jre-headless",),
    "logger": ("logger:bsdutils",),
    "make": ("make",),
    "memcached": ("memcached",),
    "nginx": ("nginx",),
    "node": ("node:nodejs",),
    "npm": ("node:nodejs", "npm"),
    "openssl": ("openssl",),
    "php": ("php:php-cli",),
    "prometheus": ("promtool:prometheus",),
    "redis": ("redis-server",),
    "sed": ("sed",),
    "systemd": ("systemd-analyze:systemd",),
    "typescript": ("tsc:node-typescript",),
    "wrk": ("wrk",),
}
FOR_BENCHES: Mapping[str, tuple[str, ...]] = {
    "peers": ("wrk", "victoria-metrics", "influxd:influxdb", "node:nodejs", "npm"),
}
PROGRAMS = {**FOR_TESTS, **FOR_BENCHES}
# Where Debian puts servers, which is not on every user's PATH.
SYSTEM_FOLDERS = "/usr/sbin:/sbin"


def wanted(names: Iterable[str]) -> list[str]:
    """Returns what these names stand for, each once; `tests` stands for all of FOR_TESTS."""
    chosen = [each for name in names for each in (FOR_TESTS if name == "tests" else [name])]
    return list(dict.fromkeys(program for name in chosen for program in PROGRAMS[name]))


def missing(programs: Iterable[str]) -> list[str]:
    """Returns the packages of those programs that are not on this machine, each once."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_FOLDERS}"
    absent: list[str] = []
    for each in programs:
        program, _, package = each.partition(":")
        there = Path(program).exists() if program.startswith("/") else shutil.which(program, path=path)
        if not there:
            absent.append(package or program)
    return list(dict.fromkeys(absent))


def install(packages: list[str]) -> bool:
    """Installs Debian's packages if this process may; returns whether it did."""
    apt = shutil.which("apt-get")
    if os.getuid() != 0 or apt is None:
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    steps = ([apt, "update", "-qq"], [apt, "install", "-y", "-qq", "--no-install-recommends", *packages])
    return all(subprocess.call(step, env=environment, stdout=subprocess.DEVNULL) == 0 for step in steps)


def main(names: list[str]) -> int:
    absent = missing(wanted(names))
    if not absent or install(absent):
        return 0
    print(f"Missing: {' '.join(absent)}. Install the packages of these names and run it again.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
