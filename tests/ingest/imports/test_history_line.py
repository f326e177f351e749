"""Lines of history: what lands where, what is refused and why, and that an export comes back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clickcurve.buckets.errors import HitRejected
from clickcurve.buckets.ladder import CLICKS, DAY_S, Ladder, fold_day
from clickcurve.buckets.ranges import Bots, total
from clickcurve.buckets.row import EMPTY, Delta, Row, add, apply, check, fold
from ingest.hit import Moment
from ingest.hit_sums import PAST_MAX
from ingest.imports.history_line import History, HistoryReader
from ingest.imports.places import AS_IT_WAS, Placing, Wide

NOW = 1_760_000_000 // DAY_S * DAY_S + 12 * 3600  # 2025-10-09 12:00
DAY = fold_day(NOW)
TODAY = DAY * DAY_S
MOMENT = Moment(NOW, TODAY, NOW + 300)


def read(line: bytes, moment: Moment, ladder: Ladder, placing: Placing = AS_IT_WAS) -> History:
    steps = HistoryReader(ladder, placing).steps(line, moment)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            assert isinstance(done.value, History)
            return done.value


def past_of(line: dict[str, Any], placing: Placing = AS_IT_WAS) -> History:
    return read(json.dumps(line).encode(), MOMENT, CLICKS, placing)


def refusal(line: dict[str, Any]) -> HitRejected:
    with pytest.raises(HitRejected) as caught:
        past_of(line)
    return caught.value


def row_of(history: History) -> Row:
    return add(fold(EMPTY, DAY, CLICKS), Delta(history.people, history.bots, history.opening), CLICKS)


def exported(row: Row, key: str) -> dict[str, Any]:
    """A row as an export writes it."""
    counts: dict[tuple[int, int], list[int]] = {}
    for series, cells in enumerate((row.people_cells, row.bot_cells)):
        for tier, (starts, sums) in enumerate(cells):
            for start, count in zip(starts, sums, strict=True):
                counts.setdefault(CLICKS.bucket(tier, start), [0, 0])[series] = count
    return {
        "key": key,
        "total": row.lifetime,
        "bots": row.bots,
        "first_hit": row.first,
        "last_hit": row.last,
        "opening": row.opening,
        "buckets": [[*bucket, *counts[bucket]] for bucket in sorted(counts)],
    }


def test_a_total_alone_is_a_count_without_dates() -> None:
    assert past_of({"key": "a", "total": 7}) == History(key="a", opening=7)


def test_an_opening_alone_is_one_too_and_zero_is_nothing() -> None:
    assert past_of({"key": "a", "opening": 7}) == History(key="a", opening=7)
    assert past_of({"key": "a", "total": 0}) == History(key="a")


def test_buckets_land_in_their_minutes_and_the_rest_of_the_total_is_the_opening() -> None:
    line = {"key": "a", "total": 10, "buckets": [[TODAY, TODAY + 60, 2, 1], [TODAY + 120, TODAY + 180, 3, 0]]}
    assert past_of(line) == History({TODAY: 2, TODAY + 120: 3}, {TODAY: 1}, key="a", opening=5)


def test_a_group_has_a_line_as_a_link_has() -> None:
    line = {"group": "spring", "total": 2, "opening": 0, "buckets": [[TODAY, TODAY + 60, 2, 1]]}
    assert past_of(line) == History({TODAY: 2}, {TODAY: 1}, key="spring", opening=0, is_group=True)


def test_buckets_without_a_total_have_no_opening() -> None:
    assert past_of({"key": "a", "buckets": [[TODAY, TODAY + 60, 2, 0]]}) == History({TODAY: 2}, key="a")


def test_times_may_be_iso_8601_and_fine_buckets_nest() -> None:
    line = {"key": "a", "buckets": [["2025-10-09T10:00:01Z", "2025-10-09T10:00:02Z", 2, 0]]}
    assert past_of(line).people == {TODAY + 10 * 3600: 2}


@pytest.mark.parametrize(
    ("age_days", "width_s"),
    [
        *[(0, 60), (1, 60), (1, 300), (2, 300), (3, 300), (3, 3600), (25, 3600)],
        *[(80, 3600), (80, DAY_S), (200, 3600), (200, DAY_S), (600, DAY_S)],
    ],
)
def test_a_bucket_that_nests_in_what_is_kept_lands_exactly(age_days: int, width_s: int) -> None:
    start = TODAY - age_days * DAY_S
    row = row_of(past_of({"key": "a", "buckets": [[start, start + width_s, 9, 4]]}))
    kept = CLICKS.kept(start, DAY)
    assert kept[0] <= start < start + width_s <= kept[1]
    assert (row.lifetime, row.bots, check(row, CLICKS)) == (9, 4, [])


@pytest.mark.parametrize(
    ("age_days", "width_s"), [(0, 120), (1, 600), (2, 600), (5, DAY_S), (20, DAY_S), (80, 2 * DAY_S), (200, 30 * DAY_S)]
)
def test_a_wider_bucket_is_refused_unless_it_may_count_at_its_start(age_days: int, width_s: int) -> None:
    start = TODAY - age_days * DAY_S
    line = {"key": "a", "total": 9, "first_hit": start + width_s - 1, "buckets": [[start, start + width_s, 9, 0]]}
    refused = refusal(line)
    assert refused.field == "buckets"
    assert refused.rule is not None and str(CLICKS.kept(start, DAY)[1]) in refused.rule
    counted = past_of(line, Placing(Wide.start))
    assert [CLICKS.kept(minute, DAY) for minute in counted.people] == [CLICKS.kept(start, DAY)]
    assert sum(counted.people.values()) == 9


@given(
    st.lists(st.tuples(st.integers(0, 200 * 1_440), st.booleans()), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
    st.integers(0, 201 * DAY_S),
    st.integers(1, 30 * DAY_S),
)
@settings(deadline=None)
def test_bounds_are_true_for_history_that_does_not_say_when_it_began_or_ended(
    ago: list[tuple[int, bool]], with_first: bool, with_last: bool, since: int, length: int
) -> None:
    assume(len(ago) > 1 or with_first or with_last)
    listed = sorted((TODAY - minutes * 60, bot) for minutes, bot in ago)
    counts: dict[tuple[int, int], list[int]] = {}
    for t, bot in listed:
        counts.setdefault(CLICKS.kept(t, DAY), [0, 0])[bot] += 1
    line: dict[str, Any] = {"key": "a", "buckets": [[*bucket, *both] for bucket, both in counts.items()]}
    line |= {"first_hit": listed[0][0]} if with_first else {}
    line |= {"last_hit": listed[-1][0]} if with_last else {}
    row = row_of(past_of(line))
    assert check(row, CLICKS) == []
    start = TODAY - since
    raw = sum(start <= t < start + length for t, _ in listed)
    span = total(row, start, start + length, Bots.include, CLICKS)
    assert span.at_least <= raw <= span.at_most


def test_a_bucket_that_straddles_an_edge_is_refused_however_narrow() -> None:
    assert refusal({"key": "a", "buckets": [[TODAY + 30, TODAY + 61, 1, 0]]}).field == "buckets"


BUCKET = [TODAY, TODAY + 60, 2, 1]
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a link and a group": ({"key": "a", "group": "g", "buckets": [BUCKET]}, "group"),
    "a group that is empty": ({"group": "", "buckets": [BUCKET]}, "group"),
    "a group that is too long": ({"group": "g" * 65, "buckets": [BUCKET]}, "group"),
    "a group with an opening": ({"group": "g", "opening": 1, "buckets": [BUCKET]}, "opening"),
    "a group with a total alone": ({"group": "g", "total": 7}, "opening"),
    "no key": ({"total": 1}, "key"),
    "an empty key": ({"key": "", "total": 1}, "key"),
    "half a surrogate": ({"key": "\ud800", "total": 1}, "history"),
    "nothing to count": ({"key": "a"}, "history"),
    "a total below its buckets": ({"key": "a", "total": 1, "buckets": [BUCKET]}, "total"),
    "a total above opening and buckets": ({"key": "a", "total": 9, "opening": 1, "buckets": [BUCKET]}, "total"),
    "a total below opening and buckets": ({"key": "a", "total": 2, "opening": 1, "buckets": [BUCKET]}, "total"),
    "bots that no bucket holds": ({"key": "a", "total": 2, "bots": 2, "buckets": [BUCKET]}, "bots"),
    "bots without buckets": ({"key": "a", "total": 2, "bots": 2}, "bots"),
    "a negative total": ({"key": "a", "total": -1}, "total"),
    "a negative opening": ({"key": "a", "opening": -1}, "opening"),
    "a huge total": ({"key": "a", "total": PAST_MAX + 1}, "total"),
    "a negative bucket": ({"key": "a", "buckets": [[TODAY, TODAY + 60, -1, 0]]}, "people"),
    "a fraction": ({"key": "a", "total": 1.5}, "history"),
    "a boolean": ({"key": "a", "total": True}, "history"),
    "a bucket of three": ({"key": "a", "buckets": [[TODAY, TODAY + 60, 1]]}, "history"),
    "a bucket without length": ({"key": "a", "buckets": [[TODAY, TODAY, 1, 0]]}, "buckets"),
    "buckets that overlap": ({"key": "a", "buckets": [BUCKET, BUCKET]}, "buckets"),
    "buckets out of order": ({"key": "a", "buckets": [[TODAY + 60, TODAY + 120, 1, 0], BUCKET]}, "buckets"),
    "a bucket in the future": ({"key": "a", "buckets": [[NOW + 360, NOW + 420, 1, 0]]}, "ts"),
    "a bucket in milliseconds": ({"key": "a", "buckets": [[NOW * 1000, NOW * 1000 + 60_000, 1, 0]]}, "ts"),
    "a bucket before 1970": ({"key": "a", "buckets": [[-60, 0, 1, 0]]}, "ts"),
    "no time": ({"key": "a", "buckets": [["soon", "later", 1, 0]]}, "ts"),
    "no end": ({"key": "a", "buckets": [[TODAY, "later", 1, 0]]}, "buckets"),
    "a first hit that is none": ({"key": "a", "total": 1, "first_hit": "soon"}, "first_hit"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_line_that_does_not_agree_is_refused_whole_with_its_reason(name: str) -> None:
    line, field = REFUSED[name]
    assert refusal(line).field == field


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"null", b"\xff", b'{"key": "a", "total": 1} x'])
def test_what_is_no_object_is_refused(line: bytes) -> None:
    with pytest.raises(HitRejected):
        read(line, MOMENT, CLICKS)


minutes = st.dictionaries(
    st.integers(0, 900 * 1440).map(lambda age: (NOW - age * 60) // 60 * 60), st.integers(1, 5), max_size=30
)


@given(minutes, minutes, st.integers(0, 3), st.integers(0, 500))
def test_an_export_comes_back_as_it_was(
    people: dict[int, int], bots: dict[int, int], opening: int, later_days: int
) -> None:
    """However much later: then it comes back as folding would have left it."""
    row = apply(EMPTY, Delta(people, bots, opening), 1, DAY, 0, CLICKS)
    line = json.dumps(exported(row, "a")).encode()
    now = NOW + later_days * DAY_S
    back = read(line, Moment(now, fold_day(now) * DAY_S, now + 300), CLICKS)
    again = apply(EMPTY, Delta(back.people, back.bots, back.opening), 1, fold_day(now), 0, CLICKS)
    assert again == fold(row, fold_day(now), CLICKS)
