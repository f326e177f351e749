from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, Ladder, fold_day
from clickcurve.buckets.ranges import Bots, Point, Span, State, between, curve, total
from clickcurve.buckets.row import EMPTY, Delta, Row, add, fold
from tests.buckets.given import Hit, at, buckets_of, hits, ladders, law, moments, row_of

NOON = at("2024-03-15T12:00")
TODAY = fold_day(NOON)
FOLDED = fold(EMPTY, TODAY, CLICKS)


def people(minutes: dict[str, int]) -> Row:
    return add(FOLDED, Delta({at(text): count for text, count in minutes.items()}, {}), CLICKS)


def day_points(row: Row, start: str, end: str, step_s: int, now: int = NOON) -> tuple[list[Point], Span]:
    edges = list(range(at(start) + step_s, at(end), step_s))
    return curve(row, at(start), at(end), edges, now, Bots.exclude, CLICKS)


def test_points_in_the_minute_tier_are_as_asked() -> None:
    row = people({"2024-03-15T11:00": 1, "2024-03-15T11:04": 2, "2024-03-15T11:05": 4})
    points, span = day_points(row, "2024-03-15T11:00", "2024-03-15T11:10", 300)
    assert points == [
        Point(at("2024-03-15T11:00"), at("2024-03-15T11:05"), 3, State.complete),
        Point(at("2024-03-15T11:05"), at("2024-03-15T11:10"), 4, State.complete),
    ]
    assert span == Span(7, 7, 7)
    assert span.exact


def test_a_step_finer_than_what_is_kept_gives_kept_points_with_zeros() -> None:
    row = people({"2024-03-13T11:30": 5})
    points, span = day_points(row, "2024-03-13T10:00", "2024-03-13T13:00", 60)
    assert [(point.end - point.start, point.count) for point in points] == [(3_600, 0), (3_600, 5), (3_600, 0)]
    assert span == Span(5, 5, 5)


def test_a_fixed_step_across_tiers_widens_in_the_older_part() -> None:
    row = people({"2024-03-14T23:58": 1, "2024-03-15T00:01": 2})
    points, _ = day_points(row, "2024-03-14T23:50", "2024-03-15T00:02", 60)
    assert [(point.end - point.start, point.count) for point in points] == [(300, 0), (300, 1), (60, 0), (60, 2)]


def test_an_edge_that_moves_up_to_a_cut_meets_the_edge_that_lies_there() -> None:
    points, _ = curve(
        people({"2024-03-14T23:58": 1}),
        at("2024-03-14T23:50"),
        at("2024-03-15T00:02"),
        [at("2024-03-14T23:57"), at("2024-03-15T00:00"), at("2024-03-15T00:01")],
        NOON,
        Bots.exclude,
        CLICKS,
    )
    assert [(point.end - point.start, point.count) for point in points] == [(600, 1), (60, 0), (60, 0)]


def test_a_span_that_cuts_buckets_gets_whole_buckets_and_bounds() -> None:
    row = people({"2024-03-13T10:30": 1, "2024-03-13T11:30": 2, "2024-03-13T12:30": 4})
    points, span = day_points(row, "2024-03-13T10:30", "2024-03-13T12:15", 3_600)
    assert points == [
        Point(at("2024-03-13T10:00"), at("2024-03-13T12:00"), 3, State.partial),
        Point(at("2024-03-13T12:00"), at("2024-03-13T13:00"), 4, State.partial),
    ]
    assert span == Span(7, 2, 7)
    assert not span.exact


def test_a_cut_bucket_that_is_empty_is_exact() -> None:
    _, span = day_points(people({"2024-03-13T11:30": 2}), "2024-03-13T10:30", "2024-03-13T12:15", 3_600)
    assert span == Span(2, 2, 2)
    assert span.exact


def test_a_span_inside_one_bucket_is_all_uncertain() -> None:
    points, span = day_points(people({"2024-03-13T10:30": 9}), "2024-03-13T10:10", "2024-03-13T10:20", 60)
    assert points == [Point(at("2024-03-13T10:00"), at("2024-03-13T11:00"), 9, State.partial)]
    assert span == Span(9, 0, 9)


def test_points_that_have_not_ended_are_open() -> None:
    now = at("2024-03-15T11:59:30")
    points, _ = day_points(people({"2024-03-15T11:59": 1}), "2024-03-15T11:57", "2024-03-15T12:02", 60, now)
    assert [point.state for point in points] == ["complete", "complete", "open", "open", "open"]
    ended, _ = day_points(people({"2024-03-15T11:59": 1}), "2024-03-15T11:57", "2024-03-15T12:00", 60, NOON)
    assert [point.state for point in ended] == ["complete", "complete", "complete"]


def test_open_beats_partial() -> None:
    row = fold(people({"2024-03-15T11:59": 1}), TODAY, CLICKS)
    points, _ = curve(row, NOON + 30, NOON + 45, [], NOON + 10, Bots.exclude, CLICKS)
    assert points == [Point(NOON, NOON + 60, 0, State.open)]


def test_an_empty_span_has_no_points() -> None:
    row = people({"2024-03-15T11:59": 1})
    assert curve(row, NOON, NOON, [], NOON, Bots.exclude, CLICKS) == ([], Span(0, 0, 0))
    assert total(row, NOON, NOON - 60, Bots.exclude, CLICKS) == Span(0, 0, 0)


@pytest.mark.parametrize(("bots", "count"), [(Bots.exclude, 1), (Bots.only, 10), (Bots.include, 11)])
def test_bots_are_left_out_or_counted_in_or_alone(bots: Bots, count: int) -> None:
    row = add(FOLDED, Delta({NOON: 1}, {NOON: 2, NOON + 60: 8}), CLICKS)
    points, span = curve(row, NOON, NOON + 120, [NOON + 60], NOON, bots, CLICKS)
    assert sum(point.count for point in points) == count
    assert span == total(row, NOON, NOON + 120, bots, CLICKS) == Span(count, count, count)


def test_a_row_that_was_never_written_has_zeros() -> None:
    points, span = curve(EMPTY, NOON - 120, NOON, [NOON - 60], NOON, Bots.include, CLICKS)
    assert [point.count for point in points] == [0, 0]
    assert span == Span(0, 0, 0)


Question = tuple[list[Hit], Row, Ladder, int, int, list[int], int, Bots]


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """A folded row and its raw hits, a span that may cut anything, steps of any kind, a now."""
    ladder = draw(st.just(CLICKS) | ladders())
    moment = draw(moments)
    found = draw(hits(st.just(moment)))
    row = row_of(found, fold_day(moment) + draw(st.sampled_from([0, 0, 1, 40])), ladder)
    reach = st.one_of(st.integers(-3_600, 3_600), st.integers(-3 * DAY_S, DAY_S), st.integers(-900 * DAY_S, DAY_S))
    near = st.builds(lambda t, off: t + off, st.sampled_from([*ladder.cuts(row.fold_day), moment]), reach)
    start, end = sorted((max(0, draw(near)), max(0, draw(near))))
    end += start == end
    if draw(st.booleans()):
        edges = sorted(draw(st.sets(st.integers(start + 1, end - 1), max_size=12))) if end - start > 1 else []
    else:
        step = max(60, (end - start) // draw(st.integers(1, 60)) // 60 * 60)
        edges = list(range(start // step * step + step, end, step))
    return found, row, ladder, start, end, edges, moment, draw(st.sampled_from(Bots))


@law
@given(questions())
def test_points_tile_on_kept_edges_and_hold_their_buckets(
    question: Question,
) -> None:
    _, row, ladder, start, end, edges, now, bots = question
    points, _ = curve(row, start, end, edges, now, bots, ladder)
    assert points[0].start == ladder.kept(start, row.fold_day)[0]
    ends = []
    for edge in [*edges, end]:  # each edge moves up to the end of the kept bucket that it falls inside
        kept = ladder.kept(edge, row.fold_day)
        moved = edge if kept[0] == edge else kept[1]
        if moved not in ends:
            ends.append(moved)
    assert [point.end for point in points] == ends
    assert [point.start for point in points[1:]] == ends[:-1]
    buckets = buckets_of(row, ladder)
    for point in points:
        held = [(bot, n) for (since, until, bot), n in buckets.items() if point.start <= since and until <= point.end]
        assert point.count == sum(n for bot, n in held if bots is Bots.include or bot == (bots is Bots.only))
        cut = point.start < start or point.end > end
        assert point.state == ("open" if point.end > now else "partial" if cut else "complete")


@law
@given(questions())
def test_sums_survive_any_steps_and_bound_the_raw_hits(
    question: Question,
) -> None:
    found, row, ladder, start, end, edges, now, bots = question
    points, span = curve(row, start, end, edges, now, bots, ladder)
    assert sum(point.count for point in points) == span.total == span.at_most
    whole, same = curve(row, start, end, [], now, bots, ladder)
    assert len(whole) == 1
    assert whole[0].count == span.total
    assert span == same == total(row, start, end, bots, ladder)
    wanted = [hit for hit in found if bots is Bots.include or hit.bot == (bots is Bots.only)]
    raw = sum(hit.count for hit in wanted if start <= hit.t < end)
    assert span.at_least <= raw <= span.at_most
    kept = {hit.t: ladder.kept(hit.t, row.fold_day) for hit in wanted}
    inside = [hit for hit in wanted if start <= kept[hit.t][0] and kept[hit.t][1] <= end]
    assert span.at_least == sum(hit.count for hit in inside)


@law
@given(questions(), st.sampled_from(Bots))
def test_counts_between_edges_are_those_of_the_points(question: Question, bots: Bots) -> None:
    _, row, ladder, start, end, edges, now, _ = question
    points, _ = curve(row, start, end, edges, now, bots, ladder)
    at_edges = [points[0].start, *(point.end for point in points)]
    assert between(row, at_edges, bots) == [point.count for point in points]
    assert between(row, at_edges[:1], bots) == between(row, [], bots) == []


@law
@given(questions(), st.integers(0, 500))
def test_a_row_decoded_in_part_answers_as_the_whole_from_there_on(question: Question, days: int) -> None:
    _, row, ladder, start, end, edges, now, bots = question
    data = encode(row)
    day = row.fold_day + days  # readers fold to now
    since = ladder.kept(start, day)[0]
    part = fold(decode(data, since, bots is not Bots.exclude), day, ladder)
    whole = fold(row, day, ladder)
    assert curve(part, start, end, edges, now, bots, ladder) == curve(whole, start, end, edges, now, bots, ladder)
    assert (part.lifetime, part.bots, part.first, part.last) == (row.lifetime, row.bots, row.first, row.last)
