"""What the hits of one request say, on its way into a batch: read once per hit, and numbered when all is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from clickcurve.buckets.ladder import DAY_S, HOUR_S
from ingest.attributes.numbered_profiles import NumberedProfiles, ProfileRow
from ingest.attributes.profile import Profile, ProfileReader
from ingest.batch import Batch, Counts, GroupCounts, HourWords, Identified, Words, WordyBatch, WordyIdentified
from ingest.hit import AnyHit, Hit, WordyHit, hour_start


def count_ignored(hits: Sequence[WordyHit | AnyHit], reader: ProfileReader, ignored: dict[str, int]) -> None:
    """Adds the hits that have each field which says nothing of what is divided."""
    for name in reader.ignored:
        if count := len(hits) - [getattr(hit, name) for hit in hits].count(None):
            ignored[name] = ignored.get(name, 0) + count


_no_visitors: Callable[[], defaultdict[str, list[int]]] = partial(defaultdict, list)


class SaidSums:
    """What hits say until their batch is made, by the hour, and day -> key -> visitors.

    Keys are links; of GroupSums they are stored keys of groups.
    """

    def __init__(self, profiles: NumberedProfiles | None = None) -> None:
        """Begins with nothing; profiles: those that other hits of the same batch have."""
        self.profiles = NumberedProfiles() if profiles is None else profiles
        self.hours: defaultdict[int, HourWords] = defaultdict(HourWords)
        self.visitors: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(_no_visitors)
        self.groups: GroupSums | None = None

    def __bool__(self) -> bool:
        return bool(self.hours or self.groups)

    def add(self, hit: Hit) -> None:
        """Adds what a hit says."""
        if hit.profile is not None:
            self.add_profile(hour_start(hit.minute), hit.key, hit.profile, hit.count)
            for key, visitor in hit.visitors[:1]:
                self.visitors[_day_start(hit.minute)][key].append(visitor)
        if hit.groups:
            self.add_groups(hit)

    def add_profile(self, hour: int, key: str, profile: Profile, count: int) -> None:
        """Adds hits of one hour that say the same of one key."""
        words, number = self.hours[hour], self.profiles.number(profile)
        if count == 1 and not words.counts:
            words.keys.append(key)
            words.profiles.append(number)
        else:
            words.extend([key], [number], [count])

    def add_rows(
        self, keys: Sequence[str], times: Sequence[int], rows: Iterable[ProfileRow], counts: Sequence[int]
    ) -> None:
        """Adds hits and what each says, as rows of profiles; counts: none where each is 1."""
        numbers = list(map(self.profiles.numbers.__getitem__, rows))
        hours = {min(times) // HOUR_S, max(times) // HOUR_S} if times else ()
        if len(hours) == 1:
            self.hours[hours.pop() * HOUR_S].extend(keys, numbers, counts)
            return
        of_hour: defaultdict[int, list[int]] = defaultdict(list)
        for place, t in enumerate(times):
            of_hour[t - t % HOUR_S].append(place)
        for hour, places in of_hour.items():
            some_keys, some_numbers = [keys[place] for place in places], [numbers[place] for place in places]
            self.hours[hour].extend(some_keys, some_numbers, [counts[place] for place in places] if counts else ())

    def add_groups(self, hit: Hit) -> None:
        """Adds a hit to its groups."""
        self.group_sums().add(hit)

    def group_sums(self) -> GroupSums:
        """Returns the sums of groups, made when the first hit of one comes."""
        if self.groups is None:
            self.groups = GroupSums(self.profiles)
        return self.groups

    def add_past(self, key: str, words: Iterable[tuple[str, int, str, int]]) -> None:
        """Adds what is known of a past: dimension, start of an hour, value, count."""
        for dimension, hour, value, count in words:
            self.add_profile(hour, key, Profile((dimension,), (value,)), count)

    def words(self) -> Words:
        """Returns what was said, for a batch with these profiles."""
        return Words(dict(self.hours), {day: dict(by_key) for day, by_key in self.visitors.items() if by_key})

    def group_counts(self) -> GroupCounts:
        """Returns the groups' counts and words in the same way."""
        found = self.groups
        return GroupCounts() if found is None else GroupCounts(found.people, found.bots, found.said.words())


class GroupSums:
    """The hits of groups, by their stored keys, and what they say."""

    def __init__(self, profiles: NumberedProfiles) -> None:
        self.people: Counts = {}
        self.bots: Counts = {}
        self.said = SaidSums(profiles)

    def add(self, hit: Hit) -> None:
        cell = (self.bots if hit.bot else self.people).setdefault(hit.minute, {})
        for group in hit.groups:
            cell[group] = cell.get(group, 0) + hit.count
            if hit.profile is not None:
                self.said.add_profile(hour_start(hit.minute), group, hit.profile, hit.count)
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
    return batch_of_hits([hit]) if hit.id is None else made_batch({}, {}, SaidSums(), None, [hit])


def batch_of_hits(hits: Iterable[Hit]) -> Batch:
    """Returns the batch of some hits without ids."""
    people: Counts = {}
    bots: Counts = {}
    wordy = []
    for hit in hits:
        counts = bots if hit.bot else people
        cell = counts.get(hit.minute)
        if cell is None:
            cell = counts[hit.minute] = {}
        cell[hit.key] = cell.get(hit.key, 0) + hit.count
        if hit.profile is not None or hit.groups:
            wordy.append(hit)
    if not wordy:
        return Batch(people, bots, [], {}, None)
    said = SaidSums()
    for hit in wordy:
        said.add(hit)
    return made_batch(people, bots, said, None, ())


def made_batch(people: Counts, bots: Counts, said: SaidSums, name: str | None, with_id: Iterable[Hit]) -> Batch:
    """Returns the batch of a request: counts, which count under `name` if it has one, and hits with ids of their own.

    It is one without words if no hit says anything of what is divided, or in which groups it is.
    """
    ids = [_identified_hit(hit, said.profiles) for hit in with_id]
    words, groups = said.words(), said.group_counts()
    if name is not None:
        ids.insert(0, _identified(name, people, bots, words, groups))
        people, bots, words, groups = {}, {}, Words(), GroupCounts()
    if not (said.profiles or groups or any(type(one) is WordyIdentified for one in ids)):
        return Batch(people, bots, ids, {}, None)
    wordy = [one if type(one) is WordyIdentified else WordyIdentified(one.id, one.people, one.bots) for one in ids]
    kinds, profiles = list(said.profiles.kinds), list(said.profiles.numbers)
    return WordyBatch(people, bots, wordy, {}, None, {}, kinds, profiles, words, groups)


def _identified_hit(hit: Hit, profiles: NumberedProfiles) -> Identified:
    said = SaidSums(profiles)
    said.add(hit)
    return _identified(str(hit.id), *_counts_of(hit), said.words(), said.group_counts())


def _identified(id_: str, people: Counts, bots: Counts, words: Words, groups: GroupCounts) -> Identified:
    if words.counts or groups:
        return WordyIdentified(id_, people, bots, words, groups)
    return Identified(id_, people, bots)


def _counts_of(hit: Hit) -> tuple[Counts, Counts]:
    counts: Counts = {hit.minute: {hit.key: hit.count}}
    return ({}, counts) if hit.bot else (counts, {})
