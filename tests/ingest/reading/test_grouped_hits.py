"""Hits that count in the group of their host, or of their token: in columns they count as one by one."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.access import ALL_ACCESS, Access
from clickcurve.keys import group_key
from ingest.agents.bots import bot_judge
from ingest.attributes.country import country_reader
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.batch import AttributeCounts, Counts
from ingest.reading import judge
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from tests.ingest.http_kit import DAY, MOMENT, NOW, law, summed

SALTS = {DAY: b"salt", DAY - 86_400: b"other"}
DIMENSIONS, COUNTRIES, SITES = ("ref", "device", "bot"), country_reader("off"), ReferrerReader()
READERS = {
    "divided": ProfileReader(DIMENSIONS, COUNTRIES, SITES, bot_judge().bot, SALTS, group_by_host=True),
    "counted": ProfileReader((), COUNTRIES, SITES, group_by_host=True),
    "no hosts": ProfileReader(DIMENSIONS, COUNTRIES, SITES, bot_judge().bot, SALTS),
    "nothing": NO_DIMENSIONS,
}
TOKENS = {
    "all": ALL_ACCESS,
    "other group": Access("a.example/", "acme"),
    "same group": Access("a.example/", "a.example"),
}
KEYS = ["a.example/x", "a.example/y", "b.example/x", "A.example/x", "plain", "a.example/", f"{'x' * 65}/y", "", 7]
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari"
FIELDS: dict[str, list[Any]] = {
    "ts": [NOW, NOW - 60, DAY - 1, NOW + 301, "2026-01-01T12:00:00Z"],
    "count": [1, 2, 0],
    "id": ["1", "2"],
    "ua": [IPHONE, "Googlebot/2.1"],
    "bot": [True, False],
    "ip": ["192.0.2.1", "192.0.2.2", "nowhere"],
    "ref": ["news.example", "x.example", 1],
    "groups": [["spring"], ["a.example"]],
}
fields = {name: st.sampled_from(values) for name, values in FIELDS.items()}
hits = st.lists(st.fixed_dictionaries({"key": st.sampled_from(KEYS)}, optional=fields), max_size=14)
plain_hits = st.lists(st.fixed_dictionaries({"key": st.sampled_from(KEYS)}, optional={"ts": fields["ts"]}), max_size=14)


def counts_in(counts: Counts) -> Counter[tuple[int, str]]:
    return Counter({(minute, key): count for minute, cell in counts.items() for key, count in cell.items()})


def said_in(attributes: AttributeCounts | None, table: list[Any]) -> tuple[Counter[Any], Counter[Any]]:
    """Profiles by hour and key, and visitors by day and key."""
    profiles: Counter[Any] = Counter()
    visitors: Counter[Any] = Counter()
    if attributes is not None:
        for hour, said in attributes.hours.items():
            for key, number, count in said.cells():
                profiles[hour, key, table[number]] += count
        for day, by_key in attributes.visitors.items():
            visitors.update((day, key, each) for key, several in by_key.items() for each in several)
    return profiles, visitors


def whole(sums: RequestSums) -> object:
    """All that a request counts, and its receipt, in a form that compares."""
    batch, receipt = sums.batch(), sums.receipt()
    if batch is None:
        return receipt
    batch_with_sums = [counts_in(batch.people), counts_in(batch.bots)]
    batch_with_sums[0] += Counter(
        {(minute, key): n for minute, keys in batch.keys.items() for key, n in Counter(keys).items()}
    )
    if batch.attributes is None:
        return receipt, batch_with_sums, batch.identified
    table = batch.attributes.table()
    groups = batch.attributes.groups
    both = said_in(batch.attributes.links, table), said_in(groups.attributes if groups else None, table)
    grouped = (counts_in(groups.people), counts_in(groups.bots)) if groups else ()
    of_ids = [
        (
            each.id,
            each.people,
            each.bots,
            said_in(each.attributes, table),
            each.groups and counts_in(each.groups.people),
        )
        for each in batch.identified
    ]
    return receipt, batch_with_sums, both, grouped, of_ids


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("token", TOKENS)
@law
@given(hits=hits | plain_hits)
def test_hits_in_columns_count_in_groups_as_one_by_one(reader: str, token: str, hits: list[dict[str, Any]]) -> None:
    found = []
    for in_columns in (1, 10**9):
        with patch.object(judge, "IN_COLUMNS", in_columns):
            sums = RequestSums(MOMENT, reader=READERS[reader], allowed=TOKENS[token])
            found.append(whole(summed(json.dumps(hits).encode(), Media.json, sums)))
    assert found[0] == found[1]


def test_each_hit_counts_once_in_each_of_its_groups() -> None:
    keys = ["a.example/x"] * 8 + ["a.example/y"] * 3 + ["b.example/x"]
    body = json.dumps([{"key": key, "ref": "news.example"} for key in keys]).encode()
    for token, groups in (
        ("all", {"a.example": 11, "b.example": 1}),
        ("other group", {"a.example": 11, "acme": 11}),
        ("same group", {"a.example": 11}),
    ):
        sums = RequestSums(MOMENT, reader=READERS["divided"], allowed=TOKENS[token])
        batch = summed(body, Media.json, sums).batch()
        assert batch is not None
        assert batch.attributes is not None
        (cell,) = batch.attributes.groups.people.values()
        assert cell == {group_key(name): count for name, count in groups.items()}
        assert sums.receipt().refused == (0 if token == "all" else 1)
