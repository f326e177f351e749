"""Lines of access logs in JSON: those of Caddy, and of nginx with its variables' names in a `log_format`."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from clickcurve.access_log import split_request, stamp_seconds
from clickcurve.buckets.ladder import END_OF_TIME
from clickcurve.times import iso_seconds

_Time = int | float | str | None


class LineBad(Exception):
    """A line has an unknown format; the text says why."""


class LoggedRequest(NamedTuple):
    """What a line of any format says; "" where it says nothing.

    second: epoch seconds. status: three digits. front: what stands before the time, or the address alone.
    """

    method: str
    target: str
    second: int
    status: str
    host: str
    front: str
    referrer: str
    agent: str


def parse_json_line(line: str) -> LoggedRequest | None:
    """Returns the parts of a line; None if it tells of no request; raises LineBad."""
    try:
        fields = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise LineBad(f"not a JSON line of an access log: {error}") from None
    if fields.request is None and fields.method is None:
        if fields.msg is None:
            raise LineBad("no request")
        return None  # Caddy writes its other messages into the same log
    status = f"{fields.status:03}" if isinstance(fields.status, int) else str(fields.status)
    if not (len(status) == 3 and status.isascii() and status.isdigit()):
        raise LineBad("no status")
    second, host = _second_of(fields.when()), fields.host or fields.http_host or fields.server_name or ""
    agent = fields.http_user_agent or fields.user_agent or fields.agent or fields.ua or ""
    address, referrer = fields.remote_addr or "", fields.http_referer or ""
    if not isinstance(fields.request, _CaddyRequest):
        parts = fields.method or "", fields.request_uri or fields.uri or fields.path or ""
        method, target = parts if fields.request is None else split_request(fields.request)
        return LoggedRequest(method, target, second, status, host, address, referrer, agent)
    caddy = fields.request
    address, headers = caddy.client_ip or caddy.remote_ip, caddy.headers
    referrer, agent = _first(headers.get("Referer")), _first(headers.get("User-Agent"))
    return LoggedRequest(caddy.method, caddy.uri, second, status, caddy.host, address, referrer, agent)


def _first(values: list[str] | None) -> str:
    return values[0] if values else ""


class _CaddyRequest(msgspec.Struct):
    method: str = ""
    host: str = ""
    uri: str = ""
    client_ip: str = ""
    remote_ip: str = ""
    headers: dict[str, list[str]] = {}


class _Line(msgspec.Struct):
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
    agent: str | None = None
    ua: str | None = None

    def __post_init__(self) -> None:
        self.method = self.method or self.request_method

    def when(self) -> _Time:
        """Returns the first time that is given."""
        times = (self.ts, self.msec, self.time_iso8601, self.time_local, self.time, self.timestamp, self.at_timestamp)
        return next((time for time in times if time is not None), None)


_decoder = msgspec.json.Decoder(_Line)


def _second_of(when: _Time) -> int:
    """Returns the second of a time: a number, or text as nginx and Caddy write it."""
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
    return int(at)


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
