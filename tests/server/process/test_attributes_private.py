"""What names a person reaches no disk, no log and no answer: the bytes are searched for it."""

from __future__ import annotations

import json
from pathlib import Path

from testing.client import Clickcurve
from tests.conftest import Serve

DIMENSIONS = "ref,country,device,browser,os,lang,source,utm_campaign,tag.team,bot"
ADDRESS, AGENT = "193.99.144.80", "Mozilla/5.0 (X11; Linux x86_64; marker-agent) Firefox/140.0"
WORDS = {
    "ip": ADDRESS,
    "ua": AGENT,
    "ref": "https://www.news.example/marker-path?q=marker-query",
    "visitor": "marker-visitor",
    "groups": ["team-blue"],
    "lang": "de-AT,marker;q=0.1",
    "source": "qr",
    "utm": {"campaign": "spring", "term": "marker-term"},
    "tags": {"team": "blue", "other": "marker-tag"},
}
PRIVATE = [b"marker", ADDRESS.encode(), bytes(map(int, ADDRESS.split("."))), b"10.11.12.999"]


def test_of_a_person_only_words_reach_the_disk(serve: Serve, data: Path) -> None:
    server = serve("--flush-s", "3600", "--breakdown-dimensions", DIMENSIONS, data=data)
    bot = WORDS | {"ua": "Googlebot/2.1 marker-bot"}
    bad = [
        {"key": "a", "ip": "10.11.12.999"},
        {"key": "a", "ip": ["marker"]},
        {"key": "a", "visitor": "marker visitor"},
    ]
    with Clickcurve(server.url) as client:
        hits = [{"key": "a", **WORDS}, {"key": "a", **WORDS, "id": "one"}, {"key": "a", **bot}, *bad]
        answers = [client.send(hits), client.send([{"key": "alone", **WORDS}])]
        metrics = client.metrics()
    assert [answer["counted"] for answer in answers] == [5, 1]
    assert [item["field"] for item in answers[0]["items"]] == ["ip", "ip", "visitor"]
    assert not [name for name in metrics if name.startswith("clickcurve_ignored_fields_total")]
    server.kill()
    journal = b"".join(path.read_bytes() for path in (data / "journal-1").iterdir())
    for kept in (b"news.example", b"DE", b"desktop", b"Firefox", b"spring", b"blue", b"Googlebot"):
        assert kept in journal, "the search looks where hits are"
    again = serve("--flush-s", "3600", "--breakdown-dimensions", DIMENSIONS, data=data)
    again.stop()
    everything = [path.read_bytes() for path in data.rglob("*") if path.is_file()]
    everything += [journal, json.dumps(answers).encode(), server.output().encode(), again.output().encode()]
    for private in PRIVATE:
        assert not any(private in each for each in everything), private
    with Clickcurve(serve(data=data).url) as client:
        assert (client.total("a")["total"], client.total("alone")["total"]) == (4, 1)
