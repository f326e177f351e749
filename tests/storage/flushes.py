"""Flushes as an owner makes them: read, apply, write, the row of all links last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BreakdownDelta
from clickcurve.buckets.breakdowns.parts import apply_parts, parts_due, separate_parts
from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.row import EMPTY, Delta, apply, next_due
from clickcurve.buckets.upper_bounds import upper_bounds_of
from clickcurve.keys import ALL_LINKS, breakdown_of
from storage.contract import Held, OwnRow, SavedRow, Source, Store
from tests.storage.stores import record

DAY = 20_454  # 2026-01-01
NOON = DAY * 86_400 + 43_200


def hits(*minutes: tuple[int, int], bots: int = 0, opening: int = 0) -> Delta:
    """(minutes after noon, count) of people; bots at noon."""
    return Delta({NOON + 60 * after: count for after, count in minutes}, {NOON: bots} if bots else {}, opening)


class Flusher:
    """The open holder of an owner. divided: all hits of people come from the site `a.example`."""

    def __init__(self, store: Store, owner: int = 1, divided: bool = False) -> None:
        self._with_breakdowns = divided
        self.held = Held(owner, 1, f"h{owner}")
        self.number = 0
        self._store = store
        store.create_owner(record(owner, holder=self.held.holder))

    def flush(self, deltas: Mapping[str, Delta], sources: Mapping[str, Source] | None = None) -> None:
        self.begin(deltas)
        self.finish(deltas, sources)

    def begin(self, deltas: Mapping[str, Delta]) -> None:
        """All of a flush but its end."""
        assert self._store.begin(self.held, self.number, self.number + 1, NOON)
        self.number += 1
        self._save(deltas, {})

    def finish(self, deltas: Mapping[str, Delta], sources: Mapping[str, Source] | None = None) -> None:
        people: Counter[int] = Counter()
        bots: Counter[int] = Counter()
        opening = 0
        for delta in deltas.values():
            people.update(delta.people)
            bots.update(delta.bots)
            opening += delta.opening
        self._save({ALL_LINKS: Delta(people, bots, opening)}, sources or {})

    def _save(self, deltas: Mapping[str, Delta], sources: Mapping[str, Source]) -> None:
        saved = {}
        own = self._store.load_own(self.held.owner, list(deltas))
        for key, delta in deltas.items():
            stored = own.get(key)
            before = decode(stored.data) if stored is not None and stored.data is not None else EMPTY
            erased_at = stored.erased_at if stored is not None else 0
            after = apply(before, delta, self.number, DAY, erased_at, CLICKS)
            bounds = None if key == ALL_LINKS else upper_bounds_of(after, CLICKS)
            saved[key] = SavedRow(encode(after), next_due(after, CLICKS), upper_bounds=bounds)
            if self._with_breakdowns and delta.people:
                saved[breakdown_of(key)] = self._breakdown(breakdown_of(key), delta)
        self._store.save_own(self.held, self.number, saved, sources)

    def _breakdown(self, key: str, delta: Delta) -> SavedRow:
        hours: Counter[int] = Counter()
        for minute, count in delta.people.items():
            hours[minute - minute % 3_600] += count
        words = BreakdownDelta({"ref": {hour: {"a.example": count} for hour, count in hours.items()}})
        stored = self._store.load_own(self.held.owner, [key]).get(key, OwnRow(None, 0))
        before = None if stored.data is None else separate_parts(stored.data)
        parts = apply_parts(before, words, self.number, DAY, stored.erased_at, BREAKDOWN)
        return SavedRow(parts.open, parts_due(parts, BREAKDOWN), None, parts.closed)
