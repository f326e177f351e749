"""Graphite and statsd: lines over TCP and packets over UDP, which nobody answers; what came through is asked later."""

from __future__ import annotations

import json
import pickle
import re
import socket
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle, takewhile
from pathlib import Path
from time import perf_counter

from bench.peers import engines
from bench.peers.hits import Question
from bench.peers.peer import ENVIRONMENT, InProcess, Peer, debian_version
from bench.servers import Started
from testing.server import free_port

_PLACES = "STORAGE_DIR CONF_DIR LOG_DIR PID_DIR"
_SETTINGS = """
    USER= LINE_RECEIVER_INTERFACE=127.0.0.1 PICKLE_RECEIVER_INTERFACE=127.0.0.1 CACHE_QUERY_INTERFACE=127.0.0.1
    MAX_CACHE_SIZE=inf MAX_UPDATES_PER_SECOND=inf MAX_CREATES_PER_MINUTE=inf CARBON_METRIC_INTERVAL=0
    WHISPER_AUTOFLUSH=False ENABLE_UDP_LISTENER=False ENABLE_LOGROTATION=False LOG_LISTENER_CONNECTIONS=False
    LOG_UPDATES=False LOG_CREATES=False LOG_CACHE_QUEUE_SORTS=False"""
_STATSD = ENVIRONMENT / "node_modules" / "statsd"
_SCHEMAS = "[all]\npattern = .*\nretentions = 60s:25h,5m:74h,1h:35d,1d:500d\n"
_AGGREGATION = "[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n"


class Graphite(InProcess):
    """Whisper's files as carbon leaves them, read in process; carbon's own door for hits as they come."""

    engine = engines.Whisper
    writes = "lines over TCP, no answer"
    most_links = engines.FILES

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._lines, self._queries = free_port(), free_port()
        self._added, self._before = "", 0
        ports = (f"LINE_RECEIVER_PORT={self._lines}", f"CACHE_QUERY_PORT={self._queries}")
        places = (*(f"{name}={folder}" for name in _PLACES.split()), f"LOCAL_DATA_DIR={folder}/whisper")
        carbon = ("[cache]", *_SETTINGS.split(), *ports, f"PICKLE_RECEIVER_PORT={free_port()}", *places, "")
        files = {"carbon": "\n".join(carbon), "storage-schemas": _SCHEMAS, "storage-aggregation": _AGGREGATION}
        for name, text in files.items():
            (folder / f"{name}.conf").write_text(text)
        command = ["carbon-cache", f"--config={folder}/carbon.conf", f"--pidfile={folder}/pid", "--nodaemon", "start"]
        self.programs = [*self.programs, Started(command, self.log, partial(_listen, self._lines, self._queries))]

    def version(self) -> str:
        return f"carbon {debian_version('graphite-carbon')}, whisper {super().version()}"

    def kill(self) -> None:
        super().kill()
        self._added = ""

    def size(self) -> int:
        return sum(file.stat().st_size for file in (self.folder / "whisper").glob("*.wsp"))

    def rate(self, batches: Sequence[Sequence[str]], at: int, seconds: float) -> float:
        """Until carbon's memory has the last one, which is asked for by carbon's own door."""
        texts = ["".join(f"{key} 1 {at - index % 240}\n" for index, key in enumerate(some)) for some in batches]
        begun = perf_counter()
        with socket.create_connection(("127.0.0.1", self._lines)) as lines:
            sent = _send_on(lines, [text.encode() for text in texts], seconds) * len(batches[0])
            marker = f"last{sent}"
            lines.sendall(f"{marker} 1 {at}\n".encode())
            while not (self._in_memory(marker) or self._written(marker)):
                pass
        return sent / (perf_counter() - begun)

    def add(self, key: str, ts: int) -> None:
        """A line, waited for until carbon has it in its memory: nothing else is known of it."""
        self._before, self._added = self._written(key), key
        with socket.create_connection(("127.0.0.1", self._lines)) as lines:
            lines.sendall(f"{key} 1 {ts}\n".encode())
        while not (self._in_memory(key) or self._written(key) != self._before):
            pass

    def counted(self) -> int | None:
        """Nothing; but what was added last is in its file afterwards, where it is read."""
        while self._added and (self._in_memory(self._added) or self._written(self._added) == self._before):
            pass  # carbon takes a line out of its memory before it writes the file
        return None

    def _written(self, key: str) -> int:
        file = self.folder / "whisper" / f"{key}.wsp"
        return file.stat().st_mtime_ns if file.exists() else 0

    def _in_memory(self, key: str) -> bool:
        """Whether carbon holds points of this key that are not in its file."""
        asked = pickle.dumps({"type": "cache-query", "metric": key}, protocol=2)
        with socket.create_connection(("127.0.0.1", self._queries)) as queries, queries.makefile("rb") as answers:
            queries.sendall(struct.pack("!L", len(asked)) + asked)
            (length,) = struct.unpack("!L", answers.read(4))
            answer = answers.read(length)
        # The answer is a pickle: it is not opened, a point in it is a pair of floats.
        return b"G" in answer.partition(b"datapoints")[2]


class Statsd(Peer):
    """statsd: counters in memory, handed on and cleared at each interval; it stores nothing itself."""

    name = "statsd"
    writes, reads = "packets over UDP, no answer", "none"
    synced = "not answered, not stored"
    sends = "nothing: it keeps no history"
    keeps = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._desk = free_port()
        ports = f"port: {self.port}, mgmt_port: {self._desk}, address: '127.0.0.1', mgmt_address: '127.0.0.1'"
        (folder / "statsd.js").write_text(f"{{{ports}, flushInterval: 3600000, backends: []}}\n")
        command = ["node", str(_STATSD / "stats.js"), str(folder / "statsd.js")]
        self.programs = [Started(command, self.log, partial(_listen, self._desk))]

    def version(self) -> str:
        return str(json.loads((_STATSD / "package.json").read_text())["version"])

    def _counters(self) -> str:
        with socket.create_connection(("127.0.0.1", self._desk), timeout=30) as desk, desk.makefile() as lines:
            desk.sendall(b"counters")
            return "".join(takewhile("END\n".__ne__, lines))

    def counted(self) -> int | None:
        """The sum of its counters of links."""
        return sum(map(int, re.findall(r"['\"]?k\d+['\"]?: (\d+)", self._counters())))

    def rate(self, batches: Sequence[Sequence[str]], at: int, seconds: float) -> float:
        """Of hits that it counted, of those sent as fast as it goes; the others are lost.

        Packets hold 40 hits at most: some 500 bytes, which every network lets through whole.
        """
        del at
        keys = [f"{key}:1|c" for some in batches for key in some]
        each = min(40, len(batches[0]))
        packets = ["\n".join(keys[start : start + each]).encode() for start in range(0, len(keys), each)]
        before, begun = self.counted() or 0, perf_counter()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.connect(("127.0.0.1", self.port))
            _send_on(out, packets, seconds)
        return ((self.counted() or 0) - before) / (perf_counter() - begun)

    def add(self, key: str, ts: int) -> None:
        del ts
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.sendto(f"{key}:1|c".encode(), ("127.0.0.1", self.port))

    def ask(self, question: Question, key: str) -> list[int] | None:
        """The counter of this interval, which is all that it has."""
        found = re.search(rf"['\"]?{key}['\"]?: (\d+)", self._counters())
        return [int(found[1]) if found else 0] if question.points == 1 else None


def _listen(*ports: int) -> bool:
    """Says whether somebody listens on each of these."""
    with suppress(OSError):
        for port in ports:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    return False


def _send_on(out: socket.socket, texts: Iterable[bytes], seconds: float) -> int:
    """Sends these in turn for so long; returns how many."""
    turns, begun, sent = cycle(texts), perf_counter(), 0
    while perf_counter() - begun <= seconds:
        out.sendall(next(turns))
        sent += 1
    return sent
