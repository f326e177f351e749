"""What is read of other products' exports: visits, buckets, and totals that have no dates."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from threading import Thread
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import zstandard

from clickcurve.hosts import HOSTS_IGNORED, Hosts
from ingest.agents.bots import bot_judge
from ingest.imports.log_sums import BadLine
from ingest.imports.products.products import PRODUCTS, read_product
from ingest.imports.products.takeover import Takeover
from ingest.imports.source import SourceUnreadable
from tests.ingest.imports.products import exports

FEB_1 = 1_769_904_000  # 2026-02-01T00:00:00Z
DAY, HOUR = 86_400, 3_600


@dataclass
class Found:
    """What was read: lines of history, openings by link, and what is bad."""

    lines: list[dict[str, Any]]
    openings: dict[str, int]
    bad: int
    first_bad: list[BadLine]
    bots_without_dates: int = 0

    def visits(self) -> list[tuple[int, str, bool]]:
        return [(line["ts"], line["key"], line.get("bot", False)) for line in self.lines if "ts" in line]

    def spans(self) -> list[tuple[int, int, str, int]]:
        return [
            (*line["buckets"][0][:2], line["key"], line["buckets"][0][2]) for line in self.lines if "ts" not in line
        ]


def read_paths(product: str, paths: list[Path], hosts: Hosts = HOSTS_IGNORED, zone: tzinfo = UTC) -> Found:
    with Takeover(hosts, bot_judge(), zone) as taken:
        read_product(product, paths, taken)
        lines = [json.loads(line) for line in taken.history()]
        return Found(lines, dict(taken.openings()), taken.bad, taken.first_bad, taken.bots_without_dates())


def read(product: str, folder: Path, **files: Any) -> Found:
    return read_paths(product, exports.written(folder, **files))


VISITS = [
    (FEB_1 + DAY - 1, "with/slash", False),
    (FEB_1 + DAY + 8 * HOUR + 1_800, "abc", True),
    (FEB_1 + 2 * DAY + 9 * HOUR + 5, "abc", False),
]


def test_shlink_has_visits_with_times_and_totals(tmp_path: Path) -> None:
    found = read("shlink", tmp_path, visits_csv=exports.SHLINK_VISITS, links_csv=exports.SHLINK_LINKS)
    assert found.visits() == VISITS
    assert found.openings == {"abc": 10, "old": 40}
    assert [(bad.line, bad.reason) for bad in found.first_bad] == [(5, "no time: 'not a date'")]
    assert found.lines[1] == {"key": "abc", "ts": VISITS[1][0], "bot": True, "ua": "some, crawler/1.4"}
    answers = read("shlink", tmp_path, v_json=exports.SHLINK_VISITS_ANSWER, l_json=exports.SHLINK_LINKS_ANSWER)
    assert answers.visits() == [VISITS[2]]
    assert answers.openings == {"abc": 9, "old": 40}, "bots without dates are counted nowhere"
    assert (answers.bots_without_dates, found.bots_without_dates) == (2, 0)
    dated = read("shlink", tmp_path, visits_csv=exports.SHLINK_VISITS, l_json=exports.SHLINK_LINKS_ANSWER)
    assert dated.bots_without_dates == 1, "of two bots of the list one came with its time"


def test_shlinks_bots_have_their_times_in_each_export_of_visits(tmp_path: Path) -> None:
    shown = read("shlink", tmp_path, visits_csv=exports.SHLINK_VISITS_SHOWN)
    assert shown.visits() == VISITS
    assert [(bad.line, bad.reason) for bad in shown.first_bad] == [(5, "no link")]
    assert shown.lines[0] == {"key": "with/slash", "ts": VISITS[0][0], "ua": exports.BROWSER}
    assert shown.lines[2]["ref"] == "x.com"
    older = exports.SHLINK_VISITS.replace('"Potential bot",', "", 1).replace(',"Potential bot",', ",")
    older = older.replace("+01:00,,", "+01:00,").replace("59+00:00,,", "59+00:00,").replace("date,,", "date,")
    judged = read("shlink", tmp_path, visits_csv=older)
    assert judged.visits() == VISITS, "where no column marks bots the agent decides"


def test_times_without_an_offset_are_of_the_zone_that_is_named(tmp_path: Path) -> None:
    paths = exports.written(tmp_path, log_csv=exports.YOURLS_LOG)
    utc = read_paths("yourls", paths).visits()
    vienna = read_paths("yourls", paths, zone=ZoneInfo("Europe/Vienna")).visits()
    assert [at for at, *_ in vienna] == [at - HOUR for at, *_ in utc]
    assert [visit[1:] for visit in vienna] == [visit[1:] for visit in utc]
    offsets = exports.written(tmp_path, v_json=exports.SHLINK_VISITS_ANSWER)
    assert read_paths("shlink", offsets, zone=ZoneInfo("Europe/Vienna")) == read_paths("shlink", offsets)


def test_yourls_tells_bots_by_their_agents(tmp_path: Path) -> None:
    found = read("yourls", tmp_path, log_csv=exports.YOURLS_LOG, url_csv=exports.YOURLS_URL)
    assert found.visits() == [
        (FEB_1 + DAY - 1, "ozh", False),
        (FEB_1 + DAY + 8 * HOUR + 1_800, "ozh", True),
        (FEB_1 + 2 * DAY + 9 * HOUR + 5, "Ozh", False),
    ]
    assert found.openings == {"none": 5, "ozh": 98}
    assert read("yourls", tmp_path, stats_json=exports.YOURLS_STATS).openings == {"none": 5, "ozh": 100}


def test_kutts_table_of_visits_has_hours(tmp_path: Path) -> None:
    found = read("kutt", tmp_path, visits_csv=exports.KUTT_VISITS_TABLE, links_csv=exports.KUTT_LINKS_TABLE)
    assert found.spans() == [
        (FEB_1 + 23 * HOUR, FEB_1 + 24 * HOUR, "qs", 4),
        (FEB_1 + 32 * HOUR, FEB_1 + 33 * HOUR, "a,b", 2),
    ]
    assert found.openings == {"qs": 26}
    assert [bad.line for bad in found.first_bad] == [4], "a visit of a link that is not in the table"
    for answer in (exports.KUTT_LINKS, exports.KUTT_STATS):
        assert read("kutt", tmp_path, a_json=answer).openings == {"qs": 30}


def test_bitlys_days_are_buckets_and_the_rest_of_a_total_an_opening(tmp_path: Path) -> None:
    found = read("bitly", tmp_path, clicks_ndjson=exports.BITLY_LINES)
    assert [(end - start, key, people) for start, end, key, people in found.spans()] == [
        (DAY, "3abc", 4),
        (DAY, "3abc", 9),
    ]
    assert found.openings == {"3abc": 7, "only-total": 6}
    assert [bad.reason for bad in found.first_bad] == ["clicks by month; ask Bitly for days"]
    starts = [line["buckets"][0][0] for line in found.lines]
    assert starts == sorted(starts)


def test_goatcounter_has_views_or_hours(tmp_path: Path) -> None:
    found = read("goatcounter", tmp_path, e_gz=gzip.compress(exports.GOATCOUNTER_CSV.encode()))
    assert found.visits() == [
        (FEB_1 + DAY - 1, "abc", False),
        (FEB_1 + DAY + 8 * HOUR + 1_800, "click-banana", False),
        (FEB_1 + 2 * DAY + 9 * HOUR + 5, "abc", True),
    ]
    assert [bad.reason for bad in found.first_bad] == ["no link"]
    hours = read("goatcounter", tmp_path, e_zip=exports.goatcounter_zip())
    assert [(start - FEB_1, end - start, key, people) for start, end, key, people in hours.spans()] == [
        (23 * HOUR, HOUR, "abc", 4),
        (32 * HOUR, HOUR, "abc", 1),
        (32 * HOUR, HOUR, "click-banana", 3),
    ]


def test_plausible_has_days_of_pages_and_its_goals_are_of_no_link(tmp_path: Path) -> None:
    found = read("plausible", tmp_path, export_zip=exports.plausible_zip())
    assert [(start - FEB_1, end - start, key, people) for start, end, key, people in found.spans()] == [
        (0, DAY, "abc", 9),
        (0, DAY, "abc", 1),
        (DAY, DAY, "caf%C3%A9", 2),
    ]
    assert {(bad.line, bad.reason) for bad in found.first_bad} == {
        (5, "no time, count or link"),
        (2, "the goal 'Purchase' is of no page, and so of no link"),
    }
    loose = read("plausible", tmp_path, pages_csv=exports.PLAUSIBLE_PAGES, goals_csv=exports.PLAUSIBLE_GOALS)
    assert (loose.lines, loose.bad) == (found.lines, found.bad)
    tokyo = read_paths(
        "plausible", exports.written(tmp_path, p_csv=exports.PLAUSIBLE_PAGES), zone=ZoneInfo("Asia/Tokyo")
    )
    assert tokyo.lines == found.lines, "a date is a day, whatever the zone"
    (tmp_path / "in_key.zip").write_bytes(exports.plausible_zip())
    in_key = read_paths("plausible", [tmp_path / "in_key.zip"], Hosts(in_key=True))
    assert [key for _, _, key, _ in in_key.spans()] == ["s.example/abc", "b.example/abc", "s.example/caf%C3%A9"]


def said_in(found: Found) -> list[dict[str, str]]:
    visits = [line for line in found.lines if "ts" in line]
    return [{name: text for name, text in visit.items() if name not in ("key", "ts", "bot")} for visit in visits]


def test_visits_say_what_their_exports_document(tmp_path: Path) -> None:
    person, crawler = {"ua": exports.BROWSER}, {"ua": exports.CRAWLER}
    shlink = read("shlink", tmp_path, visits_csv=exports.SHLINK_VISITS)
    assert said_in(shlink) == [person, {"ua": "some, crawler/1.4"}, {**person, "ref": "x.com"}]
    answer = json.loads(json.dumps(exports.SHLINK_VISITS_ANSWER))
    answer["visits"]["data"][0] |= {"referer": "https://news.example/a?b", "visitLocation": {"countryCode": "de"}}
    assert said_in(read("shlink", tmp_path, v_json=answer)) == [{**person, "ref": "news.example", "country": "DE"}]
    yourls = read("yourls", tmp_path, log_csv=exports.YOURLS_LOG)
    assert said_in(yourls) == [{**person, "country": "FR"}, crawler, {**person, "country": "FR"}]
    assert not any("203.0.113" in line for line in map(str, yourls.lines)), "no address is carried"
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
    (line,) = read("kutt", tmp_path, visits_csv=table, links_csv=exports.KUTT_LINKS_TABLE).lines
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
        ({"x_csv": "some,other,table\n1,2,3\n"}, "is not a known export of"),
        ({"x_json": {"hello": 1}}, "is not a known export of"),
        ({"x_csv": b"\x1f\x8bnothing"}, "is damaged"),
        ({"x_zip": b"PK\x03\x04nothing"}, "is damaged"),
        ({"x_json": '{"a": 1}\n{"b": '}, "neither JSON nor lines of JSON"),
        ({"x_csv": ""}, "is not a known export of"),
    ],
)
def test_another_file_is_refused_by_name(tmp_path: Path, product: str, file: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceUnreadable, match=said) as refused:
        read(product, tmp_path, **file)
    assert "x." in refused.value.detail


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="cannot be read"):
        read_paths("shlink", [tmp_path / "none.csv"])


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
    assert HOSTS_IGNORED.key_of_address(address) == key


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("https://S.test/Abc?x=1#y", "s.test/Abc"),
        ("http://s.test:8080/a/b", "s.test:8080/a/b"),
        ("http://s.test:80/a", "s.test/a"),
        ("https://s.test:443/a", "s.test/a"),
        ("https://ann:pw@s.test/a", "s.test/a"),
        ("https://xn--bcher-kva.test/a", "xn--bcher-kva.test/a"),
        ("https://bücher.test/a", "bücher.test/a"),
        ("http://[2001:DB8::1]:8080/a", "[2001:db8::1]:8080/a"),
        ("bit.ly/3abc", "bit.ly/3abc"),
        ("https://s.test/", ""),
        ("https:///abc", ""),
        ("https://[broken/x", ""),
        (None, ""),
    ],
)
def test_a_key_is_the_host_and_the_path_where_hosts_are_in_keys(address: object, key: str) -> None:
    assert Hosts(in_key=True).key_of_address(address) == key


def test_what_names_no_host_has_the_one_that_is_given_or_is_bad(tmp_path: Path) -> None:
    assert Hosts(in_key=True, default="s.test").key("abc") == "s.test/abc"
    (tmp_path / "links.csv").write_text("keyword,clicks\nabc,7\n")
    with_default = read_paths("yourls", [tmp_path / "links.csv"], Hosts(in_key=True, default="s.test"))
    assert with_default.openings == {"s.test/abc": 7}
    without = read_paths("yourls", [tmp_path / "links.csv"], Hosts(in_key=True))
    assert (without.openings, without.bad) == ({}, 1)


def test_domains_of_one_product_are_links_of_their_own(tmp_path: Path) -> None:
    visits = "Date,Visited URL,Potential bot\n" + "".join(
        f"2026-01-01T00:00:00Z,https://{host}/x,\n" for host in ("a.example", "A.EXAMPLE:443", "b.example")
    )
    (tmp_path / "visits.csv").write_text(visits)
    taken = read_paths("shlink", [tmp_path / "visits.csv"], Hosts(in_key=True))
    assert [line["key"] for line in taken.lines] == ["a.example/x", "a.example/x", "b.example/x"]


def zipped(**parts: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name.replace("_jsonl", ".jsonl"), data)
    return packed.getvalue()


PATHS, HOURS = b'{"id":1,"path":"/a"}\n', b'{"hour":"2026-01-01T00:00:00Z","path_id":1,"count":1}\n'
GOOD_ZIP = zipped(paths_jsonl=PATHS, hit_stats_jsonl=HOURS)
_AT = GOOD_ZIP.index(b"paths.jsonl") + 11
PLAUSIBLE_ZIP = exports.plausible_zip()
_IN_PAGES = PLAUSIBLE_ZIP.index(b"imported_pages_20260201_20260203.csv") + 36
DAMAGED: dict[str, tuple[str, bytes]] = {
    "deflate of a zip": ("goatcounter", GOOD_ZIP[:_AT] + b"\xff" * 6 + GOOD_ZIP[_AT + 6 :]),
    "a zip that was cut": ("goatcounter", GOOD_ZIP[:-30]),
    "a part of a table": ("plausible", PLAUSIBLE_ZIP[:_IN_PAGES] + b"\xff" * 6 + PLAUSIBLE_ZIP[_IN_PAGES + 6 :]),
    "a part without its columns": ("plausible", zipped(**{"imported_pages.csv": b"date,page\n"})),
    "a part with a long field": (
        "plausible",
        zipped(**{"imported_pages.csv": b"date,page,pageviews\n" + b"a" * (3 << 20)}),
    ),
    "lines that are lists": ("goatcounter", zipped(paths_jsonl=b"[1]\n", hit_stats_jsonl=HOURS)),
    "a line that is a number": ("goatcounter", zipped(paths_jsonl=PATHS, hit_stats_jsonl=b"5\n")),
    "deflate of a gzip": ("shlink", gzip.compress(b"Date,Visited URL\n" * 99)[:12] + b"\xff" * 40),
    "a gzip that was cut": ("shlink", gzip.compress(b"a" * 999)[:-9]),
    "deep lists": ("shlink", b"[" * 200_000),
    "deep objects": ("yourls", b'{"a":' * 200_000),
    "a deep line": ("bitly", b"{}\n" + b"[" * 200_000),
    "a long field of the header": ("yourls", b"keyword,clicks," + b"a" * (3 << 20) + b"\n"),
    "an open quote in the header": ("yourls", b'"keyword' + b"x" * (3 << 20)),
    "a long field": ("yourls", b"keyword,clicks\n" + b"a" * (3 << 20) + b",1\n"),
}
SHORT: dict[str, tuple[str, bytes]] = {
    "shlink's visits": ("shlink", b"Date,Visited URL\n2026-01-01\n"),
    "shlink's links": ("shlink", b"shortCode,visits\na\n"),
    "without a time": ("shlink", b"Visited URL,Date\nhttp://h/a\n"),
    "yourls": ("yourls", b"shorturl,click_time\na\n"),
    "kutt's links": ("kutt", b"id,address,visit_count\n1\n"),
    "kutt's visits": ("kutt", b"link_id,created_at,total\n1\n"),
    "goatcounter": ("goatcounter", b"Date,2Path\n2026-01-01\n"),
    "plausible": ("plausible", b"date,page,pageviews\n2026-01-01\n"),
    "a goal of plausible": ("plausible", b"date,name,events\n2026-01-01\n"),
    "an id that is a list": ("goatcounter", zipped(paths_jsonl=b'{"id":[1]}\n', hit_stats_jsonl=HOURS)),
    "an hour of a list": (
        "goatcounter",
        zipped(paths_jsonl=PATHS, hit_stats_jsonl=b'{"path_id":[1],"hour":1,"count":1}\n'),
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, name: str) -> None:
    product, data = DAMAGED[name]
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(SourceUnreadable) as refused:
        read_paths(product, [tmp_path / "file"])
    assert len(refused.value.detail) < 300
    assert "\n" not in refused.value.detail


@pytest.mark.parametrize("name", SHORT)
def test_a_row_that_lacks_columns_is_bad_and_the_rest_counts(tmp_path: Path, name: str) -> None:
    product, data = SHORT[name]
    (tmp_path / "file").write_bytes(data)
    found = read_paths(product, [tmp_path / "file"])
    assert (found.bad, found.lines, found.openings) == (1, [], {})


def document(value: object) -> bytes:
    return json.dumps(value).encode()


# An address, or what another row names a link by, that is no text: product, file.
OF_WRONG_TYPES: dict[str, tuple[str, bytes]] = {
    "kutt's address is an object": ("kutt", document({"data": [{"address": {"x": 1}, "visit_count": 3}]})),
    "kutt's address is a list": ("kutt", document([{"address": ["a", "b"], "visit_count": 3}])),
    "kutt's address is true": ("kutt", document({"address": True, "visit_count": 3})),
    "kutt's address is a number": ("kutt", document({"data": [{"address": 12, "visit_count": 3}]})),
    "kutt's link has no count": ("kutt", document([{"address": "a", "visit_count": 0}, {"address": "b"}])),
    "shlink's code is an object": ("shlink", document({"shortUrls": {"data": [{"shortCode": {}, "visitsCount": 3}]}})),
    "shlink's visit is null": ("shlink", document({"visits": {"data": [None]}})),
    "shlink's link is a number": ("shlink", document({"shortUrls": {"data": [7]}})),
    "yourls' link is a text": ("yourls", document({"links": [{"shorturl": "http://s/a", "clicks": 0}, "b"]})),
    "yourls' address is a list": ("yourls", document({"links": {"link_1": {"shorturl": ["a"], "clicks": 1}}})),
    "bitly's clicks are null": ("bitly", document({"link_clicks": None, "bitlink": "bit.ly/a"})),
    "bitly's answer is an error": (
        "bitly",
        document({"message": "FORBIDDEN"}) + b"\n" + document({"link_clicks": [], "bitlink": "bit.ly/a"}),
    ),
    "goatcounter's path is a number": ("goatcounter", zipped(paths_jsonl=b'{"id":1,"path":7}', hit_stats_jsonl=HOURS)),
    "goatcounter's path is an object": (
        "goatcounter",
        zipped(paths_jsonl=b'{"id":1,"path":{"a":1}}', hit_stats_jsonl=HOURS),
    ),
    "goatcounter's path is null": ("goatcounter", zipped(paths_jsonl=b'{"id":1,"path":null}', hit_stats_jsonl=HOURS)),
    "goatcounter's ids are missing": (
        "goatcounter",
        zipped(paths_jsonl=b'{"path":"/a"}', hit_stats_jsonl=b'{"hour":"2026-01-01T00:00:00Z","count":1}'),
    ),
    "goatcounter's ids are true": (
        "goatcounter",
        zipped(paths_jsonl=b'{"id":true,"path":"/a"}', hit_stats_jsonl=HOURS.replace(b":1,", b":true,")),
    ),
    "a time beyond all": ("shlink", document({"visits": {"data": [{"visitedUrl": "http://s/a", "date": 1e300}]}})),
    "a count beyond all": ("yourls", b"keyword,clicks\na,9999999999999999999\n"),
    "a key beyond all": ("yourls", b"keyword,clicks\n" + b"a" * 1_025 + b",3\n"),
}


@pytest.mark.parametrize("name", OF_WRONG_TYPES)
def test_what_is_of_another_type_makes_no_link_and_is_told(tmp_path: Path, name: str) -> None:
    product, data = OF_WRONG_TYPES[name]
    (tmp_path / "file").write_bytes(data)
    found = read_paths(product, [tmp_path / "file"])
    assert (found.bad, found.lines, found.openings) == (1, [], {})


def test_ids_that_are_missing_in_tables_do_not_match_each_other(tmp_path: Path) -> None:
    links = "id,address,visit_count\n,a,0\n2,b,0\n"
    visits = "link_id,created_at,total\n,2026-02-01 23:00:00,4\n2,2026-02-01 23:00:00,5\n"
    found = read("kutt", tmp_path, visits_csv=visits, links_csv=links)
    assert ([line["key"] for line in found.lines], found.bad) == (["b"], 1)


@pytest.mark.parametrize("clicks", ["abc", {"a": 1}, 5, True])
def test_anything_where_a_list_of_clicks_belongs_is_a_bad_file(tmp_path: Path, clicks: object) -> None:
    answers = [
        {"total_clicks": 4, "bitlink": "bit.ly/a"},
        {"link_clicks": clicks, "unit": "day", "bitlink": "bit.ly/x"},
    ]
    with pytest.raises(SourceUnreadable, match="answer 2: link_clicks is not a list"):
        read("bitly", tmp_path, a_ndjson="\n".join(map(json.dumps, answers)))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
def test_a_file_may_be_packed_in_any_way_and_begin_with_a_mark(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    found = read("yourls", tmp_path, a_csv=pack(b"\xef\xbb\xbfkeyword,clicks\r\na,1\r\nb,2\r\n"))
    assert found.openings == {"a": 1, "b": 2}


def test_a_row_may_be_of_several_lines_and_has_a_longest_length(tmp_path: Path) -> None:
    rows = 'keyword,title,clicks\na,"two\nlines",1\n' + 'b,"' + "long\n" * 200_000 + '",2\n'
    assert read("yourls", tmp_path, a_csv=rows).openings == {"a": 1, "b": 2}
    for bad in ("c," + "," * (1 << 20) + "\n", "c," + '"\n",' * (1 << 18) + "\n"):
        with pytest.raises(SourceUnreadable, match="a row of more than 1,048,576 characters"):
            read("yourls", tmp_path, a_csv=rows + bad)
    with pytest.raises(SourceUnreadable, match="more than 1,000 columns"):
        read("yourls", tmp_path, a_csv="keyword,clicks" + ",x" * 999 + "\na,1\n")


def test_what_a_zip_file_lists_is_bounded_and_its_packing_known(tmp_path: Path) -> None:
    many = zipped(paths_jsonl=PATHS, hit_stats_jsonl=HOURS, **{f"x{n:0>300}": b"" for n in range(13_000)})
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("paths.jsonl", PATHS)
        archive.writestr("hit_stats.jsonl", HOURS)
    for data, said in ((many, "more than 4 MiB"), (packed.getvalue(), "pack it anew")):
        with pytest.raises(SourceUnreadable, match=said):
            read("goatcounter", tmp_path, e_zip=data)


def test_an_export_comes_through_a_pipe_but_for_a_zip_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for product, data, openings in (("yourls", b"keyword,clicks\na,1\n", {"a": 1}), ("goatcounter", GOOD_ZIP, None)):
        writing = Thread(target=pipe.write_bytes, args=(data,))
        writing.start()
        if openings is None:
            with pytest.raises(SourceUnreadable, match="cannot be read from a pipe"):
                read_paths(product, [pipe])
        else:
            assert read_paths(product, [pipe]).openings == openings
        writing.join()


def test_sums_beyond_what_can_be_kept_are_one_sentence(tmp_path: Path) -> None:
    links = "id,address,visit_count\n1,a,5\n"
    visits = "link_id,created_at,total\n" + "1,2026-02-01 23:00:00,9000000000000000000\n" * 2
    with pytest.raises(SourceUnreadable, match="integer overflow"):
        read("kutt", tmp_path, visits_csv=visits, links_csv=links)


def test_lines_that_the_temporary_folder_does_not_take_are_one_sentence(tmp_path: Path) -> None:
    paths = exports.written(tmp_path, v_csv=exports.SHLINK_VISITS)
    with Takeover(HOSTS_IGNORED, bot_judge()) as taken:
        read_product("shlink", paths, taken)
        with Path("/dev/full").open("wb") as full, pytest.raises(SourceUnreadable) as raised:
            try:
                taken.write_history(full)
            finally:
                with suppress(OSError):
                    full.close()
    assert "does not take what was read (No space left on device): make room there" in raised.value.detail
