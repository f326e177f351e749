"""What a great traffic takes of a cluster, by plain multiplication of unit costs, and the page that says so.

A simulation sends one owner's share of the traffic through the product's own flush, into a store that only counts. A
share is every Nth link of the whole, so that all shares together are the traffic. The store keeps rows as long as the
store for Cassandra would (its own cache of rows); a row that was never written is one of its link's rate, made before.
"""

from __future__ import annotations

import gc
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from math import exp, expm1, log, log10
from pathlib import Path
from random import Random
from time import time
from typing import Any, TypeVar

from bench.command import Options
from bench.inside import Owned
from bench.measure import Line, markdown
from bench.rows import row_of
from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, fold_day
from clickcurve.keys import link_of
from ingest.batch import Batch
from storage.cassandra.row_cache import CachedRow, RowCache
from storage.cassandra.store import CACHE_BYTES
from storage.contract import Held, OwnRow, SavedRow, Source
from storage.memory_store import MemoryStore

T = TypeVar("T")
EXACT_RANKS = 1_000  # the rest in groups of ranks whose rates are within a twentieth
DAYS = 400


@dataclass(frozen=True)
class Traffic:
    """`links` links with `hits_per_s` in all, the one of rank r with a part of 1 / r ** skew."""

    links: int
    hits_per_s: float
    skew: float = 1.0

    @cached_property
    def _groups(self) -> list[tuple[int, float]]:
        """(number of links, weight of each)."""
        groups = [(1, rank**-self.skew) for rank in range(1, min(EXACT_RANKS, self.links) + 1)]
        first = EXACT_RANKS + 1
        while first <= self.links:
            after = min(int(first * 1.05) + 1, self.links + 1)
            groups.append((after - first, _mean(first, after, self.skew)))
            first = after
        return groups

    @cached_property
    def _whole(self) -> float:
        return sum(number * weight for number, weight in self._groups)

    def rates(self) -> Iterator[tuple[int, float]]:
        """(number of links, hits a second of each), the most popular first."""
        for number, weight in self._groups:
            yield number, weight * self.hits_per_s / self._whole

    def rate(self, rank: int) -> float:
        """Hits a second of the link of this rank, 1 the first."""
        return float(rank**-self.skew * self.hits_per_s / self._whole)

    def rows_per_s(self, flush_s: float) -> float:
        """Rows that flushes write: links with a hit at least within the interval."""
        return sum(number * -expm1(-rate * flush_s) for number, rate in self.rates()) / flush_s

    def row_bytes(self, now: int) -> float:
        """Mean bytes of a row, by rows that are made and encoded for rates along the whole range."""
        return sum(number * _between(_lengths(now), log(rate)) for number, rate in self.rates()) / self.links


class Share:
    """Every `part`-th link of the traffic, so that it has no more of the most popular link than its due.

    rates: hits a second of its links; hits_per_s: of all of them.
    """

    def __init__(self, traffic: Traffic, part: int) -> None:
        self.part = part
        self.rates = [traffic.rate(max(1, rank)) for rank in range(part // 2, traffic.links + 1, part)]
        self.hits_per_s = sum(self.rates)

    def by_kind(self, steps: int, make: Callable[[float], T]) -> list[T]:
        """Returns what is made for each link's rate, once for all of about the same: so many kinds a power of ten."""
        kinds = [round(log10(rate) * steps) for rate in self.rates]
        made = {kind: make(10 ** (kind / steps)) for kind in dict.fromkeys(kinds)}
        return [made[kind] for kind in kinds]


@lru_cache(1)
def _lengths(now: int) -> list[tuple[float, int]]:
    """Returns logarithms of rates, and the bytes of a row of each."""
    chance = Random(1)
    steps = [10 ** (power / 3) for power in range(-24, 17)]
    return [(log(rate), len(row(rate, now, chance))) for rate in steps]


def row(rate: float, now: int, chance: Random, mark: int = 1) -> bytes:
    """The row of a link with so many hits a second for 400 days, whole numbers of hits by chance."""
    day = fold_day(now)
    hits: dict[int, int] = {}
    at = now - DAYS * DAY_S
    while at < now:
        start, end = CLICKS.kept(at, day)
        if count := _poisson(rate * (min(end, now) - at), chance):
            hits[start] = count
        at = end
    return encode(row_of(hits, day=day, mark=mark))


def _poisson(mean: float, chance: Random) -> int:
    if mean > 50:
        return max(0, round(chance.gauss(mean, mean**0.5)))
    limit, product, count = exp(-mean), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return count


def _mean(first: int, after: int, skew: float) -> float:
    """The mean weight of ranks from `first` to before `after`, by the integral around them."""
    low, high = first - 0.5, after - 0.5
    whole = log(high / low) if skew == 1 else (high ** (1 - skew) - low ** (1 - skew)) / (1 - skew)
    return whole / (after - first)


def _between(points: list[tuple[float, int]], x: float) -> float:
    """Returns what lies at x on the line through these points, level before the first and behind the last."""
    for (left, low), (right, high) in pairwise(points):
        if x <= right:
            return low + (high - low) * max(0.0, x - left) / (right - left)
    return points[-1][1]


STEPS = 6  # kinds of rows in each power of ten of rates
FILLED_S, LEAST = 180, 3  # seconds of flushes that fill the store's memory, and least flushes; as many are counted
OWNERS = 400  # that share the traffic; each has the memory for rows that the product gives it
PAGE = Path(__file__).with_name("cluster.txt")
MACHINES = "machines for "
# Of figures that are not printed as whole numbers.
DIGITS = {"writes a hit": 3, "bytes on all disks, TB": 1, "cores busy with hits": 1, "dollars for a million links": 2}
SIMULATED = ("a flush every", "rows a flush", "by the formula", "rows read before", "bytes of a row", "µs of a row")
Figures = dict[str, Any]


def needed(traffic: Traffic, figures: Figures, share: Figures) -> dict[str, float]:
    """Returns what one interval of flushes takes, by the names on the page; `share` is what the simulation saw with it.

    Cores are processor time a second. `assumed` in the sheet is what no run here can tell: replicas, of which a read at
    QUORUM asks `read_by`; a machine's cores and disk, and what part of them may be busy and full, for compactions;
    dollars a month of a core with 4 GB of memory, and of a GB of disk.
    """
    assumed = figures["assumed"]
    server, node = figures["server"], figures["cassandra"]
    rows_per_s = traffic.rows_per_s(share["flush_s"])
    reads_per_s = rows_per_s * share["read"] / share["written"]
    row_us = share["cpu_s"] / share["written"] * 1e6 + max(0.0, node["flush_warm_us"] - node["flush_memory_us"])
    read_us = max(0.0, node["flush_cold_us"] - node["flush_warm_us"])
    node_read_us = max(0.0, node["node_cold_us"] - node["node_warm_us"])
    accept = traffic.hits_per_s * server["batched_us"] / 1e6
    flush = (rows_per_s * row_us + reads_per_s * read_us) / 1e6
    writes = rows_per_s * node["node_warm_us"] * assumed["replicas"] / 1e6
    reads = reads_per_s * node_read_us * assumed["read_by"] / 1e6
    disk_gb = traffic.links * figures["row_bytes"] * node["disk_bytes"] / node["row_bytes"] * assumed["replicas"] / 1e9
    usable = assumed["cores"] * assumed["busy"]
    cores_month = (accept + flush + writes + reads) / assumed["busy"] * assumed["core_month"]
    month = cores_month + disk_gb / assumed["full"] * assumed["gb_month"]
    return {
        "rows written a second": rows_per_s,
        "writes a hit": rows_per_s / traffic.hits_per_s,
        "rows read before, a second": reads_per_s,
        "rows folded a second, each link once a day": traffic.links / DAY_S,
        "bytes to all replicas, MB/s": rows_per_s * share["bytes"] / share["written"] * assumed["replicas"] / 1e6,
        "bytes on all disks, TB": disk_gb / 1_000,
        "cores busy with hits": accept,
        "cores busy with flushes": flush,
        "cores of Cassandra, writes": writes,
        "cores of Cassandra, reads": reads,
        f"{MACHINES}owners' processors, hits": accept / usable,
        f"{MACHINES}owners' processors, flushes": flush / usable,
        f"{MACHINES}Cassandra's processors, writes": writes / usable,
        f"{MACHINES}Cassandra's processors, reads before writes": reads / usable,
        f"{MACHINES}Cassandra's disks": disk_gb / (assumed["disk_gb"] * assumed["full"]),
        "dollars a month": month,
        "dollars for a million links": month / traffic.links * 1e6,
    }


def first_full(found: dict[str, float]) -> str:
    """Returns what takes most of the machines."""
    return max((what for what in found if what.startswith(MACHINES)), key=found.__getitem__).removeprefix(MACHINES)


def page(figures: Figures) -> str:
    """Returns the page as Markdown."""
    traffic, server = Traffic(figures["links"], figures["hits_per_s"], figures["skew"]), figures["server"]
    found = {f"{share['flush_s']} s": needed(traffic, figures, share) for share in figures["shares"]}
    lines = zip(*(each.items() for each in found.values()), strict=True)
    return PAGE.read_text().format(
        **figures,
        top=traffic.rate(1),
        last=traffic.rate(traffic.links) * DAY_S,
        needed=markdown(("a flush every", *found), map(_line, lines)),
        first="; ".join(f"with a flush every {flush_s} {first_full(each)}" for flush_s, each in found.items()),
        owners=OWNERS,
        simulated=markdown(SIMULATED, _compared(figures, traffic)),
        curves=server["curve_us"] / 1_000,
        top_batched=traffic.rate(1) * server["batched_us"] / 1e6,
        top_single=traffic.rate(1) * server["single_us"] / 1e6,
    )


def _line(cells: Sequence[tuple[str, float]]) -> Sequence[str]:
    what = cells[0][0]
    digits = 1 if what.startswith(MACHINES) else DIGITS.get(what, 0)
    return what, *(f"{figure:,.{digits}f}" for _, figure in cells)


def _compared(figures: Figures, traffic: Traffic) -> Iterator[Sequence[str]]:
    for share in figures["shares"]:
        flush_s, written = share["flush_s"], share["written"]
        yield (
            f"{flush_s} s",
            f"{written / share['flushes']:,.0f}",
            f"{traffic.rows_per_s(flush_s) * flush_s / figures['part']:,.0f}",
            f"{share['read'] / written:.0%}",
            f"{share['bytes'] / written:,.0f}",
            f"{share['cpu_s'] / written * 1e6:.0f}",
        )


# --- the simulation ---------------------------------------------------------------------------------------------------
def simulate(options: Options) -> Iterator[Line]:
    """Notes in the sheet the mean row and the flushes of its traffic, for each of its intervals."""
    figures = options.sheet
    traffic = Traffic(figures["links"], figures["hits_per_s"], figures["skew"])
    share, figures["row_bytes"] = Share(traffic, figures["part"]), traffic.row_bytes(int(time()))
    for each in figures["shares"]:
        each |= asdict(simulated(share, each["flush_s"]))
        yield Line(f"a flush every {each['flush_s']} s", f"{each['written'] / each['flushes']:,.0f} rows")


@dataclass(slots=True)
class Seen:
    """What the store was asked for: rows of links read that were not in memory, rows written, and their bytes."""

    read: int = 0
    written: int = 0
    bytes: int = 0
    flushes: int = 0
    hits: int = 0
    cpu_s: float = 0.0


class CountingStore(MemoryStore):
    """Counts, and keeps what flushes need to go on. rows: of each link, by its key, as before the first flush."""

    def __init__(self, rows: Mapping[str, bytes], cache_bytes: int) -> None:
        super().__init__()
        self.seen = Seen()
        self._past, self._cache = rows, RowCache(cache_bytes)

    def cutoffs(self, owner: int) -> None:  # type: ignore[override]
        """Returns None: a store on a cluster keeps no candidates."""

    def load_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        found = super().load_own(owner, keys)
        for key in keys:
            if link_of(key) is None:
                continue
            if self._cache.get(owner, key) is None:
                self.seen.read += 1
            if key not in found:
                found[key] = OwnRow(self._past[key], 0)
        return found

    def save_own(self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source]) -> None:
        super().save_own(held, flush, rows, sources)
        self.seen.written += len(rows)
        for key, saved in rows.items():
            self.seen.bytes += len(saved.whole)
            self._cache.put(held.owner, key, CachedRow(saved.whole, 0))


def simulated(share: Share, flush_s: int) -> Seen:
    """Returns what the store sees of the measured flushes, after some that fill its memory."""
    moment = int(time()) // DAY_S * DAY_S + 12 * HOUR_S
    links, sums = [str(number) for number in range(len(share.rates))], [*accumulate(share.rates)]
    chance, of_rows = Random(3), Random(2)
    rows = dict(zip(links, share.by_kind(STEPS, lambda rate: row(rate, moment, of_rows)), strict=True))
    store = CountingStore(rows, CACHE_BYTES * OWNERS // share.part)
    with tempfile.TemporaryDirectory(prefix="clickcurve-scale-") as folder:
        owned = Owned(Path(folder) / "journal", store, moment)
        gc.collect()
        gc.freeze()
        filled = max(LEAST, FILLED_S // flush_s)
        for number in range(2 * filled):
            if number == filled:
                store.seen = Seen()
            hits = Counter(chance.choices(links, cum_weights=sums, k=round(share.hits_per_s * flush_s)))
            owned.take(Batch(people={owned.now // 60 * 60: dict(hits)}))
            store.seen.cpu_s += owned.flush().processor_s
            store.seen.hits += hits.total()
            store.seen.flushes += 1
            owned.now += flush_s
        owned.close()
    return store.seen
