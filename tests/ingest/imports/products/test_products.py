"""What is read of other products' exports: visits, buckets, and totals that have no dates."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ingest.imports.products.products import PRODUCTS, read_product
from ingest.imports.products.takeover import Takeover, key_of_address
from ingest.imports.source import SourceUnreadable
from ingest.reading.bots import bot_judge
from tests.ingest.imports.products import exports

FEB_1 = 1_769_904_000  # 2026-02-01T00:00:00Z
DAY, HOUR = 86_400, 3_600


def read(product: str, folder: Path, **files: Any) -> Takeover:
    return read_product(product, exports.written(folder, **files), bot_judge())


def lines(found: Takeover) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.history()]


def visits(found: Takeover) -> list[tuple[int, str, bool]]:
    return [visit[:3] for visit in found.visits]


VISITS = [
    (FEB_1 + DAY - 1, "with/slash", False),
    (FEB_1 + DAY + 8 * HOUR + 1_800, "abc", True),
    (FEB_1 + 2 * DAY + 9 * HOUR + 5, "abc", False),
]


def test_shlink_has_visits_with_times_and_totals(tmp_path: Path) -> None:
    found = read("shlink", tmp_path, visits_csv=exports.SHLINK_VISITS, links_csv=exports.SHLINK_LINKS)
    assert sorted(visits(found)) == VISITS
    assert found.openings() == {"abc": 10, "old": 40}
    assert [(bad.line, bad.reason) for bad in found.first_bad] == [(5, "no time: 'not a date'")]
    assert lines(found)[1] == {"key": "abc", "ts": VISITS[1][0], "bot": True, "ua": "some, crawler/1.4"}
    answers = read("shlink", tmp_path, v_json=exports.SHLINK_VISITS_ANSWER, l_json=exports.SHLINK_LINKS_ANSWER)
    assert visits(answers) == [VISITS[2]]
    assert answers.openings() == {"abc": 11, "old": 40}


def test_yourls_tells_bots_by_their_agents(tmp_path: Path) -> None:
    found = read("yourls", tmp_path, log_csv=exports.YOURLS_LOG, url_csv=exports.YOURLS_URL)
    assert visits(found) == [
        (FEB_1 + DAY - 1, "ozh", False),
        (FEB_1 + DAY + 8 * HOUR + 1_800, "ozh", True),
        (FEB_1 + 2 * DAY + 9 * HOUR + 5, "Ozh", False),
    ]
    assert found.openings() == {"none": 5, "ozh": 98}
    assert read("yourls", tmp_path, stats_json=exports.YOURLS_STATS).openings() == {"none": 5, "ozh": 100}


def test_kutts_table_of_visits_has_hours(tmp_path: Path) -> None:
    found = read("kutt", tmp_path, visits_csv=exports.KUTT_VISITS_TABLE, links_csv=exports.KUTT_LINKS_TABLE)
    assert [bucket[:4] for bucket in found.buckets] == [
        (FEB_1 + 23 * HOUR, FEB_1 + 24 * HOUR, "qs", 4),
        (FEB_1 + 32 * HOUR, FEB_1 + 33 * HOUR, "a,b", 2),
    ]
    assert found.openings() == {"qs": 26}
    assert [bad.line for bad in found.first_bad] == [4], "a visit of a link that is not in the table"
    for answer in (exports.KUTT_LINKS, exports.KUTT_STATS):
        assert read("kutt", tmp_path, a_json=answer).openings() == {"qs": 30}


def test_bitlys_days_are_buckets_and_the_rest_of_a_total_an_opening(tmp_path: Path) -> None:
    found = read("bitly", tmp_path, clicks_ndjson=exports.BITLY_LINES)
    assert [(end - start, key, people) for start, end, key, people, _ in found.buckets] == [
        (DAY, "3abc", 9),
        (DAY, "3abc", 4),
    ]
    assert found.openings() == {"3abc": 7, "only-total": 6}
    assert [bad.reason for bad in found.first_bad] == ["clicks by month; ask Bitly for days"]
    starts = [line["buckets"][0][0] for line in lines(found)]
    assert starts == sorted(starts)


def test_goatcounter_has_views_or_hours(tmp_path: Path) -> None:
    found = read("goatcounter", tmp_path, e_gz=gzip.compress(exports.GOATCOUNTER_CSV.encode()))
    assert visits(found) == [
        (FEB_1 + DAY - 1, "abc", False),
        (FEB_1 + DAY + 8 * HOUR + 1_800, "click-banana", False),
        (FEB_1 + 2 * DAY + 9 * HOUR + 5, "abc", True),
    ]
    assert [bad.reason for bad in found.first_bad] == ["no link"]
    hours = read("goatcounter", tmp_path, e_zip=exports.goatcounter_zip())
    assert [(start - FEB_1, end - start, key, people) for start, end, key, people, _ in hours.buckets] == [
        (23 * HOUR, HOUR, "abc", 4),
        (32 * HOUR, HOUR, "abc", 1),
        (32 * HOUR, HOUR, "click-banana", 3),
    ]


def said_in(found: Takeover) -> list[dict[str, str]]:
    return [dict(visit.attributes) for visit in sorted(found.visits)]


def test_visits_say_what_their_exports_document(tmp_path: Path) -> None:
    person, crawler = {"ua": exports.BROWSER}, {"ua": exports.CRAWLER}
    shlink = read("shlink", tmp_path, visits_csv=exports.SHLINK_VISITS)
    assert said_in(shlink) == [person, {"ua": "some, crawler/1.4"}, {**person, "ref": "x.com"}]
    answer = json.loads(json.dumps(exports.SHLINK_VISITS_ANSWER))
    answer["visits"]["data"][0] |= {"referer": "https://news.example/a?b", "visitLocation": {"countryCode": "de"}}
    assert said_in(read("shlink", tmp_path, v_json=answer)) == [{**person, "ref": "news.example", "country": "DE"}]
    yourls = read("yourls", tmp_path, log_csv=exports.YOURLS_LOG)
    assert said_in(yourls) == [{**person, "country": "FR"}, crawler, {**person, "country": "FR"}]
    assert not any("203.0.113" in line for line in map(bytes.decode, yourls.history())), "no address is carried"
    views = exports.GOATCOUNTER_CSV.replace("0,,,", "0,news.example/a,h,", 1).replace("0,,,", "0,Hacker News,g,", 1)
    goat = read("goatcounter", tmp_path, e_csv=views.replace(",AR,", ",US-TX,", 1))
    assert said_in(goat)[:2] == [{**person, "ref": "news.example", "country": "US"}, {**person, "country": "AR"}]
    odd = (
        exports.YOURLS_LOG.replace("FR", "Unknown").replace("https://t.co", "javascript:x y").encode()
        + b"4,2026-02-03 "
    )
    odd += b'09:00:05,Ozh,https://\xff.example/,"a\xffb",203.0.113.1,1F\n'
    assert said_in(read("yourls", tmp_path, log_csv=odd))[-1] == {"ua": "a?b"}


def test_kutts_hours_divide_as_far_as_they_say(tmp_path: Path) -> None:
    table = exports.KUTT_VISITS_WITH_WORDS
    (line,) = lines(read("kutt", tmp_path, visits_csv=table, links_csv=exports.KUTT_LINKS_TABLE))
    hour = [FEB_1 + 23 * HOUR, FEB_1 + 24 * HOUR]
    assert line["by"] == {
        "ref": [[*hour, {"": 2, "news.example": 3}, 0, 0]],
        "country": [[*hour, {"": 1, "DE": 3}, 1, 1]],
        "os": [[*hour, {"Windows": 1, "iOS": 4}, 0, 0]],
    }, "a country has null, and more browsers than hits are none"


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize(
    ("file", "said"),
    [
        ({"x_csv": "some,other,table\n1,2,3\n"}, "is no export of"),
        ({"x_json": {"hello": 1}}, "is no export of"),
        ({"x_csv": b"\x1f\x8bnothing"}, "is damaged"),
        ({"x_zip": b"PK\x03\x04nothing"}, "is damaged"),
        ({"x_json": '{"a": 1}\n{"b": '}, "neither JSON nor lines of JSON"),
        ({"x_csv": ""}, "is no export of"),
    ],
)
def test_another_file_is_refused_by_name(tmp_path: Path, product: str, file: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceUnreadable, match=said) as refused:
        read(product, tmp_path, **file)
    assert "x." in refused.value.detail


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="cannot be read"):
        read_product("shlink", [tmp_path / "none.csv"], bot_judge())


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("https://s.test/abc?x=1#y", "abc"),
        ("http://s.test:8080/a/b", "a/b"),
        ("bit.ly/3abc", "3abc"),
        ("https://s.test/a%2Fb", "a%2Fb"),
        ("https://s.test/", ""),
        ("https://s.test", ""),
        ("https://[broken/x", ""),
        (None, ""),
    ],
)
def test_a_key_is_the_path(address: object, key: str) -> None:
    assert key_of_address(address) == key
