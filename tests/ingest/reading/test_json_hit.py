"""Hits of a piece are read by the fields of its first hits, and say what each says alone."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from ingest.hit import JsonHit
from ingest.imports.chunk import DatedHit
from ingest.reading.body import WAYS
from ingest.reading.json_hit import Form, Way, decoded_steps
from ingest.reading.judge import columns_of
from tests.ingest.http_kit import law

FIELDS: dict[str, Any] = {
    "ts": 1_790_000_000,
    "count": 3,
    "id": "a1",
    "ua": "Mozilla/5.0",
    "bot": True,
    "ref": "https://t.co/x",
    "ip": "192.0.2.1",
    "country": "CH",
    "lang": "de",
    "source": "qr",
    "utm": {"source": "lang"},
    "tags": {"plan": "free"},
    "visitor": "v1",
    "groups": ["g"],
    "colour": "red",
}
some_fields = st.frozensets(st.sampled_from(sorted(FIELDS)), max_size=4)


def all_fields(hits: list[Struct]) -> list[dict[str, Any]]:
    return [{name: getattr(hit, name) for name in JsonHit.__struct_fields__} for hit in hits]


def read(piece: bytes, form: Form, *ways: Way) -> list[Struct] | None:
    steps = decoded_steps(ways, form, piece)
    return None if steps is None else [hit for raw in steps for hit in (*raw.plain, *raw.json)]


@law
@given(some_fields, some_fields, st.sampled_from([Form.array, Form.lines]), st.integers(0, 40))
def test_a_piece_says_what_its_hits_say_alone(
    first: frozenset[str], last: frozenset[str], form: Form, many: int
) -> None:
    objects = [{"key": "a", **{name: FIELDS[name] for name in first}}] * (many + 1)
    objects.append({"key": "b", **{name: FIELDS[name] for name in last}})
    texts = [json.dumps(each).encode() for each in objects]
    piece = b"\n".join(texts) if form is Form.lines else b"[" + b",".join(texts) + b"]"
    assert WAYS[-1].shape is JsonHit
    hits = read(piece, form, WAYS[-1])
    assert hits is not None
    assert all_fields(hits) == all_fields([msgspec.json.decode(text, type=JsonHit) for text in texts])


def test_a_field_whose_name_is_escaped_is_read() -> None:
    lines = b'{"key":"a","\\u0072ef":"https://t.co/x"}\n' * 20
    hits = read(lines, Form.lines, *WAYS)
    assert hits is not None
    assert [hit.ref for hit in hits] == ["https://t.co/x"] * 20  # type: ignore[attr-defined]


def test_a_field_that_no_hit_has_is_the_shapes_default() -> None:
    line = msgspec.json.encode(DatedHit("a", 60, ua="Googlebot/2.1"))
    assert b'count"' not in line
    way = Way(DatedHit, WAYS[-1].hand_on, narrows=True)
    hits = read(b"\n".join([line] * 20), Form.lines, way)
    assert hits is not None
    assert {(hit.bot, hit.count, hit.ts) for hit in hits} == {(None, 1, 60)}  # type: ignore[attr-defined]
    assert "count" not in columns_of(hits)  # each counts once
