"""A keyspace on a real node for the contract's tests, emptied for each, and the ways that it is down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from buckets.errors import StoreUnavailable
from storage.cassandra_schema import TABLES, apply
from storage.cassandra_session import Session, connect
from storage.cassandra_statements import NOW_MS, STATEMENTS
from storage.cassandra_store import CassandraStore
from storage.cassandra_uri import parse
from storage.contract import Store
from tests.cassandra.node import Node

SHORT_S = 0.2


class Keyspace:
    """A keyspace with Clickcurve's tables on a node, and one connection to it."""

    def __init__(self, node: Node, name: str, ladder: str) -> None:
        self.node = node
        self.uri = f"cassandra://{node.address}:{node.port}/{name}"
        self.session = connect(parse(self.uri))
        apply(self.session, ladder, replication=1)
        # Nothing here outlives the node: with a commit log each truncation would write files.
        self.session.define(f"ALTER KEYSPACE {name} WITH durable_writes = false")
        self.session.use(STATEMENTS.values())

    def empty(self) -> None:
        for table in TABLES:
            if table.name != "meta":
                self.session.look_up(f"TRUNCATE {table.name}")

    def answers(self) -> bool:
        try:
            return len(self.session.run(NOW_MS)) == 1
        except StoreUnavailable:
            return False

    def close(self) -> None:
        self.session.close()


class CassandraFactory:
    """Stores with a cache of their own each, over one connection."""

    def __init__(self, keyspace: Keyspace) -> None:
        self.keyspace = keyspace
        keyspace.empty()

    def __call__(self) -> Store:
        return CassandraStore(_Shared(self.keyspace.session))

    def close(self) -> None:
        """The keyspace's connection stays."""


class _Shared:
    """A connection that others use as well: closing it closes nothing."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def close(self) -> None:
        pass


@contextmanager
def suspended(factory: object) -> Iterator[None]:
    """The node stands still: it takes requests and answers none."""
    assert isinstance(factory, CassandraFactory)
    keyspace = factory.keyspace
    profiles = keyspace.session._cluster.profile_manager.profiles.values()
    before = [(profile, profile.request_timeout) for profile in profiles]
    for profile in profiles:
        profile.request_timeout = SHORT_S
    keyspace.node.suspend()
    try:
        yield
    finally:
        keyspace.node.resume()
        for profile, timeout_s in before:
            profile.request_timeout = timeout_s
        keyspace.node.until(keyspace.answers)
