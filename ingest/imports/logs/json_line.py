"""Lines of access logs in JSON: of Caddy and of Traefik, and of nginx and others with their own names of fields.

Caddy: `ts`, `status`, `request` with `client_ip`, `remote_ip` or, before 2.5, `remote_addr` with a port. Source:
Caddy's documentation, "log", and reports about the older one. Traefik: `StartUTC`, `DownstreamStatus`, `ClientHost`,
`RequestMethod`, `RequestPath`, `request_User-Agent`. Source: Traefik's documentation, "Access Logs". nginx: the names
of its variables, or short ones; without `escape=json` it writes `\\xHH` into strings. Source: nginx's documentation
of `log_format`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import tzinfo
from typing import Any, TypeVar

import msgspec

from clickcurve.access_log import method_and_target, stamp_seconds
from ingest.imports.logs.logged_request import LineBad, LoggedRequest, no_dash
from ingest.imports.logs.text_format import SCHEMES
from ingest.imports.logs.times import epoch_second, iso_in_zone

CADDY, TRAEFIK, OTHER = "Caddy JSON", "Traefik JSON", "JSON"

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|.)", re.DOTALL)
NOT_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)  # the last: brackets in brackets


class _CaddyRequest(msgspec.Struct, gc=False):
    method: Any = None
    host: Any = None
    uri: Any = None
    client_ip: Any = None
    remote_ip: Any = None
    remote_addr: Any = None
    headers: dict[str, Any] | None = None
    tls: Any = None


class _Line(msgspec.Struct, gc=False):
    """All that fields are called. Any value may be of any kind: what is no text and no number is not there."""

    request: _CaddyRequest | str | None = None
    status: Any = None
    downstream_status: Any = msgspec.field(default=None, name="DownstreamStatus")
    status_code: Any = None
    response_code: Any = None
    response: Any = None
    method: Any = None
    request_method: Any = None
    traefik_method: Any = msgspec.field(default=None, name="RequestMethod")
    http_method: Any = None
    verb: Any = None
    request_uri: Any = None
    uri: Any = None
    traefik_path: Any = msgspec.field(default=None, name="RequestPath")
    path: Any = None
    url: Any = None
    args: Any = None
    query_string: Any = None
    query: Any = None
    ts: Any = None
    msec: Any = None
    time_iso8601: Any = None
    time_local: Any = None
    start_utc: Any = msgspec.field(default=None, name="StartUTC")
    time: Any = None
    timestamp: Any = None
    at_timestamp: Any = msgspec.field(default=None, name="@timestamp")
    datetime: Any = None
    date: Any = None
    remote_addr: Any = None
    client_ip: Any = None
    remote_ip: Any = None
    clientip: Any = None
    client_host: Any = msgspec.field(default=None, name="ClientHost")
    client_addr: Any = msgspec.field(default=None, name="ClientAddr")
    ip: Any = None
    client: Any = None
    http_referer: Any = None
    http_referrer: Any = None
    referer: Any = None
    referrer: Any = None
    traefik_referer: Any = msgspec.field(default=None, name="request_Referer")
    http_user_agent: Any = None
    user_agent: Any = None
    agent: Any = None
    ua: Any = None
    useragent: Any = None
    camel_agent: Any = msgspec.field(default=None, name="userAgent")
    traefik_agent: Any = msgspec.field(default=None, name="request_User-Agent")
    host: Any = None
    http_host: Any = None
    server_name: Any = None
    request_host: Any = msgspec.field(default=None, name="RequestHost")
    vhost: Any = None
    domain: Any = None
    scheme: Any = None
    request_scheme: Any = msgspec.field(default=None, name="RequestScheme")
    https: Any = None
    server_port: Any = None
    logger: Any = None
    msg: Any = None
    message: Any = None

    def asked(self) -> tuple[str, str]:
        """Returns the method and the target, with its query."""
        method = self.method or self.request_method or self.traefik_method or self.http_method or self.verb
        target = _text(self.request_uri or self.uri or self.traefik_path or self.path or self.url)
        query = "" if "?" in target else _text(self.args or self.query_string or self.query)
        return _text(method), f"{target}?{query}" if query else target

    def answered(self) -> str:
        """Returns the status."""
        status = self.status or self.downstream_status or self.status_code or self.response_code or self.response
        return _text(status if self.status is None else self.status)

    def when(self) -> object:
        """Returns the time; None if there is none."""
        local = self.time_iso8601 or self.time_local or self.start_utc or self.time or self.timestamp
        return self.ts or self.msec or local or self.at_timestamp or self.datetime or self.date

    def by_whom(self) -> str:
        """Returns the address of the client."""
        usual = self.remote_addr or self.client_ip or self.remote_ip or self.clientip
        return _text(usual or self.client_host or self.client_addr or self.ip or self.client)

    def from_where(self) -> str:
        """Returns the referrer."""
        usual = self.http_referer or self.http_referrer or self.referer or self.referrer
        return _text(usual or self.traefik_referer)

    def by_which_agent(self) -> str:
        usual = self.http_user_agent or self.user_agent or self.agent or self.ua or self.useragent
        return _text(usual or self.camel_agent or self.traefik_agent)

    def of_host(self) -> str:
        usual = _text(self.host) or self.http_host or self.server_name  # some programs name themselves in an object
        return _text(usual or self.request_host or self.vhost or self.domain)

    def tells_of_itself(self) -> bool:
        """Tells whether it is a message of a server, without a sign of a request."""
        has_message = not (self.logger is None and self.msg is None and self.message is None)
        return has_message and not (any(self.asked()) or self.answered())


_decode = msgspec.json.Decoder(_Line).decode
_decode_all = msgspec.json.Decoder(dict[str, Any]).decode
_Decoded = TypeVar("_Decoded")


def read_json(line: str, zone: tzinfo, client: str = "") -> LoggedRequest | None:
    """Reads one line; None if it tells of no request; raises LineBad. client: the name of the field with the client."""
    fields = _decoded(_decode, line)
    asked = fields.request
    if asked is None and fields.tells_of_itself():
        return None  # Caddy and Traefik write their other messages into the same log
    if isinstance(asked, _CaddyRequest):
        return _of_caddy(fields, asked, zone, client)
    method, target = method_and_target(asked) if isinstance(asked, str) else fields.asked()
    if asked is None and not target:
        raise LineBad("no request")
    scheme = fields.scheme or fields.request_scheme or fields.https or fields.server_port
    return LoggedRequest(
        method or ("GET" if asked is None else ""),  # a log that names no methods has those that a browser follows
        target,
        _second(fields, zone),
        _status(fields),
        no_dash(fields.of_host()),
        (client and _named(line, client)) or fields.by_whom(),
        fields.from_where(),
        fields.by_which_agent(),
        SCHEMES.get(_text(scheme), ""),
        OTHER if fields.traefik_path is None else TRAEFIK,
    )


def _of_caddy(fields: _Line, asked: _CaddyRequest, zone: tzinfo, client: str) -> LoggedRequest:
    headers = asked.headers or {}
    return LoggedRequest(
        _text(asked.method),
        _text(asked.uri),
        _second(fields, zone),
        _status(fields),
        _text(asked.host),
        (client and _header(headers, client)) or _text(asked.client_ip or asked.remote_ip or asked.remote_addr),
        _header(headers, "Referer"),
        _header(headers, "User-Agent"),
        "http" if asked.tls is None else "https",
        CADDY,
    )


def _decoded(decode: Callable[[str], _Decoded], line: str) -> _Decoded:
    try:
        return decode(line)
    except NOT_JSON as error:
        with suppress(*NOT_JSON):
            if "\\x" in line:
                return decode(_with_escapes_of_json(line))
        raise LineBad(f"not a JSON line of an access log: {error}") from None


def _text(value: object) -> str:
    """Returns a text as it is, and a number as text; "" for anything else."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _header(headers: Mapping[str, Any], name: str) -> str:
    """Returns the first value of a header that Caddy has logged; it writes names as they are written usually."""
    values = headers.get(name)
    if values is None and name.lower() not in ("user-agent", "referer"):
        values = next((its for header, its in headers.items() if header.lower() == name.lower()), None)
    return values[0] if isinstance(values, list) and values and isinstance(values[0], str) else ""


def _named(line: str, name: str) -> str:
    """Returns a field by its name, or a header that Traefik has logged."""
    fields = _decoded(_decode_all, line)
    return no_dash(_text(fields.get(name) or fields.get(f"request_{name}")))


def _with_escapes_of_json(line: str) -> str:
    """Returns a line with the `\\xHH` of nginx as JSON writes them: ASCII escaped, any other byte as it is."""

    def one(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        byte = int(found[1], 16)
        return f"\\u{byte:04x}" if byte < 0x80 else chr(0xDC00 + byte)

    return _ESCAPE.sub(one, line).encode("utf-8", "surrogateescape").decode()


def _status(fields: _Line) -> str:
    status = fields.answered()
    padded = status.zfill(3)
    if not (status and len(padded) == 3 and padded.isascii() and padded.isdigit()):
        raise LineBad("no status")
    return padded


def _second(fields: _Line, zone: tzinfo) -> int:
    when = fields.when()
    if when is None:
        raise LineBad("no time")
    second = None
    if isinstance(when, str):
        second = _second_of_text(when, zone)
    elif isinstance(when, int | float) and not isinstance(when, bool):
        second = epoch_second(when)
    if second is None:
        raise LineBad(f"not a valid time: {str(when)[:40]}")
    return second


def _second_of_text(when: str, zone: tzinfo) -> int | None:
    second = iso_in_zone(when, zone)
    if second is None:
        second = stamp_seconds(f"[{when}] ")
    if second is None:
        try:
            second = epoch_second(float(when))  # nginx's $msec
        except (ValueError, OverflowError):
            return None
    return second
