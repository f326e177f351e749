"""A connection to a Cassandra cluster: the one file that knows the driver.

`_profiles` says how each kind of statement is run. The driver repeats requests within their time: it asks another node
after an error, and also when the first one has not answered after a quarter of the time. A conditional update is sent
once, whatever happens, and the next one to another node.

The driver starts threads and opens sockets, so a connection is made in the process that uses it, never before a fork.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, repeat
from threading import Lock, Thread
from typing import Any

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    InvalidRequest,
    OperationTimedOut,
    ProtocolVersion,
    Unauthorized,
    Unavailable,
    UnresolvableContactPoints,
)
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    ExecutionProfile,
    NoHostAvailable,
    ResponseFuture,
    ResultSet,
)
from cassandra.policies import (
    ConstantSpeculativeExecutionPolicy,
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    LoadBalancingPolicy,
    ReconnectionPolicy,
    RetryPolicy,
    RoundRobinPolicy,
    TokenAwarePolicy,
)
from cassandra.query import BatchStatement, BatchType, BoundStatement, PreparedStatement, SimpleStatement, tuple_factory

from clickcurve.buckets.errors import ClickcurveError, SettingInvalid, StoreMismatch, StoreUnavailable
from storage.cassandra.cql import Rows, Statement, StatementKind, Values
from storage.cassandra.requests import Counters, Requests
from storage.cassandra.uri import Address

ATTEMPTS = 3  # of a read or write that ends with an error
HEDGES = 2  # more nodes that are asked while the first ones do not answer
# Pauses before the attempts to reach a node again; the last one is repeated. After a connection that was reset the
# first attempt succeeds, and until then the node is not asked.
RECONNECT_S = (0.1, 0.4, 1.0)
HEARTBEAT_S = 5  # a node that hangs is noticed after this and the time of a request
DEFINE_S = 60.0  # for a change of the schema, to which all nodes must agree
CLOSE_WITHIN_S = 5.0

_REQUESTS, _RETRIES, _UNKNOWN = "store_requests_total", "store_retries_total", "store_unknown_total"
_DEFINE = "define"
_MISSING = re.compile("does not exist|unconfigured table")


class Session:
    """A connection, made by `connect`. Implements `Cql` and, for the schema's commands, `Administered`."""

    def __init__(self, address: Address, cluster: Cluster, counters: Counters) -> None:
        self.address = address
        self._cluster = cluster
        self._session = cluster.connect()
        self._session.use_client_timestamp = False  # stamps are pinned, or are the cluster's
        self._counters = counters
        self._requests = Requests(self, address.in_flight, counters)
        self._preparing = Lock()
        self._prepared: dict[Statement, PreparedStatement] = {}

    # --- what the store uses --------------------------------------------------------------------------------------
    def run(self, statement: Statement, values: Values = ()) -> Rows:
        return self.run_each(statement, [values])[0]

    def run_each(self, statement: Statement, many: Sequence[Values]) -> list[Rows]:
        return self._requests.run_each(statement, many)

    def pages(self, statement: Statement, values: Values, size: int) -> Iterator[Rows]:
        return self._requests.pages(statement, values, size)

    def apply_if(self, statement: Statement, values: Values) -> bool | None:
        return self.apply_each_if(statement, [values])[0]

    def apply_each_if(self, statement: Statement, many: Sequence[Values]) -> list[bool | None]:
        return self._requests.apply_each_if(statement, many)

    async def ask(self, statement: Statement, values: Values = ()) -> Rows:
        return await self._requests.ask(statement, values)

    def measures(self) -> dict[str, float]:
        return self._counters.numbers()

    def close(self) -> None:
        """Closes within seconds, even if the driver hangs: then it is left to a thread that keeps no process alive."""
        closing = Thread(target=self._shut_down, daemon=True)
        closing.start()
        closing.join(CLOSE_WITHIN_S)

    def _shut_down(self) -> None:
        with suppress(Exception):  # nobody can do anything about it
            self._cluster.shutdown()

    # --- what needs the driver ---------------------------------------------------------------------------------
    def send(self, statement: Statement, values: Values, size: int | None, state: bytes | None) -> ResponseFuture:
        prepared = self._prepare(statement)
        if statement.of_several:
            keys = values[0]
            assert isinstance(keys, list)
            bound = BoundStatement(prepared, routing_key=keys[0].encode()).bind(values)
        elif statement.kind is not StatementKind.WRITE or not (statement.partition or statement.key is not None):
            bound = prepared.bind(values)
        elif len(values) == 1:
            bound = prepared.bind(values[0])
        else:  # it goes to the node of its first write. To one partition it is atomic; else each row is, by itself
            bound = BatchStatement(BatchType.UNLOGGED)
            bound.is_idempotent = prepared.is_idempotent
            bound.add_all([prepared] * len(values), values)
        if size is not None:
            bound.fetch_size = size
        return self._session.execute_async(bound, execution_profile=statement.kind, paging_state=state)

    def _prepare(self, statement: Statement) -> PreparedStatement:
        prepared = self._prepared.get(statement)
        if prepared is None:
            with self._preparing:
                text = statement.text_in(self.address.keyspace)
                prepared = self._prepared.get(statement) or self._session.prepare(text)
                prepared.is_idempotent = statement.kind is not StatementKind.CONDITION
                if statement.of_several:
                    prepared.routing_key_indexes = [0]  # a list has none, and then the driver drops the one it is given
                self._prepared[statement] = prepared
        return prepared

    def first_replica(self, key: str) -> Hashable:
        replicas = self._cluster.metadata.get_replicas(self.address.keyspace, key.encode())
        near = [host for host in replicas if host.datacenter == self.address.dc] if self.address.dc else replicas
        return near[0].address if near else None

    def state_after(self, pending: ResponseFuture) -> bytes | None:
        return ResultSet(pending, []).paging_state  # type: ignore[no-any-return]

    def as_store_error(self, error: Exception) -> ClickcurveError:
        return as_store_error(error, self.address)

    def is_certain(self, error: Exception) -> bool:
        """Returns whether a node refused before it began anything."""
        return isinstance(error, Unavailable | InvalidRequest | Unauthorized)

    # --- schema -----------------------------------------------------------------------------------------------------
    def use(self, statements: Iterable[Statement]) -> None:
        """Prepares these statements, so that `ask` never blocks."""
        try:
            for statement in statements:
                self._prepare(statement)
        except Exception as error:
            raise self.as_store_error(error) from error

    def define(self, text: str) -> None:
        """Changes the schema; returns when all nodes agree. Raises StoreUnavailable."""
        try:
            pending = self._session.execute_async(SimpleStatement(text), execution_profile=_DEFINE)
            pending.result()
        except Exception as error:
            raise self.as_store_error(error) from error
        if not pending.is_schema_agreed:
            raise StoreUnavailable("the cluster's nodes do not agree on the schema yet; check that all of them run")

    def look_up(self, text: str) -> Rows:
        """Returns the rows of a query that is asked once. Raises StoreUnavailable."""
        return self._look_up(text, None)

    def on_each_node(self, text: str) -> dict[str, Rows]:
        """Returns what each node that answers returns for itself, by its address."""
        found: dict[str, Rows] = {}
        for host in self._cluster.metadata.all_hosts():
            if self._session.get_pool_state().get(host) is not None:
                try:
                    found[host.address] = self._look_up(text, host)
                except StoreUnavailable:
                    continue
        return found

    def _look_up(self, text: str, host: Any) -> Rows:
        try:
            return list(self._session.execute(SimpleStatement(text), execution_profile=StatementKind.READ, host=host))
        except Exception as error:
            raise self.as_store_error(error) from error

    def data_centres(self) -> dict[str, int]:
        """Returns how many nodes each data centre has."""
        nodes: dict[str, int] = {}
        for host in self._cluster.metadata.all_hosts():
            nodes[host.datacenter] = nodes.get(host.datacenter, 0) + 1
        return nodes


def connect(address: Address) -> Session:
    """Connects to the cluster; blocks for seconds if nodes do not answer.

    Raises StoreUnavailable, StoreMismatch (the cluster refuses the user, or has no such data centre), SettingInvalid (a
    file that the address names cannot be read).
    """
    _quieten_driver()
    counters = Counters(_REQUESTS, _RETRIES, _UNKNOWN)
    try:
        cluster = _cluster(address, counters)
    except UnresolvableContactPoints as error:
        raise StoreUnavailable(f"none of the cluster's hosts is known: {', '.join(address.hosts)}") from error
    try:
        return Session(address, cluster, counters)
    except Exception as error:
        centres = {host.datacenter for host in cluster.metadata.all_hosts()} - {None}
        cluster.shutdown()
        if centres and address.dc is not None and address.dc not in centres:
            known = ", ".join(sorted(centres))
            raise StoreMismatch(
                f"the cluster has no data centre {address.dc} (dc in the address), but {known}"
            ) from error
        raise as_store_error(error, address) from error


def _cluster(address: Address, counters: Counters) -> Cluster:
    cluster = Cluster(
        address.hosts,
        port=address.port,
        execution_profiles=_profiles(address, counters),
        auth_provider=_credentials(address),
        ssl_context=_tls_context(address),
        compression=False,  # rows are packed
        connect_timeout=address.timeout_s,
        control_connection_timeout=address.timeout_s,
        reconnection_policy=_Reconnections(),
        idle_heartbeat_interval=HEARTBEAT_S,
        idle_heartbeat_timeout=address.timeout_s,
        # A node keeps prepared statements. Preparing them again kept a node that came back out of use for up to 5 s.
        reprepare_on_up=False,
        monitor_reporting_enabled=False,
    )
    cluster.protocol_version = ProtocolVersion.V5  # set here, not in the call, it falls back for an older cluster
    return cluster


def _profiles(address: Address, counters: Counters) -> dict[object, ExecutionProfile]:
    def in_turn() -> LoadBalancingPolicy:
        # Without dc every node is asked: the other policy would ask only those of the first node's data centre, and
        # find none when that is lost, though the others still have a quorum.
        return DCAwareRoundRobinPolicy(address.dc) if address.dc else RoundRobinPolicy()

    quorum, serial = ConsistencyLevel.QUORUM, ConsistencyLevel.SERIAL
    if address.dc:
        quorum, serial = ConsistencyLevel.LOCAL_QUORUM, ConsistencyLevel.LOCAL_SERIAL
    again = _Retries(lambda: counters.add(_RETRIES))
    hedge = ConstantSpeculativeExecutionPolicy(address.timeout_s / 4, HEDGES)

    def profile(level: int, nodes: LoadBalancingPolicy | None = None, **more: Any) -> ExecutionProfile:
        options = {"request_timeout": address.timeout_s, "retry_policy": again, **more}
        policy = nodes or TokenAwarePolicy(in_turn())
        return ExecutionProfile(policy, consistency_level=level, row_factory=tuple_factory, **options)

    return {
        EXEC_PROFILE_DEFAULT: profile(quorum),
        StatementKind.READ: profile(quorum, speculative_execution_policy=hedge),
        StatementKind.WRITE: profile(quorum, speculative_execution_policy=hedge),
        # Sent once, so each goes to the next node in turn: the first replica, always asked first, may hang. Half the
        # time is enough: a node gives up after two seconds, and a serial read decides what has no answer.
        StatementKind.CONDITION: profile(
            quorum,
            in_turn(),
            serial_consistency_level=serial,
            retry_policy=FallthroughRetryPolicy(),
            request_timeout=address.timeout_s / 2,
        ),
        StatementKind.SERIAL_READ: profile(serial, speculative_execution_policy=hedge),
        _DEFINE: profile(quorum, retry_policy=FallthroughRetryPolicy(), request_timeout=DEFINE_S),
    }


class _Reconnections(ReconnectionPolicy):  # type: ignore[misc]
    def new_schedule(self) -> Iterator[float]:
        return chain(RECONNECT_S, repeat(RECONNECT_S[-1]))


class _Retries(RetryPolicy):  # type: ignore[misc]
    """Tries again a few times: at the same node if it took too long, at another one if it could not answer."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count

    def _again(self, how: int, retry_num: int) -> tuple[int, None]:
        if retry_num >= ATTEMPTS - 1:
            return self.RETHROW, None
        self._count()
        return how, None

    def on_read_timeout(self, *args: object, retry_num: int, **info: object) -> tuple[int, None]:
        return self._again(self.RETRY, retry_num)

    def on_write_timeout(self, *args: object, retry_num: int, **info: object) -> tuple[int, None]:
        return self._again(self.RETRY, retry_num)

    def on_unavailable(self, *args: object, retry_num: int, **info: object) -> tuple[int, None]:
        return self._again(self.RETRY_NEXT_HOST, retry_num)

    def on_request_error(self, *args: object, retry_num: int, **info: object) -> tuple[int, None]:
        return self._again(self.RETRY_NEXT_HOST, retry_num)


def _credentials(address: Address) -> PlainTextAuthProvider | None:
    if address.user is None or address.password_file is None:
        return None
    try:
        password = address.password_file.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable("password_file", address.password_file, error) from error
    return PlainTextAuthProvider(address.user, password)


def _tls_context(address: Address) -> ssl.SSLContext | None:
    if address.tls is None:
        return None
    try:
        context = ssl.create_default_context(cafile=address.ca)
        context.check_hostname = address.tls == "names"
        if address.cert is not None:
            context.load_cert_chain(address.cert, address.key)
    except (OSError, ssl.SSLError) as error:
        raise _unreadable("ca, cert or key", address.ca or address.cert, error) from error
    return context


def _unreadable(name: str, path: object, error: Exception) -> SettingInvalid:
    return SettingInvalid(f"{name} in the store's address cannot be read: {path}: {error}", field="store")


def as_store_error(error: Exception, address: Address) -> ClickcurveError:
    """Returns what to raise for an error of the driver: StoreMismatch only for what waiting does not mend."""
    by_host = error.errors if isinstance(error, NoHostAvailable) and isinstance(error.errors, dict) else {}
    for cause in (error, *by_host.values()):
        if isinstance(cause, AuthenticationFailed | Unauthorized):
            return StoreMismatch(f"the cluster refuses the user of the store's address: {_first_line(cause)}")
        if isinstance(cause, InvalidRequest) and _MISSING.search(str(cause)):
            return StoreMismatch(
                f"keyspace {address.keyspace} is not made for Clickcurve ({_first_line(cause)}):"
                f" run `clickcurve schema apply --store {address.uri}`"
            )
    if isinstance(error, OperationTimedOut):
        return StoreUnavailable(f"Cassandra gave no answer within {address.timeout_s:g} s")
    for where, cause in by_host.items():
        return StoreUnavailable(f"no node of the cluster can be asked; {where}: {_first_line(cause)}")
    if isinstance(error, NoHostAvailable):
        return StoreUnavailable("no node of the cluster can be asked: none of those that are known is up")
    return StoreUnavailable(f"Cassandra: {_first_line(error)}")


def _first_line(error: object) -> str:
    text = str(error).strip().partition("\n")[0]
    return text if text.startswith("Error from server") else f"{type(error).__name__}: {text}"


def _quieten_driver() -> None:
    """Silences the driver's log: each failed connection once a second, which the store's errors report already."""
    logger = logging.getLogger("cassandra")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
