"""The short forms of `make chaos`: the same ring, faults and verdict, in a minute; `make test-long` has all of them."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.auditor import Outcome
from tests.cassandra.front import Front
from tests.chaos.broken import FAULTS
from tests.chaos.campaign import Campaign, Outcomes, Plan, Stage, ended, ring, stage_on
from tests.chaos.faults import Rates
from tests.chaos.owners import Owner
from tests.chaos.report import printed
from tests.power import at, one_in

NEVER = float("inf")
SHORT = Plan(
    seconds=at(quick=12, full=40),
    rates=Rates(
        node_every_s=at(quick=10, full=20),
        node_suspended_s=at(quick=4, full=6),
        overlap_s=2.0,
        owner_kill_every_s=at(quick=4, full=6),
        owner_pause_every_s=at(quick=5, full=10),
        owner_paused_s=(2.0,),
        reset_every_s=at(quick=3, full=4),
        stall_every_s=at(quick=5, full=12),
        stalled_s=2.0,
        lost_answers=0.03,
        lost_conditional_answers=0.15,
    ),
    least_dropped=10,
    least_dropped_conditional=3,
    least_reads=at(quick=120, full=250),
    least_certain=at(quick=500, full=1_000),
)
# Processes come and go: of two that start, and of one that wakes, several may want one owner.
SHORT_IN_CLUSTER = replace(
    SHORT,
    seconds=12.0,
    journal="cluster",
    rates=replace(
        SHORT.rates,
        owner_kill_every_s=4.0,
        owner_away_s=(0.0, 0.0, 20.0),
        owner_pause_every_s=4.0,
        owner_paused_s=(12.0,),
    ),
    flush_s=2.0,
    least_reads=100,
    least_certain=200,
)
# On a ring of one node that nothing happens to: only owners die.
ONE_NODE = Plan(seconds=8.0, rates=Rates(owner_kill_every_s=2.5, owner_pause_every_s=NEVER), open_keys=20)


@pytest.fixture
def seed(capsys: pytest.CaptureFixture[str]) -> int:
    """Where all chance comes from: CHAOS_SEED, or a new one; it is printed in any case."""
    chosen = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(2**32))
    with capsys.disabled():
        print(f"\nCHAOS_SEED={chosen}")
    return chosen


def play(on: Stage, plan: Plan, seed: int, chance: random.Random) -> Outcomes:
    return asyncio.run(Campaign(on, plan, seed, chance).play())


@pytest.fixture(scope="module")
def front(cassandra_program: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with ring(tmp_path_factory.mktemp("chaos")) as front:
        yield front


def play_on(front: Front, folder: Path, plan: Plan, seed: int, capsys: pytest.CaptureFixture[str]) -> Outcomes:
    """What a campaign on the ring has found, printed; nothing is wrong with it."""
    chance = random.Random(seed)
    with stage_on(front, folder, plan, chance) as on:
        found = play(on, plan, seed, chance)
    output = printed(found, plan)
    with capsys.disabled():
        print(output)
    assert found.wrong() == [], output
    return found


def test_nothing_is_lost_or_doubled_on_a_ring_that_breaks(
    front: Front, tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = play_on(front, tmp_path, SHORT, seed, capsys)
    assert found.auditor.sums()[Outcome.acknowledged] > 100, "too little was posted to show anything"
    assert found.readers.reads >= SHORT.least_reads and found.readers.certain >= SHORT.least_certain
    assert found.writers.sent_to_two > 10
    assert min(found.flushes) > 0, "no owner's flushes were seen, so other owners' hits were never certain"
    done = found.faults
    assert done.answers_dropped > done.conditional_answers_dropped > 0
    assert min(done.nodes_killed, done.nodes_suspended, done.owners_killed, done.owners_paused) > 0
    assert min(done.connections_reset, done.stalls) > 0


@pytest.mark.long
def test_nothing_is_lost_or_doubled_where_servers_lose_their_folders(
    front: Front, tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = play_on(front, tmp_path, SHORT_IN_CLUSTER, seed, capsys)
    assert found.auditor.sums()[Outcome.acknowledged] > 100, "too little was posted to show anything"
    assert found.readers.reads >= SHORT_IN_CLUSTER.least_reads
    assert found.readers.certain >= SHORT_IN_CLUSTER.least_certain
    assert found.faults.owners_killed > 0 and found.faults.answers_dropped > 0
    assert found.verdict.owners is not None and found.verdict.owners <= found.most_at_once


def on_one_node(store: str, folder: Path, seed: int, broken: str | None) -> Outcomes:
    """Two owners on one node for a few seconds; `broken` names a fault of their store."""
    chance = random.Random(seed)
    settings = ONE_NODE.settings() | ({"BROKEN": broken} if broken else {})
    module = "tests.chaos.broken" if broken else "clickcurve"
    owners = [
        Owner(number, folder / f"owner{number}" / "data", store, random.Random(number), settings, module=module)
        for number in range(2)
    ]
    with ended(owners):
        return play(Stage(None, owners, store), ONE_NODE, seed, chance)


@pytest.mark.long
def test_the_verdict_on_a_store_without_a_fault_is_clean(cassandra_uri: str, tmp_path: Path, seed: int) -> None:
    found = on_one_node(cassandra_uri, tmp_path, seed, None)
    assert found.wrong() == []
    assert found.faults.owners_killed > 0


@pytest.mark.parametrize("broken", one_in(3, FAULTS))
def test_a_broken_store_is_caught(cassandra_uri: str, tmp_path: Path, seed: int, broken: str) -> None:
    found = on_one_node(cassandra_uri, tmp_path, seed, broken)
    assert found.readers.wrong, "not one read in between showed it"
    if broken == "everything is mine":
        assert found.verdict.doubled > 0 and found.verdict.lost == 0
    else:
        assert found.verdict.lost > 0
