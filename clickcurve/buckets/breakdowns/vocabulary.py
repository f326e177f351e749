"""The closed vocabularies: dimensions and values that a breakdown's bytes name by a number instead of a text.

A value that is not listed is written as text, so nothing depends on these lists being complete. Bytes carry the number
of the list that they were written with: a change of any list is a new VOCABULARY beside the old ones, which stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

VOCABULARY = 1  # the one that is written

_DIMENSIONS = "ref country device source browser os lang utm_source utm_medium utm_campaign bot"
_DEVICES = "phone tablet desktop tv other"
# Families as `ua-parser` names them, gathered so that a list fits a screen.
_BROWSERS = (
    "Safari|Samsung Internet|Chrome|Firefox|Edge|Opera|Internet Explorer|UC Browser|Brave|Vivaldi|DuckDuckGo|Yandex"
    "|Android browser|Silk|Instagram|Facebook|TikTok|other"
)
_SYSTEMS = "Windows|macOS|iOS|Android|ChromeOS|Linux|HarmonyOS|KaiOS|Tizen|other"
# ISO 3166-1 alpha-2, then codes in use beside it: Kosovo, and Europe and Asia/Pacific of registries' statistics.
_COUNTRIES = """
AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD
CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF
GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN
KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA
NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI
SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI
VN VU WF WS YE YT ZA ZM ZW
XK EU AP
"""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """One version of the lists. `dimensions[code - 1]` is a dimension's name, `values[dimension][code]` a value.

    places: dimension -> a table of 256 bytes with the place of each code's value in the order of the texts.
    """

    dimensions: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    dimension_codes: Mapping[str, int] = field(init=False, repr=False)
    value_codes: Mapping[str, Mapping[str, int]] = field(init=False, repr=False)
    places: Mapping[str, bytes] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension_codes", {name: code for code, name in enumerate(self.dimensions, 1)})
        codes = {name: {value: code for code, value in enumerate(values)} for name, values in self.values.items()}
        object.__setattr__(self, "value_codes", codes)
        places = {name: {value: place for place, value in enumerate(sorted(known))} for name, known in codes.items()}
        tables = {name: bytes([places[name][value] for value in values]) for name, values in self.values.items()}
        object.__setattr__(self, "places", {name: table.ljust(256, b"\0") for name, table in tables.items()})


VOCABULARIES: Mapping[int, Vocabulary] = {
    1: Vocabulary(
        tuple(_DIMENSIONS.split()),
        {
            "country": ("", *_COUNTRIES.split()),
            "device": ("", *_DEVICES.split()),
            "browser": ("", *_BROWSERS.split("|")),
            "os": ("", *_SYSTEMS.split("|")),
        },
    ),
}
