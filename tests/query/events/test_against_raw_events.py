"""Clicks and events against a plain list of all hits: random histories of real owners over a real file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import clickcurve.pending
import ingest.hit_sums
from clickcurve.buckets.measures import Measure
from ingest.buffer import Buffer
from ingest.deltas import NOTHING
from ingest.hit import Hit
from tests.power import one_in
from tests.query.events import event_nodes
from tests.query.events.event_history import EventHistory

STEPS = 40


async def asked_in(folder: Path, seeds: Iterable[int]) -> Counter[str]:
    """Lives these histories; returns how many questions were asked, and how many answers were exact."""
    found: Counter[str] = Counter()
    for seed in seeds:
        (folder / str(seed)).mkdir()
        history = EventHistory(folder / str(seed), seed)
        try:
            await history.live(STEPS)
        finally:
            found.update(questions=history.questions, exact=history.exact)
            await history.nodes.close()
    print(f"{found['questions']:,} questions, {found['exact']:,} answers were exact")
    return found


async def test_every_answer_agrees_with_the_raw_hits(tmp_path: Path) -> None:
    found = await asked_in(tmp_path, range(6))
    assert found["questions"] > 1_000 and found["exact"] < found["questions"]


@pytest.mark.long
async def test_twenty_thousand_answers_agree_with_the_raw_hits(tmp_path: Path) -> None:
    found = await asked_in(tmp_path, range(100, 260))
    assert found["questions"] > 20_000


def values_once(hit: Hit, **changes: Any) -> Hit:
    """The value of one event, where a hit has several."""
    return replace(hit, **(changes | {"count": hit.value} if "count" in changes else changes))


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "the values of several events count once": (ingest.hit_sums, "replace", values_once),
    "an event is among the clicks of groups": (Measure, "row", lambda measure, clicks: clicks),
    "what waits is not shown": (Buffer, "delta_of_row", lambda buffer, stored: NOTHING),
    "a flush is added twice": (clickcurve.pending.Pending, "is_missing", lambda pending, marks: True),
    "the rows of events outlive their link": (event_nodes, "MEASURES", (Measure(),)),
}


@pytest.mark.parametrize("mutant", one_in(2, MUTANTS))
async def test_what_counts_wrongly_is_caught(mutant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[mutant])
    with pytest.raises(AssertionError):
        await asked_in(tmp_path, range(20))
