"""Hits that rules for bots take: at each door the same, once, before the journal."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.ladder import CLICKS
from ingest.agents.bots import bot_judge
from ingest.attributes.bot_rules import BotRules, BotRuleSet, network_rule
from ingest.attributes.country import country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.batch import Batch, SourceStep, decode_batch, encode_batch, sum_counts
from ingest.imports.chunk import ChunkReader
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from tests.ingest.http_kit import DAY, MOMENT, NOW, Client, people_of, summed

RULES = BotRules(BotRuleSet(("spam.example",), (network_rule("192.0.2.0/24"),), ("SafeLinks",), ("OurMonitor",)))
SALTS = {DAY: b"salt"}
DIVIDING = ProfileReader(
    ("ref", "bot_kind", "country", "bot"), country_reader("builtin"), ReferrerReader(), bot_judge().bot, SALTS, RULES
)
COUNTING = ProfileReader((), country_reader("off"), ReferrerReader(), bot_rules=RULES)

GOOGLEBOT, OURS = "Mozilla/5.0 (compatible; Googlebot/2.1)", "ourmonitor/1 bot safelinks"
FIELDS: dict[str, list[Any]] = {
    "ref": [None, "https://a.example/", "https://eu.spam.example/x"],
    "ip": [None, "193.99.144.80", "192.0.2.9"],
    "ua": [None, "Mozilla/5.0 (X11; Linux) Firefox/130.0", GOOGLEBOT, "Mozilla/5.0 safelinks", OURS],
    "bot": [None, True, False],
    "groups": [None, ["g"]],
    "id": [None, "by-place"],
    "visitor": [None, "v"],
}


def meant(hit: dict[str, Any]) -> str | None:
    """What dimension `bot` counts a hit as; None for a person's."""
    if hit.get("bot") is not None:
        agent = hit.get("ua") or ""
        return {GOOGLEBOT: "Googlebot", OURS: "ourmonitor"}.get(agent, "") if hit["bot"] else None
    if hit.get("ua") == OURS:
        return None
    if hit.get("ua") == GOOGLEBOT:
        return "Googlebot"
    if "spam.example" in (hit.get("ref") or ""):
        return "ref:spam.example"
    if (hit.get("ip") or "").startswith("192.0.2."):
        return "network:192.0.2.0/24"
    return "agent:SafeLinks" if "safelinks" in (hit.get("ua") or "") else None


def kind_of(name: str) -> str:
    return "rule" if ":" in name else {"Googlebot": "search", "ourmonitor": "monitor", "": "other_bot"}[name]


def counted(made: Batch | None) -> tuple[int, int, Counter[str]]:
    """People, bots and names of bots, of links alone, after the batch has been through the journal's form."""
    batch = Batch() if made is None else decode_batch(encode_batch(made))
    assert isinstance(batch, Batch)
    people = sum_counts(people_of(batch)) + sum(sum_counts(one.people) for one in batch.identified)
    bots = sum_counts(batch.bots) + sum(sum_counts(one.bots) for one in batch.identified)
    names: Counter[str] = Counter()
    if batch.attributes is not None:
        table = batch.attributes.table()
        for part in (batch.attributes.links, *(one.attributes for one in batch.identified)):
            for hours in part.hours.values() if part is not None else ():
                for _, place, count in hours.cells():
                    if table[place].dimensions == ("bot_kind", "bot"):
                        kind, name = table[place].values
                        assert kind == kind_of(name)
                        names[name] += count
                    else:
                        assert "bot" not in table[place].dimensions
    return people, bots, names


hits_drawn = st.lists(
    st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in FIELDS.items()}),
    min_size=1,
    max_size=24,
).map(
    lambda drawn: [
        {"key": "k", "ts": NOW - 60, **hit, **({"id": f"id-{place}"} if hit.get("id") else {})}
        for place, hit in enumerate(drawn)
    ]
)


@given(hits_drawn, st.sampled_from([DIVIDING, COUNTING]))
def test_rules_take_the_same_hits_one_by_one_and_in_columns(hits: list[dict[str, Any]], reader: ProfileReader) -> None:
    names = Counter(name for hit in hits if (name := meant(hit)) is not None)
    wanted = len(hits) - names.total(), names.total(), names if reader is DIVIDING else Counter()
    array = summed(json.dumps(hits).encode(), Media.json, RequestSums(MOMENT, reader=reader))
    assert counted(array.batch()) == wanted
    client = Client(reader=reader)
    for hit in hits:
        assert client.send(hit).json["counted"] == 1
    found = sum(client.intake.people.values()), sum(client.intake.bots.values())
    assert found == wanted[:2]


@given(hits_drawn)
def test_an_import_is_judged_by_the_rules_where_its_hits_go(hits: list[dict[str, Any]]) -> None:
    """Its agents are not judged again: the command that reads a log does that."""
    hits = [{name: value for name, value in hit.items() if name not in ("id", "groups")} for hit in hits]
    for hit in hits:
        if hit.get("ua") == GOOGLEBOT:
            hit["bot"] = True
    names = Counter(name for hit in hits if (name := meant(hit)) is not None)
    sums = RequestSums(MOMENT, reader=DIVIDING)
    body = b"\n".join(json.dumps(hit).encode() for hit in hits)
    for _ in ChunkReader(CLICKS).read_body(body, sums):
        pass
    made = counted(sums.batch_with(SourceStep("s", 0, len(body), "")))
    assert made == (len(hits) - names.total(), names.total(), names)


def test_a_bot_by_rule_is_no_visitor_and_counts_in_its_groups() -> None:
    hit = {"key": "k", "ts": NOW, "ref": "spam.example", "visitor": "v", "groups": ["g"]}
    batch = summed(json.dumps(hit).encode(), Media.json, RequestSums(MOMENT, reader=DIVIDING)).batch()
    assert batch is not None and batch.attributes is not None
    assert batch.attributes.links.visitors == {}
    assert sum_counts(batch.attributes.groups.bots) == sum_counts(batch.bots) == 1


@pytest.mark.parametrize(
    "words", [{"ref": "spam.example", "ip": "here"}, {"ref": "https://spam.example/" + "x" * 3_000}]
)
def test_a_rule_takes_a_hit_that_loses_a_word(words: dict[str, str]) -> None:
    client = Client(reader=DIVIDING)
    answered = client.send({"key": "k", **words})
    assert (answered.json["adjusted"], client.intake.batches[0].bots) == (1, {NOW // 60 * 60: {"k": 1}})


def test_a_field_that_only_rules_look_at_is_asked_for_and_not_ignored() -> None:
    assert set(COUNTING.useful_fields()) == {"ref", "ip", "ua"}
    without = ProfileReader((), country_reader("off"), ReferrerReader())
    assert without.useful_fields() == []
    for reader, ignored in ((COUNTING, {"lang": 1}), (without, {"ip": 1, "lang": 1, "ref": 1})):
        client = Client(reader=reader)
        client.send({"key": "k", "ref": "a.example", "ip": "192.0.2.1", "lang": "de"})
        assert client.routes.counters.ignored == ignored


def test_what_was_journaled_stays_what_it_was_under_other_rules() -> None:
    rules = BotRules(BotRuleSet(("spam.example",)))
    reader = ProfileReader(("bot_kind", "bot"), country_reader("off"), ReferrerReader(), bot_rules=rules)
    hit = json.dumps({"key": "k", "ts": NOW, "ref": "spam.example"}).encode()
    journaled = encode_batch(summed(hit, Media.json, RequestSums(MOMENT, reader=reader)).batch() or Batch())
    rules.use(BotRuleSet())
    after = summed(hit, Media.json, RequestSums(MOMENT, reader=reader)).batch()
    replayed = decode_batch(journaled)
    assert isinstance(replayed, Batch)
    assert counted(replayed) == (0, 1, Counter({"ref:spam.example": 1}))
    assert counted(after) == (1, 0, Counter())
