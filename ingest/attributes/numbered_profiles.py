"""Profiles as numbers, in the order in which they first came: one integer for all attributes of a hit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, count, islice
from typing import TypeAlias

from ingest.attributes.profile import Profile

ProfileKind: TypeAlias = tuple[tuple[str, ...], bool]  # the dimensions of a profile, and whether its visitor is known
# The place of its kind among those of its batch or buffer, and its values.
ProfileRow: TypeAlias = tuple[int, *tuple[str, ...]]


class NumberedProfiles:
    """The profiles that were met, each with its number.

    `numbers` gives a row its number in C, a new one too: `map(numbers.__getitem__, zip(repeat(kind), *columns))`.
    """

    __slots__ = ("kinds", "numbers")

    def __init__(self) -> None:
        self.kinds: dict[ProfileKind, int] = {}
        self.numbers: defaultdict[ProfileRow, int] = defaultdict(count().__next__)

    def __len__(self) -> int:
        return len(self.numbers)

    def kind(self, dimensions: tuple[str, ...], visitor_known: bool) -> int:
        """Returns the place of a kind; adds a new one."""
        return self.kinds.setdefault((dimensions, visitor_known), len(self.kinds))

    def number(self, profile: Profile) -> int:
        """Returns the number of a profile; adds a new one."""
        return self.numbers[self.kind(profile.dimensions, profile.known), *profile.values]

    def numbers_of(self, kinds: Sequence[ProfileKind], rows: Sequence[ProfileRow]) -> list[int]:
        """Returns the numbers here of rows whose kinds have other places; adds new ones."""
        places = [self.kind(*kind) for kind in kinds]
        if places != list(range(len(places))):
            rows = [(places[place], *values) for place, *values in rows]
        return list(map(self.numbers.__getitem__, rows))

    def newest(self, many: int) -> list[ProfileRow]:
        """Returns the rows that got the last of the numbers, in their order."""
        return list(islice(reversed(self.numbers), many))[::-1]


def texts_of(rows: Iterable[ProfileRow]) -> Iterable[int | str]:
    """Returns all that rows hold, one after the other."""
    return chain.from_iterable(rows)


def profile_of_row(row: ProfileRow, kinds: Sequence[ProfileKind]) -> Profile:
    place, *values = row
    dimensions, visitor_known = kinds[place]
    return Profile(dimensions, tuple(values), visitor_known)
