"""Every format: what it gives of a click, recognised without a flag, in one line and in many."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.imports.access_log import LogOptions
from ingest.imports.log_sums import LogHit
from ingest.imports.logs.line_reader import LineReader, NoRequest, looks_like
from ingest.imports.logs.logged_request import LineBad
from ingest.imports.logs.named_formats import NAMED_FORMATS
from tests.ingest.imports.logs.kit import (
    AGENT,
    AT,
    CADDY_REQUEST,
    COMBINED,
    FORMATS,
    TRAEFIK_JSON,
    Given,
    json_of,
    log_of,
    told,
)


def hit_of(given: Given, host: str = "", count: int = 1) -> dict[str, object]:
    said: dict[str, object] = {"key": f"{host}/launch" if host else "launch", "ts": AT}
    said |= {"count": count} if count > 1 else {}
    said |= {"ua": given.ua} if given.ua else {}
    said |= {"ref": given.ref} if given.ref else {}
    said |= {"ip": given.ip} if given.ip else {}
    return said | ({"utm": {"campaign": given.campaign}} if given.campaign else {})


@pytest.mark.parametrize("name", FORMATS)
def test_a_line_is_recognised_and_says_what_its_format_gives(name: str) -> None:
    given = FORMATS[name]
    for in_key, host in ((False, ""), (True, given.host or "none")):
        sums = log_of(in_key).read(given.lines.encode())
        assert told(sums) == [hit_of(given, host)], sums.first_bad
        assert sums.formats == {given.format: 1}
        assert (sums.skipped.total(), sums.bad) == (
            given.lines.count("\n"),
            0,
        )  # the lines before the last one name its columns


@pytest.mark.parametrize("name", FORMATS)
def test_many_lines_are_cut_at_once_and_say_the_same(name: str) -> None:
    given = FORMATS[name]
    *header, line = given.lines.split("\n")
    log = log_of(in_key=True)
    sums = log.read("\n".join([*header, *[line] * 3_000, ""]).encode())
    assert told(sums) == [hit_of(given, given.host or "none", 3_000)]
    assert sums.formats[given.format] == 3_000
    assert log.read(f"{line}\n".encode()).people_hits == 1  # in the next chunk, which has no header


@pytest.mark.parametrize("name", FORMATS)
def test_a_line_by_itself_is_read_without_a_file(name: str) -> None:
    reader = LineReader()
    for line in FORMATS[name].lines.split("\n"):
        request = reader.read(line)
    assert not isinstance(request, NoRequest)
    assert (request.second, request.status, request.method) == (AT + 3, "302", "GET")
    assert request.target.endswith("/launch?utm_campaign=spring")


def test_a_line_has_one_format() -> None:
    """No pattern takes the line of another format for its own."""
    for name, click in FORMATS.items():
        line = click.lines.split("\n")[-1]
        takers = {format_.name for format_ in NAMED_FORMATS if format_.read(line, UTC)}
        assert takers <= {click.format}, name


def test_formats_may_follow_one_another_in_one_file() -> None:
    lines = [given.lines for given in FORMATS.values()]
    random.Random(1).shuffle(lines)
    log = log_of()
    sums = log.read("\n".join(lines).encode())
    assert (sums.people_hits, sums.bad) == (len(FORMATS), 0)
    assert sums.lines == sum(given.lines.count("\n") + 1 for given in FORMATS.values())


PIECES = [
    '"',
    " ",
    "\\",
    "\t",
    "[",
    "] ",
    "-",
    ",",
    '" "',
    "%",
    "?",
    "#",
    "é",
    "\0",
    "{",
    "}",
    "\r",
    "x",
    "302",
    "\udcff",
]
SEEDS = [given.lines.split("\n") for given in FORMATS.values()]
bent = st.builds(
    lambda seed, cuts: (seed[:-1], _bent(seed[-1], cuts)),
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.sampled_from(PIECES)), max_size=3),
)


def _bent(line: str, cuts: list[tuple[int, int, str]]) -> str:
    for at, gone, more in cuts:
        at %= len(line) + 1
        line = line[:at] + more + line[at + gone :]
    return line


# X-Forwarded-For without an address: who has connected is the client.
NO_ADDRESS = FORMATS["Istio"].lines.replace("203.0.113.9,10.0.0.3", "unknown")


@given(st.lists(bent, min_size=1, max_size=5), st.booleans())
@example([([], NO_ADDRESS)], False)
def test_many_lines_say_what_each_says_alone(lines: list[tuple[list[str], str]], in_key: bool) -> None:
    alone, together = log_of(in_key), log_of(in_key)
    expected: Counter[object] = Counter()
    text: list[str] = []
    for header, line in lines:
        text += [*header, line, line]
    for one in text:
        try:
            expected[alone.parse(one.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"))] += 1
        except LineBad:
            expected["bad"] += 1
    sums = together.read("".join(f"{one}\n" for one in text).encode("utf-8", "surrogatepass"))
    found: Counter[object] = Counter(sums.skipped)
    found["bad"] = sums.bad
    found.update(sums.hits)
    assert +found == +expected
    assert sums.lines == sums.people_hits + sums.bot_hits + sums.skipped.total() + sums.bad
    assert sums.formats.total() <= sums.lines


# --- what stands before a line ----------------------------------------------------------------------------------------
FRONTS = {
    "203.0.113.9:51008 - - ": ("203.0.113.9", ""),
    "[2001:db8::7]:51008 - - ": ("2001:db8::7", ""),
    "2001:db8::80 - - ": ("2001:db8::80", ""),
    "203.0.113.9, 10.183.250.139 - - ": ("203.0.113.9", ""),
    "203.0.113.9,10.183.250.139 - - ": ("203.0.113.9", ""),
    "unknown, 203.0.113.9 - - ": ("203.0.113.9", ""),
    '"203.0.113.9, 10.0.0.3" - ann ': ("203.0.113.9", ""),
    '203.0.113.9 - "" ': ("203.0.113.9", ""),
    "2026-11-27T10:00:01.123456789Z 203.0.113.9 - - ": ("203.0.113.9", ""),
    "2026-11-27T10:00:01.123456789Z stdout F 203.0.113.9 - - ": ("203.0.113.9", ""),
    "Nov 27 10:00:01 web1 nginx: 203.0.113.9 - - ": ("203.0.113.9", ""),
    "Nov 27 10:00:01 web1 nginx.access: 203.0.113.9 - - ": ("203.0.113.9", ""),
    "<190>Nov 27 10:00:01 web1 nginx: a.example 203.0.113.9 - - ": ("203.0.113.9", "a.example"),
    "<190>1 2026-11-27T10:00:01Z web1.example nginx 812 - - 203.0.113.9 - - ": ("203.0.113.9", ""),
    "nginx-1  | 203.0.113.9 - - ": ("203.0.113.9", ""),
    "[pod/web/nginx] 203.0.113.9 - - ": ("203.0.113.9", ""),
    "\ufeff203.0.113.9 - - ": ("203.0.113.9", ""),
    "go 203.0.113.9 - - ": ("203.0.113.9", "go"),
    "a.example 203.0.113.9 - joe.doe ": ("203.0.113.9", "a.example"),
    "[2001:db8::1]:443 203.0.113.9 - - ": ("203.0.113.9", "[2001:db8::1]"),
    "198.51.100.1:80 203.0.113.9 - - ": ("203.0.113.9", "198.51.100.1"),
    "crawl.googlebot.com - - ": (None, ""),
    "- - - ": (None, ""),
}


@pytest.mark.parametrize("front", FRONTS)
def test_the_address_is_found_before_the_time_and_what_is_no_host_makes_none(front: str) -> None:
    ip, host = FRONTS[front]
    for line in (f"{front}{COMBINED}", f"{front}{COMBINED}".replace("/launch", r"/\x6caunch")):
        (hit,) = told(log_of(in_key=True).read(line.encode()))
        assert (hit.get("ip"), hit["key"]) == (ip, f"{host or 'none'}/launch")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40))
def test_no_front_makes_a_link_of_its_own(front: str) -> None:
    for hit in told(log_of(in_key=True).read(f"{front} {COMBINED}".encode())):
        host, _, path = str(hit["key"]).rpartition("/")
        assert path == "launch"
        assert host == "none" or host in front.lower()
        assert not set(host) & set("/?#@,; \"'<>(){}")


@pytest.mark.parametrize(
    "behind",
    ["12ms", "0.004", '"-"', '"203.0.113.7"', "10.0.0.1:80", "JSESSIONID.node1 5", '"web@docker" "http://b.example"'],
)
def test_other_fields_behind_are_no_host(behind: str) -> None:
    (hit,) = told(log_of(in_key=True).read(f"203.0.113.9 - - {COMBINED} {behind}".encode()))
    assert hit["key"] == "none/launch"


# --- JSON -------------------------------------------------------------------------------------------------------------
def test_other_messages_of_a_server_are_skipped_and_no_request_is() -> None:
    lines = {
        json_of({"level": "info", "ts": 1.0, "logger": "tls", "msg": "cleaning"}): "not a request",
        json_of({"level": "info", "msg": "Configuration loaded", "time": "2015-05-17T10:05:03Z"}): "not a request",
        json_of({**TRAEFIK_JSON, "RequestMethod": "POST"}): "method POST",
        json_of({**TRAEFIK_JSON, "RequestPath": None}): "bad",
        json_of({**TRAEFIK_JSON, "DownstreamStatus": None}): "bad",
        json_of({"foo": 1}): "bad",
    }
    for line, outcome in lines.items():
        sums = log_of().read(line.encode())
        assert (sums.skipped or {"bad": sums.bad}) == {outcome: 1}


def test_a_log_that_names_no_methods_has_gets() -> None:
    json_line = json_of({**TRAEFIK_JSON, "RequestMethod": None})
    assert told(log_of().read(json_line.encode())) == told(log_of().read(json_of(TRAEFIK_JSON).encode()))
    w3c = "#Fields: date time cs-uri-stem sc-status\n2015-05-17 10:05:03 /launch 302"
    assert told(log_of().read(w3c.encode())) == [{"key": "launch", "ts": AT}]


def test_bytes_that_nginx_has_escaped_in_json_are_those_of_a_key() -> None:
    line = r'{"msec":"1431857103.1","request":"GET /caf\xC3\xA9\x22\\x41 HTTP/1.1","status":302,"ua":"\x22"}'
    (hit,) = told(log_of().read(line.encode()))
    assert (hit["key"], hit["ua"]) == ('café"\\x41', '"')


# --- W3C --------------------------------------------------------------------------------------------------------------
def test_columns_may_change_within_a_file() -> None:
    text = (
        "#Fields: date time cs-method cs-uri-stem sc-status\n2015-05-17 10:05:03 GET /launch 302\n"
        "#Software: again\n#Date: x\n#Fields: sc-status cs-uri-stem cs-method date time\n"
        "302 /launch GET 2015-05-17 10:05:09\n\n302 /launch GET 2015-05-17 10:05:10\nnonsense\n"
    )
    sums = log_of().read(text.encode())
    assert told(sums) == [{"key": "launch", "ts": AT, "count": 3}]
    assert (sums.skipped, sums.bad, sums.first_bad[0].line) == ({"comment": 4, "blank line": 1}, 1, 9)


def test_a_path_that_iis_has_decoded_is_not_decoded_again_and_cloudfront_s_is_decoded_twice() -> None:
    iis = "#Fields: date time cs-uri-stem sc-status sc-win32-status\n2015-05-17 10:05:03 /caf\u00e9%41+b 302 0"
    cloudfront = "#Fields: date time cs-uri-stem sc-status x-edge-location\n2015-05-17\t10:05:03\t%s\t302\tFRA2"
    for text, key in {
        iis: "café%41+b",
        cloudfront % "/caf%25C3%25A9": "café",
        cloudfront % "/caf%C3%A9": "café",
        cloudfront % "/100%25": "100%",
    }.items():
        assert [hit["key"] for hit in told(log_of().read(text.encode()))] == [key]


def test_columns_without_what_makes_a_hit_are_bad_and_say_so() -> None:
    sums = log_of().read(b"#Fields: date time c-ip\n2015-05-17 10:05:03 203.0.113.9\n")
    assert [bad.reason for bad in sums.first_bad] == [
        "these columns have no date and time, path or status",
        "not a line of an access log",
    ]


# --- times ------------------------------------------------------------------------------------------------------------
def test_times_without_a_zone_are_of_the_zone_that_is_named() -> None:
    vienna = LogOptions(zone=ZoneInfo("Europe/Vienna"))
    haproxy = FORMATS["HAProxy"].lines
    naive = json_of({"ts": "2015-05-17 10:05:03", "request": CADDY_REQUEST, "status": 302})
    local = FORMATS["IIS, values in quotes"].lines
    for line in (haproxy, naive, local):
        for text in (line, line.replace("/launch", "/launch?x")):
            assert {hit["ts"] for hit in told(log_of(options=vienna).read(text.encode()))} == {AT - 2 * 3600}
    for name in ("combined", "IIS", "CloudFront", "ALB", "Caddy"):  # these name their zone, or their maker does
        sums = log_of(options=vienna).read(FORMATS[name].lines.encode())
        assert {hit["ts"] for hit in told(sums)} == {AT}


# --- no answer --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "status"), [("Envoy", "0"), ("HAProxy", "-1"), ("ELB", "-"), ("ALB", "-"), ("IIS", "-")]
)
def test_a_request_without_an_answer_is_no_hit_and_not_bad(name: str, status: str) -> None:
    sums = log_of().read(FORMATS[name].lines.replace(" 302 ", f" {status} ").encode())
    assert (sums.people_hits, sums.bad, sums.skipped["status 000"]) == (0, 0, 1)


# --- what is no log ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"a": 1, "b": 2}', "JSON with the fields a, b"),
        ('{"a": 1,', "JSON that is cut"),
        ("[1]", "JSON that is no object"),
        ("<!DOCTYPE html>", "a page or XML"),
        ("2026/01/01 10:00:00 [error] 12#12: *1 open() failed", "an error log"),
        ("a\0b\0c\0", "UTF-16"),
        ("PK\x03\x04\x14", "no text"),
        ("a,b,c,d,e,f", "CSV"),
        ("1\t2\t3\t4\t5\t6", "#Fields"),
        ("hello world", "--format"),
    ],
)
def test_what_is_no_log_is_named(line: str, says: str) -> None:
    assert says in looks_like(line)


def test_a_hit_is_a_hit_of_one_minute() -> None:
    assert LogHit(*next(iter(log_of().read(FORMATS["ALB"].lines.encode()).hits))).minute == AT
    assert FORMATS["ALB"].ua == AGENT
