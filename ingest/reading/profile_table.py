"""The profiles of one request: what its hits say, as numbers that its batch can count by.

Most hits of a request say what another one said, so what a hit says is looked up once per hit and read once per text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import TypeVar

from clickcurve.buckets.errors import HitRejected
from ingest.batch import Batch, Counts, Identified, ProfileCounts, WordyBatch, WordyIdentified
from ingest.hit import AnyHit, Hit, WordyHit, hour_start
from ingest.reading.counters import IngestCounters
from ingest.words.profile import Profile, ProfileReader, Words, pairs_of

SILENT, REFUSED = -1, -2  # in place of a number: it says nothing of what is divided; it breaks a rule

SaidT = TypeVar("SaidT")

_words_of = attrgetter(*Words._fields)
_UTM, _TAGS = Words._fields.index("utm"), Words._fields.index("tags")
_COUNTED_LATER = ("visitor", "groups")


def said_by(hits: Sequence[WordyHit]) -> list[Hashable]:
    """Returns what each hit says, as `ProfileTable.numbers` has it."""
    found = map(_words_of, hits)
    return [words if words[_UTM] is None and words[_TAGS] is None else tuple(map(pairs_of, words)) for words in found]


def batch_of(hit: Hit, reader: ProfileReader) -> Batch:
    """Returns the batch of a request that is one hit."""
    table = ProfileTable(reader)
    if hit.id is not None:
        return table.batch({}, {}, [table.identified(hit.id, hit)], {})
    counts: Counts = {hit.minute: {hit.key: hit.count}}
    people, bots = ({}, counts) if hit.bot else (counts, {})
    return table.batch(people, bots, [], table.words(hit))


def ignored_fields(hits: Sequence[WordyHit | AnyHit], reader: ProfileReader) -> Counter[str]:
    """Counts the hits that have each field which is not counted by."""
    found = {name: len(hits) - [getattr(hit, name) for hit in hits].count(None) for name in _not_counted(reader)}
    return Counter({name: count for name, count in found.items() if count})


def _not_counted(reader: ProfileReader) -> tuple[str, ...]:
    return (*reader.ignored, *_COUNTED_LATER)


class _Numbers(dict[SaidT, int]):
    """Numbers that are found when they are asked for first."""

    def __init__(self, find: Callable[[SaidT], int]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, said: SaidT) -> int:
        number = self[said] = self._find(said)
        return number


class ProfileTable:
    """Numbers the profiles of a request in the order in which they come.

    numbers  by what a person's hit says: nothing (None), an agent alone, or words. Also SILENT or REFUSED.
    of_bots  by a bot's agent. SILENT if bots are not divided.
    """

    def __init__(self, reader: ProfileReader) -> None:
        self._reader = reader
        self._profiles: dict[Profile, int] = {}
        self._in_order: list[Profile] = []
        self.numbers: Mapping[Hashable, int] = _Numbers(self._number)
        self.of_bots: Mapping[str | None, int] = _Numbers(self._number_of_bot)

    def _number(self, said: Hashable) -> int:
        words = Words._make(said) if isinstance(said, tuple) else Words(ua=said)
        try:
            profile = self._reader.profile(words)
        except HitRejected:
            return REFUSED
        return SILENT if profile is None else self.place(profile)

    def _number_of_bot(self, agent: str | None) -> int:
        profile = self._reader.bot(agent)
        return SILENT if profile is None else self.place(profile)

    def place(self, profile: Profile) -> int:
        number = self._profiles.setdefault(profile, len(self._in_order))
        if number == len(self._in_order):
            self._in_order.append(profile)
        return number

    def profile(self, number: int) -> Profile | None:
        return self._in_order[number] if number >= 0 else None

    def words(self, hit: Hit) -> ProfileCounts:
        """Returns what one hit adds to the counts by profile."""
        if hit.profile is None:
            return {}
        return {hour_start(hit.minute): {self.place(hit.profile): {hit.key: hit.count}}}

    def identified(self, id_: str, hit: Hit) -> Identified:
        """Returns one hit that counts under an id."""
        counts: Counts = {hit.minute: {hit.key: hit.count}}
        return identified_as(id_, *(({}, counts) if hit.bot else (counts, {})), self.words(hit))

    def batch(self, people: Counts, bots: Counts, identified: Sequence[Identified], words: ProfileCounts) -> Batch:
        """Returns a batch of these counts; one without words if no hit has said anything."""
        if not self._in_order:
            return Batch(people, bots, identified, {}, None)
        places: dict[tuple[str, ...], int] = {}
        profiles = [(places.setdefault(names, len(places)), values) for names, values in self._in_order]
        ids = [
            each if type(each) is WordyIdentified else WordyIdentified(each.id, each.people, each.bots)
            for each in identified
        ]
        return WordyBatch(people, bots, ids, {}, None, {}, list(places), profiles, _without_empty(words))


def identified_as(id_: str, people: Counts, bots: Counts, words: ProfileCounts) -> Identified:
    """Returns the hits of an id, with what they say if they say anything."""
    found = _without_empty(words)
    return WordyIdentified(id_, people, bots, found) if found else Identified(id_, people, bots)


def _without_empty(words: ProfileCounts) -> ProfileCounts:
    return {hour: by_profile for hour, by_profile in words.items() if by_profile}


def count_ignored(fields: Counter[str], counters: IngestCounters) -> None:
    for name, count in fields.items():
        counters.ignored[name] = counters.ignored.get(name, 0) + count
