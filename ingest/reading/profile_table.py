"""What the hits of one request say, on its way into a batch: read once per hit, and numbered when all is read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from clickcurve.buckets.ladder import DAY_S
from ingest.batch import Batch, Counts, GroupCounts, Identified, ProfileCounts, Words, WordyBatch, WordyIdentified
from ingest.hit import AnyHit, Hit, WordyHit, hour_start
from ingest.words.profile import KindOfHit, Profile, ProfileReader


def count_ignored(hits: Sequence[WordyHit | AnyHit], reader: ProfileReader, ignored: dict[str, int]) -> None:
    """Adds the hits that have each field which says nothing of what is divided."""
    for name in reader.ignored:
        if count := len(hits) - [getattr(hit, name) for hit in hits].count(None):
            ignored[name] = ignored.get(name, 0) + count


def count_ignored_by(
    kinds: Sequence[KindOfHit], hits: Sequence[WordyHit], reader: ProfileReader, ignored: dict[str, int]
) -> None:
    """Adds the same, given what these hits count as: it was found with their words, but for visitors."""
    for kind in [kind for kind in kinds if kind.ignored]:
        for name in kind.ignored:
            ignored[name] = ignored.get(name, 0) + 1
    if "visitor" in reader.ignored and (given := len(hits) - [hit.visitor for hit in hits].count(None)):
        ignored["visitor"] = ignored.get("visitor", 0) + given


CellsByProfile = defaultdict[Profile, defaultdict[str, int]]
_no_counts: Callable[[], defaultdict[str, int]] = partial(defaultdict, int)


def _no_cells() -> CellsByProfile:
    return defaultdict(_no_counts)


class SaidSums:
    """What hits say, summed until their batch is made: hour -> profile -> key -> count, and day -> key -> visitors.

    Keys are links; of GroupSums they are stored keys of groups.
    """

    def __init__(self) -> None:
        self.words: defaultdict[int, CellsByProfile] = defaultdict(_no_cells)
        self.by_kind: defaultdict[int, dict[KindOfHit, dict[str, int]]] = defaultdict(dict)
        self.visitors: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(partial(defaultdict, list))
        self.groups: GroupSums | None = None

    def __bool__(self) -> bool:
        return bool(self.words or self.by_kind or self.groups)

    def add(self, hit: Hit) -> None:
        """Adds what a hit says."""
        if hit.profile is not None:
            self.words[hour_start(hit.minute)][hit.profile][hit.key] += hit.count
            for key, visitor in hit.visitors[:1]:
                self.visitors[_day_start(hit.minute)][key].append(visitor)
        if hit.groups:
            self.add_groups(hit)

    def add_groups(self, hit: Hit) -> None:
        """Adds a hit to its groups."""
        self.group_sums().add(hit)

    def group_sums(self) -> GroupSums:
        """Returns the sums of groups, made when the first hit of one comes."""
        if self.groups is None:
            self.groups = GroupSums()
        return self.groups

    def add_past(self, key: str, words: Iterable[tuple[str, int, str, int]]) -> None:
        """Adds what is known of a past: dimension, start of an hour, value, count."""
        for dimension, hour, value, count in words:
            self.words[hour][Profile((dimension,), (value,))][key] += count

    def words_by_number(self, numbers: dict[Profile, int]) -> Words:
        """Returns the words, with profiles by number: those that are new get the next ones."""
        counts: ProfileCounts = {
            hour: {numbers.setdefault(profile, len(numbers)): dict(by_key) for profile, by_key in by_profile.items()}
            for hour, by_profile in self.words.items()
            if by_profile
        }
        for hour, by_kind in self.by_kind.items():
            of_hour = counts.setdefault(hour, {}) if by_kind else {}
            for kind, by_key in by_kind.items():
                assert kind.profile is not None
                number = numbers.setdefault(kind.profile, len(numbers))
                before = of_hour.get(number)
                of_hour[number] = by_key if before is None else dict(Counter(before) + Counter(by_key))
        return Words(counts, {day: dict(by_key) for day, by_key in self.visitors.items() if by_key})

    def groups_by_number(self, numbers: dict[Profile, int]) -> GroupCounts:
        """Returns the groups' counts and words in the same way."""
        found = self.groups
        return (
            GroupCounts()
            if found is None
            else GroupCounts(found.people, found.bots, found.said.words_by_number(numbers))
        )


class GroupSums:
    """The hits of groups, by their stored keys, and what they say."""

    def __init__(self) -> None:
        self.people: Counts = {}
        self.bots: Counts = {}
        self.said = SaidSums()

    def add(self, hit: Hit) -> None:
        cell = (self.bots if hit.bot else self.people).setdefault(hit.minute, {})
        for group in hit.groups:
            cell[group] = cell.get(group, 0) + hit.count
            if hit.profile is not None:
                self.said.words[hour_start(hit.minute)][hit.profile][group] += hit.count
        for group, visitor in hit.visitors[1:]:
            self.said.visitors[_day_start(hit.minute)][group].append(visitor)

    def add_past(
        self,
        group: str,
        people: Mapping[int, int],
        bots: Mapping[int, int],
        words: Iterable[tuple[str, int, str, int]],
    ) -> None:
        """Adds what is known of a group's past: minute start -> count, and words as of a link."""
        add_past_counts(self.people, group, people)
        add_past_counts(self.bots, group, bots)
        self.said.add_past(group, words)


def add_past_counts(counts: Counts, key: str, past: Mapping[int, int]) -> None:
    """Adds minute start -> count of one key to counts."""
    for minute, count in past.items():
        cell = counts.setdefault(minute, {})
        cell[key] = cell.get(key, 0) + count


def _day_start(t: int) -> int:
    return t - t % DAY_S


def batch_of(hit: Hit) -> Batch:
    """Returns the batch of a request that is one hit."""
    people, bots = _counts_of(hit)
    if hit.profile is not None or hit.groups:
        said = SaidSums()
        if hit.id is not None:
            return made_batch({}, {}, said, None, [hit])
        said.add(hit)
        return made_batch(people, bots, said, None, ())
    if hit.id is None:
        return Batch(people, bots, [], {}, None)
    return Batch({}, {}, [Identified(hit.id, people, bots)], {}, None)


def made_batch(people: Counts, bots: Counts, said: SaidSums, name: str | None, with_id: Iterable[Hit]) -> Batch:
    """Returns the batch of a request: counts, which count under `name` if it has one, and hits with ids of their own.

    It is one without words if no hit says anything of what is divided, or in which groups it is.
    """
    numbers: dict[Profile, int] = {}
    ids = [_identified_hit(hit, numbers) for hit in with_id]
    words, groups = said.words_by_number(numbers), said.groups_by_number(numbers)
    if name is not None:
        ids.insert(0, _identified(name, people, bots, words, groups))
        people, bots, words, groups = {}, {}, Words(), GroupCounts()
    if not (numbers or groups or any(type(one) is WordyIdentified for one in ids)):
        return Batch(people, bots, ids, {}, None)
    places: dict[tuple[str, ...], int] = {}
    profiles = [(places.setdefault(names, len(places)), values, known) for names, values, known in numbers]
    wordy = [one if type(one) is WordyIdentified else WordyIdentified(one.id, one.people, one.bots) for one in ids]
    return WordyBatch(people, bots, wordy, {}, None, {}, list(places), profiles, words, groups)


def _identified_hit(hit: Hit, numbers: dict[Profile, int]) -> Identified:
    said = SaidSums()
    said.add(hit)
    words, groups = said.words_by_number(numbers), said.groups_by_number(numbers)
    return _identified(str(hit.id), *_counts_of(hit), words, groups)


def _identified(id_: str, people: Counts, bots: Counts, words: Words, groups: GroupCounts) -> Identified:
    if words.counts or groups:
        return WordyIdentified(id_, people, bots, words, groups)
    return Identified(id_, people, bots)


def _counts_of(hit: Hit) -> tuple[Counts, Counts]:
    counts: Counts = {hit.minute: {hit.key: hit.count}}
    return ({}, counts) if hit.bot else (counts, {})
