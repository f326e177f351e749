"""Every store: rows of an owner that is not open, written again by a process that claims it for that alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from clickcurve.buckets.errors import OwnerFenced
from storage.contract import CLOSED, COPIED, OPEN, RETIRED, Held, OwnerRecord, SavedRow, Store
from tests.storage.stores import in_flush, record


def stored_owner(store: Store, state: str) -> OwnerRecord:
    """An owner that has flushed a row once, in this state."""
    held = in_flush(store)
    store.save_own(held, 1, {"a": SavedRow(b"old", None), "b": SavedRow(b"other", None)}, {})
    open_record = store.owner(held.owner)
    assert open_record is not None and open_record.state == OPEN
    if state == CLOSED:
        assert store.close_owner(held)
    else:
        assert store.claim(open_record, replace(open_record, state=state))
    stored = store.owner(held.owner)
    assert stored is not None and stored.state == state
    return stored


def claimed_to_rewrite(store: Store, before: OwnerRecord, name: str = "rewriter") -> Held:
    after = before.rewritten_by(name)
    assert store.claim(before, after, rewrites=True)
    assert store.claim(before, after, rewrites=True), "it may be repeated"
    assert store.owner(before.owner) == after
    return Held(after.owner, after.epoch, after.holder, rewrites=True)


def data_of(store: Store, key: str) -> bytes:
    (row,) = asyncio.run(_rows(store, key))
    return row


async def _rows(store: Store, key: str) -> list[bytes]:
    return [row.data for row in (await store.rows(key)).rows]


@pytest.mark.parametrize("state", [CLOSED, RETIRED, COPIED])
def test_rows_of_an_owner_that_is_not_open_are_rewritten(store: Store, state: str) -> None:
    before = stored_owner(store, state)
    held = claimed_to_rewrite(store, before)
    assert store.load_own(held.owner, ["a"])["a"].data == b"old"
    store.save_own(held, before.begun, {"a": SavedRow(b"new", None)}, {})
    assert (data_of(store, "a"), data_of(store, "b")) == (b"new", b"other")
    after = store.owner(before.owner)
    assert after is not None
    assert replace(after, epoch=before.epoch, holder=before.holder) == before, "nothing else has changed"
    assert (after.last_claim, after.rewriter) == ((before.epoch, before.holder), "rewriter")
    again = claimed_to_rewrite(store, after, "another")
    with pytest.raises(OwnerFenced):
        store.save_own(held, before.begun, {"b": SavedRow(b"late", None)}, {})
    with pytest.raises(OwnerFenced):
        store.save_own(again, before.begun + 1, {"b": SavedRow(b"of another flush", None)}, {})
    assert not store.begin(again, before.begun, before.begun + 1, 0), "no flush begins"
    stored = store.owner(before.owner)
    assert stored is not None and stored.last_claim == (before.epoch, before.holder)
    assert data_of(store, "b") == b"other"


def test_the_owner_itself_writes_no_more_rows(store: Store) -> None:
    before = stored_owner(store, RETIRED)
    with pytest.raises(OwnerFenced):
        store.save_own(
            Held(before.owner, before.epoch, before.holder), before.begun, {"a": SavedRow(b"late", None)}, {}
        )
    held = claimed_to_rewrite(store, before)
    with pytest.raises(OwnerFenced):
        store.save_own(replace(held, rewrites=False), before.begun, {"a": SavedRow(b"late", None)}, {})
    assert data_of(store, "a") == b"old"


def test_an_open_owner_is_not_claimed_to_rewrite(store: Store) -> None:
    held = in_flush(store)
    before = store.owner(held.owner)
    assert before is not None
    assert not store.claim(before, before.rewritten_by("rewriter"), rewrites=True)
    assert not store.claim(record(7, state=CLOSED), record(7, state=CLOSED).rewritten_by("rewriter"), rewrites=True)
    with pytest.raises(OwnerFenced):
        store.save_own(replace(held, rewrites=True), 1, {"a": SavedRow(b"x", None)}, {})
    store.save_own(held, 1, {"a": SavedRow(b"x", None)}, {})


def test_a_journal_claims_an_owner_whose_rows_were_rewritten(store: Store) -> None:
    before = stored_owner(store, CLOSED)
    held = claimed_to_rewrite(store, before)
    rewritten = store.owner(before.owner)
    assert rewritten is not None
    assert not store.claim(before, replace(before, state=OPEN, epoch=before.epoch + 1, holder="journal"))
    after = replace(rewritten, state=OPEN, epoch=rewritten.epoch + 1, holder="journal")
    assert store.claim(rewritten, after)
    with pytest.raises(OwnerFenced):
        store.save_own(held, before.begun, {"a": SavedRow(b"late", None)}, {})
    assert data_of(store, "a") == b"old"


def test_bytes_are_forgotten_and_rows_stay(store: Store) -> None:
    before = stored_owner(store, CLOSED)
    store.note("name", "value")
    store.forget_bytes()
    assert (data_of(store, "a"), data_of(store, "b"), store.noted("name")) == (b"old", b"other", "value")
    assert store.owner(before.owner) == before
