"""Answers as bytes: JSON and CSV of totals, summaries and rankings. Curves write themselves (`query.curve`)."""

from __future__ import annotations

import json

from query.lists.key_list import KeyPage
from query.lists.top import Top
from query.summary import Summary
from query.total import Total

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def total_json(key: str | None, total: Total) -> bytes:
    """Returns a total as JSON: `total` is null unless the bounds meet, from and to are null for a whole life."""
    span = total.span
    start, end = ("null" if t is None else t for t in (total.start, total.end))
    return (
        f'{{"key":{_json_string(key)},"from":{start},"to":{end},"total":{span.at_most if span.exact else "null"},'
        f'"at_least":{span.at_least},"at_most":{span.at_most},"exact":{"true" if span.exact else "false"}}}'
    ).encode()


def summary_json(key: str, summary: Summary) -> bytes:
    return compact(
        {
            "key": key,
            "lifetime": summary.lifetime,
            "today": summary.today,
            "yesterday": summary.yesterday,
            "last_7d": summary.last_7d,
            "last_30d": summary.last_30d,
            "bots": summary.bots,
            "first_hit": summary.first_hit,
            "last_hit": summary.last_hit,
            "opening": summary.opening,
            "exact": summary.exact,
        }
    )


def list_json(plural: str, found: Top | KeyPage) -> bytes:
    """Returns a ranking as JSON, or a page of keys: the same shape, and the key to go on after."""
    start, end = (found.start, found.end) if isinstance(found, Top) else (None, None)
    answer: dict[str, object] = {"from": start, "to": end}
    answer[plural] = [{"key": key, "count": count} for key, count in found.links]
    if isinstance(found, KeyPage):
        answer["after"] = found.after
    return compact(answer)


def list_csv(found: Top | KeyPage) -> bytes:
    """Returns `key,count`, and a line for each key."""
    return "".join(["key,count\n", *(f"{csv_field(key)},{count}\n" for key, count in found.links)]).encode()


def csv_field(text: str) -> str:
    """Quotes one field as RFC 4180 says. The text itself is kept: a key that begins with `=` keeps it."""
    if any(sign in text for sign in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _json_string(key: str | None) -> str:
    return json.dumps(key, ensure_ascii=False)


def compact(answer: dict[str, object]) -> bytes:
    return _COMPACT.encode(answer).encode()
