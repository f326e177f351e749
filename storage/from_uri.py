"""One string, the store's URI, chooses the store and says where it is.

memory://                          nothing survives the process
sqlite:///clickcurve.db            a path from the working folder
sqlite:////var/lib/clickcurve.db   a path from the root: all that follows the third slash
cassandra://h1,h2:9042/keyspace    some nodes of a cluster, then parameters: see cassandra/uri.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clickcurve.buckets.errors import SettingInvalid, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, Ladder
from clickcurve.extras import extra_for
from storage.cassandra import uri as cassandra_uri
from storage.contract import Store
from storage.first_use import Later
from storage.memory_store import MemoryStore
from storage.sqlite.store import SqliteStore


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
    match scheme + separator:
        case "memory://":
            if rest:
                raise _invalid(uri, ": memory:// takes nothing after the slashes")
            return MemoryStore(ladder or CLICKS)
        case "sqlite://":
            path = rest.removeprefix("/")
            if path == rest or not path or path.endswith("/"):
                rule = "write sqlite:///file for a path from the working folder, sqlite:////file for one from the root"
                raise _invalid(uri, f": {rule}")
            return SqliteStore(Path(path), ladder, read_only=read_only, later=later)
        case "cassandra://":
            return _cassandra_store(uri, ladder, warn, later, now)
    schemes = "memory://, sqlite://, cassandra://"
    raise _invalid(uri, f" is not the address of a store: it must begin with one of {schemes}")


def _invalid(uri: str, what: str) -> SettingInvalid:
    return SettingInvalid(f"{uri!r}{what}", field="store", value=uri)


def _cassandra_store(
    uri: str,
    ladder: Ladder | None,
    warn: Callable[[str], object],
    later: Later | None,
    now: Callable[[], float] | None,
) -> Store:
    address = cassandra_uri.parse(uri)
    # The driver takes a third of a second to import and our part 1 MB, which processes on other stores are spared.
    with extra_for("the store cassandra://"):
        from storage.cassandra.node_settings import SETTINGS_QUERY, forgetful
        from storage.cassandra.requests import Requests
        from storage.cassandra.schema import open_keyspace
        from storage.cassandra.session import Session, connect
        from storage.cassandra.statements import ASKED
        from storage.cassandra.store import CassandraStore

    opened: list[
        tuple[Session, Ladder]
    ] = []  # once the keyspace was reached: the connection, and the keyspace's ladder

    def connect_to_keyspace() -> Session:
        session = connect(address)
        try:
            own_ladder, sentences = open_keyspace(session, ladder, ASKED)
        except BaseException:
            session.close()
            raise
        opened.append((session, own_ladder))
        for sentence in sentences:
            warn(sentence)
        return session

    def noted_ladder() -> Ladder:
        if not opened:
            raise StoreUnavailable("the store has not been reached since the start: its ladder is not known")
        return opened[-1][1]

    requests = Requests(connect_to_keyspace, address.in_flight, later, now=now)

    def why_no_journals() -> str | None:
        return forgetful(opened[-1][0].on_each_node(SETTINGS_QUERY))

    return CassandraStore(requests, address.row_cache_mib * 1024 * 1024, noted_ladder, why_no_journals)
