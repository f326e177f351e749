"""cassandra://h1,h2:9042/keyspace?dc=DC1&... as an Address. Nothing is looked up or opened here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from clickcurve.buckets.errors import SettingInvalid

PORT = 9042
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>\d{1,5}))?")
_KEYSPACE = re.compile(r"[a-z][a-z0-9_]{0,47}")
TLS = {"0": None, "1": "names", "chain": "chain"}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a cluster is and how to connect to it.

    uri: as it was given; it holds no secret. dc: the data centre whose nodes are asked and whose replicas are enough;
    None: any. tls: None, "names" (certificates and their host names are verified) or "chain" (without host names).
    timeout_s: for one request with its repeats. in_flight: requests under way at once, for threads and for readers
    each.
    """

    uri: str
    hosts: tuple[str, ...]
    port: int
    keyspace: str
    dc: str | None = None
    user: str | None = None
    password_file: Path | None = None
    tls: str | None = None
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    timeout_s: float = 5.0
    in_flight: int = 128
    row_cache_mib: int = 64


def _some_text(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _local_path(text: str) -> Path:
    return Path(_some_text(text)).expanduser()


def _number(kind: type[int] | type[float], least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            number = kind(text) if text.isascii() and "_" not in text else most + 1
        except ValueError:
            number = most + 1
        if not least <= number <= most:
            raise ValueError(f"must be {'a whole number' if kind is int else 'a number'} from {least} to {most}")
        return number

    return read


def _tls_mode(text: str) -> str | None:
    if text not in TLS:
        raise ValueError("must be 1, chain (certificates without host names) or 0")
    return TLS[text]


PARAMETERS: Mapping[str, Callable[[str], Any]] = {
    "dc": _some_text,
    "user": _some_text,
    "password_file": _local_path,
    "tls": _tls_mode,
    "ca": _local_path,
    "cert": _local_path,
    "key": _local_path,
    "timeout_s": _number(float, 0.1, 120),
    "in_flight": _number(int, 1, 1024),
    "row_cache_mib": _number(int, 0, 65_536),
}


def parse(uri: str) -> Address:
    """Raises SettingInvalid, in one sentence that repeats no password."""
    rest = uri.removeprefix("cassandra://")
    if "@" in rest.partition("?")[0]:
        raise _invalid("", "names a user before its hosts; write ?user=NAME&password_file=FILE after the keyspace")
    location, _, query = rest.partition("?")
    nodes, _, keyspace = location.partition("/")
    hosts, port = _hosts(uri, nodes)
    if not _KEYSPACE.fullmatch(keyspace):
        raise _invalid(
            uri, "must name a keyspace after the hosts, of a to z, 0 to 9 and _: cassandra://h1,h2:9042/keyspace"
        )
    values = _values(uri, query)
    _check_together(uri, values)
    return Address(uri, hosts, port, keyspace, **values)


def _hosts(uri: str, nodes: str) -> tuple[tuple[str, ...], int]:
    hosts: list[str] = []
    ports: set[int] = set()
    for node in nodes.split(","):
        match = _HOST.fullmatch(node)
        if match is None or not 0 < int(match["port"] or PORT) < 65_536:
            raise _invalid(uri, f"has {node!r} where a host, or host:port, must be")
        hosts.append(match["host"].strip("[]"))
        if match["port"]:
            ports.add(int(match["port"]))
    if len(ports) > 1:
        raise _invalid(uri, f"has several ports ({', '.join(map(str, sorted(ports)))}); all nodes listen on one")
    return tuple(hosts), ports.pop() if ports else PORT


def _values(uri: str, query: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    try:
        given = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise _invalid("", "must have name=value, joined by &, after the question mark") from None
    for name, text in given:
        if name == "password":
            raise _invalid("", "holds a password, which would be shown in logs and process lists; use password_file")
        if name not in PARAMETERS:
            raise _invalid(uri, f"has the unknown parameter {name}; known are {', '.join(PARAMETERS)}")
        if name in values:
            raise _invalid(uri, f"has the parameter {name} twice")
        try:
            values[name] = PARAMETERS[name](text)
        except ValueError as error:
            raise _invalid(uri, f"has {name}={text}: it {error}") from None
    return values


def _check_together(uri: str, values: Mapping[str, Any]) -> None:
    if ("user" in values) is not ("password_file" in values):
        raise _invalid(uri, "must have user and password_file together, or neither")
    if ("cert" in values) is not ("key" in values):
        raise _invalid(uri, "must have cert and key together, or neither")
    for name in ("ca", "cert"):
        if name in values and values.get("tls") is None:
            raise _invalid(uri, f"has {name}, which is for TLS only: add tls=1")


def _invalid(uri: str, what: str) -> SettingInvalid:
    """Returns the error, without the parameters, which may hold a password: `what` names the wrong one."""
    location = uri.partition("?")[0]
    shown = f"{location!r} " if location else ""
    return SettingInvalid(f"the store's address {shown}{what}", field="store", value=location)
