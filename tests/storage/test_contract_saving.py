"""Every store: rows of a flush saved piece by piece, one of which may be under way while the next is made."""

from __future__ import annotations

import pytest

from clickcurve.buckets.errors import OwnerFenced
from storage.contract import OwnRow, Store, StoredLink, StoredRow
from tests.storage.stores import StoreFactory, in_flush, rows, saved

PIECES = [[f"{name}-{n}" for n in range(30)] for name in "abc"]


def test_after_the_block_all_pieces_are_there_for_every_process(store_factory: StoreFactory) -> None:
    store = store_factory()
    held = in_flush(store)
    with store.saving(held, 1) as save:
        for number, keys in enumerate(PIECES):
            assert store.load_own(1, keys) == {}
            save(saved(*keys, data=b"%d" % number, due_day=9))
    other = store_factory()
    for number, keys in enumerate(PIECES):
        assert [rows(other, key) for key in keys] == [StoredLink(0, (StoredRow(1, b"%d" % number),))] * len(keys)
        assert set(store.load_own(1, keys).values()) == {OwnRow(b"%d" % number, 0)}
    assert len(other.due(1, 9, None, 1_000)) == sum(map(len, PIECES))


def test_a_flush_without_pieces_saves_nothing(store: Store) -> None:
    held = in_flush(store)
    with store.saving(held, 1):
        pass
    assert store.walk(None, 10) == []


def test_what_the_caller_fails_with_goes_through_and_the_next_try_saves_all(store: Store) -> None:
    held = in_flush(store)
    first, second, _ = PIECES
    with pytest.raises(KeyError, match="mine"), store.saving(held, 1) as save:
        save(saved(*first, data=b"once"))
        raise KeyError("mine")
    with store.saving(held, 1) as save:
        save(saved(*first, data=b"again"))
        save(saved(*second, data=b"again"))
    listed = dict(store.walk(None, 1_000))
    assert listed == dict.fromkeys([*first, *second], StoredLink(0, (StoredRow(1, b"again"),)))


def test_a_flush_that_did_not_begin_saves_no_piece(store: Store) -> None:
    held = in_flush(store)
    with pytest.raises(OwnerFenced), store.saving(held, 2) as save:
        save(saved("a"))
        save(saved("b"))
    assert store.walk(None, 10) == []
