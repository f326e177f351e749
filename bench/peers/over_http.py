"""Peers that are asked over HTTP: wrk drives them, one kept connection asks for answers that are compared.

VictoriaMetrics and InfluxDB are databases of samples, loaded summed by the starts of buckets: a sample of a link is the
number of its hits at a moment. What reports hits must sum them itself, or give two hits two moments.
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter, sleep, time
from typing import Any
from urllib.parse import quote

from bench.ingest import NDJSON
from bench.load import by_body, by_path, drive, request, written
from bench.measure import Percentiles
from bench.peers.hits import MONDAY_S, TOP, WEEK_S, Feed, Question
from bench.peers.peer import Peer, debian_version
from bench.reads import post, wait_flushed
from bench.servers import Started, answers
from bench.workload import batch
from testing.client import Clickcurve, http_client
from testing.server import command, free_port

WRITERS, BATCH_WRITERS = 32, 4
LARGE = 100_000  # hits of a batch
Sample = tuple[int, int]  # a moment in ms, and the hits of a link then


class HttpPeer(Peer):
    """What is the same for servers over HTTP; each names its paths and bodies."""

    writes = reads = "HTTP"
    batch_door: tuple[str, str]  # path and content type of batches
    alive = "/health"  # answered as soon as the server is ready
    sent = 0  # single hits of the last turn that were answered

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = f"http://127.0.0.1:{self.port}"

    def runs(self, *command: str, **settings: str) -> None:
        """Says what its program is, with these environment variables."""
        self.programs = [Started(command, self.log, lambda: answers(self.url + self.alive), settings)]

    @abstractmethod
    def path(self, question: Question, key: str) -> str:
        """Returns path and query of a question."""

    @abstractmethod
    def counts(self, question: Question, answer: Any) -> list[int]:
        """Returns the answer's counts, one a step."""

    @abstractmethod
    def single(self, key: str) -> bytes:
        """Returns the request of one hit now."""

    @abstractmethod
    def batch_body(self, keys: Sequence[str], at: int) -> str: ...

    def start(self) -> None:
        super().start()
        self.http = self.connected.enter_context(http_client(self.url, timeout_s=120.0))

    def get(self, path: str) -> Any:
        return self.http.get(path).raise_for_status().json()

    def post(self, body: str) -> None:
        """Posts a batch."""
        path, media = self.batch_door
        self.http.post(path, content=body, headers={"Content-Type": media}).raise_for_status()

    def ask(self, question: Question, key: str) -> list[int] | None:
        return self.counts(question, self.get(self.path(question, key)))

    def latency(self, question: Question, keys: Sequence[str], seconds: float) -> Percentiles:
        paths = (self.path(question, key) for key in keys)
        return drive(self.url, by_path("GET", self._file("paths"), paths), 1, seconds).took

    def rate(self, batches: Sequence[Sequence[str]], at: int, seconds: float) -> float:
        size, (path, media) = len(batches[0]), self.batch_door
        if size == 1:
            singles = written(self._file("singles"), (self.single(key) for (key,) in batches))
            run = drive(self.url, singles, WRITERS, max(2, seconds))
            self.sent = run.requests
            return run.per_s
        bodies = [self.batch_body(keys, at) for keys in batches]
        for body in bodies:  # a link's first hit costs some of them much more than the next
            self.post(body)
        if size >= LARGE:
            return size * self._posted([body.encode() for body in bodies], seconds)
        return size * drive(self.url, by_body(path, media, self._file("batch"), bodies), BATCH_WRITERS, seconds).per_s

    def _posted(self, bodies: Sequence[bytes], seconds: float) -> float:
        """Returns bodies a second until each that was begun is answered: wrk counts whole answers, which are few."""
        turns, begun, (path, media) = cycle(bodies), perf_counter(), self.batch_door

        def post_on(_: int) -> int:
            answered = 0
            with http_client(self.url, timeout_s=120.0) as http:
                while not answered or perf_counter() - begun < seconds:
                    http.post(path, content=next(turns), headers={"Content-Type": media}).raise_for_status()
                    answered += 1
            return answered

        with ThreadPoolExecutor(BATCH_WRITERS) as writers:
            answered = sum(writers.map(post_on, range(BATCH_WRITERS)))
        return answered / (perf_counter() - begun)

    def _file(self, name: str) -> Path:
        """Returns a file of requests, outside of what is measured as the peer's."""
        return self.folder.parent / f"{self.folder.name}-{name}.txt"


class OwnPeer(HttpPeer):
    """Clickcurve, one worker, as users run it."""

    name = "Clickcurve"
    synced = "each answer after a sync"
    sends = "each hit by itself, NDJSON in batches of 100,000"
    batch_door = ("/v1/hits", NDJSON)
    alive = "/readyz"

    def __init__(self, folder: Path, *flags: str) -> None:
        super().__init__(folder)
        self.runs(*command("serve", "--data", str(folder / "data"), "--port", str(self.port), *flags))

    def version(self) -> str:
        return version("clickcurve")

    def load(self, feed: Feed) -> float:
        begun = perf_counter()
        with Clickcurve(self.url) as client:
            for body in feed.bodies:
                post(client, body.read_bytes())
        return perf_counter() - begun

    def settle(self) -> None:
        super().settle()
        with Clickcurve(self.url) as client:
            wait_flushed(client)

    def size(self) -> int:
        """Returns the bytes of database and journal after a clean stop; a running journal is allocated ahead."""
        self.stop()
        size = super().size()
        self.start()
        return size

    def path(self, question: Question, key: str) -> str:
        if question.points == 1:
            return f"/v1/links/{key}/total"
        step = {60: "1m", 300: "5m", 86_400: "1d", 604_800: "1w"}[question.step_s]
        return f"/v1/links/{key}/curve?from={question.start}&to={question.end}&step={step}"

    def counts(self, question: Question, answer: Any) -> list[int]:
        if question.points == 1:
            return [answer["total"]]
        return question.counts((max(point["start"], question.start), point["count"]) for point in answer["points"])

    def top(self, since: int, until: int) -> list[tuple[str, int]]:
        days = (until - since) // 86_400
        last = f"&last={days}d" if days <= 7 else ""
        return [(link["key"], link["count"]) for link in self.get(f"/v1/links?sort=hits&limit={TOP}{last}")["links"]]

    def add(self, key: str, ts: int) -> None:
        self.post(*batch([key], ts))

    def single(self, key: str) -> bytes:
        return request("POST", f"/v1/hits/{key}")

    def batch_body(self, keys: Sequence[str], at: int) -> str:
        return "\n".join(batch(keys, at))

    def counted(self) -> int:
        return int(self.get("/v1/total")["total"])


class Samples(HttpPeer):
    """A database of samples, which takes lines of them."""

    lines_at_once: int

    @abstractmethod
    def lines(self, key: str, samples: Sequence[Sample]) -> Iterator[str]:
        """Yields the lines that say how many hits a link had at some moments."""

    def add(self, key: str, ts: int) -> None:
        self.post("".join(self.lines(key, [(ts * 1_000, 1)])))

    def batch_body(self, keys: Sequence[str], at: int) -> str:
        """No two hits of a link have the same moment."""
        moments: dict[str, list[Sample]] = {}
        for index, key in enumerate(keys):
            moments.setdefault(key, []).append(((at - index % 240) * 1_000 + index // 240 % 999, 1))
        return "".join(line for key, samples in moments.items() for line in self.lines(key, samples))

    def load(self, feed: Feed) -> float:
        """The seconds are those of answers, without the making of bodies."""
        lines, took_s = self._all_lines(feed), 0.0
        while body := "".join(islice(lines, self.lines_at_once)):
            begun = perf_counter()
            self.post(body)
            took_s += perf_counter() - begun
        return took_s

    def _all_lines(self, feed: Feed) -> Iterator[str]:
        for key, hits in feed.by_link():
            yield from self.lines(key, [(ts * 1_000, count) for ts, count in hits])


class Victoria(Samples):
    """VictoriaMetrics, single node. A window of its is open at its start: moments are stored 1 ms later."""

    name = "VictoriaMetrics"
    synced = "not synced: what was answered is in memory for some seconds"
    sends = "summed by link and bucket, JSON lines of its own import"
    batch_door = ("/api/v1/import", "application/json")
    lines_at_once = 1_000

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        flags = ("-retentionPeriod=36", "-search.latencyOffset=0s", "-loggerLevel=ERROR", "-selfScrapeInterval=0")
        place = (f"-storageDataPath={folder / 'data'}", f"-httpListenAddr=127.0.0.1:{self.port}")
        self.runs("victoria-metrics", *place, *flags)

    def version(self) -> str:
        return debian_version("victoria-metrics")

    def lines(self, key: str, samples: Sequence[Sample]) -> Iterator[str]:
        moments, counts = [at + 1 for at, _ in samples], [count for _, count in samples]
        series = {"metric": {"__name__": "hits", "key": key}, "values": counts, "timestamps": moments}
        yield json.dumps(series, separators=(",", ":")) + "\n"

    def settle(self) -> None:
        """Merged; one that is told to end during a forced merge breaks down and loses what it has loaded."""
        self.get_text("/internal/force_flush")
        self.get_text("/internal/force_merge")
        sleep(0.5)  # the merge is answered before it has begun
        while "vm_active_force_merges 0\n" not in self.get_text("/metrics"):
            sleep(0.1)
        super().settle()

    def get_text(self, path: str) -> str:
        return self.http.get(path).raise_for_status().text

    def path(self, question: Question, key: str) -> str:
        asked = quote(f'sum_over_time(hits{{key="{key}"}}[{question.step_s}s])')
        if question.points == 1:
            return f"/api/v1/query?query={asked}&time={question.end}"
        # What is remembered of answers is aligned to the step from the epoch: no week begins there.
        kept = "&nocache=1" if question.step_s == WEEK_S else ""
        times = f"start={question.start + question.step_s}&end={question.end}&step={question.step_s}"
        return f"/api/v1/query_range?query={asked}&{times}{kept}"

    def counts(self, question: Question, answer: Any) -> list[int]:
        series = answer["data"]["result"]
        if question.points == 1:
            return [int(series[0]["value"][1]) if series else 0]
        values = series[0]["values"] if series else []
        return question.counts((int(at) - question.step_s, int(value)) for at, value in values)

    def _query(self, asked: str, at: int) -> list[Any]:
        found: list[Any] = self.get(f"/api/v1/query?query={quote(asked)}&time={at}")["data"]["result"]
        return found

    def top(self, since: int, until: int) -> list[tuple[str, int]]:
        found = self._query(f"topk({TOP},sum_over_time(hits[{until - since}s]))", until)
        return [(each["metric"]["key"], int(each["value"][1])) for each in found]

    def single(self, key: str) -> bytes:
        return request("POST", "/api/v1/import/prometheus", f'hits{{key="{key}"}} 1', "text/plain")

    def counted(self) -> int | None:
        """All of today. A question without a time is one of the last whole second; one of years knew new links late."""
        self.get_text("/internal/force_flush")
        found = self._query("sum(sum_over_time(hits[1d]))", int(time()) + 10)
        return int(found[0]["value"][1]) if found else 0


class Influx(Samples):
    """InfluxDB 1.x. It syncs its log before it answers, as it comes."""

    name = "InfluxDB"
    synced = "each answer after a sync, as it comes"
    sends = "summed by link and bucket, line protocol, 10,000 lines a batch"
    batch_door = ("/write?db=c&precision=ms", "text/plain")
    alive = "/ping"
    lines_at_once = 10_000

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        settings = {f"{name}_DIR": str(folder / name.lower()) for name in ("META", "DATA", "DATA_WAL")}
        settings |= {"BIND_ADDRESS": f"127.0.0.1:{free_port()}", "HTTP_BIND_ADDRESS": f"127.0.0.1:{self.port}"}
        environment = {f"INFLUXDB_{name}": value for name, value in (_INFLUX | settings).items()}
        self.runs("influxd", "-config", os.devnull, **environment)

    def version(self) -> str:
        return debian_version("influxdb")

    def start(self) -> None:
        super().start()
        database = {"q": 'CREATE DATABASE c WITH SHARD DURATION 26w NAME "all"'}
        self.http.post("/query", params=database).raise_for_status()

    def lines(self, key: str, samples: Sequence[Sample]) -> Iterator[str]:
        return (f"hits,key={key} n={count}i {at}\n" for at, count in samples)

    def _select(self, asked: str) -> str:
        return f"/query?db=c&epoch=s&q={quote(asked)}"

    def path(self, question: Question, key: str) -> str:
        times = f"time >= {question.start}s AND time < {question.end}s"
        asked = f"SELECT sum(n) FROM hits WHERE \"key\"='{key}' AND {times}"
        if question.points > 1:
            offset = f",{MONDAY_S}s" if question.step_s == WEEK_S else ""
            asked += f" GROUP BY time({question.step_s}s{offset}) fill(none)"
        return self._select(asked)

    def counts(self, question: Question, answer: Any) -> list[int]:
        rows = _rows(answer)
        if question.points == 1:
            return [rows[0][1] if rows else 0]
        return question.counts((at, count) for at, count in rows if count is not None)

    def top(self, since: int, until: int) -> list[tuple[str, int]]:
        sums = f'SELECT sum(n) AS s FROM hits WHERE time >= {since}s AND time < {until}s GROUP BY "key"'
        rows = _rows(self.get(self._select(f'SELECT top(s,"key",{TOP}) FROM ({sums})')))
        return [(key, count) for _, count, key in rows]

    def single(self, key: str) -> bytes:
        return request("POST", "/write?db=c", f"hits,key={key} n=1i", "text/plain")

    def counted(self) -> int | None:
        rows = _rows(self.get(self._select("SELECT sum(n) FROM hits")))
        return int(rows[0][1]) if rows else 0


def _rows(answer: Any) -> list[Any]:
    result = answer["results"][0]
    if "error" in result:
        raise RuntimeError(json.dumps(result))
    return result["series"][0]["values"] if "series" in result else []


_INFLUX = {
    "REPORTING_DISABLED": "true",
    "DATA_INDEX_VERSION": "tsi1",
    "DATA_MAX_VALUES_PER_TAG": "0",
    "DATA_MAX_SERIES_PER_DATABASE": "0",
    "DATA_QUERY_LOG_ENABLED": "false",
    "DATA_CACHE_MAX_MEMORY_SIZE": "4g",
    "MONITOR_STORE_ENABLED": "false",
    "HTTP_LOG_ENABLED": "false",
    "SUBSCRIBER_ENABLED": "false",
    "CONTINUOUS_QUERIES_ENABLED": "false",
    "LOGGING_LEVEL": "error",
}
