"""One engine in a process of its own: `python -m bench.peers.engines NAME FOLDER`. A line of JSON in, a line out."""

from __future__ import annotations

import gc
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from itertools import cycle
from time import perf_counter, time
from typing import Any

from bench.peers.engines.engine import Engine

ENGINES = {
    "sqlite-rows": "bench.peers.engines.sqlite_rows:Rows",
    "sqlite-hours": "bench.peers.engines.sqlite_rows:Hours",
    "duckdb": "bench.peers.engines.columns:Duck",
    "clickhouse": "bench.peers.engines.columns:ClickHouse",
    "whisper": "bench.peers.engines.whisper_files:Whisper",
}


class Desk:
    """Does what is asked of the engine, with the clock beside it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def version(self) -> str:
        return self._engine.version()

    def load(self, raw: str, summed: str) -> float:
        begun = perf_counter()
        self._engine.load(raw, summed)
        return perf_counter() - begun

    def settle(self) -> None:
        self._engine.settle()

    def counts(self, key: str, start: int, end: int, step_s: int) -> list[int] | None:
        return self._engine.counts(key, start, end, step_s)

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]] | None:
        return self._engine.top(since, until, most)

    def add(self, key: str, ts: int) -> None:
        self._engine.add(key, ts)

    def counted(self) -> int | None:
        return self._engine.counted()

    def latency(self, keys: Sequence[str], seconds: float, start: int, end: int, step_s: int) -> list[float]:
        """Milliseconds of each question within so many seconds."""
        took_ms: list[float] = []
        until = perf_counter() + seconds
        for key in cycle(keys):
            begun = perf_counter()
            self._engine.counts(key, start, end, step_s)
            done = perf_counter()
            took_ms.append((done - begun) * 1_000)
            if done > until:
                break
        return took_ms

    def singles(self, keys: Sequence[str], seconds: float) -> float:
        """Hits a second, each by itself."""
        now = int(time()) // 60 * 60
        return _per_s(keys, lambda key: self._engine.add(key, now), seconds)

    def batches(self, keys: Sequence[Sequence[str]], at: int, seconds: float) -> float:
        """Hits a second in batches."""
        moments = [[at - index % 240 for index in range(len(some))] for some in keys]
        pairs = list(zip(keys, moments, strict=True))
        return _per_s(pairs, lambda pair: self._engine.add_many(*pair), seconds) * len(keys[0])


def _per_s(turns: Sequence[Any], do: Callable[[Any], None], seconds: float) -> float:
    begun, done = perf_counter(), 0
    for turn in cycle(turns):
        do(turn)
        done += 1
        if perf_counter() - begun > seconds:
            break
    return done / (perf_counter() - begun)


def main(name: str, folder: str) -> None:
    module, _, kind = ENGINES[name].partition(":")
    desk = Desk(getattr(importlib.import_module(module), kind)(folder))
    gc.freeze()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        verb, arguments = json.loads(line)
        print(json.dumps(getattr(desk, verb)(*arguments)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
