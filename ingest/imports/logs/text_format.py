"""A format of text lines: one pattern that cuts lines into columns, of many lines at once or of one.

A format is a list of pieces: literal text, fields with their roles, and patterns. What a stranger can put into a field
never reaches the next one: a quoted value ends at a quote that no backslash precedes, a word at the sign behind it, and
any other value at the first place where the whole literal text behind it stands. Nothing is tried twice, so a line
takes time in proportion to its length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import NamedTuple, TypeAlias

from clickcurve.access_log import split_request, unescape
from ingest.imports.logs.front import client_of
from ingest.imports.logs.logged_request import LineBad, LoggedRequest, no_dash
from ingest.imports.logs.times import CLF, EPOCH, ISO, TimeShape

TIMES: Mapping[str, TimeShape] = {"clf": CLF, "iso": ISO, "epoch": EPOCH}
# What names a scheme: itself, the type of a balancer's line, a port, nginx's $https.
SCHEMES: Mapping[str, str] = {
    "http": "http",
    "ws": "http",
    "80": "http",
    "https": "https",
    "h2": "https",
    "wss": "https",
    "grpcs": "https",
    "443": "https",
    "on": "https",
}
_QUOTED = r'[^"\\\n]*+(?:\\.[^"\\\n]*+)*+'
STATUS = "[0-9]{3}|-1?|0"
NO_STATUS = ("-", "-1", "0")  # of what is no HTTP, and of requests that had no answer
_VERSION = r"(?: HTTP/[0-9](?:\.[0-9])?+)?+"
_ESCAPE = "\\"


class Field(NamedTuple):
    """A value in a line. role: what it says; "" for one that is passed over. name: as the format calls it."""

    role: str
    name: str = ""


class Pattern(NamedTuple):
    """A part of a line that is no single value; with a group for each of its roles."""

    text: str
    roles: tuple[str, ...] = ()


Piece: TypeAlias = str | Field | Pattern


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How lines of one format are read.

    many: with MULTILINE, finds the columns of many lines; all are empty for a line that is to be read alone.
    roles: what each group of it is. when: the two roles that make the time; minute: epoch seconds of their texts.
    read: one line; None if it is of another format; raises LineBad. mark: where a piece of a log holds it, `path`,
    `query` and `text` undo the format's own way of writing these, and agents and referrers.
    """

    name: str
    many: re.Pattern[str]
    roles: tuple[str, ...]
    minute: Callable[[str, str, tzinfo], int | None]
    read: Callable[[str, tzinfo], LoggedRequest | None]
    when: tuple[str, str] = ("minute", "zone")
    mark: str = ""
    path: Callable[[str], str] = str
    query: Callable[[str], str] = str
    text: Callable[[str], str] = str


def compile_format(
    name: str,
    pieces: Sequence[Piece],
    when: tuple[str, str] = ("minute", "zone"),
    minute: Callable[[str, str, tzinfo], int | None] | None = None,
    mark: str = _ESCAPE,
    path: Callable[[str], str] = unescape,
    query: Callable[[str], str] = unescape,
    text: Callable[[str], str] = unescape,
) -> TextFormat:
    """Makes a format of its pieces: a time, a status, a request, and others; more fields may follow.

    when, minute: of a time that is no field of TIMES.
    """
    pattern, roles = _pattern(pieces)
    many = re.compile(f"^(?:{pattern}(?:[ \t](.*+)|\r)?+|.*+)$", re.MULTILINE)
    roles = (*roles, "behind")
    if minute is None:
        minute = next(TIMES[piece.role].read for piece in pieces if isinstance(piece, Field) and piece.role in TIMES)
    reading = minute

    def read(line: str, zone: tzinfo) -> LoggedRequest | None:
        match = many.fullmatch(line)
        if match is None or match.lastindex is None:
            return None
        said = {role: group or "" for role, group in zip(roles, match.groups(), strict=True)}
        at = reading(said[when[0]], said[when[1]], zone)
        if at is None:
            raise LineBad(f"not a valid time: {said[when[0]]} {said[when[1]]}".rstrip())
        at += min(int(said.get("second") or 0), 59)  # a leap second is part of the minute that it ends
        method, target = _asked(said, path, query)
        return _request(name, said, method, target, at, text)

    return TextFormat(name, many, roles, minute, read, when, mark, path, query, text)


def _asked(said: Mapping[str, str], path: Callable[[str], str], query: Callable[[str], str]) -> tuple[str, str]:
    """Returns the method and the target of a request."""
    if said.get("odd"):
        return split_request(said["odd"])
    method, asked = said.get("method", "GET"), said.get("path", "")
    if "request" in said:
        method, _, asked = said["request"].partition(" ")
    args = no_dash(said.get("query", ""))
    return method, f"{path(asked)}?{query(args)}" if args else path(asked)


def _request(
    name: str, said: Mapping[str, str], method: str, target: str, at: int, text: Callable[[str], str]
) -> LoggedRequest:
    forwarded = said.get("forwarded", "")
    return LoggedRequest(
        method,
        target,
        at,
        status_of(said["status"]),
        no_dash(said.get("host", "")),
        forwarded if client_of(forwarded) is not None else said.get("client", ""),
        text(said.get("referrer", "")),
        text(said.get("agent", "")),
        SCHEMES.get(said.get("scheme", ""), ""),
        name,
        said["behind"],
    )


def status_of(text: str) -> str:
    """Returns a status in three digits; 000 where there was no answer."""
    return "000" if text in NO_STATUS else text


# --- the pattern ------------------------------------------------------------------------------------------------------
def _pattern(pieces: Sequence[Piece]) -> tuple[str, tuple[str, ...]]:
    """Returns the pattern of a line, and the roles of its groups."""
    parts: list[str] = []
    roles: list[str] = []
    taken = ""  # of the literal text that comes, by the value before it
    for place, piece in enumerate(pieces):
        if isinstance(piece, str):
            parts.append(re.escape(piece.removeprefix(taken)))
        elif isinstance(piece, Pattern):
            parts.append(piece.text)
            roles += piece.roles
        else:
            before, after = _literal(pieces, place - 1), _literal(pieces, place + 1)
            text, its, taken = _value(piece.role, before, after, _sign(pieces, place + 2))
            parts.append(text)
            roles += its
            continue
        taken = ""
    return "".join(parts), tuple(roles)


def _literal(pieces: Sequence[Piece], place: int) -> str:
    piece = pieces[place] if 0 <= place < len(pieces) else ""
    return piece if isinstance(piece, str) else ""


def _sign(pieces: Sequence[Piece], place: int) -> str:
    """Returns how the end of a value is known by more than its text: by a time behind that."""
    piece = pieces[place] if place < len(pieces) else ""
    return f"(?={TIMES[piece.role].minute})" if isinstance(piece, Field) and piece.role in TIMES else ""


def _value(role: str, before: str, after: str, sign: str) -> tuple[str, tuple[str, ...], str]:
    """Returns the pattern of a value, the roles of its groups, and what it takes of the text behind it."""
    if role in TIMES:
        shape = TIMES[role]
        return f"({shape.minute}){shape.second}({shape.zone})", ("minute", "second", "zone"), ""
    quoted = before.endswith('"') and after.startswith('"')
    ends = re.escape('"\\' if quoted else after[:1].strip() or "/" * (role == "host"))
    word = rf"[^{ends}{'' if quoted else ' '}\r\n]"
    if role == "request":
        plain = rf"([^{ends} \r\n]*+ [^{ends} ?\r\n]++)(?:\?([^{ends} \r\n]*+))?+"
        odd = f"({_QUOTED})" if quoted else "()"
        return f"(?:{plain}{_VERSION}(?={re.escape(after[:1])})|{odd})", ("request", "query", "odd"), ""
    if role == "path":
        path = r'[^"\\?\n]*+(?:\\.[^"\\?\n]*+)*+' if quoted else rf"[^{ends} ?\r\n]*+"
        return rf"({path})(?:\?({_QUOTED if quoted else f'{word}*+'}))?+", ("path", "query"), ""
    if role == "status":
        return f"({STATUS})", ("status",), ""
    group, its = ("(%s)", (role,)) if role else ("%s", ())
    if quoted:
        return group % _QUOTED, its, ""
    if not after:
        return group % (".*+" if role == "agent" else f"{word}*+"), its, ""
    if len(after) == 1:
        return group % f"{word}*+", its, ""
    return f"(?>{group % '.*?'}{re.escape(after)}{sign})", its, after
