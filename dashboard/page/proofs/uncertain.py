"""Where the bounds of a curve's number come from: the points of which not all hits are certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clickcurve.answers.counts import CurveAnswer, PointAnswer

NAMED = 3  # points that a sentence names


class BoundedPoint(PointAnswer, frozen=True, gc=False):
    """A point of the curve of a filter: `count` hits are certain, `at_most` may be its."""

    at_most: int = 0


@dataclass(frozen=True, slots=True)
class PointLink:
    """A point in words, with its bounds where they differ. address: the view of it alone; empty if that is shown."""

    when: str
    counts: str
    address: str


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The first points that make bounds differ, and how many there are of each kind.

    bounds: of the whole, in words; unknown: points of which not every value is known; cut: those kept as one count of
    which the range has a part.
    """

    bounds: str
    unknown: list[PointLink]
    unknown_more: int
    cut: list[PointLink]


def most_of(point: PointAnswer) -> int:
    """Returns how many hits a point may have."""
    return point.at_most if isinstance(point, BoundedPoint) else point.count


def counts_words(point: PointAnswer, written: Callable[[int], str]) -> str:
    """Writes the count of a point, or both its bounds: `3 to 6`."""
    most = most_of(point)
    return written(point.count) if most == point.count else f"{written(point.count)} to {written(most)}"


def uncertain_of(
    curve: CurveAnswer, written: Callable[[int], str], link: Callable[[PointAnswer, str], PointLink]
) -> Uncertain | None:
    """Returns what makes the bounds of a curve differ; None where they meet, or no point is to blame.

    link: makes the link of a point, given its bounds in words.
    """
    between = curve.at_most - curve.at_least
    if not between:
        return None

    def links(points: Sequence[PointAnswer]) -> list[PointLink]:
        return [link(each, counts_words(each, written)) for each in points[:NAMED]]

    unknown = [each for each in curve.points if most_of(each) > each.count]
    is_cut = between > sum(most_of(each) - each.count for each in unknown)
    cut = [each for each in curve.points if is_cut and each.state == "partial" and most_of(each)]
    if not (unknown or cut):
        return None
    bounds = f"{written(curve.at_least)} to {written(curve.at_most)}"
    return Uncertain(bounds, links(unknown), max(0, len(unknown) - NAMED), links(cut))
