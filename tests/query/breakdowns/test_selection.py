"""Which values a question means: each once, as it is kept."""

from __future__ import annotations

import pytest

from clickcurve.buckets.errors import ParameterInvalid
from ingest.attributes.referrer import ReferrerReader
from query.breakdowns.selection import Selection, select


def kept(value: str) -> str:
    return ReferrerReader().kept_value("ref", value)


def test_hosts_of_one_site_are_one_value() -> None:
    assert select(["t.co", "x.com", "news.example"], [], kept) == Selection(("x.com", "news.example"))
    assert select([], ["twitter.com", ""], kept) == Selection((), ("x.com", ""))
    with pytest.raises(ParameterInvalid, match="is asked for, and left out"):
        select(["t.co"], ["x.com"], kept)


def test_a_value_beside_others_that_are_left_out_is_that_value() -> None:
    selection = select(["a"], ["b"], kept)
    assert selection.named == ("a",) and not selection.is_one
    assert not select([], [], kept)
