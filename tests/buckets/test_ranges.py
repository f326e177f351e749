"""Totals of a span and counts between edges: bounds that hold, whatever is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, Ladder, fold_day
from clickcurve.buckets.ranges import Bots, Span, between, total
from clickcurve.buckets.row import EMPTY, Delta, Row, add, apply, fold, forget, merge
from tests.buckets.given import Hit, at, buckets_of, hits, ladders, law, moments, row_of

NOON = at("2024-03-15T12:00")
TODAY = fold_day(NOON)
FOLDED = fold(EMPTY, TODAY, CLICKS)


def people(minutes: dict[str, int]) -> Row:
    return add(FOLDED, Delta({at(text): count for text, count in minutes.items()}, {}), CLICKS)


def span_of(row: Row, start: str, end: str) -> Span:
    return total(row, at(start), at(end), Bots.exclude, CLICKS)


def test_a_span_of_whole_buckets_is_exact() -> None:
    row = people({"2024-03-15T11:00": 1, "2024-03-15T11:04": 2, "2024-03-15T11:05": 4, "2024-03-15T11:10": 8})
    span = span_of(row, "2024-03-15T11:00", "2024-03-15T11:10")
    assert span == Span(7, 7, 7)
    assert span.exact


def test_a_span_that_cuts_buckets_gets_bounds() -> None:
    row = people({"2024-03-12T10:20": 1, "2024-03-12T11:30": 2, "2024-03-12T12:10": 3, "2024-03-12T12:30": 1})
    span = span_of(row, "2024-03-12T10:30", "2024-03-12T12:15")
    assert span == Span(7, 2, 7)
    assert not span.exact


def test_a_cut_bucket_that_is_empty_is_exact() -> None:
    span = span_of(people({"2024-03-12T11:30": 2}), "2024-03-12T10:30", "2024-03-12T12:15")
    assert span == Span(2, 2, 2)
    assert span.exact


def test_a_span_inside_one_bucket_is_all_uncertain() -> None:
    row = people({"2024-03-12T09:30": 1, "2024-03-12T10:30": 9, "2024-03-12T11:30": 1})
    assert span_of(row, "2024-03-12T10:10", "2024-03-12T10:20") == Span(9, 0, 9)


@pytest.mark.parametrize(
    ("start", "end", "bounds"),
    [
        ("2024-03-12T10:30", "2024-03-12T13:00", (7, 7)),  # from the first hit
        ("2024-03-12T10:29:59", "2024-03-12T11:00", (3, 3)),
        ("2024-03-12T10:31", "2024-03-12T11:00", (0, 3)),  # one of the three may be in the first minute, or all
        ("2024-03-12T10:10", "2024-03-12T10:30", (0, 0)),  # until the first hit
        ("2024-03-12T10:10", "2024-03-12T10:31", (0, 3)),
        ("2024-03-12T11:00", "2024-03-12T12:21", (4, 4)),  # until after the last hit
        ("2024-03-12T11:00", "2024-03-12T12:20:59", (0, 4)),
        ("2024-03-12T12:21", "2024-03-12T14:00", (0, 0)),  # from after the last hit
        ("2024-03-12T12:20", "2024-03-12T14:00", (0, 4)),
        ("2024-03-12T10:30", "2024-03-12T12:21", (7, 7)),  # two cuts
        ("2024-03-12T10:45", "2024-03-12T12:40", (4, 7)),  # two cuts, one of them certain
    ],
)
def test_a_cut_is_certain_where_the_first_or_the_last_hit_says_so(
    start: str, end: str, bounds: tuple[int, int]
) -> None:
    row = people({"2024-03-12T10:30": 1, "2024-03-12T10:40": 2, "2024-03-12T12:20": 4})
    span = span_of(row, start, end)
    assert (span.at_least, span.at_most) == bounds


def test_a_bot_may_be_the_first_hit_so_a_cut_before_the_first_person_is_not_certain() -> None:
    row = add(FOLDED, Delta({at("2024-03-12T10:30"): 1}, {at("2024-03-12T10:20"): 1}), CLICKS)
    assert total(row, at("2024-03-12T10:25"), at("2024-03-12T11:00"), Bots.exclude, CLICKS) == Span(1, 0, 1)


def test_owners_rows_together_are_bound_by_the_first_and_last_hit_of_all() -> None:
    ours, theirs = people({"2024-03-12T10:30": 1}), people({"2024-03-12T10:10": 2})
    both = merge([ours, theirs], CLICKS)
    assert span_of(ours, "2024-03-12T10:30", "2024-03-12T11:00") == Span(1, 1, 1)
    assert span_of(both, "2024-03-12T10:30", "2024-03-12T11:00") == Span(3, 0, 3)
    assert span_of(both, "2024-03-12T10:10", "2024-03-12T10:31") == Span(3, 3, 3)


def test_a_row_that_was_emptied_is_bound_by_its_hits_since() -> None:
    before = apply(FOLDED, Delta({at("2024-03-12T10:10"): 2}, {}), 1, TODAY, 0, CLICKS)
    after = apply(before, Delta({at("2024-03-12T10:30"): 1}, {}), 2, TODAY, 5, CLICKS)
    assert span_of(after, "2024-03-12T10:30", "2024-03-12T11:00") == Span(1, 1, 1)


def test_what_is_left_of_a_row_that_forgets_is_bound_by_its_oldest_bucket() -> None:
    row = forget(people({"2024-02-20T10:10": 1, "2024-03-12T10:30": 2, "2024-03-12T10:40": 4}), TODAY, 5)
    assert row.first == at("2024-03-12T10:00")
    assert span_of(row, "2024-03-12T10:20", "2024-03-12T11:00") == Span(6, 0, 6)
    assert span_of(row, "2024-03-12T10:00", "2024-03-12T10:41") == Span(6, 6, 6)


def test_an_empty_span_counts_nothing() -> None:
    row = people({"2024-03-15T11:59": 1})
    assert total(row, NOON, NOON, Bots.exclude, CLICKS) == Span(0, 0, 0)
    assert total(row, NOON, NOON - 60, Bots.exclude, CLICKS) == Span(0, 0, 0)


@pytest.mark.parametrize(("bots", "count"), [(Bots.exclude, 1), (Bots.only, 10), (Bots.include, 11)])
def test_bots_are_left_out_or_counted_in_or_alone(bots: Bots, count: int) -> None:
    row = add(FOLDED, Delta({NOON: 1}, {NOON: 2, NOON + 60: 8}), CLICKS)
    assert sum(between(row, [NOON, NOON + 60, NOON + 120], bots)) == count
    assert total(row, NOON, NOON + 120, bots, CLICKS) == Span(count, count, count)


def test_a_row_that_was_never_written_has_zeros() -> None:
    assert between(EMPTY, [NOON - 120, NOON - 60, NOON], Bots.include) == [0, 0]
    assert total(EMPTY, NOON - 120, NOON, Bots.include, CLICKS) == Span(0, 0, 0)


Question = tuple[list[Hit], Row, Ladder, int, int, list[int], Bots]


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """A folded row and its raw hits, a span that may cut anything, and edges between kept buckets, some inside it."""
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
    return (
        found,
        row,
        ladder,
        start,
        end,
        _on_kept_edges(row, ladder, start, [*edges, end]),
        draw(st.sampled_from(Bots)),
    )


def _on_kept_edges(row: Row, ladder: Ladder, start: int, edges: list[int]) -> list[int]:
    """The start of the kept bucket that holds `start`, and each edge moved up to the end of the one that it cuts."""
    kept = [ladder.kept(edge, row.fold_day) for edge in edges]
    moved = [edge if bucket[0] == edge else bucket[1] for edge, bucket in zip(edges, kept, strict=True)]
    return list(dict.fromkeys([ladder.kept(start, row.fold_day)[0], *moved]))


@law
@given(questions())
def test_counts_between_edges_hold_their_buckets(question: Question) -> None:
    _, row, ladder, start, end, edges, bots = question
    counts = between(row, edges, bots)
    buckets = buckets_of(row, ladder)
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        held = [(bot, n) for (since, until, bot), n in buckets.items() if low <= since and until <= high]
        assert count == sum(n for bot, n in held if bots is Bots.include or bot == (bots is Bots.only))
    assert sum(counts) == total(row, start, end, bots, ladder).total, "whatever the edges"
    assert between(row, edges[:1], bots) == between(row, [], bots) == []


@law
@given(questions())
def test_a_total_bounds_the_raw_hits(question: Question) -> None:
    found, row, ladder, start, end, _, bots = question
    span = total(row, start, end, bots, ladder)
    assert span.total >= span.at_most
    wanted = [hit for hit in found if bots is Bots.include or hit.bot == (bots is Bots.only)]
    raw = sum(hit.count for hit in wanted if start <= hit.t < end)
    assert span.at_least <= raw <= span.at_most
    certain = possible = 0
    for hit in wanted:
        low, high = _where_hits_may_be(ladder.kept(hit.t, row.fold_day), found)
        certain += hit.count if start <= low and high <= end else 0
        possible += hit.count if start < high and low < end else 0
    assert (span.at_least, span.at_most) == (certain, possible)


def _where_hits_may_be(bucket: tuple[int, int], found: list[Hit]) -> tuple[int, int]:
    """The part of a bucket that the minutes of the first and the last hit leave."""
    minutes = [hit.t for hit in found]
    return max(bucket[0], min(minutes)), min(bucket[1], max(minutes) + 60)


@law
@given(questions(), st.integers(0, 500))
def test_a_row_decoded_in_part_answers_as_the_whole_from_there_on(question: Question, days: int) -> None:
    _, row, ladder, start, end, edges, bots = question
    data = encode(row)
    day = row.fold_day + days  # readers fold to now
    since = ladder.kept(start, day)[0]
    part = fold(decode(data, since, bots is not Bots.exclude), day, ladder)
    whole = fold(row, day, ladder)
    at_edges = _on_kept_edges(whole, ladder, start, [*(edge for edge in edges if edge > start), end])
    assert between(part, at_edges, bots) == between(whole, at_edges, bots)
    assert total(part, start, end, bots, ladder) == total(whole, start, end, bots, ladder)
    assert (part.lifetime, part.bots, part.first, part.last) == (row.lifetime, row.bots, row.first, row.last)
