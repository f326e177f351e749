"""Clickcurve as a peer among the others."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.ingest import NDJSON
from bench.peers.hits import TOP, Feed, Question
from bench.peers.over_http import HttpPeer, json_line
from bench.reads import post, wait_flushed
from bench.workload import batch
from bench.wrk import Requests
from testing.client import Clickcurve
from testing.server import command


class OwnPeer(HttpPeer):
    """The server as users run it, one worker."""

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
        self.post("/v1/hits", json_line({"key": key, "ts": ts}))

    def single_requests(self, file: Path, keys: Sequence[str]) -> Requests:
        return Requests.paths("POST", file, (f"/v1/hits/{key}" for key in keys))

    def batch_body(self, keys: Sequence[str], at: int) -> str:
        return "\n".join(batch(list(keys), at))

    def counted(self) -> int:
        return int(self.get("/v1/total")["total"])
