"""The row: all that is known of one link's hits as counted by one owner, and what can happen to it.

A row is buckets of several widths, for two series: people and bots. Each series has one `Cells` per tier of the ladder,
finest first: the starts of the buckets that are not empty, and their counts. The row's fold day says where one tier
ends and the next begins (`ladder.cuts`), so a bucket needs no width of its own.

What happens to a row, always by making a new one:

- `add`     hits land in whatever bucket holds their minute on the row's fold day, however late they come;
- `fold`    the fold day rises; fine buckets that are now too old are replaced by the coarse bucket that holds them;
- `apply`   what a flush does: fold, add, and set the mark, once however often it is tried;
- `merge`   the sum of rows of one link that several owners hold;
- `forget`  buckets before a moment go, with what they counted: of rows that may not be kept for ever, never of links'.

The laws, each with a property test:

1. `lifetime == opening + all people buckets`, and `bots == all bot buckets`. Only new hits change either, an erasure,
   after which a row starts again empty, and `forget`.
2. The row depends on the hits and on the fold day only: not on the order of the hits, nor on how often, when, or in
   which steps it was folded.
3. Each bucket is aligned to its tier, lies in the span that its tier holds, and is not empty. Starts ascend.
4. `fold` never lowers the fold day. A clock that steps back changes nothing.
5. `merge` is commutative and associative, with an empty row as its neutral element, whatever days rows are folded to.
6. The number of buckets is bounded by the ladder, whatever the traffic.

Why folding can go tier by tier: each tier holds one contiguous span, coarse = old, and each cut lies on a bucket edge
of the coarser tier. So what leaves a tier is a prefix of its cells and lands after all cells of the next tier.

What we dislike: counts are only bounded by MAX_COUNT, which is checked in `add`; a merge may exceed it, and then cannot
be encoded (it never is: owners only store their own rows).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from clickcurve.buckets.cells import (
    NO_CELLS,
    Cells,
    cells_since,
    fold_cells,
    land_minutes,
    oldest_start,
    replace_cells,
    sum_cells,
    sum_of_cells,
)
from clickcurve.buckets.disavowed import Disavowed
from clickcurve.buckets.errors import CountTooLarge, RowCorrupt
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME, MINUTE_S, Ladder

MAX_COUNT = 2**127
NO_MARK = 2**63  # above the number of any flush


class Row(NamedTuple):
    """All buckets of one link, as one owner counted them.

    A named tuple, not a dataclass: one is made for each row that is read or flushed, and it is made four times as fast
    (0.3 instead of 1.3 us, half the cost of reading a head). `row._replace(mark=3)` makes a changed copy.

    fold_day  the day it is folded to. mark: the number of the last flush that it includes, 0 = none.
    first, last  the starts of the minutes of the first and last hit, of people or bots; None = no dated hit.
    lifetime  count of people, opening included. bots: lifetime count of bots. opening: imported count without dates.
    erased_at  stamp in microseconds of the erasure that this row knows of, 0 = none.
    erased, erased_bots  how much was counted here before an erasure; part of no total, for `verify` to add up.
    people_cells, bot_cells  one Cells per tier, finest first; () = none at all, in a row that was never written.
    disavowed  hits of people that are called bots since, in a row that is read for an answer; never stored. Buckets and
    sums of the row are those that were counted: `ranges` has what is left of them.
    """

    fold_day: int
    mark: int
    first: int | None
    last: int | None
    lifetime: int
    bots: int
    opening: int
    erased_at: int
    erased: int
    erased_bots: int
    people_cells: tuple[Cells, ...]
    bot_cells: tuple[Cells, ...]
    disavowed: Disavowed | None = None


EMPTY = Row(0, 0, None, None, 0, 0, 0, 0, 0, 0, (), ())


class Delta(NamedTuple):
    """What a flush adds to one row. people, bots: minute start -> count (> 0). The rest are sums to add.

    A named tuple for the same reason as a row.
    """

    people: Mapping[int, int]
    bots: Mapping[int, int]
    opening: int = 0
    erased: int = 0
    erased_bots: int = 0

    def adds_anything(self) -> bool:
        """Returns whether adding it changes a row."""
        return bool(self.people or self.bots or self.opening or self.erased or self.erased_bots)


def add(row: Row, delta: Delta, ladder: Ladder) -> Row:
    """Returns the row with the delta's hits, each minute in the bucket that holds it on the row's fold day.

    Raises CountTooLarge if a sum would pass MAX_COUNT, and ValueError if a time is not the start of a minute or a count
    is below 1.
    """
    return _add_as(fold(row, row.fold_day, ladder), delta, row.mark, ladder)


def _add_as(row: Row, delta: Delta, mark: int, ladder: Ladder) -> Row:
    """Adds to a row that `fold` has returned, which has one Cells per tier, and sets its mark."""
    people, bots, opening, erased, erased_bots = delta
    lifetime = row.lifetime + opening + _sum_of_minutes(people)
    bots_lifetime = row.bots + _sum_of_minutes(bots)
    _require_fits(lifetime, bots_lifetime, row.erased + erased, row.erased_bots + erased_bots)
    first, last = row.first, row.last
    for minutes in (people, bots):
        if minutes:
            oldest, newest = min(minutes), max(minutes)
            first = oldest if first is None or oldest < first else first
            last = newest if last is None or newest > last else last
    return Row(
        row.fold_day,
        mark,
        first,
        last,
        lifetime,
        bots_lifetime,
        row.opening + opening,
        row.erased_at,
        row.erased + erased,
        row.erased_bots + erased_bots,
        land_minutes(row.people_cells, people, row.fold_day, ladder),
        land_minutes(row.bot_cells, bots, row.fold_day, ladder),
    )


def fold(row: Row, fold_day: int, ladder: Ladder) -> Row:
    """Returns the row as of fold_day, every total unchanged. A fold day at or below the row's own changes nothing."""
    people, bots = _cells_of(row.people_cells, ladder), _cells_of(row.bot_cells, ladder)
    if fold_day > row.fold_day:
        cuts = ladder.cuts(fold_day)
        people, bots = fold_cells(people, cuts, ladder), fold_cells(bots, cuts, ladder)
    elif people is row.people_cells and bots is row.bot_cells:
        return row
    return row._replace(fold_day=max(fold_day, row.fold_day), people_cells=people, bot_cells=bots)


def apply(row: Row, delta: Delta, mark: int, fold_day: int, erased_at: int, ladder: Ladder) -> Row:
    """Returns the row with flush number `mark` in it: folded to fold_day, the delta added, the mark set.

    Repeating it is harmless: a row that has the mark already is returned as it is. A row that does not know of the
    link's latest erasure (erased_at, microseconds) starts again empty and keeps only how much went; the caller leaves
    out of the delta's people and bots what was accepted before it.
    """
    if mark <= row.mark:
        return row
    if row.erased_at < erased_at:
        erased, erased_bots = row.erased + row.lifetime, row.erased_bots + row.bots
        row = Row(row.fold_day, 0, None, None, 0, 0, 0, erased_at, erased, erased_bots, (), ())
    return _add_as(fold(row, fold_day, ladder), delta, mark, ladder)


def merge(rows: Iterable[Row], ladder: Ladder) -> Row:
    """Returns the sum of rows of one link, folded to the greatest of their fold days. Its mark is 0."""
    several = list(rows)
    day = max((row.fold_day for row in several), default=0)
    folded = [fold(row, day, ladder) for row in several] or [fold(EMPTY, day, ladder)]
    people, bots = ([row.people_cells for row in folded], [row.bot_cells for row in folded])
    return _sum_of_heads(folded, sum_cells(people), sum_cells(bots))


def merge_again(whole: Row, rows: Iterable[Row], changes: Iterable[tuple[Row, Row]]) -> Row:
    """Returns the sum of `rows`, given `whole`: what `merge` made of these before some of them changed.

    changes: each of those as it was and as it is. All are folded to one day, by one ladder.
    """
    people, bots = whole.people_cells, whole.bot_cells
    for before, after in changes:
        people = tuple(map(replace_cells, people, before.people_cells, after.people_cells))
        bots = tuple(map(replace_cells, bots, before.bot_cells, after.bot_cells))
    return _sum_of_heads(list(rows), people, bots)


def _sum_of_heads(rows: Sequence[Row], people: tuple[Cells, ...], bots: tuple[Cells, ...]) -> Row:
    """Returns the sum of rows folded to one day, with these cells."""
    return Row(
        rows[0].fold_day,
        0,
        min((row.first for row in rows if row.first is not None), default=None),
        max((row.last for row in rows if row.last is not None), default=None),
        sum([row.lifetime for row in rows]),
        sum([row.bots for row in rows]),
        sum([row.opening for row in rows]),
        max([row.erased_at for row in rows]),
        sum([row.erased for row in rows]),
        sum([row.erased_bots for row in rows]),
        people,
        bots,
    )


def forget(row: Row, fold_day: int, days: int) -> Row:
    """Returns the row without the buckets that begin before its last `days` days, and without what they counted.

    fold_day is the last of those days. The opening stays. The row must have all of its buckets.
    """
    before = (fold_day - days + 1) * DAY_S
    oldest_of_tiers = map(oldest_start, (*row.people_cells, *row.bot_cells))
    if all(start is None or start >= before for start in oldest_of_tiers):
        return row
    people, bots = (
        tuple(cells_since(cells, before) for cells in series) for series in (row.people_cells, row.bot_cells)
    )
    oldest = min((starts[0] for starts, _ in (*people, *bots) if starts), default=None)
    return row._replace(
        first=oldest,  # the minute of the first hit went with its bucket, the oldest
        last=None if oldest is None else row.last,
        lifetime=row.opening + sum_of_cells(people),
        bots=sum_of_cells(bots),
        people_cells=people,
        bot_cells=bots,
    )


def next_due(row: Row, ladder: Ladder, days: int | None = None) -> int | None:
    """Returns the first fold day on which folding moves one of this row's buckets to another tier; None = never.

    With `days` also the first on which it has a bucket to `forget`, as a row that is kept for so many days.
    """
    due_days = []
    for cells in (row.people_cells, row.bot_cells):
        for tier, start in enumerate(map(oldest_start, cells)):
            if start is None:
                continue
            due = ladder.folds_at(tier, start)
            if due is not None:
                if due <= row.fold_day + 1:
                    return due  # nothing is due on the day that the row is folded to
                due_days.append(due)
            if days is not None:
                due_days.append(start // DAY_S + days)
    return min(due_days, default=None)


def check(row: Row, ladder: Ladder) -> list[str]:
    """Returns the laws that this row breaks, one sentence each with the numbers; [] = none."""
    if not 0 <= row.fold_day < END_OF_TIME // DAY_S:
        return [f"fold_day is {row.fold_day}"]
    broken = []
    people, bots = sum_of_cells(row.people_cells), sum_of_cells(row.bot_cells)
    if row.lifetime != row.opening + people:
        broken.append(f"lifetime is {row.lifetime}, but opening {row.opening} + buckets {people}")
    if row.bots != bots:
        broken.append(f"bots is {row.bots}, but the buckets of bots hold {bots}")
    sums = ("mark", "lifetime", "bots", "opening", "erased_at", "erased", "erased_bots")
    broken += [f"{name} is {getattr(row, name)}, below 0" for name in sums if getattr(row, name) < 0]
    for series, cells in (("people", row.people_cells), ("bots", row.bot_cells)):
        broken += _broken_cells(series, cells, row, ladder)
    return broken + _broken_ends(row, ladder)


def _broken_cells(series: str, cells: tuple[Cells, ...], row: Row, ladder: Ladder) -> list[str]:
    if len(cells) not in (0, len(ladder.tiers)):
        return [f"{series} have {len(cells)} tiers, the ladder {len(ladder.tiers)}"]
    broken = []
    cuts = ladder.cuts(row.fold_day)
    for index, (starts, counts) in enumerate(cells):
        tier = ladder.tiers[index]
        where = f"{series}, {tier.name}"
        if len(starts) != len(counts):
            broken.append(f"{where}: {len(starts)} starts, {len(counts)} counts")
        if any(count < 1 for count in counts):
            broken.append(f"{where}: a count of {min(counts)}")
        broken += [f"{where}: {late} comes after {early}" for early, late in pairwise(starts) if late <= early]
        for start in starts:
            if not 0 <= start < END_OF_TIME or ladder.tier_of(start, row.fold_day) != index:
                broken.append(f"{where}: {start} is not held by this tier, which begins at {cuts[index]}")
            elif tier.start(start) != start:
                broken.append(f"{where}: {start} is not the start of a bucket")
    return broken


def _broken_ends(row: Row, ladder: Ladder) -> list[str]:
    """Compares first and last with the buckets: they must lie in the oldest and the newest, to the minute."""
    starts = [start for cells in (*row.people_cells, *row.bot_cells) for start in cells[0]]
    first, last = row.first, row.last
    if first is None or last is None:
        return ["there are buckets, but no first or last hit"] if starts or first != last else []
    if not starts:
        return ["there are a first and a last hit, but no bucket"]
    if not 0 <= first <= last < END_OF_TIME:
        return [f"first hit {first}, last hit {last}"]
    broken = []
    for name, t, start in (("first", first, min(starts)), ("last", last, max(starts))):
        if t % MINUTE_S:
            broken.append(f"{name} hit {t} is not the start of a minute")
        if ladder.kept(t, row.fold_day)[0] != start:
            broken.append(f"{name} hit {t} is not in the {name} bucket, {start}")
    return broken


def _cells_of(cells: tuple[Cells, ...], ladder: Ladder) -> tuple[Cells, ...]:
    """Returns one Cells per tier, also for a row that was never written. Raises RowCorrupt for another ladder's row."""
    if len(cells) == len(ladder.tiers):
        return cells
    if cells:
        raise RowCorrupt(f"a row of {len(cells)} tiers does not fit a ladder of {len(ladder.tiers)}")
    return (NO_CELLS,) * len(ladder.tiers)


def _sum_of_minutes(minutes: Mapping[int, int]) -> int:
    """Returns the sum of the counts. Raises ValueError for what is no count of a minute."""
    hits = 0
    for t, count in minutes.items():
        if t % MINUTE_S or not 0 <= t < END_OF_TIME or count < 1:
            raise ValueError(f"{count} hits at {t}: not a count of 1 or more at the start of a minute")
        hits += count
    return hits


def _require_fits(*sums: int) -> None:
    largest = max(sums)
    if largest > MAX_COUNT:
        raise CountTooLarge(f"a row cannot hold {largest}: the largest count is 2**127", value=largest)
    if min(sums) < 0:
        raise ValueError(f"a sum of {min(sums)}")
