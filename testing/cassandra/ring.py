"""A cluster of real nodes on the loopback addresses of this machine: one node, or three that hold everything thrice."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from testing.cassandra.node import DATA_CENTRE, Node, NodeFailed, Place
from testing.cassandra.question import Refused

# A third of the token range each.
TOKENS = (-9223372036854775808, -3074457345618258603, 3074457345618258602)
# Below the ports that the kernel gives to outgoing connections: a killed node must find its own free again.
PORTS = range(18000, 32000)
_SEEN_BY = 300  # tries of a tenth of a second, after which a node that sees not all is started again
# A keyspace of Cassandra's own with three replicas: read from all of them, it shows that each node takes all for alive.
_OF_ALL = "SELECT keyspace_name FROM system_distributed.view_build_status"


class Ring:
    """Nodes that make one cluster, in the order of their addresses."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.port = nodes[0].port

    @property
    def addresses(self) -> list[str]:
        return [node.address for node in self.nodes]

    def start(self) -> None:
        """Start all: the seed first, then the others together; returns when each serves and sees every other."""
        first, *others = self.nodes
        first.start().wait_ready()
        for node in others:
            node.start()
        for node in others:
            node.wait_ready()
        self.wait_whole()

    def wait_whole(self) -> None:
        """Wait until each node takes every other for alive and they agree about the schema. Raises NodeFailed.

        A node that has just started asks each other one whether it lives, once: if the machine is so busy that the
        answer is late, it takes that one for dead for as long as both run (400 s seen). Such a node is started again.
        """
        try:
            self.nodes[0].until(self.whole, _SEEN_BY)
        except NodeFailed:
            blind = [node for node in self.nodes if not self._sees_all(node)]
            if not all(node.running for node in self.nodes) or not blind:
                raise
            for node in blind:
                node.kill()
                node.start().wait_ready()
            self.nodes[0].until(self.whole)

    def whole(self) -> bool:
        """Whether each node takes every other for alive and they agree about the schema."""
        try:
            seen = [len(node.ask("SELECT host_id FROM system.peers_v2", timeout_s=5)) for node in self.nodes]
            schemas = {str(node.ask("SELECT schema_version FROM system.local", timeout_s=5)) for node in self.nodes}
        except (OSError, Refused):
            return False
        agree = seen == [len(self.nodes) - 1] * len(self.nodes) and len(schemas) == 1
        return agree and all(self._sees_all(node) for node in self.nodes)

    def _sees_all(self, node: Node) -> bool:
        """Whether a node takes every other for alive."""
        if len(self.nodes) > 1:
            try:
                node.ask(_OF_ALL, "ALL", timeout_s=5)
            except (OSError, Refused):
                return False
        return True

    def define(self, *statements: str) -> None:
        """Change the schema; returns when all nodes have it. Raises question.Refused and OSError."""
        for statement in statements:
            self.nodes[0].ask(statement)
            self.wait_whole()

    def heal(self) -> None:
        """Whatever was done to its nodes: afterwards all run and see one another."""
        for node in self.nodes:
            if node.running:
                node.resume()
            else:
                node.start()
        for node in self.nodes:
            node.wait_ready()
        self.wait_whole()

    def kill(self) -> None:
        """kill -9 of all nodes, those that are suspended too."""
        for node in self.nodes:
            node.kill()


def place_one(
    folder: Path,
    commitlog_sync: str = "batch",
    native_port: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> Place:
    """Where a single node runs: 127.0.0.1, ports that are free now."""
    storage, jmx, native = free_ports(3)
    port = native_port or native
    return Place(folder, "127.0.0.1", port, storage, jmx, commitlog_sync=commitlog_sync, settings=settings or {})


def place_three(
    folder: Path,
    *,
    announced: Sequence[str | None] = (None, None, None),
    clock_skew_s: Mapping[int, int] | None = None,
    commitlog_sync: str = "group",
    data_centres: Sequence[str] = (DATA_CENTRE,) * 3,
) -> list[Place]:
    """Where three nodes run: 127.0.0.1 to 127.0.0.3, the same ports on each.

    `announced`: per node the address that drivers are told. `clock_skew_s`: how much the clock of which node is ahead.
    `data_centres`: that of each node; each has a seed, so that its nodes can start while the others are lost.
    """
    storage, native, *jmx = free_ports(5)
    seeds = ",".join(f"127.0.0.{data_centres.index(name) + 1}" for name in dict.fromkeys(data_centres))
    return [
        Place(
            folder / f"node{index + 1}",
            f"127.0.0.{index + 1}",
            native,
            storage,
            jmx[index],
            token=TOKENS[index],
            seed=seeds,
            heap_mb=384,
            commitlog_sync=commitlog_sync,
            announced=announced[index],
            clock_skew_s=(clock_skew_s or {}).get(index, 0),
            data_centre=data_centres[index],
        )
        for index in range(3)
    ]


@contextmanager
def running(places: Sequence[Place]) -> Iterator[Ring]:
    """The nodes of these places as a ring that is up; afterwards they are killed, as nobody needs their data."""
    ring = Ring([Node(place) for place in places])
    try:
        ring.start()
        yield ring
    finally:
        ring.kill()


def free_ports(count: int) -> list[int]:
    """That many ports which nobody listens on now at any address, and which the kernel gives to nobody by itself."""
    found: list[int] = []
    while len(found) < count:
        port = secrets.choice(PORTS)
        if port not in found and is_free(port):
            found.append(port)
    return found


def is_free(port: int, address: str = "0.0.0.0") -> bool:
    """Whether a program may listen on that port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that ended are in nobody's way
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
