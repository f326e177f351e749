"""What came of clicks is of one moment, also while flushes write; an answer that is not says that it is not exact."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import ingest.flushed_rows
import query.breakdowns.reader
import query.reader
from clickcurve.buckets.measures import measured, measures_of
from clickcurve.keys import counts_key, link_key, link_subject
from ingest.deltas import NOTHING
from ingest.flush import Flush
from storage.contract import SavedRow
from tests.power import at
from tests.query.events.event_nodes import NOW, EventHit
from tests.query.events.stepped_flushes import Moments


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Questions try again at once, and not for a second: what changes meanwhile, changes while they read."""
    for module in (query.reader, query.breakdowns.reader):
        monkeypatch.setattr(module, "MOMENT_WAIT_S", 0)
        monkeypatch.setattr(module, "MOMENT_TRIES", 6)
    yield


async def lived(folder: Path, seed: int, steps: int) -> Counter[str]:
    """A history; returns how many answers were exact, and how many were not."""
    moments = Moments(folder / str(seed), seed)
    try:
        await moments.live(steps)
    finally:
        await moments.end()
    return Counter(exact=moments.exact, unsettled=moments.unsettled)


async def test_an_exact_answer_is_of_one_moment_of_both_workers(tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for seed in range(at(quick=8, full=80)):
        found += await lived(tmp_path, seed, 25)
    print(f"answers: {dict(found)}")
    assert found["exact"] > found["unsettled"] > 0


def clicks_first(flush: Flush, saved: dict[str, SavedRow]) -> dict[str, SavedRow]:
    return {key: saved.pop(key) for key in [*saved] if not measured(counts_key(key))[0].event}


MUTANTS = {
    "clicks are written first": (Flush, "_taken_out", clicks_first),
    "both are written in any order": (Flush, "_taken_out", lambda flush, saved: {}),
    "clicks without a hit are not written": (ingest.flushed_rows, "MARKED", NOTHING),
    "a reader does not compare the marks": (query.reader, "are_of_one_moment", lambda *links: True),
    "nor does that of breakdowns": (query.breakdowns.reader, "are_of_one_moment", lambda *links: True),
}


@pytest.mark.parametrize("mutant", MUTANTS)
async def test_what_breaks_the_moment_is_caught(mutant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[mutant])
    with pytest.raises(AssertionError, match=r"this never was|no flush is under way"):
        for seed in range(40):
            await lived(tmp_path, seed, 25)


@pytest.mark.parametrize("what", ["events", "events/by/ref"])
async def test_while_a_flush_stands_between_events_and_clicks_an_answer_is_not_exact(tmp_path: Path, what: str) -> None:
    moments = Moments(tmp_path, 0)
    nodes, elsewhere = moments.nodes, moments.nodes.elsewhere
    await nodes.accept(EventHit("k", NOW), EventHit("k", NOW, "sale", 7))
    settled = []
    await moments.step(0)
    while moments.flushes[0] is not None:
        answers = [await asker.ask(what, link_subject("k")) for asker in (nodes.asker, elsewhere)]
        settled.append([answer["exact"] for answer in answers])
        for answer in answers:
            if answer["exact"]:
                assert answer["clicks"]["at_least"] == answer["events"][1]["at_least"], "a rate of two moments"
        await moments.step(0)
    # Events of the link, then its clicks; before and after that all is of one moment.
    assert [False, False] in settled and settled[0] == settled[-1] == [True, True]
    await moments.end()


async def test_a_waiting_question_is_exact_as_soon_as_the_clicks_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (query.reader, query.breakdowns.reader):
        monkeypatch.setattr(module, "MOMENT_TRIES", 10_000)
    moments = Moments(tmp_path, 1)
    await moments.nodes.accept(EventHit("k", NOW), EventHit("k", NOW, "sale", 7))
    await moments.step(0)
    while (await moments.nodes.store.rows("\0event:sale:k")).rows == ():
        await moments.step(0)
    asked = [asyncio.create_task(moments.nodes.elsewhere.ask(each, link_subject("k"))) for each in ("events",) * 3]
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(task.done() for task in asked)
    await moments.complete()
    for answer in await asyncio.gather(*asked):
        assert answer["exact"] and answer["clicks"] == {"at_least": 1, "at_most": 1}
    await moments.end()


async def test_an_event_alone_leaves_the_answers_exact(tmp_path: Path) -> None:
    """Its flush writes and marks the row of clicks, which gets none."""
    moments = Moments(tmp_path, 2)
    nodes = moments.nodes
    await nodes.accept(EventHit("k", NOW))
    await nodes.flush()
    for key in ("k", "never clicked"):
        for event in ("sale", "lead"):
            await nodes.accept(EventHit(key, NOW, event))
            await nodes.flush()
            for what in ("events", "events/by/ref"):
                assert (await nodes.elsewhere.ask(what, link_subject(key)))["exact"]
    await moments.end()


@pytest.mark.parametrize("place", range(1, 6))
@pytest.mark.parametrize("what", ["events", "events/by/ref"])
@pytest.mark.parametrize("flushed", [False, True])
async def test_a_deletion_in_the_middle_of_a_question_takes_clicks_and_events_or_neither(
    tmp_path: Path, what: str, place: int, flushed: bool
) -> None:
    moments = Moments(tmp_path, 3)
    nodes = moments.nodes
    await nodes.accept(EventHit("k", NOW), EventHit("k", NOW, "sale", 7))
    if flushed:
        await nodes.flush()
    read = 0

    async def move() -> None:
        nonlocal read
        read += 1
        if read == place:
            await nodes.delete(link_key("k"))

    moments.move = move  # type: ignore[method-assign]
    for asker in moments.askers[: 2 if flushed else 1]:
        answer = await asker.ask(what, link_subject("k"))
        if answer["exact"]:
            clicks, sale = answer["clicks"]["at_least"], answer["events"][1]
            assert (sale["at_least"], sale["value"]["at_least"]) == (clicks, 7 * clicks)
    assert (await moments.askers[0].ask(what, link_subject("k")))["exact"]
    await moments.end()


@pytest.mark.parametrize("what", ["events", "events/by/ref"])
async def test_an_event_that_is_deleted_alone_leaves_the_answers_exact(tmp_path: Path, what: str) -> None:
    moments = Moments(tmp_path, 4)
    nodes = moments.nodes
    await nodes.accept(EventHit("k", NOW), EventHit("k", NOW, "sale", 7), EventHit("k", NOW, "lead"))
    await nodes.flush()
    sales = [measure.row(link_key("k")) for measure in measures_of("sale")]
    await nodes.processes[0].owner.erase(*sales)
    answer = await nodes.asker.ask(what, link_subject("k"))
    assert answer["exact"] and answer["clicks"] == {"at_least": 1, "at_most": 1}
    assert [each["at_least"] for each in answer["events"]] == [1, 0]
    await moments.end()
