"""One owner's share of the traffic, through the product's own flush, against a store that only counts.

A share is every Nth link of the whole, so that all shares together are the traffic. The store keeps rows as long as the
store for Cassandra would (its own cache of rows); a row that was never written is one of its link's rate, made before.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import log10
from pathlib import Path
from random import Random
from time import process_time, time

from bench.scale.traffic import Traffic, row
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.keys import link_of
from ingest.batch import Batch
from storage.cassandra.row_cache import CachedRow, RowCache
from storage.cassandra.store import CACHE_BYTES
from storage.contract import Held, OwnRow, SavedRow, Source
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk

STEPS = 6  # kinds of rows in each power of ten of rates
FILLED_S, LEAST = 180, 3  # seconds of flushes that fill the store's memory, and least flushes; as many are counted
OWNERS = 400  # that share the traffic; each has the memory for rows that the product gives it


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
    """Keeps what flushes need to go on, and counts."""

    def __init__(self, rates: Sequence[float], now: int, cache_bytes: int) -> None:
        super().__init__()
        self.seen = Seen()
        self._rates, self._now = rates, now
        self._cache = RowCache(cache_bytes)
        self._kinds: dict[int, bytes] = {}
        self._chance = Random(2)
        for rate in rates:
            self._kind(rate)

    def _kind(self, rate: float) -> bytes:
        kind = round(log10(rate) * STEPS)
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = row(10 ** (kind / STEPS), self._now, self._chance)
        return found

    def cutoffs(self, owner: int) -> None:  # type: ignore[override]
        """Returns None: a store on a cluster keeps no candidates."""

    def load_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        found = super().load_own(owner, keys)
        for key in keys:
            link = link_of(key)
            if link is None:
                continue
            if self._cache.get(owner, key) is None:
                self.seen.read += 1
            if key not in found:
                found[key] = OwnRow(self._kind(self._rates[int(link)]), 0)
        return found

    def save_own(self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source]) -> None:
        super().save_own(held, flush, rows, sources)
        self.seen.written += len(rows)
        for key, saved in rows.items():
            whole = saved.whole
            self.seen.bytes += len(whole)
            self._cache.put(held.owner, key, CachedRow(whole, 0))


@dataclass(frozen=True, slots=True)
class Share:
    """One Nth of the traffic."""

    traffic: Traffic
    part: int
    rates: list[float] = field(repr=False)

    @classmethod
    def of(cls, traffic: Traffic, part: int) -> Share:
        """Every `part`-th link, so that a share has no more of the most popular link than its due."""
        ranks = range(part // 2, traffic.links + 1, part)
        return cls(traffic, part, [traffic.rate(max(1, rank)) for rank in ranks])

    @property
    def hits_per_s(self) -> float:
        return sum(self.rates)

    def flushes(self, flush_s: int) -> Seen:
        """What the store sees of the measured flushes, after some that fill its memory."""
        return asyncio.run(self._flushes(flush_s))

    async def _flushes(self, flush_s: int) -> Seen:
        moment = int(time()) // DAY_S * DAY_S + 12 * HOUR_S
        chance, links = Random(3), [str(number) for number in range(len(self.rates))]
        sums = list(accumulate(self.rates))
        store = CountingStore(self.rates, moment, CACHE_BYTES * OWNERS // self.part)
        with tempfile.TemporaryDirectory(prefix="clickcurve-scale-") as folder:
            place = Path(folder) / "journal"
            owner = OwnerProcess(place, store, lambda: moment, alone=True, disk=TrackedDisk()).owner
            cpu_s = 0.0
            gc.collect()
            gc.freeze()
            filled = max(LEAST, FILLED_S // flush_s)
            for number in range(2 * filled):
                if number == filled:
                    store.seen, cpu_s = Seen(), 0.0
                hits = Counter(chance.choices(links, cum_weights=sums, k=round(self.hits_per_s * flush_s)))
                await owner.accept(Batch(people={moment // 60 * 60: dict(hits)}))
                store.seen.hits += hits.total()
                begun = process_time()
                await owner.flush()
                cpu_s += process_time() - begun
                store.seen.flushes += 1
                moment += flush_s
            store.seen.cpu_s = cpu_s
            await owner.close()
        return store.seen
