"""A cluster behind proxies: drivers meet only those, and what they lose has happened at the nodes."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from cassandra import ConsistencyLevel, OperationTimedOut
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy

from tests.cassandra.front import ADDRESSES, Front
from tests.cassandra.proxy import Proxy

PATIENCE_S = 300.0  # on a machine that does other work too
LOST_AFTER_S = 0.3


@pytest.mark.long
def test_drivers_meet_only_the_proxies_and_every_one_of_them_loses_answers(
    breakable_proxied_nodes: Front, keyspace: str
) -> None:
    front = breakable_proxied_nodes
    front.ring.define(
        f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}}",
        f"CREATE TABLE {keyspace}.kept (key int PRIMARY KEY)",
    )
    profile = ExecutionProfile(
        RoundRobinPolicy(), FallthroughRetryPolicy(), ConsistencyLevel.QUORUM, request_timeout=PATIENCE_S
    )
    cluster = Cluster(
        [ADDRESSES[0]],
        front.port,
        protocol_version=5,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=PATIENCE_S,
        control_connection_timeout=PATIENCE_S,
    )
    with cluster, cluster.connect() as cql:
        assert {(host.address, host.endpoint.port) for host in cluster.metadata.all_hosts()} == {
            (address, front.port) for address in ADDRESSES
        }
        front.ring.nodes[0].until(lambda: len(cql.get_pool_state()) == len(ADDRESSES))
        cluster.prepare_on_all_hosts = False  # two of the nodes are asked for what they do not know
        write = cql.prepare(f"INSERT INTO {keyspace}.kept (key) VALUES (?)")
        hosts = {host.address: host for host in cluster.metadata.all_hosts()}
        front.drop(lambda text: "INSERT" in text)
        for key, proxy in enumerate(front.proxies):
            wrote = partial(loses_a_success, cql, proxy, write, key, hosts[proxy.address])
            front.ring.nodes[key].until(wrote)
        front.heal()
        assert {row.key for row in cql.execute(f"SELECT key FROM {keyspace}.kept")} == {0, 1, 2}
    assert front.total(lambda proxy: proxy.counts.unknown) == 0


def loses_a_success(cql: Any, proxy: Proxy, write: Any, key: int, host: Any) -> bool:
    """Write by way of one node and lose its answer; whether that was not an error."""
    before = proxy.counts
    with pytest.raises(OperationTimedOut):
        cql.execute(write, [key], host=host, timeout=LOST_AFTER_S)
    proxy.until(lambda counts: counts.dropped > before.dropped)
    return proxy.counts.dropped_errors == before.dropped_errors
