"""In which form an answer is sent: JSON, CSV or rows, by `format` or by what the caller prefers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from clickcurve.answers.counts import CurveAnswer
from clickcurve.answers.written import CSV, JSON, Tabular, as_csv, as_json
from clickcurve.csv_file import disposition
from query.parameters import ROWS, given_form

RawHeaders: TypeAlias = Iterable[tuple[bytes, bytes]]

_form_of = lru_cache(maxsize=1_000)(given_form)


class Content(NamedTuple):
    """An answer as it is sent. disposition: as a file of which name browsers keep it; empty for JSON."""

    media: str
    body: bytes
    disposition: str = ""


def written(answer: object, query: bytes, headers: RawHeaders) -> Content:
    """Writes an answer to a question whose query string was understood; headers: of the request."""
    form, csv_form, zone = _form_of(query)
    if isinstance(answer, CurveAnswer) and form == ROWS:
        return Content(JSON, as_json(answer.rows()))
    if isinstance(answer, Tabular) and (form == "csv" or (form is None and accepts_csv(headers))):
        return Content(CSV, as_csv(answer, csv_form), disposition(answer, zone))
    return Content(JSON, as_json(answer))


def accepts_csv(headers: RawHeaders) -> bool:
    """Returns whether the caller prefers CSV to JSON; in doubt, no."""
    for name, value in headers:
        if name == b"accept":
            return b"text/csv" in value.lower() and _prefers_csv(value.decode("latin-1").lower())
    return False


def _prefers_csv(accept: str) -> bool:
    """Compares by quality, equals by which stands first; a type that is named beats a `*`."""
    qualities: dict[str, float] = {}
    for part in accept.split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        qualities[media] = next((_quality(text[2:]) for text in parameters if text.startswith("q=")), 1.0)
    csv = qualities.get("text/csv", 0.0)
    json = next((qualities[media] for media in ("application/json", "application/*", "*/*") if media in qualities), 0.0)
    named = list(qualities)
    json_first = "application/json" in named and named.index("application/json") < named.index("text/csv")
    return csv > json or (csv == json > 0 and not json_first)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
