from __future__ import annotations

from collections.abc import Mapping

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BreakdownDelta
from clickcurve.buckets.breakdowns.parts import apply_parts
from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.ladder import CLICKS, fold_day
from clickcurve.buckets.measures import measures_of
from clickcurve.buckets.row import Delta, Row
from clickcurve.buckets.upper_bounds import upper_bounds_in
from clickcurve.keys import ALL_LINKS, breakdown_key, breakdown_of, link_key, namespace_key
from storage.contract import SavedRow, Store
from storage.tools.verify import SENTENCES, verify
from tests.storage.flushes import NOON, Flusher, hits
from tests.storage.stores import record


def row_of(store: Store, key: str, owner: int) -> Row:
    data = store.load_own(owner, [key])[key].data
    assert data is not None
    return decode(data)


def put(store: Store, flusher: Flusher, key: str, data: bytes) -> None:
    store.save_own(
        flusher.held, flusher.number, {key: SavedRow(data, None, upper_bounds=upper_bounds_in(data, CLICKS))}, {}
    )


def test_a_sound_store_adds_up(store: Store) -> None:
    first, second = Flusher(store, 1), Flusher(store, 2)
    first.flush({"a": hits((0, 5), bots=2), "b": hits((1, 1)), link_key("\0c"): hits((0, 3), opening=100)})
    first.flush({"a": hits((2, 5))})
    second.flush({"a": hits((0, 7))})
    report = verify(store, CLICKS)
    assert (report.rows, report.links, report.people, report.bots, report.erased) == (6, 3, 121, 2, 0)
    assert (report.broken_rows, report.broken, report.under_way) == (0, [], [])


def test_an_empty_store_adds_up(store: Store) -> None:
    report = verify(store, CLICKS)
    assert (report.rows, report.broken, report.under_way) == (0, [], [])


def test_a_row_that_breaks_a_law_is_named_with_its_numbers(store: Store) -> None:
    flusher = Flusher(store)
    flusher.flush({"a": hits((0, 5)), "b": hits((0, 5))})
    put(store, flusher, "a", encode(row_of(store, "a", 1)._replace(lifetime=6)))
    report = verify(store, CLICKS)
    assert report.broken_rows == 2
    assert report.broken == [
        "link 'a', owner 1: lifetime is 6, but opening 0 + buckets 5",
        "all links, owner 1: this row counts 10 people, the links' rows together 11 (erased ones included)",
    ]


def test_a_row_that_cannot_be_read_is_named(store: Store) -> None:
    flusher = Flusher(store)
    flusher.flush({"a": hits((0, 5)), "b": hits((0, 5))})
    put(store, flusher, "a", b"\xff\xff")
    report = verify(store, CLICKS)
    assert report.broken_rows == 2
    assert report.broken[0].startswith("link 'a', owner 1: not a row")
    assert report.broken[1] == "all links, owner 1: 1 rows cannot be read, so the sums cannot be compared"


def test_a_lost_row_shows_in_the_sums_of_its_owner(store: Store) -> None:
    first, second = Flusher(store, 1), Flusher(store, 2)
    first.flush({"a": hits((0, 5), bots=1)})
    second.flush({"a": hits((0, 5)), "b": hits((0, 5), bots=4)})
    put(store, second, "b", encode(row_of(store, "b", 2)._replace(bots=0, bot_cells=())))
    report = verify(store, CLICKS)
    assert report.broken == [
        "all links, owner 2: this row counts 4 bots, the links' rows together 0 (erased ones included)"
    ]


def test_links_without_a_row_of_all_links_do_not_add_up(store: Store) -> None:
    flusher = Flusher(store)
    flusher.flush({"a": hits((0, 5))})
    put(
        store,
        flusher,
        ALL_LINKS,
        encode(row_of(store, ALL_LINKS, 1)._replace(lifetime=0, people_cells=(), first=None, last=None)),
    )
    assert verify(store, CLICKS).broken_rows == 1


def test_what_was_erased_still_adds_up_before_and_after_its_owners_write_again(store: Store) -> None:
    first, second = Flusher(store, 1), Flusher(store, 2)
    first.flush({"a": hits((0, 50), bots=3), "b": hits((0, 1))})
    second.flush({"a": hits((0, 7))})
    store.erase(["a"], NOON * 1_000_000)
    report = verify(store, CLICKS)
    assert (report.people, report.bots, report.erased, report.broken) == (1, 0, 60, [])
    first.flush({"a": hits((5, 60), bots=4)})
    report = verify(store, CLICKS)
    assert (report.people, report.bots, report.erased, report.broken) == (61, 4, 60, [])


def test_an_owner_in_the_middle_of_a_flush_is_named_and_not_compared(store: Store) -> None:
    first, second = Flusher(store, 1), Flusher(store, 2)
    for flusher in (first, second):
        flusher.flush({"a": hits((0, 5))})
    first.begin({"b": hits((0, 5))})
    second.flush({"b": hits((0, 5))})
    report = verify(store, CLICKS)
    assert (report.people, report.broken, report.under_way) == (20, [], [1])
    first.finish({"b": hits((0, 5))})
    report = verify(store, CLICKS)
    assert (report.people, report.broken, report.under_way) == (20, [], [])


def test_a_flush_that_has_begun_and_written_nothing_is_compared(store: Store) -> None:
    flusher = Flusher(store)
    flusher.flush({"a": hits((0, 5))})
    assert store.begin(flusher.held, 1, 2, NOON)
    assert verify(store, CLICKS).under_way == []


def test_rows_of_other_namespaces_keep_the_laws_and_stay_out_of_the_sums(store: Store) -> None:
    flusher = Flusher(store)
    flusher.flush({"a": hits((0, 5))})
    flusher.begin({namespace_key("limit", "a"): hits((0, 1000))})
    flusher.finish({})
    report = verify(store, CLICKS)
    assert (report.rows, report.links, report.people, report.broken) == (3, 1, 5, [])


def test_a_row_of_nobody_is_named(store: Store) -> None:
    store.create_owner(record(7))
    flusher = Flusher(store)
    flusher.flush({"a": hits((0, 5))})
    report = verify(_Forgetful(store), CLICKS)  # type: ignore[arg-type]
    assert "link 'a', owner 1: the store knows no such owner" in report.broken


class _Forgetful:
    """A store whose owners are gone."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def view(self) -> _Forgetful:
        return self

    def __enter__(self) -> _Forgetful:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to leave."""

    def owners(self) -> list[object]:
        return []

    def walk(self, after: str | None, limit: int) -> object:
        return self._store.walk(after, limit)

    def count_rows(self, breakdowns: bool) -> None:
        pass

    def ranked_prefixes(self) -> list[str]:
        return []

    def links(self, keys: object) -> dict[str, object]:
        return {}

    def notes(self) -> dict[str, str]:
        return {}


def test_more_broken_rows_than_anybody_reads_are_counted(store: Store) -> None:
    flusher = Flusher(store)
    flusher.flush({})
    many = {f"key-{n}": SavedRow(b"?", None) for n in range(SENTENCES + 5)}
    store.save_own(flusher.held, 1, many, {})
    report = verify(store, CLICKS)
    assert (report.broken_rows, len(report.broken)) == (SENTENCES + 6, SENTENCES)


# --- breakdowns -------------------------------------------------------------------------------------------------------
def divided(hits: int, mark: int = 1, dimension: str = "ref") -> SavedRow:
    hour = NOON - NOON % 3_600
    delta = BreakdownDelta({dimension: {hour: {"a.example": hits}}})
    parts = apply_parts(None, delta, mark, fold_day(NOON), 0, BREAKDOWN)
    return SavedRow(parts.open, None, None, parts.closed)


def test_breakdowns_that_hold_no_more_than_the_counts_beside_them_add_up(store: Store) -> None:
    flusher = Flusher(store)
    flusher.flush({"a": hits((0, 5)), "b": hits((0, 5))})
    both = {breakdown_key("a"): divided(5), breakdown_key("b"): divided(1), breakdown_key(ALL_LINKS): divided(7)}
    store.save_own(flusher.held, flusher.number, both, {})
    report = verify(store, CLICKS)
    assert (report.rows, report.links, report.broken) == (6, 2, [])


def test_a_breakdown_that_holds_more_than_there_is_is_named(store: Store) -> None:
    flusher = Flusher(store)
    flusher.flush({"a": hits((0, 5)), "b": hits((0, 5)), "c": hits((0, 5))})
    rows = {"a": divided(6), "b": divided(5, mark=7), "c": SavedRow(b"?", None), "d": divided(1)}
    store.save_own(flusher.held, flusher.number, {breakdown_key(key): row for key, row in rows.items()}, {})
    report = verify(store, CLICKS)
    broken = {sentence.partition(":")[0]: sentence for sentence in report.broken}
    hour = NOON - NOON % 3_600
    assert "ref records 6 hits in [" in broken["breakdown of link 'a', owner 1"]
    assert f"[{hour}, {hour + 3_600}), the row of counts has 5" in broken["breakdown of link 'a', owner 1"]
    assert "has flush 7" in broken["breakdown of link 'b', owner 1"]
    assert "not a breakdown" in broken["breakdown of link 'c', owner 1"]
    assert "no row of counts beside it" in broken["breakdown of link 'd', owner 1"]
    assert broken["breakdown of all links, owner 1"].endswith("ref records 0 hits of all links, and 12 of single links")
    assert report.broken_rows == len(broken) == 5


# --- events -----------------------------------------------------------------------------------------------------------
SALES, AMOUNTS = measures_of("sale")
CLICKED = {"a": hits((0, 5)), "b": hits()}


def flush_with_events(flusher: Flusher, events: Mapping[str, Delta], clicks: Mapping[str, Delta] = CLICKED) -> None:
    flusher.begin({**events, **clicks})
    flusher.finish(clicks)


def test_events_and_values_add_up_for_each_owner(store: Store) -> None:
    first, second = Flusher(store, 1), Flusher(store, 2)
    rows = {
        SALES.row("a"): hits((0, 2), bots=1),
        AMOUNTS.row("a"): hits((0, 500), bots=3),
        SALES.row("b"): hits((9, 1)),
    }
    of_all = {SALES.row(ALL_LINKS): hits((0, 2), (9, 1), bots=1), AMOUNTS.row(ALL_LINKS): hits((0, 500), bots=3)}
    for flusher in (first, second):
        flush_with_events(flusher, rows | of_all)
    report = verify(store, CLICKS)
    assert (report.links, report.people, report.broken) == (2, 10, [])
    store.erase([SALES.row("a"), AMOUNTS.row("a")], NOON * 1_000_000)
    flush_with_events(first, {SALES.row(each): hits((5, 1)) for each in ("a", ALL_LINKS)})
    report = verify(store, CLICKS)
    assert (report.people, report.erased, report.broken) == (15, 0, [])


def test_a_lost_event_and_lost_values_are_named(store: Store) -> None:
    flusher = Flusher(store)
    of_link = {SALES.row("a"): hits((0, 2)), AMOUNTS.row("a"): hits((0, 7))}
    of_all = {SALES.row(ALL_LINKS): hits((0, 1), bots=1), AMOUNTS.row(ALL_LINKS): hits((0, 7), bots=2)}
    flush_with_events(flusher, of_link | of_all)
    assert verify(store, CLICKS).broken == [
        f"{name} of all links, owner 1: this row counts {had} {series}, the links' rows together {links} "
        "(erased ones included)"
        for name, had, series, links in (
            ("event sale", 1, "people", 2),
            ("event sale", 1, "bots", 0),
            ("values of sale", 2, "bots", 0),
        )
    ]


def test_values_without_events_are_named(store: Store) -> None:
    flusher = Flusher(store)
    rows = {AMOUNTS.row(key): hits((0, 7), (40, 1)) for key in ("a", ALL_LINKS)}
    flush_with_events(flusher, rows | {SALES.row(key): hits((0, 7)) for key in ("a", ALL_LINKS)})
    assert sorted(verify(store, CLICKS).broken) == [
        f"values of sale of {name}, owner 1: there are values of people in the bucket from {NOON + 40 * 60}, "
        "and no events"
        for name in ("all links", "link 'a'")
    ]


def test_values_are_not_compared_while_a_flush_is_under_way(store: Store) -> None:
    flusher = Flusher(store)
    flusher.flush(CLICKED)
    flusher.begin({AMOUNTS.row("a"): hits((0, 7))})
    report = verify(store, CLICKS)
    assert (report.broken, report.under_way) == ([], [1])


def test_an_events_breakdown_is_held_against_its_row_and_that_of_all_links(store: Store) -> None:
    flusher = Flusher(store)
    flush_with_events(flusher, {SALES.row(key): hits((0, 2)) for key in ("a", ALL_LINKS)})
    by_rows = {SALES.row("a"): divided(3), SALES.row(ALL_LINKS): divided(1)}
    store.save_own(flusher.held, flusher.number, {breakdown_of(key): row for key, row in by_rows.items()}, {})
    broken = {sentence.partition(":")[0]: sentence for sentence in verify(store, CLICKS).broken}
    assert "the row of counts has 2" in broken["breakdown of event sale of link 'a', owner 1"]
    of_all = broken["breakdown of event sale of all links, owner 1"]
    assert of_all.endswith("ref records 1 hits of all links, and 3 of single links")
    assert len(broken) == 2
