"""Lists of keys by day: which own rows are due for folding, and which links had hits.

The list of a day has SHARDS partitions, so that no partition becomes large. A page goes through the shards in turn, and
within a shard through the keys of all days in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock

from clickcurve.buckets.ladder import DAY_S
from storage.cassandra.cql import Cql, Statement
from storage.cassandra.partitions import SHARDS, partition_key, shard_of, stored_key_of
from storage.cassandra.row_cache import CachedRow
from storage.cassandra.statements import (
    ADD_DUE,
    ADD_DUE_DAY,
    ADD_TOUCHED,
    DROP_DUE,
    DROP_DUE_DAY,
    DUE,
    DUE_DAYS,
    NOW_MS,
    TOUCHED,
)
from storage.contract import Held, SavedRow

DAY_MS = DAY_S * 1_000
# A walk since a day at most 31 days ago goes by touched, and goes on so until that day is 38 days ago: entries live for
# 40 days.
DAYS_BY_TOUCHED, DAYS_TOUCHED = 31, 38


class DayIndex:
    """The tables due, due_days and touched. `stamp` returns, for an epoch, a number that only rises."""

    def __init__(self, cql: Cql, stamp: Callable[[int], int]) -> None:
        self._cql = cql
        self._stamp = stamp
        self._lock = Lock()
        # By owner: the epoch, and the days that due_days has with a stamp of this process and epoch.
        self._noted: dict[int, tuple[int, set[int]]] = {}
        self._by_touched: dict[int, bool] = {}  # since_day -> does a walk go by touched?
        # (owner, fold day) -> when the pass began, as a stamp of epoch 0
        self._passes: dict[tuple[int, int], int] = {}

    # --- due ------------------------------------------------------------------------------------------------------
    def note(
        self, held: Held, stamp: int, rows: Mapping[str, SavedRow], cached: Mapping[str, CachedRow | None]
    ) -> None:
        """Lists own rows as due from their day on, and links as touched on theirs, unless they are listed already."""
        owner, due, touched = held.owner, [], []
        for key, row in sorted(rows.items()):
            kept, partition = cached[key], partition_key(key)
            if row.due_day is not None and (kept is None or kept.due_day != row.due_day):
                due.append((owner, row.due_day, shard_of(partition), partition, stamp))
            if row.touched_day is not None and (kept is None or kept.touched_day != row.touched_day):
                touched.append((row.touched_day, shard_of(partition), partition))
        with self._lock:
            if owner not in self._noted or self._noted[owner][0] != held.epoch:
                self._noted[owner] = held.epoch, set()
            _, noted = self._noted[owner]
            new = sorted({day for _, day, *_ in due} - noted)
        self._cql.run_all([(ADD_DUE_DAY, [(owner, day, stamp) for day in new]), (ADD_DUE, due), (ADD_TOUCHED, touched)])
        with self._lock:
            noted.update(new)

    def due(self, owner: int, fold_day: int, after: str | None, limit: int) -> list[str]:
        if after is None:
            with self._lock:
                self._passes[owner, fold_day] = self._stamp(0)
                self._noted.pop(owner, None)  # a day that is noted from now on outlives this pass
        days = [day for (day,) in self._cql.run(DUE_DAYS, (owner, fold_day))]
        return self._page(DUE, [(owner, day) for day in days], after, limit)

    def visited(self, held: Held, fold_day: int) -> None:
        """Deletes the lists up to fold_day, except what was listed since the pass began."""
        with self._lock:
            began = self._passes.pop((held.owner, fold_day), None)
        if began is None:
            return  # the pass was not begun by this process; the next pass deletes them
        stamp = held.epoch << 32 | began
        days = [day for (day,) in self._cql.run(DUE_DAYS, (held.owner, fold_day))]
        self._cql.run_each(DROP_DUE, [(stamp, held.owner, day, shard) for day in days for shard in range(SHARDS)])
        self._cql.run_each(DROP_DUE_DAY, [(stamp, held.owner, day) for day in days])

    # --- touched --------------------------------------------------------------------------------------------------
    def touched_days(self, since_day: int) -> list[int] | None:
        """Returns the days whose lists have all links with hits since that day; None if that is too long ago.

        A walk must not change its order at midnight, so this process keeps the first answer for a day.
        """
        ((now_ms,),) = self._cql.run(NOW_MS)
        today = now_ms // DAY_MS
        if len(self._by_touched) > 1_000:
            self._by_touched.clear()
        listed = self._by_touched.setdefault(since_day, since_day >= today - DAYS_BY_TOUCHED)
        if not listed or not today - DAYS_TOUCHED <= since_day <= today + 1:  # a clock may be far ahead of the node's
            return None
        return list(range(since_day, today + 2))  # a node's clock may be a little ahead

    def touched(self, days: Iterable[int], after: str | None, limit: int) -> list[str]:
        """Returns up to `limit` stored keys after `after` that are listed on these days."""
        return self._page(TOUCHED, [(day,) for day in days], after, limit)

    def _page(self, statement: Statement, lists: Sequence[tuple[int, ...]], after: str | None, limit: int) -> list[str]:
        """Returns up to `limit` stored keys after `after`, each once, of all these lists."""
        keys: list[str] = []
        first = 0 if after is None else shard_of(partition_key(after))
        last = "" if after is None else partition_key(after)
        for shard in range(first, SHARDS):
            left = limit - len(keys)
            pages = self._cql.run_each(statement, [(*each, shard, last, left) for each in lists])
            keys += sorted({key for page in pages for (key,) in page})[:left]
            if len(keys) == limit:
                break
            last = ""
        return [stored_key_of(key) for key in keys]
