"""Which values of a dimension a question means: one, several together, or all but some; and the bounds of their hits.

A hit has one value of a dimension, so the hits of several are a sum. What a full bucket could not keep of them all
together is at most what it could not keep at all: the bounds of a sum are never wider than the sum of the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clickcurve.buckets.breakdowns.answers import Bounds
from clickcurve.buckets.errors import ParameterInvalid

MOST = 100  # values of one question


@dataclass(frozen=True, slots=True)
class Selection:
    """values: those whose hits are meant, as they are kept; none: all hits but those of the values left out."""

    values: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.values or self.left_out)

    @property
    def named(self) -> tuple[str, ...]:
        """The values by whose bounds those of the selection are known."""
        return self.values or self.left_out

    @property
    def is_one(self) -> bool:
        """Whether it is a single value."""
        return len(self.values) == 1 and not self.left_out

    def bounds(self, named: Bounds, total: int) -> Bounds:
        """Returns the bounds of the selection's hits, given those of the named values together and of all."""
        if self.values:
            return Bounds(named.at_least, min(named.at_most, max(total, named.at_least)))
        return Bounds(max(0, total - named.at_most), max(0, total - named.at_least))


def select(values: Sequence[str], left_out: Sequence[str], kept: Callable[[str], str]) -> Selection:
    """Returns the selection of values as they were asked for, each once; raises ParameterInvalid.

    kept: what is kept of a value that is asked for.
    """
    if len(values) + len(left_out) > MOST:
        raise ParameterInvalid(
            f"{len(values) + len(left_out)} values are asked for",
            field="value" if values else "not",
            value=len(values) + len(left_out),
            rule=f"at most {MOST} of value and not together",
        )
    selection = Selection(*(tuple(dict.fromkeys(map(kept, each))) for each in (values, left_out)))
    for value in selection.left_out:
        if value in selection.values:
            raise ParameterInvalid(
                f"{value!r} is asked for, and left out", field="not", value=value, rule="none that value asks for"
            )
    return selection
