"""The proxy loses exactly the answers that it is told to lose, and what they answer has happened."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cassandra import OperationTimedOut
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.connection import ConnectionShutdown
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy
from cassandra.query import BatchStatement

from testing.cassandra import question
from testing.cassandra.node import Node
from testing.cassandra.ring import Ring, is_free
from tests.cassandra.proxy import Counts, Proxy, conditional

PATIENCE_S = 300.0  # on a machine that does other work too
LOST_AFTER_S = 0.3  # where no answer is to come
VERSIONS = pytest.mark.parametrize("version", [4, 5])


@pytest.fixture
def table(one_node: Node, keyspace: str) -> str:
    """A table in a keyspace of its own."""
    Ring([one_node]).define(
        f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}}",
        f"CREATE TABLE {keyspace}.kept (key int PRIMARY KEY, data blob)",
    )
    return f"{keyspace}.kept"


@pytest.fixture
def proxy(one_node: Node) -> Iterator[Proxy]:
    with Proxy((one_node.address, one_node.port)) as proxy:
        yield proxy


@contextmanager
def session(proxy: Proxy, version: int) -> Iterator[Any]:
    """A driver's session that tries nothing twice."""
    profile = ExecutionProfile(RoundRobinPolicy(), FallthroughRetryPolicy(), request_timeout=PATIENCE_S)
    cluster = Cluster(
        [proxy.address],
        proxy.port,
        protocol_version=version,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=PATIENCE_S,
        control_connection_timeout=PATIENCE_S,
    )
    try:
        yield cluster.connect()
    finally:
        cluster.shutdown()


def lose(cql: Any, proxy: Proxy, statement: Any, values: Any = None) -> None:
    """Run a statement whose answer is dropped; returns when the node has done it."""
    before = proxy.counts.dropped
    with pytest.raises(OperationTimedOut):
        cql.execute(statement, values, timeout=LOST_AFTER_S)
    proxy.until(lambda counts: counts.dropped == before + 1)
    assert proxy.counts.dropped_errors == 0


def keys(node: Node, table: str) -> set[int]:
    return {int.from_bytes(row[0] or b"") for row in node.ask(f"SELECT key FROM {table}")}


@VERSIONS
def test_what_is_dropped_has_happened_and_all_else_is_answered(
    one_node: Node, proxy: Proxy, table: str, version: int
) -> None:
    asked = itertools.count()
    with session(proxy, version) as cql:
        write = cql.prepare(f"INSERT INTO {table} (key, data) VALUES (?, 0x00)")
        proxy.drop(lambda text: "INSERT" in text and next(asked) % 3 == 0)
        sent = [cql.execute_async(write, [key], timeout=3.0) for key in range(300)]
        lost = {key for key, answer in enumerate(sent) if not is_answered(answer)}
        proxy.heal()
        assert cql.execute(f"SELECT count(*) FROM {table}").one()[0] == 300
    assert len(lost) == 100
    assert keys(one_node, table) == set(range(300))
    assert proxy.counts.dropped == 100
    assert proxy.counts.dropped_conditional == 0
    assert proxy.counts.unknown == 0


def is_answered(answer: Any) -> bool:
    try:
        answer.result()
    except OperationTimedOut:
        return False
    return True


@VERSIONS
def test_dropped_answers_of_conditional_updates_are_counted_apart(proxy: Proxy, table: str, version: int) -> None:
    with session(proxy, version) as cql:
        claim = cql.prepare(f"INSERT INTO {table} (key, data) VALUES (?, 0x00)\n  IF NOT EXISTS")
        proxy.drop(conditional)
        lose(cql, proxy, claim, [1])
        lose(cql, proxy, f"UPDATE {table} SET data = 0x01 WHERE key = 1 IF data = 0x00")
        lose(cql, proxy, BatchStatement().add(claim, [2]))
        cql.execute(f"UPDATE {table} SET data = 0x02 WHERE key = 3")
        assert {row.key: row.data for row in cql.execute(f"SELECT * FROM {table}")} == {1: b"\1", 2: b"\0", 3: b"\2"}
    assert (proxy.counts.dropped, proxy.counts.dropped_conditional) == (3, 3)


@VERSIONS
def test_a_reset_connection_fails_at_once_and_what_was_sent_happens(
    one_node: Node, proxy: Proxy, table: str, version: int
) -> None:
    with session(proxy, version) as cql:
        write = cql.prepare(f"INSERT INTO {table} (key, data) VALUES (?, 0x00)")
        proxy.reset(lambda text: "INSERT" in text)
        begun = time.monotonic()
        with pytest.raises((ConnectionShutdown, NoHostAvailable)):
            cql.execute(write, [1])
        assert time.monotonic() - begun < PATIENCE_S / 2
        proxy.heal()
        one_node.until(lambda: keys(one_node, table) == {1})
        one_node.until(lambda: works(lambda: cql.execute(write, [2])))  # the driver connects again by itself
    assert proxy.counts.resets == 1
    assert proxy.counts.dropped == 0


def works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (NoHostAvailable, ConnectionShutdown, OperationTimedOut):
        return False
    return True


def test_answers_are_late_while_it_stalls(proxy: Proxy) -> None:
    question.ask(proxy.address, proxy.port, "SELECT key FROM system.local")
    proxy.stall(0.4)
    proxy.until(lambda counts: counts.stalls == 1)
    begun = time.monotonic()
    question.ask(proxy.address, proxy.port, "SELECT key FROM system.local")
    assert time.monotonic() - begun > 0.2
    assert proxy.counts.dropped == 0


@VERSIONS
def test_large_values_pass_whole_beside_dropped_ones(proxy: Proxy, table: str, version: int) -> None:
    large = bytes(range(256)) * 4000  # a megabyte, in eight segments
    with session(proxy, version) as cql:
        write = cql.prepare(f"INSERT INTO {table} (key, data) VALUES (?, ?)")
        read = cql.prepare(f"SELECT data FROM {table} WHERE key = ?")
        cql.execute(write, [1, large])
        assert cql.execute(read, [1]).one().data == large
        proxy.drop(lambda text: "SELECT data" in text)
        lose(cql, proxy, read, [1])
        proxy.heal()
        assert cql.execute(read, [1]).one().data == large


def test_a_node_that_died_refuses_connections_and_is_found_again(breakable_node: Node, proxy: Proxy) -> None:
    with session(proxy, 5) as cql:
        breakable_node.kill()
        assert not works(lambda: cql.execute("SELECT key FROM system.local"))
        proxy.until(lambda _: is_free(proxy.port, proxy.address))
        breakable_node.heal()
        breakable_node.until(lambda: works(lambda: cql.execute("SELECT key FROM system.local")))


def test_counts_are_a_copy(proxy: Proxy) -> None:
    before = proxy.counts
    question.ask(proxy.address, proxy.port, "SELECT key FROM system.local")
    assert before == Counts()
    assert proxy.counts == Counts(connections=1, requests=2, answers=2)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("UPDATE t SET a = 1 WHERE k = 2 IF a = 0", True),
        ("INSERT INTO t (k) VALUES (1)\nIF NOT EXISTS USING TTL 5", True),
        ("INSERT INTO t (LIF) VALUES (1)", False),
    ],
)
def test_a_conditional_update_is_known_by_its_text(text: str, is_one: bool) -> None:
    assert conditional(text) is is_one
