"""What each product documents of its exports: the columns of its tables, and the parts of its JSON.

| product | tables, CSV with a header | JSON |
| --- | --- | --- |
| Shlink | `visit:non-orphan`, `short-url:visits`, the web client's short URLs | the API's lists of both |
| YOURLS | `yourls_log`, `yourls_url` | the answer of the API's `stats` |
| Kutt | `links`, `visits` | the API's `/links` and `/links/{id}/stats` |
| Bitly | | `/v4/bitlinks/{bitlink}/clicks` and `/clicks/summary`, each with a member `bitlink` put in |
| GoatCounter | its export, version 2 | its export, version 1, a zip file |

The curves in Kutt's stats count back from the second in which they were asked for, so their pieces are no hours and
days of the calendar; of these answers the count of all time is taken, and not what they add up by. The table `visits`
has the hours, with sums of each by referrer, country, browser and system.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from clickcurve.buckets.ladder import DAY_S, HOUR_S, MINUTE_S
from clickcurve.hosts import HOSTS_IGNORED, Hosts
from ingest.hit import Judge
from ingest.imports.products.attributes import hour_values
from ingest.imports.products.tables import ExportFile, Row, objects_of, read_export, whole_count
from ingest.imports.products.takeover import Place, Takeover
from ingest.imports.source import SourceUnreadable

ReadRow: TypeAlias = Callable[[Takeover, Row, Place], None]
_OF_VISITS = ("link_id", "created_at", "total")  # Kutt's table, which names links by the ids of its other one
_WIDTHS_S = {"minute": MINUTE_S, "hour": HOUR_S, "day": DAY_S}


@dataclass(frozen=True, slots=True)
class Product:
    """What its exports are made of.

    tables: the columns that tell a table -> what reads a row of it. read_value, read_zip: read a value of JSON or a zip
    file, and return whether it is the product's.
    """

    tables: Mapping[tuple[str, ...], ReadRow] = field(default_factory=dict)
    read_value: Callable[[Takeover, Any, Place], bool] = lambda takeover, value, where: False
    read_zip: Callable[[Takeover, ExportFile], bool] = lambda takeover, file: False


def read_product(product: str, paths: Sequence[Path], is_bot: Judge, hosts: Hosts = HOSTS_IGNORED) -> Takeover:
    """Reads all files of an export; raises SourceUnreadable for a file that is not the product's."""
    takeover = Takeover(hosts, is_bot)
    files = [read_export(path) for path in paths]
    for file in sorted(files, key=lambda file: file.has(*_OF_VISITS)):
        if not _read_file(PRODUCTS[product], file, takeover):
            raise SourceUnreadable(
                f"{file.name} is not a known export of {product}; docs/import.md lists the known ones"
            )
    return takeover


def _read_file(product: Product, file: ExportFile, takeover: Takeover) -> bool:
    """Reads a file; returns whether it is the product's."""
    for columns, read_row in product.tables.items():
        if file.has(*columns):
            for line, row in file.rows():
                read_row(takeover, row, (file.name, line))
            return True
    known = [product.read_value(takeover, value, (file.name, n)) for n, value in enumerate(file.values)]
    return any(known) or product.read_zip(takeover, file)


def _total(key: str, count: str) -> ReadRow:
    """Returns what reads a link's count of all time from these columns."""
    return lambda takeover, row, where: takeover.total(takeover.hosts.key(row[key]), row[count], where)


def _listed(value: Any, *names: str) -> list[Any] | None:
    """Returns the list under these names, one within the other; None if there is none."""
    for name in names:
        value = _object(value).get(name)
    return value if isinstance(value, list) else None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# --- Shlink -------------------------------------------------------------------------------------------------------
def _shlink_visit(takeover: Takeover, row: Row, where: Place) -> None:
    key, bot = takeover.hosts.key_of_address(row["Visited URL"]), bool(row.get("Potential bot", "").strip())
    takeover.visit(row["Date"], key, bot, where, row.get("User agent"), row.get("Referer"))


def _shlink_answer(takeover: Takeover, value: Any, where: Place) -> bool:
    """Reads an answer of the API: visits, or short URLs with their counts."""
    visits, links = _listed(value, "visits", "data"), _listed(value, "shortUrls", "data")
    if visits is not None:
        for n, visit in enumerate(map(_object, visits)):
            key, bot = takeover.hosts.key_of_address(visit.get("visitedUrl")), visit.get("potentialBot") is True
            country = _object(visit.get("visitLocation")).get("countryCode")
            attributes = visit.get("userAgent"), visit.get("referer"), country
            takeover.visit(visit.get("date"), key, bot, (where[0], n), *attributes)
        return True
    for n, link in enumerate(map(_object, links or ())):
        key = takeover.hosts.key(str(link.get("shortCode") or ""), str(link.get("domain") or ""))
        counts = link.get("visitsSummary")
        if not isinstance(counts, dict):
            counts = {"total": link.get("visitsCount")}
        of_people = "nonBots" in counts
        takeover.total(key, counts.get("nonBots" if of_people else "total"), (where[0], n), of_people)
    return links is not None


# --- YOURLS -------------------------------------------------------------------------------------------------------
def _yourls_click(takeover: Takeover, row: Row, where: Place) -> None:
    key, agent = takeover.hosts.key(row["shorturl"]), row.get("user_agent", "")
    bot = bool(agent) and takeover.is_bot(agent)
    takeover.visit(row["click_time"], key, bot, where, agent, row.get("referrer"), row.get("country_code"))


def _yourls_answer(takeover: Takeover, value: Any, where: Place) -> bool:
    links = _object(value).get("links")
    listed = links.values() if isinstance(links, dict) else links if isinstance(links, list) else ()
    known = [link for link in listed if isinstance(link, dict)]
    for n, link in enumerate(known):
        takeover.total(takeover.hosts.key_of_address(link.get("shorturl")), link.get("clicks"), (where[0], n))
    return bool(known)


# --- Kutt ---------------------------------------------------------------------------------------------------------
def _kutt_link(takeover: Takeover, row: Row, where: Place) -> None:
    takeover.keys[row["id"]] = key = takeover.hosts.key(row["address"])
    takeover.total(key, row["visit_count"], where)


def _kutt_hour(takeover: Takeover, row: Row, where: Place) -> None:
    key, values = takeover.keys.get(row["link_id"], ""), hour_values(row, whole_count(row["total"]) or 0)
    takeover.bucket(row["created_at"], HOUR_S, key, row["total"], where, values)


def _kutt_answer(takeover: Takeover, value: Any, where: Place) -> bool:
    listed = value.get("data", [value]) if isinstance(value, dict) else value
    is_export = False
    for n, link in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(link, dict) and "visit_count" in link:
            is_export = True
            key = takeover.hosts.key(str(link.get("address") or ""), str(link.get("domain") or ""))
            takeover.total(key, link["visit_count"], (where[0], n))
    return is_export


# --- Bitly --------------------------------------------------------------------------------------------------------
def _bitly_answer(takeover: Takeover, value: Any, where: Place) -> bool:
    """Reads clicks by minute, hour or day, and counts of all time."""
    if not isinstance(value, dict) or not ("link_clicks" in value or "total_clicks" in value):
        return False
    key = takeover.hosts.key_of_address(value.get("bitlink"))
    if "total_clicks" in value and value.get("units", -1) == -1:
        takeover.total(key, value["total_clicks"], where)
    width_s = _WIDTHS_S.get(str(value.get("unit", "day")))
    if width_s is None:
        if value.get("link_clicks"):
            takeover.note_bad(where, f"clicks by {value.get('unit')}; ask Bitly for days")
        return True
    for clicks in map(_object, _listed(value, "link_clicks") or ()):
        takeover.bucket(clicks.get("date"), width_s, key, clicks.get("clicks"), where)
    return True


# --- GoatCounter --------------------------------------------------------------------------------------------------
def _goatcounter_view(takeover: Takeover, row: Row, where: Place) -> None:
    key, agent = _key_of_path(row["2Path"], row.get("Event") == "1", takeover.hosts), row.get("UserAgent", "")
    bot = row.get("Bot", "0") not in ("", "0") or (bool(agent) and takeover.is_bot(agent))
    # Of the schemes h and o (apps) a referrer is an address; the others are names.
    referrer = row.get("Referrer") if row.get("Referrer scheme", "") in ("h", "o") else None
    takeover.visit(row["Date"], key, bot, where, agent, referrer, row.get("Location", "").partition("-")[0])


def _goatcounter_zip(takeover: Takeover, file: ExportFile) -> bool:
    """Reads the hours of paths."""
    paths, hours = file.part("paths.jsonl"), file.part("hit_stats.jsonl")
    if paths is None or hours is None:
        return False
    keys = {
        str(path.get("id")): _key_of_path(str(path.get("path", "")), path.get("event") is True, takeover.hosts)
        for path in objects_of("paths.jsonl", paths)
    }
    for n, hour in enumerate(objects_of("hit_stats.jsonl", hours), 1):
        key, where = keys.get(str(hour.get("path_id")), ""), ("hit_stats.jsonl", n)
        takeover.bucket(hour.get("hour"), HOUR_S, key, hour.get("count"), where)
    return True


def _key_of_path(path: str, is_event: bool, hosts: Hosts) -> str:
    """Returns the key: an event's name as it is, a path without its leading slash and without the query."""
    if is_event or not path.startswith("/"):
        return path
    return hosts.key(path.partition("?")[0].partition("#")[0].removeprefix("/"))


PRODUCTS: Mapping[str, Product] = {
    "shlink": Product(
        {("Date", "Visited URL"): _shlink_visit, ("shortCode", "visits"): _total("shortCode", "visits")}, _shlink_answer
    ),
    "yourls": Product(
        {("click_time", "shorturl"): _yourls_click, ("keyword", "clicks"): _total("keyword", "clicks")}, _yourls_answer
    ),
    "kutt": Product({("id", "address", "visit_count"): _kutt_link, _OF_VISITS: _kutt_hour}, _kutt_answer),
    "bitly": Product(read_value=_bitly_answer),
    "goatcounter": Product({("2Path", "Date"): _goatcounter_view}, read_zip=_goatcounter_zip),
}
