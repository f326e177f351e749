"""What a link pays for rules that call hits bots: without any, beside others', and with its own."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from time import process_time

from bench.command import Options
from bench.inside import Owned, read, reader_of
from bench.measure import Beside, Figures, Line, Measure, ready
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN
from clickcurve.buckets.breakdowns.disavow import disavow
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME, HOUR_S
from clickcurve.keys import ALL_LINKS, breakdown_of, moved_key
from ingest.corrections import Corrector
from query.breakdowns.reader import BreakdownReader
from query.reader import Reader
from server.corrections.rules import CorrectedRows, DisavowRule
from storage.erased_words import ErasureBook, KnownWords

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
LINKS = 1_000
RULES = 1_000  # as many as there may be
SPAM = "spam.example"
AGES_S = (0, *(n * 3 * HOUR_S for n in range(1, 12)), *(n * 2 * DAY_S for n in range(1, 20)))


def corrections(options: Options) -> Iterator[Beside | Line | Measure]:
    """Reads rows and breakdowns of links in turn, by readers that know no rule, others', one of all, and theirs."""
    file = Owned.of_file(options.folder / "data", NOW)
    options.closing.callback(file.close)
    plain, spammed = ([f"{name}{n}" for n in range(options.of(LINKS))] for name in ("plain", "spammed"))
    yield _fill(file, plain, spammed)
    rules = [DisavowRule(f"other{n}", "ref", SPAM, 0, END_OF_TIME, n) for n in range(RULES)]
    everything = DisavowRule(ALL_LINKS, "ref", SPAM, 0, END_OF_TIME, 0, prefix="")
    cases: dict[str, tuple[CorrectedRows, list[str]]] = {
        "no rule": (CorrectedRows(), plain),
        f"{RULES:,} rules of other links": (CorrectedRows(rules), plain),
        "a rule of all links, nothing called": (CorrectedRows([everything]), plain),
        "a rule of all links, a third called": (CorrectedRows([everything]), spammed),
    }
    for what in ("total", "by ref"):
        readers = {name: (_readers(file, rows)[what], keys) for name, (rows, keys) in cases.items()}
        yield Beside(what, {name: partial(_timed, file, *each) for name, each in readers.items()})
    # What tells a flush, or a look every two seconds, that no value was erased since the last one.
    known, what = KnownWords(ErasureBook(file.store)), "a look at a note that says that nothing was erased"
    yield Measure(what, ready(known), lambda known: known.read(lambda: float(NOW)), "us")


def _readers(file: Owned, rows: CorrectedRows) -> dict[str, Callable[[str], Awaitable[object]]]:
    """Returns what reads a link's row, and its breakdown."""
    owner, stored, corrected = file.owner, file.store, rows.__contains__
    reader = Reader(stored.rows, owner.pending, owner.revisit, stored.ladder, is_corrected=corrected)
    pending = owner.pending, owner.pending_breakdowns
    divided = BreakdownReader(stored.rows, *pending, stored.ladder, BREAKDOWN, is_corrected=corrected)
    return {"total": lambda key: reader.row(key, NOW), "by ref": lambda key: divided.read(key, NOW, ("ref",))}


def _timed(file: Owned, read_one: Callable[[str], Awaitable[object]], keys: list[str]) -> Figures:
    """Returns the processor time of one reading."""

    async def read_all() -> None:
        for key in keys:
            await read_one(key)

    began = process_time()
    file.run(read_all())
    return {"{} us": (process_time() - began) / len(keys) * 1e6}


def _fill(file: Owned, plain: list[str], spammed: list[str]) -> Line:
    """Counts hits of three referrers in hours, days and weeks, and calls those of one referrer of some links."""
    reader, store = reader_of("ref"), file.store
    for age_s in AGES_S:
        for ref in (SPAM, "news.example", "mail.example"):
            hits = [{"key": key, "ts": NOW - age_s, "ref": ref, "count": 3} for key in (*plain, *spammed)]
            file.take(read(json.dumps(hits).encode(), NOW, reader))
        file.flush()
    corrector, began = Corrector(file.owner, store, BREAKDOWN, lambda: NOW), process_time()
    file.run(corrector.carry_out_many(spammed, lambda _, link: disavow(link, "ref", SPAM, 0, END_OF_TIME)))
    took_us = (process_time() - began) / len(spammed) * 1e6
    moved = moved_key(spammed[0])
    found = [file.run(store.rows(stored)) for stored in (moved, breakdown_of(moved))]
    of_link = " + ".join(str(sum(len(row.data) for row in link.rows)) for link in found) + " bytes"
    return Line(f"a correction of {len(AGES_S)} buckets", of_link, f"{took_us:,.0f} us of processor time a link")
