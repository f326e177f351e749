"""Shlink: CSV of `visit:non-orphan` and `short-url:visits`, the API's lists, the web client's CSV of short URLs."""

from __future__ import annotations

from typing import Any

from ingest.imports.products.attributes import visit_fields
from ingest.imports.products.tables import ExportFile
from ingest.imports.products.takeover import Judge, Takeover


def read_shlink(file: ExportFile, takeover: Takeover, is_bot: Judge) -> bool:
    """Reads visits with the address visited, or links with their counts; returns whether it is one of these."""
    if file.has("Date", "Visited URL"):
        for line, row in file.rows():
            bot = bool(row.get("Potential bot", "").strip())
            attributes = visit_fields(bot, row.get("User agent"), row.get("Referer"))
            key = takeover.hosts.key_of_address(row.get("Visited URL"))
            takeover.visit(row["Date"], key, bot, (file.name, line), attributes)
        return True
    if file.has("shortCode", "visits"):
        takeover.totals_in(file, "shortCode", "visits")
        return True
    is_export = False
    for value in file.values:
        is_export = _read_answer(value, takeover, file.name) or is_export
    return is_export


def _read_answer(value: Any, takeover: Takeover, name: str) -> bool:
    """Reads an answer of the API: visits, or short URLs."""
    if not isinstance(value, dict):
        return False
    visits, links = (value.get(part) for part in ("visits", "shortUrls"))
    if isinstance(visits, dict) and isinstance(visits.get("data"), list):
        for n, visit in enumerate(visits["data"]):
            one = visit if isinstance(visit, dict) else {}
            bot = one.get("potentialBot") is True
            place = one.get("visitLocation")
            country = place.get("countryCode") if isinstance(place, dict) else None
            attributes = visit_fields(bot, one.get("userAgent"), one.get("referer"), country)
            key = takeover.hosts.key_of_address(one.get("visitedUrl"))
            takeover.visit(one.get("date"), key, bot, (name, n), attributes)
        return True
    if isinstance(links, dict) and isinstance(links.get("data"), list):
        for n, link in enumerate(links["data"]):
            one = link if isinstance(link, dict) else {}
            key = takeover.hosts.key(str(one.get("shortCode") or ""), str(one.get("domain") or ""))
            summary = one.get("visitsSummary")
            if isinstance(summary, dict) and "nonBots" in summary:
                takeover.total(key, summary["nonBots"], (name, n), of_people=True)
            else:
                takeover.total(
                    key, summary.get("total") if isinstance(summary, dict) else one.get("visitsCount"), (name, n)
                )
        return True
    return False
