"""Real servers of other programs on free loopback ports: Redis and memcached, as Debian has them. Started, waited for,
suspended and killed by their own process ids; what they keep is in memory and goes with them.

    with redis_server() as server:
        RedisBackend(server.url)
        server.kill(); server.start(); server.suspend(); server.resume()

`shared_redis()`, `shared_redis_cluster()` and `shared_memcached()` are one each for all tests of a run that leave it as
it is: they get it empty. No server outlives the tests, however those end.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TypeVar

from testing.lifeline import spawn
from testing.server import TRIES, TRY_EVERY_S, free_port, plain_environment, wait_until

Command = Callable[[Path, int], list[str]]
ASK_WITHIN_S = 5.0
SLOTS = 16_384
Kept = TypeVar("Kept", "Served", "RedisCluster")


class Served:
    """A server on 127.0.0.1 that speaks lines. ping and pong: what it is asked, and answers, when it is ready. wipe:
    what makes it forget everything."""

    def __init__(self, command: Command, scheme: str, folder: Path, ping: bytes, pong: bytes, wipe: bytes) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"{scheme}://{self.address}"
        self._command = command(folder, self.port)
        self._log = folder / "log"
        self._ping, self._pong, self._wipe = ping, pong, wipe
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, on the same port as before, and wait until it answers."""
        self._process = spawn(self._command, self._log, plain_environment())
        wait_until(
            self._answers,
            self._process,
            lambda why: AssertionError(f"{self._command[0]} {why}:\n{self._log.read_text()[-4000:]}"),
        )

    def kill(self) -> None:
        """kill -9, if it still runs; it is gone when this returns."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def suspend(self) -> None:
        """From now on it keeps its connections, is given new ones, and answers nothing."""
        self._tell(signal.SIGSTOP)

    def resume(self) -> None:
        self._tell(signal.SIGCONT)

    def _tell(self, number: int) -> None:
        assert self._process is not None, "it does not run"
        self._process.send_signal(number)

    def ask(self, line: bytes) -> bytes:
        """What it answers first to a line of its protocol, on a connection of its own."""
        with socket.create_connection(("127.0.0.1", self.port), ASK_WITHIN_S) as talking:
            talking.sendall(line + b"\r\n")
            return talking.recv(65_536)

    def empty(self) -> None:
        assert self.ask(self._wipe).strip() in (b"+OK", b"OK")

    def _answers(self) -> bool:
        try:
            return self.ask(self._ping).startswith(self._pong)
        except OSError:
            return False


def _redis(folder: Path, port: int) -> list[str]:
    # Nothing is written to the disk: what it counted goes with it.
    quiet = ["--save", "", "--appendonly", "no", "--dir", str(folder)]
    return [_program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", *quiet]


def _memcached(folder: Path, port: int) -> list[str]:
    # It refuses to run as root unless a user is named.
    user = ["-u", "root"] if os.getuid() == 0 else []
    return [_program("memcached"), "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-m", "64", *user]


def _program(name: str) -> str:
    program = shutil.which(name)
    assert program is not None, f"{name} is missing: install the package of this name"
    return program


@contextmanager
def redis_server(*flags: str) -> Iterator[Served]:
    def command(folder: Path, port: int) -> list[str]:
        return [*_redis(folder, port), *flags]

    with TemporaryDirectory(prefix="redis-") as folder:
        yield from _running(Served(command, "redis", Path(folder), b"PING", b"+PONG", b"FLUSHALL"))


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate for this machine that signs itself, in files."""

    key: Path
    file: Path

    @classmethod
    def made(cls, folder: Path) -> Certificate:
        own = cls(folder / "key", folder / "certificate")
        make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
        names = "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"
        files = "-keyout", own.key, "-out", own.file
        subprocess.run([*make.split(), *names, *files], check=True, capture_output=True)
        return own

    def flags(self, port: int) -> tuple[str, ...]:
        """What makes a Redis take connections by TLS on a port, of clients that have no certificate."""
        files = "--tls-key-file", str(self.key), "--tls-cert-file", str(self.file), "--tls-ca-cert-file", str(self.file)
        return "--tls-port", str(port), "--tls-auth-clients", "no", *files


class RedisCluster:
    """Nodes of a Redis Cluster, each with an equal share of the slots, and replicas of the first of them.

    url: by its first two nodes. tls_ports: of all nodes, which then talk to each other by TLS too.
    """

    def __init__(self, nodes: list[Served], replicas: list[Served], tls_ports: list[int] | None) -> None:
        self.nodes, self.replicas = nodes, replicas
        self._first_port = tls_ports[0] if tls_ports else nodes[0].port
        self.url = f"redis+cluster://{nodes[0].address},{nodes[1].address}"
        if tls_ports:
            self.url = f"rediss+cluster://127.0.0.1:{tls_ports[0]},127.0.0.1:{tls_ports[1]}"

    def join(self) -> None:
        share = -(-SLOTS // len(self.nodes))
        every = [*self.nodes, *self.replicas]
        for n, node in enumerate(self.nodes):
            last = min((n + 1) * share, SLOTS) - 1
            assert node.ask(b"CLUSTER ADDSLOTSRANGE %d %d" % (n * share, last)).startswith(b"+OK")
        met = b"CLUSTER MEET 127.0.0.1 %d %d" % (self._first_port, _bus_port(self.nodes[0]))
        for node in every[1:]:
            assert node.ask(met).startswith(b"+OK")
        whole = (b"cluster_state:ok", b"cluster_slots_ok:%d" % SLOTS, b"cluster_known_nodes:%d" % len(every))
        _until(lambda: all(all(each in node.ask(b"CLUSTER INFO") for each in whole) for node in every))
        for replica, primary in zip(self.replicas, self.nodes, strict=False):
            name = primary.ask(b"CLUSTER MYID").split(b"\r\n")[1]
            assert replica.ask(b"CLUSTER REPLICATE " + name).startswith(b"+OK")
            _until(lambda: b"master_link_status:up" in replica.ask(b"INFO replication"))  # noqa: B023

    def move(self, slot: int, to: Served) -> None:
        """Gives an empty slot to another node; each node knows it when this returns."""
        name = to.ask(b"CLUSTER MYID").split(b"\r\n")[1]
        for node in [to, *(each for each in self.nodes if each is not to)]:
            assert node.ask(b"CLUSTER SETSLOT %d NODE %b" % (slot, name)).startswith(b"+OK")

    def empty(self) -> None:
        for node in self.nodes:
            node.empty()


def _until(holds: Callable[[], bool]) -> None:
    never = Event()
    for _ in range(TRIES):
        if holds():
            return
        never.wait(TRY_EVERY_S)
    raise AssertionError("the nodes of the cluster never joined")


def _bus_port(node: Served) -> int:
    """The port by which nodes talk, which Redis adds to what each tells of itself."""
    told = re.search(rb":[0-9]+@([0-9]+)", node.ask(b"CLUSTER NODES"))
    assert told is not None
    return int(told[1])


@contextmanager
def redis_cluster(many: int = 3, replicas: int = 0, certificate: Certificate | None = None) -> Iterator[RedisCluster]:
    """certificate: of each node; then its clients and the other nodes may reach it by TLS."""
    # A lost node does not stop the others: what it had is what is lost.
    flags = ("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no", "--cluster-node-timeout", "2000")
    tls_ports = None if certificate is None else [free_port() for _ in range(many + replicas)]
    with ExitStack() as stack:
        nodes = []
        for n in range(many + replicas):
            tls: tuple[str, ...] = ()
            if certificate is not None and tls_ports is not None:
                tls = *certificate.flags(tls_ports[n]), "--tls-cluster", "yes"
            # Its other port would be 10,000 higher, and there may be none.
            nodes.append(stack.enter_context(redis_server(*flags, "--cluster-port", str(free_port()), *tls)))
        cluster = RedisCluster(nodes[:many], nodes[many:], tls_ports)
        cluster.join()
        yield cluster


@contextmanager
def sentinels(name: str, primary: Served, many: int = 3, password: str = "") -> Iterator[list[Served]]:
    """So many sentinels that watch a primary under this name, and agree within a second that it is gone."""

    def command(folder: Path, port: int) -> list[str]:
        watched = f"sentinel monitor {name} 127.0.0.1 {primary.port} {many // 2 + 1}"
        quick = (f"sentinel down-after-milliseconds {name} 700", f"sentinel failover-timeout {name} 5000")
        login = (f"requirepass {password}",) if password else ()
        file = folder / "sentinel.conf"
        file.write_text("\n".join((f"port {port}", "bind 127.0.0.1", f"dir {folder}", watched, *quick, *login, "")))
        return [_program("redis-server"), str(file), "--sentinel"]

    with ExitStack() as stack:
        running = []
        for _ in range(many):
            folder = stack.enter_context(TemporaryDirectory(prefix="sentinel-"))
            pong = b"-NOAUTH" if password else b"+PONG"
            server = Served(command, "redis", Path(folder), b"PING", pong, b"")
            stack.callback(server.kill)
            server.start()
            running.append(server)
        yield running


@contextmanager
def memcached_server(*flags: str) -> Iterator[Served]:
    def command(folder: Path, port: int) -> list[str]:
        return [*_memcached(folder, port), *flags]

    with TemporaryDirectory(prefix="memcached-") as folder:
        yield from _running(Served(command, "memcached", Path(folder), b"version", b"VERSION", b"flush_all"))


def _running(server: Served) -> Iterator[Served]:
    try:
        server.start()
        yield server
    finally:
        server.kill()


def shared_redis() -> Served:
    return _emptied(redis_server)


def shared_redis_cluster() -> RedisCluster:
    return _emptied(redis_cluster)


def shared_memcached() -> Served:
    return _emptied(memcached_server)


def _emptied(kind: Callable[[], AbstractContextManager[Kept]]) -> Kept:
    server: Kept = _kept(kind)
    server.empty()
    return server


@cache
def _kept(kind: Callable[[], AbstractContextManager[Kept]]) -> Kept:
    """One of this kind, which is ended when this process ends."""
    running = kind()
    server: Kept = running.__enter__()
    atexit.register(running.__exit__, None, None, None)
    return server
