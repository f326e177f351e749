"""Random histories on the simulated cluster: nothing acknowledged is lost, nothing counts twice, whatever happens.

Each seed is one history, told the same way every time. `make test` tells 20 of them, `make test-long` 240; more are
asked for by `SIMULATED_SEEDS=first:last` (last exclusive):

    SIMULATED_SEEDS=1000:21000 python -m pytest -q -s tests/simulated/test_histories.py

A history that goes wrong prints the seed; `SIMULATED_SEEDS=N:N+1 SIMULATED_STORY=1` with the same command tells that
one alone, with every call to the cluster and every answer in the order in which they happened.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter

import pytest

from testing.server import ROOT
from tests.audit.journals import Wrong
from tests.power import at
from tests.simulated.history import History, Plot
from tests.simulated.mutants import DISAVOWED
from tests.simulated.product import history_of, tell
from tests.simulated.simulation import Simulation

SEEDS = at(quick=20, full=240)
CHUNK = 40
PLOT = Plot(steps=160)


def asked_for() -> range:
    first, _, last = os.environ.get("SIMULATED_SEEDS", f"0:{SEEDS}").partition(":")
    return range(int(first), int(last))


def told(seed: int, plot: Plot = PLOT) -> History:
    history = history_of(seed, plot)
    try:
        tell(history)
    except BaseException as error:
        error.add_note(f"seed {seed}; alone, with its story: SIMULATED_SEEDS={seed}:{seed + 1} SIMULATED_STORY=1")
        raise
    finally:
        if os.environ.get("SIMULATED_STORY"):
            for line in history.stage.story:
                print(*line)
    return history


@pytest.mark.parametrize("first", asked_for()[::CHUNK])
def test_what_was_acknowledged_counts_once(first: int) -> None:
    seeds = range(first, min(first + CHUNK, asked_for().stop))
    counted: Counter[str] = Counter()
    for seed in seeds:
        history = told(seed)
        counted.update(history.counted)
        counted["calls to the cluster"] += history.cluster.requests
        counted["events"] += history.stage.turns
    print(f"seeds {first} to {seeds[-1]}: {dict(counted)}")
    assert min(counted["reads"], counted["flushes"]) > len(seeds), "histories in which little happens say little"


def test_what_is_called_bots_is_what_was_counted_or_nothing() -> None:
    """Rules are made and undone at any machine, while messages are lost, links deleted and processes killed."""
    counted: Counter[str] = Counter()
    for seed in asked_for()[: at(quick=8, full=60)] if "SIMULATED_SEEDS" not in os.environ else asked_for():
        counted.update(told(seed, DISAVOWED).counted)
    print(f"corrections: {dict(counted)}")
    assert counted["corrections judged"] > counted["corrections held up"]


def digest(seed: int) -> str:
    return hashlib.sha256(repr(told(seed).stage.story).encode()).hexdigest()


def test_a_seed_always_tells_the_same_story() -> None:
    """Also in another process, where sets and dicts of strings have another order."""
    code = "from tests.simulated.test_histories import digest; print(digest(7))"
    environment = {**os.environ, "PYTHONHASHSEED": "1234", "PYTHONPATH": str(ROOT)}
    elsewhere = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert elsewhere.stdout.strip() == digest(7)


def test_a_history_that_goes_wrong_says_which_one_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wrong(simulation: Simulation) -> None:
        raise Wrong("batch 0 is lost")

    monkeypatch.setattr("tests.simulated.history.judge", wrong)
    with pytest.raises(Wrong) as caught:
        told(3, Plot(steps=5))
    assert caught.value.__notes__ == ["seed 3; alone, with its story: SIMULATED_SEEDS=3:4 SIMULATED_STORY=1"]
