"""Kutt: the API's `/links` and `/links/{id}/stats`, and its tables `links` and `visits` as CSV with a header.

The stats' curves count back from the second in which they were asked for, so their pieces are no hours and days of the
calendar; of these answers the count of all time is taken, and not what they add up by. The table `visits` has the
hours, with sums of each by referrer, country, browser and system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clickcurve.buckets.ladder import HOUR_S
from ingest.imports.products.attributes import hour_values
from ingest.imports.products.numbers import whole_count
from ingest.imports.products.tables import ExportFile
from ingest.imports.products.takeover import Judge, Takeover


def read_kutt(file: ExportFile, takeover: Takeover, is_bot: Judge) -> bool:
    """Reads a Kutt link export; returns False if the file is something else. Visits: `read_kutt_visits`."""
    if file.has("id", "address", "visit_count"):
        takeover.totals_in(file, "address", "visit_count")
        return True
    is_export = file.has("link_id", "created_at", "total")
    for value in file.values:
        listed: Any = value.get("data", [value]) if isinstance(value, dict) else value
        for n, link in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(link, dict) and "visit_count" in link:
                is_export = True
                key = takeover.hosts.key(str(link.get("address") or ""), str(link.get("domain") or ""))
                takeover.total(key, link["visit_count"], (file.name, n))
    return is_export


def read_kutt_visits(files: Sequence[ExportFile], takeover: Takeover) -> None:
    """Reads the hours of the table of visits, whose links another file names."""
    keys = {row["id"]: row["address"] for file in files if file.has("id", "address") for _, row in file.rows()}
    for file in files:
        if file.has("link_id", "created_at", "total"):
            for line, row in file.rows():
                where = (file.name, line)
                total = row.get("total")
                values = hour_values(row, whole_count(total) or 0)
                key = takeover.hosts.key(keys.get(row["link_id"], ""))
                takeover.bucket(row["created_at"], HOUR_S, key, total, where, values)
