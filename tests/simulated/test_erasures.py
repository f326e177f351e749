"""A value is erased on the simulated cluster, whatever happens meanwhile: no total changes, and no row has it then.

Machines erase it and look for what is to do in histories with lost and late messages, kills, journals copied and put
back, owners closed, retired and taken over. At the end the owners of lost machines are retired, and all is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pytest

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.codec import decode_header
from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.keys import ALL_LINKS, breakdown_key, breakdown_of
from server.corrections.erasing import Erasing
from server.tokens.audit import AuditLog
from storage.contract import OPEN, RETIRED
from storage.erased_words import ErasureBook, KnownWords
from storage.erasing import Eraser
from tests.audit.journals import Wrong
from tests.power import at
from tests.simulated.cells import absorb
from tests.simulated.cluster import ROWS, Faults
from tests.simulated.connection import Connection
from tests.simulated.history import History, Plot
from tests.simulated.judgement import PAIRS, finish, stored_link
from tests.simulated.machine import Process
from tests.simulated.product import history_of, make_cluster, open_store, tell

SEEDS = at(quick=16, full=40)
ERASED = "ref", "r1.example"
ROUNDS = 60
MUTANT_SEEDS = 10
PLOT = Plot(steps=120, weights={"erase_value": 2.0, "look": 10.0, "retire": 0.6, "lose_machine": 0.6})


async def nothing(*_: object) -> None:
    """Reads no rules, and makes no pause."""


class ErasingProcess(Process):
    """A process whose owner knows what must be forgotten, and that erases it."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.book = ErasureBook(self.store)
        clock = self.machine.clock
        self.owner._erased_words = partial(KnownWords(self.book).read, clock)
        audit = AuditLog(self.store, clock)
        self.erasing = Erasing(self.owner, self.store, BREAKDOWN, audit, clock, True, list, nothing, nothing)


class ErasingHistory(History):
    process_class: ClassVar[type[Process]] = ErasingProcess
    erased: ClassVar[Mapping[str, str]] = dict([ERASED])
    lost: frozenset[int] = frozenset()

    async def erase_value(self) -> None:
        if process := self._any():
            self.spawn(process, self.erase_value_at)

    async def erase_value_at(self, process: Process) -> None:
        assert isinstance(process, ErasingProcess)
        self.note(process, "erases a value")
        now = int(process.machine.clock())

        def add() -> None:
            process.book.add(process.book.meant(*ERASED, None, now))

        with suppress(StoreUnavailable):
            await self.stage.in_thread(process.life, add)
            self.counted["values erased"] += 1

    async def look(self) -> None:
        if (process := self._any()) and not process.closing:
            if self.rnd.random() < 0.2:
                self._let_fail(process)
            self.spawn(process, self.look_at)

    async def look_at(self, process: Process) -> None:
        assert isinstance(process, ErasingProcess)
        self.note(process, "looks")
        await process.erasing.refresh()
        self.counted["looks"] += 1

    async def end(self) -> None:
        """Retires the owners whose machines are lost, and has everybody look until it is done."""
        nobody = self.stage.nobody
        store = self.open_store(Connection(self.cluster, nobody, 64), lambda: self.now)
        book = ErasureBook(store)
        alive = {machine.identity().owner for machine in self.machines}
        for record in self.records():
            if record.state == OPEN and record.owner not in alive:
                await self.stage.in_thread(nobody, partial(store.claim, record, replace(record, state=RETIRED)))
        self.lost = self._lost_in_mid_flush()
        last = self.machines[0].process
        assert last is not None
        self.spawn(last, self.erase_value_at)
        await finish(self, last)
        for _ in range(ROUNDS):
            self.now += 4_000  # a rewriter that died is waited for
            for machine in self.machines:
                assert machine.process is not None
                self.spawn(machine.process, self.look_at)
                await finish(self, machine.process)
            self.check()
            if all(each.done_at is not None for each in await self.stage.in_thread(nobody, book.all)):
                return
        waiting = [book.waiting(each) for each in await self.stage.in_thread(nobody, book.all)]
        raise Wrong(f"the erasure does not end; it waits for {waiting}")

    def _lost_in_mid_flush(self) -> frozenset[int]:
        """Retired owners of whose last flush some replicas know nothing.

        What reached one replica only is brought up by a later read, perhaps after the walk: the docs say so.
        """
        rows = [{row.owner: row for row in stored_link(self, pair, ALL_LINKS).rows} for pair in PAIRS]
        return frozenset(
            record.owner
            for record in self.records()
            if record.state == RETIRED
            and any(record.owner not in pair or mark_of(pair[record.owner].data) < record.begun for pair in rows)
        )

    def judge_rows(self) -> None:
        """No two replicas show the value, whichever they are."""
        for key in (breakdown_of(ALL_LINKS), *map(breakdown_key, self.auditor.by_key)):
            for pair in PAIRS:
                if wrong := self._owners_with_value(pair, key) - self.lost:
                    raise Wrong(f"replicas {pair}: rows of {key!r} have the value, of the owners {wrong}")

    def _owners_with_value(self, pair: tuple[int, int], key: str) -> set[int]:
        found = set()
        for row in stored_link(self, pair, key).rows:
            tiers = decode_parts(separate_parts(row.data)).dimensions.get(ERASED[0], ())
            if any(ERASED[1] in counts.values for tier in tiers for _, counts in tier.items()):
                found.add(row.owner)
        return found


def mark_of(row: bytes) -> int:
    return decode_header(row).mark


def told(seed: int) -> ErasingHistory:
    history = history_of(seed, PLOT, ErasingHistory)
    assert isinstance(history, ErasingHistory)
    try:
        tell(history)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    return history


@pytest.mark.parametrize("first", range(0, SEEDS, 8))
def test_an_erased_value_is_in_no_row_and_totals_are_as_before(first: int) -> None:
    counted: Counter[str] = Counter()
    for seed in range(first, first + 8):
        counted.update(told(seed).counted)
    print(f"seeds {first} to {first + 7}: {dict(counted)}")
    assert counted["looks"] > 24 and counted["values erased"] > 8


async def erased(history: ErasingHistory, process: Process) -> None:
    """Sends the erasure, and looks until it is done."""
    assert isinstance(process, ErasingProcess)
    history.spawn(process, history.erase_value_at)
    await finish(history, process)
    for _ in range(ROUNDS):
        history.now += 60
        history.spawn(process, history.look_at)
        await finish(history, process)
        history.check()
        if all(each.done_at is not None for each in await history.stage.in_thread(process.life, process.book.all)):
            return
    raise Wrong("the erasure does not end")


async def lost_at_one_replica(history: ErasingHistory) -> None:
    history.cluster.faults = Faults(repair=False)
    lost, other = history.add_machine(), history.add_machine()
    assert lost.process is not None and other.process is not None
    for _ in range(2):  # the second one has the value
        history.spawn(lost.process, history.send_to, history.auditor.batch(["a"], None, history.now))
    await finish(history, lost.process)
    history.spawn(lost.process, history.flush_at)
    await finish(history, lost.process)
    owner, replicas = lost.identity().owner, [replica[ROWS] for replica in history.cluster.replicas]
    for rows in replicas[:2]:
        rows.clear()  # as if the flush had ended when one replica had heard of it
    await history.retire_machine(lost)
    await history.lose(lost)
    history.cluster.down.add(2)
    await erased(history, other.process)
    history.cluster.down.clear()
    assert history._owners_with_value((0, 2), breakdown_key("a")) == {owner}, "this is what the docs say of it"

    for rows in replicas[:2]:
        absorb(rows, replicas[2])  # nodetool repair
    await erased(history, other.process)
    assert not any(history._owners_with_value(pair, breakdown_key("a")) for pair in PAIRS)
    await history.bury(other)


def test_what_one_replica_alone_has_of_a_lost_owner_is_erased_after_a_repair() -> None:
    history = ErasingHistory(0, Plot(), open_store, make_cluster)
    with history.stage.running() as loop:
        loop.run_until_complete(lost_at_one_replica(history))


async def no_claims(self: Erasing, erasure: object) -> dict[int, object]:
    return {}


def first_page(self: Eraser, *given: Any) -> Any:
    return PAGE(self, *given)._replace(last=None)


PAGE = Eraser.page
MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "owners are not waited for": (ErasureBook, "waiting", lambda self, erasure: []),
    "owners that are not open are left out": (Erasing, "_claimed_writers", no_claims),
    "only the first page is looked at": (Eraser, "page", first_page),
}


@pytest.mark.parametrize(("place", "name", "by"), MUTANTS.values(), ids=MUTANTS)
def test_a_fault_of_the_protocol_is_found(place: Any, name: str, by: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.erasing.ROWS_PER_PAGE", 2)
    monkeypatch.setattr(place, name, by)
    for seed in range(MUTANT_SEEDS):
        try:
            told(seed)
        except Exception:
            return
    pytest.fail(f"{MUTANT_SEEDS} histories found nothing")
