"""What one server over SQLite takes for so many links and hits a second: the product's flushes on a full file.

The file has 400 days of each link, made for the link's rate; of many links every Nth, as in `bench.scale.share`. Times
are processor time.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from math import log10
from pathlib import Path
from random import Random
from statistics import median
from time import process_time, sleep, time

from bench import servers
from bench.connection import Connection, request
from bench.ingest import JSON, by_path, json_lines, timed
from bench.micro.attributes import reader_of
from bench.micro.breakdown import link as breakdown_of_link
from bench.micro.inside import read, save_rows, saved_row
from bench.scale.share import Share
from bench.scale.traffic import DAYS, Traffic, row
from bench.visitors import TASTES, Visitors
from bench.wrk import Requests, drive
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.breakdowns.parts import parts_due
from clickcurve.buckets.codec import decode
from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, MINUTE_S
from clickcurve.keys import breakdown_of
from ingest.batch import Batch
from ingest.owner import Owner
from server.data_folder import journal_folder
from storage.contract import Held, Save, SavedRow
from storage.sqlite.store import SqliteStore
from testing.client import Clickcurve
from testing.owner_process import OwnerProcess, TrackedDisk

FLUSH_S = 15
STEPS = 3  # kinds of rows in each power of ten of rates
MOST_HITS = 60_000  # of which a breakdown is made: with 200,000 it is a third longer, and takes three times as long
ATTRIBUTES = ("ref", "country", "ua", "source")
DIMENSIONS = ("ref", "country", "device", "source")
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


def measured(data: Path, links: int, hits_per_s: float, attributes: bool) -> Cell:
    """Fills the database of this data folder, flushes intervals of the traffic into it, and leaves it there."""
    data.mkdir(parents=True)
    share = Share.of(Traffic(links, hits_per_s), -(-links // LINKS))
    return asyncio.run(_measured(data, share, attributes))


async def _measured(data: Path, share: Share, attributes: bool) -> Cell:
    traffic = share.traffic
    now = [int(time()) // MINUTE_S * MINUTE_S]
    store = _TimedStore(data / "clickcurve.db", CLICKS)
    owner = OwnerProcess(journal_folder(data, 1), store, lambda: now[0], alone=True, disk=TrackedDisk()).owner
    await owner.accept(Batch(people={now[0]: {key(0): 1}}))
    await owner.flush()  # its number is the mark of all rows
    await asyncio.to_thread(_fill, store, share.rates, now[0], attributes)
    interval = _Interval(share.rates, attributes)
    hits = max(LEAST_HITS, round(share.hits_per_s * FLUSH_S))
    cpu_s: list[float] = []
    saved_s: list[float] = []
    rows: list[int] = []
    buffers: list[int] = []
    journals: list[int] = []
    for _ in range(FLUSHES):
        await interval.accept(owner, hits, now[0])
        buffers.append(owner.status.buffer_bytes)
        journals.append(owner.status.journal_bytes)
        begun, store.saved_s = process_time(), 0.0
        await owner.flush()
        cpu_s.append(process_time() - begun)
        saved_s.append(store.saved_s)
        rows.append(owner.status.last_flush_rows)
        now[0] += FLUSH_S
    await owner.close()
    store.close()
    rows_a_link = 2 if attributes else 1
    link_us = rows_a_link / median(rows[1:]) * 1e6
    return Cell(
        traffic.links,
        traffic.hits_per_s,
        attributes,
        median(cpu_s[1:]) * link_us,
        median(saved_s[1:]) * link_us,
        median(buffers[1:]) * rows_a_link / median(rows[1:]),
        sum(file.stat().st_size for file in data.glob("clickcurve.db*")) / len(share.rates),
        median(journals[1:]) / hits,
    )


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


def _fill(store: SqliteStore, rates: Sequence[float], now: int, attributes: bool) -> None:
    """Saves what each link has after 400 days: one row for all links of a kind, made once."""
    (record,) = store.owners()
    kinds: dict[int, dict[bool, SavedRow]] = {}
    rate_of = {key(number): rate for number, rate in enumerate(rates)}

    def rows() -> Iterator[tuple[str, SavedRow]]:
        for stored, rate in sorted(rate_of.items()):
            kind = round(log10(rate) * STEPS)
            if kind not in kinds:
                kinds[kind] = dict(_rows(10 ** (kind / STEPS), now, record.begun, attributes))
            for with_attributes, saved in kinds[kind].items():
                yield breakdown_of(stored) if with_attributes else stored, saved

    save_rows(store, Held(record.owner, record.epoch, record.holder), record.begun, rows())


def _rows(rate: float, now: int, mark: int, attributes: bool) -> Iterator[tuple[bool, SavedRow]]:
    """Yields the row of a link of this rate, and that of its attributes."""
    yield False, saved_row(decode(row(rate, now, Random(1), mark)))
    if attributes:
        yield True, _breakdown(min(MOST_HITS, max(1, round(rate * DAYS * DAY_S))), now // HOUR_S * HOUR_S, mark)


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
        hits = self._visitors.hits(count, ATTRIBUTES, now)
        return [hit | {"key": each, "ts": now} for hit, each in zip(hits, self.keys(count), strict=True)]

    async def accept(self, owner: Owner, hits: int, now: int) -> None:
        for first in range(0, hits, BATCH):
            some = min(BATCH, hits - first)
            if self._reader is None:
                batch = Batch(people={now // MINUTE_S * MINUTE_S: dict(Counter(self.keys(some)))})
            else:
                batch = read(json.dumps(self.hits(some, now)).encode(), now, self._reader)
            await owner.accept(batch)


# --- real servers -----------------------------------------------------------------------------------------------------
def of_hits(folder: Path, rounds: int, seconds: float) -> dict[str, float]:
    """Returns microseconds of a server's processor time for a hit of each kind, and its megabytes before the first."""
    interval = _Interval(Share.of(Traffic(100_000, 1_000.0), 5).rates, attributes=True)
    now = int(time())
    said = [json.dumps(interval.hits(BATCH, now)) for _ in range(20)]
    plain = [json.dumps([{"key": each["key"], "ts": now} for each in json.loads(body)]) for body in said]
    kinds = {
        "single": (by_path(folder, interval.keys(20_000)), 32, 1),
        "batched": (Requests.bodies("/v1/hits", JSON, folder / "plain", plain), 4, BATCH),
        "single_attributes": (json_lines(folder, "attributes", interval.hits(20_000, now)), 32, 1),
        "batched_attributes": (Requests.bodies("/v1/hits", JSON, folder / "said", said), 4, BATCH),
    }
    figures: dict[str, float] = {}
    with servers.clickcurve(folder / "data", {"CLICKCURVE_FLUSH_S": "3600"}) as server, Clickcurve(server.url) as http:
        figures["rest_mb"] = servers.rss_mb([server.pid])
        http.send_body(b'{"key": "a", "ua": "curl/8.0"}', {"Content-Type": JSON}).raise_for_status()
        figures["rest_attributes_mb"] = servers.rss_mb([server.pid])
        for name, (requests, connections, hits) in kinds.items():
            runs = [
                timed(server.pid, partial(drive, server.url, requests, connections, seconds)) for _ in range(rounds)
            ]
            figures[f"{name}_us"] = median(spent_s for _, spent_s in runs) / hits * 1e6
    return figures


def of_server(data: Path, cell: Cell, intervals: int) -> dict[str, float]:
    """Sends single hits of the cell's traffic to a server on its file, of all links; returns what that says of it."""
    interval = _Interval(Share.of(Traffic(cell.links, cell.hits_per_s), 1).rates, cell.attributes)
    shares: list[float] = []
    sent, flushes, looked_at = 0, 0.0, 0.0
    with (
        servers.clickcurve(data, {"CLICKCURVE_FLUSH_S": str(FLUSH_S)}) as server,
        Clickcurve(server.url) as client,
        closing(Connection(server.port)) as connection,
    ):
        begun = time()
        while len(shares) <= intervals:  # the first one holds less than an interval
            due = min(100, round((time() - begun) * cell.hits_per_s) - sent)
            for each in _requests(interval, due, cell.attributes):
                connection.time("hit", each)
            sent += due
            sleep(0.01)
            if time() > looked_at + 1:
                looked_at = time()
                if (now := client.metric("clickcurve_flushes_total")) > flushes:
                    flushes = now
                    shares.append(client.metric("clickcurve_flush_share"))
        rss_mb = servers.rss_mb([server.pid])
        return {"hits_per_s": sent / (time() - begun), "share": median(shares[1:]), "rss_mb": rss_mb}


def _requests(interval: _Interval, count: int, attributes: bool) -> Iterator[bytes]:
    if not attributes:
        yield from (request("POST", f"/v1/hits/{each}") for each in interval.keys(count))
        return
    for hit in interval.hits(count, int(time())) if count else ():
        body = json.dumps(hit)
        head = f"POST /v1/hits HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}"
        yield f"{head}\r\n\r\n{body}".encode()
