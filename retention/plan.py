"""What folding a row would do, as data: for the dry run, and for the log of a pass.

Pure. Nothing is changed here; `clickcurve.buckets.row.fold` does the folding, and a test holds that it does just what
is planned.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clickcurve.buckets.cells import Cells
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.row import Row


@dataclass(frozen=True, slots=True)
class Fold:
    """All buckets that one tier gives to one bucket [start, end) of a coarser tier, and their sums."""

    from_tier: str
    into_tier: str
    start: int
    end: int
    people_buckets: int
    people: int
    bot_buckets: int
    bots: int

    @property
    def buckets(self) -> int:
        """How many buckets become one, both series."""
        return self.people_buckets + self.bot_buckets


@dataclass(frozen=True, slots=True)
class TierSummary:
    """What folds take out of a tier and put into it, both series: buckets, and their counts."""

    tier: str
    buckets_out: int
    people_out: int
    bots_out: int
    buckets_in: int
    people_in: int
    bots_in: int


def plan(row: Row, fold_day: int, ladder: Ladder) -> list[Fold]:
    """Returns the folds that bring the row to fold_day; [] if none is due.

    Finest tier first, each tier's in order of time. A bucket goes straight to the tier that will hold it. Several tiers
    may give to one bucket, after a long pause.
    """
    if fold_day <= row.fold_day:
        return []
    people, bots = _leaving(row.people_cells, fold_day, ladder), _leaving(row.bot_cells, fold_day, ladder)
    folds = []
    for from_tier, into_tier, start in sorted(people.keys() | bots.keys(), key=lambda key: (key[0], key[2])):
        people_buckets, people_count = people.get((from_tier, into_tier, start), (0, 0))
        bot_buckets, bot_count = bots.get((from_tier, into_tier, start), (0, 0))
        end = ladder.bucket(into_tier, start)[1]
        names = ladder.tiers[from_tier].name, ladder.tiers[into_tier].name
        folds.append(Fold(*names, start, end, people_buckets, people_count, bot_buckets, bot_count))
    return folds


def summarize(plans: Iterable[Sequence[Fold]], ladder: Ladder) -> list[TierSummary]:
    """Sums, per tier, what the plans of any number of rows take out and put in: the same counts in all."""
    out = {tier.name: [0, 0, 0] for tier in ladder.tiers}
    into = {tier.name: [0, 0, 0] for tier in ladder.tiers}
    for folds in plans:
        made = set()  # several tiers may give to one bucket: it is new once
        for fold in folds:
            bucket = fold.into_tier, fold.start
            made |= {(*bucket, series) for series, n in enumerate((fold.people_buckets, fold.bot_buckets)) if n}
            _add_fold(out[fold.from_tier], fold.buckets, fold)
            _add_fold(into[fold.into_tier], 0, fold)
        for tier, _, _ in made:
            into[tier][0] += 1
    return [TierSummary(tier.name, *out[tier.name], *into[tier.name]) for tier in ladder.tiers]


def _add_fold(sums: list[int], buckets: int, fold: Fold) -> None:
    sums[0] += buckets
    sums[1] += fold.people
    sums[2] += fold.bots


_Key = tuple[int, int, int]  # from tier, into tier, start of the bucket there


def _leaving(cells: tuple[Cells, ...], fold_day: int, ladder: Ladder) -> dict[_Key, tuple[int, int]]:
    """Returns, for each bucket that one tier gives to, how many of its buckets go there, and their sum."""
    leaving: dict[_Key, tuple[int, int]] = {}
    for tier, (cut, (starts, counts)) in enumerate(zip(ladder.cuts(fold_day), cells, strict=False)):
        for at in range(bisect_left(starts, cut)):
            into = ladder.tier_of(starts[at], fold_day)
            key = tier, into, ladder.bucket(into, starts[at])[0]
            buckets, count = leaving.get(key, (0, 0))
            leaving[key] = buckets + 1, count + counts[at]
    return leaving
