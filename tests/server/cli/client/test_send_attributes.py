"""One hit of the command line with everything that a hit may say, and the commands that ask for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testing.server import RunningServer
from tests.conftest import Serve
from tests.server.commands import said

DIMENSIONS = "ref,country,device,source,lang,utm_campaign,tag.team"
WORDS = (
    *("--ref", "https://www.news.example/a?b", "--ip", "193.99.144.80", "--ua", "Firefox/140.0 (X11; Linux)"),
    *("--lang", "de-AT", "--source", "qr", "--utm", "campaign=spring=2", "--tag", "team=blue"),
    *("--group", "g/h", "--group", "ü"),
)


@pytest.fixture
def divided(serve: Serve, data: Path) -> RunningServer:
    return serve("--breakdown-dimensions", DIMENSIONS, data=data)


def test_a_hit_says_everything_and_every_command_asks_for_it(divided: RunningServer) -> None:
    url = ("--url", divided.url)
    assert said("send", "launch", "--count", "3", *WORDS, *url).startswith("counted 3,")
    assert said("send", "launch", "--country", "fr", "--visitor", "ann", *url).startswith("counted 1,")
    expected = {"ref": "news.example", "country": "DE", "source": "qr", "lang": "de", "utm_campaign": "spring=2"}
    for dimension, value in {**expected, "tag.team": "blue"}.items():
        assert said("by", "launch", dimension, *url).splitlines()[1].split()[:2] == [value, "3"]
        assert said("by", "launch", dimension, "--value", value, "--csv", *url).splitlines()[1] == f"{value},3,3"
        assert said("by", dimension, *url).splitlines()[1].split()[:2] == [value, "3"]
        assert said("by", "--group", "g/h", dimension, *url).splitlines()[1].split()[:2] == [value, "3"]
    assert json.loads(said("by", "launch", "ref", "--json", *url))["total"] == 4
    assert "dimensions: ref, country" in said("by", "launch", "weather", *url, code=1)
    assert said("visitors", "launch", *url).splitlines()[-1] == "visitor-days 2"
    assert json.loads(said("visitors", "--group", "ü", "--json", *url))["visitor_days"] == 1
    assert said("total", "--group", "ü", "--last", "1d", *url).startswith("ü: 3 hits of people, ")
    assert [line.split()[:2] for line in said("groups", *url).splitlines()[1:]] == [["g/h", "3"], ["ü", "3"]]


def test_a_sale_is_sent_with_its_value_once(serve: Serve) -> None:
    url = ("--url", serve("--events-names", "lead,sale").url)
    sale = ("send", "launch", "--event", "sale", "--value", "4990", "--id", "order-1001", *url)
    assert said(*sale).startswith("counted 1, duplicate 0")
    assert said(*sale).startswith("counted 0, duplicate 1")
    assert said("send", "launch", "--event", "lead", *url).startswith("counted 1,")
    (_, lead, sold) = said("events", "launch", *url).splitlines()[1:]
    assert (lead.split()[:3], sold.split()[:3]) == (["lead", "1", "0"], ["sale", "1", "4,990"])
    refused = said("send", "launch", "--event", "gift", *url, code=1)
    assert "refused hit 0: the event is not counted here; events: lead, sale" in refused
    assert "beside an event" in said("send", "launch", "--value", "0", *url, code=1)


def test_a_word_that_cannot_be_sent_is_named(divided: RunningServer) -> None:
    url = ("--url", divided.url)
    assert "--utm campaign is not NAME=TEXT" in said("send", "launch", "--utm", "campaign", *url, code=2)
    lost = said("send", "launch", "--country", "FRA", *url)
    assert "adjusted hit 0: country is not the code of one" in lost and "counted 1" in lost
    assert "are for one KEY" in said("send", "--file", "-", "--ref", "a.example", *url, code=2)
