"""The hits of one request, summed while they are read; then the batch for the owner, and the receipt.

Nothing of a request is published before its body has been read to the end, so a body that turns out to be unreadable
has counted nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, compress, islice
from operator import itemgetter
from typing import cast

from clickcurve.buckets.errors import BodyTooLarge, HitRejected
from clickcurve.buckets.ladder import MINUTE_S
from clickcurve.times import iso_seconds
from ingest.attributes.columns import columns_of_hits, given_fields
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.batch import Batch, Counts, KeysBatch, SourceStep
from ingest.hit import (
    AnyHit,
    FullHit,
    Hit,
    Judge,
    LeanHit,
    Moment,
    PlainHit,
    RawHits,
    WordyHit,
    broken_rule,
    hit_of,
    is_id,
    minute_start,
    refused_count,
    ts_of,
)
from ingest.reading.counters import IngestCounters, class_of_rule, refusal_class
from ingest.reading.divided_hits import RequestCounts, add_divided
from ingest.reading.plain_hits import KeysByMinute, sum_plain
from ingest.reading.profile_table import SaidSums, add_past_counts, count_ignored, made_batch
from ingest.reading.receipt import RECEIPT_ITEMS, Item, Receipt

# Hits with an id of their own in one request. Each costs a hundred times the memory of a hit without.
IDENTIFIED_HITS = 100_000
# Values in one body. 4 kB of gzip can hold two million, each of which takes a microsecond and more to judge.
BODY_VALUES = 1_000_000
# Hits that are kept unsummed. So many keys take 6 MB in memory, and the buffer sums them in one go, in some 7 ms.
KEPT_HITS = 100_000


# Hits from which on columns are faster: they cost 12 us and 0.9 a hit, one by one 1.5 and 2.9.
IN_COLUMNS = 6


class RequestSums:
    """What one request asks to be counted. `name`: the Idempotency-Key, under which hits without an id count together.

    Take the hits in the order of the body: an item of the receipt names a hit by its index.
    """

    def __init__(
        self,
        moment: Moment,
        name: str | None = None,
        identified_hits: int = IDENTIFIED_HITS,
        receipt_items: int = RECEIPT_ITEMS,
        reader: ProfileReader = NO_DIMENSIONS,
    ) -> None:
        self.moment = moment
        self._receipt_items = receipt_items
        self._name = name
        self._identified_hits = identified_hits
        self._keys = KeysByMinute()
        self._people: Counts = {}
        self._bots: Counts = {}
        self._openings: dict[str, int] = {}
        self._reader = reader
        self._said = SaidSums()
        self._ignored: dict[str, int] = {}
        self._with_id: list[Hit] = []
        self._repeated: dict[int, Hit] = {}  # by index: later hits with an id that an earlier one of this request has
        self._ids: dict[str, int] = {} if name is None else {name: -1}  # the index of the first hit that has it
        self._refused: list[Item] = []  # the first ones
        self._refused_hits = 0
        self._refused_sums: dict[str, int] = {}  # by class
        self._hits = 0  # so far: the index of the next

    # --- adding -------------------------------------------------------------------------------------------------
    def add(self, raw: RawHits, is_bot: Judge) -> None:
        """Adds the hits that are good and notes why the others are not; `is_bot` judges a user agent."""
        if raw.lean:
            self._add_lean(raw.lean)
        if raw.plain:
            self._add_plain(raw.plain)
        if raw.full:
            if self._reader.wants_agents or self._reader.wants_bots:
                self._add_divided(raw.full, is_bot)
            else:
                self._add_full(raw.full, is_bot)
        if raw.wordy:
            self._add_divided(raw.wordy, is_bot)
        for hit in raw.odd:
            self._add_odd(hit, is_bot)
        if raw.no_objects:
            self._count_refused("hit", raw.no_objects, raw.no_objects)
            self._hits += raw.no_objects
        self._check_values()

    def _check_values(self) -> None:
        if self._hits > BODY_VALUES:
            rule = f"at most {BODY_VALUES:,} values in one request"
            raise BodyTooLarge("too many values; send them in several requests", rule=rule)

    def _add_lean(self, hits: Sequence[LeanHit]) -> None:
        for hit in self._keys.take(hits, self.moment):
            self._refuse_ahead(hit, hits)
        self._hits += len(hits)
        if self._hits > KEPT_HITS:
            self._keys.sum_into(self._people)

    def _add_plain(self, hits: Sequence[PlainHit]) -> None:
        for hit in sum_plain(hits, self._people, self.moment):
            self._refuse_ahead(hit, hits)
        self._hits += len(hits)

    def _add_full(self, hits: Sequence[FullHit], is_bot: Judge) -> None:
        # What the loop finds odd is judged again by the rules, which say what is wrong.
        people, bots, limit = self._people, self._bots, self.moment.latest + 1
        start = end = 0
        for index, hit in enumerate(hits, self._hits):
            ts, id_, bot = hit.ts, hit.id, hit.bot
            if ts is None:
                ts = self.moment.now
            elif isinstance(ts, str):
                ts = iso_seconds(ts)
            if ts is None or not 0 <= ts < limit or (id_ is not None and not is_id(id_)):
                self._refuse_full(hit, is_bot, index)
                continue
            if not start <= ts < end:
                start = minute_start(int(ts))
                end = start + MINUTE_S
            if bot is None:
                bot = hit.ua is not None and is_bot(hit.ua)
            if id_ is not None:
                self._add_with_id(index, id_, Hit(hit.key, start, hit.count or 1, id_, bot))
                continue
            counts = bots if bot else people
            cell = counts.get(start)
            if cell is None:
                cell = counts[start] = {}
            cell[hit.key] = cell.get(hit.key, 0) + (hit.count or 1)
        self._hits += len(hits)

    def _add_as_ruled(self, hit: FullHit, is_bot: Judge, index: int) -> None:
        try:
            self._take(index, hit_of(hit, self.moment, is_bot, self._reader))
        except HitRejected:
            self._refuse_full(hit, is_bot, index)

    def _add_divided(self, hits: Sequence[FullHit], is_bot: Judge) -> None:
        """Adds hits some of which say something: in columns; one by one where they are few, or have ids or groups."""
        if len(hits) < IN_COLUMNS:
            count_ignored([hit for hit in hits if isinstance(hit, WordyHit)], self._reader, self._ignored)
            for place, hit in enumerate(hits, self._hits):
                self._add_as_ruled(hit, is_bot, place)
            self._hits += len(hits)
            return
        columns, places, odd = columns_of_hits(hits), [*range(len(hits))], list[int]()
        given = given_fields(columns)
        for name in given.intersection(self._reader.ignored):
            column: Sequence[object] = getattr(columns, name)
            self._ignored[name] = self._ignored.get(name, 0) + len(column) - column.count(None)
        found = self._times(columns.ts)
        if "id" in given or "groups" in given or None in found:
            fit = [
                not (t is None or id_ or groups)
                for t, id_, groups in zip(found, columns.id, columns.groups, strict=True)
            ]
            odd = [place for place in places if not fit[place]]
            columns, places, found = columns.where(fit), list(compress(places, fit)), list(compress(found, fit))
        times = cast(Sequence[int], found)
        try:
            sums = RequestCounts(self._people, self._bots, self._said)
            add_divided(sums, columns, given, times, self._reader, is_bot)
        except HitRejected:
            odd += places
        for place in sorted(odd):
            self._add_as_ruled(hits[place], is_bot, self._hits + place)
        self._hits += len(hits)

    def _times(self, sent: Sequence[int | float | str | None]) -> Sequence[int | None]:
        """Returns the seconds of some hits; None for what no hit may have."""
        if {*map(type, sent)} == {int}:
            seconds = cast(Sequence[int], sent)
            if min(seconds) >= 0 and max(seconds) <= self.moment.latest:
                return seconds
        return list(map(self._time, sent))

    def _time(self, ts: int | float | str | None) -> int | None:
        seconds = self.moment.now if ts is None else iso_seconds(ts) if isinstance(ts, str) else ts
        return int(seconds) if seconds is not None and 0 <= seconds < self.moment.latest + 1 else None

    def _add_odd(self, raw: AnyHit, is_bot: Judge) -> None:
        if self.explains_no_more():
            broken = broken_rule(raw, self.moment, self._reader)
            if broken is not None:
                self._count_refused(class_of_rule(broken), refused_count(raw.count))
                self._hits += 1
                return
        try:
            hit = hit_of(raw, self.moment, is_bot, self._reader)
        except HitRejected as error:
            self.refuse(error, refused_count(raw.count))
        else:
            count_ignored([raw], self._reader, self._ignored)
            self.add_hit(hit)

    def add_hit(self, hit: Hit) -> None:
        """Adds one hit that is good."""
        self._take(self._hits, hit)
        self._hits += 1

    def _take(self, index: int, hit: Hit) -> None:
        if hit.id is not None:
            self._add_with_id(index, hit.id, hit)
            return
        cell = (self._bots if hit.bot else self._people).setdefault(hit.minute, {})
        cell[hit.key] = cell.get(hit.key, 0) + hit.count
        self._said.add(hit)

    def _add_with_id(self, index: int, id_: str, hit: Hit) -> None:
        if id_ in self._ids:
            self._repeated[index] = hit
            return
        if len(self._with_id) >= self._identified_hits:
            rule = f"at most {self._identified_hits:,} ids in one request"
            raise BodyTooLarge("too many ids; an Idempotency-Key names many hits at once", field="id", rule=rule)
        self._ids[id_] = index
        self._with_id.append(hit)

    def add_history(
        self,
        key: str,
        people: Mapping[int, int],
        bots: Mapping[int, int],
        opening: int,
        words: Sequence[tuple[str, int, str, int]],
    ) -> None:
        """Adds what one object tells of a link's past: minute start -> count, and a count without dates.

        words: dimension, start of an hour, value, count.
        """
        self._said.add_past(key, words)
        add_past_counts(self._people, key, people)
        add_past_counts(self._bots, key, bots)
        if opening:
            self._openings[key] = self._openings.get(key, 0) + opening
        self._hits += 1
        self._check_values()

    def add_group_history(
        self,
        stored: str,
        people: Mapping[int, int],
        bots: Mapping[int, int],
        words: Sequence[tuple[str, int, str, int]],
    ) -> None:
        """Adds the same of a group, by its stored key; no link and no receipt has these hits."""
        self._said.group_sums().add_past(stored, people, bots, words)
        self._hits += 1
        self._check_values()

    def _refuse_ahead(self, hit: LeanHit, hits: Sequence[LeanHit]) -> None:
        count = hit.count if isinstance(hit, PlainHit) else 1
        if self.explains_no_more():
            raw = AnyHit(hit.key, hit.ts, count)
            self._count_refused(class_of_rule(broken_rule(raw, self.moment, self._reader)), count)
            return
        try:
            ts_of(hit.ts, self.moment)
        except HitRejected as error:
            self._note(error, count, self._hits + hits.index(hit))  # found by identity, in C

    def _refuse_full(self, hit: FullHit, is_bot: Judge, index: int) -> None:
        if self.explains_no_more():
            self._count_refused(class_of_rule(broken_rule(hit, self.moment, self._reader)), hit.count or 1)
            return
        try:
            hit_of(hit, self.moment, is_bot, self._reader)
        except HitRejected as error:
            self._note(error, hit.count or 1, index)
        else:
            raise AssertionError("a hit that the rules allow was found odd")

    def refuse(self, error: HitRejected, count: int = 1, reason: str | None = None) -> None:
        """Notes the next hit as one that breaks a rule; `reason`: its class in the counters, if not the field's."""
        self._note(error, count, self._hits, reason)
        self._hits += 1
        self._check_values()

    def refuse_unexplained(self, reason: str) -> None:
        """Counts the next hit as one that breaks a rule, where the receipt can hold no further explanation."""
        self._count_refused(reason, 1)
        self._hits += 1
        self._check_values()

    def _note(self, error: HitRejected, count: int, index: int, reason: str | None = None) -> None:
        if not self.explains_no_more():
            self._refused.append(Item.refused(index, error))
        self._count_refused(reason or refusal_class(error), count)

    def explains_no_more(self) -> bool:
        """Tells whether the receipt holds all the explanations that it can."""
        return len(self._refused) >= self._receipt_items

    def _count_refused(self, reason: str, count: int, hits: int = 1) -> None:
        self._refused_hits += hits
        self._refused_sums[reason] = self._refused_sums.get(reason, 0) + count

    # --- when all is read ---------------------------------------------------------------------------------------
    def batch(self) -> Batch | None:
        """Returns what the owner is to count; None if not one hit is good."""
        if self._keys and not (self._people or self._bots or self._said or self._with_id or self._name):
            return KeysBatch(keys=self._keys)
        self._keys.sum_into(self._people)
        if not (self._people or self._bots or self._with_id or self._repeated):
            return None
        if not (self._said or self._with_id or self._name):  # nearly always
            return Batch(self._people, self._bots, [], {}, None)
        return made_batch(self._people, self._bots, self._said, self._name, self._with_id)

    def batch_with(self, step: SourceStep) -> Batch:
        """Returns the batch that moves an import's offset together with the hits, if any."""
        self._keys.sum_into(self._people)
        batch = made_batch(self._people, self._bots, self._said, None, self._with_id)
        batch.openings, batch.source = self._openings, step
        return batch

    def receipt(self, counted_before: frozenset[str] = frozenset()) -> Receipt:
        """Returns the receipt, given the ids of the batch that the owner had counted before."""
        without_id, late = self._sums_without_id()
        whole_again = self._name is not None and self._name in counted_before
        counted, duplicate, late = (0, without_id, 0) if whole_again else (without_id, 0, late)
        duplicates = dict(self._repeated)
        for hit in self._with_id:
            if hit.id in counted_before:
                duplicates[self._ids[hit.id]] = hit
            else:
                counted += hit.count
                late += hit.count if hit.minute < self.moment.late_before else 0
        duplicate += sum(hit.count for hit in duplicates.values())
        refused = sum(self._refused_sums.values())
        if not (refused or duplicate):
            return Receipt(counted, 0, late, 0)
        items, omitted = self._items(duplicates, whole_again)
        return Receipt(counted, duplicate, late, refused, items, omitted)

    def count_into(self, counters: IngestCounters, receipt: Receipt) -> None:
        """Adds this request, as its receipt has it, to the counters."""
        counters.batches += 1
        counters.counted += receipt.counted
        counters.duplicate += receipt.duplicate
        counters.late += receipt.late
        for reason, count in self._refused_sums.items():
            counters.refused[reason] = counters.refused.get(reason, 0) + count
        for name, count in self._ignored.items():
            counters.ignored[name] = counters.ignored.get(name, 0) + count

    def _sums_without_id(self) -> tuple[int, int]:
        """Sums the counts that have no id of their own: all, and the late ones."""
        total, late = self._keys.sums(self.moment.late_before)
        total += sum(self._openings.values())
        for minute, cell in chain(self._people.items(), self._bots.items()):
            count = sum(cell.values())
            total += count
            if minute < self.moment.late_before:
                late += count
        return total, late

    def _items(self, duplicates: dict[int, Hit], whole_again: bool) -> tuple[tuple[Item, ...], int]:
        """Returns the first refused and duplicate hits in order, and how many more there are."""
        limit = self._receipt_items
        not_counted = self._refused_hits + len(duplicates)
        found = sorted(duplicates.items(), key=itemgetter(0))[:limit]
        items = self._refused + [Item.duplicate(index, "id", str(hit.sent_id or hit.id)) for index, hit in found]
        if whole_again:
            assert self._name is not None
            others = {*self._ids.values(), *self._repeated, *(item.index for item in self._refused)}
            not_counted += self._hits - self._refused_hits - len(self._with_id) - len(self._repeated)
            # Refused hits that are not noted may slip in here, but only after as many noted ones as are shown.
            plain = (index for index in range(self._hits) if index not in others)
            items += [Item.duplicate(index, "Idempotency-Key", self._name) for index in islice(plain, limit)]
        items.sort(key=lambda item: item.index)
        shown = tuple(items[:limit])
        return shown, not_counted - len(shown)
