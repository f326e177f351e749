"""What a link pays for rules that call hits bots: without any, beside others', and with its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from statistics import median
from time import process_time
from typing import TypeAlias

from bench.command import Options
from bench.measure import Line, in_turn, spread, times
from bench.micro.inside import read
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.breakdowns.disavow import CalledLink, Correction, disavow
from clickcurve.buckets.ladder import CLICKS, DAY_S, END_OF_TIME, HOUR_S
from clickcurve.keys import ALL_LINKS, breakdown_of, moved_key
from ingest.attributes.country import country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.corrections import Corrector
from query.breakdowns.reader import BreakdownReader
from query.reader import Reader
from server.corrections.rules import CorrectedRows, DisavowRule
from storage.erased_words import ErasureBook, KnownWords
from storage.sqlite.store import SqliteStore
from testing.owner_process import OwnerProcess, TrackedDisk

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
LINKS = 1_000
RULES = 1_000  # as many as there may be
LOOKS = 2_000
SPAM = "spam.example"
READER = ProfileReader(("ref",), country_reader("off"), ReferrerReader())
AGES_S = (0, *(n * 3 * HOUR_S for n in range(1, 12)), *(n * 2 * DAY_S for n in range(1, 20)))


def corrections(options: Options) -> Iterator[Line]:
    """Reads rows and breakdowns of links in turn, by readers that know no rule, others', one of all, and theirs."""
    store = SqliteStore(options.folder / "store.db", CLICKS)
    options.closing.callback(store.close)
    runner = options.closing.enter_context(asyncio.Runner())
    node = OwnerProcess(options.folder / "node", store, lambda: float(NOW), alone=True, disk=TrackedDisk())
    plain, spammed = ([f"{name}{n}" for n in range(options.of(LINKS))] for name in ("plain", "spammed"))
    yield runner.run(_fill(node, store, plain, spammed))
    rules = [DisavowRule(f"other{n}", "ref", SPAM, 0, END_OF_TIME, n) for n in range(RULES)]
    everything = DisavowRule(ALL_LINKS, "ref", SPAM, 0, END_OF_TIME, 0, prefix="")
    cases: dict[str, tuple[CorrectedRows, list[str]]] = {
        "no rule": (CorrectedRows(), plain),
        f"{RULES:,} rules of other links": (CorrectedRows(rules), plain),
        "a rule of all links, nothing called": (CorrectedRows([everything]), plain),
        "a rule of all links, a third called": (CorrectedRows([everything]), spammed),
    }
    for what, make in (("total", _row_reader), ("by ref", _breakdown_reader)):
        turns = [partial(_timed, runner, make(node, store, rows), keys) for rows, keys in cases.values()]
        found = in_turn(options.rounds, *turns)
        for name, took in zip(cases, found, strict=True):
            ratio = "" if took is found[0] else f"{times(took, found[0]):.2f} times, in turn; "
            yield Line(f"{what}: {name}", f"{median(took):.1f} us", f"{ratio}rounds within {spread(took)}")
    yield _look_at_note(store, options.rounds)
    runner.run(node.owner.close())


def _look_at_note(store: SqliteStore, rounds: int) -> Line:
    """Measures what tells a flush, or a look every two seconds, that no value was erased since the last one."""
    known = KnownWords(ErasureBook(store))

    def turn() -> float:
        began = process_time()
        for _ in range(LOOKS):
            known.read(lambda: float(NOW))
        return (process_time() - began) / LOOKS * 1e6

    (took,) = in_turn(rounds, turn)
    return Line(
        "a look at a note that says that nothing was erased", f"{median(took):.1f} us", f"rounds within {spread(took)}"
    )


Read: TypeAlias = Callable[[str], Awaitable[object]]


def _row_reader(node: OwnerProcess, store: SqliteStore, rows: CorrectedRows) -> Read:
    reader = Reader(store.rows, node.owner.pending, node.owner.revisit, store.ladder, is_corrected=rows.__contains__)
    return lambda key: reader.row(key, NOW)


def _breakdown_reader(node: OwnerProcess, store: SqliteStore, rows: CorrectedRows) -> Read:
    pending = node.owner.pending, node.owner.pending_breakdowns
    reader = BreakdownReader(store.rows, *pending, store.ladder, BREAKDOWN, is_corrected=rows.__contains__)
    return lambda key: reader.read(key, NOW, ("ref",))


def _timed(runner: asyncio.Runner, read_one: Read, keys: list[str]) -> float:
    """Returns the microseconds of processor time of one reading."""

    async def read_all() -> None:
        for key in keys:
            await read_one(key)

    began = process_time()
    runner.run(read_all())
    return (process_time() - began) / len(keys) * 1e6


async def _fill(node: OwnerProcess, store: SqliteStore, plain: list[str], spammed: list[str]) -> Line:
    """Counts hits of three referrers in hours, days and weeks, and calls those of one referrer of some links."""
    for age_s in AGES_S:
        for ref in (SPAM, "news.example", "mail.example"):
            hits = [{"key": key, "ts": NOW - age_s, "ref": ref, "count": 3} for key in (*plain, *spammed)]
            await node.owner.accept(read(json.dumps(hits).encode(), NOW, READER))
        await node.owner.flush()
    corrector = Corrector(node.owner, store, BREAKDOWN, lambda: NOW)

    def call(key: str, link: CalledLink) -> Correction:
        return disavow(link, "ref", SPAM, 0, END_OF_TIME)

    began = process_time()
    await corrector.carry_out_many(spammed, call)
    took_us = (process_time() - began) / len(spammed) * 1e6
    moved = moved_key(spammed[0])
    found = [await store.rows(stored) for stored in (moved, breakdown_of(moved))]
    of_link = " + ".join(str(sum(len(row.data) for row in link.rows)) for link in found) + " bytes"
    return Line(f"a correction of {len(AGES_S)} buckets", of_link, f"{took_us:,.0f} us of processor time a link")
