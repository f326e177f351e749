"""What bodies mean: arrays, objects, lines, and everything that is none of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clickcurve.buckets.errors import BodyTooLarge, BodyUnreadable, MediaTypeUnsupported
from ingest.reading.body import PIECE_BYTES, Media, media_of, read_hits
from ingest.reading.json_hit import HIT_BYTES
from ingest.reading.receipt import Receipt
from ingest.reading.request_sums import RequestSums
from tests.ingest.http_kit import DAY, MINUTE, MOMENT, NOW, summed


def sums_from(body: bytes, media: Media = Media.json, piece_bytes: int = PIECE_BYTES) -> RequestSums:
    return summed(body, media, RequestSums(MOMENT), piece_bytes)


def receipt_of(body: bytes, media: Media = Media.json, piece_bytes: int = PIECE_BYTES) -> Receipt:
    return sums_from(body, media, piece_bytes).receipt()


def fields_refused(body: bytes, media: Media = Media.json) -> list[tuple[int, str | None]]:
    return [(item.index, item.field) for item in receipt_of(body, media).items]


def test_hits_are_summed_by_minute_and_key() -> None:
    hits = [
        {"key": "a", "ts": NOW},
        {"key": "a", "ts": MINUTE},
        {"key": "a", "ts": MINUTE - 1},
        {"key": "b", "ts": MINUTE + 59, "count": 5},
        {"key": "b", "ts": "2026-01-01T12:00:00Z", "ua": "Googlebot/2.1"},
        {"key": "a"},
    ]
    batch = sums_from(json.dumps(hits).encode()).batch()
    assert batch is not None
    assert batch.people == {MINUTE: {"a": 3, "b": 5}, MINUTE - 60: {"a": 1}}
    assert batch.bots == {MINUTE: {"b": 1}}
    assert batch.identified == []
    assert (batch.openings, batch.source) == ({}, None)


def test_late_is_before_the_oldest_day_kept_in_minutes() -> None:
    hits = [{"key": "a", "ts": DAY}, {"key": "a", "ts": DAY - 1, "count": 3}, {"key": "a", "ts": 0, "bot": True}]
    assert receipt_of(json.dumps(hits).encode()) == Receipt(counted=5, duplicate=0, late=4, refused=0, items=())


def test_the_tolerance_for_clocks_ahead_ends_within_a_minute() -> None:
    edge = NOW + 300
    hits = [{"key": "a", "ts": ts} for ts in (edge, edge + 1, edge, edge + 25, edge + 26, edge - 35)]
    assert fields_refused(json.dumps(hits).encode()) == [(1, "ts"), (3, "ts"), (4, "ts")]
    assert receipt_of(json.dumps(hits).encode()).counted == 3


@pytest.mark.parametrize("body", [b"[]", b" [ ] ", b"\xef\xbb\xbf[]", b"[\n]\n"])
def test_an_empty_array_counts_nothing_and_is_fine(body: bytes) -> None:
    receipt = receipt_of(body)
    assert receipt == Receipt(0, 0, 0, 0, ())
    assert receipt.status == 200
    assert sums_from(body).batch() is None


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"null", b"3", b"-1.5", b'"a"', b"true", b"nope", b"{", b"}", b"[", b"]", b"[{", b"[}", b"[]]",
        b"[][]", b"[] x", b"{}{}", b'{"key":"a"} {"key":"b"}', b'[{"key":"a"},]', b'[,{"key":"a"}]', b'[{"key":"a"}',
        b'[{"key":"a"}{"key":"b"}]', b'[{"key":"a"};]', b'[{"key":"a"}}', b'[{"key":"a","ts":NaN}]',
        b'[{"key":"a","ts":Infinity}]', b"['a']", b'[{"key":"a\x01"}]', b'["\x00"]', b'[{"key":"a","ts":01}]',
        b'[{"key":"a]', b'["', b'["\\', b"\xff\xfe[\x00]\x00", b"\xfe\xff\x00[\x00]", b"[\x00]\x00", b"\x1f\x8b",
        b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000, b'[{"x":' + b"[" * 50_000 + b"}]",
    ],
)  # fmt: skip
def test_a_body_that_is_not_json_is_unreadable_as_a_whole(body: bytes) -> None:
    for piece_bytes in (1, 8, PIECE_BYTES):
        with pytest.raises(BodyUnreadable):
            sums_from(body, piece_bytes=piece_bytes)


def test_an_unreadable_end_leaves_nothing_to_count() -> None:
    body = b'[{"key":"a"},' + b'{"key":"b"},' * 20_000 + b'{"key":"c"'
    with pytest.raises(BodyUnreadable):
        sums_from(body)


def test_elements_that_are_no_hits_are_refused_one_by_one() -> None:
    body = b'[1,"x",null,true,[],[{}],{},{"key":"good"},{"key":null},-1.5e3,[[{"key":"a"},{"key":"b"}]]]'
    for piece_bytes in (1, 7, PIECE_BYTES):
        receipt = receipt_of(body, piece_bytes=piece_bytes)
        assert (receipt.counted, receipt.refused) == (1, 10)
        assert [item.index for item in receipt.items] == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10]
        assert {item.field for item in receipt.items} == {"hit", "key"}


ODD_HITS: list[tuple[bytes, str | None]] = [
    (rb'{"key":"\ud800"}', "key"),
    (rb'{"key":"a\udc00b"}', "key"),
    (rb'{"key":"\udc00\ud800"}', "key"),
    (rb'{"key":"\ud83d\ude00"}', None),
    (rb'{"key":"\\ud800"}', None),
    (rb'{"key":"a","x":"\ud800"}', None),
    (rb'{"key":"a","ua":"\ud800"}', None),
    (rb'{"key":"a","id":"\ud800"}', "id"),
    (rb'{"key":"a","ts":"\ud800"}', "ts"),
    (rb'{"key":"a","\ud800":1}', None),
    (rb'"\ud800"', "hit"),
    (rb'["\ud800",{}]', "hit"),
    (rb'{"key":"\ud800","ts":123456789012345678901234567890123456789012345678901234567890}', "key"),
    (rb'{"key":"a","x":"\ud800","ts":1e400}', "ts"),
    (rb'{"key":"a","x":"\ud800","ts":{"a":1}}', "ts"),
    (b'{"key":"\xff"}', "key"),
    (b'{"key":"\xed\xa0\x80"}', "key"),
    (b'{"key":"\xc0\x80"}', "key"),
    (b'{"key":"a","x":"\xff"}', None),
    (rb'{"key":"\u0000"}', None),
    (rb'{"\u006bey":"a"}', None),
    (b'{"key":"a","key":"b"}', None),
    (b'{"key":1,"key":"b"}', None),
    (b'{"key":"b","key":1}', "key"),
    (b'{"key":"a","count":0,"count":1}', None),
    (b'{"key":"a","ts":1e400}', "ts"),
    (b'{"key":"a","ts":-1e400}', "ts"),
    (b'{"key":"a","ts":1e2}', "ts"),
    (b'{"key":"a","ts":1e4}', None),
    (b'{"key":"a","ts":1e-400}', None),
    (b'{"key":"a","ts":-0}', None),
    (b'{"key":"a","ts":-0.0}', None),
    (b'{"key":"a","ts":-1}', "ts"),
    (b'{"key":"a","ts":-0.5}', "ts"),
    (b'{"key":"a","ts":%s}' % (b"9" * 5000), "ts"),
    (b'{"key":"a","ts":-%s}' % (b"9" * 5000), "ts"),
    (b'{"key":"a","ts":0.%s}' % (b"9" * 5000), "ts"),
    (b'{"key":"a","ts":0.%s}' % (b"9" * 9), None),
    (b'{"key":"a","ts":true}', "ts"),
    (b'{"key":"a","ts":null}', None),
    (b'{"key":"a","ts":[]}', "ts"),
    (b'{"key":"a","ts":{}}', "ts"),
    (b'{"key":"a","ts":""}', "ts"),
    (b'{"key":"a","ts":1767268834000}', "ts"),
    (b'{"key":"a","count":%s}' % (b"9" * 5000), "count"),
    (b'{"key":"a","count":1.0}', "count"),
    (b'{"key":"a","count":1e0}', "count"),
    (b'{"key":"a","count":true}', "count"),
    (b'{"key":"a","count":"1"}', "count"),
    (b'{"key":"a","count":0}', "count"),
    (b'{"key":"a","count":-0}', "count"),
    (b'{"key":"a","count":null}', None),
    (b'{"key":"a","count":1000000000}', None),
    (b'{"key":"a","count":1000000001}', "count"),
    (b'{"key":"a","id":""}', "id"),
    (b'{"key":"a","id":null}', None),
    (b'{"key":"a","id":7}', "id"),
    (b'{"key":"a","bot":null,"ua":null}', None),
    (b'{"key":"a","bot":0}', "bot"),
    (b'{"key":"a","bot":true,"ua":7}', "ua"),
    (b'{"key":"a","ua":"%s"}' % (b"x" * 100_000), None),
    (b'{"key":"","count":5}', "key"),
    (b'{"key":"%s"}' % (b"x" * 1024), None),
    (b'{"key":"%s"}' % (b"x" * 1025), "key"),
    (b'{"key":"%s"}' % (b"\\u0061" * 1024), None),
    (b'{"key":"%s"}' % ("ä".encode() * 512), None),
    (b'{"key":"%s"}' % ("ä".encode() * 513), "key"),
    (b'{"key":"a","x":%s}' % (b"[" * 500 + b"]" * 500), None),
    (b'{"KEY":"a"}', "key"),
    (b"{}", "key"),
    (b'{"key":["a"]}', "key"),
    (b'{"key":{"key":"a"}}', "key"),
    (b'{"key":"},{"}', None),
    (b'{"key":"a","x":[{},{},{"key":"b"},{"key":"c"}]}', None),
    (b'{"key":"a","x":{"y":{"z":[1,2,{"key":"},{"}]}}}', None),
    (b'{"key":"a","x":"\\"},{\\""}', None),
    (b' { "key" : "a" } ', None),
]


@pytest.mark.parametrize(("hit", "field"), ODD_HITS, ids=[hit[:40].decode("latin-1") for hit, _ in ODD_HITS])
def test_an_odd_hit_is_judged_alike_wherever_it_stands(hit: bytes, field: str | None) -> None:
    good = b'{"key":"good","ts":1767225600}'
    if hit.strip().startswith(b"{"):
        assert fields_refused(hit) == ([] if field is None else [(0, field)])
    for piece_bytes in (1, 60, PIECE_BYTES):
        for before, behind in ((0, 0), (1, 0), (0, 1), (3, 3)):
            hits = [good] * before + [hit] + [good] * behind
            expected = [] if field is None else [(before, field)]
            for body, media in (
                (b"[" + b",".join(hits) + b"]", Media.json),
                (b" [\r\n\t" + b" ,\n ".join(hits) + b"\n] \n", Media.json),
                (b"\n".join(hits), Media.lines),
                (b"\r\n\r\n".join(hits) + b"\r\n \t\r\n", Media.lines),
            ):
                receipt = receipt_of(body, media, piece_bytes)
                assert [(item.index, item.field) for item in receipt.items] == expected
                assert receipt.status == (422 if expected and len(hits) == 1 else 200)


def test_the_last_of_fields_with_one_name_counts() -> None:
    batch = sums_from(b'[{"key":"a","count":2,"key":"b","count":3}]').batch()
    assert batch is not None
    assert batch.people == {MINUTE: {"b": 3}}


def test_a_refused_hit_sums_as_its_count_if_that_is_valid() -> None:
    hits: list[dict[str, Any]] = [
        {"key": "", "count": 7},
        {"key": "a", "ts": NOW + 1000, "count": 20},
        {"key": "a", "ts": "x", "count": 300},
        {"key": "a", "count": 0},
        {"key": 1, "count": 4000},
        {"key": "a", "id": "", "count": True},
    ]
    assert receipt_of(json.dumps(hits).encode()).refused == 7 + 20 + 300 + 1 + 4000 + 1


# --- lines -----------------------------------------------------------------------------------------------------------
def test_a_bad_line_is_one_refused_hit() -> None:
    lines = [
        b'{"key":"a"}',
        b"nope",
        b'{"key":"a"',
        b"",
        b"null",
        b'{"key":"b"} {"key":"c"}',
        b'["a"]',
        b'{"key":"d"}',
        b"\xff",
    ]
    for piece_bytes in (1, 20, PIECE_BYTES):
        receipt = receipt_of(b"\n".join(lines), Media.lines, piece_bytes)
        assert (receipt.counted, receipt.refused) == (2, 6)
        assert [item.index for item in receipt.items] == [1, 2, 3, 4, 5, 7]
        assert all(item.field == "hit" for item in receipt.items)


def test_one_value_a_line_even_if_all_values_are_good() -> None:
    assert receipt_of(b'{"key":"a"}{"key":"b"}\n{"key":"c"}', Media.lines).refused == 1
    assert receipt_of(b'{"key":\n"a"}', Media.lines).refused == 2
    assert receipt_of(b'{"key":"a"}\r{"key":"b"}', Media.lines).refused == 1


@pytest.mark.parametrize("body", [b"", b"\n", b"\r\n\r\n", b" \t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_no_lines_are_no_hits(body: bytes) -> None:
    assert receipt_of(body, Media.lines) == Receipt(0, 0, 0, 0, ())


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n", b" \n"])
def test_line_ends_do_not_matter(end: bytes) -> None:
    body = b"\xef\xbb\xbf" + b'{"key":"a"}\r\n\r\n\n  {"key":"b"}  \n\t{"key":"c"}' + end
    assert receipt_of(body, Media.lines).counted == 3


def test_a_line_nested_too_deeply_is_refused_alone() -> None:
    body = b'{"key":"a"}\n{"key":"b","x":' + b"[" * 50_000 + b"]" * 50_000 + b'}\n{"key":"c"}'
    assert fields_refused(body, Media.lines) == [(1, "hit")]


# --- large bodies ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("separator", [b",", b", ", b" ,\n  "])
@pytest.mark.parametrize(
    "element", [b'{"key":"a"}', b'{"key":"a","x":{"y":[{},{}]}}', b'{"key":"a","ua":"x","id":null}']
)
def test_a_large_array_is_read_to_the_last_hit(separator: bytes, element: bytes) -> None:
    body = b"[" + separator.join([element] * 30_000) + b"]"
    assert receipt_of(body) == Receipt(counted=30_000, duplicate=0, late=0, refused=0, items=())


@pytest.mark.parametrize("element", [b"1", b"[]", b'"},{"', b"{}", b'[["a","b"]]', b"{}   "])
def test_a_large_array_of_anything_is_refused_in_bounded_pieces(element: bytes) -> None:
    receipt = receipt_of(b"[" + b",".join([element] * 20_000) + b"]", piece_bytes=4096)
    assert (receipt.refused, len(receipt.items), receipt.items_omitted) == (20_000, 1000, 19_000)
    assert [item.index for item in receipt.items] == list(range(1000))


def test_large_bodies_are_read_in_steps() -> None:
    body = b"[" + b",".join([b'{"key":"a"}'] * 100_000) + b"]"
    assert sum(1 for _ in read_hits(body, Media.json)) >= 20
    lines = b"\n".join([b'{"key":"a","ua":"x"}'] * 10_000)
    assert sum(1 for _ in read_hits(lines, Media.lines)) >= 39


@pytest.mark.parametrize("over", [0, 1])
def test_a_hit_has_at_most_a_mebibyte(over: int) -> None:
    long = b'{"key":"h","x":"","y":1}'
    long = long.replace(b'""', b'"%s"' % (b"x" * (HIT_BYTES + over - len(long))))
    assert len(long) == HIT_BYTES + over
    good = b'{"key":"good"}'
    for body, media in ((long, Media.json), (long, Media.lines)):
        assert fields_refused(body, media) == [(0, "hit")] * over
    hits = [good, long, good, long]
    for body, media in ((b"[" + b",".join(hits) + b"]", Media.json), (b"\n".join(hits), Media.lines)):
        assert fields_refused(body, media) == [(1, "hit"), (3, "hit")] * over
        assert receipt_of(body, media).counted == 4 - 2 * over


def test_a_large_value_between_others_is_skipped() -> None:
    huge = b'{"key":"h","x":"' + b"y" * 500_000 + b'","z":[' + b"[]," * 100_000 + b"0]}"
    body = b"[" + b",".join([b'{"key":"a"}', huge, b'{"key":"b"}'] * 2) + b"]"
    assert receipt_of(body) == Receipt(counted=6, duplicate=0, late=0, refused=0, items=())


def test_quotes_without_end_are_found_at_once() -> None:
    with pytest.raises(BodyUnreadable):
        sums_from(b'[1,"' + b'\\"' * 500_000)


def test_too_many_ids_in_one_request_are_refused_as_a_whole() -> None:
    body = json.dumps([{"key": "a", "id": str(number)} for number in range(11)]).encode()
    assert summed(body, Media.json, RequestSums(MOMENT, identified_hits=11)).receipt().counted == 11
    with pytest.raises(BodyTooLarge):
        summed(body, Media.json, RequestSums(MOMENT, identified_hits=10))


# --- media types -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("header", "media"),
    [
        ("", Media.json),
        ("application/json", Media.json),
        ("APPLICATION/Json ; Charset=UTF-8", Media.json),
        ('application/json; charset="utf-8"', Media.json),
        ("application/json;", Media.json),
        ("application/json; version=1", Media.json),
        ("application/x-ndjson", Media.lines),
        ("application/ndjson;charset=utf8", Media.lines),
        ("application/cloudevents-batch+json; charset=utf-8", Media.events),
    ],
)
def test_media_types_that_are_read(header: str, media: Media) -> None:
    assert media_of(header) is media


@pytest.mark.parametrize(
    "header",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "application/cloudevents+json",
        "application/json, text/plain",
        "application/json; charset=utf-16",
        "application/json; charset=iso-8859-1",
        "application/" + "x" * 10_000,
        "json",
        "*/*",
        "\xff",
    ],
)
def test_other_media_types_are_not_supported(header: str) -> None:
    with pytest.raises(MediaTypeUnsupported) as caught:
        media_of(header)
    assert caught.value.field == "Content-Type"
