"""What the property tests are given: ladders, hits, clocks; and the plain list of raw hits that they compare with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st

from clickcurve.buckets.cells import Cells
from clickcurve.buckets.ladder import CLICKS, DAY_S, Ladder, fold_day
from clickcurve.buckets.row import EMPTY, MAX_COUNT, Delta, Row, add
from tests.power import examples

MINUTE_S = 60

law = settings(max_examples=examples(100))


@dataclass(frozen=True, slots=True)
class Hit:
    t: int  # the start of its minute
    count: int
    bot: bool


def at(text: str) -> int:
    """Epoch seconds of an ISO time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


# Instants at which calendars do something: month ends, leap days, new years with each kind of ISO week, a leap century.
EDGES = [
    at(text)
    for text in (
        "1970-01-01",
        "1970-03-01",
        "2000-02-29",
        "2000-03-01",
        "2015-12-28",
        "2016-02-29",
        "2020-12-28",
        "2021-01-01",
        "2021-01-04",
        "2023-02-28",
        "2024-02-29",
        "2024-03-01",
        "2024-12-30",
        "2025-01-01",
        "2025-03-31",
        "2100-02-28",
        "2100-03-01",
    )
]

# Moments around those edges, at every distance at which the default ladder changes its mind.
moments = st.builds(
    lambda edge, days, seconds: max(0, edge + days * DAY_S + seconds),
    st.sampled_from(EDGES),
    st.one_of(
        st.sampled_from([-492, -491, -367, -366, -126, -125, -34, -33, -3, -2, -1, 0, 1, 2, 31, 32]),
        st.integers(-800, 800),
    ),
    st.one_of(st.sampled_from([-1, 0, 1, 3_599, 3_600, 3_601, 86_399]), st.integers(0, DAY_S)),
)


def hits(around: st.SearchStrategy[int]) -> st.SearchStrategy[list[Hit]]:
    """Hits at `around` and up to two years before: some in the same bucket, most not."""
    ago = st.one_of(st.integers(0, 200), st.integers(0, 3 * 1_440), st.integers(0, 800 * 1_440))
    one = st.builds(
        lambda t, minutes, count, bot: Hit(max(0, t // MINUTE_S - minutes) * MINUTE_S, count, bot),
        around,
        ago,
        st.one_of(st.just(1), st.integers(1, 300), st.integers(1, 10**12)),
        st.booleans(),
    )
    return st.lists(one, max_size=40)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Hit], list[int]]:
    """Hits around one moment, and clock readings around it: forwards, backwards, a year's jump."""
    moment = draw(moments)
    found = draw(hits(st.just(moment)))
    steps = st.one_of(st.integers(-2 * DAY_S, 2 * DAY_S), st.integers(-400 * DAY_S, 800 * DAY_S))
    clocks = [max(0, moment + step) for step in draw(st.lists(steps, max_size=6))]
    return found, clocks


@st.composite
def ladders(draw: st.DrawFn) -> Ladder:
    """Any valid ladder of at most six tiers whose rows stay small enough to test with."""
    widths = [60 * draw(st.sampled_from([1, 2, 5, 12, 60]))]
    for factor in draw(st.lists(st.sampled_from([2, 3, 4, 5, 6, 12, 24]), max_size=3)):
        widths.append(widths[-1] * factor)
    calendar = draw(st.sampled_from([[], ["week"], ["month"], ["week", "month"]]))
    names = [str(width) for width in widths if not calendar or DAY_S % width == 0] + calendar
    if not calendar and widths[-1] < DAY_S:
        names.append(str(widths[-1] * 1_440))
    longest = 3 if len(names) == 2 else 11  # minutes and months alone would keep up to 31 days of minutes more
    kept = [draw(st.integers(1, 3) | st.integers(1, longest)) for _ in names[:-1]]
    return Ladder.parse(",".join([f"{name}:{days}" for name, days in zip(names, kept, strict=False)] + names[-1:]))


def delta_of(found: Iterable[Hit]) -> Delta:
    """The hits as a flush hands them over."""
    people: dict[int, int] = defaultdict(int)
    bots: dict[int, int] = defaultdict(int)
    for hit in found:
        (bots if hit.bot else people)[hit.t] += hit.count
    return Delta(people, bots)


def row_of(found: Iterable[Hit], fold_day: int, ladder: Ladder) -> Row:
    """All hits added at once to a row that was folded to fold_day before."""
    return add(EMPTY._replace(fold_day=fold_day), delta_of(found), ladder)


@st.composite
def rows(draw: st.DrawFn) -> tuple[Row, Ladder]:
    """Any row that flushes can make, with every field at its smallest, usual and largest."""
    ladder = draw(st.just(CLICKS) | ladders())
    row = row_of(draw(hits(moments)), fold_day(draw(moments)), ladder)
    sums = st.sampled_from([0, 0, 1, 127, 128, 2**64, MAX_COUNT - row.lifetime])
    row = add(row, Delta({}, {}, opening=draw(sums)), ladder)
    return (
        row._replace(
            mark=draw(st.sampled_from([0, 1, 127, 128, 1_000_000, 2**63])),
            erased_at=draw(st.sampled_from([0, 1_700_000_000_000_000])),
            erased=draw(st.integers(0, row.lifetime)),
            erased_bots=draw(st.integers(0, row.bots)),
        ),
        ladder,
    )


def buckets_of(row: Row, ladder: Ladder) -> dict[tuple[int, int, bool], int]:
    """(start, end, bot) -> count of a row's buckets."""
    found = {}
    for cells, bot in ((row.people_cells, False), (row.bot_cells, True)):
        for tier, (starts, counts) in enumerate(cells):
            for start, count in zip(starts, counts, strict=True):
                found[(*ladder.bucket(tier, start), bot)] = count
    return found


def cells_at(cells: tuple[Cells, ...]) -> int:
    """The number of buckets of one series."""
    return sum(len(starts) for starts, _ in cells)


# --- the default ladder once more, from the calendar and in other words than the code's -----------------------------
def kept_bucket(t: int, fold_day: int) -> tuple[int, int]:
    """[start, end) of the bucket that holds t on a fold day, as the promise to users has it."""
    day, midnight = t // DAY_S, datetime(1970, 1, 1) + timedelta(days=t // DAY_S)
    if day >= fold_day:
        return t // 60 * 60, t // 60 * 60 + 60
    if day >= fold_day - 2:
        return t // 300 * 300, t // 300 * 300 + 300
    if day >= fold_day - 33:
        return t // 3600 * 3600, t // 3600 * 3600 + 3600
    month = midnight.replace(day=1)
    next_month = (month + timedelta(days=31)).replace(day=1)
    monday = midnight - timedelta(days=midnight.isoweekday() - 1)
    piece = max(monday, month), min(monday + timedelta(days=7), next_month)
    if _days(piece[1]) > fold_day - 125:  # a day of its piece is one of the 92 before those with hours, or newer
        return day * DAY_S, day * DAY_S + DAY_S
    if _days(next_month) > fold_day - 491:
        return _days(piece[0]) * DAY_S, _days(piece[1]) * DAY_S
    return _days(month) * DAY_S, _days(next_month) * DAY_S


def _days(day: datetime) -> int:
    return (day - datetime(1970, 1, 1)).days
