"""Values kept for a time, on the simulated cluster: an answer depends on the hits and on now, and on nothing else.

Histories with lost and late messages, kills, copied journals and owners that are lost. Somewhere in the middle the
setting is made, and processes that start later have it. Passes run on random days, or never. At the end time goes on
in jumps: each answer is that of the raw hits, before a pass and after it, and no living owner's row has an old value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clickcurve.buckets.breakdowns import breakdown, parts
from clickcurve.buckets.breakdowns.breakdown import (
    BREAKDOWN,
    NOT_GIVEN,
    BoundedLadder,
    Breakdown,
    ValueCounts,
    merge_breakdowns,
)
from clickcurve.buckets.breakdowns.kept_time import KeptTime
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.errors import ClickcurveError
from clickcurve.buckets.ladder import CLICKS, Ladder, fold_day
from clickcurve.buckets.row import fold
from clickcurve.keys import ALL_LINKS, breakdown_key, breakdown_of, link_key
from ingest.flush import Flush, RowsByKind
from query.breakdowns.reader import BreakdownReader
from query.reader import stored
from retention.run import revisit_breakdowns
from storage.contract import StoredLink
from tests.audit.attributes import DIVIDED, expected_values
from tests.audit.auditor import BASE
from tests.audit.journals import SentBatch, Wrong
from tests.power import at, one_in
from tests.simulated.history import History, Plot
from tests.simulated.judgement import PAIRS, finish, stored_link
from tests.simulated.machine import Process
from tests.simulated.mutants import Switched, replaced
from tests.simulated.product import history_of, tell
from tests.simulated.simulation import DAY_S, Folding

SEEDS = at(quick=8, full=24)
PLOT = Plot(steps=120, weights={"visit": 5.0, "set_times": 1.0, "kill": 7.0, "wait": 9.0, "look": 15.0})
MUTANT_SEEDS = 40
DAYS = (2, 3, 7, 31, 33, 34, 60, 90, 399, 400, 480)
JUMPS = (0, 1, 2, 6, 29, 61, 400)


def kept_from(days: int, day: int) -> int:
    """The first moment whose values are kept on a fold day: so many days ago, or the edge of a week or month before."""
    first = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(day + 1 - days)
    if days > 33:
        month = first.replace(day=1)
        first = month if days > 399 else max(month, first - timedelta(first.weekday()))
    return int(first.timestamp())


class Visiting(Folding):
    """The owner as the visit of all breakdowns sees it, too."""

    def __init__(self, history: KeptHistory, process: Process) -> None:
        super().__init__(history, process)
        owner = process.owner
        self.walk, self.times_changed, self.note_times = owner.walk, owner.times_changed, owner.note_times


class KeptHistory(History):
    """Every process that starts after `set_times` keeps values for a time."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.days = {name: self.rnd.choice(DAYS) for name in DIVIDED}
        times = tuple(KeptTime(*each) for each in self.days.items())
        self.bounded = BoundedLadder(BREAKDOWN.ladder, BREAKDOWN.caps, times)
        self.minutes: dict[SentBatch, set[int]] = {}
        if self.rnd.random() < 0.5:
            self._set_times()

    def _set_times(self) -> None:
        self.process_class = type("KeptProcess", (Process,), {"bounded": self.bounded})  # type: ignore[misc]

    async def set_times(self) -> None:
        self._set_times()

    async def send_to(self, process: Process, sent: SentBatch, late_s: int = 0) -> None:
        self.minutes.setdefault(sent, set()).add(int(self.now - late_s) // 60 * 60)
        await super().send_to(process, sent, late_s)

    def _late_s(self) -> int:
        """Around the moments at which values expire, too."""
        ago = self.rnd.choice([*self.days.values(), 20]) + self.rnd.randrange(-5, 40)
        return self.rnd.choice([0, 3_000, DAY_S, max(0, ago) * DAY_S])

    async def visit(self) -> None:
        if (process := self._any()) and not (process.fenced or process.closing):
            self.spawn(process, self.visit_at, 0.4)

    async def visit_at(self, process: Process, fails: float = 0.0) -> None:
        """What a server does at its start, and once a day. fails: how often it is cut off."""
        await self.fold_at(process, day := fold_day(int(process.machine.clock())))
        if self.rnd.random() < fails:
            self._let_fail(process)

        async def in_thread(call: Callable[..., Any], *args: Any) -> Any:
            return await self.stage.in_thread(process.life, lambda: call(*args))

        self.note(process, "visits all breakdowns")
        report = await revisit_breakdowns(Visiting(self, process), day, self.rnd.choice([1, 2, 1_000]), in_thread)
        self.counted["whole visits"] += report.stopped is None and report.steps > 0

    async def look(self) -> None:
        if (process := self._any()) and process.bounded.times:
            self.spawn(process, self.look_at, self._link())

    async def look_at(self, process: Process, link: str) -> None:
        """An answer names nothing old, whatever is under way; it may lack what others have not flushed."""
        owner = process.owner
        pending = owner.pending, owner.pending_breakdowns
        reader = BreakdownReader(process.store.rows, *pending, process.store.ladder, process.bounded)
        try:
            row = await reader.read(link_key(link), int(process.machine.clock()), DIVIDED)
        except ClickcurveError:
            return
        self.counted["looks"] += 1
        for name, start, counts in buckets_of(row.breakdown):
            if start < kept_from(self.days[name], row.breakdown.fold_day) and not is_summed(counts):
                raise Wrong(f"{process.life.name} names values of {link!r} at {start}: {name} {counts}")

    async def end(self) -> None:
        """Everybody has the setting. Time goes on, and some look for what expires now, or all."""
        self._set_times()
        for machine in self.machines:
            if machine.process is not None:
                self.spawn(machine.process, self.close_at)
                await finish(self, machine.process)
                await self.bury(machine)
            self.start_process(machine)
        await self._visit_all(1.0)
        self.judge_rows()
        for jump in self.rnd.sample(JUMPS, 3):
            self.now += jump * DAY_S + self.rnd.randrange(DAY_S)
            self.judge_links(f"{jump} days later")
            await self._visit_all(0.5)
            self.judge_links(f"{jump} days later, after a pass of some")
        await self._visit_all(1.0)

    async def _visit_all(self, share: float) -> None:
        for machine in self.machines:
            process = machine.process
            assert process is not None
            if self.rnd.random() < share:
                for work in (self.flush_at, self.visit_at):
                    self.spawn(process, work)
                    await finish(self, process)
        self.check()

    def judge_links(self, when: str) -> None:
        for link in self.auditor.by_key:
            for pair in PAIRS:
                counts = stored_link(self, pair, link_key(link))
                total = stored(counts, int(self.now), CLICKS).row.lifetime
                what = f"{when}, replicas {pair}: {link}"
                self.judge_breakdown(what, counts, total, self._live(pair, breakdown_key(link)))

    def _live(self, pair: tuple[int, ...], key: str) -> list[Breakdown]:
        divided = stored_link(self, pair, key)
        rows = [decode_parts(separate_parts(row.data)) for row in divided.rows]
        return [row for row in rows if row.erased_at >= divided.erased_at]

    def judge_breakdown(self, what: str, counts: StoredLink, total: int, rows: Sequence[Breakdown]) -> None:
        """In each kept bucket are the raw hits that the total says, by value; of an old one only sums."""
        merged = merge_breakdowns(rows, fold_day(int(self.now)), self.bounded)
        row = fold(stored(counts, int(self.now), CLICKS).row, merged.fold_day, CLICKS)
        must: dict[tuple[str, int], ValueCounts] = {}
        for starts, sums in row.people_cells:
            for start, of_bucket in zip(starts, sums, strict=True):
                self._judge_minutes(what, start, merged.fold_day, of_bucket)
                at_start = BREAKDOWN.ladder.kept(start, merged.fold_day)[0]
                for name, said in expected_values(of_bucket).items():
                    known = must.get((name, at_start), ValueCounts({}))
                    must[name, at_start] = ValueCounts(dict(Counter(known.values) + Counter(said)))
        for (name, start), kept in must.items():
            if start < kept_from(self.days[name], merged.fold_day):
                must[name, start] = summed(kept)
        found = {(name, start): bucket for name, start, bucket in buckets_of(merged)}
        if found != must:
            raise Wrong(f"{what}: kept for {self.days} days on day {merged.fold_day}: {found}, and not {must}")

    def _judge_minutes(self, what: str, start: int, day: int, hits: int) -> None:
        """Each hit in a bucket of the row of counts was sent for a minute of it."""
        link = what.rpartition(": ")[2]
        start, end = CLICKS.kept(start, day)
        for digit, sent in enumerate(self.auditor.by_key[link]):
            if hits // BASE**digit % BASE and not any(start <= minute < end for minute in self.minutes[sent]):
                raise Wrong(f"{what}: {sent} is in the bucket of {start}")

    def judge_rows(self) -> None:
        """After a pass no row of a living owner has an old value."""
        living = {machine.identity().owner for machine in self.machines}
        day = fold_day(int(self.now - 600))
        for key in (breakdown_of(ALL_LINKS), *map(breakdown_key, self.auditor.by_key)):
            for pair in PAIRS:
                link = stored_link(self, pair, key)
                for row in link.rows:
                    divided = decode_parts(separate_parts(row.data))
                    if row.owner not in living or divided.erased_at < link.erased_at:
                        continue
                    for name, start, counts in buckets_of(divided):
                        if start < kept_from(self.days[name], day) and not is_summed(counts):
                            raise Wrong(
                                f"replicas {pair}, {key!r} of owner {row.owner}: {name} at {start} has {counts}"
                            )
        self.counted["rows judged"] += 1


def buckets_of(row: Breakdown) -> list[tuple[str, int, ValueCounts]]:
    tiers = [(name, tier) for name in DIVIDED for tier in row.dimensions.get(name, ())]
    return [(name, start, counts) for name, tier in tiers for start, counts in tier.items()]


def summed(counts: ValueCounts) -> ValueCounts:
    """The bucket without values: all that gave one are `other`, and any of these may be any value's."""
    not_given = counts.values.get(NOT_GIVEN, 0)
    rest = sum(counts.values.values()) + counts.other - not_given
    return ValueCounts({NOT_GIVEN: not_given} if not_given else {}, rest, rest)


def is_summed(counts: ValueCounts) -> bool:
    return counts == summed(counts)


def told(seed: int) -> KeptHistory:
    history = history_of(seed, PLOT, KeptHistory)
    assert isinstance(history, KeptHistory)
    try:
        tell(history)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    return history


@pytest.mark.parametrize("first", range(0, SEEDS, 8))
def test_an_answer_depends_on_hits_and_now_and_old_values_leave_rows(first: int) -> None:
    counted: Counter[str] = Counter()
    for seed in range(first, first + 8):
        counted.update(told(seed).counted)
    print(f"seeds {first} to {first + 7}: {dict(counted)}")
    assert counted["rows judged"] == 16 and counted["looks"]


# --- the product with one rule less ---------------------------------------------------------------------------------
def edge_of_today(self: KeptTime, day: int, ladder: Ladder) -> int:
    return ladder.kept(max(0, day + 1 - self.days) * DAY_S, day)[0]


def slack_as_it_was(counts: ValueCounts) -> ValueCounts:
    return SUMMED(counts)._replace(slack=counts.slack)


def due_without_times(row: Breakdown, tier: int, bounded: BoundedLadder) -> int | None:
    return TIER_DUE(row, tier, BREAKDOWN)


def kinds_as_if_not_visited(self: Flush) -> RowsByKind:
    flushed, _ = KINDS(self)
    return flushed, flushed


SUMMED, TIER_DUE, KINDS = breakdown._summed, breakdown.tier_due, Flush._kinds
# Each with the first history that notices.
MUTANTS: dict[str, tuple[Any, str, Any, int]] = {
    "nothing expires": (breakdown, "expire", lambda row, bounded: row, 0),
    "kept to the edge of the bucket that there is today": (KeptTime, "kept_since", edge_of_today, 9),
    "the slack stays as it was": (breakdown, "_summed", slack_as_it_was, 0),
    "no row is due when its values expire": (parts, "tier_due", due_without_times, 7),
    "a visit leaves closed parts": (Flush, "_kinds", kinds_as_if_not_visited, 0),
}


@pytest.mark.parametrize("mutant", one_in(2, MUTANTS))
def test_a_rule_that_is_switched_off_is_noticed(mutant: str) -> None:
    place, name, by, first = MUTANTS[mutant]
    seed = first_wrong(replaced(place, name, by), range(first, first + MUTANT_SEEDS))
    assert seed is not None, f"{MUTANT_SEEDS} histories notice nothing"
    print(f"noticed by seed {seed}")
    assert first_wrong(nullcontext(), range(seed, seed + 1)) is None, "it goes wrong with all rules on, too"


def first_wrong(switched: Switched, seeds: range) -> int | None:
    with switched:
        for seed in seeds:
            try:
                told(seed)
            except Wrong:
                return seed
    return None
