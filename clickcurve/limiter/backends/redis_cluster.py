"""The backend on a Redis Cluster: each decision is one call of one script on one node, as on a single server.

All keys of a decision, and its reservation, begin with the tag of their caller (`clickcurve.limiter.key`). The cluster
puts keys of one tag into one slot, so that one node has them all. Rules of one event that are by different features
are refused when they are compiled: no node could decide about them together.

A map says which node has which slot; any node tells it (`CLUSTER SLOTS`). It is read before the first question, and
after a failure before the next one. A node that has a slot no longer answers MOVED and has done nothing; so the same
question is asked once more, at the node that it names. Any other failure raises BackendUnavailable, as of one server.
While a slot is on its way between two nodes its callers may get ASK or TRYAGAIN, which are failures too.

`server_of` says which node decides about a key, so that `guard` leaves alone only a node that does not answer.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from redis.exceptions import MovedError

from clickcurve.buckets.errors import BackendUnavailable, SettingInvalid
from clickcurve.limiter.backend import AsyncBackend, Question, Settled
from clickcurve.limiter.backends.connections.redis_address import ClusterAddress, join_address
from clickcurve.limiter.backends.connections.redis_socket import Answer
from clickcurve.limiter.backends.forms import Around, Immediate, blocking
from clickcurve.limiter.backends.redis import MAX_ASKED, MAX_CONNECTIONS, TIMEOUT_S, AsyncRedisBackend, RedisBackend
from clickcurve.limiter.backends.redis_scripts import PREFIX, command
from clickcurve.limiter.key import tag_digits
from clickcurve.limiter.quota import Quota

Result = TypeVar("Result")

SLOTS = 16_384
_ASK_MAP = command(b"CLUSTER", b"SLOTS")


class Node(AsyncBackend, Protocol):
    """The backend on one node, which can be asked any command."""

    async def ask(self, sent: bytes) -> Answer: ...


class _BlockingNode(Immediate):
    """The backend of threads on one node, in the form that is awaited."""

    def __init__(self, backend: RedisBackend) -> None:
        super().__init__(backend)
        self._redis = backend

    async def ask(self, sent: bytes) -> Answer:
        return self._redis.ask(sent)


class ClusterRouter:
    """Asks the node that has a question's keys. connect: makes the backend on one node, by its address."""

    keeps_time = True

    def __init__(self, address: ClusterAddress, connect: Callable[[str], Node], prefix: str) -> None:
        if "{" in prefix:  # the first braces of a key are its tag
            raise SettingInvalid("the prefix must be text without {", field="prefix", value=prefix, rule="without {")
        self._address, self._connect = address, connect
        self._node_of = [""] * SLOTS
        # The next to be asked for the map is the first; one that fails goes to the end.
        self._known = address.nodes
        self._nodes: dict[str, Node] = {}
        self._is_stale = True
        self._maps_read = self._moved = 0
        for each in address.nodes:
            self._node(each)  # refuses an address that is none at once

    def server_of(self, name: str) -> str:
        return self._node_of[slot_of(name)]

    async def decide(self, question: Question) -> Sequence[Quota]:
        return await self._at(question.keys[0], lambda node: node.decide(question))

    async def settle(self, reservation: str, keep: int | None, at_us: int | None) -> Settled:
        return await self._at(reservation, lambda node: node.settle(reservation, keep, at_us))

    async def reset(self, question: Question) -> None:
        await self._at(question.keys[0], lambda node: node.reset(question))

    def measures(self) -> Mapping[str, float]:
        sums: Counter[str] = Counter()
        for node in list(self._nodes.values()):
            sums.update(node.measures())
        return {**sums, "redis_maps_read_total": self._maps_read, "redis_moved_total": self._moved}

    async def close(self) -> None:
        for node in list(self._nodes.values()):
            await node.close()

    async def _at(self, name: str, ask: Callable[[Node], Awaitable[Result]]) -> Result:
        """Asks the node of this key; where the key has moved, the node that it has moved to."""
        slot = slot_of(name)
        if self._is_stale or not self._node_of[slot]:
            await self._read_map()
        address = self._node_of[slot]
        if not address:
            raise BackendUnavailable(f"no node of the Redis Cluster has the slot {slot}")
        try:
            return await ask(self._node(address))
        except BackendUnavailable as error:
            self._failed(address)
            moved = error.__cause__
            if not isinstance(moved, MovedError):
                raise
            self._moved += 1
            self._node_of[slot] = join_address(moved.host or _host_of(address), moved.port)
            return await ask(self._node(self._node_of[slot]))
        except BaseException:  # given up
            self._failed(address)
            raise

    def _failed(self, address: str) -> None:
        self._is_stale = True
        self._known = [*(each for each in self._known if each != address), address]

    async def _read_map(self) -> None:
        """Reads which node has which slot from the first node that answers. BackendUnavailable if none does."""
        self._is_stale = False  # others go by the old map meanwhile
        why: Exception | None = None
        for asked in self._known:
            try:
                answer = await self._node(asked).ask(_ASK_MAP)
            except BackendUnavailable as error:
                self._failed(asked)
                why = error
                continue
            except BaseException:
                self._failed(asked)
                raise
            self._is_stale = False
            self._maps_read += 1
            self._node_of = slot_map(answer, _host_of(asked))
            await self._know({asked, *self._node_of, *self._address.nodes} - {""})
            return
        raise BackendUnavailable(f"no node of the Redis Cluster answered: {why}")

    async def _know(self, nodes: set[str]) -> None:
        """Knows these nodes from now on, and closes the connections to all others."""
        left = [each for each in self._known if each in nodes]
        self._known = left + sorted(nodes - set(left))
        for address in [each for each in self._nodes if each not in nodes]:
            await self._nodes.pop(address).close()

    def _node(self, address: str) -> Node:
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes.setdefault(address, self._connect(self._address.url_of(address)))
        return node


class AsyncRedisClusterBackend(ClusterRouter):
    """`AsyncBackend` on a Redis Cluster, for the tasks of one event loop, over one connection to each node.

    url: `redis+cluster://h1:6379,h2:6379`, some of the nodes. timeout_s, max_asked: for each node, as of
    `AsyncRedisBackend`.
    """

    def __init__(
        self, url: str, *, timeout_s: float | None = TIMEOUT_S, max_asked: int = MAX_ASKED, prefix: str = PREFIX
    ) -> None:
        def connect(address: str) -> Node:
            return AsyncRedisBackend(address, timeout_s=timeout_s, max_asked=max_asked, prefix=prefix, in_cluster=True)

        super().__init__(ClusterAddress(url), connect, prefix)


class RedisClusterBackend(Around[ClusterRouter]):
    """`Backend` on a Redis Cluster, for any number of threads.

    url: `redis+cluster://h1:6379,h2:6379`, some of the nodes. timeout_s, max_connections: for each node, as of
    `RedisBackend`.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
        prefix: str = PREFIX,
    ) -> None:
        def connect(address: str) -> Node:
            return _BlockingNode(
                RedisBackend(
                    address, timeout_s=timeout_s, max_connections=max_connections, prefix=prefix, in_cluster=True
                )
            )

        self._awaited = ClusterRouter(ClusterAddress(url), connect, prefix)
        super().__init__(self._awaited)

    decide = blocking(ClusterRouter.decide)
    settle = blocking(ClusterRouter.settle)
    reset = blocking(ClusterRouter.reset)
    close = blocking(ClusterRouter.close)


def slot_of(name: str) -> int:
    """Returns the slot of a key or reservation: CRC16 of its tag, as Redis Cluster specifies."""
    return crc_hqx(tag_digits(name).encode(), 0) % SLOTS


def slot_map(answer: Answer, asked_host: str) -> list[str]:
    """Returns the address of the node of each slot, by the answer to `CLUSTER SLOTS`. "" for a slot without one.

    asked_host: of the node that answered, which may leave its own host out.
    """
    node_of = [""] * SLOTS
    for first, last, primary, *_ in answer:
        host = (primary[0] or b"").decode() or asked_host
        node_of[first : last + 1] = [join_address(host, primary[1])] * (last + 1 - first)
    return node_of


def _host_of(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
