from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.errors import LadderInvalid
from clickcurve.buckets.ladder import CLICKS, DAY_S, Ladder, Tier, fold_day, name_of
from tests.buckets.given import at, kept_bucket, ladders, law, moments


def day(text: str) -> int:
    return at(text) // DAY_S


def test_the_fold_day_changes_an_hour_after_midnight() -> None:
    assert fold_day(at("2024-03-15T00:59:59")) == day("2024-03-14")
    assert fold_day(at("2024-03-15T01:00:00")) == day("2024-03-15")


def test_the_fold_day_is_never_below_zero() -> None:
    assert fold_day(0) == 0
    assert fold_day(3_599) == 0


@pytest.mark.parametrize(
    ("today", "five_minute", "hour", "days", "week"),
    [
        # 125 days before is Saturday 11 November: its week begins on the 6th; 491 days before is in November 2022
        ("2024-03-15", "2024-03-13", "2024-02-11", "2023-11-06", "2022-11-01"),
        # 125 days before is 1 March, a Friday: its week is cut there
        ("2024-07-04", "2024-07-02", "2024-06-01", "2024-03-01", "2023-03-01"),
        # 125 days before is 1 January, inside an ISO week that is cut there
        ("2021-05-06", "2021-05-04", "2021-04-03", "2021-01-01", "2020-01-01"),
        # 125 days before is Sunday 31 March; 491 days before is 31 March 2023
        ("2024-08-03", "2024-08-01", "2024-07-01", "2024-03-25", "2023-03-01"),
    ],
)
def test_cuts_of_the_default_ladder(today: str, five_minute: str, hour: str, days: str, week: str) -> None:
    assert CLICKS.cuts(day(today)) == (at(today), at(five_minute), at(hour), at(days), at(week), 0)


def test_near_the_epoch_the_cuts_are_clamped() -> None:
    assert CLICKS.cuts(0) == (0, 0, 0, 0, 0, 0)
    assert CLICKS.cuts(1) == (DAY_S, 0, 0, 0, 0, 0)
    assert CLICKS.tier_of(5, 1) == 1


@pytest.mark.parametrize(
    ("t", "start", "end"),
    [
        ("2024-02-29T12:00", "2024-02-26", "2024-03-01"),
        ("2024-03-01T00:00", "2024-03-01", "2024-03-04"),
        ("2020-12-31T23:59:59", "2020-12-28", "2021-01-01"),
        ("2021-01-03T23:59:59", "2021-01-01", "2021-01-04"),
        ("2023-05-01T00:00", "2023-05-01", "2023-05-08"),
        ("1970-01-01T00:00", "1970-01-01", "1970-01-05"),
    ],
)
def test_weeks_are_iso_weeks_cut_at_month_edges(t: str, start: str, end: str) -> None:
    assert CLICKS.bucket(4, at(t)) == (at(start), at(end))


def test_months_have_their_lengths() -> None:
    assert CLICKS.bucket(5, at("2024-02-10")) == (at("2024-02-01"), at("2024-03-01"))
    assert CLICKS.bucket(5, at("2100-02-10")) == (at("2100-02-01"), at("2100-03-01"))
    assert CLICKS.bucket(5, at("9999-12-31")) == (at("9999-12-01"), at("9999-12-31") + DAY_S)


@law
@given(moments, moments)
def test_every_instant_is_kept_as_promised(t: int, now: int) -> None:
    assert CLICKS.kept(t, fold_day(now)) == kept_bucket(t, fold_day(now))


@law
@given(ladders(), moments)
def test_cuts_lie_on_bucket_edges_of_both_tiers_and_never_increase(ladder: Ladder, now: int) -> None:
    cuts = ladder.cuts(fold_day(now))
    assert len(cuts) == len(ladder.tiers)
    assert cuts[-1] == 0
    assert list(cuts) == sorted(cuts, reverse=True)
    for tier, cut in enumerate(cuts[:-1]):
        assert ladder.bucket(tier, cut)[0] == cut
        assert ladder.bucket(tier + 1, cut)[0] == cut


@law
@given(ladders(), moments, st.integers(0, 500))
def test_cuts_never_move_back(ladder: Ladder, now: int, days: int) -> None:
    earlier, later = ladder.cuts(fold_day(now)), ladder.cuts(fold_day(now) + days)
    assert all(before <= after for before, after in zip(earlier, later, strict=True))


@law
@given(ladders(), moments)
def test_a_tier_keeps_at_least_its_days(ladder: Ladder, now: int) -> None:
    today = fold_day(now)
    age = 0
    for tier, cut in zip(ladder.tiers[:-1], ladder.cuts(today)[:-1], strict=True):
        age += tier.kept_days or 0
        assert cut <= max(0, today + 1 - age) * DAY_S


@law
@given(ladders(), moments, moments)
def test_an_instant_is_in_the_tier_whose_span_holds_it(ladder: Ladder, t: int, now: int) -> None:
    cuts = ladder.cuts(fold_day(now))
    tier = ladder.tier_of(t, fold_day(now))
    assert t >= cuts[tier]
    assert tier == 0 or t < cuts[tier - 1]
    start, end = ladder.kept(t, fold_day(now))
    assert start <= t < end
    assert cuts[tier] <= start
    assert tier == 0 or end <= cuts[tier - 1]


@law
@given(ladders(), moments)
def test_buckets_nest(ladder: Ladder, t: int) -> None:
    inner = ladder.bucket(0, t)
    for tier in range(1, len(ladder.tiers)):
        outer = ladder.bucket(tier, t)
        assert outer[0] <= inner[0] < inner[1] <= outer[1]
        inner = outer


@law
@given(ladders(), st.lists(moments, max_size=5))
def test_many_starts_and_edges_are_what_one_by_one_gives(ladder: Ladder, times: list[int]) -> None:
    for tier in ladder.tiers:
        assert tier.starts(times) == [tier.bucket(t)[0] for t in times] == [tier.start(t) for t in times]
        edges = [min(tier.bucket(t), key=lambda edge: (abs(edge - t), -edge)) for t in times]
        assert list(tier.nearest_edges(times)) == edges


@law
@given(ladders())
def test_the_text_of_a_ladder_reads_back(ladder: Ladder) -> None:
    again = Ladder.parse(str(ladder))
    assert again == ladder
    assert hash(again) == hash(ladder)


def test_the_default_ladder_keeps_days_for_a_quarter() -> None:
    assert [tier.name for tier in CLICKS.tiers] == ["minute", "five_minute", "hour", "day", "week", "month"]
    assert str(CLICKS) == "60:1,300:2,3600:31,86400:92,week:366,month"
    assert Ladder.parse(" 60:1, 300 : 2,3600:31,86400:92,week:366 ,month") == CLICKS


def test_ladders_have_names() -> None:
    assert Ladder.parse("quarter") == CLICKS
    assert str(Ladder.parse(" days ")) == "60:1,300:2,3600:31,86400:400,week:1830,month"
    with pytest.raises(LadderInvalid, match=r"'day' is not a width.*or the name of a ladder \(quarter, days\)"):
        Ladder.parse("day")


def test_names_of_widths() -> None:
    assert [name_of(s) for s in (1, 90, 60, 300, 900, 3_600, 7_200, 86_400, 172_800)] == [
        "second",
        "90_second",
        "minute",
        "five_minute",
        "15_minute",
        "hour",
        "2_hour",
        "day",
        "2_day",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a width"),
        ("60:1,fortnight", "'fortnight' is not a width"),
        ("60:x,86400", "'x' is not a number of days"),
        ("0:1,86400", "'0' is not a width"),
        ("90:1,86400", "whole minutes, not 90 s"),
        ("60:1,90:1,86400", "60 s does not nest in one of 90 s"),
        ("300:1,60:1,86400", "300 s does not nest in one of 60 s"),
        ("60:1,60:1,86400", "one name"),
        ("60:1,172800:5,week:9,month", "172800 s does not nest in one of week"),
        ("60:1,month:9,week", "month does not nest in one of week"),
        ("60:0,86400", "'minute' must be kept 1 day or more, not 0"),
        ("60,86400", "'minute' must be kept 1 day or more, not None"),
        ("60:1,86400:9", "'day', is kept for ever, not 9 days"),
        ("60:1,3600", "a day or wider, not 3600 s"),
        ("60:90,86400", "up to 131040 buckets, the limit is 50000"),
        ("60:1,120:1,240:1,480:1,960:1,1920:1,3840:1,7680:1,month", "1 to 8 tiers, this one has 9"),
    ],
)
def test_a_broken_ladder_is_refused_with_its_numbers(text: str, said: str) -> None:
    with pytest.raises(LadderInvalid) as caught:
        Ladder.parse(text)
    assert said in str(caught.value)
    assert caught.value.field == "ladder"


@pytest.mark.parametrize(
    ("tiers", "said"),
    [
        ((), "1 to 8 tiers, this one has 0"),
        ((Tier("decade", None, None),), "'decade' has no width"),
        ((Tier("week", 604_800, None),), "'week' cannot have a width of 604800 s"),
    ],
)
def test_tiers_put_together_by_hand_are_checked_too(tiers: tuple[Tier, ...], said: str) -> None:
    with pytest.raises(LadderInvalid, match=said):
        Ladder(tiers)


# Those of breakdowns are 3600:2,86400:31,week:366,month.
FINE = ("quarter", "days", "60:1,300:1,3600:31,week:366,month", "3600:2,86400:31,week:366,month", "3600:400,month")
WIDE = (
    "3600:1,86400:31,week:366,month",
    "60:1,week:400,month",
    "3600:33,week:100,month",
    "3600:33,86400:300,month",
    "60:2,172800",
)


def lies_inside(ladder: Ladder, t: int, now: int) -> bool:
    (start, end), (low, high) = (each.kept(t, fold_day(now)) for each in (ladder, BREAKDOWN.ladder))
    return low <= start and end <= high


@given(st.one_of(st.sampled_from([Ladder.parse(text) for text in FINE]), ladders()), moments, st.integers(0, 600))
def test_of_a_ladder_that_nests_every_kept_bucket_lies_in_one(ladder: Ladder, now: int, days: int) -> None:
    if ladder.nests_in(BREAKDOWN.ladder):
        assert lies_inside(ladder, max(0, now - days * DAY_S), now)


@pytest.mark.parametrize("text", FINE)
def test_ladders_that_nest_in_that_of_breakdowns(text: str) -> None:
    assert Ladder.parse(text).nests_in(BREAKDOWN.ladder)


@pytest.mark.parametrize("text", WIDE)
def test_of_a_ladder_that_does_not_nest_some_bucket_is_wider(text: str) -> None:
    ladder, now = Ladder.parse(text), at("2024-03-15")
    assert not ladder.nests_in(BREAKDOWN.ladder)
    assert not all(lies_inside(ladder, now - hours * 3_600, now) for hours in range(600 * 24))
