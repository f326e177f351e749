"""Breakdowns of links by what their visitors say: which values are kept, and the file of a year of hits."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate, chain
from pathlib import Path

from bench.command import Options
from bench.inside import Owned, read, reader_of
from bench.measure import Line
from bench.workload import ATTRIBUTES, LANGUAGES, Visitors, age_s, drawn, values, zipf
from clickcurve.buckets.breakdowns.answers import breakdown_total
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BreakdownDelta, fold_breakdown, greatest_values
from clickcurve.buckets.breakdowns.parts import Parts, apply_parts, decode_parts
from clickcurve.buckets.ladder import DAY_S, HOUR_S, fold_day
from clickcurve.keys import ALL_LINKS, breakdown_of
from clickcurve.row_kinds.table import kind_of

NOW = 1_783_000_000
DAY = fold_day(NOW)
TOP = 20
Hits = Iterator[tuple[int, str]]
DIMENSIONS = ("ref", "country", "device", "browser", "os", "lang", "source")
DAYS, END, BATCH = 400, 1_767_268_800, 1_000


def link(hits: int, dimensions: Sequence[str], seed: int, now: int = NOW, mark: int = 1_200) -> Parts:
    """Returns a link's breakdown after so many hits of 400 days."""
    chance, day = random.Random(seed), fold_day(now)
    times = [now - 60 - age_s(chance) for _ in range(hits)]
    said: dict[str, dict[int, Counter[str]]] = {name: {} for name in dimensions}
    for name in dimensions:
        for t, value in zip(times, values(name, hits, chance), strict=True):
            said[name].setdefault(t // HOUR_S * HOUR_S, Counter())[value] += 1
    visitors: dict[int, set[int]] = {}
    for t in times:
        if t >= (day - 1) * DAY_S:
            visitors.setdefault(t // DAY_S * DAY_S, set()).add(chance.getrandbits(40))
    return apply_parts(None, BreakdownDelta(said, visitors), mark, day, 0, BREAKDOWN)


# --- which values are kept --------------------------------------------------------------------------------------------
def heavy_hitters(options: Options) -> Iterator[Line]:
    """Which referrers of a hot link's 400 days are kept, flushed hour by hour, beside an exact count.

    steady; attack: every second hit names a host of its own.
    """
    for name, change in (("steady", iter), ("attack", _attack)):
        counted: dict[int, Counter[str]] = {}
        for t, value in change(_referrers(options.of(500_000))):
            counted.setdefault(t // HOUR_S * HOUR_S, Counter())[value] += 1
        parts: Parts | None = None
        for mark, (hour, some) in enumerate(sorted(counted.items()), 1):
            parts = apply_parts(parts, BreakdownDelta({"ref": {hour: some}}), mark, fold_day(hour), 0, BREAKDOWN)
        if parts is None:
            raise AssertionError("no hit was recorded")
        for what, start in (("life", 0), ("30 days", (DAY - 30) * DAY_S)):
            yield _kept_line(f"{name}, {what}", parts, counted, start)


def _kept_line(what: str, parts: Parts, counted: dict[int, Counter[str]], start: int) -> Line:
    found = breakdown_total(fold_breakdown(decode_parts(parts), DAY, BREAKDOWN), "ref", start, NOW + 1, BREAKDOWN)
    truth: Counter[str] = Counter()
    for hour, some in counted.items():
        if found.start <= hour < found.end:
            truth.update(some)
    best = sorted((value for value in truth if value), key=lambda value: (-truth[value], value))[:TOP]
    shown = [value for value in greatest_values(found.values, TOP + 1) if value][:TOP]
    worst = max((1 - found.values.get(value, 0) / truth[value] for value in best), default=0.0)
    total = max(1, truth.total())
    shares = f"{truth.total():,} hits, other {found.other / total:.1%}, slack {found.slack / total:.2%}"
    row = f"row of {len(parts.open) + len(parts.closed):,} B"
    figure = f"{len(set(best) & set(shown))} of the top {TOP} found"
    return Line(what, figure, f"{len(truth):,} distinct; {shares}; one lacks {worst:.1%} at most; {row}")


def _referrers(hits: int) -> Hits:
    chance = random.Random(5)
    times = sorted(NOW - 60 - age_s(chance) for _ in range(hits))
    return zip(times, values("ref", hits, random.Random(6)), strict=True)


def _attack(hits: Hits) -> Hits:
    for at, (t, value) in enumerate(hits):
        yield t, f"h{at:x}.example" if at % 2 else value


# --- the file of a year -----------------------------------------------------------------------------------------------
def breakdown_file(options: Options) -> Iterator[Line]:
    """The file of a year by the number of dimensions, flushed at each day's end; a last pass folds what fell quiet.

    Each `--every`-th link by popularity with the hits that it has among all 10 million: rows are as large as in the
    whole. Bytes after a checkpoint, without the journal. Times of flushes are processor time.
    """
    for width in (0, 3, 5, 7):
        data, reader = options.folder / str(width), reader_of(*DIMENSIONS[:width])
        file, met, spent_s = Owned.of_file(data, END - (DAYS + 1) * DAY_S), {ALL_LINKS}, 0.0
        for now, hits in chain(_days_of_hits(options), [(END + DAY_S, [])]):
            file.now = now
            for start in range(0, len(hits), BATCH):
                file.take(read(json.dumps(hits[start : start + BATCH]).encode(), now, reader))
            met.update(str(hit["key"]) for hit in hits)
            spent_s += file.flush({*met, *(map(breakdown_of, met) if width else ())} if now > END else ()).processor_s
        file.close()
        links, size = len(met) - 1, sum(each.stat().st_size for each in data.glob("clickcurve.db*"))
        rows, together = _breakdown_bytes(data / "clickcurve.db")
        of_rows = f"breakdown rows {rows / links:.0f} B a link, {together:,} B of all together"
        compared = f"{size / links:.0f} B of {links:,} links; {of_rows}; flushes {spent_s:.0f} s"
        yield Line(f"{width} dimensions, a year", f"{size / 1e6:.2f} MB", compared)


def _breakdown_bytes(path: Path) -> tuple[int, int]:
    """Returns the bytes of all links' breakdown rows, and those of the one of all links together."""
    with closing(sqlite3.connect(path)) as db:
        sizes = dict(db.execute("SELECT key, length(data) FROM rows"))
    together = sizes.get(breakdown_of(ALL_LINKS), 0)
    return sum(size for key, size in sizes.items() if kind_of(key).beside_counts) - together, together


def _days_of_hits(options: Options) -> Iterator[tuple[int, list[dict[str, object]]]]:
    """Yields the end of each day, and its hits on each `every`-th of the links; half in the last 2/5."""
    links, days = options.links[0] if options.links else options.of(100_000), max(2, options.of(DAYS))
    chance, visitors = random.Random(5), Visitors()
    kept = range((options.every - 1) // 2, links, options.every)
    popular = list(accumulate(1 / (link + 1) ** 1.2 for link in kept))
    hits = round(100 * links * popular[-1] / zipf(links, 1.2)[-1])
    edges = [round(hits * (1 - ((days - day) / days) ** (1 / 1.35))) for day in range(days + 1)]
    for day in range(days):
        now = END - (days - 1 - day) * DAY_S
        some = visitors.hits(edges[day + 1] - edges[day], ATTRIBUTES, now)
        for hit, language in zip(some, drawn(chance, LANGUAGES, 1.2, len(some)), strict=True):
            link = chance.choices(kept, cum_weights=popular)[0]
            hit |= {"key": f"k{link * 7_919 % links:05d}", "ts": now - 1 - chance.randrange(DAY_S), "lang": language}
        yield now, some
