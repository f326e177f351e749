"""Random histories of wrong clocks hold every law, and planted faults are caught by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clock.history import Broken, play
from tests.clock.mutants import MUTANTS
from tests.power import at

ACTIONS = 60


@pytest.mark.parametrize("part", range(4))
def test_whatever_clocks_do_buckets_ids_and_stamps_are_as_the_true_time_has_them(part: int, tmp_path: Path) -> None:
    each = at(quick=15, full=250)
    for seed in range(part * each, (part + 1) * each):
        play(seed, tmp_path, ACTIONS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_caught(name: str, tmp_path: Path) -> None:
    for seed in range(400):
        try:
            play(seed, tmp_path, ACTIONS, MUTANTS[name]())
        except Broken:
            return
    pytest.fail(f"{name} passes 400 histories")
