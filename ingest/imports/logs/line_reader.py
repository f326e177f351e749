"""Recognises the format of a line, and reads it: of a file's line, or of one that comes by itself.

What a line looks like decides: `{` begins JSON, `#Fields:` names the columns of the lines below it, and of the other
formats each has signs in places where no other has them. The format that the line before had is tried first.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, tzinfo

import msgspec

from clickcurve.buckets.errors import SettingInvalid
from ingest.imports.logs.combined import COMBINED_FORMAT, WITH_BEHIND, fields_of
from ingest.imports.logs.front import NO_TEXT, client_of
from ingest.imports.logs.json_line import CADDY, NOT_JSON, OTHER, TRAEFIK, read_json
from ingest.imports.logs.log_format import OWN
from ingest.imports.logs.logged_request import LineBad, LoggedRequest
from ingest.imports.logs.named_formats import NAMED_FORMATS
from ingest.imports.logs.text_format import TextFormat
from ingest.imports.logs.w3c import DIRECTIVE, W3C, Columns, columns_of, kept_columns, w3c_format

LAST = "last"
WITH_NAMES = (W3C, CADDY, TRAEFIK, OTHER, OWN)  # formats whose fields have names
NOT_OURS = "not a line of an access log"
_WRAPPED = msgspec.json.Decoder(dict[str, object])


class NoRequest(str):
    """Why a line that is not bad tells of no request."""


@dataclass(frozen=True, slots=True)
class ClientField:
    """Where the client is, if a proxy's address stands where the client's usually does.

    place: of the fields behind those that a format knows, from 1 on; -1 for the last; 0 for a field with a name.
    """

    name: str = ""
    place: int = 0

    def of_behind(self, behind: str) -> str:
        """Returns the field behind the known ones; "" if there is none."""
        fields = fields_of(behind) if self.place and behind else []
        place = self.place - 1 if self.place > 0 else -1
        return fields[place] if -len(fields) <= place < len(fields) else ""


NO_FIELD = ClientField()
_PLACE = re.compile("[0-9]{1,3}")


def client_field(text: str) -> ClientField:
    """Reads the number of a field, `last`, or a field's name; raises SettingInvalid for field 0."""
    if text == LAST:
        return ClientField(place=-1)
    if not _PLACE.fullmatch(text):
        return ClientField(text)
    if not int(text):
        rule = f"1 or more, {LAST}, or the name of a field"
        raise SettingInvalid("fields are counted from 1", field="client_field", value=text, rule=rule)
    return ClientField(place=int(text))


class LineReader:
    """Reads lines one after the other. zone: of times that name none. own: the only format, if the operator names it.

    format: cuts columns of many lines, until another one is recognised.
    """

    def __init__(
        self,
        zone: tzinfo = UTC,
        own: TextFormat | None = None,
        client: ClientField = NO_FIELD,
    ) -> None:
        self.zone, self.client = zone, client
        self._own = own
        self._combined = COMBINED_FORMAT
        self._columns: Columns | None = None
        self._of_columns: tuple[TextFormat, ...] = ()  # of the lines that these name, if they are complete
        self.format = own or self._combined

    def use_behind(self) -> None:
        """Cuts columns with what is behind the known fields, for a host or a client that stands there."""
        if self.format is self._combined:
            self.format = WITH_BEHIND
        self._combined = WITH_BEHIND

    # --- what the lines before have said ------------------------------------------------------------------------------
    @property
    def kept(self) -> str:
        """What of the lines before is needed to read the next one, in at most 60 signs: the columns of a W3C log."""
        return self._columns.kept if self._columns is not None else ""

    def begin(self, kept: str = "") -> None:
        """Begins a source, or goes on within it, with what was kept then."""
        self._columns, self._of_columns = None, ()
        self.format = self._own or self._combined
        if columns := kept_columns(kept):
            self._use_columns(columns)

    def _use_columns(self, columns: Columns) -> None:
        self._columns, self._of_columns = columns, ()
        if columns.is_complete and self._own is None:
            self.format = w3c_format(columns)
            self._of_columns = (self.format,)

    # --- lines --------------------------------------------------------------------------------------------------------
    def expect(self, line: str) -> None:
        """Recognises the format of the next lines by the first of them."""
        match = self.format.many.match(line)
        if match is None or match.lastindex is None:
            with suppress(LineBad):  # it is told when it is read
                self.read(line)

    def read(self, line: str) -> LoggedRequest | NoRequest:
        """Reads one line; raises LineBad."""
        line = line.removesuffix("\r").lstrip(NO_TEXT)
        if not line or line.isspace():
            return NoRequest("blank line")
        request = self._own_line(line) if self._own is not None else self._any_line(line)
        if isinstance(request, NoRequest) or not self.client.place:
            return request
        behind = self.client.of_behind(request.behind)
        return request._replace(client=behind) if client_of(behind) is not None else request

    def _own_line(self, line: str) -> LoggedRequest:
        assert self._own is not None
        request = self._own.read(line, self.zone)
        if request is None:
            raise LineBad(f"not a line of {self._own.name}")
        return request

    def _any_line(self, line: str) -> LoggedRequest | NoRequest:
        if line.startswith("{"):
            return self._json_line(line)
        if line.startswith(DIRECTIVE):
            return self._directive(line)
        if request := self.format.read(line, self.zone):
            return request
        for format_ in (self._combined, *NAMED_FORMATS, *self._of_columns):
            if format_ is not self.format and (request := format_.read(line, self.zone)):
                self.format = format_
                return request
        if line.endswith("}") and " {" in line:  # behind what syslog or a container's runtime writes
            return self._json_line(line[line.index(" {") + 1 :])
        raise LineBad(NOT_OURS)

    def _directive(self, line: str) -> NoRequest:
        columns = columns_of(line, self.client.name)
        if columns is not None:
            self._use_columns(columns)
            if not columns.is_complete:
                raise LineBad("these columns have no date and time, path or status")
        return NoRequest("comment")

    def _json_line(self, line: str) -> LoggedRequest | NoRequest:
        if line.startswith('{"log":'):  # Docker's file of a container
            wrapped = _unwrapped(line)
            if wrapped is not None:
                return self.read(wrapped)
        return read_json(line, self.zone, self.client.name) or NoRequest("not a request")


def _unwrapped(line: str) -> str | None:
    """Returns the line that Docker's driver json-file has wrapped; None if it is another object."""
    try:
        fields = _WRAPPED.decode(line)
    except NOT_JSON:
        return None
    log = fields.get("log")
    return log.rstrip("\n") if isinstance(log, str) and not log.startswith('{"log":') else None


def looks_like(line: str) -> str:
    """Says what a line looks like that no format reads: for a person who has imported another kind of file."""
    text = line.lstrip(NO_TEXT).strip()
    if "\0" in line:
        return "text of two bytes a sign (UTF-16): save it as UTF-8" if line.count("\0") > len(line) // 3 else "no text"
    with suppress(*NOT_JSON):
        fields = msgspec.json.decode(text)
        names = ", ".join(list(fields)[:12]) if isinstance(fields, dict) else ""
        return f"JSON with the fields {names}" if names else "JSON that is no object"
    if text.startswith("{"):
        return "JSON that is cut, or over several lines"
    if text.startswith("<"):
        return "a page or XML"
    if "[error]" in text or "[notice]" in text or "[warn]" in text:
        return "a line of an error log"
    if any(not sign.isprintable() and sign != "\t" for sign in text[:200]):
        return "no text: a packed or a binary file"
    for sign, kind in (
        (";", "CSV with ;"),
        (",", "CSV"),
        ("\t", "columns apart by tabs, without a line #Fields: above them"),
    ):
        if text.count(sign) >= 4 and '"' not in text.replace(f'{sign}"', "").replace(f'"{sign}', "").strip('"'):
            return kind
    return "a format of its own: name it by --format, as nginx's log_format or Apache's LogFormat"
