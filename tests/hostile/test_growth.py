"""Every parser of what a client sends takes time in proportion to its input, for a dozen hostile families.

What refuses a long input at once is as good. `python -m pytest -s` prints the figures.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from clickcurve.access_log import parse_log_line
from clickcurve.asgi import Message
from clickcurve.buckets.errors import ClickcurveError
from clickcurve.hosts import HOSTS_IGNORED, Hosts, host_in_key
from clickcurve.keys import KeyForm, contains, decoded_once
from clickcurve.limiter.http.address import addresses
from clickcurve.visible import visible
from dashboard.page.login_routes import login_address, login_routes
from dashboard.page.templates import Templates
from dashboard.page.view import view_of
from ingest.agents.bots import bot_judge
from ingest.agents.reader import AgentReader
from ingest.attributes.bot_rules import BotRules, BotRuleSet
from ingest.attributes.campaign import campaign_of_query
from ingest.attributes.country import address_of
from ingest.attributes.language import language_of
from ingest.attributes.profile import NO_DIMENSIONS
from ingest.attributes.referrer import ReferrerReader
from ingest.hit import JsonHit
from ingest.imports.logs.front import client_of, is_host, read_front
from ingest.imports.logs.line_reader import LineReader, looks_like
from ingest.imports.logs.log_format import own_format
from ingest.imports.logs.logged_request import LineBad
from ingest.imports.logs.w3c import columns_of
from ingest.journal.segment_format import Malformed
from ingest.reading.body import media_of
from ingest.reading.body_budget import BodyBudget, coding_of
from ingest.reading.fit import fit
from query.http.content import accepts_csv
from query.http.questions import Questions
from query.parameters import CURVE, parse_before, parse_parameters, parse_query
from query.zones import zone
from server.app.parts import ROUTES
from server.compat.foreign.doors import ForeignDoors
from server.compat.foreign.event import NotCounted, read_hit
from server.compat.foreign.outcomes import NO_EVENTS, folded, value_of
from server.compat.foreign.products import DUB
from server.compat.hit_sender import HitSender
from server.compat.log_lines import LineCounter
from server.compat.otlp import otlp_routes
from server.compat.otlp_logs import otlp_log_routes
from server.compat.otlp_protobuf import PROTOBUF
from server.compat.statsd import LineRefused, StatsdReceiver, hit_of_line
from server.compat.syslog_frames import Frames, line_of
from server.http.gateway import cookie_of
from server.mcp.help_pages import MANUAL, HelpPages
from server.mcp.mcp_routes import mcp_routes
from server.metrics import known_versions
from server.settings.events import NO_UNIT
from tests.hostile.growth import MOST_GROWTH, Growth, measured
from tests.hostile.open_doors import OpenDoors
from tests.hostile.test_parsers import PARSERS
from tests.ingest.http_kit import MOMENT, Client, MemoryIntake
from tests.ingest.imports.logs.kit import CLF, FORMATS
from tests.power import at
from tests.query.queried_nodes import Limits
from tests.server.compat.compat_node import HOUR, CompatNode
from tests.server.compat.test_otlp_logs import in_protobuf

# --- requests to other tools' routes ----------------------------------------------------------------------------------
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
Request = tuple[str, str, bytes]  # method and path, content type, body


class CompatRoutes:
    """All routes of other tools in this process, with keys of a thousand letters."""

    def __init__(self) -> None:
        node = CompatNode()
        for n in range(20):
            node.hit("a" * 1_000 + str(n), HOUR)
        node.hit("k" * 16, HOUR)
        app = node.app
        client = Client()
        sender = HitSender(client.routes)
        ignored = client.routes.counters.ignored_events
        app.include_router(ForeignDoors(sender, HOSTS_IGNORED, OpenDoors(), ignored).router())
        app.include_router(otlp_routes(sender))
        room = BodyBudget(lambda: 0.0)
        lines = LineCounter(MemoryIntake(), lambda: MOMENT, client.routes.counters, room, NO_DIMENSIONS)
        app.include_router(otlp_log_routes(lines, HOSTS_IGNORED, True))
        questions = Questions(node.nodes.queries, None, Limits())
        app.include_router(mcp_routes("1", HelpPages(MANUAL), questions, ROUTES.check))
        app.include_router(login_routes(Templates(), lambda token: None, lambda: True))
        self._app = app
        self._loop = asyncio.new_event_loop()
        self.statuses: set[int] = set()

    def answer(self, request: Request) -> None:
        """Answers one request, as a server does but for the connection."""
        line, media, body = request
        method, _, target = line.partition(" ")
        path, _, query = target.partition("?")
        headers = [(b"content-type", media.encode()), (b"host", b"localhost")]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "root_path": "",
            "http_version": "1.1",
            "scheme": "http",
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
        }

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.statuses.add(message["status"])

        self._loop.run_until_complete(self._app(scope, receive, send))

    def close(self) -> None:
        self._loop.close()


def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns a call of an assistant's tool."""
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def asked(path: str, name: str, text: Callable[[int], str], **more: str) -> Callable[[int], Request]:
    """Returns a family of forms, of which one field is hostile."""

    def make(n: int) -> Request:
        fields = {**more, name: text(n)}
        body = "&".join(f"{field}={quote(value, safe='')}" for field, value in fields.items())
        return f"POST {path}", FORM, body.encode()

    return make


def sent(path: str, body: Callable[[int], object]) -> Callable[[int], Request]:
    def make(n: int) -> Request:
        content = body(n)
        return f"POST {path}", JSON, content if isinstance(content, bytes) else json.dumps(content).encode()

    return make


def form(path: str, body: Callable[[int], bytes]) -> Callable[[int], Request]:
    return lambda n: (f"POST {path}", FORM, body(n))


def event(**fields: Callable[[int], str]) -> Callable[[int], Request]:
    return sent("/api/event", lambda n: {"n": "pageview", "u": "/a"} | {name: of(n) for name, of in fields.items()})


VIEW = {"event": "$pageview", "properties": {"$current_url": "http://h/a"}}
PAGE = {"type": "page", "properties": {"url": "http://h/a"}}


def umami(url: str) -> dict[str, Any]:
    return {"type": "event", "payload": {"website": "w", "url": url}}


def promql(text: Callable[[int], str]) -> Callable[[int], Request]:
    return asked("/api/v1/query", "query", text)


def keys(text: Callable[[int], str], sign: str = "=~") -> Callable[[int], Request]:
    return promql(lambda n: f'increase(clicks{{key{sign}"{text(n)}"}}[1h])')


def target(text: Callable[[int], str]) -> Callable[[int], Request]:
    return asked("/render", "target", text, **{"from": "-1h"})


def found(text: Callable[[int], str]) -> Callable[[int], Request]:
    return asked("/metrics/find", "query", text)


def many_alternatives(n: int) -> str:
    return f"clicks.{{{','.join(['*' + 'a' * 4 * n + 'b'] * 20)}}}"


def export(resource: int, points: int, name: str = "clicks") -> dict[str, Any]:
    attributes = [{"key": "key", "value": {"stringValue": "a"}}]
    times = [{"attributes": attributes, "asInt": 1, "timeUnixNano": 1_780_000_000 * 10**9 + n} for n in range(points)]
    sums = {"isMonotonic": True, "aggregationTemporality": 1, "dataPoints": times}
    scopes = [{"metrics": [{"name": name, "sum": sums}]}]
    of = {"attributes": [{"key": "x", "value": {"stringValue": "r" * resource}}]}
    return {"resourceMetrics": [{"resource": of, "scopeMetrics": scopes}]}


LINE = f'1.1.1.1 - - [{CLF}] "GET /a HTTP/1.1" 302 0'


def records(*of: dict[str, Any]) -> dict[str, Any]:
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": of}]}]}


def in_arrays(n: int) -> dict[str, Any]:
    """Returns a value within n arrays."""
    value: dict[str, Any] = {"stringValue": "a"}
    for _ in range(n):
        value = {"arrayValue": {"values": [value]}}
    return value


# Parsers that took quadratic time once, and others of their kind; each with the n of its smallest input.
REQUESTS: dict[str, tuple[int, Callable[[int], Request]]] = {
    "PromQL: digits that end in a letter": (4_000, promql(lambda n: "1" * n + "x")),
    "PromQL: a fraction that ends in a letter": (4_000, promql(lambda n: "1." + "1" * n + "x")),
    "PromQL: lengths of time": (4_000, promql(lambda n: "increase(clicks[" + "1s" * n + "x])")),
    "PromQL: an open quote": (8_000, promql(lambda n: '"' + "a\\" * (n // 2))),
    "PromQL: brackets": (8_000, promql(lambda n: "(" * n)),
    "PromQL: a sum of numbers": (4_000, promql(lambda n: "1+" * n + "1")),
    "PromQL: labels": (4_000, promql(lambda n: "sum by (" + "key," * n + ") (increase(clicks[1h]))")),
    "PromQL: matchers": (1_000, promql(lambda n: "increase(clicks{" + 'key!="a",' * n + "}[1h])")),
    "expression: open classes": (2_000, keys(lambda n: "[" * n)),
    "expression: open groups": (4_000, keys(lambda n: "(" * n)),
    "expression: a list of keys": (1_000, keys(lambda n: "a|" * n, "!~")),
    "expression: one long key": (8_000, keys(lambda n: "a" * n)),
    "expression: escapes": (4_000, keys(lambda n: r"\\." * n)),
    "expression: groups that may be empty": (4, keys(lambda n: "(|.)" * n + "NO")),
    "expression: repeats with a flag": (250, keys(lambda n: "(?x)(.+) +NO" + " " * n)),
    "expression: stars": (4, keys(lambda n: ".*" * n + "NO")),
    "expression: a repeated group": (4, keys(lambda n: "(a+)+" * n + "NO")),
    "series: selectors": (400, form("/api/v1/series", lambda n: b"&".join([b"match[]=clicks"] * n))),
    "target: digits": (4_000, target(lambda n: "1" * n + "x")),
    "target: open braces": (4_000, target(lambda n: "clicks." + "{" * n)),
    "target: brackets": (4_000, target(lambda n: "f(" * n)),
    "target: an open quote": (4_000, target(lambda n: "'" + "\\'" * n)),
    "target: blanks": (4_000, target(lambda n: "f(" + " " * n + "x" + " " * n)),
    "target: arguments": (2_000, target(lambda n: "sumSeries(" + "1," * n + "1)")),
    "target: nodes to name a series by": (2_000, target(lambda n: "aliasByNode(clicks.k" + ",1" * n + ")")),
    "target: groups that may be empty": (4, target(lambda n: f"aliasSub(clicks.{'k' * 16},'{'(|.)' * n} NO','x')")),
    "target: a length of time": (4_000, target(lambda n: f"timeShift(total,'{'1' * n}s')")),
    "name: one long node": (25_000, found(lambda n: "clicks." + "a" * n)),
    "name: open classes": (25_000, found(lambda n: "clicks." + "[" * n)),
    "name: open braces": (25_000, found(lambda n: "clicks." + "{" * n)),
    "name: dots": (25_000, found(lambda n: "." * n)),
    "name: percent signs": (10_000, found(lambda n: "clicks." + "%" * n)),
    "name: stars": (250, found(lambda n: "clicks." + "*a" * n + "b")),
    "name: alternatives of one long key": (100, found(many_alternatives)),
    "name: braces in a row": (1_500, found(lambda n: "clicks." + "{a}" * n)),
    "time: digits": (8_000, asked("/render", "from", lambda n: "1" * n, target="total")),
    "time: blanks": (8_000, asked("/render", "from", lambda n: " " * n + "x", target="total")),
    "time of PromQL": (8_000, asked("/api/v1/query", "time", lambda n: "1" * n + "e-9", query="1")),
    "step of PromQL": (8_000, asked("/api/v1/query_range", "step", lambda n: "1" * n, query="1", start="0", end="1")),
    "zone": (8_000, asked("/render", "tz", lambda n: "A/" * n, target="total")),
    "form: fields": (500, form("/render", lambda n: b"&".join([b"a=b"] * n))),
    "form: percent signs": (8_000, form("/render", lambda n: b"a=" + b"%41" * n)),
    "Content-Type": (8_000, lambda n: ("POST /render", "a;" * n, b"x=1")),
    "Bitly: a path": (4_000, lambda n: ("GET /v4/bitlinks/h/" + "a/" * n + "clicks", "", b"")),
    "Bitly: units": (4_000, lambda n: ("GET /v4/bitlinks/h/a/clicks?units=" + "1" * n, "", b"")),
    "OTLP: a resource of many points": (500, sent("/v1/metrics", lambda n: export(500 * n, n))),
    "OTLP: the name of a metric that is refused": (500, sent("/v1/metrics", lambda n: export(1, n, "x" * 50 * n))),
    "OTLP: attributes": (
        4_000,
        sent(
            "/v1/metrics",
            lambda n: {"resourceMetrics": [{"resource": {"attributes": [{}] * n}, "scopeMetrics": [{}] * n}]},
        ),
    ),
    "OTLP: brackets": (8_000, sent("/v1/metrics", lambda n: b'{"resourceMetrics":' + b"[" * n)),
    "OTLP: log records": (300, sent("/v1/logs", lambda n: records(*[{"body": {"stringValue": LINE}}] * n))),
    "OTLP: log records in protobuf": (300, lambda n: ("POST /v1/logs", PROTOBUF, in_protobuf(*[LINE] * n))),
    "OTLP: attributes of log records": (
        100,
        sent("/v1/logs", lambda n: records(*[{"attributes": [{"key": "a", "value": {}}] * 50}] * n)),
    ),
    "OTLP: values in values": (20, sent("/v1/logs", lambda n: records({"body": in_arrays(n)}))),
    "OTLP: a long log record": (8_000, sent("/v1/logs", lambda n: records({"body": {"stringValue": "\n" * n + "a"}}))),
    "OTLP: brackets of log records": (8_000, sent("/v1/logs", lambda n: b'{"resourceLogs":' + b"[" * n)),
    "Plausible: a long url": (8_000, event(u=lambda n: "http://h/" + "a" * n)),
    "Plausible: fields of a url": (2_000, event(u=lambda n: "/a?" + "a=b&" * n)),
    "Plausible: accents of a host": (2_000, event(u=lambda n: "http://" + "\u0301\u0323" * n + "/a")),
    "Plausible: a referrer": (8_000, event(r=lambda n: "http://" + "a." * n)),
    "Plausible: brackets": (8_000, sent("/api/event", lambda n: b'{"n":' * n)),
    "Matomo: parameters": (40, form("/matomo.php", lambda n: b"url=/a&" * n)),
    "Matomo: percent signs": (8_000, form("/matomo.php", lambda n: b"url=/a" + b"%41" * n)),
    "Matomo: requests of many parameters": (
        200,
        sent("/matomo.php", lambda n: {"requests": ["?url=/a&" + "a=b&" * 90] * n}),
    ),
    "Umami: a long url": (8_000, sent("/api/send", lambda n: umami("/" + "a" * n))),
    "Umami: fields of a url": (2_000, sent("/api/send", lambda n: umami("/a?" + "a=b&" * n))),
    "Umami: events": (200, sent("/api/batch", lambda n: [umami("/a")] * n)),
    "Umami: brackets": (3_000, sent("/api/send", lambda n: b'{"payload":' + b"[" * n)),
    "GoatCounter: a query": (4_000, sent("/api/v0/count", lambda n: {"hits": [{"path": "/a", "query": "a=b&" * n}]})),
    "GoatCounter: page views": (200, sent("/api/v0/count", lambda n: {"hits": [{"path": "/a"}] * n})),
    "PostHog: a long id": (8_000, sent("/i/v0/e/", lambda n: {"uuid": "u" * n, **VIEW})),
    "PostHog: events": (200, sent("/batch/", lambda n: {"batch": [VIEW] * n})),
    "Segment: a context for all": (
        200,
        sent("/v1/from/segment/v1/batch", lambda n: {"batch": [PAGE] * n, "context": {f"a{i}": i for i in range(50)}}),
    ),
    "Segment: a time": (8_000, sent("/v1/from/segment/v1/page", lambda n: {**PAGE, "timestamp": "1" * n})),
    "MCP: brackets": (3_000, sent("/mcp", lambda n: b'{"params":' + b"[" * n)),
    "MCP: a long argument": (8_000, sent("/mcp", lambda n: call("count", {"key": "a" * n}))),
    "MCP: unknown arguments": (1_500, sent("/mcp", lambda n: call("count", {f"a{i}": 1 for i in range(n)}))),
    "MCP: words to look up": (4_000, sent("/mcp", lambda n: call("help", {"about": "a " * n}))),
    "login: fields": (1_000, form("/login", lambda n: b"&".join([b"a=b"] * n))),
    "login: percent signs": (
        600,
        lambda n: ("POST /login", "application/x-www-form-urlencoded", b"token=" + b"%41" * n),
    ),
}


@pytest.fixture
def routes() -> Any:
    made = CompatRoutes()
    yield made
    made.close()


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_of_another_tool_takes_time_in_proportion(routes: CompatRoutes, name: str) -> None:
    n, make = REQUESTS[name]
    check(name, measured(routes.answer, make, n))
    assert max(routes.statuses) < 500


# --- texts and bytes that are read one by one -------------------------------------------------------------------------
def refused_or_read(parse: Callable[[Any], object]) -> Callable[[Any], object]:
    def parse_quietly(value: Any) -> None:
        with suppress(ClickcurveError, Malformed, LineRefused, LineBad, NotCounted):
            parse(value)

    return parse_quietly


def packet(text: str) -> None:
    receiver = StatsdReceiver(HitSender(Client().routes), lambda: 0.0)
    receiver.datagram_received(text.encode(), None)
    asyncio.run(receiver.hand_over())


def dub(key: str, click: str) -> dict[str, Any]:
    return {"event": "link.clicked", "data": {"link": {"key": key}, "click": {"id": click}}}


OWN = own_format('$remote_addr - $remote_user [$time_local] "$request" $status $http_referer -> $http_user_agent')
BOT_RULES = BotRules(BotRuleSet(("spam.example",), (), ("SafeLinks", "aaaaab")))


def client_by(header: str, text: str) -> str:
    scope = {"client": ("127.0.0.1", 1), "headers": [(header.lower().encode(), text.encode("utf-8", "replace"))]}
    return addresses("127.0.0.0/8", header=header.lower()).client(scope)


# What stands in headers, in fields of a hit, in an address, in a packet.
TEXTS: dict[str, Callable[[str], object]] = {
    "Content-Type": media_of,
    "Content-Encoding": coding_of,
    "Accept of a curve": lambda text: accepts_csv([(b"accept", b"text/csv," + text.encode("utf-8", "replace"))]),
    "Accept of metrics": known_versions,
    "query string": lambda text: parse_query(text.encode(), CURVE),
    "from": lambda text: parse_parameters({"from": text}),
    "last": lambda text: parse_parameters({"last": text}),
    "step": lambda text: parse_parameters({"step": text}),
    "tz": zone,
    "address of a login": lambda text: login_address(b"/links/" + text.encode(), text.encode()),
    "line of StatsD": hit_of_line,
    "message of syslog": lambda text: line_of(text.encode()),
    "header of syslog": lambda text: line_of(b"<13>1 a b c d e [" + text.encode()),
    "time of syslog": lambda text: line_of(b"<13>Jan  1 12:00:03 " + text.encode()),
    "stream of syslog": lambda text: Frames().feed(text.encode()[:60_000]),
    "packet of StatsD": packet,
    "line of an access log": parse_log_line,
    "line of any log": lambda text: LineReader().read(text),
    "what stands before a line": read_front,
    "host of a line": is_host,
    "client of a line": client_of,
    "columns of a log": columns_of,
    "what a line looks like": looks_like,
    "line of one's own format": lambda text: OWN.read(f'1.1.1.1 - {text} [{CLF}] "GET /{text}" 302 {text}', UTC),
    "format of nginx": lambda text: own_format(f"$time_local $status $request {text}$a"),
    "format of Apache": lambda text: own_format(f"%t %s %r {text}%a"),
    "ref": ReferrerReader().site,
    "ref in Punycode": lambda text: ReferrerReader().site("https://xn--" + text),
    "words that do not fit": lambda text: fit(JsonHit("a", ref=text, ip=text, source=text, groups=[text]), ()),
    "path of a redirect": decoded_once,
    "key in a path": lambda text: KeyForm(lower=True).in_path(b"/v1/links/" + quote(text, safe="").encode()),
    "lang": language_of,
    "ip": address_of,
    "campaign": campaign_of_query,
    "agent": AgentReader().read,
    "agent of a bot": bot_judge(),
    "name of a bot": bot_judge().bot,
    "text in a log": visible,
    "address of a page": lambda text: view_of(text.encode()),
    "range of a page": lambda text: view_of(b"from=" + quote(text).encode()),
    "key of Dub": lambda text: read_hit(DUB, dub(text, "c"), {}, HOSTS_IGNORED, NO_EVENTS),
    "id of Dub": lambda text: read_hit(DUB, dub("launch", text), {}, HOSTS_IGNORED, NO_EVENTS),
    "name of an event of others": folded,
    "amount of others": lambda text: value_of(text, text, NO_UNIT, in_smallest=False),
    "address with its host": Hosts(in_key=True).key_of_address,
    "key that begins with a host": host_in_key,
    "search in keys": lambda text: contains(text, text[1:] + "!"),
    "the range before": lambda text: parse_before({"before_from": text, "before_to": "2026-01-01"}, zone("UTC")),
    "X-Forwarded-For": lambda text: client_by("X-Forwarded-For", text),
    "Forwarded": lambda text: client_by("Forwarded", text),
    "Cookie": lambda text: cookie_of({"headers": [(b"cookie", text.encode())]}),
    "referrer of a bot by rule": lambda text: BOT_RULES.rule(None, text, None),
    "agent of a bot by rule": lambda text: BOT_RULES.rule(None, None, text),
}
SIZE = 8_000  # of the smallest
UNITS = [*'[\\1"{ a(,.', ";a=b", "&a=b", "%41", ":1", "|c|#a:b", "/a", "a\n", "\u0301\u0323"]


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_takes_time_in_proportion(name: str) -> None:
    parse = refused_or_read(TEXTS[name])
    for unit in UNITS[: at(quick=4, full=len(UNITS))]:
        number = iter(range(1 << 30))  # so that no answer is known from before

        def make(n: int, unit: str = unit, number: Any = number) -> str:
            return f"{next(number)}" + unit * (n // len(unit))

        check(f"{name} of {unit!r}", measured(parse, make, SIZE))


@pytest.mark.parametrize("name", FORMATS)
def test_a_line_of_a_log_takes_time_in_proportion(name: str) -> None:
    """Whatever a stranger repeats in the middle of a line, at any place of it."""
    *header, line = FORMATS[name].lines.split("\n")
    reader = LineReader()
    for one in header:
        reader.read(one)
    read = refused_or_read(reader.read)
    for place in range(0, len(line), at(quick=80, full=25)):
        for unit in UNITS[: at(quick=3, full=len(UNITS))]:

            def make(n: int, unit: str = unit, place: int = place) -> str:
                return line[:place] + unit * (n // len(unit)) + line[place:]

            check(f"{name}, {unit!r} at {place}", measured(read, make, SIZE))


def repeated(before: bytes, unit: str, after: bytes, n: int) -> bytes:
    return before + unit.encode() * (n // len(unit)) + after


@pytest.mark.parametrize("name", PARSERS)
def test_bytes_take_time_in_proportion(name: str) -> None:
    parser, seeds = PARSERS[name]
    parse = refused_or_read(parser)
    seed = seeds[0]
    families: dict[str, Callable[[int], bytes]] = {"seeds": lambda n: seed * (n // len(seed) + 1)}
    for unit in UNITS[: at(quick=4, full=len(UNITS))]:
        families[repr(unit)] = partial(repeated, b"", unit, b"")
    for unit in '[{" ,1'[: at(quick=2, full=6)]:
        families[f"{unit!r} after a seed"] = partial(repeated, seed, unit, b"")
        families[f"{unit!r} in a seed"] = partial(repeated, seed[:8], unit, seed[8:])
    for family, make in families.items():
        check(f"{name} of {family}", measured(parse, make, SIZE))


def check(name: str, growth: Growth) -> None:
    print(f"{name}: {growth}")
    assert growth.factor < MOST_GROWTH, f"{name}: {growth}"
