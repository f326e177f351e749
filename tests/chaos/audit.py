"""After a campaign: every key's total at every node, held against what was acknowledged and against one another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.owners import Owner
from tests.chaos.traffic import ask_total
from tests.crash.ledger import Ledger, Outcome
from tests.crash.wire import Wire
from tests.running import run

READ_AT_ONCE = 8


@dataclass(slots=True)
class Verdict:
    """What the audit found; `wrong` has a sentence for each thing that is not as it must be."""

    lost: int = 0
    doubled: int = 0
    keys: int = 0
    people_and_bots: int = 0  # the sum of all keys
    verified: str = ""
    wrong: list[str] = field(default_factory=list)


async def totals_at(owner: Owner, keys: Sequence[str]) -> dict[str, int]:
    """Every key's total, as this node answers."""
    found: dict[str, int] = {}
    waiting = iter(keys)

    async def read() -> None:
        wire = Wire(owner.server.port)
        for key in waiting:
            total = await ask_total(wire, f"/v1/links/{key}/total")
            assert total is not None, f"node {owner.number} cannot answer for {key} though all is mended"
            found[key] = total
        wire.close()

    await asyncio.gather(*(read() for _ in range(READ_AT_ONCE)))
    return found


async def audit(owners: Sequence[Owner], ledger: Ledger) -> Verdict:
    """Judge everything once all nodes have flushed and are still up."""
    keys = list(ledger.outcomes)
    verdict = Verdict(keys=len(keys))
    seen = await asyncio.gather(*(totals_at(owner, keys) for owner in owners))
    first = seen[0]
    for owner, totals in zip(owners, seen, strict=True):
        apart = [key for key in keys if totals[key] != first[key]]
        verdict.wrong += [f"{key}: {totals[key]} at node {owner.number}, {first[key]} at node 0" for key in apart]
    misfits = ledger.misfits(first)
    verdict.lost = sum(misfit.lost for misfit in misfits)
    verdict.doubled = len(misfits) - verdict.lost
    verdict.wrong += [str(misfit) for misfit in misfits] + ledger.judge_whole(first)
    verdict.people_and_bots = sum(first.values())
    verdict.wrong += [sentence async for sentence in _all_links(owners, verdict.people_and_bots)]
    return verdict


async def _all_links(owners: Sequence[Owner], expected: int):  # type: ignore[no-untyped-def]
    for owner in owners:
        wire = Wire(owner.server.port)
        total = await ask_total(wire, "/v1/total")
        wire.close()
        if total != expected:
            yield f"all links together are {total} at node {owner.number}; their sum is {expected}"


def verify(store: str) -> tuple[str, list[str]]:
    """What `clickcurve verify` prints of the store at rest, and what is wrong with that."""
    said = run("verify", "--store", store, timeout_s=600)
    lines = said.stdout.splitlines()
    summary = next((line for line in lines if "checked" in line), "nothing")
    broken = [f"verify ended with {said.returncode}: {said.stdout}{said.stderr}"] if said.returncode else []
    broken += [f"verify: {line}" for line in lines if "in the middle of a flush" in line]
    return summary, broken


def acknowledged(ledger: Ledger) -> int:
    return ledger.sums()[Outcome.acknowledged]


def sentences(verdict: Verdict, more: Sequence[str]) -> Iterator[str]:
    yield from verdict.wrong
    yield from more
