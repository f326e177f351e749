"""The harness of real nodes does what its words say."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from testing.cassandra.jars import version
from testing.cassandra.node import Node, NodeFailed, Place
from testing.cassandra.question import Refused, Row
from testing.cassandra.ring import Ring, is_free, place_one, running
from testing.server import ROOT

# Starts a program, says its process id, and waits to be killed.
STARTS_ONE = """
import os, sys
from pathlib import Path
from testing.lifeline import spawn
print(spawn(["/bin/sleep", "600"], Path(sys.argv[1]), os.environ).pid, flush=True)
input()
"""


def make_table(keyspace: str, *nodes: Node) -> str:
    """The name of a new table with a key and a number, a copy on each of the nodes."""
    replication = f"{{'class': 'NetworkTopologyStrategy', 'datacenter1': {len(nodes)}}}"
    Ring(nodes).define(
        f"CREATE KEYSPACE {keyspace} WITH replication = {replication}",
        f"CREATE TABLE {keyspace}.kept (key text PRIMARY KEY, number int)",
    )
    return f"{keyspace}.kept"


def test_a_node_starts_and_answers_for_itself(one_node: Node) -> None:
    assert one_node.ask("SELECT release_version FROM system.local") == [[version().encode()]]
    with pytest.raises(Refused, match="nowhere"):
        one_node.ask("SELECT nothing FROM nowhere.at_all")


def test_nodetool_talks_to_the_node(one_node: Node) -> None:
    assert f"UN  {one_node.address}" in one_node.nodetool("status")
    with pytest.raises(AssertionError, match="nodetool nonsense"):
        one_node.nodetool("nonsense")


def test_a_killed_node_comes_back_with_all_it_acknowledged(breakable_node: Node, keyspace: str) -> None:
    table = make_table(keyspace, breakable_node)
    for number in range(200):
        breakable_node.ask(f"INSERT INTO {table} (key, number) VALUES ('{number}', {number})")
    breakable_node.kill()
    assert not breakable_node.running
    assert not breakable_node.answers()
    breakable_node.start().wait_ready()
    kept = breakable_node.ask(f"SELECT key FROM {table}")
    assert {row[0] for row in kept} == {str(number).encode() for number in range(200)}


def test_a_suspended_node_does_not_answer_and_resumes_where_it_was(breakable_node: Node) -> None:
    pid = breakable_node.pid
    breakable_node.suspend()
    assert breakable_node.running
    assert not breakable_node.answers(timeout_s=0.5)
    breakable_node.resume()
    assert breakable_node.answers()
    assert breakable_node.pid == pid


def test_a_node_is_mended_whatever_was_done_to_it(breakable_node: Node) -> None:
    breakable_node.suspend()
    breakable_node.heal()
    assert breakable_node.answers()
    breakable_node.suspend()
    breakable_node.kill()
    breakable_node.heal()
    assert breakable_node.answers()


def test_a_node_ends_when_it_is_told_even_if_it_is_suspended(tmp_path: Path, cassandra_program: None) -> None:
    place = place_one(tmp_path, "periodic")
    with running([place]) as ring:
        [node] = ring.nodes
        node.suspend()
        node.stop()
        assert not node.running
        assert is_free(place.native_port, place.address)
        assert is_free(place.jmx_port, place.address)


def test_a_node_that_cannot_start_shows_its_log(tmp_path: Path, cassandra_program: None) -> None:
    place = place_one(tmp_path)
    node = Node(Place(tmp_path, "192.0.2.1", place.native_port, place.storage_port, place.jmx_port))
    with pytest.raises(NodeFailed, match=r"ended with \d:\n(.*\n)*.*failed to bind to: /192.0.2.1"):
        node.start().wait_ready()


def test_a_node_may_have_a_wrong_clock(tmp_path: Path, cassandra_program: None, keyspace: str) -> None:
    place = place_one(tmp_path, "periodic")
    ahead = Place(tmp_path, place.address, place.native_port, place.storage_port, place.jmx_port, clock_skew_s=300)
    with running([ahead]) as ring:
        [node] = ring.nodes
        table = make_table(keyspace, node)
        node.ask(f"INSERT INTO {table} (key, number) VALUES ('a', 1)")
        [[written]] = node.ask(f"SELECT writetime(number) FROM {table}")
        assert written is not None
        assert int.from_bytes(written) / 1e6 - time.time() == pytest.approx(300, abs=20)


def test_what_is_started_does_not_outlive_a_killed_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_ONE, str(tmp_path / "log")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        end = os.pidfd_open(int(starter.stdout.readline()))
        starter.send_signal(signal.SIGKILL)
        assert select.select([end], [], [], 10.0)[0] == [end]
        os.close(end)


class PretendedNode(Node):
    """No process: it answers as a node that takes another one for dead until it is started again."""

    def __init__(self, blind: bool, schema: bytes = b"1") -> None:
        super().__init__(Place(Path(), "127.0.0.1", 1, 2, 3))
        self.blind, self.schema, self.starts = blind, schema, 0

    @property
    def running(self) -> bool:
        return True

    def ask(self, query: str, consistency: str = "ONE", timeout_s: float = 30.0) -> list[Row]:
        if consistency == "ALL" and self.blind:
            raise Refused("unavailable")
        return [[self.schema]]

    def until(self, happened: Callable[[], bool], tries: int = 1) -> None:
        if not happened():
            raise NodeFailed("waited for in vain")

    def kill(self) -> None:
        self.blind = False

    def start(self) -> Self:
        self.starts += 1
        return self

    def wait_ready(self) -> Self:
        return self


def test_a_node_that_takes_another_for_dead_is_started_again() -> None:
    sees, blind = PretendedNode(False), PretendedNode(True)
    Ring([sees, blind]).wait_whole()
    assert (sees.starts, blind.starts) == (0, 1)


def test_nodes_that_see_one_another_and_do_not_agree_are_not_started_again() -> None:
    nodes = [PretendedNode(False), PretendedNode(False, b"2")]
    with pytest.raises(NodeFailed):
        Ring(nodes).wait_whole()
    assert [node.starts for node in nodes] == [0, 0]


def test_three_nodes_see_one_another_and_hold_everything_thrice(breakable_nodes: Ring, keyspace: str) -> None:
    first, second, third = breakable_nodes.nodes
    table = make_table(keyspace, first, second, third)
    first.ask(f"INSERT INTO {table} (key, number) VALUES ('a', 1)", "ALL")
    third.kill()
    second.ask(f"INSERT INTO {table} (key, number) VALUES ('a', 2)", "QUORUM")
    with pytest.raises(Refused):
        second.ask(f"SELECT number FROM {table} WHERE key = 'a'", "ALL")
    assert not breakable_nodes.whole()
    breakable_nodes.heal()  # raises if they are not whole in time
    for node in breakable_nodes.nodes:
        assert node.ask(f"SELECT number FROM {table} WHERE key = 'a'", "QUORUM") == [[b"\0\0\0\2"]]
