"""The cover: the fewest buckets, over all widths, that tile a span exactly.

Widths nest (each divides the next), buckets are aligned to the epoch. Then the best tiling is unique: as many of the
widest buckets as fit, and to their left and right the cover of what remains, of narrower ones. A day's window that ends
with the second 23:30:33, over seconds, minutes and hours, is 26 s + 29 min + 23 h + 30 min + 34 s = 142 buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from clickcurve.buckets.errors import LadderInvalid


class Run(NamedTuple):
    """`count` adjacent buckets of one width, the first at `start`."""

    width_s: int
    start: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which a run does not need

    @property
    def end(self) -> int:
        return self.start + self.width_s * self.count


def cover(start: int, end: int, widths: Sequence[int]) -> list[Run]:
    """Returns the fewest buckets that tile [start, end), as runs in order of time; [] for an empty span.

    `widths` are seconds, finest first, each a divisor of the next. Raises LadderInvalid if they are not, and ValueError
    if an end of the span is not an edge of the finest width, so that no tiling is exact.
    """
    finest_first = _nested(tuple(widths))
    if start % finest_first[0] or end % finest_first[0]:
        raise ValueError(f"[{start}, {end}) does not begin and end on edges of {finest_first[0]} s")
    left: list[Run] = []
    right: list[Run] = []
    for width_s, wider_s in pairwise(finest_first):
        up, down = start + -start % wider_s, end - end % wider_s
        if up >= down:
            break  # no wider bucket fits: this width tiles the rest
        if start < up:
            left.append(Run(width_s, start, (up - start) // width_s))
        if down < end:
            right.append(Run(width_s, down, (end - down) // width_s))
        start, end = up, down
    else:
        width_s = finest_first[-1]
    middle = [Run(width_s, start, (end - start) // width_s)] if start < end else []
    return left + middle + right[::-1]


@lru_cache(maxsize=256)
def _nested(widths: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the widths; raises LadderInvalid unless they nest."""
    if not widths or widths[0] < 1:
        raise LadderInvalid(f"a cover needs widths of 1 s or more, not {list(widths)}", field="widths", value=widths)
    for fine, coarse in pairwise(widths):
        if coarse <= fine or coarse % fine:
            raise LadderInvalid(f"{fine} s does not divide {coarse} s into 2 or more", field="widths", value=widths)
    return widths
