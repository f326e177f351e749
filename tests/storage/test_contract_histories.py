"""Every store: any history leaves what it leaves in the memory store, the model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from clickcurve.buckets.errors import OwnerFenced
from storage.contract import Held, SavedRow, Source, Store
from storage.memory_store import MemoryStore
from tests.storage.stores import record


@pytest.mark.parametrize("seed", range(4))
def test_any_history_leaves_what_it_leaves_in_memory(store: Store, seed: int) -> None:
    """The memory store is the model: every call gives the same answer, or the same error, and the end is the same."""
    model, rnd = MemoryStore(), random.Random(seed)
    for _ in range(200):
        call = random_call(rnd)
        answers = []
        for either in (model, store):
            try:
                answers.append(call(either))
            except OwnerFenced as error:
                answers.append(str(error))
        assert answers[0] == answers[1]
    assert sorted(store.walk(None, 1_000)) == model.walk(None, 1_000)
    assert store.owners() == model.owners()


def _claim(store: Store, owner: int, begun: int) -> bool:
    """What was stored, or what it was an epoch ago, is replaced: epochs only rise."""
    stored = store.owner(owner) or record(owner)
    before = stored if begun else replace(stored, epoch=stored.epoch - 1)
    return store.claim(before, record(owner, stored.epoch + 1, f"h{stored.epoch + 1}", begun=begun))


def random_call(rnd: random.Random) -> Callable[[Store], object]:
    owner, epoch, flush = rnd.randint(1, 2), rnd.choice([1, 1, 1, 2]), rnd.randint(1, 3)
    held = Held(owner, epoch, f"h{epoch}")
    key, source, id_ = rnd.choice("abc"), rnd.choice("st"), rnd.choice("xyz")
    at, previous, day = rnd.randint(0, 100), rnd.randint(0, 3), rnd.choice([None, 1, 2])
    data = rnd.randbytes(3)

    async def link(store: Store) -> object:
        return await store.rows(key), await store.claimed([id_], at)

    calls: list[Callable[[Store], object]] = [
        lambda store: store.create_owner(record(owner)),
        lambda store: _claim(store, owner, previous),
        lambda store: store.begin(held, previous, flush, at),
        lambda store: store.begin(held, previous, flush, at),
        lambda store: store.begin(held, previous, flush, at),
        lambda store: at < 10 and store.close_owner(held),
        lambda store: store.claim_ids(held, flush, {id_: at, "w": at}, 20),
        lambda store: store.save_own(held, flush, {key: SavedRow(data, day)}, {source: Source(owner, at, "t")}),
        lambda store: store.save_own(held, flush, {key: SavedRow(data, day)}, {}),
        lambda store: store.erase([key], at),
        lambda store: store.claim_source(source, held, store.source(source)),
        lambda store: store.claim_source(source, held, Source(owner, at, "t", epoch)),
        lambda store: store.load_own(owner, ["a", "b"]),
        lambda store: asyncio.run(link(store)),
    ]
    return rnd.choice(calls)
