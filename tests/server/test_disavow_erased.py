"""A link is deleted while a rule calls its hits bots, or calls them back: at each moment, one half before the other."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection
from contextlib import nullcontext
from functools import partial
from itertools import chain, combinations_with_replacement
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.breakdowns.disavow import Correction
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import breakdown_of, moved_key
from ingest.corrections import Corrector
from storage.contract import Store
from storage.tools.verify import verify
from tests.ingest.test_corrections import START
from tests.power import at
from tests.server.test_disavow_many import FINE, SPAM, Told, rule_of
from tests.simulated.mutants import Switched, call_nothing_back, read_moment_last, replaced

LINK, CALLED = "a", moved_key("a")
CALLS = {False: 7, True: 11}  # of Watched, in a rule that is carried out, and in one that is undone
BEHIND_US, AHEAD_US = START * 1_000_000 - 500_000, START * 1_000_000 + 500_000
KEYS = {LINK, CALLED, breakdown_of(LINK), breakdown_of(CALLED)}


class Watched:
    """Does something before the n-th call of a store that reads or saves the link, or what is called of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls = 0
        self.before: dict[int, list[Callable[[], None]]] = {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name not in ("rows", "load_own", "save_own"):
            return real

        def call(*args: Any) -> Any:
            given = [each for each in args if isinstance(each, Collection) and not isinstance(each, str)]
            if any(key in (*args, *chain.from_iterable(given)) for key in KEYS):
                self.calls += 1
                for do in self.before.pop(self.calls, []):
                    do()
            return real(*args)

        async def read(*args: Any) -> Any:
            return await call(*args)

        return read if inspect.iscoroutinefunction(real) else call

    def end(self) -> None:
        """Does what no call came for."""
        for number in sorted(self.before):
            for do in self.before.pop(number):
                do()


class Deleted:
    """A link with hits that a rule calls bots, and a deletion, whose halves come at two calls of the store."""

    def __init__(self, folder: Path) -> None:
        self.told = Told(folder, 1)
        self.watched = self.told.nodes.store._store = Watched(self.told.nodes.memory)

    async def begin(self, undo: bool) -> None:
        """Leaves it to the first server alone to carry the rule out, or to undo it."""
        told = self.told
        await told.hit(1, LINK, SPAM, 10)
        await told.hit(1, LINK, FINE, 3)
        await told.flush()
        await told.servers[0].corrector.carry_out(LINK, lambda link: Correction())
        self.rule = await told.note(rule_of(None, LINK))
        await told.servers[1].refresh()
        if undo:
            await told.settle()
            await asyncio.to_thread(told.servers[0].book.undo, self.rule.id)

    def before(self, moment: int, key: str, at_us: int) -> None:
        """Has a row erased before the n-th call from now on."""
        erase = partial(self.told.nodes.memory.erase, [key], at_us)
        self.watched.before.setdefault(self.watched.calls + moment, []).append(erase)

    async def carry_out(self) -> None:
        """Lets the first server follow the store, until what is to come has come and all is settled."""
        await self.told.servers[0].refresh()
        self.watched.end()
        await self.told.settle()

    async def judge(self) -> None:
        """Hits of afterwards are called once and called back, as if nothing had been before."""
        told = self.told
        told.nodes.now += 10
        await told.hit(1, LINK, FINE, 4)
        await told.hit(1, LINK, SPAM, 2)
        await told.flush()
        assert await told.left(LINK) == 6
        for _ in range(2):
            await told.note(self.rule)
            await told.settle()
            assert await told.left(LINK) == 4, "twice is once"
        await asyncio.to_thread(told.servers[0].book.undo, self.rule.id)
        await told.settle()
        assert await told.left(LINK) == 6
        assert verify(told.nodes.memory, CLICKS).broken == []


@pytest.mark.parametrize("undo", [False, True], ids=["call", "undo"])
async def test_whenever_a_link_is_deleted_nothing_is_left_called_of_it(undo: bool, tmp_path: Path) -> None:
    """Both halves at once also by a clock that is ahead."""
    calls = range(1, CALLS[undo] + 2)
    pairs = [(pair, BEHIND_US) for pair in combinations_with_replacement(calls, 2)]
    for pair, at_us in [*pairs, *(((call, call), AHEAD_US) for call in calls)][:: at(quick=4, full=1)]:
        deleted = Deleted(tmp_path / f"{pair}, {at_us}")
        await deleted.begin(undo)
        for moment, key in zip(pair, (LINK, CALLED), strict=True):
            deleted.before(moment, key, at_us)
        await deleted.carry_out()
        try:
            await deleted.judge()
        except AssertionError as error:
            error.add_note(f"the link before call {pair[0]}, what is called of it before call {pair[1]}, at {at_us}")
            raise
        await deleted.told.close()


@pytest.mark.parametrize(
    ("undo", "pair", "order", "off"),
    [
        (False, (1, 5), (CALLED, LINK), nullcontext),
        (True, (2, 4), (LINK, CALLED), lambda: replaced(Corrector, "_joined", read_moment_last)),
        (False, (5, 5), (LINK, CALLED), lambda: replaced(Corrector, "_call_back_erased", call_nothing_back)),
    ],
    ids=["what is called goes first", "moment of the last answer", "nothing is called back"],
)
async def test_a_rule_of_deletions_that_is_left_out_is_noticed(
    undo: bool, pair: tuple[int, int], order: tuple[str, str], off: Callable[[], Switched], tmp_path: Path
) -> None:
    deleted = Deleted(tmp_path)
    await deleted.begin(undo)
    for moment, key in zip(pair, order, strict=True):
        deleted.before(moment, key, BEHIND_US)
    with off():
        await deleted.carry_out()
    with pytest.raises(AssertionError):
        await deleted.judge()
    await deleted.told.close()
