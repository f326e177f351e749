"""JSON is read forward, in entries that are bounded, and says the same as when it is decoded whole."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.imports.products.json_documents import DEEPEST, Found, documents
from ingest.imports.source import SourceUnreadable

TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(1 - 2**63, 2**63 - 1) | st.floats(-1e9, 1e9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


class Trickle(io.BytesIO):
    """A file that gives a few bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 7))


def found(data: str | bytes, lists: dict[tuple[str, ...], bool] | None = None) -> list[Found]:
    return list(documents("x.json", Trickle(data.encode() if isinstance(data, str) else data), lists or {}))


@given(st.lists(VALUES, max_size=4))
def test_documents_are_those_that_are_in_the_file(values: list[Any]) -> None:
    lines = "\n".join(map(json.dumps, values))
    assert [each.value for each in found(lines)] == values
    assert [each.number for each in found(lines)] == list(range(len(values)))
    assert found("") == found(" \n\n") == []


@given(st.lists(VALUES, max_size=4), VALUES, VALUES)
def test_items_of_a_long_list_come_before_the_rest_of_their_document(items: list[Any], one: Any, other: Any) -> None:
    document = {"before": one, "visits": {"data": items, "pages": other}, "data": [other]}
    *read, rest = found(json.dumps(document), {("visits", "data"): False})
    assert read == [Found(("visits", "data"), n, item) for n, item in enumerate(items)]
    assert rest == Found(None, 0, {**document, "visits": {"data": [], "pages": other}})


def test_a_list_may_be_the_document_and_an_object_in_its_place() -> None:
    assert found('[1, {"a": 2}]', {(): False}) == [((), 0, 1), ((), 1, {"a": 2}), (None, 0, [])]
    assert found('{"a": 2}', {(): False}) == [(None, 0, {"a": 2})]
    links = '{"links": {"link_1": {"clicks": 2}}}'
    assert found(links, {("links",): True}) == [(("links",), 0, {"clicks": 2}), (None, 0, {"links": {}})]
    assert found(links, {("links",): False}) == [(None, 0, json.loads(links))]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('{"a": ' * (DEEPEST + 1), f"deeper than {DEEPEST}"),
        ("[" * 200_000, f"deeper than {DEEPEST}"),
        ('["' + "a" * (2 << 20), "a text of more than 1 MiB"),
        ("[" + " " * (2 << 20) + "]", "as many blanks"),
        ("[" + "[]," * (1 << 19), "more than 64 MiB of memory"),
        ('{"a": "' + "\\u0061" * (1 << 17) + '"}' + "x", "neither JSON nor lines of JSON: "),
        ("[" + "9" * 5_000 + "]", "neither JSON nor lines of JSON: .*overflow"),
        ('{"a": 1', "neither JSON nor lines of JSON: .*premature EOF"),
        (b'{"a": "\xff"}', "neither JSON nor lines of JSON: .*UTF8"),
        ("{'a': 1}", "neither JSON nor lines of JSON: "),
    ],
)
def test_what_is_no_json_or_too_large_is_one_sentence(data: str | bytes, said: str) -> None:
    with pytest.raises(SourceUnreadable, match=said) as refused:
        list(documents("x.json", io.BytesIO(data.encode() if isinstance(data, str) else data), {}))
    assert refused.value.detail.startswith("x.json ") and "\n" not in refused.value.detail
