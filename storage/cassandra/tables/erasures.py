"""Erasing a link, so that no node's cache of own rows hides it.

An erasure is first logged, then written next to the rows. Each flush reads what was logged since it last looked and
drops those rows from the cache. So a flush that begins after an erasure was answered reads the rows again, or has read
them with the erasure.

All times are the cluster's: its nodes have nearly the same time, but the clocks of ingesting machines may differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import HOUR_S, MINUTE_S
from clickcurve.times import SECOND_US
from storage.cassandra.cql import Cql
from storage.cassandra.statements import ADD_ERASURE, ERASE, ERASURES, NOW_MS

ATTEMPTS = 3
MINUTE_US = MINUTE_S * SECOND_US
HOUR_US = HOUR_S * SECOND_US
# A look goes back MARGIN_US before the look before it. An erasure that takes longer than SLOW_US is logged again, since
# a look may have missed it: with clocks up to 5 minutes apart 8 minutes may be 13, and end up to 5 further back.
MARGIN_US = 20 * MINUTE_US
SLOW_US = 8 * MINUTE_US
STALE_US = 24 * HOUR_US  # without a look for so long, the whole cache is dropped


class Erasures:
    def __init__(self, cql: Cql) -> None:
        self._cql = cql
        self._looked_us: int | None = None

    def erase(self, keys: Sequence[str], at_us: int, last: Sequence[str]) -> None:
        """Records that all hits of these partition keys before at_us are gone, and then that those of `last` are."""
        for _ in range(ATTEMPTS):
            logged_us = self._now_us()
            self._cql.run_each(ADD_ERASURE, [(logged_us // HOUR_US, logged_us, key) for key in (*keys, *last)])
            for some in filter(None, (keys, last)):
                self._cql.run_each(ERASE, [(at_us, at_us, key) for key in some])
            if self._now_us() - logged_us < SLOW_US:
                return
        raise StoreUnavailable(f"an erasure took more than {SLOW_US // MINUTE_US} minutes, {ATTEMPTS} times over")

    def look(self) -> Sequence[str] | None:
        """Returns the partition keys that were erased since the last look, and perhaps some older; None: unknown."""
        last_us = self._looked_us
        if last_us is None:
            self._looked_us = self._now_us()
            return []
        since_us = last_us - MARGIN_US
        hours = _hours(since_us, last_us + MARGIN_US)  # as a rule all that there are until now
        (((now_ms,),),), pages = self._cql.run_all([(NOW_MS, [()]), (ERASURES, [(hour, since_us) for hour in hours])])
        now_us = int(now_ms) * 1000
        if abs(now_us - last_us) > STALE_US:
            self._looked_us = now_us
            return None
        later = [hour for hour in _hours(since_us, now_us + MARGIN_US) if hour not in hours]
        pages += self._cql.run_each(ERASURES, [(hour, since_us) for hour in later]) if later else []
        self._looked_us = now_us
        return [key for page in pages for (key,) in page]

    def _now_us(self) -> int:
        ((now_ms,),) = self._cql.run(NOW_MS)
        return int(now_ms) * 1000


def _hours(since_us: int, until_us: int) -> range:
    return range(since_us // HOUR_US, until_us // HOUR_US + 1)
