"""An hour that is added to in place: the same bytes as if it was read, added to, trimmed and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns.breakdown import CUT_OFF, CUT_SLACK, ValueCounts, landing, sum_of_counts, trim
from clickcurve.buckets.breakdowns.pieces import hour_bytes, hour_with
from clickcurve.buckets.errors import RowCorrupt
from tests.buckets.given import law

_counts = st.sampled_from([1, 1, 1, 2, 254, 255, 256, 70_000])
_many = st.integers(0, 40).flatmap(lambda n: st.just([f"site{i:02}.example" for i in range(n)]))
_values: dict[str, st.SearchStrategy[str]] = {
    "ref": st.sampled_from(["", "a", "b.example", "ünï.example", "日本.example", "z" * 60, "\uffff", "\U0001f600"]),
    "country": st.sampled_from(["", "DE", "US", "ZW", "XK", "AP", "no code"]),
    "device": st.sampled_from(["", "phone", "tv", "other", "desktop"]),
}
_hour = st.fixed_dictionaries(
    {}, optional={name: st.dictionaries(values, _counts, min_size=1) for name, values in _values.items()}
)


@law
@given(_hour, _hour, _many, st.sampled_from([1, 3, 31, 300]), st.booleans())
def test_an_hour_is_added_to_in_place_as_it_is_read_and_written(
    held: dict[str, dict[str, int]], more: dict[str, dict[str, int]], many: list[str], cap: int, was_cut: bool
) -> None:
    if many:
        held = {**held, "ref": {**held.get("ref", {}), **dict.fromkeys(many, 1)}}
    if was_cut:
        more = {name: {**values, CUT_OFF: 3, CUT_SLACK: 2} for name, values in more.items()}
    before = {name: trim(landing(values), cap) for name, values in held.items()}
    added = dict(before)
    for name, values in more.items():
        added[name] = trim(sum_of_counts(before.get(name, ValueCounts({})), landing(values)), cap)
    assert hour_with(hour_bytes(before), more, cap) == hour_bytes(added)


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_what_is_no_text_is_not_added_to_an_hour(value: str) -> None:
    with pytest.raises(ValueError, match=r"a zero byte|surrogates"):
        hour_with(hour_bytes({"ref": ValueCounts({"a": 1})}), {"ref": {value: 1}}, 300)


@pytest.mark.parametrize(
    "piece", [b"\x01", b"\x01\x04\x09", b"\x01\x04\x01a", b"\x01\x08\x01a\x00", b"\x02\x06\xfe\x00"]
)
def test_an_hour_that_cannot_be_read_is_not_added_to(piece: bytes) -> None:
    with pytest.raises(RowCorrupt):
        hour_with(piece, {"ref": {"b": 1}, "country": {"DE": 1}}, 300)
