"""Plain hits of one request by minute: those that count more than one are summed, all others only sorted.

The buffer sums what comes to it in any case. To sum it here as well would cost a quarter of what it takes to read and
count a hit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from clickcurve.buckets.ladder import MINUTE_S
from ingest.batch import Counts
from ingest.hit import NO_TIME, LeanHit, Moment, PlainHit, minute_start

# Both loops are lean: the decoder has checked each hit, but for its time, which is checked with a new minute. The
# minute that the last tolerated second lies in ends there: later hits of it are judged again.


class KeysByMinute(defaultdict[int, list[str]]):
    """The start of a minute -> the link of each of its hits, which count one each."""

    def __init__(self) -> None:
        super().__init__(list)

    def take(self, hits: Sequence[LeanHit], moment: Moment) -> list[LeanHit]:
        """Adds hits; returns those that are too far ahead, which are left out."""
        limit, ahead = moment.latest + 1, list[LeanHit]()
        start = end = 0
        append = list[str]().append
        for hit in hits:
            ts = hit.ts
            if not start <= ts < end:
                minute = start = ts - ts % MINUTE_S
                end = start + MINUTE_S if start + MINUTE_S < limit else limit
                if ts == NO_TIME:
                    minute, start, end = minute_start(moment.now), NO_TIME, NO_TIME + 1
                elif ts >= limit:
                    ahead.append(hit)
                    end = 0  # the next one of this minute may lie before the limit
                    continue
                append = self[minute].append
            append(hit.key)
        return ahead

    def sum_into(self, counts: Counts) -> None:
        """Moves all hits to these counts."""
        for minute, keys in self.items():
            cell = counts.get(minute)
            if not isinstance(cell, Counter):  # which counts in C
                cell = counts[minute] = Counter(cell)
            cell.update(keys)
        self.clear()

    def sums(self, late_before: int) -> tuple[int, int]:
        """Returns the number of all hits, and of those before this minute."""
        return sum(map(len, self.values())), sum(len(keys) for minute, keys in self.items() if minute < late_before)


def sum_plain(hits: Sequence[PlainHit], into: Counts, moment: Moment) -> list[PlainHit]:
    """Adds hits to counts; returns those that are too far ahead, which are left out."""
    limit, ahead = moment.latest + 1, list[PlainHit]()
    start = end = 0
    cell: dict[str, int] = {}
    get = cell.get
    for hit in hits:
        ts = hit.ts
        if not start <= ts < end:
            minute = start = ts - ts % MINUTE_S
            end = start + MINUTE_S if start + MINUTE_S < limit else limit
            if ts == NO_TIME:
                minute, start, end = minute_start(moment.now), NO_TIME, NO_TIME + 1
            elif ts >= limit:
                ahead.append(hit)
                end = 0
                continue
            found = into.get(minute)
            cell = into.setdefault(minute, {}) if found is None else found
            get = cell.get
        key = hit.key
        cell[key] = get(key, 0) + hit.count
    return ahead
