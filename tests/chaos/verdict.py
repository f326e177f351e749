"""After a campaign: every key's total at every node, held against what was acknowledged and against one another."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from storage.contract import OPEN
from testing.server import run
from tests.audit.attributes import DIVIDED, judge_given
from tests.audit.auditor import Auditor, Sent
from tests.chaos.owners import Owner
from tests.chaos.traffic import ask_total
from tests.crash.wire import Unanswered, Unreachable, Wire

READ_AT_ONCE = 8
AGREED_WITHIN_S = 600.0
ADOPTED_WITHIN_S = 600.0


@dataclass(slots=True)
class Verdict:
    """What was found; `wrong` has a sentence for each thing that is not as it must be."""

    lost: int = 0
    doubled: int = 0
    keys: int = 0
    people_and_bots: int = 0  # the sum of all keys
    owners: int | None = None  # that the cluster has, where journals lie there
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


async def judge(owners: Sequence[Owner], auditor: Auditor[Sent]) -> Verdict:
    """Judge everything once all nodes have flushed and are still up."""
    keys = list(auditor.by_key)
    verdict = Verdict(keys=len(keys))
    seen = await asyncio.gather(*(totals_at(owner, keys) for owner in owners))
    first = seen[0]
    for owner, totals in zip(owners, seen, strict=True):
        apart = [key for key in keys if totals[key] != first[key]]
        verdict.wrong += [f"{key}: {totals[key]} at node {owner.number}, {first[key]} at node 0" for key in apart]
    misfits = auditor.all_misfits(first)
    verdict.lost = sum(misfit.lost for misfit in misfits)
    verdict.doubled = len(misfits) - verdict.lost
    verdict.wrong += [str(misfit) for misfit in misfits] + auditor.judge_whole(first)
    verdict.people_and_bots = sum(first.values())
    for wrong in await asyncio.gather(*(words_at(owner, keys) for owner in owners)):
        verdict.wrong += wrong
    for owner in owners:
        total = await all_links_at(owner)
        if total != verdict.people_and_bots:
            said = f"all links together are {total} at node {owner.number}; their sum is {verdict.people_and_bots}"
            verdict.wrong.append(said)
    return verdict


async def words_at(owner: Owner, keys: Sequence[str]) -> list[str]:
    """What is wrong with the breakdowns that this node answers, beside its totals of people."""
    wrong: list[str] = []
    waiting = iter(keys)

    async def read() -> None:
        wire = Wire(owner.server.port)
        for key in waiting:
            found: dict[str, dict[str, int]] = {}
            total = 0
            for name in DIVIDED:
                answer = await ask_values(wire, f"/v1/links/{key}/by/{name}")
                if is_damaged(answer):
                    wrong.append(f"{key} at node {owner.number}, {name}: {answer['detail']}")
                    continue
                if not answer["exact"] or answer["unrecorded"]:
                    wrong.append(f"{key} at node {owner.number}, {name}: all is stored, and the answer is {answer}")
                total = answer["total"]
                found[name] = {each["value"]: each["at_least"] for each in answer["values"] if each["value"]}
            if len(found) == len(DIVIDED):
                wrong.extend(judge_given(f"{key} at node {owner.number}", total, found))
        wire.close()

    await asyncio.gather(*(read() for _ in range(READ_AT_ONCE)))
    return wrong


async def ask_values(wire: Wire, path: str) -> dict[str, Any]:
    """The total of people, and the hits of each value; what a node says of a row that it cannot read."""
    late = time.monotonic() + AGREED_WITHIN_S
    while True:
        status, body = await wire.get(path)
        answer: dict[str, Any] = json.loads(body)
        if status == 200 or is_damaged(answer):
            return answer
        # A node that began while the store was away is asking it again.
        assert status == 503 and time.monotonic() < late, f"{path}: {status} {body[:500]!r}"
        await asyncio.sleep(0.1)


def is_damaged(answer: dict[str, Any]) -> bool:
    return answer.get("title") == "damaged row"


async def all_links_at(owner: Owner) -> int | None:
    wire = Wire(owner.server.port)
    try:
        return await ask_total(wire, "/v1/total")
    finally:
        wire.close()


async def until_adopted(owners: Sequence[Owner], states: Callable[[], Mapping[int, str]]) -> None:
    """Wait until every server has an owner, and nobody holds any other. states: those of all owners."""
    late = time.monotonic() + ADOPTED_WITHIN_S
    while True:
        held = {await owner_at(owner) for owner in owners}
        left = {owner for owner, state in states().items() if state == OPEN} - held
        if None not in held and not left:
            return
        assert time.monotonic() < late, f"servers hold {held}, and these are not empty: {left}"
        await asyncio.sleep(0.5)


async def owner_at(owner: Owner) -> int | None:
    """The owner that a server accepts hits as; None if it does not now."""
    wire = Wire(owner.server.port)
    try:
        status, body = await wire.get("/readyz")
        return int(json.loads(body)["owner"]) if status == 200 else None
    except (Unreachable, Unanswered):
        return None
    finally:
        wire.close()


def judge_owners(owners: int, most: int, verdict: Verdict) -> None:
    """Add how many owners there are: not more than processes that ever ran at once."""
    verdict.owners = owners
    if owners > most:
        verdict.wrong.append(f"{owners} owners, though at most {most} processes ran at one time")


def verify(store: str, verdict: Verdict) -> None:
    """Add what `clickcurve verify` says of the store at rest."""
    output = run("verify", "--store", store, timeout_s=600)
    lines = output.stdout.splitlines()
    verdict.verified = next((line for line in lines if "checked" in line), "nothing")
    if output.returncode:
        verdict.wrong.append(f"verify ended with {output.returncode}: {output.stdout}{output.stderr}")
    verdict.wrong += [f"verify: {line}" for line in lines if "in the middle of a flush" in line]
