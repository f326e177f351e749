"""Counts beside raw rows: both sides get the same hits, and all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.peers.raw_rows import END, bodies, counts, rows


def test_the_hits_are_the_same_each_time_and_on_both_sides() -> None:
    drawn = rows(500)
    assert drawn == rows(500) and len(drawn) == 500
    sent = [json.loads(line) for body in bodies(drawn) for line in body.decode().splitlines()]
    assert [(hit["key"], hit["ts"], hit["ref"], hit["country"]) for hit in sent] == [each[:4] for each in drawn]
    assert all(0 < t < END for _, t, *_ in drawn)


@pytest.mark.slow
def test_a_server_counts_all_of_them(tmp_path: Path) -> None:
    found = counts(tmp_path, rows(400), ["l0", "l1"])
    assert found["rows"] == 400 and found["bytes"] > 0
    assert found["ref, one link"] > 0 < found["ref, all links"]
