"""The driver's policies: which node gets a request, and when another node is asked.

A node that stands still keeps its connections, and the driver takes some ten seconds to notice. So a node that owes an
answer, and has said nothing since it was asked, is asked last until it says something. And where an answer is late,
which with a lost packet it is for ever, another node is asked too: soon as long as few requests need that, later when
many do, since then the cluster has enough to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, count, repeat
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, ExecutionProfile, ResponseFuture
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    LoadBalancingPolicy,
    ReconnectionPolicy,
    RetryPolicy,
    RoundRobinPolicy,
    SpeculativeExecutionPlan,
    SpeculativeExecutionPolicy,
    TokenAwarePolicy,
    WrapperPolicy,
)
from cassandra.pool import Host
from cassandra.query import tuple_factory

from storage.cassandra.cql import StatementKind
from storage.cassandra.uri import Address

ATTEMPTS = 3  # of a read or write that ends with an error
# When a second and a third node are asked, as parts of the time that a request has: 0.3 s and 1.3 s later, of 5 s. Many
# keys are written at once, and with one answer in 25 lost nearly all of these took as long as the first hedge.
SOON, LATER = 1 / 16, 1 / 4
LEAST_S = 0.25  # that the answer to a conditional update is waited for, unless half of the time is less
HEDGED_SOON, MOST_HEDGED = 0.1, 32.0  # share of the requests, and how many at once
# Pauses before the attempts to reach a node again; the last one is repeated. After a connection that was reset the
# first attempt succeeds, and until then the node is not asked.
RECONNECT_S = (0.1, 0.4, 1.0)
DEFINE_S = 60.0  # for a change of the schema, to which all nodes must agree
DEFINE = "define"


class Heard:
    """Keeps the set of silent nodes: nodes with a late answer that have not answered anything since.

    `ask` asks a node for anything, again and again, until it answers or is known to be down; then it calls `answered`.
    """

    def __init__(self, silent: set[Host], ask: Callable[[Host], object]) -> None:
        self._silent = silent
        self._ask = ask
        self._requests = count(1)
        self._newest = 0
        self._heard: dict[Host, int] = {}  # node -> the newest request when it answered last

    def follow(self, request: ResponseFuture) -> None:
        """Notes which nodes answer a request that was just sent."""
        number = self._newest = next(self._requests)
        request.add_callbacks(lambda _: self._ended(request, number), lambda _: self._ended(request, number))

    def _ended(self, request: ResponseFuture, number: int) -> None:
        answered = request.coordinator_host
        if answered is not None:
            self._heard[answered] = self._newest
        for node in request.attempted_hosts:
            if node is not answered and self._heard.get(node, 0) < number:
                self.overdue(node)

    def overdue(self, node: Host) -> None:
        """Marks a node as silent until it answers."""
        if node not in self._silent:
            self._silent.add(node)
            self._ask(node)

    def answered(self, node: Host) -> None:
        self._silent.discard(node)


class SilentLast(WrapperPolicy):  # type: ignore[misc]
    """Asks the nodes that another policy names, and once more, before the silent ones.

    With one of three nodes away there are two to ask; where both answers were lost, the request took all of its time.
    """

    def __init__(self, nodes: LoadBalancingPolicy, silent: set[Host]) -> None:
        super().__init__(nodes)
        self._silent = silent

    def make_query_plan(self, working_keyspace: str | None = None, query: object = None) -> Iterator[Host]:
        asked, silent = [], []
        for node in self._child_policy.make_query_plan(working_keyspace, query):
            if node in self._silent:
                silent.append(node)
            else:
                asked.append(node)
                yield node
        yield from asked
        yield from silent


class Hedges(SpeculativeExecutionPolicy):  # type: ignore[misc]
    """Asks a second node soon where few requests need one, else later; a third one later in any case."""

    def __init__(self, timeout_s: float) -> None:
        self.soon_s, self.later_s = timeout_s * SOON, timeout_s * LATER
        self.credit = MOST_HEDGED  # lost updates of threads cost nothing

    def new_plan(self, keyspace: str | None, statement: object) -> SpeculativeExecutionPlan:
        soon = self.credit >= 1
        self.credit = min(MOST_HEDGED, self.credit + HEDGED_SOON)
        return _HedgePlan(self, soon)


class _HedgePlan(SpeculativeExecutionPlan):  # type: ignore[misc]
    def __init__(self, hedges: Hedges, soon: bool) -> None:
        self._hedges = hedges
        self._soon = soon
        self._asked = 0

    def next_execution(self, host: Host | None) -> float:
        """Returns after how long the next node is asked, negative: none; called before each is waited for."""
        self._asked += 1
        if self._asked == 1:
            return self._hedges.soon_s if self._soon else self._hedges.later_s
        if self._asked == 2:
            self._hedges.credit -= self._soon
            return self._hedges.later_s
        return -1.0


def condition_timeout_s(timeout_s: float, attempt: int) -> float:
    """Returns for how long the answer to a conditional update is waited for; then a serial read decides.

    At most half of the time that a request has: a node gives up after two seconds.
    """
    return min(timeout_s / 2, max(LEAST_S, timeout_s / 8) * (1 << attempt))


def profiles(address: Address, count_retry: Callable[[], None], silent: set[Host]) -> dict[object, ExecutionProfile]:
    """Returns how each kind of statement is run. A conditional update is sent once, to the next node in turn."""

    def in_turn() -> LoadBalancingPolicy:
        # Without dc every node is asked: the other policy would ask only those of the first node's data centre, and
        # find none when that is lost, though the others still have a quorum.
        return DCAwareRoundRobinPolicy(address.dc) if address.dc else RoundRobinPolicy()

    quorum, serial = ConsistencyLevel.QUORUM, ConsistencyLevel.SERIAL
    if address.dc:
        quorum, serial = ConsistencyLevel.LOCAL_QUORUM, ConsistencyLevel.LOCAL_SERIAL
    again, hedge = Retries(count_retry), Hedges(address.timeout_s)

    def profile(level: int, nodes: LoadBalancingPolicy | None = None, **more: Any) -> ExecutionProfile:
        options = {"request_timeout": address.timeout_s, "retry_policy": again, **more}
        policy = SilentLast(nodes or TokenAwarePolicy(in_turn()), silent)
        return ExecutionProfile(policy, consistency_level=level, row_factory=tuple_factory, **options)

    return {
        EXEC_PROFILE_DEFAULT: profile(quorum, in_turn()),
        StatementKind.READ: profile(quorum, speculative_execution_policy=hedge),
        StatementKind.WRITE: profile(quorum, speculative_execution_policy=hedge),
        StatementKind.CONDITION: profile(
            quorum, in_turn(), serial_consistency_level=serial, retry_policy=FallthroughRetryPolicy()
        ),
        StatementKind.SERIAL_READ: profile(serial, speculative_execution_policy=hedge),
        DEFINE: profile(quorum, retry_policy=FallthroughRetryPolicy(), request_timeout=DEFINE_S),
    }


class Reconnections(ReconnectionPolicy):  # type: ignore[misc]
    def new_schedule(self) -> Iterator[float]:
        return chain(RECONNECT_S, repeat(RECONNECT_S[-1]))


class Retries(RetryPolicy):  # type: ignore[misc]
    """Tries again a few times: at the same node if it took too long, at another one if it could not answer."""

    def __init__(self, count_retry: Callable[[], None]) -> None:
        self._count_retry = count_retry

    def _again(self, how: int, retry_num: int) -> tuple[int, None]:
        if retry_num >= ATTEMPTS - 1:
            return self.RETHROW, None
        self._count_retry()
        return how, None

    def on_read_timeout(self, *args: object, retry_num: int, **info: object) -> tuple[int, None]:
        return self._again(self.RETRY, retry_num)

    on_write_timeout = on_read_timeout

    def on_unavailable(self, *args: object, retry_num: int, **info: object) -> tuple[int, None]:
        return self._again(self.RETRY_NEXT_HOST, retry_num)

    on_request_error = on_unavailable
