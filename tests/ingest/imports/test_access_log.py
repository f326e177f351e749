"""Lines of access logs: what counts, what is skipped and why, what is bad; and the fast path against the slow one."""

from __future__ import annotations

import gzip
import random
import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.keys import KEY_BYTES
from ingest.imports.access_log import OF_LINES, AccessLog
from ingest.imports.log_sums import LogHit, LogSums
from ingest.imports.logs.logged_request import LineBad

AT = 1_431_857_103 // 60 * 60  # 17 May 2015 10:05 UTC
BROWSER = "Mozilla/5.0 (X11; Linux x86_64) Firefox/120.0"
REAL_LOGS = [folder / "shared" / "data" / "access_log_2015.gz" for folder in Path(__file__).parents]


def is_bot(agent: str) -> bool:
    return "bot" in agent.lower()


def line(
    request: str = "GET /abc HTTP/1.1",
    status: str = "302",
    agent: str | None = BROWSER,
    stamp: str = "17/May/2015:10:05:03 +0000",
    head: str = "203.0.113.9 - - ",
) -> str:
    """A line of the combined format; of the common format when there is no agent."""
    end = "" if agent is None else f' "https://example.org/from" "{agent}"'
    return f'{head}[{stamp}] "{request}" {status} 512{end}'


def read(*lines: str, statuses: tuple[int, ...] = (301, 302, 303, 307, 308)) -> LogSums:
    text = "".join(f"{one}\n" for one in lines)
    return AccessLog(is_bot, statuses).read(text.encode("utf-8", "surrogateescape"))


def adds_up(reading: LogSums) -> bool:
    assert reading.bot_hits == sum(counts(reading, True).values())
    assert reading.people_hits == sum(counts(reading, False).values())
    return reading.lines == reading.hits.total() + reading.skipped.total() + reading.bad


def counts(reading: LogSums, bot: bool) -> dict[tuple[int, str], int]:
    """Minute and key -> hits of bots or of people."""
    found: Counter[tuple[int, str]] = Counter()
    for hit, count in reading.hits.items():
        one = LogHit(*hit)
        if one.bot == bot:
            found[one.minute, one.key] += count
    return dict(found)


HITS = {
    "combined": (line(), "abc"),
    "common": (line(agent=None), "abc"),
    "a virtual host in front": (line(head="s.example.org:443 203.0.113.9 - - "), "abc"),
    "more fields behind": (line() + ' "203.0.113.7" rt=0.004', "abc"),
    "one field behind": (line() + " 0.004", "abc"),
    "no size": (line().replace(" 512 ", " - "), "abc"),
    "IPv6": (line(head="2001:db8::7 - - "), "abc"),
    "a user with spaces": (line(head="203.0.113.9 - Jane Q. Public "), "abc"),
    "a user with brackets": (line(head="203.0.113.9 - [x] "), "abc"),
    "a user with an escaped quote": (line(head=r"203.0.113.9 - a\"b "), "abc"),
    "a query": (line("GET /abc?x=1&y=/z HTTP/1.1"), "abc"),
    "an empty query": (line("GET /abc? HTTP/1.1"), "abc"),
    "a percent sign": (line("GET /a%2Fb%20c HTTP/1.1"), "a/b c"),
    "one leading slash is taken": (line("GET //abc HTTP/1.1"), "/abc"),
    "a trailing slash is kept": (line("GET /abc/ HTTP/1.1"), "abc/"),
    "HTTP/0.9": (line("GET /abc"), "abc"),
    "HTTP/2.0": (line("GET /abc HTTP/2.0"), "abc"),
    "HTTP/3": (line("GET /abc HTTP/3"), "abc"),
    "an absolute URI": (line("GET http://s.example.org/abc?x HTTP/1.1"), "abc"),
    "an absolute URI in capitals": (line("GET HTTPS://S.example.org:443/abc HTTP/1.1"), "abc"),
    "a space in the path": (line("GET /a b HTTP/1.1"), "a b"),
    "an escaped quote": (line(r"GET /a\"b HTTP/1.1"), 'a"b'),
    "an escaped quote of nginx": (line(r"GET /a\x22b HTTP/1.1"), 'a"b'),
    "an escaped backslash": (line(r"GET /a\\b HTTP/1.1"), "a\\b"),
    "escaped UTF-8": (line(r"GET /caf\xC3\xA9 HTTP/1.1"), "café"),
    "raw UTF-8": (line("GET /café HTTP/1.1"), "café"),
    "an escaped quote in the agent": (line(agent=r"a \"quoted\" agent"), "abc"),
    "a quote missing at the end": (line(agent="cut short")[:-1], "abc"),
    "a carriage return": (line() + "\r", "abc"),
    "common with a carriage return": (line(agent=None) + "\r", "abc"),
    "no size, no end": (line(agent=None).removesuffix(" 512"), "abc"),
    "zeros where the file was truncated": ("\0" * 5000 + line(), "abc"),
    "a zone": (line(stamp="17/May/2015:12:05:03 +0200"), "abc"),
    "a zone in the west": (line(stamp="17/May/2015:00:35:03 -0930"), "abc"),
    "a leap second": (line(stamp="17/May/2015:10:05:60 +0000"), "abc"),
    "the longest key": (line(f"GET /{'k' * KEY_BYTES} HTTP/1.1"), "k" * KEY_BYTES),
    "any other status that is asked for": (line(status="308"), "abc"),
    "Caddy": (
        '{"level":"info","ts":1431857103.54,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":'
        '"203.0.113.9","method":"GET","host":"s.example.org","uri":"/abc?x","headers":{"User-Agent":["x"]}},"status":302}',
        "abc",
    ),
    "Caddy, milliseconds": ('{"ts":1431857103540,"request":{"method":"GET","uri":"/abc"},"status":302}', "abc"),
    "Caddy, nanoseconds": ('{"ts":1431857103540000000,"request":{"method":"GET","uri":"/abc"},"status":302}', "abc"),
    "Caddy, text": ('{"ts":"2015-05-17T10:05:03.540Z","request":{"method":"GET","uri":"/abc"},"status":302}', "abc"),
    "Caddy, no zone": ('{"ts":"2015/05/17 10:05:03","request":{"method":"GET","uri":"/abc"},"status":302}', "abc"),
    "nginx JSON, the request whole": (
        '{"time_local":"17/May/2015:10:05:03 +0000","request":"GET /abc HTTP/1.1","status":"302"}',
        "abc",
    ),
    "nginx JSON, the request in parts": (
        '{"time_iso8601":"2015-05-17T12:05:03+02:00","request_method":"GET","request_uri":"/abc?x","uri":"/x","status":302}',
        "abc",
    ),
    "nginx JSON, msec": ('{"msec":"1431857103.540","method":"GET","uri":"/abc","status":"302"}', "abc"),
    "nginx JSON, Logstash's time": (
        '{"@timestamp":"2015-05-17T10:05:03Z","method":"GET","uri":"/abc","status":302}',
        "abc",
    ),
}

SKIPPED = {
    "status 404": line(status="404"),
    "status 000": line(status="000"),
    "method HEAD": line("HEAD /abc HTTP/1.1"),
    "method unknown": line("get /abc HTTP/1.1"),
    "no key": line("GET / HTTP/1.1"),
    "no request": line("-"),
    "no path": line("GET abc HTTP/1.1"),
    "key too long": line(f"GET /{'é' * (KEY_BYTES // 2 + 1)} HTTP/1.1"),
    "key not UTF-8": line(r"GET /\xff HTTP/1.1"),
    "blank line": " ",
    "not a request": '{"level":"info","ts":1431857103.54,"logger":"tls","msg":"cleaning storage unit"}',
}
MORE_SKIPPED = {
    "method POST": '{"ts":1431857103,"request":{"method":"POST","uri":"/abc"},"status":302}',
    "status 200": '{"time_local":"17/May/2015:10:05:03 +0000","request":"GET /abc HTTP/1.1","status":"200"}',
    "no key": line("GET http://s.example.org?x HTTP/1.1"),
    "no request": line(""),
    "key not UTF-8": line("GET /\udcff HTTP/1.1"),
    "method unknown": line(r"\x16\x03\x01 \x00"),
}

BAD = {
    "junk": "\x16\x03\x01\x02 \0 junk",
    "the end of a line": 'la/5.0 (X11; Linux)"',
    "the start of a line": line()[:60],
    "a line cut in its status": line(agent=None).partition(" 302")[0] + " 30",
    "no such day": line(stamp="32/May/2015:10:05:03 +0000"),
    "no such month": line(stamp="17/Mai/2015:10:05:03 +0000"),
    "no such hour": line(stamp="17/May/2015:25:05:03 +0000"),
    "before 1970": line(stamp="17/May/1969:10:05:03 +0000"),
    "no status": line(status="-"),
    "a status of four digits": line(status="3020"),
    "a stamp of digits that are not ASCII": line(stamp="\u0661\u0667/May/2015:10:05:03 +0000"),
    "JSON cut short": '{"ts":1431857103,"requ',
    "JSON that is no request": '{"ts":1431857103,"status":302}',
    "JSON without a time": '{"request":"GET /abc HTTP/1.1","status":302}',
    "JSON without a status": '{"ts":1431857103,"request":"GET /abc HTTP/1.1"}',
    "JSON with a time that is none": '{"ts":"soon","request":"GET /abc HTTP/1.1","status":302}',
    "JSON with a time before 1970": '{"ts":-5,"request":"GET /abc HTTP/1.1","status":302}',
    "JSON that is not UTF-8": '{"ts":1431857103,"request":"GET /\udcff HTTP/1.1","status":302}',
    "a list": "[1]",
}


@pytest.mark.parametrize("name", HITS)
def test_a_hit_counts_in_its_minute_under_its_key(name: str) -> None:
    one, key = HITS[name]
    reading = read(one)
    assert (counts(reading, False), counts(reading, True), reading.first_bad) == ({(AT, key): 1}, {}, [])
    assert adds_up(reading)


@pytest.mark.parametrize(("reason", "one"), [*SKIPPED.items(), *MORE_SKIPPED.items()])
def test_what_is_no_hit_is_skipped_with_its_reason(reason: str, one: str) -> None:
    reading = read(one)
    assert reading.skipped == {reason: 1}
    assert adds_up(reading)


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_line_of_a_log_is_bad_and_is_shown(name: str) -> None:
    reading = read(line(), BAD[name], line())
    assert (counts(reading, False), reading.bad) == ({(AT, "abc"): 2}, 1)
    assert reading.first_bad[0].line == 2
    assert reading.first_bad[0].text.encode().decode()  # shown text is always printable as UTF-8
    assert adds_up(reading)


def test_bots_are_counted_beside_people() -> None:
    caddy = '{"ts":1431857103,"request":{"method":"GET","uri":"/abc","headers":{"User-Agent":["XBot/2"]}},"status":302}'
    nginx = caddy.replace('{"method":"GET","uri":"/abc","headers":{"User-Agent":["XBot/2"]}}', '"GET /abc"')
    nginx = nginx.replace('"status"', '"http_user_agent":"XBot/2","status"')
    bots = [line(agent="XBot/2"), line(agent='XBot \\"2\\"'), line(agent="XBot/2")[:-1], caddy, nginx]
    reading = read(*bots, line(agent="-"), line(agent=""), line(agent=None), line())
    assert (counts(reading, False), counts(reading, True)) == ({(AT, "abc"): 4}, {(AT, "abc"): 5})


def test_statuses_replace_the_redirects() -> None:
    reading = read(line(status="200"), line(status="206"), line(status="302"), statuses=(200, 206))
    assert (counts(reading, False), reading.skipped) == ({(AT, "abc"): 2}, {"status 302": 1})


def test_the_last_line_need_not_end_and_an_empty_piece_is_nothing() -> None:
    assert AccessLog(is_bot).read(line().encode()).people_hits == 1
    assert AccessLog(is_bot).read(b"").lines == 0


def test_only_the_first_bad_lines_are_shown_but_all_are_counted() -> None:
    reading = read(*["x" * 10_000] * 50)
    assert (reading.bad, len(reading.first_bad), len(reading.first_bad[0].text)) == (50, 5, 200)


def test_a_huge_line_costs_no_more_than_its_length() -> None:
    head = 'x "' * 100_000
    assert read(head, "[" * 200_000, '"' * 200_000, "\\" * 200_000).bad == 4


STAMP = "[17/May/2015:10:05:03 +0000] "
PIECES = ['"', '" "', " ", "\\", r"\"", "[", "] ", STAMP, ' "GET /abc HTTP/1.1" 302 5', "302", "- -", " 404 ", "GET /"]
PIECES += [' "https://a.example/x" "XBot"', ' 302 5 "-" "', "?utm_source=a&src=b", "?so%75rce=c HTTP/1.1"]
PIECES += ["HTTP/1.1", "Googlebot", "é", "\0", "{", '{"ts":1,', "\r", "x", "\udcff", "?"]
chunks = st.sampled_from(PIECES)
assembled = st.lists(chunks, max_size=14).map("".join)
bent = st.builds(
    lambda whole, at, more: whole[: at % len(whole)] + more + whole[at % len(whole) :],
    st.sampled_from([one for one, _ in HITS.values() if len(one) < 3000] + list(SKIPPED.values())[:-4]),
    st.integers(0, 400),
    chunks,
)


@given(
    st.lists(st.one_of(assembled, bent, st.text(st.characters(exclude_characters="\n"), max_size=80)), max_size=6),
    st.sampled_from([(), OF_LINES, ("ref",), ("source",), ("utm", "ip")]),
    st.booleans(),
)
def test_many_lines_say_what_each_says_alone(lines: list[str], fields: tuple[str, ...], hosts_in_key: bool) -> None:
    alone, together = AccessLog(is_bot), AccessLog(is_bot)
    alone.use_hosts(hosts_in_key)
    together.use_hosts(hosts_in_key)
    expected: Counter[object] = Counter()
    alone.use(fields)
    together.use(fields)
    for one in [*lines, *lines]:  # again, when all times, requests and agents are known
        try:
            expected[alone.parse(one.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"))] += 1
        except LineBad:
            expected["bad"] += 1
    data = "".join(f"{one}\n" for one in [*lines, *lines]).encode("utf-8", "surrogatepass")
    reading = together.read(data)
    found: Counter[object] = Counter(reading.skipped)
    found["bad"] = reading.bad
    found.update(reading.hits)
    assert +found == +expected
    assert adds_up(reading)


def test_lines_of_several_pieces_are_numbered_through() -> None:
    lines = [line() for _ in range(4_000)]
    lines[3_500] = "junk"
    reading = read(*lines)
    assert (reading.people_hits, [bad.line for bad in reading.first_bad]) == (3_999, [3_501])


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_any_bytes_add_up_and_leave_keys_that_are_utf_8(junk: list[bytes]) -> None:
    lines = [b'1 [17/May/2015:10:05:03 +0000] "GET /' + one + b' HTTP/1.1" 302 5\n' for one in junk]
    reading = AccessLog(is_bot).read(b"".join(lines + junk))
    assert adds_up(reading)
    msgspec.json.encode([[LogHit(*hit).key for hit in reading.hits], [bad.text for bad in reading.first_bad]])


def test_what_is_remembered_is_bounded() -> None:
    log = AccessLog(is_bot)
    for begin in range(0, 140_000, 20_000):
        made = "".join(line(f"GET /{n} HTTP/1.1", agent=f"a{n}") + "\n" for n in range(begin, begin + 20_000))
        assert log.read(made.encode()).people_hits == 20_000
    assert max(len(log._keys) + len(log._keys._before), len(log._agents) + len(log._agents._before)) <= 65_536


@pytest.fixture(scope="module")
def real_log() -> bytes:
    """The log of a real site; where it is not at hand, one of the same kind is made."""
    for log in REAL_LOGS:
        if log.exists():
            return gzip.decompress(log.read_bytes())
    draw = random.Random(1)
    paths = ["/favicon.ico", "/style2.css", "/", "/?flav=rss20", "/blog/tags/web", "/images/a.png", "/a.png?x=1"]
    made = [
        line(f"{draw.choice(['GET', 'GET', 'HEAD'])} {draw.choice(paths)} HTTP/1.{n % 2}", draw.choice(["200", "304"]))
        for n in range(10_000)
    ]
    return "".join(f"{one}\n" for one in made).encode()


def test_a_real_log_counts_what_a_plain_search_counts(real_log: bytes) -> None:
    reading = AccessLog(is_bot, [200]).read(real_log)
    asked = re.findall(r'"GET /([^ ?"]+)(?:\?[^ "]*)? HTTP/1\.[01]" 200 ', real_log.decode())
    plain = Counter(map(unquote, asked))
    totals: Counter[str] = Counter()
    for hit, count in reading.hits.items():
        totals[LogHit(*hit).key] += count
    assert [totals[key] for key, _ in plain.most_common(5)] == [count for _, count in plain.most_common(5)]
    assert totals == plain
    assert reading.lines == real_log.count(b"\n") == 10_000
    assert reading.bad == 0
    assert adds_up(reading)
