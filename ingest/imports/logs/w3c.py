"""The W3C extended log file format: IIS, CloudFront's standard logs, and others that name columns by `#Fields:`.

    #Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port c-ip cs(User-Agent) cs(Referer) sc-status
    2026-02-25 06:14:00 10.0.0.5 GET /launch - 443 203.0.113.7 Mozilla/5.0+(X11;+Linux) - 302

Sources: the W3C's working draft "Extended Log File Format"; Microsoft's "W3C Extended Log File Format" (times are UTC,
a blank in a value is a `+`, paths are decoded); Amazon CloudFront's developer guide, "Standard logging reference"
(columns are apart by tabs, values are percent-encoded, those of older lines twice; the name that visitors asked for is
x-host-header). Values of other programs may stand in quotes, which are doubled inside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from ingest.imports.logs.text_format import STATUS, Pattern, TextFormat, compile_format
from ingest.imports.logs.times import ISO, epoch_second, iso_in_zone

W3C = "W3C"
DIRECTIVE = "#"
NAMES_COLUMNS = "#Fields:"
# Role -> a letter for it where the columns are kept, and what columns of it are called, the first that is there.
_ROLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "date": ("d", ("date", "date-utc", "date-local")),
    "time": ("t", ("time", "time-utc", "time-local")),
    "epoch": ("e", ("timestamp", "x-timestamp")),
    "client": ("c", ("c-ip", "cs-ip")),
    "method": ("m", ("cs-method",)),
    "path": ("p", ("cs-uri-stem", "cs-uri-path", "cs-uri")),
    "query": ("q", ("cs-uri-query",)),
    "status": ("s", ("sc-status", "c-status")),
    "agent": ("a", ("cs(user-agent)",)),
    "referrer": ("r", ("cs(referer)", "cs(referrer)")),
    "host": ("h", ("x-host-header", "cs-host", "cs(host)")),
    "scheme": ("x", ("cs-protocol", "cs-uri-scheme", "s-port")),
}
_FORWARDED = "f"
_IIS, _CLOUDFRONT, _LOCAL = "I", "C", "L"  # paths are decoded; percent signs are doubled; times are not UTC
_LETTER = re.compile("([a-z])([0-9]{1,3})")
_KEPT = re.compile(f"(?:{_LETTER.pattern})+[{_IIS}{_CLOUDFRONT}{_LOCAL}]*")
_VALUE = r'(?:"[^"\n]*+(?:""[^"\n]*+)*+"(?![^ \t\r\n])|[^ \t\r\n]++)'
_WORD = r'"?+([^" \t\r\n]*+)"?+'
_GAP = "(?: ++|\t)"
_TWICE = re.compile("%25(?=[0-9A-Fa-f]{2})")


class Columns(NamedTuple):
    """Where the columns of a log are. kept: in a few letters, for an import that goes on within the log."""

    kept: str

    @property
    def is_complete(self) -> bool:
        """Tells whether there is a time, a path and a status."""
        letters = {letter for letter, _ in _LETTER.findall(self.kept)}
        return {"p", "s"} <= letters and ("e" in letters or {"d", "t"} <= letters)


def columns_of(directive: str, client: str = "") -> Columns | None:
    """Returns the columns that `#Fields: ...` names; None for any other directive. client: the client's column."""
    if not directive.startswith(NAMES_COLUMNS):
        return None
    fields = directive.removeprefix(NAMES_COLUMNS).lower().split()
    kept = {}
    for letter, its in _ROLES.values():
        place = next((fields.index(name) for name in its if name in fields), None)
        if place is not None:
            kept[place] = letter
    if client and client.lower() in fields:
        kept[fields.index(client.lower())] = _FORWARDED
    marks = _IIS if {"sc-win32-status", "sc-substatus", "s-sitename"} & set(fields) else ""
    marks += _CLOUDFRONT if "x-edge-location" in fields else ""
    marks += _LOCAL if "time-local" in fields and "time" not in fields else ""
    return Columns("".join(f"{kept[place]}{place}" for place in sorted(kept)) + marks)


def kept_columns(text: str) -> Columns | None:
    """Returns the columns that were kept; None if the text is none of these."""
    return Columns(text) if _KEPT.fullmatch(text) else None


@lru_cache(64)
def w3c_format(columns: Columns) -> TextFormat:
    """Returns the format of the lines below a directive; `is_complete` holds for it."""
    roles = {letter: role for role, (letter, _) in _ROLES.items()} | {_FORWARDED: "forwarded"}
    wanted = {int(place): roles[letter] for letter, place in _LETTER.findall(columns.kept)}
    columns_read = [_column(wanted.get(place, ""), "query" in wanted.values()) for place in range(max(wanted) + 1)]
    its = tuple(name for _, names in columns_read for name in names)
    is_local = _LOCAL in columns.kept
    query = _once if _CLOUDFRONT in columns.kept else _whole
    path = _of_iis if _IIS in columns.kept else _once if _CLOUDFRONT in columns.kept else _target

    def seconds(begin: str, end: str, zone: tzinfo) -> int | None:
        if "epoch" in its:
            return epoch_second(int(begin)) if begin.isdigit() and len(begin) < 20 else None
        return iso_in_zone(f"{begin} {end}", zone if is_local else UTC)

    when = ("epoch", "second") if "epoch" in its else ("date", "minute")
    pieces = [Pattern(_GAP.join(text for text, _ in columns_read), its)]
    return compile_format(W3C, pieces, when, seconds, mark="", path=path, query=query, text=_text)


def _column(role: str, has_query: bool) -> tuple[str, tuple[str, ...]]:
    """Returns the pattern of a column, and the roles of its groups."""
    if not role:
        return _VALUE, ()
    if role == "date":
        return '"?+([0-9]{4}-[0-9]{2}-[0-9]{2})"?+', ("date",)
    if role == "time":
        return f'"?+([0-9]{{2}}:[0-9]{{2}}){ISO.second}"?+', ("minute", "second")
    if role == "epoch":
        return '"?+([0-9]++)()[.0-9]*+"?+', ("epoch", "second")
    if role == "status":
        return f'"?+({STATUS})"?+', ("status",)
    if role == "path" and not has_query:
        return r"([^? \t\r\n]*+)(?:\?([^ \t\r\n]*+))?+", ("path", "query")
    if role in ("path", "query"):
        return r"([^ \t\r\n]++)", (role,)
    return f"({_VALUE})" if role in ("agent", "referrer", "forwarded") else _WORD, (role,)


def _whole(text: str) -> str:
    """Returns a value without the quotes around it."""
    return text[1:-1] if text.startswith('"') and text.endswith('"') else text


def _target(text: str) -> str:
    """Returns a path, or a whole URL where a host without a scheme stands before it."""
    target = _whole(text)
    return target if target.startswith(("/", "http:", "https:", "*", "-")) else f"http://{target}"


def _of_iis(path: str) -> str:
    """Escapes a path that IIS has decoded, so that it is not decoded again."""
    return path.replace("%", "%25")


def _once(path: str) -> str:
    """Undoes the log's own percent-encoding of percent signs."""
    return _TWICE.sub("%", path)


def _text(text: str) -> str:
    """Undoes how blanks are written: in quotes, as percent escapes, once or twice, or as a plus."""
    if text.startswith('"'):
        return text[1:-1].replace('""', '"')
    if "%" in text:
        text = unquote(_TWICE.sub("%", text))
    return text if " " in text else text.replace("+", " ")
