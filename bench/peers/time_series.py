"""VictoriaMetrics and InfluxDB: databases of samples over HTTP. The workload is loaded summed by its buckets' starts.

A sample of a link is the number of its hits at a moment. What reports hits must sum them itself, or give two hits two
moments.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from time import sleep, time
from typing import Any
from urllib.parse import quote

from bench.peers.hits import MONDAY_S, TOP, WEEK_S, Feed, Question
from bench.peers.over_http import HttpPeer, grouped, json_line
from bench.peers.peer import debian_version
from bench.wrk import Requests
from testing.server import free_port

LOAD_LINES = 10_000


class Victoria(HttpPeer):
    """VictoriaMetrics, single node. A window of its is open at its start: moments are stored 1 ms later."""

    name = "VictoriaMetrics"
    synced = "not synced: what was answered is in memory for some seconds"
    sends = "summed by link and bucket, JSON lines of its own import"
    batch_door = ("/api/v1/import", "application/json")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        flags = ("-retentionPeriod=36", "-search.latencyOffset=0s", "-loggerLevel=ERROR", "-selfScrapeInterval=0")
        place = (f"-storageDataPath={folder / 'data'}", f"-httpListenAddr=127.0.0.1:{self.port}")
        self.runs("victoria-metrics", *place, *flags)

    def version(self) -> str:
        return debian_version("victoria-metrics")

    def load(self, feed: Feed) -> float:
        lines = (_series(key, [(ts * 1_000 + 1, count) for ts, count in hits]) for key, hits in feed.by_link())
        return self.post_each("/api/v1/import", _chunks(lines, LOAD_LINES // 10))

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

    def top(self, since: int, until: int) -> list[tuple[str, int]]:
        asked = quote(f"topk({TOP},sum_over_time(hits[{until - since}s]))")
        found = self.get(f"/api/v1/query?query={asked}&time={until}")["data"]["result"]
        return [(each["metric"]["key"], int(each["value"][1])) for each in found]

    def add(self, key: str, ts: int) -> None:
        self.post("/api/v1/import", _series(key, [(ts * 1_000 + 1, 1)]))

    def single_requests(self, file: Path, keys: Sequence[str]) -> Requests:
        lines = (f'hits{{key="{key}"}} 1' for key in keys)
        return Requests.bodies("/api/v1/import/prometheus", "text/plain", file, lines)

    def batch_body(self, keys: Sequence[str], at: int) -> str:
        return "".join(_series(key, [(moment, 1) for moment in moments]) for key, moments in grouped(keys, at))

    def counted(self) -> int | None:
        """All of today. A question without a time is one of the last whole second; one of years knew new links late."""
        self.get_text("/internal/force_flush")
        asked = quote("sum(sum_over_time(hits[1d]))")
        found = self.get(f"/api/v1/query?query={asked}&time={int(time()) + 10}")["data"]["result"]
        return int(found[0]["value"][1]) if found else 0


class Influx(HttpPeer):
    """InfluxDB 1.x. It syncs its log before it answers, as it comes."""

    name = "InfluxDB"
    synced = "each answer after a sync, as it comes"
    sends = "summed by link and bucket, line protocol, 10,000 lines a batch"
    batch_door = ("/write?db=c&precision=ms", "text/plain")
    alive = "/ping"

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

    def load(self, feed: Feed) -> float:
        lines = (f"hits,key={key} n={count}i {ts}\n" for key, hits in feed.by_link() for ts, count in hits)
        return self.post_each("/write?db=c&precision=s", _chunks(lines, LOAD_LINES))

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

    def add(self, key: str, ts: int) -> None:
        self.post("/write?db=c&precision=s", f"hits,key={key} n=1i {ts}")

    def single_requests(self, file: Path, keys: Sequence[str]) -> Requests:
        return Requests.bodies("/write?db=c", "text/plain", file, (f"hits,key={key} n=1i" for key in keys))

    def batch_body(self, keys: Sequence[str], at: int) -> str:
        return "".join(f"hits,key={key} n=1i {each}\n" for key, moments in grouped(keys, at) for each in moments)

    def counted(self) -> int | None:
        rows = _rows(self.get(self._select("SELECT sum(n) FROM hits")))
        return int(rows[0][1]) if rows else 0


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


def _series(key: str, samples: Sequence[tuple[int, int]]) -> str:
    moments, counts = [at for at, _ in samples], [count for _, count in samples]
    return json_line({"metric": {"__name__": "hits", "key": key}, "values": counts, "timestamps": moments})


def _chunks(lines: Iterable[str], size: int) -> Iterable[str]:
    lines = iter(lines)
    while some := "".join(islice(lines, size)):
        yield some


def _rows(answer: Any) -> list[Any]:
    result = answer["results"][0]
    if "error" in result:
        raise RuntimeError(json.dumps(result))
    return result["series"][0]["values"] if "series" in result else []
