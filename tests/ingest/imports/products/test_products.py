"""What is read of other products' exports: visits, buckets, and totals that have no dates."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from clickcurve.hosts import HOSTS_IGNORED, Hosts
from ingest.agents.bots import bot_judge
from ingest.imports.products import tables
from ingest.imports.products.products import PRODUCTS, read_product
from ingest.imports.products.takeover import Takeover
from ingest.imports.source import SourceUnreadable
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
    assert answers.openings() == {"abc": 9, "old": 40}, "bots without dates are counted nowhere"


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
    with_default = read_product("yourls", [tmp_path / "links.csv"], bot_judge(), Hosts(in_key=True, default="s.test"))
    assert with_default.totals == {"s.test/abc": 7}
    without = read_product("yourls", [tmp_path / "links.csv"], bot_judge(), Hosts(in_key=True))
    assert (without.totals, without.bad) == ({}, 1)


def test_domains_of_one_product_are_links_of_their_own(tmp_path: Path) -> None:
    visits = "Date,Visited URL,Potential bot\n" + "".join(
        f"2026-01-01T00:00:00Z,https://{host}/x,\n" for host in ("a.example", "A.EXAMPLE:443", "b.example")
    )
    (tmp_path / "visits.csv").write_text(visits)
    taken = read_product("shlink", [tmp_path / "visits.csv"], bot_judge(), Hosts(in_key=True))
    assert [visit.key for visit in taken.visits] == ["a.example/x", "a.example/x", "b.example/x"]


def zipped(**parts: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name.replace("_jsonl", ".jsonl"), data)
    return packed.getvalue()


PATHS, HOURS = b'{"id":1,"path":"/a"}\n', b'{"hour":"2026-01-01T00:00:00Z","path_id":1,"count":1}\n'
GOOD_ZIP = zipped(paths_jsonl=PATHS, hit_stats_jsonl=HOURS)
_AT = GOOD_ZIP.index(b"paths.jsonl") + 11
DAMAGED: dict[str, tuple[str, bytes]] = {
    "deflate of a zip": ("goatcounter", GOOD_ZIP[:_AT] + b"\xff" * 6 + GOOD_ZIP[_AT + 6 :]),
    "a zip that was cut": ("goatcounter", GOOD_ZIP[:-30]),
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
        read_product(product, [tmp_path / "file"], bot_judge())
    assert len(refused.value.detail) < 300
    assert "\n" not in refused.value.detail


@pytest.mark.parametrize("name", SHORT)
def test_a_row_that_lacks_columns_is_bad_and_the_rest_counts(tmp_path: Path, name: str) -> None:
    product, data = SHORT[name]
    (tmp_path / "file").write_bytes(data)
    found = read_product(product, [tmp_path / "file"], bot_judge())
    assert (found.bad, found.visits, found.buckets, found.openings()) == (1, [], [], {})


def test_what_a_file_unpacks_to_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "EXPORT_BYTES", 1 << 20)
    files = {
        "gzip": ("shlink", gzip.compress(b"Date,Visited URL\n" + bytes(4 << 20))),
        "plain": ("shlink", b"Date,Visited URL\n" + bytes(4 << 20)),
        "zip": ("goatcounter", zipped(paths_jsonl=bytes(4 << 20), hit_stats_jsonl=HOURS)),
    }
    for product, data in files.values():
        (tmp_path / "file").write_bytes(data)
        with pytest.raises(SourceUnreadable, match="more than 1 MiB"):
            read_product(product, [tmp_path / "file"], bot_judge())
    (tmp_path / "file").write_bytes(zipped(paths_jsonl=PATHS, hit_stats_jsonl=HOURS, x=bytes(4 << 20)))
    assert len(read_product("goatcounter", [tmp_path / "file"], bot_judge()).buckets) == 1  # nobody asks for x
