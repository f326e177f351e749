"""Every store: down, and up again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from storage.contract import CLOSED, Held, OwnRow, SavedRow, Source, Store, StoredLink, StoredRow
from tests.storage.stores import OUTAGES, Outage, StoreFactory, in_flush, record, rows, saved


def save_pieces(store: Store, held: Held) -> None:
    """Of a store that is down the first may fail at once or be found lost by the second."""
    with store.saving(held, 1) as save:
        save(saved("c", data=b"after"))
        save(saved("d", data=b"after"))


# Each has an owner or keys of its own, so that all can be asked while a store is down once.
WRITES: dict[str, Callable[[Store, Held], object]] = {
    "create_owner": lambda store, held: store.create_owner(record(9)),
    "claim": lambda store, held: store.claim(record(2), record(2, epoch=2)),
    "begin": lambda store, held: store.begin(Held(3, 1, "h1"), 0, 1, 1),
    "close_owner": lambda store, held: store.close_owner(Held(4, 1, "h1")),
    "claim_ids": lambda store, held: store.claim_ids(held, 1, {"id": 1}, 1),
    "save_own": lambda store, held: store.save_own(held, 1, saved("a", "b", data=b"after"), {}),
    "saving": lambda store, held: save_pieces(store, held),
    "erase": lambda store, held: store.erase(["e"], 5),
    "claim_source": lambda store, held: store.claim_source("log", held, None),
}

OWNERS = [record(begun=1), record(2), record(3), record(4)]
# A node that was suspended may take up what it was sent when it goes on: then all of an update is there, or of a row.
DONE = [
    record(begun=1),
    record(2, epoch=2),
    replace(record(3, begun=1), begun_at=1),
    record(4, state=CLOSED),
    record(9),
]

# A real node that stands still takes the time of each request; the first test asks all of them.
QUICKLY = [pytest.param(each, marks=[pytest.mark.long] if each.store == "cassandra" else []) for each in OUTAGES]


@pytest.mark.parametrize("outage", [outage for outage in OUTAGES if outage.stops_all], indirect=True, ids=str)
def test_a_store_that_is_down_says_so_and_takes_everything_later(outage: Outage, failing_factory: StoreFactory) -> None:
    store = failing_factory()
    held = in_flush(store)
    for owner in OWNERS[1:]:
        store.create_owner(owner)
    store.save_own(held, 1, saved("a", "c", data=b"before"), {})
    with outage.down(failing_factory):
        for verb, write in WRITES.items():
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    pytest.fail(f"{verb} answered {write(store, held)!r}")
    late = outage.name == "node suspended"
    for key in ("a", "c"):
        assert rows(store, key) in [StoredLink(0, (StoredRow(1, data),)) for data in (b"before", b"after")[: 1 + late]]
    possible = [*OWNERS, *DONE] if late else OWNERS
    assert all(owner in possible for owner in store.owners())
    assert store.source("log") is None
    for verb, write in WRITES.items():
        assert write(store, held) in (True, None, set()), verb
    assert store.owners() == DONE
    assert {key for key, _ in store.walk(None, 10)} >= {"a", "b", "c", "d"}


@pytest.mark.parametrize("outage", QUICKLY, indirect=True, ids=str)
def test_a_save_that_finds_no_room_leaves_nothing_behind(outage: Outage, failing_factory: StoreFactory) -> None:
    store = failing_factory()
    held = in_flush(store)
    many = {f"key-{n}": SavedRow(bytes(1000), None) for n in range(3_000)}
    store.save_own(held, 1, saved("key-0", data=b"before"), {})
    with outage.down(failing_factory), pytest.raises(StoreUnavailable):
        store.save_own(held, 1, many, {"log": Source(1, 5, "")})
    left = dict(store.walk(None, 5_000))
    before = {"key-0": StoredLink(0, (StoredRow(1, b"before"),))}
    if outage.name == "node suspended":
        late = StoredLink(0, (StoredRow(1, bytes(1000)),))
        assert left == {key: late if left[key] == late else before.get(key) for key in left}
        assert "key-0" in left
        assert left.keys() <= many.keys()
    else:
        assert left == before
    assert store.source("log") is None
    store.save_own(held, 1, many, {})
    assert len(store.walk(None, 5_000)) == 3_000


@pytest.mark.parametrize("outage", QUICKLY, indirect=True, ids=str)
def test_reads_of_a_store_that_is_down_are_right_or_refused(outage: Outage, failing_factory: StoreFactory) -> None:
    store = failing_factory()
    held = in_flush(store)
    store.save_own(held, 1, saved("a"), {})
    reads: dict[Callable[[], object], object] = {
        lambda: rows(store, "a"): StoredLink(0, (StoredRow(1, b"row"),)),
        lambda: asyncio.run(store.claimed(["id"], 0)): set(),
        lambda: store.load_own(1, ["a"]): {"a": OwnRow(b"row", 0)},
        lambda: store.owners(): [record(begun=1)],
        lambda: store.due(1, 1, None, 1): [],
        lambda: store.walk(None, 1): [("a", StoredLink(0, (StoredRow(1, b"row"),)))],
    }
    with outage.down(failing_factory):
        for read, expected in reads.items():
            with suppress(StoreUnavailable):
                assert read() == expected
    for read, expected in reads.items():
        assert read() == expected
