"""What a store promises that keeps candidates of rankings: the rows with the greatest upper bounds of their counts.

Without candidates only a walk over all links can rank them; the bodies here suit such a store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from clickcurve.buckets.candidates import CutoffsByPrefix, Place
from clickcurve.buckets.upper_bounds import UpperBounds

if TYPE_CHECKING:
    from storage.contract import StoredLink

JOINED = -1  # in place of an owner: the candidate of a link some hits of which are called bots, for all its rows


@dataclass(frozen=True, slots=True)
class Ranking:
    """What links are ranked by: what people count, or bots, or both, from `since` on; None: in the links' lives.

    prefix: of the stored keys of the links that are ranked.
    """

    since: int | None
    people: bool
    bots: bool
    prefix: str = ""


class Candidates(NamedTuple):
    """Links with the most that each can count: the sum of what its owners' rows can, greatest first, then by key.

    Where hits of a link are called bots, what is left of these and what was called count.

    rest: no other link comes before this place. A number of MOST or more says nothing.
    """

    links: list[tuple[str, int]]
    rest: Place


class RankedLinks(Protocol):
    """The links of a ranking at one moment."""

    def candidates(self) -> Candidates | None:
        """Returns the links that lead in the ranking; None: the store cannot read what it keeps of them."""

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        """Returns everything stored of these keys, as `View.links`."""


class Ranked(Protocol):
    """The links of a store, ranked."""

    def ranked(self, ranking: Ranking) -> AbstractContextManager[RankedLinks | None]:
        """Shows links by what they can count, for a question. Leave it soon, as a view.

        None: the store keeps no candidates, or not all yet: then only a walk can tell.
        """
        return nullcontext()

    def cutoffs(self, owner: int) -> CutoffsByPrefix | None:
        """Returns the cutoffs: a row of this owner that passes one must be saved with its upper bounds.

        None: no row must. A flush asks once and may use them to its end: cutoffs only rise, and the store remembers
        which rankings the flush of an owner knows.
        """
        return None

    def rank_prefixes(self, prefixes: Collection[str]) -> None:
        """Keeps candidates of the links of these prefixes of stored keys too, where there are many, and of no others.

        `rank_some` makes the rows that are there candidates.
        """
        return

    def rank_anew(self) -> None:
        """Makes `rank_some` look at every row again, whether it passes a cutoff."""
        return

    def rank_some(self, bounds_of: Callable[[bytes], UpperBounds]) -> bool:
        """Makes the next rows that pass a cutoff candidates; returns whether there may be more. Durable.

        For rows that another version saved, after damage, and after many links were corrected: the cutoffs are then
        those of links that lead no more. `bounds_of` makes the upper bounds of a row's bytes.
        """
        return False
