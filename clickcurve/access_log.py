"""Lines of a web server's access log, in the common and the combined format, as nginx and Apache write them.

203.0.113.7 - ann [25/Feb/2026:06:14:00 +0000] "GET /links?x=1 HTTP/1.1" 302 12 "https://a.example/" "curl/8"
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from clickcurve.buckets.ladder import HOUR_S, MINUTE_S

_MONTHS = {"JanFebMarAprMayJunJulAugSepOctNovDec"[3 * n : 3 * n + 3]: n + 1 for n in range(12)}
_STAMP = re.compile(
    r"\[([0-9]{2})/([A-Z][a-z]{2})/([0-9]{4}):([0-9]{2}):([0-9]{2}):([0-6][0-9]) ([+-])([0-9]{2})([0-9]{2})\] "
)
# Anything (address, user, a virtual host in front; Apache quotes a user without a name), the time, the request, the
# status; then perhaps size, referer and agent, and more. A quote that ends the agent may be missing: the last line of a
# log whose disk was full.
_LINE = re.compile(
    r"(?P<before>(?:[^\"\\]|\\.|\"(?:[^\"\\]|\\.)*+\")*?)(?P<stamp>\[[^\[\]\"\\]{26}\] )"
    r"\"(?P<request>(?:[^\"\\]|\\.)*+)\" (?P<status>[0-9]{3})(?![^ ])(?P<size>[^\"]*+)"
    r"(?:\"(?P<referrer>(?:[^\"\\]|\\.)*+)\" \"(?P<agent>(?:[^\"\\]|\\.)*+)\"?(?P<behind>.*+))?",
    re.DOTALL,
)
_VERSION = re.compile(r" HTTP/[0-9](?:\.[0-9])?\Z")
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"b": b"\b", b"f": b"\f"}


class LogLine(NamedTuple):
    """The parts of a line as written, escapes included.

    before: all that stands before the time, such as `203.0.113.7 - ann `. stamp: `[25/Feb/2026:06:14:00 +0000] `, not
    looked at yet. status: three digits. referrer, agent: None in the common format. behind: what follows the agent, or
    in the common format the status: its size, and perhaps more.
    """

    before: str
    stamp: str
    request: str
    status: str
    referrer: str | None
    agent: str | None
    behind: str = ""


def parse_log_line(line: str) -> LogLine | None:
    """Returns the parts of a line, or None if it is in neither format."""
    match = _LINE.match(line)
    if match is None:
        return None
    before, stamp, request, status, size, referrer, agent, behind = match.groups()
    return LogLine(before, stamp, request, status, referrer, agent, size if behind is None else behind)


def stamp_seconds(stamp: str) -> int | None:
    """Returns epoch seconds of `[17/May/2015:10:05:03 +0000] `; None if there is no such time."""
    match = _STAMP.fullmatch(stamp)
    if match is None or match[2] not in _MONTHS:
        return None
    day, _, year, hour, minute, second, sign, zone_hour, zone_minute = match.groups()
    try:
        local = datetime(int(year), _MONTHS[match[2]], int(day), int(hour), int(minute), tzinfo=UTC)
    except ValueError:
        return None
    offset_s = int(zone_hour) * HOUR_S + int(zone_minute) * MINUTE_S
    # A leap second, :60, is part of the minute that it ends.
    at = int(local.timestamp()) + min(int(second), 59) - (offset_s if sign == "+" else -offset_s)
    return at if at >= 0 else None


def split_request(request: str) -> tuple[str, str]:
    """Returns method and target of `GET /key?query HTTP/1.1`; the target is empty where there is no request."""
    return method_and_target(unescape(request))


def method_and_target(request: str) -> tuple[str, str]:
    """Returns method and target of a request as it was sent, as `split_request` does of one in a log."""
    method, _, target = request.partition(" ")
    return method, _VERSION.sub("", target)


def unescape(text: str) -> str:
    r"""Undoes what a log does to quotes, backslashes and bytes that do not print: `\"`, `\\`, `\n`, `\xC3`."""
    if "\\" not in text:
        return text
    raw = _ESCAPE.sub(_unescape_one, text.encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "surrogateescape")


def _unescape_one(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if len(code) == 3:
        return bytes.fromhex(code[1:].decode())
    return _ESCAPES.get(code, code)
