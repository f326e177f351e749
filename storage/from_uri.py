"""One string, the store's URI, chooses the store and says where it is.

memory://                          nothing survives the process
sqlite:///clickcurve.db            a path from the working folder
sqlite:////var/lib/clickcurve.db   a path from the root: all that follows the third slash
cassandra://h1,h2:9042/keyspace    some nodes of a cluster, then parameters: see cassandra/uri.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clickcurve.buckets.errors import SettingInvalid, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, Ladder
from clickcurve.extras import extra_for
from storage.cassandra import uri as cassandra_uri
from storage.contract import Store
from storage.first_use import Later
from storage.memory_store import MemoryStore
from storage.sqlite.store import SqliteStore


@dataclass(frozen=True, slots=True)
class _Options:
    ladder: Ladder | None
    read_only: bool
    warn: Callable[[str], object]
    later: Later | None
    now: Callable[[], float] | None


def open_store(
    uri: str,
    ladder: Ladder | None = None,
    *,
    read_only: bool = False,
    warn: Callable[[str], object] = lambda sentence: None,
    later: Later | None = None,
    now: Callable[[], float] | None = None,
) -> Store:
    """Opens the store that `uri` names. ladder None: whichever it was made with, of a new one the default.

    Calls `warn` with a sentence for each fault of a store that can be used all the same. If the store cannot answer now
    and there is `later`, calls it with the reason, and the store is opened on first use; else raises StoreUnavailable.
    Raises SettingInvalid for a URI that names no store, and StoreMismatch, also for a store of another
    ladder than the one that is asked for. now: seconds of a clock that never steps back, where hits are accepted.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in OPENERS:
        schemes = ", ".join(f"{scheme}://" for scheme in OPENERS)
        raise SettingInvalid(
            f"{uri!r} is not the address of a store: it must begin with one of {schemes}", field="store", value=uri
        )
    return OPENERS[scheme](uri, rest, _Options(ladder, read_only, warn, later, now))


def _memory_store(uri: str, rest: str, options: _Options) -> Store:
    if rest:
        raise SettingInvalid(f"{uri!r}: memory:// takes nothing after the slashes", field="store", value=uri)
    return MemoryStore(options.ladder or CLICKS)


def _sqlite_store(uri: str, rest: str, options: _Options) -> Store:
    path = rest.removeprefix("/")
    if not rest.startswith("/") or not path or path.endswith("/"):
        raise SettingInvalid(
            f"{uri!r}: write sqlite:///file for a path from the working folder, sqlite:////file for one from the root",
            field="store",
            value=uri,
        )
    return SqliteStore(Path(path), options.ladder, read_only=options.read_only, later=options.later)


def _cassandra_store(uri: str, rest: str, options: _Options) -> Store:
    address = cassandra_uri.parse(uri)
    # The driver takes a third of a second to import and our part 1 MB, which processes on other stores are spared.
    with extra_for("the store cassandra://"):
        from storage.cassandra.node_settings import SETTINGS_QUERY, forgetful
        from storage.cassandra.requests import Requests
        from storage.cassandra.schema import open_keyspace
        from storage.cassandra.session import Session, connect
        from storage.cassandra.statements import ASKED
        from storage.cassandra.store import CassandraStore

    noted: list[Ladder] = []  # the keyspace's, once it was reached
    sessions: list[Session] = []

    def connect_to_keyspace() -> Session:
        session = connect(address)
        try:
            ladder, sentences = open_keyspace(session, options.ladder, ASKED)
        except BaseException:
            session.close()
            raise
        noted.append(ladder)
        sessions.append(session)
        for sentence in sentences:
            options.warn(sentence)
        return session

    def ladder() -> Ladder:
        if not noted:
            raise StoreUnavailable("the store has not been reached since the start: its ladder is not known")
        return noted[-1]

    requests = Requests(connect_to_keyspace, address.in_flight, options.later, now=options.now)

    def why_no_journals() -> str | None:
        return forgetful(sessions[-1].on_each_node(SETTINGS_QUERY))

    return CassandraStore(requests, address.row_cache_mib * 1024 * 1024, ladder, why_no_journals)


OPENERS: dict[str, Callable[[str, str, _Options], Store]] = {
    "memory": _memory_store,
    "sqlite": _sqlite_store,
    "cassandra": _cassandra_store,
}
