"""A connection to a Cassandra cluster: this file and `nodes` are the ones that know the driver.

`nodes.profiles` says how each kind of statement is run. The driver repeats requests within their time: it asks another
node after an error, and also when the first one takes long. A conditional update is sent once, whatever happens, and
the next one to another node.

The driver starts threads and opens sockets, so a connection is made in the process that uses it, never before a fork.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from cassandra import (
    AuthenticationFailed,
    InvalidRequest,
    OperationTimedOut,
    ProtocolVersion,
    Unauthorized,
    Unavailable,
    UnresolvableContactPoints,
)
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, ExecutionProfile, NoHostAvailable, ResponseFuture, ResultSet
from cassandra.query import BatchStatement, BatchType, BoundStatement, PreparedStatement, SimpleStatement

from clickcurve.buckets.errors import ClickcurveError, SettingInvalid, StoreMismatch, StoreUnavailable
from storage.cassandra.cql import Rows, Statement, StatementKind
from storage.cassandra.nodes import DEFINE, LATER, Heard, Reconnections, condition_timeout_s, profiles
from storage.cassandra.requests import RETRIES, Counters, Request
from storage.cassandra.uri import Address

HEARTBEAT_S = 5  # a node that hangs is noticed after this and the time of a request
CLOSE_WITHIN_S = 5.0
PREPARE_ATTEMPTS = 3
# A connection to a node that stands still keeps one of them waiting, and so requests that are to be sent again: of the
# driver's two threads such connections took both.
THREADS = 8

_PING = "SELECT key FROM system.local"
_MISSING = re.compile("does not exist|unconfigured table")


class Session:
    """A connection, made by `connect`. Implements `Driver` and, for the schema's commands, `Administered`."""

    def __init__(self, address: Address, cluster: Cluster, counters: Counters, silent: set[Any]) -> None:
        self.address = address
        self._cluster = cluster
        self._heard = Heard(silent, self._ping)
        self._session = cluster.connect()
        self._session.use_client_timestamp = False  # stamps are pinned, or are the cluster's
        self._session._default_timeout = address.timeout_s / 2  # to prepare a statement, for which it has no other way
        self.counters = counters
        self._preparing = Lock()
        self._prepared: dict[Statement, PreparedStatement] = {}

    def close(self) -> None:
        """Closes within seconds, even if the driver hangs: then it is left to a thread that keeps no process alive."""
        closing = Thread(target=self._shut_down, daemon=True)
        closing.start()
        closing.join(CLOSE_WITHIN_S)

    def _shut_down(self) -> None:
        with suppress(Exception):  # nobody can do anything about it
            self._cluster.shutdown()

    # --- requests -----------------------------------------------------------------------------------------------
    def send(self, request: Request) -> ResponseFuture:
        statement, values = request.statement, request.values
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
        if request.size is not None:
            bound.fetch_size = request.size
        timeout_s = self.address.timeout_s
        if statement.kind is StatementKind.CONDITION:
            timeout_s = condition_timeout_s(timeout_s, request.attempt)
        sent = self._session.execute_async(
            bound, timeout=timeout_s, execution_profile=statement.kind, paging_state=request.state
        )
        self._heard.follow(sent)
        return sent

    def _ping(self, node: Any) -> None:
        """Asks a node again and again until it answers, or until the driver reports it down."""

        def failed(error: Exception) -> None:
            if isinstance(error, OperationTimedOut):
                self._ping(node)
            else:
                self._heard.answered(node)

        try:
            asked = self._session.execute_async(_PING, timeout=self.address.timeout_s * LATER, host=node)
        except Exception as error:  # of any kind: the session is shut down
            failed(error)
        else:
            asked.add_callbacks(lambda _: self._heard.answered(node), failed)

    def _prepare(self, statement: Statement) -> PreparedStatement:
        prepared = self._prepared.get(statement)
        if prepared is None:
            with self._preparing:
                text = statement.text_in(self.address.keyspace)
                prepared = self._prepared.get(statement) or self._prepare_text(text)
                prepared.is_idempotent = statement.kind is not StatementKind.CONDITION
                if statement.of_several:
                    prepared.routing_key_indexes = [0]  # a list has none, and then the driver drops the one it is given
                self._prepared[statement] = prepared
        return prepared

    def _prepare_text(self, text: str) -> PreparedStatement:
        """Prepares a statement at a node, at the next one if that does not answer."""
        for attempt in range(1, PREPARE_ATTEMPTS + 1):
            try:
                return self._session.prepare(text)
            except OperationTimedOut as error:
                if attempt == PREPARE_ATTEMPTS:
                    raise
                self._heard.overdue(error.last_host)
        raise AssertionError("the last attempt returns or raises")

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
            pending = self._session.execute_async(SimpleStatement(text), execution_profile=DEFINE)
            pending.result()
        except Exception as error:
            raise self.as_store_error(error) from error
        if not pending.is_schema_agreed:
            raise StoreUnavailable("the cluster's nodes do not agree on the schema yet; check that all nodes run")

    def look_up(self, text: str) -> Rows:
        """Returns the rows of a query. Raises StoreUnavailable."""
        return self._found(self._look(text, None, self.address.timeout_s))

    def on_each_node(self, text: str) -> dict[str, Rows]:
        """Returns what each node that answers soon returns for itself, by its address."""
        asked: dict[str, ResponseFuture] = {}
        for host in self._cluster.metadata.all_hosts():
            if self._session.get_pool_state().get(host) is not None:
                asked[host.address] = self._look(text, host, self.address.timeout_s * LATER)
        rows_by_node: dict[str, Rows] = {}
        for address, each in asked.items():
            with suppress(StoreUnavailable):
                rows_by_node[address] = self._found(each)
        return rows_by_node

    def _found(self, sent: ResponseFuture) -> Rows:
        try:
            return list(sent.result())
        except Exception as error:
            raise self.as_store_error(error) from error

    def _look(self, text: str, host: Any, timeout_s: float) -> ResponseFuture:
        statement = SimpleStatement(text, is_idempotent=True)
        sent = self._session.execute_async(
            statement, timeout=timeout_s, execution_profile=StatementKind.READ, host=host
        )
        self._heard.follow(sent)
        return sent

    def data_centres(self) -> dict[str, int]:
        """Returns how many nodes each data centre has."""
        return Counter(host.datacenter for host in self._cluster.metadata.all_hosts())


def connect(address: Address) -> Session:
    """Connects to the cluster; blocks for seconds if nodes do not answer.

    Raises StoreUnavailable, StoreMismatch (the cluster refuses the user, or has no such data centre), SettingInvalid (a
    file that the address names cannot be read).
    """
    _quieten_driver()
    counters = Counters()
    silent: set[Any] = set()
    try:
        cluster = _cluster(address, profiles(address, lambda: counters.add(RETRIES), silent))
    except UnresolvableContactPoints as error:
        raise StoreUnavailable(f"no host name of the cluster can be resolved: {', '.join(address.hosts)}") from error
    try:
        return Session(address, cluster, counters, silent)
    except Exception as error:
        centres = {host.datacenter for host in cluster.metadata.all_hosts()} - {None}
        cluster.shutdown()
        if centres and address.dc is not None and address.dc not in centres:
            names = ", ".join(sorted(centres))
            raise StoreMismatch(
                f"the cluster has no data centre {address.dc} (dc in the address), but {names}"
            ) from error
        raise as_store_error(error, address) from error


def _cluster(address: Address, execution_profiles: Mapping[object, ExecutionProfile]) -> Cluster:
    cluster = Cluster(
        address.hosts,
        port=address.port,
        execution_profiles=execution_profiles,
        auth_provider=_credentials(address),
        ssl_context=_tls_context(address),
        compression=False,  # rows are packed
        connect_timeout=address.timeout_s / 2,
        control_connection_timeout=address.timeout_s / 2,
        reconnection_policy=Reconnections(),
        executor_threads=THREADS,
        idle_heartbeat_interval=HEARTBEAT_S,
        idle_heartbeat_timeout=address.timeout_s,
        # A node keeps prepared statements. Preparing them again kept a node that came back out of use for up to 5 s.
        reprepare_on_up=False,
        # The others learn of a statement when they are asked to run it. One that stood still kept a start waiting for
        # 10 s with each statement.
        prepare_on_all_hosts=False,
        monitor_reporting_enabled=False,
        # The driver sends a request in pieces of 4 KiB. Each waited until the node had acknowledged the piece before
        # it, for 40 ms.
        sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
    )
    cluster.protocol_version = ProtocolVersion.V5  # set here, not in the call, it falls back for an older cluster
    return cluster


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
    """Returns what to raise for an error of the driver: StoreMismatch only for errors that waiting does not remove."""
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
