"""Each rule of journals in the cluster, switched off, is noticed by histories that find nothing wrong with it on."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from clickcurve.buckets.errors import JournalDamaged
from tests.audit.journals import Wrong
from tests.simulated.frames_mutants import MUTANTS, Mutant
from tests.simulated.mutants import Switched
from tests.simulated.test_frames_histories import told


def first_caught(mutant: Mutant, off: Switched, seeds: range) -> int | None:
    """The first of these seeds whose history goes wrong."""
    with off:
        for seed in seeds:
            try:
                told(seed, mutant.plot)
            except (Wrong, JournalDamaged):
                return seed
    return None


# `make test` tries one in six.
TRIED = [
    pytest.param(mutant, id=mutant.name, marks=[pytest.mark.needs("minutes")] if number % 6 else [])
    for number, mutant in enumerate(MUTANTS)
]


@pytest.mark.parametrize("mutant", TRIED)
def test_a_rule_that_is_switched_off_is_noticed(mutant: Mutant) -> None:
    seed = first_caught(mutant, mutant.off(), range(mutant.first, mutant.first + mutant.seeds))
    assert seed is not None, f"{mutant.name}: not noticed in {mutant.seeds} histories"
    print(f"{mutant.name}: noticed by seed {seed}")
    assert first_caught(mutant, nullcontext(), range(mutant.first, seed + 1)) is None, (
        "the same histories go wrong with all rules on"
    )
