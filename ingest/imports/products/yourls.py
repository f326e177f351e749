"""YOURLS: its tables `yourls_log` and `yourls_url` as CSV with a header, and the answer of the API's `stats`."""

from __future__ import annotations

from typing import Any

from ingest.imports.products.attributes import visit_fields
from ingest.imports.products.tables import ExportFile
from ingest.imports.products.takeover import Judge, Takeover


def read_yourls(file: ExportFile, takeover: Takeover, is_bot: Judge) -> bool:
    """Reads clicks one by one, or links with their counts; returns whether it is one of these."""
    if file.has("click_time", "shorturl"):
        for line, row in file.rows():
            bot = is_bot(row["user_agent"]) if row.get("user_agent") else False
            attributes = visit_fields(bot, row.get("user_agent"), row.get("referrer"), row.get("country_code"))
            key = takeover.hosts.key(row.get("shorturl", ""))
            takeover.visit(row["click_time"], key, bot, (file.name, line), attributes)
        return True
    if file.has("keyword", "clicks"):
        takeover.totals_in(file, "keyword", "clicks")
        return True
    is_export = False
    for value in file.values:
        for n, link in enumerate(_links_of(value)):
            is_export = True
            takeover.total(takeover.hosts.key_of_address(link.get("shorturl")), link.get("clicks"), (file.name, n))
    return is_export


def _links_of(value: Any) -> list[dict[str, Any]]:
    links = value.get("links") if isinstance(value, dict) else None
    listed = list(links.values()) if isinstance(links, dict) else links if isinstance(links, list) else []
    return [link for link in listed if isinstance(link, dict)]
