"""What one server over SQLite takes for so many links and hits a second, and the page of machines that says so.

Measured by the product's flushes on a full file: it has 400 days of each link, made for its rate; of many links every
Nth. Times are processor time.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from itertools import accumulate, product
from pathlib import Path
from random import Random
from statistics import median
from time import process_time, time
from typing import Any

from bench import servers
from bench.command import Options
from bench.ingest import JSON, json_lines, links_by_path
from bench.inside import Owned, read, reader_of, saved_row
from bench.load import by_body, drive
from bench.measure import Line, markdown
from bench.micro.breakdown import link as breakdown_of_link
from bench.scale.cluster import DAYS, Share, Traffic, page, row
from bench.workload import ATTRIBUTES, DIMENSIONS, TASTES, Visitors
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.breakdowns.parts import parts_due
from clickcurve.buckets.codec import decode
from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, MINUTE_S
from clickcurve.keys import breakdown_of
from ingest.batch import Batch
from ingest.flush import ROWS_PER_SAVE
from server.data_folder import journal_folder
from storage.contract import Held, Save, SavedRow
from storage.sqlite.store import SqliteStore
from testing.client import Clickcurve

FLUSH_S = 15
SIZES, RATES = (10_000, 100_000, 1_000_000), (10.0, 100.0, 1_000.0, 10_000.0)
STEPS = 3  # kinds of rows in each power of ten of rates
MOST_HITS = 60_000  # of which a breakdown is made: with 200,000 it is a third longer, and takes three times as long
BATCH = 1_000
FLUSHES = 3  # the first is not measured
LINKS = 4_000  # that a file has at most
LEAST_HITS = 600  # of a flush, so that what each flush costs once does not count


@dataclass(frozen=True, slots=True)
class Cell:
    """One traffic, with attributes or without, and what a link of a flush costs."""

    links: int
    hits_per_s: float
    attributes: bool
    link_us: float  # of a flush's processor time
    saved_us: float  # of these, within a transaction: other workers wait
    buffer_bytes: float
    link_bytes: float  # of the file
    journal_bytes: float  # of a hit


def size(options: Options) -> Iterator[Line]:
    """Measures hits, and a cell for each traffic, for the sheet."""
    of_hits, cells = measure_hits(options.folder, 3, options.seconds), []
    for traffic in product(options.links or SIZES, options.hits_per_s or RATES, (False, True)):
        data = options.folder / "cell"
        cells.append(asdict(measured(data, *traffic)))
        shutil.rmtree(data)
        options.sheet["sizing"] = {**options.circumstances(), "hits": of_hits, "cells": cells}
        links, per_s, with_attributes = traffic
        what = f"{links:,} links, {per_s:,.0f} hits/s{', attributes' if with_attributes else ''}"
        yield Line(what, f"{cells[-1]['link_us']:.0f} us a link of a flush")


# --- flushes in this process ------------------------------------------------------------------------------------------
def measured(data: Path, links: int, hits_per_s: float, attributes: bool) -> Cell:
    """Fills the database of this data folder, flushes intervals of the traffic into it, and leaves it there."""
    data.mkdir(parents=True)
    share = Share(Traffic(links, hits_per_s), -(-links // LINKS))
    spent = _flushes(data, share, attributes)
    cpu_s, saved_s, rows, buffer_bytes, journal_bytes = map(median, zip(*spent[1:], strict=True))
    flushed = rows / (2 if attributes else 1)  # links: one with attributes has two rows
    file_bytes = sum(file.stat().st_size for file in data.glob("clickcurve.db*"))
    return Cell(
        links,
        hits_per_s,
        attributes,
        cpu_s / flushed * 1e6,
        saved_s / flushed * 1e6,
        buffer_bytes / flushed,
        file_bytes / len(share.rates),
        journal_bytes / _hits_of_flush(share),
    )


def _hits_of_flush(share: Share) -> int:
    return max(LEAST_HITS, round(share.hits_per_s * FLUSH_S))


def _flushes(data: Path, share: Share, attributes: bool) -> list[tuple[float, ...]]:
    """Returns of each flush its processor time, that within transactions, its rows, bytes of the buffer and journal."""
    store, spent = _TimedStore(data / "clickcurve.db", CLICKS), list[tuple[float, ...]]()
    owned = Owned(journal_folder(data, 1), store, int(time()) // MINUTE_S * MINUTE_S)
    owned.fill(key(0), lambda mark: _rows(share, owned.now, mark, attributes))
    interval = _Interval(share.rates, attributes)
    for _ in range(FLUSHES):
        owned.take(*interval.batches(_hits_of_flush(share), owned.now))
        status, store.saved_s = owned.owner.status, 0.0
        held = status.buffer_bytes, status.journal_bytes
        processor_s = owned.flush().processor_s
        spent.append((processor_s, store.saved_s, owned.owner.status.last_flush_rows, *held))
        owned.now += FLUSH_S
    owned.close()
    return spent


class _TimedStore(SqliteStore):
    """Adds up the processor time of its transactions in `saved_s`."""

    saved_s = 0.0

    @contextmanager
    def saving(self, held: Held, flush: int) -> Iterator[Save]:
        with super().saving(held, flush) as save:

            def timed(rows: Mapping[str, SavedRow]) -> None:
                begun = process_time()
                save(rows)
                self.saved_s += process_time() - begun

            yield timed


def key(number: int) -> str:
    """Returns a key of eight signs; neighbours in popularity are none in the file."""
    return f"{number * 2_654_435_761 % 2**32:08x}"


def _rows(share: Share, now: int, mark: int, attributes: bool) -> Iterator[tuple[str, SavedRow]]:
    """Yields what each link has after 400 days: one row, and one of attributes, for all links of a kind."""

    def saved(rate: float) -> list[SavedRow]:
        counts = saved_row(decode(row(rate, now, Random(1), mark)))
        hits = min(MOST_HITS, max(1, round(rate * DAYS * DAY_S)))
        return [counts, _breakdown(hits, now // HOUR_S * HOUR_S, mark)] if attributes else [counts]

    of_links = sorted((key(number), each) for number, each in enumerate(share.by_kind(STEPS, saved)))
    for link, rows in of_links:
        yield from zip((link, breakdown_of(link)), rows)  # noqa: B905


@cache
def _breakdown(hits: int, now: int, mark: int) -> SavedRow:
    parts = breakdown_of_link(hits, tuple(TASTES), 1, now, mark)
    return SavedRow(parts.open, parts_due(parts, BREAKDOWN), None, parts.closed)


class _Interval:
    """The hits of one interval after another."""

    def __init__(self, rates: Sequence[float], attributes: bool) -> None:
        self._chance, self._visitors = Random(3), Visitors()
        self._reader = reader_of(*DIMENSIONS) if attributes else None
        self._sums = list(accumulate(rates))

    def keys(self, count: int) -> list[str]:
        numbers = self._chance.choices(range(len(self._sums)), cum_weights=self._sums, k=count)
        return [key(number) for number in numbers]

    def hits(self, count: int, now: int) -> list[dict[str, object]]:
        """Returns so many hits with attributes."""
        return self._visitors.hits(count, ATTRIBUTES, now, self.keys(count))

    def batches(self, hits: int, now: int) -> Iterator[Batch]:
        for first in range(0, hits, BATCH):
            some = min(BATCH, hits - first)
            if self._reader is None:
                yield Batch(people={now // MINUTE_S * MINUTE_S: dict(Counter(self.keys(some)))})
            else:
                yield read(json.dumps(self.hits(some, now)).encode(), now, self._reader)


# --- a real server ----------------------------------------------------------------------------------------------------
def measure_hits(folder: Path, rounds: int, seconds: float) -> dict[str, float]:
    """Returns microseconds of a server's processor time for a hit of each kind, and its megabytes before the first."""
    interval = _Interval(Share(Traffic(100_000, 1_000.0), 5).rates, attributes=True)
    now = int(time())
    said = [json.dumps(interval.hits(BATCH, now)) for _ in range(20)]
    plain = [json.dumps([{"key": each["key"], "ts": now} for each in json.loads(body)]) for body in said]
    kinds = {
        "single": (links_by_path(folder, interval.keys(20_000)), 32, 1),
        "batched": (by_body("/v1/hits", JSON, folder / "plain", plain), 4, BATCH),
        "single_attributes": (json_lines(folder, "attributes", interval.hits(20_000, now)), 32, 1),
        "batched_attributes": (by_body("/v1/hits", JSON, folder / "said", said), 4, BATCH),
    }
    figures: dict[str, float] = {}
    with servers.clickcurve(folder / "data", {"CLICKCURVE_FLUSH_S": "3600"}) as server, Clickcurve(server.url) as http:
        figures["rest_mb"] = servers.rss_mb([server.pid])
        http.send_body(b'{"key": "a", "ua": "curl/8.0"}', {"Content-Type": JSON}).raise_for_status()
        figures["rest_attributes_mb"] = servers.rss_mb([server.pid])
        for name, (requests, connections, hits) in kinds.items():
            runs = [drive(server.url, requests, connections, seconds, server.pid) for _ in range(rounds)]
            figures[f"{name}_us"] = median(run.processor_us for run in runs) / hits
    return figures


PAGE = Path(__file__).with_name("sizing.txt")
MOST_WORKERS = 16
MOST_SHARE = 0.5  # of the interval for a flush, and for the transactions of all workers; of a core for hits
MOST_CORES = 8.0  # busy, of a machine of 16
MOST_DISK_GB = 1_000.0
WAL_GB = 0.024
NOW = 1_783_000_000  # of rows whose lengths are compared
LONG_S = 60
SHARES = (f"share of {FLUSH_S} s", f"share of {LONG_S} s")
SIZED = ("links", "hits a second", "workers", *SHARES, "cores", "memory", "disk")
RANGES = ("link_us", "saved_us", "link_bytes")
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sized:
    """One machine. share: of the interval, for the flush of a worker; turns: for all workers' transactions together."""

    workers: int
    share: float
    turns: float
    cores: float
    memory_mb: float
    disk_gb: float

    @property
    def too_much(self) -> str:
        """Returns what one machine cannot do; "" if it can do all."""
        limits = {
            "flushes": self.share <= MOST_SHARE,
            "transactions": self.turns <= MOST_SHARE,
            "cores": self.cores <= MOST_CORES,
            "disk": self.disk_gb <= MOST_DISK_GB,
        }
        return ", ".join(name for name, kept in limits.items() if not kept)


def sized(cell: Cell, hits: dict[str, float], flush_s: float = FLUSH_S) -> Sized:
    """Returns the machine with the fewest workers whose flushes leave half of the interval, or the largest."""
    found = [with_workers(cell, hits, workers, flush_s) for workers in range(1, MOST_WORKERS + 1)]
    return next((each for each in found if each.share <= MOST_SHARE), found[-1])


def with_workers(cell: Cell, hits: dict[str, float], workers: int, flush_s: float = FLUSH_S) -> Sized:
    """Returns what so many workers take, each with its part of all hits, which come one by one."""
    whole, own = Traffic(cell.links, cell.hits_per_s), Traffic(cell.links, cell.hits_per_s / workers)
    said = "_attributes" if cell.attributes else ""
    busy = own.hits_per_s * hits[f"single{said}_us"] / 1e6
    flushed = own.rows_per_s(flush_s) * flush_s  # links of a worker's flush
    spent = flushed * cell.link_us / 1e6 / flush_s
    piece = min(flushed, ROWS_PER_SAVE / (2 if cell.attributes else 1))  # links whose rows are in memory, old and new
    # A worker has its own row of a link; all rows of a link together are shorter than so many times the row of one.
    copies = workers * own.row_bytes(NOW) / whole.row_bytes(NOW)
    journal = 2 * cell.journal_bytes * cell.hits_per_s * flush_s  # the segments of a flush go when it has ended
    return Sized(
        workers,
        spent / (1 - busy) if busy < MOST_SHARE else 1.0,
        workers * flushed * cell.saved_us / 1e6 / flush_s,
        workers * (busy + spent),
        workers * (hits[f"rest{said}_mb"] + (2 * piece * cell.link_bytes + flushed * cell.buffer_bytes) / 1e6),
        (cell.links * cell.link_bytes * copies + journal) / 1e9 + workers * WAL_GB,
    )


def render(options: Options) -> Iterator[Line]:
    """Writes both pages."""
    pages = {"scale.md": page(options.sheet), "sizing.md": sizing_page(options.sheet["sizing"])}
    for name, text in pages.items():
        (options.docs / name).write_text(text)
        yield Line(name, f"{len(text):,} signs")


def sizing_page(figures: Figures) -> str:
    """Returns the page as Markdown."""
    hits, cells = figures["hits"], [Cell(**each) for each in figures["cells"]]
    kinds = [[cell for cell in cells if cell.attributes == said] for said in (False, True)]
    plain, said = (markdown(SIZED, (_line(cell, hits) for cell in kind)) for kind in kinds)
    ranges = {name: [_range([getattr(cell, name) for cell in kind]) for kind in kinds] for name in RANGES}
    shown = {
        "plain": plain,
        "said": said,
        "days": DAYS,
        "most": LINKS,
        "most_cores": MOST_CORES,
        "most_disk": MOST_DISK_GB,
        "most_share": _percent(MOST_SHARE, 0),
        "most_workers": MOST_WORKERS,
    }
    return PAGE.read_text().format(**figures | ranges | shown)


def _range(values: Sequence[float]) -> str:
    return f"{min(values):,.0f} to {max(values):,.0f}"


def _percent(part: float, digits: int = 1) -> str:
    return f"{100 * part:.{digits}f} %"


def _line(cell: Cell, hits: dict[str, float]) -> Sequence[str]:
    one = sized(cell, hits)
    shares = [_percent(one.share), _percent(with_workers(cell, hits, one.workers, LONG_S).share)]
    workers = str(one.workers)
    if one.too_much:
        one, short = sized(cell, hits, LONG_S), one
        workers = f"{one.workers} with `flush_s` = {LONG_S}, else several machines: {short.too_much}"
        shares = ["", _percent(one.share)]
    if one.too_much:
        workers, shares = f"several machines: {one.too_much}", ["", ""]
    disk = f"{one.disk_gb:,.2f} GB" if one.disk_gb < 10 else f"{one.disk_gb:,.0f} GB"
    rest = (*shares, f"{one.cores:.2f}", f"{one.memory_mb:,.0f} MB", disk)
    return f"{cell.links:,}", f"{cell.hits_per_s:,.0f}", workers, *rest
