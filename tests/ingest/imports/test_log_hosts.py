"""Lines of access logs where hosts are in keys: which part of a line names the host, and what becomes of the rest."""

from __future__ import annotations

import json

import pytest

from clickcurve.hosts import Hosts
from ingest.imports.access_log import AccessLog
from ingest.imports.importer import dated_hits
from ingest.imports.log_sums import LogSums
from tests.ingest.imports.test_access_log import is_bot, line

CADDY = {"status": 302, "ts": 1772357400.5, "request": {"method": "GET", "host": "A.example:443", "uri": "/x?y"}}
NGINX = {"status": "302", "time_iso8601": "2026-03-01T09:30:00+00:00", "request": "GET /x HTTP/1.1"}
IN_FRONT = line("GET /x HTTP/1.1", head="A.example:80 203.0.113.9 - ann ")


IN_KEY = Hosts(in_key=True)


def read(*lines: str, hosts: Hosts = IN_KEY, attributes: bool = False) -> LogSums:
    log = AccessLog(is_bot, hosts=hosts)
    if attributes:
        log.use(("ip", "ref"))
    return log.read("".join(f"{one}\n" for one in lines).encode())


def keys(reading: LogSums) -> list[str]:
    return [hit.key for hit in dated_hits(reading)]


@pytest.mark.parametrize(
    "text",
    [
        IN_FRONT,
        line("GET /x HTTP/1.1", head="a.example 203.0.113.9 - - "),
        line("GET /x HTTP/1.1", head="a.example 203.0.113.9 - Jane Q. Public "),
        line("GET /x HTTP/1.1", head="a.example 203.0.113.9 - - ", agent=None),
        line("GET http://A.example/x HTTP/1.1"),
        line("GET http://a.example:80/x HTTP/1.1", head="proxy.example 203.0.113.9 - - "),
        json.dumps(CADDY),
        json.dumps({**NGINX, "host": "a.example"}),
        json.dumps({**NGINX, "http_host": "A.EXAMPLE"}),
        json.dumps({**NGINX, "server_name": "a.example"}),
    ],
)
@pytest.mark.parametrize("attributes", [False, True], ids=["plain", "with attributes"])
def test_a_line_that_names_its_host_is_a_hit_of_the_link_under_it(text: str, attributes: bool) -> None:
    assert keys(read(text, attributes=attributes)) == ["a.example/x"]
    assert keys(read(text, hosts=Hosts(), attributes=attributes)) == ["x"]


def test_one_path_of_two_hosts_is_two_links_and_the_caches_keep_them_apart() -> None:
    two = [line("GET /x HTTP/1.1", head=f"{host}.example 203.0.113.9 - - ") for host in "abab"]
    assert {hit.key: hit.count for hit in dated_hits(read(*two))} == {"a.example/x": 2, "b.example/x": 2}


@pytest.mark.parametrize(
    "text",
    [
        line("GET /x HTTP/1.1"),
        line("GET /x HTTP/1.1", head="203.0.113.9 - Jane Q. Public "),
        line("GET /x HTTP/1.1", agent=None),
        json.dumps(NGINX),
    ],
)
def test_a_line_without_a_host_is_skipped_and_says_so_unless_a_host_is_given(text: str) -> None:
    assert read(text).skipped == {"no host": 1}
    assert keys(read(text, hosts=Hosts(in_key=True, default="s.example"))) == ["s.example/x"]


def test_the_address_behind_the_host_is_still_the_visitor_s() -> None:
    log = AccessLog(is_bot, hosts=Hosts(in_key=True))
    log.use(("ip",))
    for text in (IN_FRONT, IN_FRONT.replace("GET /x", r"GET /x\x22")):  # the second needs the slow path
        (hit,) = dated_hits(log.read(f"{text}\n".encode()))
        assert hit.ip == "203.0.113.9"


def test_the_slow_path_says_the_same_as_the_fast_one() -> None:
    heads = ["a.example 203.0.113.9 - - ", "B.example:8080 2001:db8::7 - ann ", "203.0.113.9 - - ", "x - - - "]
    requests = ["GET /x HTTP/1.1", "GET http://c.example/y HTTP/1.1", "GET / HTTP/1.1", "POST /x HTTP/1.1"]
    for text in (line(request, head=head) for head in heads for request in requests):
        fast = read(text)
        parsed = AccessLog(is_bot, hosts=Hosts(in_key=True)).parse(text)
        assert keys(fast) == ([] if isinstance(parsed, str) else [parsed.key])
        assert fast.people_hits + fast.skipped.total() == 1
