"""While a server answers one request that asks for as much as it may, or for more, hits are counted as always.

Two thousand links, half of them with hits of six years, half with keys of a thousand letters. Each request is answered,
mostly with 422, and meanwhile nothing holds the event loop for longer than 7 pieces of work (tests/hostile/piece.py),
and the p99 of a hit stays below 17.
"""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from server.clock import now
from server.compat.otlp_protobuf import PROTOBUF
from testing.client import Clickcurve, http_client
from testing.server import free_port
from tests.hostile.loop_watch import PAUSE_MAX, WatchedServer
from tests.server.compat.test_otlp_logs import in_protobuf

# Measured again: OtherThreads waits for a processor, too, and may miss that the thread which held the interpreter did.
pytestmark = [pytest.mark.slow, pytest.mark.flaky(reruns=2)]

YEAR_S = 31_536_000
FORM = "application/x-www-form-urlencoded"
STATSD_PORT = free_port()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedServer]:
    data = tmp_path_factory.mktemp("heavy") / "data"
    flags = ("--statsd", f"127.0.0.1:{STATSD_PORT}", "--flush-s", "1")
    with WatchedServer(data, *flags) as running, Clickcurve(running.url) as client:
        source, moment = random.Random(1), int(now())
        of_years = [
            {"key": f"k{link:04}", "ts": moment - int(source.random() ** 3 * 6 * YEAR_S), "ref": f"h{n}.example"}
            for link in range(1_000)
            for n in range(20)
        ]
        of_many = [{"key": "k0000", "ts": moment - n * 6_000, "ref": f"r{n}.example"} for n in range(20_000)]
        long_keys = [{"key": "a" * 1_000 + f"{n:06}"} for n in range(1_000)]
        for hits in (of_years, of_many, long_keys):
            client.send(hits)
        running.wait_until(lambda: client.metric("clickcurve_buffered_hits") == 0)
        yield running


def asked(path: str, *fields: tuple[str, str]) -> tuple[str, str, bytes]:
    return path, FORM, "&".join(f"{name}={quote(value, safe='')}" for name, value in fields).encode()


def rendered(*targets: str, start: str = "-1900d") -> tuple[str, str, bytes]:
    named = [("target", target) for target in targets]
    return asked("/render", ("from", start), ("maxDataPoints", "10000"), *named)


def promql(query: str) -> tuple[str, str, bytes]:
    return asked("/api/v1/query", ("query", query))


def along(query: str) -> tuple[str, str, bytes]:
    end = int(now()) - 3_600
    times = (("start", str(end - 10_999 * 3_600)), ("end", str(end)), ("step", "3600"))
    return asked("/api/v1/query_range", ("query", query), *times)


def exported(points: list[str], resource: str = "") -> tuple[str, str, bytes]:
    sums = f'{{"isMonotonic":true,"aggregationTemporality":1,"dataPoints":[{",".join(points)}]}}'
    scopes = f'[{{"metrics":[{{"name":"clicks","sum":{sums}}}]}}]'
    body = f'{{"resourceMetrics":[{{"resource":{{"attributes":[{resource}]}},"scopeMetrics":{scopes}}}]}}'
    return "/v1/metrics", "application/json", body.encode()


def recorded(records: list[str]) -> tuple[str, str, bytes]:
    body = f'{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{",".join(records)}]}}]}}]}}'
    return "/v1/logs", "application/json", body.encode()


def of_agents(hits: int) -> bytes:
    source = random.Random(2)
    return json.dumps([{"key": "agents", "ua": source.randbytes(500).hex()} for _ in range(hits)]).encode()


LINE = '1.1.1.1 - - [01/Jan/2026:12:00:03 +0000] "GET /otlp HTTP/1.1" 302 0 "-" "Mozilla/5.0"'
KEY = '{"key":"key","value":{"stringValue":"otlp"}}'
POINT = f'{{"attributes":[{KEY}],"asInt":1,"timeUnixNano":%d}}'
SHIFTS = ",".join(f"timeShift(total,'{n}h')" for n in range(400))
LONG_NODES = ",".join("*" + "a" * 70 + "b" for _ in range(12))
# What each needs more than it may have; an empty text: it is answered.
REQUESTS: dict[str, tuple[tuple[str, str, bytes], str]] = {
    "expand: 1,990 patterns": (
        asked("/metrics/expand", *[("query", f"clicks.*x{n}") for n in range(1_990)]),
        "steps of matching",
    ),
    "series: 1,990 selectors": (
        asked("/api/v1/series", *[("match[]", f'clicks{{key=~"z{n}.*"}}') for n in range(1_990)]),
        "steps of matching",
    ),
    "find: alternatives over long keys": (
        asked("/metrics/find", ("query", f"clicks.{{{LONG_NODES}}}")),
        "steps of matching",
    ),
    "expression: groups that may be empty": (promql('increase(clicks{key=~"' + "(|.)" * 40 + 'NO"}[1h])'), ""),
    "expression: two stars": (promql('increase(clicks{key=~".*.*NO"}[1h])'), ""),
    "expression: a large one": (promql('increase(clicks{key=~".*a.{100}b"}[1h])'), "steps of matching"),
    "expression: keys that it is not": (promql('increase(clicks{key!~"' + "b|" * 30_000 + '"}[1h])'), "links"),
    "sumSeries: 800 patterns": (rendered(f"sumSeries({','.join(['clicks.k01*'] * 800)})"), "rows read"),
    "sumSeries: 1,500 times the total": (rendered(f"sumSeries({','.join(['total'] * 1_500)})"), ""),
    "sumSeries: 400 shifts": (rendered(f"sumSeries({SHIFTS})"), ""),
    "highest: 100 rankings": (rendered(*["limit(highest(clicks.*,1000,'sum'),1)"] * 100, start="-30d"), "rows read"),
    "render: 199 links": (rendered("clicks.k01*", start="0"), ""),
    "render: 199 links as CSV": (("/render?format=csv", *rendered("clicks.k01*", start="0")[1:]), ""),
    "render: values of all time": (
        asked("/render", ("target", "clicks.k00*.ref.h1*"), ("from", "0"), ("until", "253370764799")),
        "points of values made",
    ),
    "render: values": (rendered("clicks.k0000.ref.r1*"), "too many series"),
    "sum by: 200 links by referrer": (promql('sum by (key,ref) (increase(clicks{key=~"k01.*"}[1900d]))'), ""),
    "topk: all referrers": (promql("topk(5,sum by (ref) (increase(clicks[1900d])))"), ""),
    "range: 700 links": (along('increase(clicks{key=~"k0[0-6].*"}[3600s])'), "would have too many samples"),
    "range: the greatest of 1,000 links": (along('topk(1000,increase(clicks{key=~"k.*"}[3600s]))'), "points made"),
    "OTLP: 1,390,000 empty points": (exported(["{}"] * 1_390_000), "objects in the body"),
    "OTLP: 60,000 points without a key": (exported(['{"asInt":1,"timeUnixNano":1}'] * 60_000), ""),
    "OTLP: 30,000 points": (exported([POINT % (1_780_000_000 * 10**9 + n) for n in range(30_000)]), ""),
    "OTLP: a resource of 2 MB": (
        exported(['{"asInt":1,"timeUnixNano":1}'] * 20_000, f'{{"key":"{"a" * 2_000_000}"}}'),
        "",
    ),
    "OTLP: 2,000,000 empty parts of metrics": (("/v1/metrics", PROTOBUF, b"\n\0" * 2_000_000), "objects in the body"),
    "OTLP: 2,000,000 empty parts of logs": (("/v1/logs", PROTOBUF, b"\n\0" * 2_000_000), "objects in the body"),
    "OTLP: 1,390,000 empty records": (recorded(["{}"] * 1_390_000), "objects in the body"),
    "OTLP: 60,000 records without a line": (recorded(['{"timeUnixNano":1}'] * 60_000), ""),
    "OTLP: 20,000 records in protobuf": (("/v1/logs", PROTOBUF, in_protobuf(*[LINE] * 20_000)), ""),
    "OTLP: 60 records of 60 KiB": (recorded([f'{{"body":{{"stringValue":"{"x " * 30_000}"}}}}'] * 60), ""),
    "hits: 3,000 new agents": (("/v1/hits", "application/json", of_agents(3_000)), ""),
    "Plausible: 60,000 brackets": (("/api/event", "text/plain", b"[" * 60_000), "not JSON"),
}


# Protobuf's parser, in C, holds Python's lock for as long as it reads: 4 MiB of the shortest parts take some 45 ms.
PAUSES_MAX = dict.fromkeys([name for name, ((_, media, _), _) in REQUESTS.items() if media == PROTOBUF], 20)


@pytest.mark.parametrize("name", REQUESTS)
def test_hits_count_as_always_while_a_request_is_answered(server: WatchedServer, name: str) -> None:
    (path, media, body), too_much = REQUESTS[name]

    with server.watch() as seen, http_client(server.url, timeout_s=600) as client:
        answer = client.post(path, content=body, headers={"content-type": media})
    print(f"{name}: {answer.status_code}, {answer.elapsed.total_seconds():.2f} s")
    if too_much:
        assert 400 <= answer.status_code < 500
        assert too_much in (answer.json().get("detail") or answer.json()["error"])
    else:
        assert answer.status_code == 200, answer.text[:500]
    seen.check(pause_max=PAUSES_MAX.get(name, PAUSE_MAX))


@pytest.mark.parametrize("path", ["/", "/links/k0000", "/docs", "/help/http-api", "/nothing-here"])
def test_hits_count_as_always_while_the_first_page_of_a_server_is_made(path: str, tmp_path: Path) -> None:
    with WatchedServer(tmp_path / "data") as server, Clickcurve(server.url) as client, server.watch() as seen:
        client.http.get(path, headers={"Accept": "text/html"})
    seen.check()


LINES = [b"clicks.flood:1|c\n", b"clicks:1|c|#key:flood,ref:r.example,ua:Mozilla/5.0,country:DE\n"]


@pytest.mark.parametrize("line", LINES)
def test_hits_count_as_always_during_a_flood_of_packets(server: WatchedServer, line: bytes) -> None:
    packet = line * (60_000 // len(line))

    with server.watch() as seen, Clickcurve(server.url) as client:
        before = client.total("flood")["total"]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            for _ in range(100):
                sending.sendto(packet, ("127.0.0.1", STATSD_PORT))
                client.http.get("/healthz")
        server.wait_until(lambda: client.total("flood")["total"] > before)
    seen.check()
