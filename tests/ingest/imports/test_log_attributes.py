"""What lines of access logs say."""

from __future__ import annotations

import json
from collections import Counter

import msgspec
import pytest

from ingest.agents.bots import bot_judge
from ingest.imports.access_log import OF_LINES, AccessLog
from ingest.imports.chunk import DatedHit
from ingest.imports.importer import dated_hits
from ingest.reading.judge import columns_of

IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari"
BOT = "Mozilla/5.0 (compatible; Googlebot/2.1)"


def line(
    key: str = "a", address: str = "193.99.144.80", ref: str = "https://www.news.example/x?y", agent: str = IPHONE
) -> str:
    return f'{address} - - [25/Feb/2026:06:14:00 +0000] "GET /{key} HTTP/1.1" 302 12 "{ref}" "{agent}"'


JSON_LINE = {
    "ts": 1_772_000_040,
    "status": 302,
    "request": {
        "method": "GET",
        "uri": "/a?utm_campaign=spring",
        "client_ip": "193.99.144.80",
        "headers": {"User-Agent": [IPHONE], "Referer": ["https://www.news.example/x"]},
    },
}


def said(text: str, *wanted: str, only: list[str] | None = None) -> Counter[str]:
    """What these lines say: fields as JSON -> hits."""
    log = AccessLog(bot_judge(), only=only)
    log.use(wanted or OF_LINES)
    sums = log.read(text.encode())
    assert sums.people_hits + sums.bot_hits + sums.bad + sum(sums.skipped.values()) == sums.lines
    counts: Counter[str] = Counter()
    for hit in dated_hits(sums):
        given = msgspec.to_builtins(hit)
        counts[json.dumps({name: given[name] for name in OF_LINES if name in given}, sort_keys=True)] += hit.count or 1
    return counts


def fields(**expected: object) -> Counter[str]:
    return Counter([json.dumps(expected, sort_keys=True)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (line(), {"ip": "193.99.144.80", "ref": "news.example", "ua": IPHONE}),
        (line(ref="-", agent="-", address="host.example"), {}),
        (line(agent=BOT), {"ua": BOT}),
        (line("a?qr&x=1", ref="-"), {"ip": "193.99.144.80", "ua": IPHONE, "source": "qr"}),
        (
            line("a?utm_source=mail&utm_campaign=s%20p", ref="-", agent="-"),
            {"ip": "193.99.144.80", "utm": {"source": "mail", "campaign": "s p"}},
        ),
        (  # the server makes them fit, and says so
            line("a?source=%1b&utm_medium=%00", ref="\\x22", agent="-"),
            {"ip": "193.99.144.80", "source": "\x1b", "utm": {"medium": "\x00"}},
        ),
        (line(agent="a\\\\b\\xff", ref="-"), {"ip": "193.99.144.80", "ua": "a\\b?"}),
        (
            json.dumps(JSON_LINE),
            {"ip": "193.99.144.80", "ref": "news.example", "ua": IPHONE, "utm": {"campaign": "spring"}},
        ),
    ],
)
def test_a_line_says_what_its_fields_say(text: str, expected: dict[str, object]) -> None:
    assert said(text) == fields(**expected)


def test_only_what_is_wanted_is_filled() -> None:
    assert said(line("a?qr"), "ref") == fields(ref="news.example")
    assert said(line("a?qr"), "source", "utm") == fields(source="qr")
    assert said(line(), "ref", "ua", only=["ua", "ip"]) == fields(ua=IPHONE)
    assert said(line("a?qr"), only=[]) == fields()


def test_agents_that_are_peoples_where_the_hits_go_are_no_bots() -> None:
    log = AccessLog(bot_judge())
    assert log.read(line(agent=BOT).encode()).bot_hits == 1
    log.use(("ua",), people=[BOT[:12].upper()])
    assert log.read(line(agent=BOT).encode()).people_hits == 1
    assert not log.is_bot(BOT) and log.is_bot("Another-Bot/1")


def test_fields_of_imported_hits_stand_in_the_columns_of_their_names() -> None:
    columns = columns_of([DatedHit("a", 60, 2, bot=True, ref="x")])
    assert columns == {"key": ("a",), "ts": (60,), "count": (2,), "bot": (True,), "ref": ("x",)}
