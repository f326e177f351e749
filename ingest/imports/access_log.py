"""Access logs of web servers as hits: the combined and the common format, and the JSON lines of nginx and of Caddy.

Pure: bytes in, counts out. The format is recognised line by line. A line ends in one of three ways, and `LogSums` add
up: it is a hit (a person's or a bot's), it is skipped with a reason (another status, another method, no key), or
it is bad (not a line of any known format).

The text formats are those of `clickcurve.access_log`. Most lines need no regular expression: a line without a
backslash that splits at its quotes as expected is read by lookups in dicts of times, requests and agents seen before,
ten times as quick; what a dict does not know is decided by the same functions that the slow path calls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from clickcurve.access_log import STAMP_CHARS, parse_log_line, split_request, stamp_seconds, unescape
from clickcurve.buckets.ladder import END_OF_TIME, MINUTE_S
from clickcurve.hosts import HOSTS_IGNORED, Hosts
from clickcurve.keys import KEY_BYTES
from clickcurve.times import iso_seconds
from ingest.batch import Counts, sum_counts
from ingest.hit import Judge
from ingest.imports.log_attributes import NOTHING, LineAttributes, LogAttributes

REDIRECTS = frozenset((301, 302, 303, 307, 308))
SHOWN_BAD_LINES = 5
_SHOWN_CHARS = 200
_PLAIN_CHARS = 256  # a key of so many ASCII characters needs no closer look
_MAX_KNOWN = 65_536  # times, requests or agents kept; then the dict starts again
_METHODS = frozenset(["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PROPFIND"])
_VERSIONS = frozenset((" HTTP/1.1", " HTTP/1.0", " HTTP/2.0", " HTTP/3.0"))
_AUTHORITY = re.compile(r"https?://([^/?]*)", re.IGNORECASE)

# A text in quotes, a time in brackets, or a word.
_FIELD = re.compile(rb'"(?:[^"\\]|\\.)*+"|\[[^\]"]*+\]|[^ "]+', re.DOTALL)

_T = TypeVar("_T")
LogHit = tuple[int, str, bool]  # start of the minute, key, whether it is a bot


class LineBad(Exception):
    """A line has an unknown format; the text says why."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """`line` counts from 1 in what was read."""

    line: int
    reason: str
    text: str


@dataclass(slots=True)
class LogSums:
    """What some lines add up to. `lines == people_hits + bot_hits + sum of skipped + bad`."""

    people: Counts = field(default_factory=dict)
    bots: Counts = field(default_factory=dict)
    lines: int = 0
    people_hits: int = 0
    bot_hits: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    bad: int = 0
    first_bad: list[BadLine] = field(default_factory=list)
    # Hits that say something, which are in none of the counts above: by minute, key, whether a bot, and what they say.
    with_attributes: Counter[tuple[int, str, bool, LineAttributes]] = field(default_factory=Counter)

    def note_bad(self, line: int, reason: str, text: str) -> None:
        self.bad += 1
        if len(self.first_bad) < SHOWN_BAD_LINES:
            shown = text[:_SHOWN_CHARS].encode("utf-8", "backslashreplace").decode()
            self.first_bad.append(BadLine(line, reason, shown))


class AccessLog:
    """Reads one log. `is_bot` judges an agent; `statuses` are those that count; `attributes` reads those of lines.

    hosts: what keys say of hosts. A line has one in front of the address (`%v`, `$host`), or in its request.
    """

    def __init__(
        self,
        is_bot: Judge,
        statuses: Collection[int] = REDIRECTS,
        attributes: LogAttributes | None = None,
        hosts: Hosts = HOSTS_IGNORED,
    ) -> None:
        self._is_bot = is_bot
        self.hosts = hosts
        self.attributes = attributes or LogAttributes()
        self._wanted = {f" {status:03} ": status in statuses for status in range(1000)}
        self._minutes: dict[str, int] = {}
        self._keys: dict[str, str] = {}
        self._agents: dict[str, bool] = {}

    def use_hosts(self, in_key: bool) -> None:
        """Puts hosts into keys from now on, or not, as it is done where the hits go."""
        self.hosts = replace(self.hosts, in_key=in_key)

    def read(self, data: bytes) -> LogSums:
        """Reads whole lines, each ended by a newline (the last need not be)."""
        reading = LogSums()
        if data:
            # Bytes that are not UTF-8 become lone surrogates, which no key may hold: only their own line is lost.
            text = data.decode("utf-8", "surrogateescape")
            lines = text.removesuffix("\n").split("\n")
            if self.attributes.wanted:
                self._read_with_attributes(lines, reading)
            else:
                self._read_lines(lines, "\\" not in text, reading)
            reading.people_hits, reading.bot_hits = sum_counts(reading.people), sum_counts(reading.bots)
            bots = sum(count for (_, _, bot, _), count in reading.with_attributes.items() if bot)
            reading.bot_hits += bots
            reading.people_hits += reading.with_attributes.total() - bots
        return reading

    def _read_with_attributes(self, lines: list[str], reading: LogSums) -> None:
        """Reads lines as `_read_lines` does, and their attributes."""
        minutes, wanted, keys, agents = self._minutes, self._wanted, self._keys, self._agents
        attributes, in_key = self.attributes, self.hosts.in_key
        reading.lines += len(lines)
        for number, line in enumerate(lines, 1):
            parts = line.split('"', 6)
            if len(parts) == 7 and parts[4] == " " and "\\" not in line:
                minute = minutes.get(parts[0][-STAMP_CHARS:]) or self._minute(parts[0][-STAMP_CHARS:])
                if minute is not None and wanted.get(parts[2][:5]):
                    key = keys.get(parts[1]) or self._key(parts[1])
                    host, before = _split_host(parts[0], -STAMP_CHARS) if in_key else ("", parts[0])
                    key = self.hosts.key(key, host) if in_key and key else key
                    if key:
                        bot = agents[parts[5]] if parts[5] in agents else self._agent(parts[5])
                        line_attributes = attributes.of_parts(before, parts[3], parts[5], parts[1], bot)
                        reading.with_attributes[minute, key, bot, line_attributes] += 1
                        continue
            self._read_odd(number, line, reading)

    def _read_lines(self, lines: list[str], unescaped: bool, reading: LogSums) -> None:
        minutes, wanted, keys, agents = self._minutes, self._wanted, self._keys, self._agents
        people, bots, in_key = reading.people, reading.bots, self.hosts.in_key
        reading.lines += len(lines)
        for number, line in enumerate(lines, 1):
            parts = line.split('"', 6)
            fields = len(parts)
            if (unescaped or "\\" not in line) and ((fields == 7 and parts[4] == " ") or fields == 3):
                stamp, request, status = parts[0][-STAMP_CHARS:], parts[1], parts[2][:5]
                minute = minutes.get(stamp) or self._minute(stamp)
                if minute is not None:
                    counts = wanted.get(status)
                    key = counts and (keys.get(request) or self._key(request))
                    if in_key and key:
                        key = self.hosts.key(key, _split_host(parts[0], -STAMP_CHARS)[0])
                    if key:
                        bot = fields == 7 and (agents[parts[5]] if parts[5] in agents else self._agent(parts[5]))
                        by_key = (bots if bot else people).get(minute)
                        if by_key is None:
                            by_key = (bots if bot else people)[minute] = {}
                        by_key[key] = by_key.get(key, 0) + 1
                        continue
                    if counts is False:
                        reading.skipped["status " + status[1:4]] += 1
                        continue
            self._read_odd(number, line, reading)

    def _read_odd(self, number: int, line: str, reading: LogSums) -> None:
        try:
            parsed = self.parse(line)
        except LineBad as bad:
            reading.note_bad(number, str(bad), line)
            return
        if isinstance(parsed, str):
            reading.skipped[parsed] += 1
        else:
            minute, key, bot = parsed
            if self.attributes.wanted and (line_attributes := self._odd_attributes(line, bot)) is not NOTHING:
                reading.with_attributes[minute, key, bot, line_attributes] += 1
                return
            by_key = (reading.bots if bot else reading.people).setdefault(minute, {})
            by_key[key] = by_key.get(key, 0) + 1

    def _odd_attributes(self, line: str, bot: bool) -> LineAttributes:
        line = line.removesuffix("\r")
        if not line.startswith("{"):
            return self.attributes.of_line(_split_host(line, line.find("["))[1] if self.hosts.in_key else line, bot)
        seen = _json_line.decode(line)
        return self.attributes.of_parts(seen.address(), seen.referrer(), seen.agent(), seen.target(), bot)

    def parse(self, line: str) -> LogHit | str:
        """Reads one line, slowly: a hit, or the reason why it is skipped; raises LineBad for any other line."""
        line = line.removesuffix("\r")
        if not line.strip():
            return "blank line"
        parts = parse_log_line(line)
        if parts is None:
            if line.startswith("{"):
                return self._parse_json(line)
            raise LineBad("not a line of an access log")
        minute = self._minute(parts.stamp)
        if minute is None:
            raise LineBad(f"not a valid time: {parts.stamp.strip()}")
        if not self._wanted[f" {parts.status} "]:
            return f"status {parts.status}"
        key, reason = _key_of_request(parts.request, self.hosts, _split_host(parts.before)[0])
        if key is None:
            return reason
        return minute, key, parts.agent is not None and self._agent(parts.agent)

    def _parse_json(self, line: str) -> LogHit | str:
        try:
            seen = _json_line.decode(line)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise LineBad(f"not a JSON line of an access log: {error}") from None
        status = seen.status_text()
        if seen.request is None and seen.method is None:
            if seen.msg is None:
                raise LineBad("no request")
            return "not a request"  # Caddy writes its other messages into the same log
        if status not in self._wanted:
            raise LineBad("no status")
        minute = _minute_of(seen.when())
        if not self._wanted[status]:
            return f"status {status.strip()}"
        key, reason = seen.key(self.hosts)
        if key is None:
            return reason
        return minute, key, self._agent(seen.agent())

    def _minute(self, stamp: str) -> int | None:
        kept_minute = self._minutes.get(stamp)
        if kept_minute is not None:
            return kept_minute
        minute = _minute_of_stamp(stamp)
        if minute is not None:
            _remember(self._minutes, stamp, minute)
        return minute

    def _key(self, request: str) -> str | None:
        """Returns the key of a request without backslashes; most are plain enough to be cut without looking twice."""
        key: str | None = None
        if request.startswith("GET /") and request[-9:] in _VERSIONS:
            key = request[5:-9].partition("?")[0]
        elif self.hosts.in_key:
            return None  # it may name its host itself
        if not key or len(key) > _PLAIN_CHARS or not key.isascii():
            key, _ = _key_of_request(request)
        if key is not None:
            _remember(self._keys, request, key)
        return key

    def _agent(self, agent: str) -> bool:
        is_bot = self._agents.get(agent)
        if is_bot is None:
            is_bot = agent not in ("", "-") and self._is_bot(unescape(agent))
            _remember(self._agents, agent, is_bot)
        return is_bot


def count_fields(line: bytes) -> int:
    """Counts the fields of a line of text; returns 0 if a quote has no end."""
    left, fields = _FIELD.subn(b"", line)
    return 0 if left.strip(b" \r") else fields


def _remember(memo: dict[str, _T], name: str, value: _T) -> None:
    if len(memo) >= _MAX_KNOWN:
        memo.clear()
    memo[name] = value


# --- the request ------------------------------------------------------------------------------------------------------
def _split_host(before: str, end: int | None = None) -> tuple[str, str]:
    """Splits what stands before the time into the host in front of it, and the address and what follows.

    end: where the time begins. The host is "" for `203.0.113.7 - ann `, which has none.
    """
    first, _, rest = before.partition(" ")
    return (first, rest) if before.count(" ", 0, end) > 3 and not rest.startswith("- ") else ("", before)


def _key_of_request(request: str, hosts: Hosts = HOSTS_IGNORED, host: str = "") -> tuple[str | None, str]:
    """Returns (key, "") of `GET /key?query HTTP/1.1`, or (None, the reason why it has none)."""
    method, target = split_request(request)
    if not target:
        return None, "no request"  # "-" after a timeout, a TLS handshake on a plain port
    return _key_of_target(method, target, hosts, host)


def _key_of_target(method: str, target: str, hosts: Hosts, host: str) -> tuple[str | None, str]:
    if method != "GET":
        return None, f"method {method}" if method in _METHODS else "method unknown"
    path, _, _ = target.partition("?")
    if not path.startswith("/"):
        authority = _AUTHORITY.match(path)
        if authority is None:
            return None, "no path"
        path, host = path[authority.end() :], authority[1]
    if not path[1:]:
        return None, "no key"
    key = hosts.key(path[1:], host)
    if not key:
        return None, "no host"
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return None, "key not UTF-8"
    if size > KEY_BYTES:
        return None, "key too long"
    return key, ""


# --- the time ---------------------------------------------------------------------------------------------------------
def _minute_of_stamp(stamp: str) -> int | None:
    """Returns the start of the minute of a line's time; None if there is no such time."""
    at = stamp_seconds(stamp)
    return None if at is None else at - at % MINUTE_S


def _minute_of(when: str | float | None) -> int:
    """Returns the start of the minute of a time in a JSON line: a number, or text as nginx and Caddy write it."""
    if isinstance(when, str):
        when = _seconds_of_text(when)
    if when is None:
        raise LineBad("no time")
    for unit in (1, 1_000, 1_000_000_000):  # seconds; Caddy can be configured to write milliseconds or nanoseconds
        at = when / unit
        if 0 <= at < 100_000_000_000:
            break
    if not 0 <= at < END_OF_TIME:
        raise LineBad(f"not a valid time: {when}")
    return int(at) // MINUTE_S * MINUTE_S


def _seconds_of_text(when: str) -> float:
    stamped = stamp_seconds(f"[{when}] ")
    if stamped is None:
        stamped = iso_seconds(when.replace("/", "-"))
    if stamped is not None:
        return stamped
    try:
        return float(when)  # nginx's $msec
    except ValueError:
        raise LineBad(f"not a valid time: {when[:40]}") from None


# --- JSON lines -------------------------------------------------------------------------------------------------------
class _CaddyRequest(msgspec.Struct):
    method: str = ""
    host: str = ""
    uri: str = ""
    client_ip: str = ""
    remote_ip: str = ""
    headers: dict[str, list[str]] = {}


_Time = int | float | str | None


class _JsonLine(msgspec.Struct):
    """Caddy's line, and what people call the variables of nginx in a `log_format` of their own."""

    msg: str | None = None
    status: int | str | None = None
    request: _CaddyRequest | str | None = None
    method: str | None = None
    request_method: str | None = None
    request_uri: str | None = None
    uri: str | None = None
    path: str | None = None
    ts: _Time = None
    msec: _Time = None
    time: _Time = None
    timestamp: _Time = None
    time_iso8601: _Time = None
    time_local: _Time = None
    at_timestamp: _Time = msgspec.field(default=None, name="@timestamp")
    host: str | None = None
    http_host: str | None = None
    server_name: str | None = None
    remote_addr: str | None = None
    http_referer: str | None = None
    http_user_agent: str | None = None
    user_agent: str | None = None
    agent_: str | None = msgspec.field(default=None, name="agent")
    ua: str | None = None

    def __post_init__(self) -> None:
        self.method = self.method or self.request_method

    def status_text(self) -> str:
        return f" {self.status:03} " if isinstance(self.status, int) else f" {self.status} "

    def when(self) -> _Time:
        times = (self.ts, self.msec, self.time_iso8601, self.time_local, self.time, self.timestamp, self.at_timestamp)
        return next((time for time in times if time is not None), None)

    def key(self, hosts: Hosts) -> tuple[str | None, str]:
        if isinstance(self.request, _CaddyRequest):
            return _key_of_target(self.request.method, self.request.uri, hosts, self.request.host)
        host = self.host or self.http_host or self.server_name or ""
        if self.request is not None:
            return _key_of_request(self.request, hosts, host)
        return _key_of_target(self.method or "", self.request_uri or self.uri or self.path or "", hosts, host)

    def target(self) -> str:
        if isinstance(self.request, _CaddyRequest):
            return self.request.uri
        return split_request(self.request)[1] if self.request else self.request_uri or self.uri or ""

    def address(self) -> str:
        if isinstance(self.request, _CaddyRequest):
            return self.request.client_ip or self.request.remote_ip
        return self.remote_addr or ""

    def referrer(self) -> str:
        if isinstance(self.request, _CaddyRequest):
            return next(iter(self.request.headers.get("Referer", ())), "")
        return self.http_referer or ""

    def agent(self) -> str:
        if isinstance(self.request, _CaddyRequest):
            return next(iter(self.request.headers.get("User-Agent", ())), "")
        return self.http_user_agent or self.user_agent or self.agent_ or self.ua or ""


_json_line = msgspec.json.Decoder(_JsonLine)
