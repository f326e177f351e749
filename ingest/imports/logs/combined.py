"""The common and the combined format: what most servers write, and what others put before or behind it.

    %h %l %u %t "%r" %>s %b                                                    Apache: common
    %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"                     Apache, nginx: combined
    %v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"               Debian's Apache: vhost_combined

Traefik's text, ingress-nginx, HAProxy's `httplog clf` and Icecast write combined with fields of their own behind; what
may stand in front says `front`. Sources: the documentation of Apache's mod_log_config, of nginx's
ngx_http_log_module, of Traefik ("Access Logs": Common Log Format), of ingress-nginx ("Log format") and of HAProxy
("8.2.3. HTTP log format").
"""

from __future__ import annotations

import re
from datetime import tzinfo

from clickcurve.access_log import parse_log_line, split_request, stamp_seconds, unescape
from ingest.imports.logs.front import client_of, is_host, read_front
from ingest.imports.logs.logged_request import LineBad, LoggedRequest
from ingest.imports.logs.text_format import SCHEMES, TextFormat

COMBINED, COMMON = "combined", "common"

# What stands before the time, the time to the minute, its zone, method and path, query, status, and perhaps referrer
# and agent, and what is behind; all are empty for a line that is to be read alone. What this takes, `parse_log_line`
# takes in the same way.
_PLAIN = (
    r'^(?:([^"\\\[\n]*+)\[(.{17}):[0-6][0-9] (.{5})\] '
    r'"([^ "\\\n]*+ [^ ?"\\\n]++)(?:\?([^ "\\\n]*+))?+(?: HTTP/[0-9](?:\.[0-9])?+)?+" ([0-9]{3})'
    r'(?: %s(?:"([^"\\\n]*+)" "([^"\\\n]*+)"%s)?+)?+|.*+)$'
)
_ROLES = ("front", "minute", "zone", "request", "query", "status")
_FIELD = re.compile(r'"((?:[^"\\]|\\.)*+)"|(\[[^\]"]*+\]|[^ "]+)', re.DOTALL)


def read_combined(line: str, zone: tzinfo) -> LoggedRequest | None:
    """Reads one line; None if it is in neither format; raises LineBad for an impossible time."""
    parts = parse_log_line(line)
    if parts is None:
        return None
    second = stamp_seconds(parts.stamp)
    if second is None:
        raise LineBad(f"not a valid time: {parts.stamp.strip()}")
    method, target = split_request(parts.request)
    client, host = read_front(parts.before)
    is_common = parts.agent is None
    port = host.rpartition(":")[2]
    return LoggedRequest(
        method,
        target,
        second,
        parts.status,
        host or host_behind(parts.behind, is_common),
        client or "",
        unescape(parts.referrer or ""),
        unescape(parts.agent or ""),
        SCHEMES.get(port, ""),
        COMMON if is_common else COMBINED,
        parts.behind,
    )


def host_behind(behind: str, is_common: bool) -> str:
    """Returns the host that stands alone behind a line's known fields; "" if there is none."""
    fields = fields_of(behind)[1:] if is_common else fields_of(behind)
    return fields[0] if len(fields) == 1 and is_host(fields[0]) and client_of(fields[0]) is None else ""


def fields_of(behind: str) -> list[str]:
    """Returns the fields behind a line's known ones, without quotes."""
    return [unescape(quoted) or word for quoted, word in _FIELD.findall(behind)]


def _minute(minute: str, offset: str, zone: tzinfo) -> int | None:
    return stamp_seconds(f"[{minute}:00 {offset}] ")


def _format(pattern: str, *roles: str) -> TextFormat:
    return TextFormat(COMBINED, re.compile(pattern, re.MULTILINE), (*_ROLES, *roles), _minute, read_combined)


COMBINED_FORMAT = _format(_PLAIN % (r'[^"\\\n]*+', ".*+"), "referrer", "agent")
# With what is behind the fields: two groups more for each line.
WITH_BEHIND = _format(_PLAIN % (r'([^"\\\n]*+)', "(.*+)"), "size", "referrer", "agent", "behind")
