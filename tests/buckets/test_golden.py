"""Bytes that were written once are read for ever, and written the same again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from clickcurve.buckets.cells import Cells
from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.row import Row

GOLDEN = Path(__file__).parent / "golden"
DOCS = Path(__file__).parents[2] / "docs" / "row-format.md"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))


def golden(name: str) -> tuple[Row, bytes]:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    row = dict(golden["row"])
    for series in ("people_cells", "bot_cells"):
        row[series] = tuple(as_cells(cells) for cells in row[series])
    return Row(**row), bytes.fromhex(golden["bytes"])


def as_cells(cells: list[list[int]]) -> Cells:
    starts, counts = cells
    return tuple(starts), tuple(counts)


def test_there_are_golden_rows_of_every_kind() -> None:
    assert len(NAMES) == 7


@pytest.mark.parametrize("name", NAMES)
def test_golden_bytes_are_read(name: str) -> None:
    row, data = golden(name)
    assert decode(data) == row


@pytest.mark.parametrize("name", [name for name in NAMES if name != "deflated"])
def test_golden_bytes_are_written(name: str) -> None:
    row, data = golden(name)
    assert encode(row) == encode(row, deflate=False) == data


def test_the_example_in_the_docs_is_the_golden_one() -> None:
    block = DOCS.read_text().split("```text\n")[1].split("```")[0]
    hexes = [match[0] for line in block.splitlines() if (match := re.match(r"(?:[0-9a-f]{2} )*[0-9a-f]{2}\b", line))]
    assert bytes.fromhex("".join(hexes)) == golden("example")[1]
