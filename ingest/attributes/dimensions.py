"""The dimensions of a breakdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clickcurve.buckets.breakdowns.check import BOT, BOT_KIND
from clickcurve.buckets.errors import SettingInvalid

TAG: Final = "tag."
CHANNEL: Final = "channel"
TAG_BYTES = 100
DIMENSIONS: Final = (
    "ref",
    "country",
    "device",
    "source",
    "browser",
    "os",
    "lang",
    "utm_source",
    "utm_medium",
    "utm_campaign",
    CHANNEL,
    BOT,
    BOT_KIND,
)
DIMENSION_RULE = f"{', '.join(DIMENSIONS)}, tag.NAME"


def dimensions_of(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the dimensions of the setting; raises SettingInvalid for an unknown name or a repeated one."""
    for name in names:
        if name not in DIMENSIONS and not (name.startswith(TAG) and 0 < len(name.removeprefix(TAG)) <= TAG_BYTES):
            raise SettingInvalid(f"{name} is not a dimension", field="dimensions", value=name, rule=DIMENSION_RULE)
    if len(set(names)) < len(names):
        raise SettingInvalid("a dimension is named twice", field="dimensions", value=", ".join(names))
    return tuple(names)
