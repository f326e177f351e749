"""The protocol with one rule switched off: the histories notice each, and find nothing wrong with all rules on."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.audit.journals import Wrong
from tests.power import one_in
from tests.simulated.mutants import MUTANTS, Mutant, Switched
from tests.simulated.product import history_of, tell

pytestmark = pytest.mark.slow


def first_caught(mutant: Mutant, off: Switched, seeds: range) -> int | None:
    """The first of these seeds whose history goes wrong."""
    with off:
        for seed in seeds:
            try:
                tell(history_of(seed, mutant.plot))
            except Wrong:
                return seed
    return None


@pytest.mark.parametrize("mutant", one_in(6, MUTANTS), ids=[mutant.name for mutant in MUTANTS])
def test_a_rule_that_is_switched_off_is_noticed(mutant: Mutant) -> None:
    seed = first_caught(mutant, mutant.off(), range(mutant.first, mutant.first + mutant.seeds))
    assert seed is not None, f"{mutant.name}: not noticed in {mutant.seeds} histories"
    print(f"{mutant.name}: noticed by seed {seed}")
    assert first_caught(mutant, nullcontext(), range(mutant.first, seed + 1)) is None, (
        "the same histories go wrong with all rules on"
    )
