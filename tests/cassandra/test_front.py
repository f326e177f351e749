"""A cluster behind proxies: drivers meet only those, and what they lose has happened at the nodes."""

from __future__ import annotations

import pytest
from cassandra import ConsistencyLevel, OperationTimedOut
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy

from tests.cassandra.front import ADDRESSES, Front

TIMEOUT_S = 2.0


def test_drivers_meet_only_the_proxies_and_every_one_of_them_loses_answers(
    breakable_proxied_nodes: Front, keyspace: str
) -> None:
    front = breakable_proxied_nodes
    front.ring.define(
        f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}}",
        f"CREATE TABLE {keyspace}.kept (key int PRIMARY KEY)",
    )
    profile = ExecutionProfile(
        RoundRobinPolicy(), FallthroughRetryPolicy(), ConsistencyLevel.QUORUM, request_timeout=TIMEOUT_S
    )
    cluster = Cluster(
        [ADDRESSES[0]], front.port, protocol_version=5, execution_profiles={EXEC_PROFILE_DEFAULT: profile}
    )
    with cluster, cluster.connect() as cql:
        assert {(host.address, host.endpoint.port) for host in cluster.metadata.all_hosts()} == {
            (address, front.port) for address in ADDRESSES
        }
        claim = cql.prepare(f"INSERT INTO {keyspace}.kept (key) VALUES (?) IF NOT EXISTS")
        front.drop(lambda text: "INSERT" in text)
        for key in range(3):  # each goes to another node
            with pytest.raises(OperationTimedOut):
                cql.execute(claim, [key])
        for proxy in front.proxies:
            proxy.until(lambda counts: counts.dropped_conditional == 1)
        front.heal()
        assert {row.key for row in cql.execute(f"SELECT key FROM {keyspace}.kept")} == {0, 1, 2}
    assert front.total(lambda proxy: proxy.counts.unknown) == 0
    assert front.total(lambda proxy: proxy.counts.dropped) == 3
