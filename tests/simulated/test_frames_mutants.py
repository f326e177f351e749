"""Each rule of journals in the cluster, switched off, is noticed by histories that find nothing wrong with it on."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from random import Random

import pytest

from clickcurve.buckets.errors import JournalDamaged
from storage.cassandra.statements import FENCE, RAISE_FENCE
from tests.audit.journals import Wrong
from tests.power import one_in
from tests.simulated.cluster import Faults
from tests.simulated.connection import Connection
from tests.simulated.frames_mutants import MUTANTS, Mutant, fewer
from tests.simulated.mutants import Switched
from tests.simulated.product import make_cluster
from tests.simulated.simulation import START
from tests.simulated.stage import Stage
from tests.simulated.test_frames_histories import told

pytestmark = pytest.mark.slow


def fences_read(stage: Stage) -> set[int]:
    """What reads of a fence find that one replica has missed."""
    cluster = make_cluster(stage, lambda: START)
    cluster.faults = replace(Faults(), repair=False)
    connection = Connection(cluster, stage.nobody, 64)
    cluster.down.add(0)
    connection.run(RAISE_FENCE, (5, 5, 1))
    cluster.down.clear()
    return {int(epoch) for _ in range(20) for (epoch,) in connection.run(FENCE, (1,)) or [(0,)]}


def test_a_fence_is_read_from_a_quorum() -> None:
    """Histories hardly notice: the reader must ask one replica that lacks it, soon after the owner was taken."""
    stage = Stage(Random(1))
    with stage.running():
        assert fences_read(stage) == {5}
        with fewer("read", "fences"):
            assert fences_read(stage) == {0, 5}


def first_caught(mutant: Mutant, off: Switched, seeds: range) -> int | None:
    """The first of these seeds whose history goes wrong."""
    with off:
        for seed in seeds:
            try:
                told(seed, mutant.plot)
            except (Wrong, JournalDamaged):
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
