"""Random histories of processes whose journals lie in the simulated cluster: owners taken, adopted, fenced, given back.

What may happen: groups of hits that say something, some with ids, which are sent again; pieces of imports, at any
process; links erased; flushes whose n-th call fails, ends the process or puts it to sleep; kills, pauses, clean stops,
starts; owners taken from processes that are gone, or that live; nodes down; and every fault of a network.

Laws: a group that was answered counts once, one that was refused never, one of unknown outcome at most once and whole.
Breakdowns are those of the totals, and all links together the sum of the links, unless some were erased. Owners are at
most as many as processes ever ran at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, merge_breakdowns
from clickcurve.buckets.errors import ClickcurveError, JournalDamaged, JournalUnknown, OwnerFenced, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.measures import measures_of
from clickcurve.keys import ALL_LINKS, link_key
from ingest.flush import Pace
from ingest.journal.cluster_journal import ClusterJournal, make_journal, take_journal
from ingest.journal.taking import Choice, Make, Take, choose_identity, has_lost, process_of, to_adopt
from ingest.owner import Owner
from query.reader import stored
from storage.contract import OwnerRecord, Store
from storage.journals import JournalRecord
from tests.audit.attributes import SALE, SALE_VALUE, batch_of, judge_words, values_of
from tests.audit.auditor import Auditor, Outcome, Sent
from tests.audit.journals import Wrong
from tests.ingest.journal.faulty_disk import Stopped
from tests.ingest.owner_kit import minute_of
from tests.simulated.cluster import REPLICAS
from tests.simulated.connection import Connection, Fault
from tests.simulated.frames_imports import Imports
from tests.simulated.history import Plot
from tests.simulated.judgement import stored_breakdowns, stored_link
from tests.simulated.product import make_cluster, open_store
from tests.simulated.simulation import START
from tests.simulated.stage import Stage

PROCESSES_AT_MOST = 4
PAIRS = ((0, 1), (0, 2), (1, 2))
PATIENCE = 2_000
ROUNDS = 60

USUAL = {
    "post": 40.0, "flush": 10.0, "faulty_flush": 4.0, "kill": 4.0, "start": 8.0, "pause": 3.0, "wake": 4.0,
    "close": 2.0, "adopt": 6.0, "node_down": 1.0, "node_up": 2.0, "fault": 3.0,
    "again": 0.0, "erase": 0.0, "import_piece": 0.0,
}  # fmt: skip

REPEATING = Plot(steps=110, weights={"again": 5.0, "erase": 1.5})  # with ids, and links erased
IMPORTING = Plot(steps=110, weights={"post": 12.0, "import_piece": 30.0, "adopt": 6.0})
SELLING = Plot(steps=90, weights={"again": 5.0}, sells=True)


class Process:
    """One run of the program. owner: its own, once it has one; adopting: those that it empties."""

    def __init__(self, history: FramesHistory, name: str) -> None:
        self.life = history.stage.life(name)
        self.connection = Connection(history.cluster, self.life, history.rnd.choice([1, 3, 64]))
        self.store: Store = open_store(self.connection, history.clock)
        self.owner: Owner | None = None
        self.journal: ClusterJournal | None = None
        self.tried: Choice | None = None  # to take or to make it had no answer
        self.adopting: set[int] = set()
        self.fenced = self.closing = False
        self.flushing = 0  # flushes under way
        self._tokens = 0

    def token(self) -> str:
        self._tokens += 1
        return f"{self.life.name}.{self._tokens}"

    def thread(self, history: FramesHistory, call: Callable[[], Any]) -> asyncio.Future[Any]:
        return history.stage.in_thread(self.life, call)


class FramesHistory:
    """One history. `tell` it once; raises Wrong, or whatever else the program must not raise.

    wrongly: how likely a process that lives is taken for dead. Half of the histories are duels: then it always is.
    """

    def __init__(self, seed: int, plot: Plot) -> None:
        self.rnd = Random(seed)
        self.plot = plot
        self.now = float(START + self.rnd.randrange(86_400))
        self.stage = Stage(self.rnd, self.rnd.choice([0.005, 0.02, 0.1]))
        self.stage.journals_block = True
        self.cluster = make_cluster(self.stage, self.clock)
        self.cluster.faults = replace(
            plot.faults(self.rnd), repair=True
        )  # as the tables have it, and as frames need it
        self.auditor: Auditor[Sent] = Auditor()
        self.links = [f"link {n}" for n in range(plot.links)]
        self.partly_erased: set[str] = set()
        self.repeatable: list[tuple[Sent, str]] = []
        self.processes: list[Process] = []
        self.wrong: list[BaseException] = []
        self.counted: Counter[str] = Counter()
        self.duel = self.rnd.random() < 0.5
        self.wrongly = 1.0 if self.duel else self.rnd.choice([0.02, 0.2])
        self.most_at_once = 0
        self.is_calm = False
        weights = {**USUAL, **({"adopt": 20.0, "pause": 6.0, "kill": 1.0} if self.duel else {}), **plot.weights}
        self.repeats = weights["again"] > 0
        self.imports = Imports(self.counted)
        self._actions = [getattr(self, name) for name in weights]
        self._weights = list(weights.values())
        self._started = 0

    def clock(self) -> float:
        return self.now

    def tell(self) -> None:
        with self.stage.running() as loop:
            loop.run_until_complete(self._tell())

    def check(self) -> None:
        for error in (*self.cluster.refused, *self.wrong, *self.stage.broken):
            raise error

    async def _tell(self) -> None:
        await self.start()
        await self.start()
        for _ in range(self.plot.steps):
            action = self.rnd.choices(self._actions, self._weights)[0]
            self.stage.note("---", action.__name__)
            await action()
            await self.stage.pass_turns(self.rnd.randint(0, self.plot.turns))
            await self._tend()
            self.check()
        await self._judge()

    async def _tend(self) -> None:
        """Processes that died or were fenced are gone; one that accepts nothing before a flush begins one."""
        for process in self._serving():
            if process.journal is not None and process.journal.must_flush and not process.flushing:
                self._spawn(process, self._flush)
        for process in list(self.processes):
            if not process.life.alive or (process.fenced and self.rnd.random() < 0.5):
                await self._bury(process)

    async def _bury(self, process: Process) -> None:
        self.stage.note(process.life.name, "is buried")
        self.processes.remove(process)
        await self.stage.bury(process.life)

    def _spawn(self, process: Process, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        async def watched() -> None:
            try:
                await work(process, *args)
            except (Stopped, asyncio.CancelledError):
                raise
            except BaseException as error:
                self.wrong.append(error)

        self.stage.spawn(process.life, watched())

    def _awake(self) -> list[Process]:
        return [each for each in self.processes if each.life.alive and not each.life.paused]

    def _serving(self) -> list[Process]:
        return [each for each in self._awake() if each.owner is not None and not each.fenced and not each.closing]

    # --- what a process does ----------------------------------------------------------------------------------------
    def _owner(self, process: Process, store: Store, journal: ClusterJournal) -> Owner:
        return Owner(
            journal=journal,
            store=store,
            clock=self.clock,
            token=process.token,
            pace=Pace(lambda: 0.0, 15.0, lambda: False),
            place=process.life.name,
            alone=False,
        )

    def _dead(self, records: list[JournalRecord]) -> set[str]:
        """The verdicts of rounds, right ones and wrong ones."""
        alive = {each.life.name for each in self.processes if each.life.alive and not each.life.paused}
        holders = sorted({process_of(each.record.holder) for each in records})
        unsure = 0.0 if self.is_calm else self.wrongly / (2 if self.duel else 10)
        return {name for name in holders if name not in alive or self.rnd.random() < unsure}

    async def _start(self, process: Process) -> None:
        """Takes an identity, however often that must be tried; then flushes, as the program does."""
        while process.journal is None:
            with suppress(StoreUnavailable, OwnerFenced):
                process.journal = await self._identity(process)
            if process.journal is None:
                await self.stage.pass_turns(self.rnd.randint(1, 30))
        process.owner = self._owner(process, process.store, process.journal)
        await self._flush(process)

    async def _identity(self, process: Process) -> ClusterJournal | None:
        store, name, token = process.store, process.life.name, process.token()
        numbers = [each.owner for each in await process.thread(self, store.owners)]
        records = await process.thread(self, store.journals().records)
        choice = choose_identity(records, numbers, self._dead(records), name, process.tried)
        self.stage.note(name, "chooses", choice)
        process.tried = choice
        made: ClusterJournal | None = None
        if isinstance(choice, Take):
            take = partial(take_journal, store, choice.before, token, name, self.clock, self.clock, False)
            made = await process.thread(self, take)
            self.counted["taken"] += made is not None
        elif isinstance(choice, Make):
            make = partial(make_journal, store, choice.owner, token, name, self.clock, self.clock)
            made = await process.thread(self, make)
        process.tried = None
        return made

    async def _flush(self, process: Process) -> None:
        assert process.owner is not None
        process.flushing += 1
        try:
            await process.owner.flush()
            self.counted["flushes"] += 1
        except OwnerFenced:
            process.fenced = True
            self.counted["fenced"] += 1
        except JournalDamaged:
            raise
        except ClickcurveError:
            self.counted["failed flushes"] += 1
        finally:
            process.flushing -= 1

    async def _post(self, process: Process, sent: Sent, id_: str | None) -> None:
        assert process.owner is not None
        one = self.auditor.begin(sent)
        outcome = Outcome.unknown
        try:
            await process.owner.accept(batch_of(sent, minute_of(self.now), id_, self.plot.sells))
            outcome = Outcome.acknowledged
        except (JournalUnknown, Stopped, asyncio.CancelledError) as error:
            if not isinstance(error, JournalUnknown):
                raise
        except ClickcurveError:
            outcome = Outcome.refused
        finally:
            self.auditor.end(one, outcome)
            self.counted[outcome.name] += 1
            self.stage.note(process.life.name, outcome.name, sent.counts)

    async def _import(self, process: Process) -> None:
        assert process.owner is not None
        with suppress(ClickcurveError):
            await self.imports.piece(process.owner, minute_of(self.now))

    async def _erase(self, process: Process, link: str) -> None:
        """Erases a link. What was under way meanwhile, or may be sent again, may count or not.

        One without an answer may come at any time, for all that the link is sent.
        """
        assert process.owner is not None
        self.now += 1  # so that it comes after all stamps so far
        before = {sent for sent in self.auditor.by_key[link] if not sent.under_way and not sent.repeatable}
        self.counted["erasures"] += 1
        is_done = False
        try:
            await process.owner.erase(link_key(link))
            is_done = True
        except ClickcurveError:
            pass
        finally:
            self.now += 1
            for sent in self.auditor.by_key[link]:
                if sent.erased.get(link) != "gone":
                    sent.erased[link] = "gone" if is_done and sent in before else "perhaps"
            if not is_done:
                self.partly_erased.add(link)
            self.stage.note(process.life.name, "erased" if is_done else "perhaps erased", link)

    async def _close(self, process: Process) -> None:
        assert process.owner is not None
        process.closing = True
        with suppress(ClickcurveError):
            await process.owner.close()
            self.counted["closed"] += 1
        process.life.alive = False

    async def _adopt(self, process: Process, before: JournalRecord) -> None:
        """Empties a journal and closes its owner, beside the process's own."""
        number, name = before.record.owner, process.life.name
        # Of its own: a thread that waits for the cluster would keep the other from a lock of the store.
        store = open_store(process.connection, self.clock)
        try:
            take = partial(take_journal, store, before, process.token(), name, self.clock, self.clock, True)
            journal = await process.thread(self, take)
            if journal is not None:
                self.counted["adopted"] += 1
                await self._owner(process, store, journal).close()
        except JournalDamaged:
            raise
        except ClickcurveError:
            self.counted["failed adoptions"] += 1
        finally:
            process.adopting.discard(number)

    # --- what happens -----------------------------------------------------------------------------------------------
    async def start(self) -> None:
        if len(self.processes) < PROCESSES_AT_MOST:
            self._started += 1
            process = Process(self, f"process {self._started}")
            self.processes.append(process)
            self.most_at_once = max(self.most_at_once, len(self.processes))
            if self.rnd.random() < 0.2 and not self.is_calm:
                self._let_fail(process)
            self._spawn(process, self._start)

    async def post(self) -> None:
        if serving := self._serving():
            for n, link in enumerate(self.links):
                if not self.auditor.has_room(link):
                    self.links[n] = f"link {len(self.auditor.by_key)}, {n}"
            links = self.rnd.sample(self.links, self.rnd.randint(1, len(self.links)))
            has_id = self.repeats and self.rnd.random() < self.plot.ids
            id_ = f"id {len(self.auditor.sent)}" if has_id else None
            sent = self.auditor.enter(Sent(self.auditor.next_hits(links), repeatable=id_ is not None))
            if id_ is not None:
                self.repeatable.append((sent, id_))
            self._spawn(self.rnd.choice(serving), self._post, sent, id_)

    async def again(self) -> None:
        """A client sends a group with an id once more, to any process."""
        serving = self._serving()
        if serving and self.repeatable:
            self.counted["repeats"] += 1
            self._spawn(self.rnd.choice(serving), self._post, *self.rnd.choice(self.repeatable[-10:]))

    async def import_piece(self) -> None:
        """One client, or two at once, sends the next piece of an import to some process."""
        serving = self._serving()
        if keepers := [each for each in serving if each.owner is self.imports.keeper and self.rnd.random() < 0.6]:
            serving = keepers
        for process in self.rnd.sample(serving, min(len(serving), self.rnd.choice([1, 1, 2]))):
            self._spawn(process, self._import)

    async def erase(self) -> None:
        if serving := self._serving():
            self._spawn(self.rnd.choice(serving), self._erase, self.rnd.choice(self.links))

    async def flush(self) -> None:
        if serving := self._serving():
            process = self.rnd.choice(serving)
            self._spawn(process, self._flush)

    async def faulty_flush(self) -> None:
        if serving := self._serving():
            process = self.rnd.choice(serving)
            self._let_fail(process)
            self._spawn(process, self._flush)

    async def fault(self) -> None:
        if awake := self._awake():
            self._let_fail(self.rnd.choice(awake))

    def _let_fail(self, process: Process) -> None:
        fault = Fault(self.rnd.choice(["before", "half", "after"]), self.rnd.choice(["fail", "kill", "pause"]))
        process.connection.fault_at[process.connection.calls + self.rnd.randint(1, 16)] = fault

    async def kill(self) -> None:
        if self.processes:
            await self._bury(self.rnd.choice(self.processes))

    async def pause(self) -> None:
        if awake := self._awake():
            self.rnd.choice(awake).life.paused = True

    async def wake(self) -> None:
        if asleep := [each for each in self.processes if each.life.paused]:
            self.stage.resume(self.rnd.choice(asleep).life)

    async def close(self) -> None:
        if serving := self._serving():
            process = self.rnd.choice(serving)
            self._spawn(process, self._close)

    async def adopt(self) -> None:
        """One process, or two at once, takes an owner that it takes to be dead."""
        serving = self._serving()
        for process in self.rnd.sample(serving, min(len(serving), self.rnd.choice([1, 2]))):
            await self._look_for_dead(process)

    async def _look_for_dead(self, process: Process) -> None:
        assert process.journal is not None
        found = [self._record(number) for number in self._numbers()]
        records = [each for each in found if each is not None]
        if has_lost(records, process.journal.held):
            process.fenced = True
            return
        in_hand = {process.journal.held.owner, *process.adopting}
        dead = self._dead(records) - {process.life.name}
        if free := to_adopt(records, dead, process.life.name, in_hand):
            process.adopting.add(free[0].record.owner)
            self._spawn(process, self._adopt, free[0])

    def _numbers(self) -> list[int]:
        return sorted(key[0] for key in self.cluster.everything("owners"))  # type: ignore[misc]

    def _record(self, number: int) -> JournalRecord | None:
        """The record as it is at this moment."""
        columns = dict(self.cluster.everything("owners").get((number,), {}))
        if not columns:
            return None
        extra = {name: columns.pop(name) for name in ("previous", "fold_day", "frames", "done") if name in columns}
        return JournalRecord(OwnerRecord(number, **columns), **extra)  # type: ignore[arg-type]

    async def node_down(self) -> None:
        self.cluster.down.add(self.rnd.randrange(REPLICAS))

    async def node_up(self) -> None:
        if self.cluster.down:
            self.cluster.down.remove(self.rnd.choice(sorted(self.cluster.down)))

    # --- the end ----------------------------------------------------------------------------------------------------
    async def _judge(self) -> None:
        """The cluster heals, all wake; then everything is adopted and flushed, and what was late arrives."""
        self.is_calm = True
        self.cluster.faults = self.cluster.faults.none()
        self.cluster.down.clear()
        for _ in range(ROUNDS):
            for process in list(self.processes):
                process.connection.fault_at.clear()
                await self._finish(process)
                if process.fenced or not process.life.alive:
                    await self._bury(process)
            self.check()
            serving = self._serving()
            if not serving:
                await self.start()
                await self.stage.pass_turns(200)
                continue
            for process in serving:
                self._spawn(process, self._flush)
                await self._finish(process)
            self.check()
            if not any([await self._adopt_rest(process) for process in self._serving()]) and self._serving():
                break
        else:
            raise Wrong(f"not everything could be flushed in {ROUNDS} rounds")
        self._judge_totals("the end")
        while self.stage.late:
            self.stage.late.pop(self.rnd.randrange(len(self.stage.late)))()
        await self.stage.pass_turns(200)
        self._judge_totals("the end, when all that was late has come")
        if len(self._numbers()) > self.most_at_once:
            raise Wrong(f"{len(self._numbers())} owners, and {self.most_at_once} processes ran at once at most")
        self.check()

    async def _adopt_rest(self, process: Process) -> bool:
        """Whether there was anything left: owners that nobody holds, starts under way, or hits of the living."""
        if process.fenced or not process.life.alive:
            return True
        await self._look_for_dead(process)
        adopts = bool(process.adopting) or process.fenced
        await self._finish(process)
        left = any(any(each.owner.buffered_links()) for each in self._serving() if each.owner)
        return adopts or left or len(self._serving()) < len(self.processes)

    async def _finish(self, process: Process) -> None:
        """Until it has ended all that it does, or has died. One that starts may wait for others."""
        for _ in range(PATIENCE):
            self.stage.resume(process.life)
            if not process.life.tasks or not process.life.alive:
                return
            await self.stage.pass_turns(50)
            if process.owner is None:
                return
        raise Wrong(f"{process.life.name} does not come to an end")

    def _judge_totals(self, what: str) -> None:
        for link in self.partly_erased:
            for sent in self.auditor.by_key[link]:
                sent.erased.setdefault(link, "perhaps")
        for pair in PAIRS:
            totals = {link: self._total(pair, link_key(link)) for link in list(self.auditor.by_key)}
            if wrong := self.auditor.judge(totals):
                raise Wrong(f"{what}, replicas {pair}", *wrong)
            for sent in self.auditor.sent:
                times = {totals[hit.key] // hit.count % 4 for hit in sent.hits if hit.key not in sent.erased}
                if len(times) > 1:
                    raise Wrong(f"{what}, replicas {pair}: {sent.counts} counts in part")
            for link, total in totals.items():
                rows = stored_breakdowns(self, what, pair, link)
                if wrong := judge_words(f"{what}, {link}", total, values_of(merge_breakdowns(rows, 0, BREAKDOWN))):
                    raise Wrong(f"{what}, replicas {pair}", *wrong)
                if self.plot.sells:
                    self._judge_sales(f"{what}, replicas {pair}, {link}", pair, link_key(link), total)
            imported = {link: self._total(pair, link_key(link)) for link in self.imports.links()}
            if wrong := [*self.imports.judge(imported, self._offsets())]:
                raise Wrong(f"{what}, replicas {pair}", *wrong)
            totals |= imported
            everything = self._total(pair, ALL_LINKS)
            if everything != sum(totals.values()) and not self.counted["erasures"]:
                raise Wrong(f"{what}, replicas {pair}: all links have {everything:#x}, not {sum(totals.values()):#x}")

    def _judge_sales(self, what: str, pair: tuple[int, ...], clicks: str, total: int) -> None:
        """Each click came with a sale, in one group: both count, or neither; so do the sums of values."""
        count, value = (self._total(pair, measure.row(clicks)) for measure in measures_of(SALE))
        if (count, value) != (total, total * SALE_VALUE):
            raise Wrong(f"{what}: {total:#x} clicks, {count:#x} sales, {value:#x} of values")
        self.counted["rows of sales"] += count > 0

    def _offsets(self) -> dict[str, int]:
        stored = self.cluster.everything("sources").items()
        return {str(key[0]): int(columns["position"]) for key, columns in stored}  # type: ignore[call-overload]

    def _total(self, pair: tuple[int, ...], key: str) -> int:
        return stored(stored_link(self, pair, key), int(self.now), CLICKS).row.lifetime
