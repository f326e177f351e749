"""Random histories in which siblings adopt what dead processes held; each acknowledged batch counts once."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, nullcontext

import pytest

from ingest.journal.cluster_journal import make_journal
from server.process.presence import Presence
from tests.audit.journals import Wrong
from tests.power import at
from tests.simulated.adopting import ADOPTIONS, AdoptingHistory
from tests.simulated.mutants import MUTANTS, Switched
from tests.simulated.product import make_cluster, open_store, tell
from tests.simulated.threaded import SimulatedFactory

SEEDS = at(quick=20, full=80)
# Rules that an adoption needs, each with the first history that notices when it is switched off.
RULES = {
    "a row's stamp without the epoch": 34,
    "a flush applied without a look at the mark": 7,
    "a breakdown applied without a look at the mark": 7,
    "every process with the same token": 3,
    "a claim won by the epoch alone": 0,
    "attempts to claim forgotten": 0,
}


def history_of(seed: int) -> AdoptingHistory:
    return AdoptingHistory(seed, ADOPTIONS, open_store, make_cluster)


def test_what_was_acknowledged_counts_once_whoever_adopts_it() -> None:
    counted: Counter[str] = Counter()
    for seed in range(SEEDS):
        history = history_of(seed)
        try:
            tell(history)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        counted.update(history.counted)
    print(dict(counted))
    assert counted["adoptions"] > SEEDS // 4, "histories in which little is adopted say little"
    assert counted["failed adoptions"] > SEEDS


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_switched_off_is_noticed_where_siblings_adopt(rule: str) -> None:
    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == rule]
    first = RULES[rule]
    seed = first_caught(mutant.off(), range(first, first + 60))
    assert seed is not None, f"{rule}: not noticed"
    assert first_caught(nullcontext(), range(seed, seed + 1)) is None, "with all rules on it goes wrong too"


def first_caught(off: Switched, seeds: range) -> int | None:
    """The first of these seeds whose history goes wrong."""
    with off:
        for seed in seeds:
            try:
                tell(history_of(seed))
            except Wrong:
                return seed
    return None


def test_a_round_costs_the_same_requests_however_many_owners_there_are() -> None:
    """Each worker takes one every other second."""
    with closing(SimulatedFactory()) as factory:
        store, requests = factory(), []
        for owners in (2, 50):
            for number in range(1, owners + 1):
                make_journal(store, number, f"process.{number}", "here", lambda: 0.0, lambda: 0.0)
            before = factory.cluster.requests
            presence = Presence(store, "other")
            presence._look(owners)
            requests.append(factory.cluster.requests - before)
            assert [each.record.owner for each in store.journals().records()] == [*range(1, owners + 1)]
    assert requests[0] == requests[1] == 3, "the own beat, those of all, their records"
