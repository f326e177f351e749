"""The hits of one request, summed while they are read; then the batch for the owner, and the receipt.

Nothing of a request is published before its body has been read to the end, so a body that turns out to be unreadable
has counted nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Annotated

from msgspec import Meta, Struct

from clickcurve.buckets.errors import BodyTooLarge, HitRejected
from clickcurve.buckets.ladder import MINUTE_S
from clickcurve.keys import KEY_BYTES
from clickcurve.times import iso_seconds
from ingest.batch import Batch, Counts, Identified
from ingest.hit import COUNT_MAX, ID_CHARACTERS, Hit, Moment, hit_of, is_id, minute_start, ts_of
from ingest.reading.counters import IngestCounters, refusal_class
from ingest.reading.receipt import RECEIPT_ITEMS, Item, Receipt

# Hits with an id of their own in one request. Each costs a hundred times the memory of a hit without.
IDENTIFIED_HITS = 100_000

NO_TIME = -1


class PlainHit(Struct, forbid_unknown_fields=True, gc=False, eq=False):
    """A hit with nothing but key, time and count, in bounds: what almost all hits are. Its key fits in any encoding."""

    key: Annotated[str, Meta(min_length=1, max_length=KEY_BYTES // 4)]
    ts: Annotated[int, Meta(ge=0)] = NO_TIME
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1


class FullHit(Struct, gc=False, eq=False):
    """A hit whose fields have the right types and bounds; times and the characters of the id are yet to be checked."""

    key: Annotated[str, Meta(min_length=1, max_length=KEY_BYTES // 4)]
    ts: int | float | str | None = None
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] | None = None
    id: Annotated[str, Meta(min_length=1, max_length=ID_CHARACTERS)] | None = None
    ua: str | None = None
    bot: bool | None = None


class _Named(Struct, frozen=True, gc=False):
    """A good hit with an id of its own."""

    index: int
    id: str
    shown: str  # the id as the sender knows it
    count: int
    late: bool


class RequestSums:
    """Sums hits. `name` is the Idempotency-Key: then the hits without an id of their own stand for it together."""

    def __init__(
        self,
        moment: Moment,
        name: str | None = None,
        identified_hits: int = IDENTIFIED_HITS,
        receipt_items: int = RECEIPT_ITEMS,
    ) -> None:
        self.moment = moment
        self._receipt_items = receipt_items
        self._name = name
        self._identified_hits = identified_hits
        self._people: Counts = {}
        self._bots: Counts = {}
        self._identified: list[Identified] = []
        self._named: list[_Named] = []
        self._repeated: list[_Named] = []  # later hits with an id that an earlier one of this request has
        self._ids: set[str] = {name} if name is not None else set()
        self._refused: list[Item] = []  # the first ones
        self._refused_hits = 0
        self._refused_sums: Counter[str] = Counter()
        self._hits = 0  # read so far: the index of the next

    # --- reading ------------------------------------------------------------------------------------------------
    def add_plain(self, hits: Sequence[PlainHit]) -> None:
        """Add a piece of plain hits. The loop only sums: the decoder checked, or a new minute does."""
        people, limit = self._people, self.moment.latest + 1
        start = end = 0
        cell: dict[str, int] = {}
        get = cell.get
        for hit in hits:
            ts = hit.ts
            if not start <= ts < end:
                minute = start = ts - ts % MINUTE_S
                # The minute that the last tolerated second lies in ends there: later hits of it are judged again.
                end = start + MINUTE_S if start + MINUTE_S < limit else limit
                if ts == NO_TIME:
                    minute, start, end = minute_start(self.moment.now), NO_TIME, NO_TIME + 1
                elif ts >= limit:
                    self._refuse_ahead(hit, self._hits + hits.index(hit))  # found by identity, in C
                    continue
                found = people.get(minute)
                cell = people.setdefault(minute, {}) if found is None else found
                get = cell.get
            key = hit.key
            cell[key] = get(key, 0) + hit.count
        self._hits += len(hits)

    def add_full(self, hits: Sequence[FullHit], is_bot: Callable[[str], bool]) -> None:
        """Add hits with any fields. What the loop finds odd is judged again by the rules, which say what is wrong."""
        people, bots, limit = self._people, self._bots, self.moment.latest + 1
        start = end = 0
        for index, hit in enumerate(hits, self._hits):
            ts, id_, bot = hit.ts, hit.id, hit.bot
            if ts is None:
                ts = self.moment.now
            elif isinstance(ts, str):
                ts = iso_seconds(ts)
            if ts is None or not 0 <= ts < limit or (id_ is not None and not is_id(id_)):
                self._refuse_odd(hit, is_bot, index)
                continue
            if not start <= ts < end:
                start = minute_start(int(ts))
                end = start + MINUTE_S
            if bot is None:
                bot = hit.ua is not None and is_bot(hit.ua)
            if id_ is not None:
                self._add_named(index, id_, id_, start, hit.key, hit.count or 1, bot)
                continue
            counts = bots if bot else people
            cell = counts.get(start)
            if cell is None:
                cell = counts[start] = {}
            cell[hit.key] = cell.get(hit.key, 0) + (hit.count or 1)
        self._hits += len(hits)

    def add(self, hit: Hit, shown_id: str | None = None) -> None:
        """Add one hit. `shown_id`: its id as the sender knows it, if that is not how it is kept."""
        if hit.id is not None:
            self._add_named(self._hits, hit.id, shown_id or hit.id, hit.minute, hit.key, hit.count, hit.bot)
        else:
            cell = (self._bots if hit.bot else self._people).setdefault(hit.minute, {})
            cell[hit.key] = cell.get(hit.key, 0) + hit.count
        self._hits += 1

    def _add_named(self, index: int, id_: str, shown_id: str, minute: int, key: str, count: int, bot: bool) -> None:
        named = _Named(index, id_, shown_id, count, minute < self.moment.late_before)
        if id_ in self._ids:
            self._repeated.append(named)
            return
        if len(self._named) >= self._identified_hits:
            rule = f"at most {self._identified_hits:,} ids in one request"
            raise BodyTooLarge("too many ids; an Idempotency-Key names many hits at once", field="id", rule=rule)
        counts: Counts = {minute: {key: count}}
        self._ids.add(id_)
        self._named.append(named)
        self._identified.append(Identified(id_, {}, counts) if bot else Identified(id_, counts, {}))

    def _refuse_ahead(self, hit: PlainHit, index: int) -> None:
        try:
            ts_of(hit.ts, self.moment)
        except HitRejected as error:
            self.refuse(error, hit.count, index)

    def _refuse_odd(self, hit: FullHit, is_bot: Callable[[str], bool], index: int) -> None:
        count = hit.count or 1
        try:
            hit_of(hit, self.moment, is_bot)
        except HitRejected as error:
            self.refuse(error, count, index)
        else:
            raise AssertionError("a hit that the rules allow was found odd")

    def refuse(self, error: HitRejected, count: int = 1, index: int | None = None) -> None:
        """Note a hit that breaks a rule. With an index it is one of a piece that is counted as read elsewhere."""
        if len(self._refused) < self._receipt_items:
            self._refused.append(Item.refused(self._hits if index is None else index, error))
        self._refused_hits += 1
        self._refused_sums[refusal_class(error)] += count
        if index is None:
            self._hits += 1

    # --- when all is read ---------------------------------------------------------------------------------------
    def batch(self) -> Batch | None:
        """What the owner is to count; None if there is not one good hit."""
        if not (self._people or self._bots or self._named or self._repeated):
            return None
        if self._name is None:
            return Batch(self._people, self._bots, self._identified, {}, None)
        whole = Identified(self._name, self._people, self._bots)
        return Batch({}, {}, [whole, *self._identified], {}, None)

    def receipt(self, counted_before: frozenset[str] = frozenset()) -> Receipt:
        """The receipt, given the ids of the batch that the owner had counted before."""
        plain, late = self._plain_sums()
        whole_again = self._name is not None and self._name in counted_before
        counted, duplicate, late = (0, plain, 0) if whole_again else (plain, 0, late)
        duplicates = list(self._repeated)
        for named in self._named:
            if named.id in counted_before:
                duplicates.append(named)
            else:
                counted += named.count
                late += named.count if named.late else 0
        duplicate += sum(named.count for named in duplicates)
        refused = self._refused_sums.total()
        if not (refused or duplicate):
            return Receipt(counted, 0, late, 0)
        items, omitted = self._items(duplicates, whole_again)
        return Receipt(counted, duplicate, late, refused, items, omitted)

    def count_into(self, counters: IngestCounters, receipt: Receipt) -> None:
        """Add this request, as its receipt has it, to the counters."""
        counters.batches += 1
        counters.counted += receipt.counted
        counters.duplicate += receipt.duplicate
        counters.late += receipt.late
        for reason, count in self._refused_sums.items():
            counters.refused[reason] += count

    def _plain_sums(self) -> tuple[int, int]:
        """The counts of the hits without an id of their own: all, and the late ones."""
        total = late = 0
        for minute, cell in chain(self._people.items(), self._bots.items()):
            count = sum(cell.values())
            total += count
            if minute < self.moment.late_before:
                late += count
        return total, late

    def _items(self, duplicates: list[_Named], whole_again: bool) -> tuple[tuple[Item, ...], int]:
        """The first refused and duplicate hits in order, and how many more there are."""
        limit = self._receipt_items
        not_counted = self._refused_hits + len(duplicates)
        duplicates.sort(key=lambda named: named.index)
        items = self._refused + [Item.duplicate(named.index, "id", named.shown) for named in duplicates[:limit]]
        if whole_again:
            assert self._name is not None
            others = {named.index for named in chain(self._named, self._repeated)}
            others.update(item.index for item in self._refused)
            not_counted += self._hits - self._refused_hits - len(self._named) - len(self._repeated)
            # Refused hits that are not noted may slip in here, but only behind as many noted ones as are shown.
            plain = (index for index in range(self._hits) if index not in others)
            items += [Item.duplicate(index, "Idempotency-Key", self._name) for index in islice(plain, limit)]
        items.sort(key=lambda item: item.index)
        shown = tuple(items[:limit])
        return shown, not_counted - len(shown)
