"""Clickcurve as a peer among the others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from bench.ingest import NDJSON
from bench.peers.hits import TOP, Feed, Question
from bench.peers.over_http import HttpPeer
from bench.reads import post
from bench.workload import batch
from bench.wrk import Requests
from testing.client import Clickcurve
from testing.server import RunningServer


class OwnPeer(HttpPeer):
    """The server as users run it, one worker."""

    name = "Clickcurve"
    writes = reads = "HTTP"
    synced = "each answer after a sync"
    sends = "each hit by itself, NDJSON in batches of 100,000"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = RunningServer(folder / "data", port=self.port)

    @classmethod
    def check(cls) -> None:
        return

    def version(self) -> str:
        return version("clickcurve")

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self.disconnect()
        self._server.stop(timeout_s=120.0)

    def kill(self) -> None:
        self.disconnect()
        self._server.kill()

    def pids(self) -> list[int]:
        return [self._server.pid]

    def load(self, feed: Feed) -> float:
        begun = perf_counter()
        with Clickcurve(self.url) as client:
            for body in feed.bodies:
                post(client, body.read_bytes())
        return perf_counter() - begun

    def settle(self) -> None:
        self.stop()
        self.start()
        with Clickcurve(self.url) as client:
            while client.metric("clickcurve_buffered_entries"):
                sleep(0.1)

    def size(self) -> int:
        """The database and what is left of the journal after a clean stop; a running journal is allocated ahead."""
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
        self.post("/v1/hits", json.dumps({"key": key, "ts": ts}).encode())

    def single_requests(self, file: Path, keys: Sequence[str]) -> Requests:
        file.write_text("".join(f"/v1/hits/{key}\n" for key in keys))
        return Requests.paths("POST", file)

    def batch_door(self) -> tuple[str, str]:
        return "/v1/hits", NDJSON

    def batch_body(self, keys: Sequence[str], at: int) -> str:
        return "\n".join(batch(list(keys), at))

    def counted(self) -> int | None:
        return int(self.get("/v1/total")["total"])
