"""The attributes in an export: of visits, as fields of a hit, and of an hour's sums.

Of a referrer the site is kept, and of an address nothing. What a field of a hit may not hold is left out, since exports
hold whatever clients sent. The same export gives the same fields, whatever the server divides hits by: so its source is
known again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from ingest.agents.reader import OTHER
from ingest.attributes.referrer import former_site_of
from ingest.attributes.text import utf8_text
from ingest.imports.products.tables import whole_count

Fields: TypeAlias = tuple[tuple[str, str], ...]
HourValues: TypeAlias = tuple[tuple[str, Mapping[str, int], int], ...]  # dimension, values, hits of unknown values

_NO_REFERRERS = ("direct", "unknown")
_BROWSERS = {
    "br_chrome": "Chrome",
    "br_edge": "Edge",
    "br_firefox": "Firefox",
    "br_ie": "Internet Explorer",
    "br_opera": "Opera",
    "br_safari": "Safari",
    "br_other": OTHER,
}
_SYSTEMS = {
    "os_android": "Android",
    "os_ios": "iOS",
    "os_linux": "Linux",
    "os_macos": "macOS",
    "os_windows": "Windows",
    "os_other": OTHER,
}


def visit_fields(bot: bool, agent: object, referrer: object, country: object = None) -> Fields:
    """Returns the attributes of a visit as fields of a hit; of a bot only the agent."""
    texts = {"ua": _agent(agent)}
    if not bot:
        texts |= {"ref": _host(referrer), "country": _country(country)}
    return tuple((name, text) for name, text in texts.items() if text)


def hour_values(row: Mapping[str, str], total: int) -> HourValues:
    """Returns the values of an hour of Kutt's table of visits by dimension: they may not cover all hits.

    Kutt writes `null` where a value came later in an hour than the first one. So what the values do not add up to is of
    unknown values; a dimension that has more hits than the hour is left out.
    """
    by_dimension = {
        "ref": _counts_in(row.get("referrers"), lambda name: _host(name.replace("[dot]", "."))),
        "country": _counts_in(row.get("countries"), _country),
        "browser": _column_counts(row, _BROWSERS),
        "os": _column_counts(row, _SYSTEMS),
    }
    dimensions = []
    for dimension, values in by_dimension.items():
        missing = total - sum(values.values())
        if values and missing >= 0:
            dimensions.append((dimension, values, missing))
    return tuple(dimensions)


def _agent(text: object) -> str:
    return utf8_text(text) if isinstance(text, str) and text.strip() not in ("", "-") else ""


def _host(referrer: object) -> str:
    if not isinstance(referrer, str) or referrer.lower() in _NO_REFERRERS:
        return ""
    # Whatever the settings say: an export that was imported is known again by the lines that are made of it.
    return former_site_of(utf8_text(referrer))


def _country(text: object) -> str:
    code = text.strip() if isinstance(text, str) else ""
    return code.upper() if len(code) == 2 and code.isascii() and code.isalpha() else ""


def _counts_in(text: str | None, value_of: Callable[[str], str]) -> dict[str, int]:
    """Returns the counts of a JSON object in a cell, summed by what its names stand for."""
    try:
        decoded = msgspec.json.decode((text or "{}").encode("utf-8", "replace"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    sums: Counter[str] = Counter()
    for name, count in decoded.items() if isinstance(decoded, dict) else ():
        if number := whole_count(count):
            sums[value_of(name)] += number
    return dict(sums)


def _column_counts(row: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, int]:
    return {name: number for column, name in columns.items() if (number := whole_count(row.get(column)))}
