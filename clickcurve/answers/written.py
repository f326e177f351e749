"""How an answer is written: JSON, CSV and problem documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from functools import partial
from operator import attrgetter
from typing import Annotated, ClassVar, Final, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType


class Tabular(Struct, frozen=True):
    """An answer that can be CSV: a line for each item of its LIST, under the names of the item's fields."""

    COLUMNS: ClassVar[Sequence[str]]
    LIST: ClassVar[str]

    def columns(self) -> Sequence[str]:
        """Returns the names of the columns."""
        return self.COLUMNS

    def lines(self) -> Iterable[Sequence[object]]:
        """Returns the values of each line."""
        return map(attrgetter(*self.columns()), getattr(self, self.LIST))


class Problem(Struct, frozen=True, omit_defaults=True):
    """Why a request is refused; clickcurve.problem writes it."""

    title: str
    status: int
    detail: Annotated[str, Meta(description="what is wrong, in a sentence")]
    field: Annotated[str | UnsetType, Meta(description="what is to blame, where it is one thing")] = UNSET
    value: Annotated[object, Meta(description="what was given for it")] = UNSET
    rule: Annotated[str | UnsetType, Meta(description="the rule that it breaks")] = UNSET


JSON, CSV = "application/json", "text/csv; charset=utf-8"

as_json = msgspec.json.Encoder().encode  # of an answer, or a list of rows


class CsvForm(NamedTuple):
    """How CSV is written. times_in: times are ISO 8601 in this zone, else epoch seconds.

    raw: texts stay as they are, for programs. bom: a byte order mark, by which Excel knows UTF-8.
    """

    times_in: tzinfo | None = None
    raw: bool = False
    bom: bool = False


PLAIN_CSV: Final = CsvForm()


def as_csv(answer: Tabular, form: CsvForm = PLAIN_CSV) -> bytes:
    """Returns a line of names, and one for each line of the answer."""
    zone = form.times_in
    lines = answer.lines()
    times = [place for place, name in enumerate(answer.columns()) if name in _TIMES]
    if zone is not None and times:
        lines = (_with_moments(line, times, zone) for line in lines)
    quoted = partial(_csv_field, form.raw)
    written = [",".join(map(quoted, line)) for line in (answer.columns(), *lines)]
    return (BOM if form.bom else b"") + ("\n".join(written) + "\n").encode()


def _with_moments(line: Sequence[object], times: Sequence[int], zone: tzinfo) -> Sequence[object]:
    values = list(line)
    for place in times:
        t = values[place]
        assert isinstance(t, int)
        values[place] = datetime.fromtimestamp(t, zone).isoformat()
    return values


_TIMES = ("start", "end")  # columns that are times
_TO_QUOTE = re.compile(r'[,"\r\n]')


BOM = b"\xef\xbb\xbf"
# With these signs begins what spreadsheets run as a formula (OWASP, "CSV Injection").
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def without_formula(text: str) -> str:
    """Returns a text that no spreadsheet takes for a formula: a stranger may have written it."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv_field(raw: bool, value: object) -> str:
    """Quotes one field as RFC 4180 says. raw: a text that begins as a formula stays as it is."""
    if isinstance(value, int):
        return str(value)
    text = "" if value is None else str(value)
    if not raw:
        text = without_formula(text)
    return '"' + text.replace('"', '""') + '"' if _TO_QUOTE.search(text) else text
