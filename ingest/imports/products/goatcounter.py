"""GoatCounter: its CSV export (version 2) and its JSON export (version 1, a zip file)."""

from __future__ import annotations

from clickcurve.buckets.ladder import HOUR_S
from clickcurve.hosts import Hosts
from ingest.imports.products.attributes import visit_fields
from ingest.imports.products.tables import ExportFile, objects_of
from ingest.imports.products.takeover import Judge, Takeover

_PATH = "2Path"


def read_goatcounter(file: ExportFile, takeover: Takeover, is_bot: Judge) -> bool:
    """Reads page views one by one, or hours of paths; returns whether it is one of these."""
    if file.has(_PATH, "Date"):
        for line, row in file.rows():
            bot = row.get("Bot", "0") not in ("", "0") or bool(row.get("UserAgent") and is_bot(row["UserAgent"]))
            # Of the schemes h and o (apps) a referrer is an address; the others are names.
            is_address = row.get("Referrer scheme", "") in ("h", "o")
            country = row.get("Location", "").partition("-")[0]
            attributes = visit_fields(bot, row.get("UserAgent"), row.get("Referrer") if is_address else None, country)
            key = _key_of_path(row[_PATH], row.get("Event") == "1", takeover.hosts)
            takeover.visit(row["Date"], key, bot, (file.name, line), attributes)
        return True
    paths, hours = file.part("paths.jsonl"), file.part("hit_stats.jsonl")
    if paths is None or hours is None:
        return False
    keys = {
        str(path.get("id")): _key_of_path(str(path.get("path", "")), path.get("event") is True, takeover.hosts)
        for path in objects_of("paths.jsonl", paths)
    }
    for n, hour in enumerate(objects_of("hit_stats.jsonl", hours), 1):
        where = ("hit_stats.jsonl", n)
        takeover.bucket(hour.get("hour"), HOUR_S, keys.get(str(hour.get("path_id")), ""), hour.get("count"), where)
    return True


def _key_of_path(path: str, is_event: bool, hosts: Hosts) -> str:
    """Returns the key: an event's name as it is, a path without its leading slash and without the query."""
    if is_event or not path.startswith("/"):
        return path
    return hosts.key(path.partition("?")[0].partition("#")[0].removeprefix("/"))
