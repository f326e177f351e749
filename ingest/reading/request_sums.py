"""The hits of one request, summed as they are judged; then a batch for the owner, and a receipt.

Nothing of a request is published before its body has been read to the end, so a body that turns out to be unreadable
has counted nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from operator import itemgetter

from msgspec import UNSET

from clickcurve.access import ALL_ACCESS, Access
from clickcurve.buckets.errors import BodyTooLarge, HitRejected
from clickcurve.buckets.measures import AMOUNT_MAX, CLICKS, Measure
from clickcurve.keys import ALL_LINKS, link_key
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.batch import Batch, SourceStep
from ingest.hit import Hit, Judge, Moment, NoHit, RawHits, sent_id
from ingest.hit_sums import PAST_MAX, HitSums, Past, PastValues
from ingest.reading.judge import HitJudge, id_within, json_of
from ingest.reading.receipt import RECEIPT_ITEMS, IngestCounters, Item, Receipt

# Hits with an id of their own in one request. Each costs a hundred times the memory of a hit without.
IDENTIFIED_HITS = 100_000
IDS_AT_ONCE = 500
# Values in one body, and how many of them may be refused. 4 kB of gzip can hold two million that are no hits, and each
# takes 1 to 3 us to judge: a request of them costs 0.3 s at most.
BODY_VALUES = 1_000_000
REFUSED_HITS = 100_000
# Hits that are kept unsummed. So many keys take 6 MB in memory, and the buffer sums them in one go, in some 7 ms.
KEPT_HITS = 100_000
# Different counts in one request: a link or group in a minute, in an hour with one set of attributes, or a visitor of a
# day. Each takes 0.2 to 4 us on the event loop, in steps, and 100 to 500 bytes until its flush.
DIFFERENT_COUNTS = 250_000
_COUNTS_OF_A_HIT = 15  # of a person in four groups


NO_EVENTS: Mapping[Measure, Past] = {}


def _size(past: Past) -> int:
    """Returns how many counts there are in a past."""
    return len(past.people) + len(past.bots) + len(past.values)


class RequestSums:
    """What one request asks to be counted. `name`: the Idempotency-Key, under which hits without an id count together.

    allowed: the keys that its token may touch; hits of others are refused, and each hit counts in the token's group.

    Take the hits in the order of the body: an item of the receipt names a hit by its index.
    """

    def __init__(
        self,
        moment: Moment,
        name: str | None = None,
        identified_hits: int = IDENTIFIED_HITS,
        receipt_items: int = RECEIPT_ITEMS,
        reader: ProfileReader = NO_DIMENSIONS,
        allowed: Access = ALL_ACCESS,
    ) -> None:
        name = id_within(name, allowed)
        self.moment = moment
        self.judge = HitJudge(moment, reader, allowed, receipt_items)
        self._key_form = reader.key_form
        self.refusals = self.judge.refusals
        self._allowed = allowed
        self._receipt_items = receipt_items
        self._name = name
        self._identified_hits = identified_hits
        self._sums = HitSums()
        self._repeated: dict[int, Hit] = {}  # by index: later hits with an id that an earlier one of this request has
        self._ids: dict[str, int] = {} if name is None else {name: -1}  # the index of the first hit that has it
        self._hits = 0  # so far: the index of the next
        self._amount = 0  # of the values of events so far
        self._past: Counter[Measure] = Counter()  # what histories have of each so far
        self._counted = 0  # hits and minutes of histories so far
        self._repeated_counts = 0  # told by hits that are not summed yet
        self._next_look = DIFFERENT_COUNTS // _COUNTS_OF_A_HIT  # at how many the different counts are looked at

    # --- adding -------------------------------------------------------------------------------------------------
    def add_steps(self, raw: RawHits, is_bot: Judge) -> Iterator[None]:
        """Adds hits as `add` does; yields before that while it judges agents that are new, for others to run."""
        yield from self.judge.learn(raw, is_bot)
        self.add(raw, is_bot)

    def add(self, raw: RawHits, is_bot: Judge) -> None:
        """Adds the hits that are good and notes why the others are not; `is_bot` judges a user agent."""
        if self._key_form:
            self._with_forms(raw)
        first, more = self._hits, len(raw.plain) + len(raw.json) + len(raw.odd)
        self._hits += more + raw.no_objects
        if raw.plain and not self.judge.groups_all:
            refused = self._sums.add_plain(raw.plain, self.moment)
            places = map(raw.plain.index, refused)  # found by identity, in C
            self.judge.one_by_one(((first + n, None, json_of(raw.plain[n])) for n in places), is_bot)
            if self._hits > KEPT_HITS:
                self._sums.sum_keys()
        else:
            judged = self.judge.judged(raw, first, is_bot)
            if judged.links is not None:
                self._sums.links.add_columns(judged.links)
            for hits in judged.groups:
                self._sums.groups.add_columns(hits)
            for index, hit in judged.singles:
                if self._has_room_for(index, hit):
                    self._take(index, hit)
        self._check_values()
        self._check_counts(more)

    def _has_room_for(self, index: int, hit: Hit) -> bool:
        """Tells whether the values of a request are small enough with this hit; else refuses it."""
        amount = hit.value * hit.count
        if self._amount + amount > AMOUNT_MAX:
            rule = f"at most {AMOUNT_MAX:,} in one request"
            detail = "the values of the request are too large together"
            error = HitRejected(detail, field="value", value=hit.value, rule=rule)
            self.refusals.note(error, hit.count, index)
            return False
        self._amount += amount
        return True

    def _with_forms(self, raw: RawHits) -> None:
        """Gives the keys of hits the form in which they count."""
        of = self._key_form.of
        for plain in raw.plain:
            plain.key = of(plain.key)
        for hit in (*raw.json, *raw.odd):
            if not isinstance(hit, NoHit):
                hit.key = of(hit.key) if isinstance(hit.key, str) else hit.key

    def _check_values(self) -> None:
        if self._hits > BODY_VALUES:
            rule = f"at most {BODY_VALUES:,} values in one request"
            raise BodyTooLarge("too many values; send them in several requests", rule=rule)
        if self.refusals.hits > REFUSED_HITS:
            rule = f"at most {REFUSED_HITS:,} refused hits in one request"
            raise BodyTooLarge(
                f"too many hits are refused{self.refusals.first()}; nothing of it was counted", rule=rule
            )

    def _check_counts(self, more: int) -> None:
        """Refuses too many different counts; looks at them when there may be as many."""
        self._counted += more
        if self._counted < self._next_look:
            return
        most = self._sums.counts(repeated=True) - self._repeated_counts
        if most > DIFFERENT_COUNTS:
            different = self._sums.counts(repeated=False)
            self._repeated_counts += most - different
            most = different
        if most > DIFFERENT_COUNTS:
            rule = (
                f"at most {DIFFERENT_COUNTS:,} different minutes, sets of attributes and visitors of links and groups"
            )
            raise BodyTooLarge("too many different counts; send the hits in several requests", rule=rule)
        self._next_look += max((DIFFERENT_COUNTS - most) // _COUNTS_OF_A_HIT, self._counted // 16)

    def add_hit(self, hit: Hit) -> None:
        """Adds one hit that is good."""
        self._take(self._hits, hit)
        self._hits += 1

    def _take(self, index: int, hit: Hit) -> None:
        if hit.id is not None:
            if hit.id in self._ids:
                self._repeated[index] = hit
                return
            if len(self._sums.with_id) >= self._identified_hits:
                rule = f"at most {self._identified_hits:,} ids in one request"
                raise BodyTooLarge("too many ids; use one Idempotency-Key for many hits", field="id", rule=rule)
            self._ids[hit.id] = index
        self._sums.add(hit)

    def add_history(
        self,
        key: str,
        people: Mapping[int, int],
        bots: Mapping[int, int],
        opening: int,
        values: PastValues,
        *,
        is_grouped: bool = False,
        events: Mapping[Measure, Past] = NO_EVENTS,
    ) -> None:
        """Adds what one object tells of a link's past: minute start -> count, and a count without dates; and events.

        It counts in the groups of its token and its host too, but for what has no dates. is_grouped: the group of its
        host has a history of its own, which a token with a prefix cannot bring.
        """
        key = self._key_form.of(key)
        total = sum(people.values()) + sum(bots.values()) + opening
        if not self._allowed.covers(key):
            self.refuse(self.judge.outside(key), max(1, total), "history")
            return
        if not self._has_room_for_past(key, total, events):
            return
        values = list(values)
        self._sums.links.add_past(key, people, bots, values)
        groups = self.judge.groups_of(key) if self._allowed.prefix or not is_grouped else ()
        for group in groups:
            self._sums.groups.add_past(group, people, bots, values)
        self._sums.add_past_events((link_key(key), *groups, ALL_LINKS), events)
        if opening:
            self._sums.openings[key] = self._sums.openings.get(key, 0) + opening
        for measure, past in events.items():
            if not measure.of_values:
                self._sums.events.update(past.people)
                self._sums.events.update(past.bots)
        self._hits += 1
        self._check_values()
        self._check_counts(len(people) + len(bots) + len(values) + sum(map(_size, events.values())))

    def add_group_history(
        self,
        stored: str,
        people: Mapping[int, int],
        bots: Mapping[int, int],
        values: PastValues,
        events: Mapping[Measure, Past] = NO_EVENTS,
    ) -> None:
        """Adds the same of a group, by its stored key; no link and no receipt has these hits."""
        if self._allowed.prefix:
            detail = "a token with a prefix brings no history of groups: its own counts what it writes"
            self.refuse(HitRejected(detail, field="group", value=None, rule="histories of links"), 1, "history")
            return
        if not self._has_room_for_past(stored, sum(people.values()) + sum(bots.values()), events):
            return
        values = list(values)
        self._sums.groups.add_past(stored, people, bots, values)
        self._sums.add_past_events((stored,), events)
        self._hits += 1
        self._check_values()
        self._check_counts(len(people) + len(bots) + len(values) + sum(map(_size, events.values())))

    def _has_room_for_past(self, name: str, clicks: int, events: Mapping[Measure, Past]) -> bool:
        """Tells whether the histories of a request are small enough with this one; else refuses it."""
        past = self._past + Counter({CLICKS: clicks} | {measure: past.hits() for measure, past in events.items()})
        if max(past.values(), default=0) > PAST_MAX:
            detail = "the histories of the request are too large together"
            rule = f"at most {PAST_MAX:,} in one request"
            self.refuse(HitRejected(detail, field="history", value=name, rule=rule), max(1, clicks), "history")
            return False
        self._past = past
        return True

    def refuse_unexplained(self, reason: str, hits: int) -> None:
        """Counts some hits of a class that break a rule."""
        self.refusals.count(reason, hits, hits)
        self._check_values()

    @property
    def hits(self) -> int:
        """How many there were so far: the index of the next one."""
        return self._hits

    def refuse(self, error: HitRejected, count: int = 1, reason: str | None = None, index: int | None = None) -> None:
        """Notes the next hit as one that breaks a rule; `reason`: its class in the counters, if not the field's.

        index: of its item, if that is not the next hit's.
        """
        self.refusals.note(error, count, self._hits if index is None else index, reason)
        self._hits += 1
        self._check_values()

    # --- when all is read ---------------------------------------------------------------------------------------
    def has_many_ids(self) -> bool:
        """Tells whether to make the batch takes the event loop too long: 4 to 25 us for each hit with an id."""
        return len(self._sums.with_id) > IDS_AT_ONCE

    async def charge(self) -> None:
        """Asks the limit of writes that counts hits, if there is one; raises if it refuses them."""
        if self._allowed.charge is None:
            return
        without_id, _ = self._sums.sums_without_id(0)
        if hits := without_id + sum(hit.count for hit in self._sums.with_id):
            await self._allowed.charge(hits)

    def batch(self) -> Batch | None:
        """Returns what the owner is to count; None if not one hit is good."""
        sums = self._sums
        is_good = sums.keys or sums.links or sums.groups or sums.with_id or self._repeated
        return sums.batch(self._name) if is_good else None

    def batch_with(self, step: SourceStep) -> Batch:
        """Returns the batch that moves an import's offset together with the hits, if any."""
        self._sums.sum_keys()
        batch = self._sums.batch()
        batch.source = step
        return batch

    def receipt(self, counted_before: frozenset[str] = frozenset()) -> Receipt:
        """Returns the receipt, given the ids of the batch that the owner had counted before."""
        without_id, late = self._sums.sums_without_id(self.moment.late_before)
        whole_again = self._name is not None and self._name in counted_before
        counted, duplicate, late = (0, without_id, 0) if whole_again else (without_id, 0, late)
        duplicates = dict(self._repeated)
        for hit in self._sums.with_id:
            if hit.id in counted_before:
                duplicates[self._ids[hit.id]] = hit
            else:
                counted += hit.count
                late += hit.count if hit.minute < self.moment.late_before else 0
        duplicate += sum(hit.count for hit in duplicates.values())
        refused, adjusted = sum(self.refusals.sums.values()), self.judge.adjusted.sum
        if not (refused or duplicate or adjusted):
            return Receipt(counted, 0, late, 0, ())
        items, omitted = self._items(duplicates, whole_again)
        return Receipt(counted, duplicate, late, refused, items, omitted or UNSET, adjusted or UNSET)

    def count_into(self, counters: IngestCounters, receipt: Receipt) -> None:
        """Adds this request, as its receipt has it, to the counters."""
        counters.batches += 1
        counters.counted += receipt.counted
        counters.duplicate += receipt.duplicate
        counters.late += receipt.late
        for reason, count in self.refusals.sums.items():
            counters.refused[reason] = counters.refused.get(reason, 0) + count
        for name, count in self.judge.adjusted.fields.items():
            counters.adjusted[name] += count
        for name, count in self.judge.ignored.items():
            counters.ignored[name] = counters.ignored.get(name, 0) + count

    def _items(self, duplicates: dict[int, Hit], whole_again: bool) -> tuple[tuple[Item, ...], int]:
        """Returns the first items in order, and how many more there are: hits that did not count, then lost words."""
        limit, refusals, adjusted = self._receipt_items, self.refusals, self.judge.adjusted
        of_items = refusals.hits + len(duplicates) + adjusted.words
        first = sorted(duplicates.items(), key=itemgetter(0))[:limit]
        items = refusals.items + [Item.duplicate(index, "id", hit.sent_id) for index, hit in first]
        if whole_again:
            assert self._name is not None
            others = {*self._ids.values(), *self._repeated, *(item.index for item in refusals.items)}
            of_items += self._hits - refusals.hits - len(self._sums.with_id) - len(self._repeated)
            # Refused hits that are not noted may slip in here, but only after as many noted ones as are shown.
            plain = (index for index in range(self._hits) if index not in others)
            name = sent_id(self._name)
            items += [Item.duplicate(index, "Idempotency-Key", name) for index in islice(plain, limit)]
        items.sort(key=lambda item: item.index)
        items = items[:limit]
        items += adjusted.items[: limit - len(items)]
        items.sort(key=lambda item: item.index)
        return tuple(items), of_items - len(items)
