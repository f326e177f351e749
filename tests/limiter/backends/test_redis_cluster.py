"""The limiter on a Redis Cluster of three real nodes: one command on one node for each decision, slots that move, a
node that is lost, and a replica that takes over. That its answers are those of every backend: `places.BACKENDS`."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.errors import BackendUnavailable, RuleInvalid, SettingInvalid
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import Settled
from clickcurve.limiter.backends.guard import AsyncGuarded, Guarded, Patience
from clickcurve.limiter.backends.redis_cluster import (
    SLOTS,
    AsyncRedisClusterBackend,
    RedisClusterBackend,
    slot_map,
    slot_of,
)
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.key import tag_of
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from testing.backend_servers import (
    Certificate,
    RedisCluster,
    Served,
    redis_cluster,
    redis_server,
    shared_redis_cluster,
)
from testing.server import free_port
from tests.limiter.backends.test_redis_failover import until

SEVERAL = [{"by": "user", "rates": "5/h"}, {"by": "user", "rates": "3/m, 50/d", "strategy": "fixed", "name": "short"}]
LIMITS: Mapping[str, Any] = {
    "one": {"by": "user", "rates": "5/h", "backend": "redis", "on_failure": "closed"},
    "several": [{**each, "backend": "redis"} for each in SEVERAL],
}
RULES = parse_rules(LIMITS)
PATIENCE = Patience(deadline_s=2.0, failures=3, pause_s=0.02, max_pause_s=0.05)
CLOCKS: Mapping[str, Any] = {"clock": time.time, "timer": time.monotonic, "patience": PATIENCE}
USERS = [f"user-{n}" for n in range(60)]


class Threads:
    """A limiter for threads."""

    def __init__(self, url: str) -> None:
        self.backend = RedisClusterBackend(url, timeout_s=1.0)
        self._limiter = Limiter(RULES, backends={"redis": Guarded(self.backend, **CLOCKS)})

    def ask(self, event: str, user: str, verb: str = "hit") -> Decision:
        decision: Decision = getattr(self._limiter, verb)(event, {"user": user})
        return decision

    def cancel(self, event: str, reservation: str) -> Settled:
        return self._limiter.cancel(event, reservation)

    def close(self) -> None:
        self._limiter.close()


class EventLoop:
    """A limiter for an event loop, which runs while it is asked."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._limiter = self._runner.run(self._make(url))

    async def _make(self, url: str) -> AsyncLimiter:
        self.backend = AsyncRedisClusterBackend(url, timeout_s=None)
        return AsyncLimiter(RULES, backends={"redis": AsyncGuarded(self.backend, **CLOCKS)})

    def ask(self, event: str, user: str, verb: str = "hit") -> Decision:
        decision: Decision = self._runner.run(getattr(self._limiter, verb)(event, {"user": user}))
        return decision

    def cancel(self, event: str, reservation: str) -> Settled:
        return self._runner.run(self._limiter.cancel(event, reservation))

    def close(self) -> None:
        self._runner.run(self._limiter.close())
        self._runner.close()


FORMS = pytest.mark.parametrize("form", [Threads, EventLoop], ids=["threads", "event loop"])


@contextmanager
def asking(form: Any, url: str) -> Iterator[Any]:
    limiter = form(url)
    try:
        yield limiter
    finally:
        limiter.close()


def calls(node: Served) -> int:
    """How often a script was run by a node."""
    stats = node.ask(b"INFO commandstats").decode()
    return sum(int(found) for found in re.findall(r"cmdstat_eval(?:sha)?:calls=([0-9]+)", stats))


def of_node(cluster: RedisCluster, node: int) -> list[str]:
    """Users whose keys lie on a node, each of which has an equal part of the slots."""
    share = -(-SLOTS // len(cluster.nodes))
    return [user for user in USERS if slot_of(tag_of(user)) // share == node]


@FORMS
@pytest.mark.needs("redis")
def test_each_decision_is_one_command_on_one_node(form: Any) -> None:
    cluster = shared_redis_cluster()
    with asking(form, cluster.url) as limiter:
        for user in USERS:  # each node is sent each script once
            limiter.ask("one", user, "peek")
            limiter.ask("several", user)
        before = [calls(node) for node in cluster.nodes]
        for user in USERS:
            assert limiter.ask("one", user).remaining == 4
            assert [limiter.ask("several", user).allowed for _ in range(3)] == [True, True, False]
        asked = [calls(node) - start for node, start in zip(cluster.nodes, before, strict=True)]
        assert [len(of_node(cluster, n)) * 4 for n in range(3)] == asked
        assert min(asked) > 0
        assert limiter.backend.measures()["redis_maps_read_total"] == 1


@pytest.mark.needs("redis")
def test_slots_are_those_of_the_cluster() -> None:
    node = shared_redis_cluster().nodes[0]
    for value in [*USERS, "ä" * 300, "{x}", "}{", "\x00"]:
        tag = tag_of(value)
        assert node.ask(b"CLUSTER KEYSLOT clickcurve:limit:" + tag.encode()) == b":%d\r\n" % slot_of(tag)


@FORMS
@pytest.mark.needs("redis")
def test_a_reservation_lies_with_its_caller_and_ends_once(form: Any) -> None:
    cluster = shared_redis_cluster()
    with asking(form, cluster.url) as limiter:
        for user in USERS[:12]:
            token = limiter.ask("several", user, "reserve").reservation
            assert limiter.ask("several", user, "peek").remaining == 2
            assert limiter.cancel("several", token) is Settled.done
            assert limiter.cancel("several", token) is Settled.ended
            assert limiter.ask("several", user, "peek").remaining == 3
        for strange in ("", "x", "1-" + "f" * 32, "{", "}{" * 18):
            assert limiter.cancel("several", strange) is Settled.unknown


@FORMS
@pytest.mark.needs("redis")
def test_a_slot_that_moved_is_asked_for_where_it_is_now(form: Any) -> None:
    with redis_cluster() as cluster, asking(form, cluster.url) as limiter:
        (user, *_), slot = of_node(cluster, 0), slot_of(tag_of(of_node(cluster, 0)[0]))
        limiter.ask("one", of_node(cluster, 1)[0])  # the map is read
        cluster.move(slot, cluster.nodes[2])
        told = [limiter.ask("one", user) for _ in range(6)]
        assert [each.fallback for each in told] == [False] * 6
        assert [each.allowed for each in told] == [True] * 5 + [False]
        measures = limiter.backend.measures()
        assert (measures["redis_moved_total"], measures["redis_maps_read_total"]) == (1, 2)


@FORMS
@pytest.mark.needs("redis")
def test_only_callers_of_a_lost_node_are_decided_by_the_failure_policy(form: Any) -> None:
    with redis_cluster() as cluster, asking(form, cluster.url) as limiter:
        users = [of_node(cluster, n) for n in range(3)]
        for user in USERS:
            assert limiter.ask("one", user).remaining == 4
        cluster.nodes[1].kill()
        for _ in range(4):  # in turn, many failures among many answers
            for lost, kept in zip(users[1], [*users[0], *users[2]], strict=False):
                gone, answered = limiter.ask("one", lost), limiter.ask("one", kept)
                assert (gone.allowed, gone.fallback) == (False, True), "closed"
                assert not answered.fallback
        for kept in [*users[0], *users[2]][: len(users[1])]:
            assert not limiter.ask("one", kept).allowed, "five were counted"
        cluster.nodes[1].start()
        until(lambda: not limiter.ask("one", users[1][0]).fallback)


@FORMS
@pytest.mark.needs("redis")
def test_a_replica_that_takes_over_is_found(form: Any) -> None:
    with redis_cluster(replicas=1) as cluster, asking(form, cluster.url) as limiter:
        user = of_node(cluster, 0)[0]
        assert [limiter.ask("one", user).allowed for _ in range(6)] == [True] * 5 + [False]
        until(lambda: cluster.replicas[0].ask(b"DBSIZE") == b":1\r\n")
        cluster.nodes[0].kill()
        until(lambda: not limiter.ask("one", user).fallback)
        assert not limiter.ask("one", user).allowed, "what was replicated counts on"
        assert b"role:master" in cluster.replicas[0].ask(b"INFO replication")


@FORMS
@pytest.mark.needs("redis", "openssl")
def test_nodes_are_asked_over_tls_where_they_tell_of_each_other(form: Any, tmp_path: Path) -> None:
    """Also where a slot has moved. No node is asked whose certificate the client does not trust."""
    certificate = Certificate.made(tmp_path)
    with redis_cluster(certificate=certificate) as cluster:
        with asking(form, f"{cluster.url}?ssl_ca_certs={certificate.file}") as limiter:
            for user in USERS:
                told = [limiter.ask("one", user) for _ in range(6)]
                assert [each.allowed for each in told] == [True] * 5 + [False]
                assert not any(each.fallback for each in told)
            user = of_node(cluster, 1)[0]
            assert limiter.cancel("several", limiter.ask("several", user, "reserve").reservation) is Settled.done
            cluster.nodes[0].ask(b"FLUSHALL")
            moved = of_node(cluster, 0)[0]
            cluster.move(slot_of(tag_of(moved)), cluster.nodes[2])
            assert [limiter.ask("one", moved).allowed for _ in range(6)] == [True] * 5 + [False]
            assert limiter.backend.measures()["redis_moved_total"] == 1
        with asking(Threads, cluster.url) as limiter:
            assert limiter.ask("one", USERS[0]).fallback


# --- what is refused --------------------------------------------------------------------------------------------------
def test_rules_by_different_features_are_refused_with_the_remedy() -> None:
    backend = RedisClusterBackend("redis+cluster://127.0.0.1:1")
    limits = {"login": [{"by": by, "rates": "5/m", "backend": "redis"} for by in ("user", "ip")]}
    with pytest.raises(RuleInvalid, match=r"limits.login: by must be the same in all rules .* not 'user; ip'"):
        Limiter(parse_rules(limits), backends={"redis": Guarded(backend)})
    limiter = Limiter(RULES, backends={"redis": backend})
    with pytest.raises(RuleInvalid, match="on a Redis Cluster"):
        limiter.replace(parse_rules(limits))


@pytest.mark.parametrize(
    "url",
    [
        "redis+cluster:h1",
        "redis+cluster://",
        "redis+cluster://h1,",
        "redis+cluster://h1:99999",
        "redis+cluster://h1/3",
        "redis+cluster://h1?wrong=1",
        "redis://h1",
    ],
)
@pytest.mark.parametrize("kind", [RedisClusterBackend, AsyncRedisClusterBackend])
def test_a_text_that_names_no_nodes_is_refused_at_once(kind: Any, url: str) -> None:
    with pytest.raises(SettingInvalid, match="not an address of a Redis"):
        kind(url)


def test_a_prefix_with_braces_is_refused() -> None:
    with pytest.raises(SettingInvalid, match=r"without \{"):
        RedisClusterBackend("redis+cluster://h1", prefix="{all}")


@pytest.mark.needs("redis")
def test_a_single_server_and_a_cluster_are_not_taken_for_each_other() -> None:
    with redis_server() as server:
        backend = RedisClusterBackend(f"redis+cluster://{server.address}", timeout_s=2.0)
        with pytest.raises(BackendUnavailable, match="no node of a Redis Cluster: give its address as redis://"):
            Limiter(RULES, backends={"redis": backend}).hit("one", {"user": "ann"})


@FORMS
def test_nodes_that_are_all_away_are_a_backend_that_does_not_answer(form: Any) -> None:
    url = f"redis+cluster://127.0.0.1:{free_port()},[::1]:{free_port()}"
    with asking(form, url) as limiter:
        assert limiter.ask("one", "ann").fallback


def test_a_node_may_leave_out_its_own_host_in_the_map() -> None:
    told = [[0, 99, [None, 7000, b"id"]], [100, SLOTS - 2, [b"::1", 7001, b"id", []], [b"10.0.0.9", 7002, b"id"]]]
    node_of = slot_map(told, "10.0.0.1")
    assert (node_of[0], node_of[99], node_of[100], node_of[-2]) == (
        "10.0.0.1:7000",
        "10.0.0.1:7000",
        "[::1]:7001",
        "[::1]:7001",
    )
    assert (node_of[-1], len(node_of)) == ("", SLOTS)
