"""The end of a history: the cluster heals, everybody is started again and flushes, all that was late arrives.

Then each total must be exact, whichever two replicas are asked, and what the program says of itself must add up.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

from clickcurve.buckets import codec
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, Breakdown, merge_breakdowns
from clickcurve.buckets.breakdowns.check import BACK
from clickcurve.buckets.breakdowns.disavow import CORRECTIONS, CalledLink, Correction, call_back, disavow
from clickcurve.buckets.breakdowns.parts import decode_parts, parts_due, separate_parts
from clickcurve.buckets.errors import ImportElsewhere, JournalSuperseded, RowCorrupt
from clickcurve.buckets.ladder import CLICKS, END_OF_TIME, fold_day
from clickcurve.buckets.row import next_due
from clickcurve.keys import ALL_LINKS, breakdown_key, breakdown_of, link_key, moved_key
from clickcurve.row_kinds.table import kind_of
from query.reader import stored
from storage.cassandra.partitions import breakdown_of_rows, partition_of
from storage.cassandra.statements import LINK, LINK_BY
from storage.contract import Store, StoredLink, StoredRow
from storage.tools.verify import verify
from tests.audit.attributes import expected_values, values_of
from tests.audit.journals import Wrong
from tests.simulated.cluster import Cluster
from tests.simulated.connection import Connection
from tests.simulated.machine import Process
from tests.simulated.simulation import CALLED, CLOCKS_APART_S, DAY_S, Simulation

ROUNDS = 12  # of flushes: a process that is fenced is restarted, one that is superseded quarantines its journal
PATIENCE = 2_000
FAR = 400  # days ahead, when every row is due
PAIRS = ((0, 1), (0, 2), (1, 2))


async def judge(simulation: Simulation) -> None:
    simulation.cluster.faults = simulation.cluster.faults.none()
    simulation.cluster.down.clear()
    await _flush_all(simulation)
    await simulation.end()
    _judge_totals(simulation, "the end")
    while simulation.stage.late:
        simulation.stage.late.pop(simulation.rnd.randrange(len(simulation.stage.late)))()
    await simulation.stage.pass_turns(200)
    _judge_totals(simulation, "the end, when all that was late has come")
    simulation.judge_rows()
    await _judge_corrections(simulation)
    await _judge_books(simulation)
    await _judge_answers(simulation)
    for machine in simulation.machines:
        assert machine.process is not None
        simulation.spawn(machine.process, simulation.close_at)
        await finish(simulation, machine.process)
        await simulation.bury(machine)


async def _flush_all(simulation: Simulation) -> None:
    for _ in range(ROUNDS):
        for machine in simulation.machines:
            process = machine.process
            machine.disk.fault = None
            if process is not None:
                process.connection.fault_at.clear()
                await finish(simulation, process)
                if isinstance(process.fenced, JournalSuperseded):
                    await simulation.quarantine(machine)
                elif process.fenced or not process.life.alive:
                    await simulation.bury(machine)
            if machine.process is None:
                simulation.start_process(machine)
            else:
                simulation.spawn(machine.process, simulation.flush_at)
        simulation.check()
        processes = [machine.process for machine in simulation.machines]
        for process in processes:
            if process is not None:
                await finish(simulation, process)
        if all(process and not process.fenced and not any(process.owner.buffered_links()) for process in processes):
            return
    raise Wrong(f"not everything could be flushed in {ROUNDS} rounds")


async def finish(simulation: Simulation, process: Process) -> None:
    """Until it has ended all that it does, or has died."""
    for _ in range(PATIENCE):
        simulation.stage.resume(process.life)
        if not process.life.tasks or not process.life.alive:
            return
        await simulation.stage.pass_turns(50)
    raise Wrong(f"{process.life.name} does not come to an end")


def _judge_totals(simulation: Simulation, what: str) -> None:
    for link in list(simulation.auditor.by_key):
        must = simulation.auditor.must(link)
        for pair in PAIRS:
            total = stored(stored_link(simulation, pair, link_key(link)), int(simulation.now), CLICKS).row.lifetime
            simulation.auditor.check_batches(link, total, must, f"{what}, replicas {pair}", final=True)
            _judge_words(simulation, f"{what}, replicas {pair}: {link}", pair, link, total)


def _judge_words(simulation: Simulation, what: str, pair: tuple[int, ...], link: str, total: int) -> None:
    live = stored_breakdowns(simulation, what, pair, link)
    simulation.judge_breakdown(what, stored_link(simulation, pair, link_key(link)), total, live)


def stored_breakdowns(history: OverCluster, what: str, pair: tuple[int, ...], link: str) -> list[Breakdown]:
    """The rows of a link's breakdown that these replicas have and that are not erased."""
    divided = stored_link(history, pair, breakdown_key(link))
    try:
        rows = [decode_parts(separate_parts(row.data)) for row in divided.rows]
    except RowCorrupt as error:
        raise Wrong(f"{what}: {error.detail}") from error
    return [row for row in rows if row.erased_at >= divided.erased_at]


class OverCluster(Protocol):
    cluster: Cluster


def stored_link(history: OverCluster, pair: tuple[int, ...], key: str) -> StoredLink:
    """What these replicas have of a key."""
    if kind_of(key).beside_counts:
        return breakdown_of_rows(history.cluster.at(pair, LINK_BY, (partition_of(key),)))
    rows = history.cluster.at(pair, LINK, (key or "\0",))
    erased_at = next((at for owner, _, at in rows if owner == 0 and at is not None), 0)
    return StoredLink(erased_at, tuple(StoredRow(owner, data) for owner, data, _ in rows if data is not None))


async def _judge_corrections(simulation: Simulation) -> None:
    """What histories have left over is made good by the next correction: called is what was counted, or nothing."""
    if not simulation.counted["followed"]:
        return
    simulation.now += 2 * CLOCKS_APART_S  # so that nothing was deleted ahead of anybody's clock
    for link in [link for link in simulation.auditor.by_key if link not in simulation.partly_erased][-6:]:
        if not await _corrected(simulation, link, lambda read: disavow(read, "ref", CALLED, 0, END_OF_TIME)):
            simulation.counted["corrections held up"] += 1
            return  # the owner that carries them out is neither running nor closed
        for pair in PAIRS:
            counted = stored(stored_link(simulation, pair, link_key(link)), int(simulation.now), CLICKS).row.lifetime
            must = expected_values(counted).get("ref", {}).get(CALLED, 0)
            if (found := _called(simulation, pair, link)) != (must, must):
                raise Wrong(f"{link}, replicas {pair}: {found} hits and those of the value are called, of {must}")
        await _corrected(simulation, link, lambda read: call_back(read, "ref", CALLED))
        for pair in PAIRS:
            if (found := _called(simulation, pair, link)) != (0, 0):
                raise Wrong(f"{link}, replicas {pair}: {found} hits and those of the value are called after an undo")
        simulation.counted["corrections judged"] += 1


async def _corrected(simulation: Simulation, link: str, make: Callable[[CalledLink], Correction]) -> bool:
    """Carries a correction out at the machine that may; returns whether there is one."""
    done: list[Process] = []

    async def carry_out(process: Process) -> None:
        with suppress(ImportElsewhere):
            await process.corrections.corrector.carry_out(link_key(link), make)
            done.append(process)

    for machine in simulation.machines:
        if machine.process is not None and not done:
            simulation.spawn(machine.process, carry_out)
            await finish(simulation, machine.process)
            simulation.check()
    return bool(done)


def _called(simulation: Simulation, pair: tuple[int, ...], link: str) -> tuple[int, int]:
    """How many hits of a link are called bots, and how many of the value."""
    key = moved_key(link_key(link))
    row = stored(stored_link(simulation, pair, key), int(simulation.now), CLICKS).row
    divided = stored_link(simulation, pair, breakdown_of(key))
    rows = [decode_parts(separate_parts(each.data)) for each in divided.rows]
    named = values_of(merge_breakdowns([each for each in rows if each.erased_at >= divided.erased_at], 0, CORRECTIONS))
    called, back = (named.get(name, {}).get(CALLED, 0) for name in ("ref", BACK + "ref"))
    return row.lifetime - row.bots, called - back


async def _judge_answers(simulation: Simulation) -> None:
    """Every machine gives the exact answer."""
    for machine in simulation.machines:
        process = machine.process
        assert process is not None
        for link in list(simulation.auditor.by_key)[-4:]:
            must = simulation.auditor.must(link)
            row = await process.reader.row(link_key(link), int(simulation.now))
            simulation.auditor.check_batches(
                link, row.lifetime, must, f"the last read at {process.life.name}", final=True
            )


async def _judge_books(simulation: Simulation) -> None:
    """All links together are the sum of the links, and the lists of due rows and touched links leave nothing out.

    With read repair, as the tables have it: of a row that one replica has two reads may differ else.
    """
    nobody = simulation.stage.nobody
    simulation.cluster.faults = replace(simulation.cluster.faults, repair=True)
    store = simulation.open_store(Connection(simulation.cluster, nobody, 64), lambda: simulation.now)
    report = await simulation.stage.in_thread(nobody, lambda: verify(store, CLICKS))
    if report.broken:
        raise Wrong(f"verify: {report.broken}")
    await _judge_due(simulation, store)
    await _judge_touched(simulation, store)


async def _judge_due(simulation: Simulation, store: Store) -> None:
    day = int(simulation.now) // DAY_S + FAR
    for record in simulation.records():
        names = partial(store.due, record.owner, day, None, 10_000)
        due = set(await simulation.stage.in_thread(simulation.stage.nobody, names))
        for key in [ALL_LINKS, *map(link_key, simulation.auditor.by_key)]:
            rows = [row for row in stored_link(simulation, (0, 1), key).rows if row.owner == record.owner]
            if any(next_due(codec.decode(row.data), CLICKS) is not None for row in rows) and key not in due:
                raise Wrong(f"{key!r} of owner {record.owner} is not listed as due")
            rows = [row for row in stored_link(simulation, (0, 1), breakdown_of(key)).rows if row.owner == record.owner]
            dues = [parts_due(separate_parts(row.data), BREAKDOWN) for row in rows]
            if any(day is not None for day in dues) and breakdown_of(key) not in due:
                raise Wrong(f"the breakdown of {key!r} of owner {record.owner} is not listed as due")


async def _judge_touched(simulation: Simulation, store: Store) -> None:
    """A walk over what was touched since some day leaves out no link that was hit since then, by anybody's clock."""
    since = int(simulation.now) - DAY_S
    day = fold_day(since)
    walk = partial(store.walk, None, 10_000, day)
    touched = {key for key, _ in await simulation.stage.in_thread(simulation.stage.nobody, walk)}
    for link, batches in simulation.auditor.by_key.items():
        hit = any(sent.stored and fold_day(int(sent.at - CLOCKS_APART_S)) >= day for sent in batches)
        if hit and link_key(link) not in touched:
            raise Wrong(f"{link!r} was hit since day {day} and is not listed as touched")
