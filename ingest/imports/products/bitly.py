"""Bitly: answers of `/v4/bitlinks/{bitlink}/clicks` and `/clicks/summary`, each with a member `bitlink` put in."""

from __future__ import annotations

from clickcurve.buckets.ladder import DAY_S, HOUR_S, MINUTE_S
from ingest.imports.products.tables import ExportFile
from ingest.imports.products.takeover import Judge, Takeover

_WIDTHS_S = {"minute": MINUTE_S, "hour": HOUR_S, "day": DAY_S}


def read_bitly(file: ExportFile, takeover: Takeover, is_bot: Judge) -> bool:
    """Reads clicks by minute, hour or day, and counts of all time; returns whether it is one of these."""
    is_export = False
    for n, value in enumerate(file.values):
        where = (file.name, n)
        if not isinstance(value, dict) or not ("link_clicks" in value or "total_clicks" in value):
            continue
        is_export = True
        key = takeover.hosts.key_of_address(value.get("bitlink"))
        if "total_clicks" in value and value.get("units", -1) == -1:
            takeover.total(key, value["total_clicks"], where)
        width_s = _WIDTHS_S.get(str(value.get("unit", "day")))
        entries = value.get("link_clicks", [])
        if entries and width_s is None:
            takeover.note_bad(where, f"clicks by {value.get('unit')}; ask Bitly for days")
            continue
        for entry in entries if isinstance(entries, list) else ():
            one = entry if isinstance(entry, dict) else {}
            takeover.bucket(one.get("date"), width_s or DAY_S, key, one.get("clicks"), where)
    return is_export
