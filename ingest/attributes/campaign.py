"""Where a link was published: its source and campaign, from the hit's fields or the link's query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final
from urllib.parse import parse_qsl

from clickcurve.buckets.errors import HitRejected
from ingest.attributes.text import text_of

SOURCE_BYTES = 64
SOURCE_RULE = f"1 to {SOURCE_BYTES} bytes"
UTM = ("source", "medium", "campaign")
CAMPAIGN_FIELDS: Final = frozenset(("source", "utm"))
UTM_BYTES = 2_048  # a longer one is cut first; of each the first bytes are kept
UTM_RULE = f"an object of the strings {', '.join(UTM)}, each at most {UTM_BYTES:,} bytes"
_QUERY_FIELDS = 100
# Where no `source` is named, a query's first of these is it; a QR code is `qr` whatever its value is.
_SOURCE_NAMES = ("source", "src")
_QR = "qr"


def source_of(value: object) -> str:
    """Returns the field `source` of a hit; raises HitRejected if the value is not valid."""
    return text_of(value, "source", SOURCE_RULE, SOURCE_BYTES)


def utm_of(value: object) -> dict[str, str]:
    """Returns the fields of the object `utm` of a hit by name; raises HitRejected if it is not valid."""
    if not isinstance(value, Mapping):
        raise HitRejected("utm must be an object", field="utm", value=value, rule=UTM_RULE)
    return {
        name: text_of(value[name], f"utm.{name}", UTM_RULE, UTM_BYTES) for name in UTM if value.get(name) is not None
    }


def campaign_of_query(query: str, fields: frozenset[str] = CAMPAIGN_FIELDS) -> tuple[str, dict[str, str]]:
    """Returns the source and the campaign that the query of a link names; "" and {} where it names none.

    fields: what is asked for; the other one is not looked for.
    """
    if _naming(fields).search(query) is None:
        return "", {}
    try:
        given = dict(reversed(parse_qsl(query, keep_blank_values=True, max_num_fields=_QUERY_FIELDS)))
    except ValueError:
        return "", {}  # more fields than anybody names a campaign with
    utm = {name: value for name in UTM if (value := given.get(f"utm_{name}"))} if "utm" in fields else {}
    if "source" not in fields:
        return "", utm
    source = next((value for name in _SOURCE_NAMES if (value := given.get(name))), "")
    return source or (_QR if _QR in given and given[_QR] != "0" else ""), utm


@cache
def _naming(fields: frozenset[str]) -> re.Pattern[str]:
    """Returns what finds a name of these fields in a query, or one that is written with `%`: most queries have none."""
    of_utm = [f"utm_{name}" for name in UTM] if "utm" in fields else []
    names = "|".join([*of_utm, *((*_SOURCE_NAMES, _QR) if "source" in fields else ())])
    return re.compile(rf"(?:\A|&)(?:(?:{names})(?:[=&]|\Z)|[^=&%]*+%)" if names else r"(?!)")
