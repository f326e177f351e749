"""Every store: down, and up again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from storage.contract import (
    CLOSED,
    Held,
    OwnRow,
    SavedRow,
    Source,
    Store,
    StoredLink,
    StoredRow,
)
from tests.storage.stores import OUTAGES, Outage, StoreFactory, in_flush, record, rows, saved


def save_pieces(store: Store, held: Held) -> None:
    """Of a store that is down the first may fail at once or be found lost by the second."""
    with store.saving(held, 1) as save:
        save(saved("a", data=b"after"))
        save(saved("b", data=b"after"))


WRITES: dict[str, Callable[[Store, Held], object]] = {
    "create_owner": lambda store, held: store.create_owner(record(9)),
    "claim": lambda store, held: store.claim(record(2), record(2, epoch=2)),
    "begin": lambda store, held: store.begin(Held(2, 1, "h1"), 0, 1, 1),
    "close_owner": lambda store, held: store.close_owner(Held(2, 1, "h1")),
    "claim_ids": lambda store, held: store.claim_ids(held, 1, {"id": 1}, 1),
    "save_own": lambda store, held: store.save_own(held, 1, saved("a", "b", data=b"after"), {}),
    "saving": lambda store, held: save_pieces(store, held),
    "erase": lambda store, held: store.erase("a", 5),
    "claim_source": lambda store, held: store.claim_source("log", held, None),
}

OWNERS = [record(begun=1), record(2)]
# A node that was suspended may take up what it was sent when it goes on: then all of an update is there, or of a row.
LATE_OWNERS = {
    "create_owner": [*OWNERS, record(9)],
    "claim": [OWNERS[0], record(2, epoch=2)],
    "begin": [OWNERS[0], replace(record(2, begun=1), begun_at=1)],
    "close_owner": [OWNERS[0], record(2, state=CLOSED)],
}


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("outage", [outage for outage in OUTAGES if outage.stops_all], indirect=True, ids=str)
def test_a_store_that_is_down_says_so_and_takes_it_later(
    outage: Outage, failing_factory: StoreFactory, verb: str
) -> None:
    store = failing_factory()
    held = in_flush(store)
    store.create_owner(record(2))
    store.save_own(held, 1, saved("a", data=b"before"), {})
    with outage.down(failing_factory):
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                WRITES[verb](store, held)
    late = outage.name == "node suspended"
    found = {b"before", b"after"} if late and verb in ("save_own", "saving") else {b"before"}
    assert rows(store, "a") in [StoredLink(0, (StoredRow(1, data),)) for data in found]
    assert store.owners() in (OWNERS, LATE_OWNERS.get(verb, OWNERS) if late else OWNERS)
    assert store.source("log") is None
    assert WRITES[verb](store, held) in (True, None, set())


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
