"""Renews the list of sites by kind from Matomo's: `python -m testing.renewal.listed_sites FOLDER`, a checkout of it.

The list is that of the repository matomo-org/searchengine-and-social-list, in the public domain by CC0 1.0. Hosts are
taken over; what it says of paths, keywords and old spellings is left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

TARGET = Path(__file__).parents[2] / "ingest/attributes/listed_sites.txt"
_FILES = {"search": "SearchEngines.yml", "social": "Socials.yml", "ai": "AIAssistants.yml"}
_HEAD = """\
# Hosts of search engines, social networks and AI assistants, one a line: a kind, then the host. Made by
# `python -m testing.renewal.listed_sites FOLDER` from version {version}
# of matomo-org/searchengine-and-social-list, in the public domain (CC0 1.0); not to be changed by hand.
# What own_sites.txt says wins; it also says what the signs mean.
"""
_HOST = re.compile(r"(?:\*\.)?[\w-]+(?:\.[\w-]+)*(?:\.\*)?")
_LEFT_OUT = frozenset(("login.live.com",))  # where people of all Microsoft's sites log in


def listed(folder: Path) -> Iterator[tuple[str, str]]:
    """Yields kind and host of each site in a checkout, in order."""
    for kind, name in _FILES.items():
        entries: dict[str, Any] = yaml.safe_load((folder / name).read_text("utf-8"))
        hosts = {_as_kept(kind, host) for each in entries.values() for host in _hosts_in(each)}
        yield from ((kind, host) for host in sorted(hosts - _LEFT_OUT) if _HOST.fullmatch(host))


def _hosts_in(entry: list[Any]) -> Iterator[str]:
    """Yields the hosts of an entry: listed by themselves, or in several ways to search."""
    for each in entry:
        yield from [each] if isinstance(each, str) else each.get("urls", ())


def _as_kept(kind: str, host: str) -> str:
    """Returns a host with our signs: of networks all hosts below are meant, of engines those that are named."""
    host = host.lower().removeprefix("www.").replace("{}", "*")
    has_sign = "*" in host or kind == "search"
    return host if has_sign or host.count(".") != 1 else f"*.{host}"


def main() -> None:
    """Writes the file."""
    folder = Path(sys.argv[1])
    version = subprocess.check_output(["git", "-C", folder, "rev-parse", "HEAD"], text=True).strip()
    lines = [f"{kind} {host}\n" for kind, host in listed(folder)]
    TARGET.write_text(_HEAD.format(version=version) + "".join(lines), "utf-8")
    print(f"{TARGET.name}: {len(lines)} hosts")


if __name__ == "__main__":
    main()
