"""Traces: lines that say which caller asked, and when. Pure.

    1772000040.5 ip=203.0.113.7 user=ann cost=2
    2026-02-25T06:14:00Z ip=203.0.113.7
    203.0.113.7 - ann [25/Feb/2026:06:14:00 +0000] "POST /links?x=1 HTTP/1.1" 201 12 "-" "curl/8"

The third is a line of an access log, in the common or the combined format: its features are ip, user (unless it is -),
method and endpoint (the path without its query).
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from clickcurve.access_log import LogLine, parse_log_line, split_request, stamp_seconds
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.times import parse_time, require_in_range

LINE_RULE = "a time (epoch seconds or ISO 8601), then feature=value pairs and perhaps cost=N; or an access log's line"


@dataclass(frozen=True, slots=True)
class Call:
    """One line: when a caller asked (epoch seconds), its features, and for how much."""

    at: float
    features: dict[str, str]
    cost: int = 1


def parse_line(text: str) -> Call | None:
    """Parses a line; None for a blank line and a comment (#). ParameterInvalid says what is wrong."""
    if not text or text.isspace() or text.startswith("#"):
        return None
    line = parse_log_line(text)
    return _of_log(line) if line else _of_words(text)


def _of_words(text: str) -> Call:
    try:
        words = shlex.split(text) if '"' in text or "'" in text else text.split()
    except ValueError as error:
        raise _trace_error(text, f"its quotes do not match ({error})") from None
    features = {}
    for word in words[1:]:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise _trace_error(word, f"{word!r} is not feature=value")
        if name in features:
            raise _trace_error(word, f"{name} is given twice")
        features[name] = value
    cost = features.pop("cost", "1")
    if not (cost.isascii() and cost.isdigit() and len(cost) <= 10):
        raise _trace_error(cost, f"the cost {cost!r} is not a whole number")
    written = parse_time("trace", words[0])
    return Call(require_in_range("trace", words[0], written.utc_s) + written.fraction, features, int(cost))


def _of_log(line: LogLine) -> Call:
    at = stamp_seconds(line.stamp)
    if at is None:
        raise _trace_error(line.stamp, "its time is not valid")
    method, target = split_request(line.request)
    words = line.before.split(" ", 2)
    if not target or len(words) < 3:
        raise _trace_error(line.request, "it has no request, or does not begin with address, identity and user")
    user = words[2].rstrip(" ")
    features = {"ip": words[0], "method": method, "endpoint": target.partition("?")[0]}
    return Call(at, features if user == "-" else {**features, "user": user})


def _trace_error(value: str, why: str) -> ParameterInvalid:
    return ParameterInvalid(why, field="trace", value=value, rule=LINE_RULE)
