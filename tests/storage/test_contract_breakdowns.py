"""What every store promises of breakdowns beside rows of counts, and of notes, on every store."""

from __future__ import annotations

from clickcurve.keys import ALL_LINKS, breakdown_key, breakdown_of, link_key
from storage.contract import OwnRow, SavedRow, Store, StoredLink, StoredRow
from tests.storage.stores import StoreFactory, due, in_flush, rows, saved, walked


def both(link: str, n: int, *, closed_stays: bool = False) -> dict[str, SavedRow]:
    """A row of counts and a breakdown, as flush `n` saves them; the closed part is that of the first flush."""
    counts = SavedRow(b"counts %d" % n, 3, n)
    return {link_key(link): counts, breakdown_key(link): SavedRow(b"open %d " % n, 2, None, b"closed", closed_stays)}


def test_both_rows_of_a_link_are_stored_each_under_its_key(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    for link in ("a", "\0odd", "by:a"):
        store.save_own(first, 1, both(link, 1), {})
        store.save_own(second, 1, saved(link_key(link)), {})
        assert rows(store, breakdown_key(link)) == StoredLink(0, (StoredRow(1, b"open 1 closed"),))
        assert rows(store, link_key(link)).rows == (StoredRow(1, b"counts 1"), StoredRow(2, b"row"))
        assert store.load_own(1, [breakdown_key(link), link_key(link)]) == {
            link_key(link): OwnRow(b"counts 1", 0),
            breakdown_key(link): OwnRow(b"open 1 closed", 0),
        }
        assert store.load_own(1, [breakdown_key(link)]) == {breakdown_key(link): OwnRow(b"open 1 closed", 0)}
        assert set(store.load_own(2, [breakdown_key(link), link_key(link)])) == {link_key(link)}
    assert sorted(due(store, 1, 2, 10)) == sorted(map(breakdown_key, ("a", "\0odd", "by:a")))


def test_a_closed_part_stays_and_a_new_one_replaces_it(store_factory: StoreFactory) -> None:
    store = store_factory()
    held = in_flush(store)
    for n in (1, 2):
        store.save_own(held, 1, both("a", n, closed_stays=n == 2) | both("b", n, closed_stays=n == 2), {})
        for each in (store, store_factory()):
            assert each.load_own(1, [breakdown_key("a")])[breakdown_key("a")].data == b"open %d closed" % n
    store.save_own(held, 1, {breakdown_key("a"): SavedRow(b"alone", None), "a": SavedRow(b"counts", None)}, {})
    assert rows(store, breakdown_key("a")).rows == (StoredRow(1, b"alone"),)
    store.save_own(held, 1, {breakdown_key("b"): SavedRow(b"no counts", None)}, {})
    assert rows(store, breakdown_key("b")).rows == (StoredRow(1, b"no counts"),)
    assert rows(store, "b").rows == (StoredRow(1, b"counts 2"),)


def test_the_erasure_of_a_link_is_that_of_its_breakdown(store: Store) -> None:
    held = in_flush(store)
    for link in ("a", "b", "\0c"):
        store.save_own(held, 1, both(link, 1), {})
    store.load_own(1, [breakdown_key("a"), "a"])
    store.erase(["a"], 500)
    store.erase([breakdown_key("\0c")], 700)
    for link, at_us in (("a", 500), ("b", 0), ("\0c", 700), ("gone", 0)):
        for key in (link_key(link), breakdown_key(link)):
            assert rows(store, key).erased_at == at_us
            assert store.load_own(1, [key]).get(key, OwnRow(None, 0)).erased_at == at_us
    with store.view() as view:
        assert {key: link.erased_at for key, link in view.walk(None, 10)} == {
            "a": 500,
            "b": 0,
            link_key("\0c"): 700,
            breakdown_key("a"): 500,
            breakdown_key("b"): 0,
            breakdown_key("\0c"): 700,
        }


def test_walks_go_by_rows_of_counts_and_only_a_view_shows_breakdowns(store: Store) -> None:
    held = in_flush(store)
    keys = [ALL_LINKS, "\0a", "\0zz", *(f"link {n:02}" for n in range(9))]
    for key in keys:
        store.save_own(held, 1, both(key, 1), {})
    counts = {link_key(key) for key in keys}
    assert {key for key, _ in walked(store, 3)} == counts
    for limit in (1, 2, 5):
        found: list[str] = []
        while page := store.in_order(f"{found[-1]}\0" if found else "", limit):
            assert len(page) <= limit
            found += [key for key, _ in page]
        assert found == sorted(counts)
    with store.view() as view:
        for limit in (1, 2, 5, 100):
            seen: dict[str, StoredLink] = {}
            after = None
            while page := view.walk(after, limit):
                assert not seen.keys() & dict(page).keys()
                seen |= page
                after = page[-1][0]
            assert seen.keys() == counts | set(map(breakdown_of, counts))
            assert seen[breakdown_of("link 03")].rows == (StoredRow(1, b"open 1 closed"),)
        asked = ["link 01", breakdown_key("link 02"), "none", breakdown_key("none")]
        assert view.links(asked) == {
            "link 01": StoredLink(0, (StoredRow(1, b"counts 1"),)),
            breakdown_key("link 02"): StoredLink(0, (StoredRow(1, b"open 1 closed"),)),
        }


def test_what_is_noted_first_is_what_all_find(store_factory: StoreFactory) -> None:
    one, other = store_factory(), store_factory()
    assert one.note("since:ref", "0") == "0"
    assert other.note("since:ref", "7") == "0"
    assert other.note("salt:1", "secret", 48 * 3_600) == "secret"
    assert one.note("salt:1", "another", 48 * 3_600) == "secret"
    with one.view() as view:
        assert view.notes() == other.notes() == {"since:ref": "0", "salt:1": "secret"}
    one.drop_notes(["since:ref", "unknown"])
    assert other.notes() == {"salt:1": "secret"}
    assert other.note("since:ref", "8") == "8"
