"""Random histories of journals in the cluster: `FRAMES_SEEDS=first:last` asks for some, `FRAMES_STORY=1` tells all."""

from __future__ import annotations

import os
from collections import Counter
from unittest import mock

import pytest

from storage.cassandra.store import CassandraStore
from storage.cassandra.tables import journals
from tests.power import at
from tests.simulated.frames_history import IMPORTING, REPEATING, SELLING, FramesHistory
from tests.simulated.history import Plot
from tests.simulated.product import LINKS_PER_PIECE, WritesOfEachLife

SEEDS = at(quick=20, full=240)
CHUNK = 20
PLOT = Plot(steps=90)
PLOTS = (PLOT, REPEATING, IMPORTING, SELLING)


def asked_for() -> range:
    first, _, last = os.environ.get("FRAMES_SEEDS", f"0:{SEEDS}").partition(":")
    return range(int(first), int(last))


def told(seed: int, plot: Plot = PLOT) -> FramesHistory:
    history = FramesHistory(seed, plot)
    try:
        with (
            mock.patch("storage.cassandra.store._writes", WritesOfEachLife(history.stage)),
            mock.patch.object(CassandraStore, "links_per_load", LINKS_PER_PIECE),
            mock.patch("ingest.flush.ROWS_PER_SAVE", LINKS_PER_PIECE),
            # So that most frames have several parts, and most flushes several pieces.
            mock.patch.object(journals, "PART_BYTES", 24),
            mock.patch("ingest.journal.window.PIECE_BYTES", 100),
        ):
            history.tell()
    except BaseException as error:
        error.add_note(f"seed {seed}; alone, with its story: FRAMES_SEEDS={seed}:{seed + 1} FRAMES_STORY=1")
        raise
    finally:
        if os.environ.get("FRAMES_STORY"):
            for line in history.stage.story:
                print(*line)
    return history


@pytest.mark.parametrize("first", asked_for()[::CHUNK])
def test_what_was_answered_counts_once(first: int) -> None:
    seeds = range(first, min(first + CHUNK, asked_for().stop))
    counted: Counter[str] = Counter()
    for seed in seeds:
        history = told(seed, PLOTS[seed % len(PLOTS)])
        counted.update(history.counted)
    print(f"seeds {first} to {seeds[-1]}: {dict(counted)}")
    if "FRAMES_SEEDS" in os.environ:  # any seeds: some twenty may lack an action
        return
    assert min(counted["acknowledged"], counted["flushes"], counted["taken"], counted["adopted"]) > len(seeds) / 4
    assert counted["erasures"] and counted["repeats"] and counted["pieces"] and counted["rows of sales"]
