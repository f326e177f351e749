"""Times as logs write them: to the minute for many lines, to the second for one.

Times without a zone are of the zone that is given, UTC without one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple

from clickcurve.access_log import stamp_seconds
from clickcurve.buckets.ladder import END_OF_TIME
from clickcurve.times import WrittenTime, parse_iso

_UNITS = (1, 1_000, 1_000_000, 1_000_000_000)  # seconds, milliseconds, microseconds, nanoseconds


class TimeShape(NamedTuple):
    """How a time stands in a line: patterns of what is the same for many lines, of the second (a group), of the zone.

    read: epoch seconds of the first and the last, 0 <= t < END_OF_TIME; None if there is no such time.
    """

    minute: str
    second: str
    zone: str
    read: Callable[[str, str, tzinfo], int | None]


def in_zone(written: WrittenTime | None, zone: tzinfo) -> int | None:
    """Returns epoch seconds, in the zone if the time names no offset; None if out of range.

    Of an hour that comes twice the first is meant.
    """
    if written is None:
        return None
    at = written.utc_s
    if written.offset_s is None and zone is not UTC:
        try:
            at = int(datetime.fromtimestamp(written.wall_s, UTC).replace(tzinfo=zone).timestamp())
        except (ValueError, OverflowError, OSError):
            return None
    return at if 0 <= at < END_OF_TIME else None


@lru_cache(4096)
def iso_in_zone(text: str, zone: tzinfo) -> int | None:
    """Returns the epoch seconds of a time of ISO 8601; also with slashes in the date, as Caddy writes it."""
    return in_zone(parse_iso(text.replace("/", "-")), zone)


def epoch_second(when: float) -> int | None:
    """Returns the second of a number of seconds, milliseconds, microseconds or nanoseconds."""
    for unit in _UNITS:
        if 0 <= when / unit < 100_000_000_000:
            return int(when / unit)
    return None


def _of_clf(minute: str, offset: str, zone: tzinfo) -> int | None:
    at = stamp_seconds(f"[{minute}:00{offset or ' +0000'}] ")
    return at if at is None or offset else in_zone(WrittenTime(at, 0.0, None), zone)


def _of_iso(minute: str, offset: str, zone: tzinfo) -> int | None:
    return iso_in_zone(minute + offset, zone)


def _of_epoch(second: str, _: str, zone: tzinfo) -> int | None:
    return epoch_second(int(second)) if 0 < len(second) < 20 else None


_FRACTION = "(?:[.,][0-9]++)?+"
# 17/May/2015:10:05:03 +0000, as the common format has it; 06/Feb/2009:12:14:14.655 without a zone, as HAProxy.
CLF = TimeShape(
    "[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9]{2}:[0-9]{2}", f":([0-6][0-9]){_FRACTION}", "(?: [+-][0-9]{4})?+", _of_clf
)
ISO = TimeShape(
    "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}",
    f":([0-6][0-9]){_FRACTION}",
    "(?: ?(?:Z|[+-][0-9]{2}:?[0-9]{2}))?+",
    _of_iso,
)
EPOCH = TimeShape("[0-9]++", f"(){_FRACTION}", "", _of_epoch)
