"""Access logs as hits: of each line the key, the minute, and what it says of its visitor.

Pure: bytes in, counts out. Which formats are known says `ingest/imports/logs/`. A line ends in one of three ways, and
`LogSums` add up: it is a hit (a person's or a bot's), it is skipped with a reason (another status, another method, no
key), or it is bad (not a line of any known format).

Nearly all lines of text hold no backslash: one regular expression cuts all lines of a chunk, and each of their parts is
looked up by itself, in what was found out about such texts before. Every other line is read alone, by `parse`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from itertools import compress, groupby, repeat
from operator import is_
from typing import Any, TypeVar, cast

from clickcurve.hosts import HOSTS_IGNORED, Hosts
from clickcurve.keys import KEY_BYTES, decoded_once
from ingest.agents.reader import AGENT_CHARACTERS
from ingest.attributes.campaign import CAMPAIGN_FIELDS, campaign_of_query
from ingest.attributes.memo import Memo
from ingest.attributes.referrer import host_of
from ingest.attributes.text import utf8_text
from ingest.hit import Judge, minute_start
from ingest.imports.log_sums import Campaign, LogHit, LogSums, Skipped
from ingest.imports.logs.clicks import Clicks
from ingest.imports.logs.combined import COMBINED, COMMON, host_behind
from ingest.imports.logs.front import client_of, read_front
from ingest.imports.logs.line_reader import NO_FIELD, ClientField, LineReader, NoRequest
from ingest.imports.logs.logged_request import LineBad, LoggedRequest, no_dash
from ingest.imports.logs.text_format import NO_STATUS, TextFormat
from ingest.imports.logs.w3c import DIRECTIVE, NAMES_COLUMNS, W3C

# Fields of a hit that a line can fill. Of bots the agent alone says something.
OF_LINES = ("ip", "ref", "ua", "source", "utm")
REDIRECTS = frozenset((301, 302, 303, 307, 308))
# Keys that browsers and scanners ask for by themselves: links where a shortener redirects whatever it does not know.
PROPOSED_EXCLUDES = ("favicon.ico", "robots.txt", "wp-*")
_PIECE_BYTES = 64 * 1024  # read at once: the parts of a megabyte of lines fall out of the processor's cache
TEXTS_KEPT = 65_536  # of a kind: times, requests, agents, addresses, referrers
_TEXT_CHARACTERS = 1_024
_METHODS = frozenset(["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PROPFIND"])
_AUTHORITY = re.compile(r"https?://([^/?]*)", re.IGNORECASE)

# A text in quotes, a time in brackets, or a word.
_FIELD = re.compile(rb'"(?:[^"\\]|\\.)*+"|\[[^\]"]*+\]|[^ "]+', re.DOTALL)

_OF_HITS = frozenset(("front", "client", "forwarded", "behind", "referrer", "agent", "query"))  # columns

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How an operator wants a log read.

    zone: of times that name none. own: the only format. client: the field with the client's address. excluded: patterns
    of keys that are no links. keys_as_sent: keys stay percent-encoded. once_per_click: the redirect to https before a
    link's own counts nothing.
    """

    zone: tzinfo = UTC
    own: TextFormat | None = None
    client: ClientField = NO_FIELD
    excluded: tuple[str, ...] = ()
    keys_as_sent: bool = False
    once_per_click: bool = False


AS_USUAL = LogOptions()


class AccessLog:
    """Reads one log. `is_bot` judges an agent; `statuses` are those that count; `only`: the fields to fill, None: all.

    A field is filled if `use` names it, too. hosts: what keys say of hosts. A line has one in front of the address
    (`%v`, `$host`), or in its request. texts_kept: of each kind, for those that are met again.
    """

    def __init__(
        self,
        is_bot: Judge,
        statuses: Collection[int] = REDIRECTS,
        only: Collection[str] | None = None,
        hosts: Hosts = HOSTS_IGNORED,
        options: LogOptions = AS_USUAL,
        texts_kept: int = TEXTS_KEPT,
    ) -> None:
        self._is_bots_agent = is_bot
        self._texts_kept = texts_kept
        self._options = options
        self._lines = LineReader(options.zone, options.own, options.client)
        self._clicks = Clicks() if options.once_per_click else None
        self.proposed: set[str] = set()  # of PROPOSED_EXCLUDES, those that keys are like
        self._only = frozenset(OF_LINES if only is None else only)
        self._skips = _skips_but(frozenset(statuses))
        self.hosts = hosts
        self._keys = self._memo(self._key_of_request)
        self._hosts_in_front = self._memo(_host_in_front)
        self._hosts_behind = self._memo(_host_behind)
        self._use_format()
        self.use(())

    def use(self, fields: Collection[str], people: Collection[str] = ()) -> None:
        """Fills these fields of hits from now on, as far as lines say them: those that are counted where hits go.

        people: words of agents that are people's there, in whatever case.
        """
        self._people = [words.lower() for words in people]
        wanted = self._only.intersection(fields)
        campaign_fields = wanted & CAMPAIGN_FIELDS
        self._fronts = self._memo(_client_in_front) if "ip" in wanted else None
        self._addresses = self._memo(client_of) if "ip" in wanted else None
        self._clients_behind = self._memo(self._client_behind)
        self._referrers = self._memo(_referrer_in) if "ref" in wanted else None
        self._agents = self._memo(partial(_agent_in, self.is_bot, "ua" in wanted))
        self._campaigns = self._memo(partial(_campaign_in, campaign_fields)) if campaign_fields else None

    def is_bot(self, agent: str) -> bool:
        """Returns whether an agent is a bot's where the hits go."""
        if not self._is_bots_agent(agent):
            return False
        text = agent[:AGENT_CHARACTERS].lower()
        return not any(words in text for words in self._people)

    def use_hosts(self, in_key: bool) -> None:
        """Puts hosts into keys from now on, or not, as it is done where the hits go."""
        self.hosts = replace(self.hosts, in_key=in_key)
        self._keys.clear()
        self._use_format()

    def begin(self, kept: str = "", before: bytes = b"") -> None:
        """Begins a source, or goes on within it: with what was kept of its lines, and the last ones before."""
        self._lines.begin(kept)
        self._use_format()
        if self._clicks is not None:
            self._clicks.begin()
            self.read(before)
        self.proposed.clear()  # a key that was met before is not proposed again

    @property
    def kept(self) -> str:
        """What of the lines so far is needed to read the next one; see `LineReader`."""
        return self._lines.kept

    def _use_format(self) -> None:
        """Follows the reader to the format that it has recognised."""
        if self.hosts.in_key or self._options.client.place:
            self._lines.use_behind()
        self._format = self._lines.format
        self._minutes = self._memo(partial(_minute_of, self._format, self._options.zone))
        self._texts = {role: self._memo(undo) for role, undo in _undoing(self._format).items()}

    def _memo(self, read: Callable[[_K], _V]) -> Memo[_K, _V]:
        return Memo(read, self._texts_kept, _TEXT_CHARACTERS)

    # --- many lines ---------------------------------------------------------------------------------------------
    def read(self, data: bytes) -> LogSums:
        """Reads whole lines, each ended by a newline (the last need not be)."""
        sums, start = LogSums(), 0
        while start < len(data):
            end = data.find(b"\n", start + _PIECE_BYTES) + 1 or len(data)
            # Bytes that are not UTF-8 become lone surrogates, which no key may hold: only their own line is lost.
            text = data[start:end].decode("utf-8", "surrogateescape").removesuffix("\n")
            start = end
            # JSON has no columns; and which line of a click counts depends on those before it.
            if text.startswith("{") or self._clicks is not None:
                for line in text.split("\n"):
                    sums.lines += 1
                    self._read_odd(sums.lines, line, sums)
            elif self._format.name == W3C or text.startswith(DIRECTIVE):
                for part in _between_directives(text):
                    self._read_piece(part, sums)
            else:
                self._read_piece(text, sums)
        return sums

    def _read_piece(self, text: str, sums: LogSums) -> None:
        self._lines.expect(text.partition("\n")[0])
        if self._lines.format is not self._format:
            self._use_format()
        format_, lines_before = self._format, sums.lines
        odd = self._read_plain(format_, format_.many.findall(text), sums, format_.mark in text)
        if odd:
            lines = text.split("\n")
            for place in odd:
                self._read_odd(lines_before + place + 1, lines[place], sums)

    def _read_plain(
        self, format_: TextFormat, parts: Sequence[Sequence[str]], sums: LogSums, is_marked: bool
    ) -> list[int]:
        """Adds lines by their parts; returns the places of those that are to be read alone."""
        sums.lines += len(parts)
        columns: dict[str, Sequence[str]] = dict(zip(format_.roles, zip(*parts, strict=True), strict=True))
        if is_marked:
            for role, memo in self._texts.items():
                if role in columns:
                    columns[role] = list(map(memo.__getitem__, columns[role]))
        first, last = format_.when
        minutes = list(map(self._minutes.__getitem__, zip(columns[first], columns[last], strict=True)))
        requests = columns["request"] if "request" in columns else _joined(columns)
        keys, skips = self._keys, list(map(self._skips.get, columns["status"]))
        asked = zip(requests, self._hosts_of(columns), strict=True)
        # Of each line its key, the reason why it is skipped, or None for a line that is to be read alone.
        outcomes: list[str | None]
        if None in minutes or any(skips):
            outcomes = [
                None if minute is None else skip or keys[request]
                for minute, skip, request in zip(minutes, skips, asked, strict=True)
            ]
        else:
            outcomes = list(map(keys.__getitem__, asked))
        if "odd" in columns and any(columns["odd"]):
            outcomes = [None if odd else outcome for odd, outcome in zip(columns["odd"], outcomes, strict=True)]
        whole: tuple[Any, Any, Mapping[str, Sequence[str]]] = outcomes, minutes, columns
        types = list(map(type, outcomes))
        if types.count(str) < len(types):
            sums.skipped.update(cast(list[str], list(compress(outcomes, map(is_, types, repeat(Skipped))))))
            counts = list(map(is_, types, repeat(str)))
            kept = {role: list(compress(column, counts)) for role, column in columns.items() if role in _OF_HITS}
            whole = list(compress(outcomes, counts)), list(compress(minutes, counts)), kept
        if whole[0]:
            self._add_hits(sums, *whole)
        alone = [place for place, outcome in enumerate(outcomes) if outcome is None] if None in outcomes else []
        if len(alone) < len(parts):
            is_common = format_.name == COMBINED and not any(columns["agent"])
            sums.formats[COMMON if is_common else format_.name] += len(parts) - len(alone)
        return alone

    def _hosts_of(self, columns: Mapping[str, Sequence[str]]) -> Iterable[str]:
        """Yields the host of each line; "" if hosts are not asked for."""
        some = next(iter(columns.values()))
        if not self.hosts.in_key:
            return repeat("", len(some))
        if "front" not in columns:
            return map(no_dash, columns["host"]) if "host" in columns else repeat("", len(some))
        fronts = map(self._hosts_in_front.__getitem__, columns["front"])
        behind = zip(columns["size"], columns["agent"], columns["behind"], strict=True)
        return [
            host or self._hosts_behind[(rest, False) if agent else (size, True)]
            for host, (size, agent, rest) in zip(fronts, behind, strict=True)
        ]

    def _ips_of(self, columns: Mapping[str, Sequence[str]], many: int) -> Iterable[str | None]:
        """Yields the address of each line's client; None if there is none, or addresses are not asked for."""
        if self._addresses is None:
            return repeat(None, many)
        ips: Iterable[str | None] = repeat(None, many)
        if "front" in columns:
            ips = _looked_up(self._fronts, columns["front"])
        elif "client" in columns:
            ips = _looked_up(self._addresses, columns["client"])
        for role, memo in (("forwarded", self._addresses), ("behind", self._clients_behind)):
            if role in columns and (role == "forwarded" or self._options.client.place):
                ips = [named or ip for named, ip in zip(map(memo.__getitem__, columns[role]), ips, strict=True)]
        return ips

    def _add_hits(
        self, sums: LogSums, keys: Sequence[str], minutes: Sequence[int], columns: Mapping[str, Sequence[str]]
    ) -> None:
        none = [""] * len(keys)
        bots, uas = zip(*map(self._agents.__getitem__, columns.get("agent", none)), strict=True)
        # Plain tuples, which are equal to LogHits and made in C.
        hits: list[Any] = list(
            zip(
                keys,
                minutes,
                bots,
                self._ips_of(columns, len(keys)),
                _looked_up(self._referrers, columns.get("referrer", none)),
                uas,
                _looked_up(self._campaigns, columns.get("query", none)),
                strict=True,
            )
        )
        for place in compress(range(len(hits)), bots):
            key, minute, *_ = hits[place]
            hits[place] = (key, minute, True, None, None, uas[place], None)
        sums.hits.update(hits)
        sums.bot_hits += bots.count(True)
        sums.people_hits += bots.count(False)

    # --- one line -----------------------------------------------------------------------------------------------
    def _read_odd(self, number: int, line: str, sums: LogSums) -> None:
        try:
            parsed = self.parse(line, sums)
        except LineBad as bad:
            sums.note_bad(number, str(bad), line)
            return
        if isinstance(parsed, str):
            sums.skipped[parsed] += 1
        else:
            sums.hits[parsed] += 1
            sums.bot_hits += parsed.bot
            sums.people_hits += not parsed.bot

    def parse(self, line: str, sums: LogSums | None = None) -> LogHit | Skipped:
        """Reads one line, slowly: a hit, or the reason why it is skipped; raises LineBad for any other line."""
        request = self._lines.read(line)
        if isinstance(request, NoRequest):
            return Skipped(request)
        if sums is not None:
            sums.formats[request.format] += 1
        return self._outcome(request)

    def is_line(self, line: bytes) -> bool:
        """Tells whether a line is whole and known; it may be one that is skipped."""
        try:
            self._lines.read(line.decode("utf-8", "surrogateescape").removesuffix("\n"))
        except LineBad:
            return False
        return True

    def _outcome(self, request: LoggedRequest) -> LogHit | Skipped:
        if skipped := self._skips[request.status]:
            return skipped
        if not request.target:
            return Skipped("no request")  # "-" after a timeout, a TLS handshake on a plain port
        path, _, query = request.target.partition("?")
        key, minute = self._key_of_path(request.method, path, request.host), minute_start(request.second)
        if isinstance(key, Skipped):
            return key
        if self._clicks is not None and (why := self._clicks.left_out(request)):
            return Skipped(why)
        bot, ua = self._agents[request.agent]
        if bot:
            return LogHit(key, minute, True, ua=ua)
        (ip,), (ref,) = _looked_up(self._addresses, [request.client]), _looked_up(self._referrers, [request.referrer])
        (campaign,) = _looked_up(self._campaigns, [query.partition(" ")[0]])
        return LogHit(key, minute, False, ip, ref, ua, campaign)

    # --- what a line asks for -----------------------------------------------------------------------------------
    def _client_behind(self, behind: str) -> str | None:
        """Returns the address in the field that the operator has named."""
        return client_of(self._options.client.of_behind(behind))

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
        path = path[1:] if self._options.keys_as_sent else decoded_once(path[1:])
        key = self.hosts.key(path, host)
        if not key:
            return Skipped("no host")
        if self._options.excluded and _is_like(path, key, self._options.excluded):
            return Skipped("excluded")
        self.proposed.update(pattern for pattern in PROPOSED_EXCLUDES if fnmatchcase(path, pattern))
        try:
            size = len(key.encode())
        except UnicodeEncodeError:
            return Skipped("key not UTF-8")
        return Skipped("key too long") if size > KEY_BYTES else key


@lru_cache(16)
def _skips_but(statuses: frozenset[int]) -> Mapping[str, Skipped | None]:
    """Returns why a line with a status is skipped; None for those that count."""
    skips = {f"{status:03}": None if status in statuses else Skipped(f"status {status:03}") for status in range(1000)}
    return skips | dict.fromkeys(NO_STATUS, skips["000"])


def _looked_up(memo: Memo[str, _V] | None, texts: Sequence[str]) -> Iterator[_V | None]:
    """Yields what each text says; None where that is not wanted."""
    return repeat(None, len(texts)) if memo is None else map(memo.__getitem__, texts)


def _client_in_front(front: str) -> str | None:
    return read_front(front).client


def _host_in_front(front: str) -> str:
    return read_front(front).host


def _host_behind(behind_and_common: tuple[str, bool]) -> str:
    return host_behind(*behind_and_common)


def _minute_of(format_: TextFormat, zone: tzinfo, texts: tuple[str, str]) -> int | None:
    """Returns the minute of the two texts that make a time; None if there is no such time."""
    at = format_.minute(*texts, zone)
    return None if at is None else minute_start(at)


def _undoing(format_: TextFormat) -> dict[str, Callable[[str], str]]:
    """Returns what undoes a format's own way of writing, by columns."""
    if format_.name == COMBINED:
        return {}  # no column of it holds an escape
    return {
        "request": lambda request: " ".join(map(format_.path, request.split(" ", 1))),
        "path": format_.path,
        "query": format_.query,
        "agent": format_.text,
        "referrer": format_.text,
    }


def _joined(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns requests that stand in two columns, or in one without a method."""
    if "method" not in columns:
        return [f"GET {path}" for path in columns["path"]]
    return list(map(" ".join, zip(columns["method"], columns["path"], strict=True)))


def _between_directives(text: str) -> Iterator[str]:
    """Yields the lines that one format cuts: those between directives of a W3C log, and these alone."""
    if NAMES_COLUMNS not in text:
        yield text
        return
    for is_directive, lines in groupby(text.split("\n"), lambda line: line.startswith(DIRECTIVE)):
        if is_directive:
            yield from lines
        else:
            yield "\n".join(lines)


def _is_like(path: str, key: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) or fnmatchcase(key, pattern) for pattern in patterns)


# --- of its visitor: what a field of a hit may not hold is left out, for a log holds whatever clients sent ------------
def _referrer_in(text: str) -> str | None:
    """Returns the host of a referrer; None if there is none."""
    return host_of(utf8_text(text)) or None


def _agent_in(is_bot: Judge, wanted: bool, text: str) -> tuple[bool, str | None]:
    """Returns whether an agent is a bot's, and the agent if it is wanted and there is one."""
    if text in ("", "-"):
        return False, None
    return is_bot(text), utf8_text(text) if wanted else None


def _campaign_in(wanted: frozenset[str], query: str) -> Campaign | None:
    """Returns the source and the campaign in a query, as far as they are wanted; None where there is none."""
    source, utm = campaign_of_query(utf8_text(query), wanted)
    return Campaign(source or None, tuple(utm.items()) or None) if source or utm else None


def count_fields(line: bytes) -> int:
    """Counts the fields of a line of text; returns 0 if a quote has no end."""
    left, fields = _FIELD.subn(b"", line)
    return 0 if left.strip(b" \r") else fields
