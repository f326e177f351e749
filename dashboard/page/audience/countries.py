"""Countries on a page: their names, their flags, and the map, whose outlines are a file that browsers keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from clickcurve.answers.breakdowns import ValueAnswer
from dashboard.page.audience.country_names import COUNTRY_NAMES
from dashboard.page.changes import Count, count_of
from dashboard.page.view import PageView

COUNTRY = "country"  # the dimension
MOST = 250  # more than there are
_FLAG = ord("\N{REGIONAL INDICATOR SYMBOL LETTER A}") - ord("A")
_PALEST = 0.15  # of a country with hits


@dataclass(frozen=True, slots=True)
class MapCountry:
    """A country with hits. code: its id in the file of outlines; shade: 0 to 1; address: the view of its hits."""

    code: str
    name: str
    count: Count
    shade: float
    address: str


def flag_of(code: str) -> str:
    """Returns the flag of a country as text, empty for what is none."""
    return "".join(chr(ord(letter) + _FLAG) for letter in code) if code in COUNTRY_NAMES else ""


def countries_on_map(values: Sequence[ValueAnswer], view: PageView) -> list[MapCountry]:
    """Returns the countries among values: half the hits of the first have seven tenths of its shade."""
    countries = [each for each in values if each.value in COUNTRY_NAMES and each.at_least]
    most = max((each.at_least for each in countries), default=1)
    return [
        MapCountry(
            each.value,
            COUNTRY_NAMES[each.value],
            count_of(each.at_least, each.at_most),
            _PALEST + (1 - _PALEST) * sqrt(each.at_least / most),
            view.filtered(COUNTRY, each.value),
        )
        for each in countries
    ]
