"""Graphite's whisper: a file of fixed size for each link, with archives of several widths that overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from time import time

import whisper

from bench.peers.engines.engine import lines_of

# (seconds a point, points): what Clickcurve keeps, with days in place of weeks, which whisper begins on Thursdays.
ARCHIVES = [(60, 1_500), (300, 888), (3_600, 840), (86_400, 500)]


class Whisper:
    """Files written by the library, as carbon writes them; the popular links alone, for a file takes 45 kB."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder) / "whisper"
        self._folder.mkdir(exist_ok=True)

    def version(self) -> str:
        return version("whisper")

    def load(self, raw: str, summed: str) -> None:
        """`raw` names the links that are loaded, one a line."""
        loaded = set(Path(raw).read_text().split())
        for key, rows in groupby(lines_of(summed), lambda row: row[0]):
            if key in loaded:
                whisper.update_many(str(self._file(key)), [(int(ts), int(n)) for _, ts, n in rows])

    def settle(self) -> None:
        return

    def _file(self, key: str) -> Path:
        file = self._folder / f"{key}.wsp"
        if not file.exists():
            whisper.create(str(file), ARCHIVES, xFilesFactor=0.0, aggregationMethod="sum")
        return file

    def counts(self, key: str, start: int, end: int, step_s: int) -> list[int] | None:
        counts = [0] * ((end - start) // step_s)
        for at, n in self._points(self._folder / f"{key}.wsp", start, end):
            counts[(at - start) // step_s] += n
        return counts

    def _points(self, file: Path, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Points of the finest archive that reaches back to `start`; a range excludes its start, whisper's way."""
        if not file.exists():
            return
        now = int(time())
        found = whisper.fetch(str(file), max(start - 1, now - 86_400 * 499), min(end, now), now)
        if found is None:
            return
        (first, _, width), values = found
        for number, n in enumerate(values):
            at = first + number * width
            if n is not None and start <= at < end:
                yield at, int(n)

    def top(self, since: int, until: int, most: int) -> list[tuple[str, int]] | None:
        sums = ((file.stem, sum(n for _, n in self._points(file, since, until))) for file in self._folder.iterdir())
        return sorted(sums, key=lambda link: (-link[1], link[0]))[:most]

    def add(self, key: str, ts: int) -> None:
        whisper.update_many(str(self._file(key)), [(ts, 1)])

    def add_many(self, keys: Sequence[str], moments: Sequence[int]) -> None:
        by_key: dict[str, list[tuple[int, int]]] = {}
        for key, ts in zip(keys, moments, strict=True):
            by_key.setdefault(key, []).append((ts, 1))
        for key, points in by_key.items():
            whisper.update_many(str(self._file(key)), points)

    def counted(self) -> int | None:
        return None
