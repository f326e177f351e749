"""What the hits of one request say, on its way into a batch: read once per hit, and numbered when all is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from ingest.batch import Batch, Counts, Identified, ProfileCounts, WordyBatch, WordyIdentified
from ingest.hit import AnyHit, FullHit, Hit, WordyHit, hour_start
from ingest.words.profile import Profile, ProfileReader, Words, pairs_of

# Start of an hour -> profile -> link -> count
CountsByProfile = Mapping[int, Mapping[Profile, Mapping[str, int]]]

_words_of = attrgetter(*Words._fields)
_UTM, _TAGS = Words._fields.index("utm"), Words._fields.index("tags")
_BEFORE_UA = (None,) * Words._fields.index("ua")
_AFTER_UA = (None,) * (len(Words._fields) - len(_BEFORE_UA) - 1)
_COUNTED_LATER = ("visitor", "groups")


def said_by(hits: Sequence[WordyHit]) -> Sequence[tuple[object, ...]]:
    """Returns the words of each hit, by C: named tuples would take twice the time."""
    found = map(_words_of, hits)
    return [words if words[_UTM] is None and words[_TAGS] is None else tuple(map(pairs_of, words)) for words in found]


def said_by_agents(hits: Sequence[FullHit]) -> Sequence[tuple[object, ...]]:
    """Returns the words of hits that have no others than an agent."""
    return [(*_BEFORE_UA, hit.ua, *_AFTER_UA) for hit in hits]


def count_ignored(hits: Sequence[WordyHit | AnyHit], reader: ProfileReader, ignored: dict[str, int]) -> None:
    """Adds the hits that have each field which says nothing of what is divided."""
    for name in (*reader.ignored, *_COUNTED_LATER):
        if count := len(hits) - [getattr(hit, name) for hit in hits].count(None):
            ignored[name] = ignored.get(name, 0) + count


def batch_of(hit: Hit) -> Batch:
    """Returns the batch of a request that is one hit."""
    if hit.profile is not None:
        return (
            made_batch({}, {}, {}, None, [hit])
            if hit.id
            else made_batch(*_counts_of(hit), _words_of_hit(hit), None, ())
        )
    people, bots = _counts_of(hit)
    if hit.id is None:
        return Batch(people, bots, [], {}, None)
    return Batch({}, {}, [Identified(hit.id, people, bots)], {}, None)


def made_batch(people: Counts, bots: Counts, words: CountsByProfile, name: str | None, with_id: Iterable[Hit]) -> Batch:
    """Returns the batch of a request: counts, which count under `name` if it has one, and hits with ids of their own.

    It is one without words if no hit says anything of what is divided.
    """
    numbers: dict[Profile, int] = {}
    ids = [_identified(str(hit.id), *_counts_of(hit), _by_number(_words_of_hit(hit), numbers)) for hit in with_id]
    numbered = _by_number(words, numbers)
    if name is not None:
        ids.insert(0, _identified(name, people, bots, numbered))
        people, bots, numbered = {}, {}, {}
    if not numbers:
        return Batch(people, bots, ids, {}, None)
    places: dict[tuple[str, ...], int] = {}
    profiles = [(places.setdefault(names, len(places)), values, unknown) for names, values, unknown in numbers]
    wordy = [one if type(one) is WordyIdentified else WordyIdentified(one.id, one.people, one.bots) for one in ids]
    return WordyBatch(people, bots, wordy, {}, None, {}, list(places), profiles, numbered)


def _identified(id_: str, people: Counts, bots: Counts, words: ProfileCounts) -> Identified:
    return WordyIdentified(id_, people, bots, words) if words else Identified(id_, people, bots)


def _counts_of(hit: Hit) -> tuple[Counts, Counts]:
    counts: Counts = {hit.minute: {hit.key: hit.count}}
    return ({}, counts) if hit.bot else (counts, {})


def _words_of_hit(hit: Hit) -> CountsByProfile:
    return {hour_start(hit.minute): {hit.profile: {hit.key: hit.count}}} if hit.profile is not None else {}


def _by_number(words: CountsByProfile, numbers: dict[Profile, int]) -> ProfileCounts:
    """Returns counts by the numbers of their profiles, which get the next ones if they are new."""
    return {
        hour: {numbers.setdefault(profile, len(numbers)): dict(by_key) for profile, by_key in by_profile.items()}
        for hour, by_profile in words.items()
        if by_profile
    }
