"""Parts that were written once are read for ever, and written the same again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.breakdowns.breakdown import BoundedLadder, Breakdown, ValueCounts
from clickcurve.buckets.breakdowns.check import check_breakdown
from clickcurve.buckets.breakdowns.parts import Parts, decode_parts, encode_parts, joined_parts, separate_parts
from clickcurve.buckets.breakdowns.visitors import OpenDay, VisitorDays, VisitorSet
from clickcurve.buckets.ladder import Ladder

GOLDEN = Path(__file__).parent / "golden"
DOCS = Path(__file__).parents[3] / "docs" / "breakdown-format.md"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))


def golden(name: str) -> tuple[Breakdown, BoundedLadder, Parts]:
    answer = json.loads((GOLDEN / f"{name}.json").read_text())
    bounded = BoundedLadder(Ladder.parse(answer["ladder"]), tuple(answer["caps"]))
    return as_breakdown(answer["row"]), bounded, Parts(bytes.fromhex(answer["open"]), bytes.fromhex(answer["closed"]))


def as_breakdown(row: dict[str, Any]) -> Breakdown:
    return Breakdown(
        row["fold_day"],
        row["mark"],
        row["erased_at"],
        row["first"],
        row["shift"],
        {
            name: tuple({start: ValueCounts(*counts) for start, *counts in tier} for tier in tiers)
            for name, tiers in row["dimensions"].items()
        },
        {
            start: OpenDay(VisitorSet(frozenset(members), bytes.fromhex(registers)), known)
            for start, members, registers, known in row["days"]
        },
        tuple(
            {start: VisitorDays.of_owner(size, exact, known) for start, size, exact, known in tier}
            for tier in row["visitor_days"]
        ),
    )


def test_there_are_golden_breakdowns_of_every_kind() -> None:
    assert NAMES == ["closed_only", "deflated", "example", "huge_counts", "never_written", "two_tiers"]


@pytest.mark.parametrize("name", NAMES)
def test_golden_parts_are_read(name: str) -> None:
    row, bounded, parts = golden(name)
    assert decode_parts(parts) == row
    assert separate_parts(joined_parts(parts)) == parts
    assert check_breakdown(row, bounded) == []


@pytest.mark.parametrize("name", [name for name in NAMES if name != "deflated"])
def test_golden_parts_are_written(name: str) -> None:
    row, bounded, parts = golden(name)
    assert encode_parts(row, bounded) == parts


def test_the_example_in_the_docs_is_the_golden_one() -> None:
    blocks = [block.split("```")[0] for block in DOCS.read_text().split("```text\n")[1:]]
    opened, closed = (bytes.fromhex("".join(hexes_of(block))) for block in blocks[:2])
    assert Parts(opened, closed) == golden("example")[2]


def hexes_of(block: str) -> list[str]:
    return [match[0] for line in block.splitlines() if (match := re.match(r"(?:[0-9a-f]{2} )*[0-9a-f]{2}\b", line))]
