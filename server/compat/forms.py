"""Parameters of a request as other programs send them: in the query string, in a form, or in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

from fastapi import Request

from clickcurve.asgi import read_bounded
from clickcurve.buckets.errors import MediaTypeUnsupported, ParameterInvalid

FORM_BYTES = 128 << 10  # to decode as many percent signs as fit takes 10 ms
_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 2_000


class Form:
    """The values of each name, those of the query string first."""

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    def all(self, name: str) -> Sequence[str]:
        return self._values.get(name, ())

    def get(self, name: str, default: str = "") -> str:
        """Returns the last value of a name, as most programs read them."""
        return self._values[name][-1] if name in self._values else default

    def required(self, name: str) -> str:
        value = self.get(name)
        if not value:
            raise ParameterInvalid(f"{name} is missing", field=name, rule="not empty")
        return value

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Returns a whole number in these bounds; the default if it is not given."""
        text = self.get(name) or str(default)
        if not (text.isascii() and text.isdigit() and len(text) <= 12 and least <= int(text) <= most):
            rule = f"a whole number from {least} to {most}"
            raise ParameterInvalid(f"{name} {text!r} is not allowed", field=name, value=text, rule=rule)
        return int(text)


async def read_form(request: Request) -> Form:
    """Reads the query string and, of a POST, the form in the body."""
    query = request.scope["query_string"]
    parameters = _values_in(query)
    if request.method == "POST":
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = await read_bounded(request.stream(), FORM_BYTES)
        if body and media not in (_FORM, ""):
            raise MediaTypeUnsupported(
                f"the body's type {media} is not a form", field="Content-Type", value=media, rule=_FORM
            )
        for name, values in _values_in(body).items():
            parameters.setdefault(name, []).extend(values)
    return Form(parameters)


def _values_in(text: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except (UnicodeDecodeError, ValueError) as error:
        detail = f"the parameters cannot be read: {error}"
        raise ParameterInvalid(detail, field="query", rule="percent-encoded UTF-8, name=value") from None
