"""The hits of one request: judged and summed while they are read, then a batch for the owner and a receipt.

Nothing of a request is published before its body has been read to the end, so a body that turns out to be unreadable
has counted nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, islice
from operator import itemgetter
from typing import cast

from msgspec import UNSET

from clickcurve.access import ALL_ACCESS, Access
from clickcurve.buckets.errors import BodyTooLarge, HitRejected
from clickcurve.times import YEARS, iso_seconds
from ingest.attributes.profile import NO_DIMENSIONS, HitColumns, ProfileReader
from ingest.batch import Batch, SourceStep
from ingest.hit import (
    NO_COUNT,
    NO_TIME,
    Hit,
    JsonHit,
    Judge,
    Moment,
    NoHit,
    PlainHit,
    RawHits,
    broken_rule,
    group_of_host,
    groups_of,
    hit_at,
    hit_of,
    id_within,
    is_grouped,
    is_id,
    refused_count,
    sent_id,
    time_of,
)
from ingest.hit_sums import HitSums, PastValues, column_of, columns_of, where
from ingest.reading.counters import IngestCounters, class_of_rule
from ingest.reading.receipt import RECEIPT_ITEMS, Item, Receipt, Refusals

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
# New agents that are judged in one step, in characters: 2 us each with all dimensions, and four bodies take turns.
AGENT_CHARACTERS_STEP = 2_048
_AGENT_COST = 64  # characters that take as long as what each agent takes, however short
# Hits from which on columns are faster: they cost 12 us and 0.9 a hit, one by one 1.5 and 2.9.
IN_COLUMNS = 6


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
        self.moment = moment
        self._allowed = allowed
        name = id_within(name, allowed)
        self.refusals = Refusals(receipt_items)
        self._receipt_items = receipt_items
        self._name = name
        self._identified_hits = identified_hits
        self._reader = reader
        self._sums = HitSums()
        self._ignored: dict[str, int] = {}
        self._repeated: dict[int, Hit] = {}  # by index: later hits with an id that an earlier one of this request has
        self._ids: dict[str, int] = {} if name is None else {name: -1}  # the index of the first hit that has it
        self._hits = 0  # so far: the index of the next
        self._counted = 0  # hits and minutes of histories so far
        self._repeated_counts = 0  # told by hits that are not summed yet
        self._next_look = DIFFERENT_COUNTS // _COUNTS_OF_A_HIT  # at how many the different counts are looked at
        self._learned = 0  # characters of new agents in this step

    # --- adding -------------------------------------------------------------------------------------------------
    def add_steps(self, raw: RawHits, is_bot: Judge) -> Iterator[None]:
        """Adds hits as `add` does; yields before that while it judges agents that are new, for others to run."""
        hits = raw.json or [hit for hit in raw.odd if isinstance(hit, JsonHit)]
        for agent in self._reader.learn_agents({hit.ua for hit in hits}, is_bot):
            self._learned += len(agent) + _AGENT_COST
            if self._learned >= AGENT_CHARACTERS_STEP:
                self._learned = 0
                yield
        self.add(raw, is_bot)

    def add(self, raw: RawHits, is_bot: Judge) -> None:
        """Adds the hits that are good and notes why the others are not; `is_bot` judges a user agent."""
        if raw.plain and is_grouped(self._allowed, self._reader):
            self._add_json(list(map(_json_of, raw.plain)), is_bot)
        elif raw.plain:
            self._add_plain(raw.plain, is_bot)
        elif raw.json:
            self._add_json(raw.json, is_bot)
        for value in raw.odd:
            self._add_one(value, is_bot, self._hits)
            self._hits += 1
        if raw.no_objects:
            self.refusals.count("hit", raw.no_objects, raw.no_objects)
            self._hits += raw.no_objects
        self._check_values()
        self._check_counts(len(raw.plain) + len(raw.json) + len(raw.odd))

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

    def _add_plain(self, hits: Sequence[PlainHit], is_bot: Judge) -> None:
        for hit in self._sums.add_plain(hits, self.moment):
            raw = JsonHit(hit.key, hit.ts, hit.count or None)
            self._add_one(raw, is_bot, self._hits + hits.index(hit))  # found by identity, in C
        self._hits += len(hits)
        if self._hits > KEPT_HITS:
            self._sums.sum_keys()

    def _add_json(self, hits: Sequence[JsonHit], is_bot: Judge) -> None:
        """Adds hits in columns. One by one where they are few, or have ids, groups, odd times or keys of others."""
        places: Sequence[int] = range(len(hits))
        seconds: Sequence[int | None] = (None,) * len(hits)
        if len(hits) >= IN_COLUMNS:
            columns = columns_of(hits)
            seconds = self._seconds(column_of(columns, "ts"))
            places = self._add_columns(columns, seconds, is_bot)
        for place in places:
            self._add_one(hits[place], is_bot, self._hits + place, seconds[place])
        self._hits += len(hits)

    def _add_columns(self, columns: HitColumns, seconds: Sequence[int | None], is_bot: Judge) -> Sequence[int]:
        """Adds hits in columns; returns the places of those that are to be added one by one."""
        places = range(len(seconds))
        fit: Sequence[bool] = ()
        if "id" in columns or "groups" in columns or None in seconds or self._allowed.prefix:
            covers, ids, groups_of_hits = self._allowed.covers, column_of(columns, "id"), column_of(columns, "groups")
            fit = [
                not (second is None or id_ or groups) and covers(key)
                for second, id_, groups, key in zip(seconds, ids, groups_of_hits, columns["key"], strict=True)
            ]
            if True not in fit:
                return places
            columns, seconds = where(columns, fit), list(compress(seconds, fit))
        times = cast(Sequence[int], seconds)
        try:
            self._sums.links.add_columns(columns, times, self._reader, is_bot)
        except HitRejected:
            return places
        self._add_to_groups(columns, times, is_bot)
        for name in columns.keys() & self._reader.ignored:
            column = columns[name]
            self._ignored[name] = self._ignored.get(name, 0) + len(column) - column.count(None)
        return [place for place in places if not fit[place]] if fit else []

    def _add_to_groups(self, hits: HitColumns, times: Sequence[int], is_bot: Judge) -> None:
        """Adds hits that keep to all rules to the groups of their token and of their hosts."""
        own = self._allowed.group_row
        if own:
            in_own = {**hits, "key": [own] * len(times)}
            self._sums.groups.add_columns(in_own, times, self._reader, is_bot)
        if not self._reader.group_by_host:
            return
        groups = list(map(group_of_host, hits["key"]))
        by_host: HitColumns = {**hits, "key": groups}
        has_group = [bool(group) and group != own for group in groups]
        if not all(has_group):
            by_host, times = where(by_host, has_group), list(compress(times, has_group))
        if times:
            self._sums.groups.add_columns(by_host, times, self._reader, is_bot)

    def _seconds(self, sent: Sequence[int | float | str | None]) -> Sequence[int | None]:
        """Returns the seconds of some hits; None for a time that no hit may have."""
        types, first, seconds = {*map(type, sent)}, YEARS.stop, cast(Sequence[int], sent)
        if types == {str}:
            read = list(map(iso_seconds, cast(Sequence[str], sent)))
            types, first, seconds = {*map(type, read)}, 0, cast(Sequence[int], read)
        if types == {int} and min(seconds) >= first and max(seconds) <= self.moment.latest:
            return seconds
        return [self.moment.now if ts is None else time_of(ts, self.moment) for ts in sent]

    def _add_one(self, raw: JsonHit | NoHit, is_bot: Judge, index: int, second: int | None = None) -> None:
        """Adds one hit, or notes why it is refused; second: its time, where all of it was decoded and this is good."""
        if isinstance(raw, NoHit):
            self.refusals.note(raw.error, refused_count(raw.count), index)
            return
        is_good = second is not None and (raw.id is None or is_id(raw.id)) and not self._allowed.prefix
        if self.refusals.are_explained() and not is_good:
            broken = broken_rule(raw, self.moment, self._reader, self._allowed)
            if broken is not None:
                self.refusals.count(class_of_rule(broken), refused_count(raw.count))
                return
        try:
            hit = (
                hit_at(raw, cast(int, second), is_bot, self._reader, self._allowed)
                if is_good
                else hit_of(raw, self.moment, is_bot, self._reader, self._allowed)
            )
        except HitRejected as error:
            self.refusals.note(error, refused_count(raw.count), index)
        else:
            count_ignored(raw, self._reader, self._ignored)
            self._take(index, hit)

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
    ) -> None:
        """Adds what one object tells of a link's past: minute start -> count, and a count without dates.

        It counts in the groups of its token and its host too, but for what has no dates. is_grouped: the group of its
        host has a history of its own, which a token with a prefix cannot bring.
        """
        allowed = self._allowed
        if not allowed.covers(key):
            detail, total = "key is outside the token's prefix", sum(people.values()) + sum(bots.values()) + opening
            error = HitRejected(detail, field="key", value=key, rule=allowed.key_rule)
            self.refuse(error, max(1, total), "history")
            return
        values = list(values)
        self._sums.links.add_past(key, people, bots, values)
        if allowed.prefix or not is_grouped:
            for group in groups_of(key, (), allowed, self._reader):
                self._sums.groups.add_past(group, people, bots, values)
        if opening:
            self._sums.openings[key] = self._sums.openings.get(key, 0) + opening
        self._hits += 1
        self._check_values()
        self._check_counts(len(people) + len(bots) + len(values))

    def add_group_history(
        self, stored: str, people: Mapping[int, int], bots: Mapping[int, int], values: PastValues
    ) -> None:
        """Adds the same of a group, by its stored key; no link and no receipt has these hits."""
        if self._allowed.prefix:
            detail = "a token with a prefix brings no history of groups: its own counts what it writes"
            self.refuse(HitRejected(detail, field="group", value=None, rule="histories of links"), 1, "history")
            return
        values = list(values)
        self._sums.groups.add_past(stored, people, bots, values)
        self._hits += 1
        self._check_values()
        self._check_counts(len(people) + len(bots) + len(values))

    def refuse(self, error: HitRejected, count: int = 1, reason: str | None = None) -> None:
        """Notes the next hit as one that breaks a rule; `reason`: its class in the counters, if not the field's."""
        self.refusals.note(error, count, self._hits, reason)
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
        is_good = sums.keys or sums.links or sums.with_id or self._repeated
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
        refused = sum(self.refusals.sums.values())
        if not (refused or duplicate):
            return Receipt(counted, 0, late, 0, ())
        items, omitted = self._items(duplicates, whole_again)
        return Receipt(counted, duplicate, late, refused, items, omitted or UNSET)

    def count_into(self, counters: IngestCounters, receipt: Receipt) -> None:
        """Adds this request, as its receipt has it, to the counters."""
        counters.batches += 1
        counters.counted += receipt.counted
        counters.duplicate += receipt.duplicate
        counters.late += receipt.late
        for reason, count in self.refusals.sums.items():
            counters.refused[reason] = counters.refused.get(reason, 0) + count
        for name, count in self._ignored.items():
            counters.ignored[name] = counters.ignored.get(name, 0) + count

    def _items(self, duplicates: dict[int, Hit], whole_again: bool) -> tuple[tuple[Item, ...], int]:
        """Returns the first refused and duplicate hits in order, and how many more there are."""
        limit, refusals = self._receipt_items, self.refusals
        not_counted = refusals.hits + len(duplicates)
        first = sorted(duplicates.items(), key=itemgetter(0))[:limit]
        items = refusals.items + [Item.duplicate(index, "id", hit.sent_id) for index, hit in first]
        if whole_again:
            assert self._name is not None
            others = {*self._ids.values(), *self._repeated, *(item.index for item in refusals.items)}
            not_counted += self._hits - refusals.hits - len(self._sums.with_id) - len(self._repeated)
            # Refused hits that are not noted may slip in here, but only after as many noted ones as are shown.
            plain = (index for index in range(self._hits) if index not in others)
            name = sent_id(self._name)
            items += [Item.duplicate(index, "Idempotency-Key", name) for index in islice(plain, limit)]
        items.sort(key=lambda item: item.index)
        shown = tuple(items[:limit])
        return shown, not_counted - len(shown)


def count_ignored(hit: JsonHit, reader: ProfileReader, ignored: dict[str, int]) -> None:
    """Counts each field of a hit that no dimension uses."""
    for name in reader.ignored:
        if getattr(hit, name) is not None:
            ignored[name] = ignored.get(name, 0) + 1


def _json_of(hit: PlainHit) -> JsonHit:
    return JsonHit(hit.key, None if hit.ts == NO_TIME else hit.ts, None if hit.count == NO_COUNT else hit.count)
