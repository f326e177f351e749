"""Traces: lines that say when somebody asked, and who. Pure.

    1772000040.5 ip=203.0.113.7 user=ann cost=2
    2026-02-25T06:14:00Z ip=203.0.113.7
    203.0.113.7 - ann [25/Feb/2026:06:14:00 +0000] "POST /links?x=1 HTTP/1.1" 201 12 "-" "curl/8"

The third is a line of an access log, in the common or the combined format: its features are ip, user (unless it is -),
method and endpoint (the path without its query).
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite

from clickcurve.buckets.errors import ParameterInvalid

LINE_RULE = "a time (epoch seconds or ISO 8601), then feature=value pairs and perhaps cost=N; or an access log's line"

_LATEST = 100_000_000_000
_MONTHS = {"JanFebMarAprMayJunJulAugSepOctNovDec"[3 * n : 3 * n + 3]: n + 1 for n in range(12)}
_ACCESS = re.compile(
    r"(?P<ip>\S+) \S+ (?P<user>.+?) \[(?P<day>\d\d)/(?P<month>[A-Z][a-z]{2})/(?P<year>\d{4}):(?P<clock>\d\d:\d\d:\d\d)"
    r" (?P<zone>[+-]\d{4})\] \"(?P<method>[A-Z]+) (?P<target>[^ \"]+)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Call:
    """One line: who asked when (epoch seconds), for how much."""

    at: float
    features: dict[str, str]
    cost: int = 1


def parse_line(text: str) -> Call | None:
    """None for a blank line and a comment (#). ParameterInvalid says what is wrong."""
    if not text or text.isspace() or text.startswith("#"):
        return None
    found = _ACCESS.match(text)
    return _of_log(found) if found else _of_words(text)


def _of_words(text: str) -> Call:
    try:
        words = shlex.split(text) if '"' in text or "'" in text else text.split()
    except ValueError as error:
        raise _wrong(text, f"its quotes do not match ({error})") from None
    features = {}
    for word in words[1:]:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise _wrong(word, f"{word!r} is not feature=value")
        if name in features:
            raise _wrong(word, f"{name} is given twice")
        features[name] = value
    cost = features.pop("cost", "1")
    if not (cost.isascii() and cost.isdigit() and len(cost) <= 10):
        raise _wrong(cost, f"the cost {cost!r} is not a whole number")
    return Call(_moment(words[0]), features, int(cost))


def _moment(text: str) -> float:
    try:
        at = float(text)
    except ValueError:
        try:
            wall = datetime.fromisoformat(text)
        except ValueError:
            raise _wrong(text, f"{text!r} is not a time") from None
        at = (wall if wall.tzinfo else wall.replace(tzinfo=UTC)).timestamp()
    if not isfinite(at) or at < 0:
        raise _wrong(text, f"the time {text} is not one since 1970")
    if at > _LATEST:
        raise _wrong(text, f"the time {text} is too large: milliseconds?")
    return at


def _of_log(found: re.Match[str]) -> Call:
    ip, user, day, month, year, clock, zone, method, target = found.groups()
    try:
        at = datetime.fromisoformat(f"{year}-{_MONTHS[month]:02}-{day}T{clock}{zone}").timestamp()
    except (KeyError, ValueError):
        raise _wrong(found[0], "its time cannot be") from None
    features = {"ip": ip, "method": method, "endpoint": target.partition("?")[0]}
    return Call(at, features if user == "-" else {**features, "user": user})


def _wrong(value: str, why: str) -> ParameterInvalid:
    return ParameterInvalid(why, field="trace", value=value, rule=LINE_RULE)
