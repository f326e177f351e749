"""What visitors and proxies send in a word of a hit may be lost; the hit counts, and the receipt says what was lost."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import HitRejected
from ingest.agents.bots import bot_judge
from ingest.attributes.country import country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.hit import Moment
from ingest.reading.body import Media, read_hits
from ingest.reading.receipt import IngestCounters, Receipt
from ingest.reading.request_sums import RequestSums
from tests.ingest.http_kit import Client
from tests.ingest.reading.test_attributes_read import divided

NOW = 1_767_268_800
DAY = NOW - NOW % 86_400
MOMENT = Moment(NOW, DAY, NOW + 300)
DIMENSIONS = ("ref", "country", "lang", "source", "utm_medium", "utm_campaign", "tag.team", "tag.shop")
JUDGE = bot_judge()


def reader(*dimensions: str) -> ProfileReader:
    return ProfileReader(dimensions, country_reader("builtin"), ReferrerReader(), salts={DAY: b"a salt"})


READER, COUNTRIES = reader(*DIMENSIONS), reader("country")


class Read:
    """A body as it is read: the receipt, and what /metrics would say."""

    def __init__(self, body: bytes, media: Media = Media.json, found: ProfileReader = READER) -> None:
        sums = RequestSums(MOMENT, reader=found)
        for hits in read_hits(body, media):
            for _ in sums.add_steps(hits, JUDGE):
                pass
        self.receipt: Receipt = sums.receipt()
        self.counters = IngestCounters()
        sums.count_into(self.counters, self.receipt)
        self.told = [(item.index, item.status, item.field) for item in self.receipt.items]


def body_of(*hits: dict[str, Any]) -> bytes:
    return json.dumps(hits).encode()


LOST: list[tuple[dict[str, Any], str]] = [
    ({"country": "T1"}, "country"),
    ({"country": "XX"}, "country"),
    ({"country": "EU"}, "country"),
    ({"country": "Austria"}, "country"),
    ({"ip": "unknown"}, "ip"),
    ({"ip": "_hidden, -"}, "ip"),
    ({"ref": "https://m.example/?" + "x" * 3_000}, "ref"),
    ({"ref": "https://a.example/\tb"}, "ref"),
    ({"ref": "\ud83d"}, "ref"),
    ({"lang": "de" + ",en" * 1_000}, "lang"),
    ({"lang": "de\x00"}, "lang"),
    ({"source": "s" * 65}, "source"),
    ({"source": "a\nb"}, "source"),
    ({"utm": {"medium": "m" * 2_100}}, "utm.medium"),
    ({"utm": {"campaign": "a\r\nb"}}, "utm.campaign"),
    ({"utm": {"campaign": "c" * 101}}, "utm.campaign"),
    ({"utm": {"medium": "ü" * 51}}, "utm.medium"),
    ({"ref": "https://" + "a." * 50 + "example/"}, "ref"),
    ({"ref": "a" * 60 + "." + "b" * 60 + ".example"}, "ref"),
    ({"tags": {"team": "t" * 101}}, "tags.team"),
    ({"tags": dict.fromkeys("abcde", "x")}, "tags"),
    ({"visitor": "Ann Müller"}, "visitor"),
    ({"visitor": "v" * 129}, "visitor"),
    ({"groups": ["a", "b", "c", "d", "e"]}, "groups"),
    ({"groups": ["g" * 65]}, "groups"),
    ({"groups": ["a\tb"]}, "groups"),
]


@pytest.mark.parametrize("words, field", LOST)
@pytest.mark.parametrize("many", [1, 7])
def test_a_word_that_breaks_a_rule_is_lost_and_told_and_the_hit_counts(
    words: dict[str, Any], field: str, many: int
) -> None:
    good = [{"key": "a", "ref": "https://b.example/"}] * (many - 1)
    read = Read(body_of(*good, {"key": "a", "count": 3, **words}))
    assert (read.receipt.counted, read.receipt.refused, read.receipt.adjusted) == (many + 2, 0, 3)
    assert read.receipt.status == 200 and read.told == [(many - 1, "adjusted", field)]
    assert read.counters.adjusted[field.partition(".")[0]] == 1


@pytest.mark.parametrize("name", ["ref", "ip", "country", "lang", "source", "visitor"])
def test_an_empty_word_loses_nothing(name: str) -> None:
    for found in (READER, COUNTRIES):
        assert Read(body_of({"key": "a", name: ""}), found=found).receipt == Receipt(1, 0, 0, 0, ())
        assert Read(body_of(*[{"key": "a", name: ""}] * 9), found=found).receipt == Receipt(9, 0, 0, 0, ())


def test_empty_parts_lose_nothing() -> None:
    hit = {"key": "a", "utm": {"medium": "", "campaign": None}, "tags": {"team": ""}, "groups": [""]}
    assert Read(body_of(hit)).receipt == Receipt(1, 0, 0, 0, ())


@pytest.mark.parametrize(
    "words, field",
    [
        ({name: 7}, name)
        for name in ("ref", "ip", "country", "lang", "source", "utm", "tags", "visitor", "groups", "ua", "bot")
    ]
    + [({"utm": {"medium": 7}}, "utm.medium"), ({"tags": {"team": []}}, "tags.team"), ({"groups": [1]}, "groups")]
    + [({"count": 0}, "count"), ({"ts": -1}, "ts"), ({"id": "a b"}, "id"), ({"key": ""}, "key")],
)
def test_a_wrong_type_and_what_says_which_hit_it_is_refuse(words: dict[str, Any], field: str) -> None:
    read = Read(body_of({"key": "a", "country": "EU", **words}))
    assert read.receipt.status == 422 and read.told == [(0, "refused", field)]


@pytest.mark.parametrize("many", [1, 9])
def test_values_of_addresses_and_visitors_are_never_repeated(many: int) -> None:
    receipt = Read(body_of(*[{"key": "a", "ip": "host-7.example", "visitor": "Ann Müller"}] * many)).receipt
    assert receipt.adjusted == many and {item.value for item in receipt.items} == {None}
    assert b"Ann" not in receipt.encode() and b"host-7" not in receipt.encode()


WHOLE = "é" * 48 + "a…"  # 100 bytes: what is kept of it is all of it


@pytest.mark.parametrize("many", [1, 9])
def test_a_word_that_is_kept_whole_or_nowhere_loses_nothing(many: int) -> None:
    for hit in (
        {"key": "a", "utm": {"campaign": "c" * 100, "medium": WHOLE}, "ref": "https://a.example/" + "x" * 500},
        {"key": "a", "utm": {"source": "s" * 101}},  # no dimension here
        {"key": "a", "utm": {"campaign": "c" * 101}, "bot": True},  # of bots other things are kept
        {"key": "a", "utm": {"campaign": "c" * 101}, "ua": "Googlebot/2.1"},
    ):
        assert Read(body_of(*[hit] * many)).receipt == Receipt(many, 0, 0, 0, ())


def test_a_word_that_is_cut_is_told_with_its_rule_and_counts_as_it_is_kept() -> None:
    hit = {"key": "a", "count": 2, "utm": {"campaign": "c" * 150}, "ref": "https://x.example/"}
    (item,) = Read(body_of(hit)).receipt.items
    assert (item.status, item.field, item.reason) == (
        "adjusted",
        "utm.campaign",
        "utm.campaign is cut (rule: at most 100 bytes of a value are kept)",
    )
    assert isinstance(item.value, str) and item.value.startswith("ccc")
    for many in (1, 9):
        sums = RequestSums(MOMENT, reader=READER)
        for each in read_hits(body_of(*[hit] * many), Media.json):
            sums.add(each, JUDGE)
        kept = {value for _, profile, _ in divided(sums.batch()) for value in profile.values if value}
        assert kept == {"x.example", "c" * 97 + "…"}
    both = Read(body_of({"key": "a", "utm": {"campaign": "c\x00" * 120}})).receipt
    assert [item.reason.partition(" (")[0] for item in both.items] == [
        "utm.campaign without its control characters",
        "utm.campaign is cut",
    ]


LONG = st.sampled_from(["c" * 99, "c" * 100, "c" * 101, "ü" * 50, "ü" * 51, WHOLE, "x" * 97 + "…", "d" * 150, "", "e"])
CUT_HITS = st.fixed_dictionaries(
    {"key": st.sampled_from("ab"), "bot": st.sampled_from([None, False, True])},
    optional={
        "utm": st.dictionaries(st.sampled_from(["source", "medium", "campaign"]), LONG),
        "ref": st.sampled_from(["https://t.co/a", "a." * 50 + "b", "ü" * 60 + ".example", "x" * 90 + ".example"]),
        "source": st.just("qr"),
    },
)


@given(st.lists(CUT_HITS, min_size=7, max_size=20))
def test_hits_in_columns_tell_the_words_that_they_tell_one_by_one(hits: list[dict[str, Any]]) -> None:
    together = Read(body_of(*hits))
    alone = [Read(body_of(hit)) for hit in hits]
    assert (together.receipt.adjusted or 0) == sum(each.receipt.adjusted or 0 for each in alone)
    assert [(item.field, item.value, item.reason) for item in together.receipt.items] == [
        (item.field, item.value, item.reason) for each in alone for item in each.receipt.items
    ]
    assert {name: count for name, count in together.counters.adjusted.items() if count} == dict(
        sum((Counter(each.counters.adjusted) for each in alone), Counter())
    )


def test_what_is_kept_of_a_word_counts() -> None:
    hits: list[dict[str, Any]] = [
        {"key": "a", "ref": "https://m.example/?" + "x" * 3_000, "lang": "pt_BR.UTF-8", "source": "s" * 65},
        {"key": "a", "utm": {"campaign": "spring\r\n\x00sale\x1b"}, "tags": {"team": "blue\n", "shop": "x"}},
        {"key": "a", "country": "EU", "ip": "193.99.144.80:51008"},
    ]
    for bodies in (hits, hits * 3):
        sums = RequestSums(MOMENT, reader=READER)
        for each in read_hits(body_of(*bodies), Media.json):
            sums.add(each, JUDGE)
        values = {value for _, profile, _ in divided(sums.batch()) for value in profile.values if value}
        assert values == {"m.example", "pt", "s" * 61 + "…", "spring sale", "blue", "x", "DE"}


def test_a_group_without_its_control_characters_counts() -> None:
    sums = RequestSums(MOMENT, reader=READER)
    (raw,) = read_hits(body_of({"key": "a", "groups": ["spring\tsale", "b", "c" * 65]}), Media.json)
    ((_, hit),) = sums.judge.judged(raw, 0, JUDGE).singles
    assert [name.rpartition(":")[2] for name in hit.groups] == ["spring sale", "b"]


def test_hits_that_lost_nothing_are_still_read_in_columns() -> None:
    hits = [
        {"key": "a", "ref": f"https://{n % 3}.example/", "country": "EU" if n % 10 == 0 else "DE"} for n in range(100)
    ]
    sums = RequestSums(MOMENT, reader=READER)
    (raw,) = read_hits(body_of(*hits), Media.json)
    judged = sums.judge.judged(raw, 0, JUDGE)
    assert judged.links is not None and len(judged.links.keys) == 90
    assert [index for index, _ in judged.singles] == list(range(0, 100, 10))
    assert sums.judge.adjusted.sum == 10


def test_a_cloud_event_loses_a_word_and_counts() -> None:
    event = {"specversion": "1.0", "source": "s", "id": "1", "data": {"key": "a", "country": "T1", "source": "x\ny"}}
    read = Read(json.dumps([event]).encode(), Media.events)
    assert (read.receipt.counted, read.receipt.adjusted) == (1, 1)
    assert {field for _, _, field in read.told} == {"country", "source"}


def test_the_receipt_names_what_did_not_count_first_and_a_thousand_items_at_most() -> None:
    hits = [{"key": "a", "country": "EU"}] * 1_500 + [{"key": "", "country": "EU"}] * 3
    receipt = Read("\n".join(map(json.dumps, hits)).encode(), Media.lines).receipt
    assert (receipt.counted, receipt.refused, receipt.adjusted, receipt.items_omitted) == (1_500, 3, 1_500, 503)
    assert [item.index for item in receipt.items if item.status == "refused"] == [1_500, 1_501, 1_502]
    assert len(receipt.items) == 1_000
    assert "adjusted" not in msgspec.json.decode(Read(body_of({"key": "a"})).receipt.encode())


WORDS = st.text(st.characters(codec="utf-8") | st.characters(categories=["Cc"]), max_size=150)
HITS = st.fixed_dictionaries(
    {"key": st.just("a")},
    optional={
        **dict.fromkeys(("ref", "ip", "country", "lang", "source", "visitor", "ua"), WORDS),
        "utm": st.dictionaries(st.sampled_from(["source", "medium", "campaign", "x"]), WORDS),
        "tags": st.dictionaries(st.sampled_from(["team", "shop", "a", "b", "c"]), WORDS),
        "groups": st.lists(WORDS, max_size=6),
    },
)


@given(st.lists(HITS, min_size=1, max_size=12))
def test_no_text_in_a_word_ever_refuses_a_hit(hits: list[dict[str, Any]]) -> None:
    together = Read(body_of(*hits)).receipt
    assert (together.counted, together.refused) == (len(hits), 0)
    alone = [Read(body_of(hit)).receipt for hit in hits]
    assert sum(receipt.adjusted or 0 for receipt in alone) == (together.adjusted or 0)
    assert [(item.field, item.reason) for receipt in alone for item in receipt.items] == [
        (item.field, item.reason) for item in together.items
    ]


@given(CUT_HITS | HITS)
def test_one_hit_by_itself_tells_the_words_that_it_tells_in_an_array(hit: dict[str, Any]) -> None:
    by_itself, in_array = Client(reader=READER), Client(reader=READER)
    assert by_itself.send(hit).body == in_array.send([hit]).body
    assert +Counter(by_itself.routes.counters.adjusted) == +Counter(in_array.routes.counters.adjusted)


def test_a_rule_is_not_bent_where_hits_are_read_strictly() -> None:
    with pytest.raises(HitRejected):
        READER.values_of(("nowhere", None, None, None, None, None, None, None))
