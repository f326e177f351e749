"""One owner's share of the traffic, through the product's own flush, against a store that only counts.

A share is every Nth link of the whole, so that all shares together are the traffic. The store keeps rows as long as the
store for Cassandra would (its own cache of rows); a row that was never written is one of its link's rate, made before.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from math import log10
from pathlib import Path
from random import Random
from time import process_time, time
from typing import Any, TypeVar

from bench.scale.traffic import Traffic, row
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.keys import link_of
from ingest.batch import Batch
from storage.cassandra.row_cache import CachedRow, RowCache
from storage.cassandra.store import CACHE_BYTES
from storage.contract import Held, OwnRow, SavedRow, Source
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk

T = TypeVar("T")
STEPS = 6  # kinds of rows in each power of ten of rates
FILLED_S, LEAST = 180, 3  # seconds of flushes that fill the store's memory, and least flushes; as many are counted
OWNERS = 400  # that share the traffic; each has the memory for rows that the product gives it


def simulate(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the mean row and the flushes of the sheet's traffic, for each of its intervals."""
    traffic = Traffic(figures["links"], figures["hits_per_s"], figures["skew"])
    share, every = Share(traffic, figures["part"]), [each["flush_s"] for each in figures["shares"]]
    shares = [{"flush_s": flush_s, **asdict(share.flushes(flush_s))} for flush_s in every]
    return {"row_bytes": traffic.row_bytes(int(time())), "shares": shares}


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


class Share:
    """Every `part`-th link of the traffic, so that it has no more of the most popular link than its due.

    rates: hits a second of its links; hits_per_s: of all of them.
    """

    def __init__(self, traffic: Traffic, part: int) -> None:
        self.traffic, self.part = traffic, part
        self.rates = [traffic.rate(max(1, rank)) for rank in range(part // 2, traffic.links + 1, part)]
        self.hits_per_s = sum(self.rates)

    def flushes(self, flush_s: int) -> Seen:
        """Returns what the store sees of the measured flushes, after some that fill its memory."""
        return asyncio.run(self._flushes(flush_s))

    async def _flushes(self, flush_s: int) -> Seen:
        moment = int(time()) // DAY_S * DAY_S + 12 * HOUR_S
        links, sums = [str(number) for number in range(len(self.rates))], [*accumulate(self.rates)]
        chance, of_rows = Random(3), Random(2)
        rows = dict(zip(links, self.by_kind(STEPS, lambda rate: row(rate, moment, of_rows)), strict=True))
        store = CountingStore(rows, CACHE_BYTES * OWNERS // self.part)
        with tempfile.TemporaryDirectory(prefix="clickcurve-scale-") as folder:
            place = Path(folder) / "journal"
            owner = OwnerProcess(place, store, lambda: moment, alone=True, disk=TrackedDisk()).owner
            gc.collect()
            gc.freeze()
            filled = max(LEAST, FILLED_S // flush_s)
            for number in range(2 * filled):
                if number == filled:
                    store.seen = Seen()
                hits = Counter(chance.choices(links, cum_weights=sums, k=round(self.hits_per_s * flush_s)))
                await owner.accept(Batch(people={moment // 60 * 60: dict(hits)}))
                begun = process_time()
                await owner.flush()
                store.seen.cpu_s += process_time() - begun
                store.seen.hits += hits.total()
                store.seen.flushes += 1
                moment += flush_s
            await owner.close()
        return store.seen

    def by_kind(self, steps: int, make: Callable[[float], T]) -> list[T]:
        """Returns what is made for each link's rate, once for all of about the same: so many kinds a power of ten."""
        kinds = [round(log10(rate) * steps) for rate in self.rates]
        made = {kind: make(10 ** (kind / steps)) for kind in dict.fromkeys(kinds)}
        return [made[kind] for kind in kinds]
