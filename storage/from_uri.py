"""One string chooses the store and says where it is.

memory://                          nothing survives the process
sqlite:///clickcurve.db            a path from the working folder
sqlite:////var/lib/clickcurve.db   a path from the root; what follows the third slash is the path as it stands
cassandra://h1,h2:9042/keyspace    some nodes of a cluster, then parameters: see cassandra/uri.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clickcurve.buckets.errors import SettingInvalid
from storage.cassandra import uri as cassandra_uri
from storage.cassandra.schema import open_keyspace
from storage.cassandra.statements import STATEMENTS
from storage.cassandra.store import CassandraStore
from storage.contract import Store
from storage.memory_store import MemoryStore
from storage.sqlite.store import SqliteStore

Warn = Callable[[str], None]


def open_store(uri: str, ladder: str, *, read_only: bool = False, warn: Warn = lambda sentence: None) -> Store:
    """Open the store that `uri` names, for rows of this ladder (its text). `warn` hears what is not right, if anything.

    Raises SettingInvalid for a URI that names none, StoreUnavailable, StoreMismatch.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in OPENERS:
        known = ", ".join(f"{scheme}://" for scheme in OPENERS)
        raise SettingInvalid(f"{uri!r} names no store; known are {known}", field="store", value=uri)
    return OPENERS[scheme](uri, rest, ladder, read_only, warn)


def _memory(uri: str, rest: str, ladder: str, read_only: bool, warn: Warn) -> Store:
    if rest:
        raise SettingInvalid(f"{uri!r}: memory:// takes nothing behind the slashes", field="store", value=uri)
    return MemoryStore()


def _sqlite(uri: str, rest: str, ladder: str, read_only: bool, warn: Warn) -> Store:
    path = rest.removeprefix("/")
    if not rest.startswith("/") or not path or path.endswith("/"):
        raise SettingInvalid(
            f"{uri!r}: write sqlite:///file for a path from the working folder, sqlite:////file for one from the root",
            field="store",
            value=uri,
        )
    return SqliteStore(Path(path), ladder, read_only=read_only)


def _cassandra(uri: str, rest: str, ladder: str, read_only: bool, warn: Warn) -> Store:
    address = cassandra_uri.parse(uri)
    # The driver takes a third of a second to import, which commands on other stores are spared.
    from storage.cassandra.session import connect

    session = connect(address)
    try:
        for sentence in open_keyspace(session, ladder, STATEMENTS.values()):
            warn(sentence)
    except BaseException:
        session.close()
        raise
    return CassandraStore(session, address.row_cache_mib * 1024 * 1024)


OPENERS: dict[str, Callable[[str, str, str, bool, Warn], Store]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "cassandra": _cassandra,
}
