"""What an operator's own format says: nginx's `log_format` or Apache's `LogFormat`, read into the pieces of a format.

    $remote_addr [$time_local] "$request" $status "$http_x_forwarded_for"      nginx
    %h %t "%r" %>s "%{X-Forwarded-For}i"                                       Apache

A whole directive may be given, too. Names are those of the documentation of nginx (ngx_http_core_module and
ngx_http_log_module) and of Apache (mod_log_config); every other one is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import groupby, pairwise

from clickcurve.buckets.errors import SettingInvalid
from clickcurve.times import WrittenTime
from ingest.imports.logs.text_format import TIMES, Field, Pattern, Piece, TextFormat, compile_format
from ingest.imports.logs.times import in_zone

OWN = "the given format"
_OWN_TIME = "strftime"  # the role of a time in a format of its own, which is the name of its field

RULE = "nginx's log_format or Apache's LogFormat, with a time, a status and a request"

# Of several names with one role the first one here counts: what nginx or Apache itself took for the client, before what
# a header says.
_NGINX: Mapping[str, Sequence[str]] = {
    "client": (
        "remote_addr",
        "http_cf_connecting_ip",
        "http_x_real_ip",
        "proxy_add_x_forwarded_for",
        "http_x_forwarded_for",
    ),
    "clf": ("time_local",),
    "iso": ("time_iso8601",),
    "epoch": ("msec",),
    "request": ("request",),
    "method": ("request_method",),
    "path": ("request_uri", "uri", "document_uri"),
    "query": ("args", "query_string"),
    "status": ("status",),
    "referrer": ("http_referer",),
    "agent": ("http_user_agent",),
    "host": ("host", "http_host", "server_name"),
    "scheme": ("scheme", "https", "server_port"),
}
_APACHE: Mapping[str, Sequence[str]] = {
    "client": ("a", "h", "{cf-connecting-ip}i", "{x-real-ip}i", "{x-forwarded-for}i"),
    "clf": ("t",),
    "epoch": ("{sec}t", "{msec}t", "{usec}t"),
    "request": ("r",),
    "method": ("m",),
    "path": ("U",),
    "query": ("q",),
    "status": (">s", "s"),
    "referrer": ("{referer}i", "{referrer}i"),
    "agent": ("{user-agent}i",),
    "host": ("{host}i", "V", "v"),
    "scheme": ("{request_scheme}e", "p"),
}
_DIRECTIVE = re.compile(r"\s*(?:log_format|LogFormat)\s+(.*)", re.DOTALL)
_STRING = re.compile(r"'((?:[^'\\]|\\.)*+)'|\"((?:[^\"\\]|\\.)*+)\"", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_PERCENT = re.compile(r"%[!0-9,]*+([<>]?)(?:\{([^}]*+)\})?(\^t[io]|[A-Za-z%])")
_TIME_LETTER = re.compile(r"%([A-Za-z%])")
_DIGITS = "[0-9]{2}"
# What Apache hands to strftime, and strptime reads again.
_STRFTIME: Mapping[str, str] = {
    **dict.fromkeys("mdHMyIj", _DIGITS),
    "j": "[0-9]{3}",
    "Y": "[0-9]{4}",
    "S": "[0-6][0-9]",
    "b": "[A-Za-z]{3}",
    "p": "[AP]M",
    "z": "[+-][0-9]{4}",
}
_SHORT = {"%T": "%H:%M:%S", "%F": "%Y-%m-%d", "%R": "%H:%M", "%D": "%m/%d/%y", "%h": "%b"}


def own_format(text: str, client: str = "") -> TextFormat:
    """Returns the format that a text describes; raises SettingInvalid. client: the name of the client's field."""
    written = _format_in(text)
    if _VARIABLE.search(written):
        pieces = nginx_pieces(written, client)
    elif "%" in written:
        pieces = _with_roles(_apache_pieces(written), _APACHE, client)
    else:
        raise _invalid(text, "has neither $names nor %letters")
    roles = {piece.role for piece in pieces if isinstance(piece, Field)}
    wanted = {"a time": {*TIMES, _OWN_TIME}, "a status": {"status"}, "a request": {"request", "path"}}
    missing = [what for what, its in wanted.items() if roles.isdisjoint(its)]
    if missing:
        raise _invalid(text, f"has no field for {' and '.join(missing)}")
    if client and "forwarded" not in roles:
        raise SettingInvalid(f"the format has no field {client}", field="client_field", value=client, rule=RULE)
    for one, other in pairwise(pieces):
        if isinstance(one, Field) and isinstance(other, Field) and one.role != "host":
            raise _invalid(text, f"has nothing between {one.name} and {other.name}")
    if _OWN_TIME in roles:
        return _with_own_time(pieces, text)
    return compile_format(OWN, pieces)


def nginx_pieces(text: str, client: str = "") -> list[Piece]:
    """Returns the pieces of a `log_format` with their roles."""
    return _with_roles(_nginx_pieces(text), _NGINX, client)


def _invalid(text: str, why: str) -> SettingInvalid:
    return SettingInvalid(f"the format {why}", field="format", value=text, rule=RULE)


def _format_in(text: str) -> str:
    """Returns the format in a whole directive, whose strings stand one after the other; else the text, unescaped."""
    directive = _DIRECTIVE.match(text)
    if directive is None:
        return text.strip("\r\n").replace('\\"', '"')
    strings = ["".join(found) for found in _STRING.findall(directive[1])]
    if text.lstrip().startswith("LogFormat"):
        strings = strings[:1]  # its nickname may be in quotes
    return "".join(re.sub(r"\\(.)", r"\1", string) for string in strings)


def _with_roles(pieces: Sequence[Piece], names: Mapping[str, Sequence[str]], client: str) -> list[Piece]:
    """Gives each role to one field that can have it, and `forwarded` to the field with the client's name."""
    present = {_known_name(piece) for piece in pieces}
    chosen = {next((name for name in its if name in present), ""): role for role, its in names.items()}
    chosen.pop("", None)  # roles that no field has
    if "request" in chosen.values():  # it says all that its parts say
        chosen = {name: role for name, role in chosen.items() if role not in ("method", "path", "query")}
    times = [name for piece in pieces if chosen.get(name := _known_name(piece)) in (*TIMES, _OWN_TIME)]
    asked = _plain_name(client)
    given: list[Piece] = []
    for piece in pieces:
        if not isinstance(piece, Field) or piece.role == _OWN_TIME:
            given.append(piece)
            continue
        name = _known_name(piece)
        role = "forwarded" if asked and _plain_name(name) == asked else chosen.get(name, "")
        chosen.pop(name, None)  # a field that stands twice is read once
        last = given[-1] if given else ""
        if isinstance(last, Field) and last.role == "path" and (role == "query" or name == "is_args"):
            chosen[name] = role  # `%U%q`, `$uri$is_args$args`: a path is read with its query
            continue
        given.append(Field("" if name in times[1:] else role, piece.name))
    return given


def _known_name(piece: Piece) -> str:
    """Returns the name of a field as the tables have it: names of headers in lower case."""
    name = piece.name if isinstance(piece, Field) else ""
    return name.lower() if name.startswith("{") else name


def _plain_name(name: str) -> str:
    """Returns one spelling of `$http_x_forwarded_for`, `%{X-Forwarded-For}i` and `X-Forwarded-For`."""
    bare = name.lower().lstrip("$%").replace("-", "_").removeprefix("http_")
    inside = re.fullmatch(r"\{([^}]*)\}[a-z]*", bare)
    return inside[1] if inside else bare


def _nginx_pieces(text: str) -> list[Piece]:
    pieces: list[Piece] = []
    at = 0
    for variable in _VARIABLE.finditer(text):
        if at < variable.start():
            pieces.append(text[at : variable.start()])
        pieces.append(Field("", variable[1] or variable[2]))
        at = variable.end()
    if at < len(text):
        pieces.append(text[at:])
    return pieces


def _apache_pieces(text: str) -> list[Piece]:
    pieces: list[Piece] = []
    at = 0
    for found in _PERCENT.finditer(text):
        pieces += [text[at : found.start()], *_apache_piece(*found.groups())]
        at = found.end()
    return _joined([*pieces, text[at:]])


def _apache_piece(which: str, argument: str | None, letter: str) -> Iterable[Piece]:
    if letter == "%":
        return ["%"]
    if letter != "t":
        name = letter if argument is None else f"{{{argument}}}{letter}"
        return [Field("", f">{name}" if which == ">" and name == "s" else name)]
    argument = re.sub("^(?:begin|end):", "", argument or "")
    if not argument:
        return ["[", Field("", "t"), "]"]
    if re.fullmatch("[mu]?sec(?:_frac)?", argument):
        return [Field("", f"{{{argument}}}t")]
    return [Field(_OWN_TIME, argument)]


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Returns the pieces with texts that follow one another made one, and without empty ones."""
    joined: list[Piece] = []
    for is_text, group in groupby(pieces, lambda piece: isinstance(piece, str)):
        if not is_text:
            joined += group
        elif text := "".join(map(str, group)):
            joined.append(text)
    return joined


def _with_own_time(pieces: Sequence[Piece], text: str) -> TextFormat:
    """Returns a format whose time strftime wrote, in one field or in two."""
    texts = [piece.name for piece in pieces if isinstance(piece, Field) and piece.role == _OWN_TIME]
    for short, long in _SHORT.items():
        texts = [own.replace(short, long) for own in texts]
    letters = set(_TIME_LETTER.findall("".join(texts)))
    if len(texts) > 2 or not letters <= {*_STRFTIME, "%"} or not {"H", "M"} <= letters:
        raise _invalid(text, f"has a time that is not read: {' '.join(texts)}")
    whole = " ".join(texts)
    own = iter(zip(("minute", "zone"), texts, strict=False))

    def pattern() -> Pattern:
        role, written = next(own)
        value = "".join(
            _STRFTIME.get(part[1], "%") if _TIME_LETTER.fullmatch(part) else re.escape(part)
            for part in re.split("(%.)", written)
        )
        return Pattern(f"({value})" + "()" * (len(texts) == 1), (role, "zone") if len(texts) == 1 else (role,))

    def seconds(begin: str, end: str, zone: tzinfo) -> int | None:
        try:
            read = datetime.strptime(f"{begin} {end}".rstrip(), whole)
        except ValueError:
            return None
        wall = int(read.replace(tzinfo=UTC).timestamp())
        offset = read.utcoffset()
        return in_zone(WrittenTime(wall, 0.0, None if offset is None else int(offset.total_seconds())), zone)

    made = [pattern() if isinstance(piece, Field) and piece.role == _OWN_TIME else piece for piece in pieces]
    return compile_format(OWN, made, minute=seconds)
