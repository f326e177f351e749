"""What hits say beside, from the bytes of a body into a batch: however it is read it means the same."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.agents.bots import bot_judge
from ingest.agents.reader import AgentReader
from ingest.attributes import profile
from ingest.attributes.country import address_of, country_reader
from ingest.attributes.profile import NO_DIMENSIONS, Profile, ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.attributes.visitor import visitor_hash, who_of
from ingest.batch import (
    AttributeCounts,
    Batch,
    GroupCounts,
    HourProfiles,
    decode_batch,
    encode_batch,
)
from ingest.hit import ATTRIBUTE_FIELDS, is_visitor
from ingest.reading.body import PIECE_BYTES, Media
from ingest.reading.receipt import IngestCounters
from ingest.reading.request_sums import RequestSums
from tests.ingest.http_kit import DAY, MOMENT, NOW, Client, law, people_of, summed

DIVIDED = ("ref", "country", "device", "source", "lang", "utm_campaign", "tag.t")
READER = ProfileReader((*DIVIDED, "bot"), country_reader("builtin"), ReferrerReader(["own.example"]), bot_judge().bot)
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari"
GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1)"
HOUR = NOW - NOW % 3_600


class Lost(dict[str, str]):
    """What a value says of which a word is lost, or a part."""


# For each field, in the order in which they are looked at: values, and what they say; False: it is refused.
VALUES: dict[str, list[tuple[Any, Any]]] = {
    "visitor": [
        ("v-1", {}),
        ("", {}),
        ("x" * 129, Lost()),
        ("ü", Lost()),
        ("a b", Lost()),
        (7, False),
        (["v"], False),
    ],
    "groups": [
        (["g", "ü" * 32], {}),
        (["ü" * 33], Lost()),
        ([""], {}),
        (["g"] * 5, Lost()),
        (["\x1b"], Lost()),
        ("g", False),
        ({}, False),
        ([1], False),
    ],
    "ip": [
        ("193.99.144.80", {"country": "DE"}),
        (" 127.0.0.1 ", {"country": ""}),
        ("2001:db8::1", {"country": ""}),
        ("here", Lost()),
        ("193.99.144.80:7", {"country": "DE"}),
        ("", {}),
        (1, False),
        ([1], False),
    ],
    "ref": [
        ("https://www.News.example:8080/path?secret=1", {"ref": "news.example"}),
        ("https://own.example/", {"ref": ""}),
        ("", {"ref": ""}),
        ("a\x1b.example", Lost(ref="a.example")),
        ("x.example/" + "x" * 2_049, Lost(ref="x.example")),
        (True, False),
        ({}, False),
    ],
    "country": [("fr", {"country": "FR"}), ("FRA", Lost()), ("EU", Lost()), ("", {}), (4, False)],
    "lang": [("de-AT,en;q=0.8", {"lang": "de"}), ("*", {"lang": ""}), ("x" * 1_025, Lost(lang="")), (1.5, False)],
    "source": [("qr", {"source": "qr"}), ("", {}), ("x" * 65, Lost(source="x" * 61 + "…")), ([], False)],
    "utm": [
        ({"campaign": "spring", "term": "x"}, {"utm_campaign": "spring"}),
        ({"campaign": None}, {}),
        ({"term": 1}, {}),
        ({"campaign": 1}, False),
        ({"medium": "\x1b"}, Lost()),
        ("spring", False),
        ([], False),
    ],
    "tags": [
        ({"t": "blue", "u": "x"}, {"tag.t": "blue"}),
        ({"u": "x"}, {}),
        ({"u": [1]}, {}),
        ({"t": ""}, {}),
        ({"t": 1}, False),
        ({**dict.fromkeys("abcd", "x"), "t": "blue"}, Lost({"tag.t": "blue"})),
        ([["t", "blue"]], False),
    ],
}
choices = {name: st.sampled_from(values) for name, values in VALUES.items()}
rare = {name: st.sampled_from([value for value in values if value[1] is not False]) for name, values in VALUES.items()}
fields = {
    "ts": st.sampled_from([NOW, NOW - 3_600, DAY - 1]),
    "count": st.integers(1, 3),
    "id": st.sampled_from("123"),
    "ua": st.sampled_from([IPHONE, GOOGLEBOT]),
    "bot": st.booleans(),
}
hits = st.tuples(
    st.fixed_dictionaries({"key": st.sampled_from("ab")}, optional=fields),
    st.fixed_dictionaries({}, optional=rare) | st.fixed_dictionaries({}, optional=choices),
)


def sent(hit: tuple[dict[str, Any], dict[str, tuple[Any, Any]]]) -> dict[str, Any]:
    return hit[0] | {name: value for name, (value, _) in hit[1].items()}


def kept_groups(groups: list[str] | None) -> list[str]:
    good = [name for name in groups or () if name.isprintable() and 0 < len(name.encode()) <= 64]
    return list(dict.fromkeys(good[:4]))


def divided(batch: Batch | None) -> Counter[tuple[int, Profile, str]]:
    """Counts of a batch by hour, profile and key, those under ids too."""
    counts: Counter[tuple[int, Profile, str]] = Counter()
    if batch is not None and batch.attributes is not None:
        table = batch.attributes.table()
        assert len(set(table)) == len(table)
        for attributes, _ in parts_of(batch):
            for hour, said in attributes.hours.items():
                for key, number, count in said.cells():
                    counts[hour, table[number], key] += count
    return counts


def expected(
    elements: list[tuple[dict[str, Any], dict[str, tuple[Any, Any]]]],
) -> tuple[Counter[tuple[int, Profile, str]], list[tuple[int, str]], bool]:
    """What a reader finds that goes hit by hit: counts, refused hits with the field to blame, any in a group."""
    counts: Counter[tuple[int, Profile, str]] = Counter()
    refused, ids, grouped = [], set(), False
    for index, (hit, words) in enumerate(elements):
        broken = next((name for name in VALUES if name in words and words[name][1] is False), None)
        if broken is not None:
            refused.append((index, broken))
            continue
        if hit.get("id") in ids:
            continue
        ids |= {hit["id"]} if "id" in hit else set()
        grouped = grouped or bool(kept_groups(words.get("groups", [None])[0]))
        ua = hit.get("ua")
        at = hit.get("ts", NOW)
        if hit.get("bot", ua == GOOGLEBOT):
            profile = Profile(("bot",), ("Googlebot" if ua == GOOGLEBOT else "",))
        else:
            says = {"device": "phone" if ua == IPHONE else "other"} if ua else {}
            for name in VALUES:
                says |= words[name][1] if name in words else {}
            if not says:
                continue
            profile = Profile(DIVIDED, tuple(says.get(name, "") for name in DIVIDED))
        counts[at - at % 3_600, profile, hit["key"]] += hit.get("count", 1)
    return counts, refused, grouped


@law
@given(st.lists(hits, max_size=10), st.sampled_from([1, 60, 300, PIECE_BYTES]), st.sampled_from(["array", "lines"]))
@example([({"key": "a", "id": "2"}, {}), ({"key": "a", "id": "2"}, {"groups": (["g"], {})})], PIECE_BYTES, "array")
def test_a_body_says_what_its_hits_say_one_by_one(elements: list[Any], piece_bytes: int, form: str) -> None:
    values = list(map(sent, elements))
    if form == "array":
        body, media = json.dumps(values).encode(), Media.json
    else:
        body, media = "\n".join(map(json.dumps, values)).encode(), Media.lines
    counts, refused, grouped = expected(elements)
    sums = summed(body, media, RequestSums(MOMENT, reader=READER), piece_bytes)
    batch, items = sums.batch(), sums.receipt().items
    assert divided(batch) == counts
    assert [(item.index, str(item.field).partition(".")[0]) for item in items if item.status == "refused"] == refused
    if batch is not None:
        assert decode_batch(encode_batch(batch)) == batch
        named = summed(body, media, RequestSums(MOMENT, "whole", reader=READER), piece_bytes).batch()
        assert divided(named) == counts
        assert named is not None
        assert (named.attributes is not None) == bool(counts or grouped)
        assert named.attributes is None or not named.attributes.links


@law
@given(st.lists(hits, min_size=1, max_size=6))
def test_where_the_receipt_explains_no_more_the_same_hits_are_refused(elements: list[Any]) -> None:
    body = json.dumps(list(map(sent, elements))).encode()
    explained, silent = (
        summed(body, Media.json, RequestSums(MOMENT, reader=READER, receipt_items=items)) for items in (1_000, 0)
    )
    assert divided(explained.batch()) == divided(silent.batch())
    assert explained.receipt().refused == silent.receipt().refused
    counters = [IngestCounters(), IngestCounters()]
    for each, counter in zip((explained, silent), counters, strict=True):
        each.count_into(counter, each.receipt())
    assert counters[0].refused == counters[1].refused


def said_nothing(batch: Batch | None) -> object:
    return None if batch is None else (people_of(batch), batch.bots, batch.identified)


@law
@given(st.lists(hits, max_size=10))
def test_with_nothing_divided_the_batch_is_that_of_hits_without_words(elements: list[Any]) -> None:
    for _, words in elements:
        if isinstance(words.get("tags", ("",))[0], dict):
            words["tags"] = ({}, {})  # no tag is known, so the value of none is looked at
    values = list(map(sent, elements))
    refused = {index for index, _ in expected(elements)[1]}
    plain = [hit for index, (hit, _) in enumerate(elements) if index not in refused]
    with_attributes = summed(json.dumps(values).encode(), Media.json, RequestSums(MOMENT))
    bare = summed(json.dumps(plain).encode(), Media.json, RequestSums(MOMENT))
    if not any("groups" in words for _, words in elements):
        assert said_nothing(with_attributes.batch()) == said_nothing(bare.batch())
    for _, words in elements:
        words.pop("groups", None)
    ungrouped = summed(json.dumps(list(map(sent, elements))).encode(), Media.json, RequestSums(MOMENT))
    without_groups = ungrouped.batch()
    assert without_groups is None or without_groups.attributes is None
    assert with_attributes.receipt().refused == sum(elements[index][0].get("count", 1) for index in refused)


SALTS = {DAY: b"salt of today", DAY - 86_400: b"salt of yesterday"}
COUNTING = ProfileReader((*DIVIDED, "bot"), country_reader("builtin"), ReferrerReader(), bot_judge().bot, SALTS)
COUNTING_ONE = ProfileReader(("utm_campaign",), country_reader("off"), ReferrerReader(), salts=SALTS)


def parts_of(batch: Batch | None) -> Iterator[tuple[AttributeCounts, GroupCounts]]:
    if batch is not None and batch.attributes is not None:
        yield batch.attributes.links, batch.attributes.groups
        for one in batch.identified:
            yield one.attributes or AttributeCounts(), one.groups or GroupCounts()


def visitors_in(batch: Batch | None) -> Counter[tuple[int, str, int]]:
    """Visitors of a batch by day, key and hash: keys of links, and stored keys of groups."""
    counts: Counter[tuple[int, str, int]] = Counter()
    for words, groups in parts_of(batch):
        for said in (words, groups.attributes):
            for day, by_key in said.visitors.items():
                counts.update((day, key, visitor) for key, visitors in by_key.items() for visitor in visitors)
    return counts


def in_groups(batch: Batch | None) -> Counter[tuple[str, str, int]]:
    """Hits of groups by series, stored key and minute."""
    found: Counter[tuple[str, str, int]] = Counter()
    for _, groups in parts_of(batch):
        for series, counts in (("people", groups.people), ("bots", groups.bots)):
            for minute, by_key in counts.items():
                found.update({(series, key, minute): count for key, count in by_key.items()})
    return found


@law
@given(hits, st.sampled_from([READER, COUNTING]))
def test_one_hit_alone_says_what_it_says_in_an_array(hit: Any, reader: ProfileReader) -> None:
    alone, array = Client(reader=reader), Client(reader=reader)
    one, several = alone.send(sent(hit)), array.send([sent(hit)])
    assert (one.status, one.json) == (several.status, several.json)
    assert divided(next(iter(alone.intake.batches), None)) == divided(next(iter(array.intake.batches), None))
    assert visitors_in(next(iter(alone.intake.batches), None)) == visitors_in(next(iter(array.intake.batches), None))
    assert alone.routes.counters.ignored == array.routes.counters.ignored


@law
@given(
    st.lists(hits, max_size=10), st.sampled_from([COUNTING, COUNTING_ONE, READER]), st.sampled_from([1, PIECE_BYTES])
)
def test_visitors_and_groups_are_those_of_the_hits_one_by_one(
    elements: list[Any], reader: ProfileReader, piece_bytes: int
) -> None:
    values = list(map(sent, elements))
    sums = summed(json.dumps(values).encode(), Media.json, RequestSums(MOMENT, reader=reader), piece_bytes)
    batch = sums.batch()
    refused = {item.index for item in sums.receipt().items if item.status == "refused"}
    visitors: Counter[tuple[int, str, int]] = Counter()
    groups: Counter[tuple[str, str, int]] = Counter()
    others, known, ids = 0, 0, set()
    for index, hit in enumerate(values):
        if index in refused or hit.get("id") in ids:
            continue
        ids |= {hit["id"]} if "id" in hit else set()
        at, bot = hit.get("ts", NOW), hit.get("bot", hit.get("ua") == GOOGLEBOT)
        day, keys = at - at % 86_400, [hit["key"], *(f"\0group:{name}" for name in kept_groups(hit.get("groups")))]
        groups.update({("bots" if bot else "people", key, at - at % 60): hit.get("count", 1) for key in keys[1:]})
        visitor, ip = hit.get("visitor"), hit.get("ip")
        who = who_of(
            visitor if is_visitor(visitor) else None, None if ip == "here" else ip and address_of(ip), hit.get("ua")
        )
        if bot or reader.salts is None:
            continue
        if who is not None:
            visitors.update((day, key, visitor_hash(SALTS[day], key, who)) for key in keys)
            known += hit.get("count", 1)
        elif reader is COUNTING_ONE and (hit.get("utm") or {}).get("campaign"):
            others += hit.get("count", 1)
    assert visitors_in(batch) == visitors
    assert in_groups(batch) == groups
    if reader is COUNTING_ONE:
        counts: Counter[bool] = Counter()
        for (_, profile, _), count in divided(batch).items():
            counts[profile.known] += count
        assert counts == Counter({True: known, False: others})
    if batch is not None:
        assert decode_batch(encode_batch(batch)) == batch


@pytest.mark.parametrize(
    "spellings",
    [
        ("2001:db8::1", "2001:0DB8:0:0::0001", " 2001:db8:0::1 "),
        ("198.51.100.7", "::ffff:198.51.100.7", "::FFFF:c633:6407", "198.51.100.7 "),
    ],
)
@pytest.mark.parametrize("others", [0, 9])  # one by one, and in columns
def test_an_address_in_any_spelling_is_one_visitor(spellings: tuple[str, ...], others: int) -> None:
    sent = [{"key": "a", "ip": ip, "ua": IPHONE} for ip in spellings] + [{"key": "b", "source": "qr"}] * others
    batch = summed(json.dumps(sent).encode(), Media.json, RequestSums(MOMENT, reader=COUNTING)).batch()
    assert len(visitors_in(batch)) == 1


def test_the_same_visitor_is_another_on_another_day_at_another_link_and_under_another_salt() -> None:
    who = who_of(None, "192.0.2.1", IPHONE)
    assert who is not None
    assert len({visitor_hash(salt, key, who) for salt in SALTS.values() for key in "ab"}) == 4
    assert who_of(None, "192.0.2.1", None) is who_of(None, None, IPHONE) is None
    assert who_of("ann", "192.0.2.1", IPHONE) == who_of("ann", None, None) != who_of("bob", None, None)


# --- one by one -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("reader", [NO_DIMENSIONS, READER])
@pytest.mark.parametrize("name", ATTRIBUTE_FIELDS)
def test_a_bad_field_refuses_its_hit_alone_and_is_named(name: str, reader: ProfileReader) -> None:
    for value, says in VALUES[name]:
        if says is not False or (reader is NO_DIMENSIONS and name == "tags" and isinstance(value, dict)):
            continue
        client = Client(reader=reader)
        reply = client.send([{"key": "a"}, {"key": "b", name: value}])
        assert reply.json["counted"] == 1
        (item,) = reply.json["items"]
        assert (item["index"], item["field"].partition(".")[0]) == (1, name)
        assert client.routes.counters.refused[name] == 1


@pytest.mark.parametrize("reader", [NO_DIMENSIONS, READER])
@pytest.mark.parametrize("name", ATTRIBUTE_FIELDS)
def test_a_lost_word_refuses_nothing_and_is_named(name: str, reader: ProfileReader) -> None:
    for value, says in VALUES[name]:
        if isinstance(says, Lost):
            client = Client(reader=reader)
            reply = client.send([{"key": "a"}, {"key": "b", name: value}])
            assert (reply.status, reply.json["counted"]) == (200, 2)
            if (reader, name) != (NO_DIMENSIONS, "tags"):  # no tag is known, so the value of none is looked at
                ((status, field),) = {(each["status"], each["field"]) for each in reply.json["items"]}
                assert (status, field.partition(".")[0], reply.json["adjusted"]) == ("adjusted", name, 1)
                assert client.routes.counters.adjusted[name] >= 1


@pytest.mark.parametrize(("name", "value"), [("ip", "10.11.12.1313"), ("ip", ["10.11.12.13"]), ("visitor", "ann a")])
def test_what_names_a_person_is_never_repeated(name: str, value: object) -> None:
    for body in ({"key": "a", name: value}, [{"key": "a", name: value}]):
        for reader in (NO_DIMENSIONS, READER):
            reply = Client(reader=reader).send(body)
            assert reply.status == (422 if isinstance(value, list) else 200)
            assert len(reply.json["items"]) == 1
            assert b"10.11" not in reply.body
            assert b"ann" not in reply.body


def test_fields_that_say_nothing_of_what_is_divided_are_counted() -> None:
    said = {"ref": "a.example", "ip": "127.0.0.1", "lang": "de", "source": "qr", "visitor": "v", "groups": ["g"]}
    for values in ([{"key": "a", **said}, {"key": "b", "lang": "en"}], {"key": "a", **said}):
        client = Client(reader=ProfileReader(("ref", "source"), country_reader("off"), ReferrerReader()))
        client.send(values)
        languages = 2 if isinstance(values, list) else 1
        assert client.routes.counters.ignored == {"ip": 1, "lang": languages, "visitor": 1}


def test_an_event_says_what_its_data_says() -> None:
    client = Client(reader=READER)
    data = {"key": "a", "ref": "x.example", "utm": {"campaign": "spring"}}
    event = {"specversion": "1.0", "source": "/s", "id": "1", "data": data}
    client.send([event], "application/cloudevents-batch+json")
    profile = Profile(DIVIDED, ("x.example", "", "", "", "", "spring", ""))
    assert divided(client.intake.batches[0]) == {(HOUR, profile, "a"): 1}


def test_under_an_idempotency_key_words_belong_to_that_id() -> None:
    client = Client(reader=READER)
    client.send([{"key": "a", "source": "qr"}, {"key": "a", "source": "qr", "id": "own"}], idempotency_key="all")
    (batch,) = client.intake.batches
    assert batch.attributes is not None and not batch.attributes.links
    same = AttributeCounts({HOUR: HourProfiles(["a"], [0])})
    assert [(one.id, one.attributes) for one in batch.identified] == [("all", same), ("own", same)]


@pytest.mark.parametrize(
    "sent", [{"key": "a", "ua": IPHONE}, [{"key": "a", "ua": IPHONE}], [{"key": "", "ua": IPHONE}]]
)
def test_the_first_agent_is_read_by_no_code_of_the_event_loop(sent: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """To load what reads agents takes 0.4 s, in which the loop would answer nobody."""
    loaded: list[threading.Thread] = []

    class Noted(AgentReader):
        def __init__(self) -> None:
            loaded.append(threading.current_thread())
            super().__init__()

    monkeypatch.setattr(profile, "AgentReader", Noted)
    client = Client(reader=ProfileReader(("device",), country_reader("off"), ReferrerReader()))
    client.send({"key": "a"})
    assert loaded == []
    client.send(sent)
    client.send({"key": "b", "ua": IPHONE})
    assert [thread is threading.main_thread() for thread in loaded] == [False]
