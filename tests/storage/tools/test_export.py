from __future__ import annotations

import json
import random

import pytest

from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.row import Delta
from clickcurve.keys import group_key, link_key, namespace_key
from storage.contract import SavedRow, Store
from storage.tools.export import export
from tests.storage.flushes import NOON, Flusher, hits

HOUR = 3_600
DAY = 86_400


def test_a_link_is_the_sum_of_its_owners_folded_to_now(store: Store) -> None:
    Flusher(store, 1).flush({"a": hits((0, 5), (7, 1), opening=10)})
    Flusher(store, 2).flush({"a": hits((1, 2), bots=4)})
    (link,) = export(store, CLICKS, NOON + HOUR, pytest.fail)
    assert link == {
        "key": "a",
        "total": 18,
        "bots": 4,
        "first_hit": NOON,
        "last_hit": NOON + 420,
        "opening": 10,
        "buckets": [[NOON, NOON + 60, 5, 4], [NOON + 60, NOON + 120, 2, 0], [NOON + 420, NOON + 480, 1, 0]],
    }
    (later,) = export(store, CLICKS, NOON + DAY, pytest.fail)
    assert later["buckets"] == [[NOON, NOON + 300, 7, 4], [NOON + 300, NOON + 600, 1, 0]]
    (after_years,) = export(store, CLICKS, NOON + 1_000 * DAY, pytest.fail)
    assert after_years["buckets"] == [[NOON - 12 * HOUR, NOON - 12 * HOUR + 31 * DAY, 8, 4]]


def test_only_links_with_hits_are_exported(store: Store) -> None:
    flusher = Flusher(store)
    keys = ["z", "a", "\0nul", "\U0001f600", "\uffff"]
    deltas = {link_key(key): hits((0, 1)) for key in keys}
    flusher.flush(
        deltas | {namespace_key("limit", "x"): hits((0, 9)), "erased": hits((0, 3)), "opened": hits(opening=2)}
    )
    Flusher(store, 2).flush({"erased": hits((0, 3))})
    store.erase(["erased"], 1)
    assert sorted(str(link["key"]) for link in export(store, CLICKS, NOON, pytest.fail)) == [
        "\0nul",
        "a",
        "opened",
        "z",
        "\uffff",
        "\U0001f600",
    ]
    flusher.flush({"erased": hits((9, 8))})
    (again,) = [link for link in export(store, CLICKS, NOON, pytest.fail) if link["key"] == "erased"]
    assert (again["total"], again["first_hit"]) == (8, NOON + 540)


def test_groups_are_exported_beside_links(store: Store) -> None:
    Flusher(store, 1).flush({"a": hits((0, 5))})
    flusher = Flusher(store, 2)
    assert store.begin(flusher.held, 0, 1, NOON)
    flusher.number = 1
    flusher._save({group_key("spring"): hits((0, 3), bots=2), group_key("gone"): hits()}, {})
    lines = list(export(store, CLICKS, NOON, pytest.fail))
    assert sorted(line.get("key", "") or line.get("group", "") for line in lines) == ["a", "spring"]
    (group,) = [line for line in lines if "group" in line]
    assert (group["total"], group["bots"], group["opening"]) == (3, 2, 0)
    assert group["buckets"] == [[NOON, NOON + 60, 3, 2]]


def test_buckets_add_up_and_every_object_is_json(store: Store) -> None:
    rnd = random.Random(5)
    totals: dict[str, list[int]] = {}
    for owner in (1, 2, 3):
        deltas = {}
        for key in rnd.sample("abcdefgh", 5):
            times = [NOON - rnd.choice([60, 6_000, 600_000]) * rnd.randint(0, 60) for _ in range(20)]
            people = {t: rnd.randint(1, 9) for t in times}
            bots = {t: rnd.randint(1, 9) for t in times[:5]}
            deltas[key] = Delta(people, bots)
            total = totals.setdefault(key, [0, 0])
            total[0] += sum(people.values())
            total[1] += sum(bots.values())
        Flusher(store, owner).flush(deltas)
    found = {
        link["key"]: link for link in map(json.loads, map(json.dumps, export(store, CLICKS, NOON + DAY, pytest.fail)))
    }
    assert found.keys() == totals.keys()
    for key, link in found.items():
        assert [link["total"], link["bots"]] == totals[key]
        assert [sum(bucket[2] for bucket in link["buckets"]), sum(bucket[3] for bucket in link["buckets"])] == totals[
            key
        ]
        ends = [(start, end) for start, end, *_ in link["buckets"]]
        assert all(start < end for start, end in ends) and ends == sorted(ends)


def test_a_link_with_a_damaged_row_is_left_out_and_named(store: Store) -> None:
    flusher = Flusher(store)
    flusher.flush({"a": hits((0, 1)), "c": hits((0, 1))})
    store.save_own(flusher.held, 1, {"b": SavedRow(b"?", None)}, {})
    damaged: list[str] = []
    assert sorted(line["key"] for line in export(store, CLICKS, NOON, damaged.append)) == ["a", "c"]
    assert len(damaged) == 1 and damaged[0].startswith("link 'b', owner 1: not a row")
