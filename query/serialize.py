"""Answers as bytes: JSON and CSV of totals, summaries and rankings. Curves write themselves (`query.curve`)."""

from __future__ import annotations

import json
from collections.abc import Iterable

from query.key_list import KeyPage
from query.summary import Summary
from query.top import Top
from query.total import Total


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


def top_json(top: Top) -> bytes:
    links = [{"key": key, "count": count} for key, count in top.links]
    return compact({"from": top.start, "to": top.end, "links": links})


def keys_json(page: KeyPage) -> bytes:
    """Returns a page of keys as JSON: the shape of a ranking, and the key to go on after."""
    links = [{"key": key, "count": count} for key, count in page.links]
    return compact({"from": None, "to": None, "links": links, "after": page.after})


def links_csv(links: Iterable[tuple[str, int]]) -> bytes:
    """Returns `key,count`, and a line for each link."""
    return "".join(["key,count\n", *(f"{csv_field(key)},{count}\n" for key, count in links)]).encode()


def csv_field(text: str) -> str:
    """Quotes one field as RFC 4180 says. The text itself is kept: a key that begins with `=` keeps it."""
    if any(sign in text for sign in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _json_string(key: str | None) -> str:
    return json.dumps(key, ensure_ascii=False)


def compact(answer: dict[str, object]) -> bytes:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
