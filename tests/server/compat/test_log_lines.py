"""Log lines over HTTP: each is a hit, is skipped with a reason, or is refused by its place; a repeat counts once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import zstandard
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import JournalFull
from clickcurve.hosts import HOSTS_IGNORED, Hosts
from ingest.attributes.profile import NO_DIMENSIONS
from ingest.imports.access_log import AccessLog
from ingest.imports.log_body import LONGEST_LINE, pieces
from ingest.reading.body_budget import BodyBudget
from ingest.reading.receipt import IngestCounters
from ingest.reading.request_sums import BODY_VALUES
from server.compat.log_lines import LineCounter, kind_of_skip, log_routes
from server.compat.otlp_logs import otlp_log_routes
from server.http.problems import Problems
from server.tokens.token import Scope
from testing.asgi import ask_app
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token
from tests.conftest import Serve
from tests.ingest.http_kit import MOMENT, NOW, MemoryIntake, is_bot, law
from tests.ingest.imports.logs.kit import FORMATS

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
BOT = "Mozilla/5.0 (compatible; Googlebot/2.1)"
WHEN = "01/Jan/2026:12:00:03 +0000"


def line(path: str = "/launch", status: int = 302, agent: str = BROWSER, when: str = WHEN, method: str = "GET") -> str:
    return f'203.0.113.7 - - [{when}] "{method} {path} HTTP/1.1" {status} 5 "https://news.example/a" "{agent}"'


def body(*lines: str) -> bytes:
    return "".join(f"{each}\n" for each in lines).encode()


class LogDoor:
    """The route over an intake in memory."""

    def __init__(self, hosts: Hosts = HOSTS_IGNORED, is_on: bool = True) -> None:
        self.intake, self.counters = MemoryIntake(), IngestCounters()
        self.room = BodyBudget(lambda: 0.0)
        self.app = FastAPI()
        Problems().install(self.app)
        lines = LineCounter(self.intake, lambda: MOMENT, self.counters, self.room, NO_DIMENSIONS)
        self.app.include_router(log_routes(lines, hosts, is_on))
        self.app.include_router(otlp_log_routes(lines, hosts, is_on))

    def post(
        self, content: bytes, source: str = "web1", headers: dict[str, str] | None = None, **query: Any
    ) -> httpx.Response:
        asked = f"/v1/logs/{source}?{urlencode(query, doseq=True)}"
        return ask_app(self.app, "POST", asked, content=content, headers=headers or {})

    def counted(self, content: bytes, **query: Any) -> dict[str, int]:
        """Counts a body that is good; returns the hits of each key so far."""
        answer = self.post(content, **query)
        assert answer.status_code == 200, answer.text
        hits: dict[str, int] = {}
        for of in (self.intake.people, self.intake.bots):
            for (_, key), many in of.items():
                hits[key] = hits.get(key, 0) + many
        return hits


@pytest.fixture
def door() -> LogDoor:
    return LogDoor()


def test_each_line_is_a_hit_or_skipped_or_refused(door: LogDoor) -> None:
    lines = [line(), line(), line("/none", 404), "nonsense", line(agent=BOT), line(method="HEAD"), "", line("/b"), "x"]
    answer = door.post(body(*lines))
    receipt = answer.json()
    assert answer.status_code == 200
    assert {name: receipt[name] for name in ("counted", "duplicate", "refused", "skipped")} == {
        "counted": 4, "duplicate": 0, "refused": 2, "skipped": 3,
    }  # fmt: skip
    assert receipt["skipped_because"] == {"status 404": 1, "method HEAD": 1, "blank line": 1}
    assert [(item["index"], item["field"], item["value"]) for item in receipt["items"]] == [
        (3, "line", "nonsense"),
        (8, "line", "x"),
    ]
    assert (door.intake.people.total(), door.intake.bots.total()) == (3, 1)
    assert door.counters.refused["line"] == 2
    assert door.counters.ignored_events == {("logs", "status"): 1, ("logs", "method"): 1, ("logs", "blank line"): 1}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_that_an_import_reads_is_read(name: str) -> None:
    given_format = FORMATS[name]
    door = LogDoor(Hosts(in_key=bool(given_format.host)))
    key = f"{given_format.host}/launch" if given_format.host else "launch"
    assert door.counted(given_format.lines.encode()) == {key: 1}


@pytest.mark.parametrize(
    ("coding", "packed"),
    [("gzip", gzip.compress(body(line()) * 3)), ("zstd", zstandard.ZstdCompressor().compress(body(line()) * 3))],
)
def test_packed_lines_are_unpacked(door: LogDoor, coding: str, packed: bytes) -> None:
    assert door.post(packed, headers={"Content-Encoding": coding}).json()["counted"] == 3
    assert door.post(packed[:-9], headers={"Content-Encoding": coding}).status_code == 400
    assert door.post(packed, headers={"Content-Encoding": "br"}).status_code == 415
    assert door.intake.total == 3


def test_a_batch_with_a_key_counts_once_of_its_source(door: LogDoor) -> None:
    named = {"Idempotency-Key": "batch-1"}
    first = door.post(body(line(), line("/b"), "nonsense"), headers=named).json()
    again = door.post(body(line(), line("/b"), "nonsense"), headers=named).json()
    assert (first["counted"], first["duplicate"], first["refused"]) == (2, 0, 1)
    assert (again["counted"], again["duplicate"], again["refused"]) == (0, 2, 1)
    assert door.intake.total == 2
    assert door.post(body(line()), source="web2", headers=named).json()["counted"] == 1
    for wrong in ("", "a b", "x" * 129):
        assert door.post(body(line()), headers={"Idempotency-Key": wrong}).status_code == 422
    assert door.intake.total == 3


def test_a_body_can_be_its_own_key(door: LogDoor) -> None:
    for content, counted in ((body(line()), 1), (body(line()), 0), (body(line(), line()), 2)):
        assert door.post(content, once="body").json()["counted"] == counted
    assert door.post(body(line())).json()["counted"] == 1, "without a key it counts again"
    assert door.post(body(line()), source="web2", once="body").json()["counted"] == 1


FIELDS = "#Fields: date time c-ip cs-method cs-uri-stem sc-status"
W3C_LINE = "2026-01-01 12:00:03 203.0.113.7 GET /launch 302"


def test_columns_of_w3c_stand_in_the_body_or_in_the_format(door: LogDoor) -> None:
    assert door.counted(body("#Software: x", FIELDS, W3C_LINE)) == {"launch": 1}
    without = door.post(body(W3C_LINE))
    assert (without.status_code, without.json()["refused"]) == (422, 1), "of the body before nothing is known"
    assert door.counted(body(W3C_LINE), format=FIELDS) == {"launch": 2}
    other = "#Fields: date time sc-status cs-uri-stem"
    assert door.counted(body(W3C_LINE, other, "2026-01-01 12:00:04 302 /b"), format=FIELDS) == {"launch": 3, "b": 1}


@pytest.mark.parametrize(
    ("content", "query", "hits"),
    [
        (
            body("302|GET /launch HTTP/1.1|2026-01-01T12:00:03Z"),
            {"format": "$status|$request|$time_iso8601"},
            {"launch": 1},
        ),
        (body(line("/favicon.ico"), line("/a"), line("/b")), {"exclude": ["favicon*", "b"]}, {"a": 1}),
        (body(line("/%61")), {"keys": "as-sent"}, {"%61": 1}),
        (body(line("/%61")), {}, {"a": 1}),
        (body(line(status=200), line(), line(status=304)), {"status": "200,304"}, {"launch": 2}),
    ],
)
def test_options_are_those_of_the_command(
    door: LogDoor, content: bytes, query: dict[str, Any], hits: dict[str, int]
) -> None:
    assert door.counted(content, **query) == hits


def test_a_zone_is_that_of_times_that_name_none(door: LogDoor) -> None:
    door.post(body('{"time":"2026-01-01 12:00:03","status":302,"request":"GET /a HTTP/1.1"}'), tz="Europe/Vienna")
    assert list(door.intake.people) == [(NOW - NOW % 3600 - 3600, "a")]


def test_a_host_is_that_of_lines_that_name_none() -> None:
    door = LogDoor(Hosts(in_key=True))
    assert door.post(body(line())).json()["skipped_because"] == {"no host": 1}
    assert door.counted(body(line()), host="A.example:443") == {"a.example/launch": 1}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"format": "$status"}, "format"),
        ({"format": "nothing"}, "format"),
        ({"format": "#Fields: date"}, "format"),
        ({"format": "$a" * 2_000}, "format"),
        ({"client_field": "0"}, "client_field"),
        ({"tz": "Nowhere/Else"}, "tz"),
        ({"status": "99"}, "status"),
        ({"status": "302," * 30 + "302"}, "status"),
        ({"keys": "x"}, "keys"),
        ({"once": "x"}, "once"),
        ({"host": "a b"}, "host"),
        ({"exclude": ["x"] * 21}, "exclude"),
    ],
)
def test_a_wrong_option_says_which(door: LogDoor, query: dict[str, Any], field: str) -> None:
    answer = door.post(body(line()), **query)
    assert (answer.status_code, field in answer.text) == (422, True), answer.text
    assert door.intake.total == 0


def test_a_hit_that_is_refused_is_named_by_its_line(door: LogDoor) -> None:
    ahead = line("/ahead", when="01/Jan/2027:12:00:03 +0000")
    many = [line(f"/k{n}") for n in range(2_000)]
    receipt = door.post(body(*many, "nonsense", ahead, line(), ahead)).json()
    assert (receipt["counted"], receipt["refused"]) == (2_001, 3)
    assert [(item["index"], item["field"]) for item in receipt["items"]] == [(2_000, "line"), (2_001, "ts")]


def test_what_is_no_log_is_told_and_bounded(door: LogDoor) -> None:
    answer = door.post(b"x\n" * 20_000)
    assert (answer.status_code, answer.json()["refused"]) == (422, 20_000)
    shown = len(answer.json()["items"])
    assert 200 <= shown <= 210, "five of each step"
    assert answer.json()["items_omitted"] == 20_000 - shown
    assert door.post(b"x\n" * 110_000).status_code == 413
    for nothing in (b"\n", b"# x\n", b'{"msg":""}\n'):
        assert door.post(nothing * 110_000).status_code == 413
        assert door.post(nothing * 10_000).json()["skipped"] == 10_000
    assert door.post(b"").json()["counted"] == 0
    assert door.intake.total == 0


@pytest.mark.long
def test_lines_of_a_body_are_bounded(door: LogDoor) -> None:
    answer = door.post(b'1 [01/Jan/2026:12:00:03 +0000] "-" 400 0\n' * (BODY_VALUES + 500))
    assert (answer.status_code, "1,000,000 lines" in answer.json()["rule"]) == (413, True)


def test_a_line_that_is_far_too_long_is_refused_alone(door: LogDoor) -> None:
    long = line("/" + "a" * LONGEST_LINE)
    receipt = door.post(body(line(), long, line())).json()
    assert (receipt["counted"], receipt["refused"]) == (2, 1)
    assert [(item["index"], item["reason"]) for item in receipt["items"]] == [(1, "the line is too long")]
    assert door.post(long.encode()).json()["refused"] == 1


def test_a_journal_that_is_full_says_so_and_nothing_counts(door: LogDoor) -> None:
    door.intake.failure = JournalFull("full")
    answer = door.post(body(line()))
    assert (answer.status_code, int(answer.headers["retry-after"]) >= 1) == (503, True)


def test_it_can_be_switched_off() -> None:
    answer = LogDoor(is_on=False).post(body(line()))
    assert (answer.status_code, answer.json()["field"]) == (404, "doors")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("status 404", "status"), ("method HEAD", "method"), ("no key", "no key"), ("methods", "methods")],
)
def test_reasons_are_few_words_on_metrics(reason: str, kind: str) -> None:
    assert kind_of_skip(reason) == kind


BODY_LINES = (
    [line(), line("/b?utm_source=x"), line(agent=BOT), line(status=404), "", "\r", "nonsense", "a" * 40_000, FIELDS,
     W3C_LINE, '{"status":302,"request":"GET /j HTTP/1.1","ts":1767268803}', "{", "# x", line("/" + "k" * 1_100)]
)  # fmt: skip
PLACES = st.lists(st.integers(0, len(BODY_LINES) - 1), max_size=60)  # in BODY_LINES: some are too long to be shown


@law
@given(PLACES, st.booleans())
def test_pieces_are_the_lines_and_a_body_counts_as_an_import_of_it(places: list[int], ends: bool) -> None:
    lines = [BODY_LINES[place] for place in places]
    content = "\n".join(lines).encode() + b"\n" * ends
    assert b"".join(piece for piece in pieces(content) if piece).removesuffix(b"\n") == content.removesuffix(b"\n")
    door, log = LogDoor(), AccessLog(is_bot)
    receipt = door.post(content).json()
    read = log.read(content)
    assert receipt["counted"] + receipt["refused"] + receipt["skipped"] == read.lines
    assert (door.intake.people.total(), door.intake.bots.total()) == (read.people_hits, read.bot_hits)
    assert (receipt["refused"], receipt["skipped_because"]) == (read.bad, dict(read.skipped))


def test_columns_hold_below_a_line_of_another_format(door: LogDoor) -> None:
    for lines in ([FIELDS, line(), W3C_LINE], ["a" * 40_000, FIELDS, line(), W3C_LINE], [FIELDS, W3C_LINE, line()]):
        assert door.post(body(*lines)).json()["counted"] == 2


# --- a real server ----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def customers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, dict[str, str]]]:
    data = tmp_path_factory.mktemp("logs") / "data"
    tokens = {
        "acme": add_token(data / "tokens.json", "acme", (Scope.write,), prefix="acme/"),
        "reader": add_token(data / "tokens.json", "reader", (Scope.read,)),
        "admin": add_token(data / "tokens.json", "admin", (Scope.admin,)),
    }
    with RunningServer(data) as server:
        yield server, tokens


def test_a_prefix_holds_and_the_scope_is_write(customers: tuple[RunningServer, dict[str, str]]) -> None:
    server, tokens = customers
    sent = body(line("/acme/a"), line("/beta/b"), line("/acme/a", agent=BOT))
    with http_client(server.url) as http:

        def post(token: str) -> httpx.Response:
            named = {"Authorization": f"Bearer {tokens[token]}", "Idempotency-Key": "1"} if token else {}
            return http.post("/v1/logs/web1", content=sent, headers=named)

        assert [post(token).status_code for token in ("", "reader")] == [401, 403]
        receipt = post("acme").json()
        assert (receipt["counted"], receipt["refused"]) == (2, 1)
        assert [(item["index"], item["field"], item["value"]) for item in receipt["items"]] == [(1, "key", "beta/b")]
        again, admins = post("acme").json(), post("admin").json()
        assert (again["duplicate"], admins["counted"]) == (2, 3), "another token's key is another key"
        http.headers["Authorization"] = f"Bearer {tokens['admin']}"
        assert http.get("/v1/groups/acme/total?bots=include").json()["total"] == 2


def test_lines_say_of_their_visitors_what_an_import_of_them_says(serve: Serve) -> None:
    server = serve()
    agents = body(*(line(f"/l?utm_source=s{n}", agent=BROWSER.replace("140", str(n))) for n in range(40)))
    with http_client(server.url) as http:
        assert (
            http.post("/v1/logs/web1", content=agents, headers={"Content-Type": "text/plain"}).json()["counted"] == 40
        )
        by = http.get("/v1/links/l/by/ref").json()["values"]
        assert [(value["value"], value["at_least"]) for value in by] == [("news.example", 40)]
        assert http.get("/v1/links/l/visitors?from=2026-01-01&to=2026-01-02").status_code == 200
        document = http.get("/openapi.json").json()["paths"]["/v1/logs/{source}"]["post"]
    assert document["x-scope"] == "write"
    assert "text/plain" in document["requestBody"]["content"]
    schema = document["responses"]["200"]["content"]["application/json"]["schema"]
    assert json.dumps(schema) == '{"$ref": "#/components/schemas/LogReceipt"}'
