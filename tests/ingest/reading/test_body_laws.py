"""Laws of reading: however a body is cut it means the same, which is what a plain reader finds; and nothing crashes."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from typing import Any

import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clickcurve.buckets.errors import BodyUnreadable
from ingest.batch import Batch
from ingest.reading.body import PIECE_BYTES, Media
from ingest.reading.receipt import Receipt
from ingest.reading.request_sums import RequestSums
from tests.ingest.http_kit import DAY, MINUTE, MOMENT, NOW, Client, law, people_of, summed
from tests.power import examples

PIECES = (1, 2, 13, 60, 300, PIECE_BYTES)

keys = st.sampled_from(["a", "b", "", "},{", '"', "\\", "ä" * 600, "\n", "],["]) | st.text(max_size=6)
times = st.sampled_from(
    [
        *(NOW, MINUTE, DAY, DAY - 1, NOW + 300, NOW + 301, NOW * 1000, -1, 0, 1.5, float(NOW), "2026-01-01", "x"),
        *(1, 59, 2_026, 9_999, 10_000, 10_001),
    ]
)
odd = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
)
nested = st.recursive(
    odd, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
)
fields: dict[str, st.SearchStrategy[Any]] = {
    "ts": times | nested,
    "count": st.integers(1, 9) | odd,
    "id": st.sampled_from(["1", "2", "3", "", "x" * 128, "x" * 129]) | nested,
    "ua": st.sampled_from(["Googlebot/2.1", "Mozilla/5.0"]) | odd,
    "bot": st.booleans() | odd,
    "x": nested,
}
plain_hits = st.fixed_dictionaries(
    {"key": st.sampled_from("abc"), "ts": st.integers(NOW - 200, NOW) | st.integers(9_960, 10_030) | st.integers(0, 3)}
)
hits = st.fixed_dictionaries({"key": keys | nested}, optional=fields)
elements = plain_hits | hits | nested


def refused_field(hit: Any) -> str | None:
    """What is wrong with a hit, said once more as simply as can be."""
    if not isinstance(hit, dict):
        return "hit"
    key, ts, count, id_ = (hit.get(name) for name in ("key", "ts", "count", "id"))
    if not isinstance(key, str) or not 1 <= len(key.encode("utf-8", "surrogatepass")) <= 1024 or has_surrogate(key):
        return "key"
    if isinstance(ts, bool) or not isinstance(ts, int | float | str | None):
        return "ts"
    if isinstance(ts, str) and ts != "2026-01-01":
        return "ts"
    if isinstance(ts, int | float) and (not 0 <= ts < NOW + 301 or 1 <= ts < 10_000):
        return "ts"
    if count is not None and (type(count) is not int or not 1 <= count <= 10**9):
        return "count"
    if id_ is not None and not (isinstance(id_, str) and 1 <= len(id_) <= 128 and all("!" <= c <= "~" for c in id_)):
        return "id"
    if not isinstance(hit.get("ua"), str | None):
        return "ua"
    return None if isinstance(hit.get("bot"), bool | None) else "bot"


def has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def expected(elements: list[Any]) -> tuple[Counter[tuple[bool, int, str]], list[tuple[int, str | None]], int, int]:
    """Counts by (bot, minute, key), items by (index, field), and the sums of duplicates and refused."""
    counts: Counter[tuple[bool, int, str]] = Counter()
    items: list[tuple[int, str | None]] = []
    seen, duplicate, refused = set(), 0, 0
    for index, hit in enumerate(elements):
        count = hit.get("count") if isinstance(hit, dict) else None
        count = count if type(count) is int and 1 <= count <= 10**9 else 1
        field = refused_field(hit)
        if field is not None:
            items.append((index, field))
            refused += count
            continue
        if hit.get("id") is not None:
            if hit["id"] in seen:
                items.append((index, "id"))
                duplicate += count
                continue
            seen.add(hit["id"])
        ts = hit.get("ts")
        second = NOW if ts is None else DAY if isinstance(ts, str) else int(ts)
        bot = hit["bot"] if hit.get("bot") is not None else hit.get("ua") == "Googlebot/2.1"
        counts[bot, second - second % 60, hit["key"]] += count
    return counts, items, duplicate, refused


def counted(batch: Batch | None) -> Counter[tuple[bool, int, str]]:
    counts: Counter[tuple[bool, int, str]] = Counter()
    if batch is not None:
        parts = [(people_of(batch), batch.bots), *((one.people, one.bots) for one in batch.identified)]
        for people, bots in parts:
            for bot, minutes in ((False, people), (True, bots)):
                for minute, cell in minutes.items():
                    counts.update({(bot, minute, key): count for key, count in cell.items()})
    return counts


def outcome(body: bytes, media: Media, piece_bytes: int) -> tuple[Counter[tuple[bool, int, str]], Receipt] | None:
    try:
        sums = summed(body, media, RequestSums(MOMENT), piece_bytes)
    except BodyUnreadable:
        return None
    return counted(sums.batch()), sums.receipt()


@law
@given(
    st.lists(elements, max_size=12),
    st.sampled_from(PIECES),
    st.booleans(),
    st.sampled_from([None, 1]),
    st.sampled_from([",", ", "]),
)
@example([{"key": "a", "x": [{}, {}]}] * 5, 1, True, None, ",")
def test_an_array_is_what_a_plain_reader_finds(
    elements: list[Any], piece_bytes: int, ascii_only: bool, indent: int | None, comma: str
) -> None:
    text = json.dumps(elements, ensure_ascii=ascii_only, indent=indent, separators=(comma, ":"))
    found = outcome(text.encode("utf-8", "surrogatepass"), Media.json, piece_bytes)
    assert found is not None
    counts, items, duplicate, refused = expected(elements)
    assert found[0] == counts
    assert [(item.index, item.field) for item in found[1].items] == items
    late = sum(count for (_, minute, _), count in counts.items() if minute < DAY)
    receipt = found[1]
    assert (receipt.counted, receipt.duplicate) == (counts.total(), duplicate)
    assert (receipt.late, receipt.refused) == (late, refused)


@law
@given(st.lists(elements, max_size=12), st.sampled_from(PIECES), st.sampled_from(["\n", "\r\n", "\n\n", " \n\t"]))
def test_lines_are_what_an_array_is(elements: list[Any], piece_bytes: int, end: str) -> None:
    lines = end.join(json.dumps(element) for element in elements).encode()
    found, array = outcome(lines, Media.lines, piece_bytes), outcome(json.dumps(elements).encode(), Media.json, 60)
    assert found == array


SEEDS = [
    b'[{"key":"a"},{"key":"b","ts":1767225600},{"key":"c","x":[{},{"y":"},{"}]},[1,[2]],"s",null,{"key":"\\ud800"}]',
    b'[{"key":"\xc3\xa4","ts":"2026-01-01","id":"1","ua":"x"}, {"key":"b","count":2} ,\n{"key":"c","bot":true}]',
    b'{"key":"a"}\n{"key":"b"}\r\n\r\nnope\n{"key":"c","ts":1e3}\n[1]\n{"key":"d","id":"1"}',
    b'[{"specversion":"1.0","source":"/s","id":"1","data":{"key":"a"}},{"specversion":"1.0","source":"s","id":"2"}]',
    b'{"key":"a","ts":-0.5e-3,"count":1,"x":"\\u0041\\n\\ud83d\\ude00"}',
]


@given(st.integers(0, 2**32), st.sampled_from(SEEDS), st.sampled_from(list(Media)))
@settings(law, max_examples=examples(300))
def test_a_damaged_body_means_the_same_however_it_is_cut(seed: int, body: bytes, media: Media) -> None:
    rng = random.Random(seed)
    damaged = bytearray(body)
    for _ in range(rng.randint(0, 3)):
        at = rng.randrange(len(damaged))
        if rng.random() < 0.5:
            damaged[at] = rng.choice(b'[]{},:"\\ \n0a\x00\xff')
        else:
            del damaged[at : at + rng.randint(1, 3)]
    whole = outcome(bytes(damaged), media, PIECE_BYTES)
    for piece_bytes in PIECES:
        assert outcome(bytes(damaged), media, piece_bytes) == whole


TYPES = ["application/json", "application/x-ndjson", "application/cloudevents-batch+json"]


@given(st.binary(max_size=200) | st.sampled_from(SEEDS), st.sampled_from(TYPES), st.sampled_from(["", "gzip", "zstd"]))
@settings(law, max_examples=examples(200))
def test_any_bytes_get_an_answer_that_is_not_the_servers_fault(body: bytes, content_type: str, coding: str) -> None:
    pack = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}.get(coding, bytes)
    for sent in (body, pack(body)):
        client = Client()
        reply = client.post("/v1/hits", sent, content_type=content_type, content_encoding=coding)
        assert reply.status in (200, 400, 422)
        answer = reply.json
        if reply.status == 400:
            assert {"title", "detail"} <= set(answer)
            assert client.intake.total == 0
        else:
            assert client.intake.total == answer["counted"]


@law
@given(hits)
def test_a_hit_alone_is_an_array_of_one(hit: dict[str, Any]) -> None:
    alone, array = Client(), Client()
    for _ in range(2):
        one, several = alone.send(hit), array.send([hit])
        assert (one.status, one.json) == (several.status, several.json)
    assert alone.intake.people + singles(alone) == array.intake.people
    assert (alone.intake.bots, alone.intake.ids) == (array.intake.bots, array.intake.ids)


def singles(client: Client) -> Counter[tuple[int, str]]:
    return Counter({(MINUTE, key): count for key, count in client.intake.singles.items()})


@law
@given(st.binary(max_size=60).filter(lambda raw: b"?" not in raw and b"#" not in raw), st.binary(max_size=20))
def test_any_path_and_any_name_get_an_answer(raw: bytes, name: bytes) -> None:
    client = Client()
    reply = client.call("POST", b"/v1/hits/" + raw, [(b"idempotency-key", name)], [b""])
    assert reply.status in (200, 404, 422)
    assert client.intake.total == (reply.status == 200)
    assert client.call("POST", b"/v1/hits/" + raw, [], [b""]).status in (200, 404, 422)
