"""The connection itself: what it sends to the driver, what its errors become, and what happens when a node fails."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    InvalidRequest,
    OperationTimedOut,
    Unauthorized,
    Unavailable,
    WriteTimeout,
    WriteType,
)
from cassandra.cluster import NoHostAvailable
from cassandra.policies import FallthroughRetryPolicy, NoSpeculativeExecutionPolicy, RetryPolicy
from cassandra.protocol import ErrorMessage

from clickcurve.buckets.errors import SettingInvalid, StoreMismatch, StoreUnavailable
from storage.cassandra.cql import StatementKind
from storage.cassandra.nodes import ATTEMPTS, profiles
from storage.cassandra.requests import Requests
from storage.cassandra.schema import TABLES
from storage.cassandra.session import Session, as_store_error, connect
from storage.cassandra.statements import (
    ADD_TOUCHED,
    CLAIMED,
    CREATE_OWNER,
    LINK,
    NOW_MS,
    SAVE,
    STATEMENTS,
    TOUCHED,
)
from storage.cassandra.store import CassandraStore
from storage.cassandra.uri import parse
from storage.contract import Held, Source, StoredRow
from testing.cassandra.node import Node
from testing.server import free_port
from tests.cassandra.proxy import Proxy, conditional
from tests.storage.cassandra.cassandra_kit import Keyspace
from tests.storage.stores import in_flush, record, rows, saved

ADDRESS = parse("cassandra://h1,h2/clicks?timeout_s=2")
HELD = Held(1, 1, "h1")


@contextmanager
def connected(uri: str) -> Iterator[Requests]:
    address = parse(uri)

    def connect_and_prepare() -> Session:
        session = connect(address)
        session.use(STATEMENTS.values())
        return session

    with closing(Requests(connect_and_prepare, address.in_flight)) as cql:
        yield cql


@pytest.fixture
def emptied(cassandra_keyspace: Keyspace) -> Keyspace:
    cassandra_keyspace.empty()
    return cassandra_keyspace


@pytest.fixture
def proxied(emptied: Keyspace) -> Iterator[tuple[Requests, Proxy]]:
    """A connection whose requests time out soon, through a proxy that loses answers when it has to."""
    node = emptied.node
    with Proxy((node.address, node.port)) as proxy:
        name = emptied.uri.rpartition("/")[2]
        with connected(f"cassandra://127.0.0.1:{proxy.port}/{name}?timeout_s=0.7") as cql:
            yield cql, proxy


# --- what it sends to the driver --------------------------------------------------------------------------------------
def test_levels_are_quorum_and_serial_or_the_local_ones_with_a_data_centre() -> None:
    levels = ConsistencyLevel
    for query, quorum, serial in (
        ("", levels.QUORUM, levels.SERIAL),
        ("?dc=DC1", levels.LOCAL_QUORUM, levels.LOCAL_SERIAL),
    ):
        found = profiles(parse(f"cassandra://h1/clicks{query}"), lambda: None, set())
        for kind in (StatementKind.READ, StatementKind.WRITE, StatementKind.CONDITION):
            assert found[kind].consistency_level == quorum
        assert found[StatementKind.CONDITION].serial_consistency_level == serial
        assert found[StatementKind.SERIAL_READ].consistency_level == serial


@pytest.mark.parametrize(("length", "requests"), [(1_024, 4), (160, 1), (3, 1)])
def test_small_writes_to_one_partition_go_together(emptied: Keyspace, length: int, requests: int) -> None:
    """Up to 200 and 32 KiB: the largest request is still one that the node takes."""
    cql = emptied.cql
    keys = [f"{number:0{length}}" for number in range(100 if requests > 1 else 200)]
    before = cql.measures()["store_requests_total"]
    cql.run_each(ADD_TOUCHED, [(day, 1, key) for key in keys for day in (7, 8)])
    assert cql.measures()["store_requests_total"] - before == 2 * requests
    for day in (7, 8):
        assert [key for (key,) in cql.run(TOUCHED, (day, 1, "", 1_000))] == keys


def test_each_statement_names_its_keyspace_for_a_node_may_take_another_one_instead(emptied: Keyspace) -> None:
    keyspace = emptied.session.address.keyspace
    prepared = {text for (text,) in emptied.session.look_up("SELECT query_string FROM system.prepared_statements")}
    for statement in STATEMENTS.values():
        assert statement.text_in(keyspace) in prepared
        (table,) = re.findall(r"\b(?:FROM|INTO|UPDATE) (\S+)", statement.text_in(keyspace))
        assert table == "system.local" or table.removeprefix(f"{keyspace}.") in {each.name for each in TABLES}


def test_a_conditional_update_is_sent_once(emptied: Keyspace) -> None:
    profile = profiles(ADDRESS, lambda: None, set())[StatementKind.CONDITION]
    assert isinstance(profile.retry_policy, FallthroughRetryPolicy)
    assert isinstance(profile.speculative_execution_policy, NoSpeculativeExecutionPolicy)
    prepared = emptied.session._prepared
    assert {statement.name for statement in prepared} >= STATEMENTS.keys()
    for statement, kept in prepared.items():
        assert kept.is_idempotent is (statement.kind is not StatementKind.CONDITION)


def test_retries_are_counted_and_bounded_and_within_one_time() -> None:
    counted: list[None] = []
    profile = profiles(ADDRESS, lambda: counted.append(None), set())[StatementKind.WRITE]
    assert profile.request_timeout == 2
    policy = profile.retry_policy
    ask: list[Callable[[int], tuple[int, object]]] = [
        lambda n: policy.on_read_timeout(
            None, retry_num=n, consistency=4, required_responses=2, received_responses=1, data_retrieved=False
        ),
        lambda n: policy.on_write_timeout(
            None, retry_num=n, consistency=4, write_type=0, required_responses=2, received_responses=1
        ),
        lambda n: policy.on_unavailable(None, retry_num=n, consistency=4, required_replicas=2, alive_replicas=1),
        lambda n: policy.on_request_error(None, 4, error=OSError(), retry_num=n),
    ]
    for each in ask:
        decided = [each(n)[0] for n in range(ATTEMPTS)]
        assert decided[-1] == RetryPolicy.RETHROW
        assert RetryPolicy.RETHROW not in decided[:-1]
    assert len(counted) == (ATTEMPTS - 1) * len(ask)


# --- what its errors become -------------------------------------------------------------------------------------------
def no_host(cause: Exception) -> NoHostAvailable:
    return NoHostAvailable("Unable to connect to any servers", {"127.0.0.1:9042": cause})


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OperationTimedOut({}, "h1"), "Cassandra gave no answer within 2 s"),
        (
            no_host(ConnectionRefusedError(111, "refused")),
            "no node of the cluster can be asked; 127.0.0.1:9042: Connec",
        ),
        (NoHostAvailable("Unable to connect to any servers", ["h1"]), "none of those that are known is up"),
        (NoHostAvailable("Unable to complete", {}), "none of those that are known is up"),
        (Unavailable("Error from server: code=1000\nmore"), "Cassandra: Error from server: code=1000"),
        (WriteTimeout("Error from server: code=1100", WriteType.CAS), "code=1100"),
        (ErrorMessage(0x1700, "CAS operation result is unknown", None), "CAS operation result is unknown"),
        (RuntimeError("cannot schedule new futures after shutdown"), "RuntimeError: cannot schedule"),
        (InvalidRequest("Error from server: code=2200 message=too large"), "too large"),
    ],
)
def test_errors_are_reported_in_one_line(error: Exception, sentence: str) -> None:
    said = as_store_error(error, ADDRESS)
    assert isinstance(said, StoreUnavailable)
    assert sentence in said.detail
    assert "\n" not in said.detail


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (InvalidRequest("Keyspace 'clicks' does not exist"), "run `clickcurve schema apply --store cassandra://h1,h2/"),
        (InvalidRequest("table rows does not exist"), "run `clickcurve schema apply"),
        (InvalidRequest("unconfigured table rows"), "run `clickcurve schema apply"),
        (no_host(AuthenticationFailed("Bad credentials")), "the cluster refuses the user"),
        (AuthenticationFailed("Bad credentials"), "the cluster refuses the user"),
        (Unauthorized("User u has no SELECT permission"), "the cluster refuses the user"),
    ],
)
def test_what_waiting_does_not_mend_is_a_mismatch_that_says_what_does(error: Exception, sentence: str) -> None:
    said = as_store_error(error, ADDRESS)
    assert isinstance(said, StoreMismatch)
    assert sentence in said.detail


@pytest.mark.parametrize(
    ("error", "certain"),
    [
        (Unavailable(""), True),
        (InvalidRequest(""), True),
        (WriteTimeout("", WriteType.CAS), False),
        (WriteTimeout("", WriteType.SIMPLE), False),
        (ErrorMessage(0x1700, "", None), False),
        (OperationTimedOut(), False),
        (no_host(OSError()), False),
        (OSError(), False),
    ],
)
def test_only_what_was_refused_before_it_began_is_certain(emptied: Keyspace, error: Exception, certain: bool) -> None:
    assert emptied.session.is_certain(error) is certain


# --- connecting -------------------------------------------------------------------------------------------------------
def test_a_connection_that_fails_leaves_nothing_behind(one_node: Node) -> None:
    node = f"{one_node.address}:{one_node.port}"
    for uri, error, sentence in (
        (f"cassandra://127.0.0.1:{free_port()}/clicks", StoreUnavailable, "no node of the cluster can be asked"),
        ("cassandra://no-such-host.example/clicks", StoreUnavailable, "no host name of the cluster can be resolved"),
        (f"cassandra://{node}/clicks?dc=nowhere", StoreMismatch, "has no data centre nowhere (dc in the address), but"),
        (f"cassandra://{node}/clicks?tls=1&timeout_s=2", StoreUnavailable, "no node of the cluster can be asked"),
    ):
        before = set(threading.enumerate())
        with pytest.raises(error) as refused:
            connect(parse(uri))
        assert sentence in refused.value.detail
        for thread in set(threading.enumerate()) - before:
            thread.join(600)
            assert not thread.is_alive()


def test_a_request_of_several_pieces_is_sent_at_once(emptied: Keyspace) -> None:
    """The driver sends pieces of 4 KiB, and by default a kernel keeps the second until the first was acknowledged."""
    connections = [each for pool in emptied.session._session.get_pools() for each in pool.get_connections()]
    assert connections
    assert all(each._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in connections)


def test_files_that_the_address_names_must_be_readable(tmp_path: Path) -> None:
    (tmp_path / "no-certificate").write_text("nothing")
    for query in (
        f"user=u&password_file={tmp_path}/missing",
        f"tls=1&ca={tmp_path}/missing",
        f"tls=1&ca={tmp_path}/no-certificate",
        f"tls=1&cert={tmp_path}/no-certificate&key={tmp_path}/no-certificate",
    ):
        with pytest.raises(SettingInvalid, match="in the store's address cannot be read"):
            connect(parse(f"cassandra://127.0.0.1:{free_port()}/clicks?{query}"))


def test_the_driver_keeps_quiet(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(StoreUnavailable):
        connect(parse(f"cassandra://127.0.0.1:{free_port()}/clicks"))
    assert [each for each in caplog.records if each.name.startswith("cassandra")] == []


def test_after_it_was_closed_everything_is_unavailable(emptied: Keyspace) -> None:
    with connected(emptied.uri) as cql:
        assert len(cql.run(NOW_MS)) == 1
        cql.close()
        with pytest.raises(StoreUnavailable):
            cql.run(NOW_MS)
        with pytest.raises(StoreUnavailable):
            asyncio.run(cql.ask(LINK, ("a",)))
        assert cql.apply_if(CREATE_OWNER, (1, 1, "", "", "", "", 0, 0)) is None
        cql.close()


# --- a node that fails ------------------------------------------------------------------------------------------------
def test_a_node_that_stands_still_costs_the_time_of_a_request_and_no_more(emptied: Keyspace, one_node: Node) -> None:
    with connected(f"{emptied.uri}?timeout_s=0.5&in_flight=8") as cql:
        one_node.suspend()
        try:
            with pytest.raises(StoreUnavailable, match="no answer within"):
                cql.run_each(SAVE, [(1, b"row", f"key-{n}", 1) for n in range(100)])

            async def ask() -> list[object]:
                asking = [cql.ask(LINK, (f"key-{n}",)) for n in range(8)]
                return [*await asyncio.gather(*asking, return_exceptions=True)]

            assert all(isinstance(said, StoreUnavailable) for said in asyncio.run(ask()))
            assert cql.apply_if(CREATE_OWNER, (1, 1, "", "", "", "", 0, 0)) is None
        finally:
            one_node.resume()
        one_node.until(lambda: _answers(cql))
        assert cql.run_each(LINK, [(f"key-{n}",) for n in range(100, 200)]) == [[]] * 100


def _answers(cql: Requests) -> bool:
    try:
        return len(cql.run(NOW_MS)) == 1
    except StoreUnavailable:
        return False


async def test_a_cancelled_request_leaves_the_connection_usable(emptied: Keyspace) -> None:
    node = emptied.node
    name = emptied.uri.rpartition("/")[2]
    with (
        Proxy((node.address, node.port)) as proxy,
        connected(f"cassandra://127.0.0.1:{proxy.port}/{name}?timeout_s=30") as cql,
    ):
        assert await cql.ask(LINK, ("a",)) == []
        proxy.stall(0.5)
        asking = [asyncio.ensure_future(cql.ask(LINK, (f"key-{n}",))) for n in range(200)]
        for _ in range(10):
            await asyncio.sleep(0)  # many are sent by now, the others wait for their turn
        for each in asking[::2]:
            each.cancel()
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert [isinstance(answer, asyncio.CancelledError) for answer in answers] == [True, False] * 100
        assert answers[1::2] == [[]] * 100
        assert await cql.ask(LINK, ("a",)) == []


def test_changes_whose_answers_are_lost_are_found_done(proxied: tuple[Requests, Proxy]) -> None:
    cql, proxy = proxied
    store = CassandraStore(cql)
    proxy.drop(conditional)
    assert store.create_owner(record())
    assert store.begin(HELD, 0, 1, 5)
    assert store.claim_source("log", HELD, None)
    assert store.claim_ids(HELD, 1, {f"id-{n}": 100 for n in range(20)}, 50) == set()
    store.save_own(HELD, 1, saved("a"), {"log": Source(1, 9, "tail")})
    assert store.source("log") == Source(1, 9, "tail", 1)
    assert store.claim(record(begun=1), record(epoch=2, holder="h2", begun=1))
    assert store.close_owner(Held(1, 2, "h2"))
    assert proxy.counts.dropped_conditional == 26
    assert cql.measures()["store_unknown_total"] == 26


def test_a_connection_that_is_reset_in_the_middle_is_an_unknown_outcome(proxied: tuple[Requests, Proxy]) -> None:
    cql, proxy = proxied
    store = CassandraStore(cql)
    proxy.reset(conditional)
    for _ in range(3):  # the answer is lost, and so is the connection: nobody can say now how it came out
        try:
            created = store.create_owner(record())
        except StoreUnavailable:
            continue
        assert created
    proxy.heal()
    proxy.until(lambda counts: _answers(cql))
    assert store.create_owner(record())
    assert store.owner(1) == record()


def test_a_row_whose_answer_was_lost_is_stored_once_it_was_tried_again(
    emptied: Keyspace, proxied: tuple[Requests, Proxy]
) -> None:
    cql, proxy = proxied
    store = CassandraStore(cql)
    held = in_flush(store)
    proxy.drop(lambda text: SAVE.text_in(emptied.session.address.keyspace) in text)
    with pytest.raises(StoreUnavailable):
        store.save_own(held, 1, saved("a", "b"), {})
    proxy.heal()
    store.save_own(held, 1, saved("a", "b"), {})
    assert rows(store, "b").rows == (StoredRow(1, b"row"),)


def test_a_list_that_does_not_come_whole_is_no_list(emptied: Keyspace, proxied: tuple[Requests, Proxy]) -> None:
    cql, proxy = proxied
    store = CassandraStore(cql)
    proxy.drop(lambda text: text == CLAIMED.text_in(emptied.session.address.keyspace))
    with pytest.raises(StoreUnavailable):
        asyncio.run(store.claimed([f"id-{n}" for n in range(500)], 0))
    proxy.heal()
    assert asyncio.run(store.claimed([f"id-{n}" for n in range(500)], 0)) == set()
