"""Hits of nothing but a key and a time come to the buffer unsummed, and count there as summed ones do."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.batch import Batch, decode_batch, encode_batch
from ingest.buffer import Buffer
from ingest.reading import request_sums
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from tests.ingest.http_kit import DAY, MINUTE, MOMENT, NOW, law, people_of, summed

LATE = DAY - 60
LEAN = {"key": "a", "ts": NOW}
keys = st.text("ab", min_size=1, max_size=2)
minutes = st.sampled_from([MINUTE, MINUTE - 60, MINUTE - 120, LATE, LATE - 60])


def held(buffer: Buffer) -> object:
    people = buffer.links.people
    return people.slots, people.late, people.sums, people.entries, people.bytes_held, buffer.since_us, buffer.until_us


@law
@given(st.lists(st.dictionaries(minutes, st.lists(keys, min_size=1, max_size=6), max_size=4), max_size=4))
def test_a_buffer_holds_the_same_of_summed_and_unsummed_hits(requests: list[dict[int, list[str]]]) -> None:
    unsummed, sums = Buffer(DAY), Buffer(DAY)
    for at, by_minute in enumerate(requests):
        read = decode_batch(encode_batch(Batch(keys=by_minute)))
        assert isinstance(read, Batch)
        assert read.keys == by_minute
        unsummed.add_batch(read, at, False)
        sums.add_batch(Batch(people={minute: dict(Counter(of)) for minute, of in by_minute.items()}), at, False)
    assert held(unsummed) == held(sums)


times = st.sampled_from([NOW, MINUTE, MINUTE - 1, LATE, NOW + 300, NOW + 301])
lean_hits = st.fixed_dictionaries({"key": keys}, optional={"ts": times})
counted_hits = st.fixed_dictionaries({"key": keys, "count": st.integers(1, 3)}, optional={"ts": times})
AHEAD_AND_NOT: list[dict[str, Any]] = [
    {"key": "a"},
    {"key": "a", "ts": NOW + 301},
    {"key": "a", "ts": NOW + 300},
]  # in one minute


@law
@given(st.lists(lean_hits | counted_hits, max_size=30), st.sampled_from([None, "name"]), st.sampled_from([0, 3, 100]))
@example([LEAN] * 3 + [{"key": "a", "count": 2}] + [LEAN] * 3, None, 100)
@example([LEAN] * 9, "name", 3)
@example([LEAN, LEAN | {"count": 2, "ts": NOW + 301}], None, 3)  # the hit with a count is refused: the other is kept
@example(AHEAD_AND_NOT, None, 100)
@example([hit | {"count": 2} for hit in AHEAD_AND_NOT], None, 100)
def test_hits_count_the_same_whether_they_are_kept_or_summed(
    hits: list[dict[str, Any]], name: str | None, kept: int
) -> None:
    expected: Counter[tuple[int, str]] = Counter()
    late, only_lean = 0, True
    for hit in hits:
        second, count = hit.get("ts", NOW), hit.get("count", 1)
        if second <= NOW + 300:
            expected[second - second % 60, hit["key"]] += count
            late += count if second < DAY else 0
            only_lean = only_lean and "count" not in hit
    for media, text in (
        (Media.json, json.dumps(hits, separators=(",", ":"))),
        (Media.lines, "\n".join(json.dumps(hit) for hit in hits)),
    ):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(request_sums, "KEPT_HITS", kept)
            sums = summed(text.encode(), media, RequestSums(MOMENT, name), 60)
            batch, receipt = sums.batch(), sums.receipt()
        assert (receipt.counted, receipt.late) == (expected.total(), late)
        assert receipt.refused == sum(hit.get("count", 1) for hit in hits if hit.get("ts", NOW) > NOW + 300)
        people = {} if batch is None else batch.identified[0].people if name else people_of(batch)
        assert {(minute, key): n for minute, cell in people.items() for key, n in cell.items()} == expected
        assert (batch is not None and bool(batch.keys)) == (
            bool(expected) and name is None and only_lean and len(hits) <= kept
        )


def test_a_program_that_does_not_know_them_refuses_them() -> None:
    payload = encode_batch(Batch(keys={60: ["a", "b"]}))
    assert payload == b"k\x81\x3c\x92\xa1a\xa1b"
    assert "| `k` | " in Path("docs/journal-format.md").read_text()


def test_it_is_empty_without_keys() -> None:
    assert Batch().is_empty()
    assert not Batch(keys={60: ["a"]}).is_empty()
