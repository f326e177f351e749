"""Access logs of web servers as hits: the combined and the common format, and the JSON lines of nginx and of Caddy.

Pure: bytes in, counts out. The format is recognised line by line. A line ends in one of three ways, and `LogSums` add
up: it is a hit (a person's or a bot's), it is skipped with a reason (another status, another method, no key), or
it is bad (not a line of any known format).

Nearly all lines of text hold no backslash: one regular expression cuts all lines of a chunk, and each of their parts is
looked up by itself, in what was found out about such texts before. Every other line is read alone, by `parse`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress, repeat
from operator import is_
from typing import Any, NamedTuple, TypeVar, cast

from clickcurve.access_log import parse_log_line, split_request, stamp_seconds, unescape
from clickcurve.buckets.errors import HitRejected
from clickcurve.hosts import HOSTS_IGNORED, Hosts
from clickcurve.keys import KEY_BYTES
from ingest.agents.reader import AGENT_CHARACTERS
from ingest.attributes.campaign import CAMPAIGN_FIELDS, campaign_of_query, source_of, utm_of
from ingest.attributes.country import address_of
from ingest.attributes.memo import Memo
from ingest.attributes.referrer import host_of
from ingest.attributes.text import utf8_text
from ingest.hit import Judge, minute_start
from ingest.imports.json_log_line import LineBad, LoggedRequest, parse_json_line

# Fields of a hit that a line can fill. Of bots the agent alone says something.
OF_LINES = ("ip", "ref", "ua", "source", "utm")
REDIRECTS = frozenset((301, 302, 303, 307, 308))
SHOWN_BAD_LINES = 5
_SHOWN_CHARS = 200
_PIECE_BYTES = 64 * 1024  # read at once: the parts of a megabyte of lines fall out of the processor's cache
_TEXTS_KEPT = 65_536  # of a kind: times, requests, agents, addresses, referrers
_TEXT_CHARACTERS = 1_024
_METHODS = frozenset(["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PROPFIND"])
_AUTHORITY = re.compile(r"https?://([^/?]*)", re.IGNORECASE)

# A text in quotes, a time in brackets, or a word.
_FIELD = re.compile(rb'"(?:[^"\\]|\\.)*+"|\[[^\]"]*+\]|[^ "]+', re.DOTALL)
# What stands before the time, the time to the minute, its zone, method and path, query, status, and perhaps referrer
# and agent; all are empty for a line that is to be read alone. What this takes, `parse_log_line` takes in the same way.
_PLAIN_LINE = re.compile(
    r'^(?:([^"\\\[\n]*+)\[(.{17}):[0-6][0-9] (.{5})\] '
    r'"([^ "\\\n]*+ [^ ?"\\\n]++)(?:\?([^ "\\\n]*+))?+(?: HTTP/[0-9](?:\.[0-9])?+)?+" ([0-9]{3})'
    r'(?: [^"\\\n]*+(?:"([^"\\\n]*+)" "([^"\\\n]*+)".*+)?+)?+|.*+)$',
    re.MULTILINE,
)


_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class BadLine:
    """`line` counts from 1 in what was read."""

    line: int
    reason: str
    text: str


class Campaign(NamedTuple):
    """What the query of a link names. utm: pairs of name and value."""

    source: str | None
    utm: tuple[tuple[str, str], ...] | None


class LogHit(NamedTuple):
    """What a line counts: a hit of a link in the minute that starts at `minute`, with what it says of its visitor.

    None: absent or not wanted.
    """

    key: str
    minute: int
    bot: bool
    ip: str | None = None
    ref: str | None = None
    ua: str | None = None
    campaign: Campaign | None = None


class Skipped(str):
    """The reason why a line counts nothing."""


@dataclass(slots=True)
class LineSums:
    """How some lines ended. Of a log: `lines == people_hits + bot_hits + sum of skipped + bad`."""

    lines: int = 0
    people_hits: int = 0
    bot_hits: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    bad: int = 0
    first_bad: list[BadLine] = field(default_factory=list)

    def note_bad(self, line: int, reason: str, text: str) -> None:
        self.bad += 1
        if len(self.first_bad) < SHOWN_BAD_LINES:
            shown = text[:_SHOWN_CHARS].encode("utf-8", "backslashreplace").decode()
            self.first_bad.append(BadLine(line, reason, shown))


@dataclass(slots=True)
class LogSums(LineSums):
    """What some lines add up to."""

    hits: Counter[LogHit] = field(default_factory=Counter)


class AccessLog:
    """Reads one log. `is_bot` judges an agent; `statuses` are those that count; `only`: the fields to fill, None: all.

    A field is filled if `use` names it, too. hosts: what keys say of hosts. A line has one in front of the address
    (`%v`, `$host`), or in its request.
    """

    def __init__(
        self,
        is_bot: Judge,
        statuses: Collection[int] = REDIRECTS,
        only: Collection[str] | None = None,
        hosts: Hosts = HOSTS_IGNORED,
    ) -> None:
        self._is_bots_agent = is_bot
        self._only = frozenset(OF_LINES if only is None else only)
        self._skips = {
            f"{status:03}": None if status in statuses else Skipped(f"status {status:03}") for status in range(1000)
        }
        self.hosts = hosts
        self._minutes, self._keys = _memo(_minute_of), _memo(self._key_of_request)
        self._hosts_in_front = _memo(_host_in_front)
        self.use(())

    def use(self, fields: Collection[str], people: Collection[str] = ()) -> None:
        """Fills these fields of hits from now on, as far as lines say them: those that are counted where hits go.

        people: words of agents that are people's there, in whatever case.
        """
        self._people = [words.lower() for words in people]
        wanted = self._only.intersection(fields)
        campaign_fields = wanted & CAMPAIGN_FIELDS
        self._addresses = _memo(self._address_in_front) if "ip" in wanted else None
        self._referrers = _memo(_referrer_in) if "ref" in wanted else None
        self._agents = _memo(partial(_agent_in, self.is_bot, "ua" in wanted))
        self._campaigns = _memo(partial(_campaign_in, campaign_fields)) if campaign_fields else None

    def is_bot(self, agent: str) -> bool:
        """Returns whether an agent is a bot's where the hits go."""
        if not self._is_bots_agent(agent):
            return False
        text = agent[:AGENT_CHARACTERS].lower()
        return not any(words in text for words in self._people)

    def use_hosts(self, in_key: bool) -> None:
        """Puts hosts into keys from now on, or not, as it is done where the hits go."""
        self.hosts = replace(self.hosts, in_key=in_key)
        for memo in (self._keys, self._addresses):
            if memo is not None:
                memo.clear()

    # --- many lines ---------------------------------------------------------------------------------------------
    def read(self, data: bytes) -> LogSums:
        """Reads whole lines, each ended by a newline (the last need not be)."""
        sums, start = LogSums(), 0
        while start < len(data):
            end = data.find(b"\n", start + _PIECE_BYTES) + 1 or len(data)
            # Bytes that are not UTF-8 become lone surrogates, which no key may hold: only their own line is lost.
            text = data[start:end].decode("utf-8", "surrogateescape").removesuffix("\n")
            lines_before, start = sums.lines, end
            if odd := self._read_plain(_PLAIN_LINE.findall(text), sums):
                lines = text.split("\n")
                for place in odd:
                    self._read_odd(lines_before + place + 1, lines[place], sums)
        return sums

    def _read_plain(self, parts: Sequence[Sequence[str]], sums: LogSums) -> list[int]:
        """Adds lines by their parts; returns the places of those that are to be read alone."""
        sums.lines += len(parts)
        fronts, times, zones, requests, queries, statuses, referrers, agents = zip(*parts, strict=True)
        minutes = list(map(self._minutes.__getitem__, zip(times, zones, strict=True)))
        hosts: Iterable[str] = repeat("", len(parts))
        if self.hosts.in_key:
            hosts = map(self._hosts_in_front.__getitem__, fronts)
        keys, skips = self._keys, list(map(self._skips.get, statuses))
        # Of each line its key, the reason why it is skipped, or None for a line that is to be read alone.
        outcomes: list[str | None]
        if None in minutes or any(skips):
            outcomes = [
                None if minute is None else skip or keys[request]
                for minute, skip, request in zip(minutes, skips, zip(requests, hosts, strict=True), strict=True)
            ]
        else:
            outcomes = list(map(keys.__getitem__, zip(requests, hosts, strict=True)))
        columns: tuple[Sequence[Any], ...] = (outcomes, minutes, fronts, referrers, agents, queries)
        types = list(map(type, outcomes))
        if types.count(str) < len(types):
            sums.skipped.update(cast(list[str], list(compress(outcomes, map(is_, types, repeat(Skipped))))))
            counts = list(map(is_, types, repeat(str)))
            columns = tuple(list(compress(column, counts)) for column in columns)
        if columns[0]:
            self._add_hits(sums, *columns)
        return [place for place, outcome in enumerate(outcomes) if outcome is None] if None in outcomes else []

    def _add_hits(
        self,
        sums: LogSums,
        keys: Sequence[str],
        minutes: Sequence[int],
        fronts: Sequence[str],
        referrers: Sequence[str],
        agents: Sequence[str],
        queries: Sequence[str],
    ) -> None:
        ips, refs = _looked_up(self._addresses, fronts), _looked_up(self._referrers, referrers)
        bots, uas = zip(*map(self._agents.__getitem__, agents), strict=True)
        campaigns = _looked_up(self._campaigns, queries)
        # Plain tuples, which are equal to LogHits and made in C.
        hits: list[Any] = list(zip(keys, minutes, bots, ips, refs, uas, campaigns, strict=True))
        for place in compress(range(len(hits)), bots):
            hits[place] = (keys[place], minutes[place], True, None, None, uas[place], None)
        sums.hits.update(hits)
        sums.bot_hits += bots.count(True)
        sums.people_hits += bots.count(False)

    # --- one line -----------------------------------------------------------------------------------------------
    def _read_odd(self, number: int, line: str, sums: LogSums) -> None:
        try:
            parsed = self.parse(line)
        except LineBad as bad:
            sums.note_bad(number, str(bad), line)
            return
        if isinstance(parsed, str):
            sums.skipped[parsed] += 1
        else:
            sums.hits[parsed] += 1
            sums.bot_hits += parsed.bot
            sums.people_hits += not parsed.bot

    def parse(self, line: str) -> LogHit | Skipped:
        """Reads one line, slowly: a hit, or the reason why it is skipped; raises LineBad for any other line."""
        line = line.removesuffix("\r")
        if not line.strip():
            return Skipped("blank line")
        parts = parse_log_line(line)
        if parts is None:
            if line.startswith("{"):
                return self._parse_json(line)
            raise LineBad("not a line of an access log")
        second = stamp_seconds(parts.stamp)
        if second is None:
            raise LineBad(f"not a valid time: {parts.stamp.strip()}")
        host, rest = self._hosts_in_front[parts.before], (parts.before, parts.referrer or "", parts.agent or "")
        return self._outcome(LoggedRequest(*split_request(parts.request), second, parts.status, host, *rest))

    def _parse_json(self, line: str) -> LogHit | Skipped:
        request = parse_json_line(line)
        return Skipped("not a request") if request is None else self._outcome(request)

    def _outcome(self, request: LoggedRequest) -> LogHit | Skipped:
        if skipped := self._skips[request.status]:
            return skipped
        if not request.target:
            return Skipped("no request")  # "-" after a timeout, a TLS handshake on a plain port
        path, _, query = request.target.partition("?")
        key, minute = self._key_of_path(request.method, path, request.host), minute_start(request.second)
        if isinstance(key, Skipped):
            return key
        bot, ua = self._agents[request.agent]
        if bot:
            return LogHit(key, minute, True, ua=ua)
        (ip,), (ref,) = _looked_up(self._addresses, [request.front]), _looked_up(self._referrers, [request.referrer])
        (campaign,) = _looked_up(self._campaigns, [query.partition(" ")[0]])
        return LogHit(key, minute, False, ip, ref, ua, campaign)

    # --- what a line asks for -----------------------------------------------------------------------------------
    def _address_in_front(self, front: str) -> str | None:
        """Returns the address before the time, behind the host if keys have hosts and a line names one; None: none."""
        host = self._hosts_in_front[front] if self.hosts.in_key else ""
        try:
            return address_of(front.removeprefix(f"{host} " if host else "").partition(" ")[0])
        except HitRejected:
            return None

    def _key_of_request(self, request_and_host: tuple[str, str]) -> str:
        """Returns the key of `GET /key`, or the reason why it has none."""
        request, host = request_and_host
        method, _, path = request.partition(" ")
        return self._key_of_path(method, path, host)

    def _key_of_path(self, method: str, path: str, host: str) -> str:
        """Returns the key that a path without its query names, or the reason why it has none."""
        if method != "GET":
            return Skipped(f"method {method}" if method in _METHODS else "method unknown")
        if not path.startswith("/"):
            authority = _AUTHORITY.match(path)
            if authority is None:
                return Skipped("no path")
            path, host = path[authority.end() :], authority[1]
        if not path[1:]:
            return Skipped("no key")
        key = self.hosts.key(path[1:], host)
        if not key:
            return Skipped("no host")
        try:
            size = len(key.encode())
        except UnicodeEncodeError:
            return Skipped("key not UTF-8")
        return Skipped("key too long") if size > KEY_BYTES else key


def _memo(read: Callable[[_K], _V]) -> Memo[_K, _V]:
    return Memo(read, _TEXTS_KEPT, _TEXT_CHARACTERS)


def _looked_up(memo: Memo[str, _V] | None, texts: Sequence[str]) -> Iterator[_V | None]:
    """Yields what each text says; None where that is not wanted."""
    return repeat(None, len(texts)) if memo is None else map(memo.__getitem__, texts)


def _host_in_front(front: str) -> str:
    """Returns the host in front of the address; "" for `203.0.113.7 - ann `, which has none."""
    host, _, rest = front.partition(" ")
    return host if front.count(" ") > 3 and not rest.startswith("- ") else ""


def _minute_of(time_and_zone: tuple[str, str]) -> int | None:
    """Returns the minute of `17/May/2015:10:05` and `+0000`; None if there is no such time."""
    time, zone = time_and_zone
    return stamp_seconds(f"[{time}:00 {zone}] ")


# --- of its visitor: what a field of a hit may not hold is left out, for a log holds whatever clients sent ------------
def _referrer_in(text: str) -> str | None:
    """Returns the host of a referrer; None if there is none."""
    return host_of(utf8_text(unescape(text))) or None


def _agent_in(is_bot: Judge, wanted: bool, text: str) -> tuple[bool, str | None]:
    """Returns whether an agent is a bot's, and the agent if it is wanted and there is one."""
    if text in ("", "-"):
        return False, None
    agent = unescape(text)
    return is_bot(agent), utf8_text(agent) if wanted else None


def _campaign_in(wanted: frozenset[str], query: str) -> Campaign | None:
    """Returns the source and the campaign in a query, as far as they are wanted; None where there is none."""
    named_source, named_utm = campaign_of_query(utf8_text(query), wanted)
    source = utm = None
    if named_source:
        with suppress(HitRejected):
            source = source_of(named_source)
    if named_utm:
        with suppress(HitRejected):
            utm = tuple(utm_of(named_utm).items())
    return None if source is None and utm is None else Campaign(source, utm)


def count_fields(line: bytes) -> int:
    """Counts the fields of a line of text; returns 0 if a quote has no end."""
    left, fields = _FIELD.subn(b"", line)
    return 0 if left.strip(b" \r") else fields
