"""What each product documents of its exports: the columns of its tables, and the parts of its JSON.

| product | tables, CSV with a header | JSON |
| --- | --- | --- |
| Shlink | `visit:non-orphan`, `short-url:visits`, the web client's visits and short URLs | the API's lists of both |
| YOURLS | `yourls_log`, `yourls_url` | the answer of the API's `stats` |
| Kutt | `links`, `visits` | the API's `/links` and `/links/{id}/stats` |
| Bitly | | `/v4/bitlinks/{bitlink}/clicks` and `/clicks/summary`, each with a member `bitlink` put in |
| GoatCounter | its export, version 2 | its export, version 1, a zip file |
| Plausible | `imported_pages`, alone or in the zip file of its export | |

The curves in Kutt's stats count back from the second in which they were asked for, so their pieces are no hours and
days of the calendar; of these answers the count of all time is taken, and not what they add up by. The table `visits`
has the hours, with sums of each by referrer, country, browser and system. Plausible has days of pages, of the zone of
its site; its goals (`imported_custom_events`) name no page, and so no link that they could be events of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from clickcurve.buckets.errors import shown
from clickcurve.buckets.ladder import DAY_S, HOUR_S, MINUTE_S
from ingest.imports.products.attributes import hour_values
from ingest.imports.products.json_documents import LongLists
from ingest.imports.products.tables import ExportFile, Row, whole_count
from ingest.imports.products.takeover import Place, Takeover
from ingest.imports.source import SourceUnreadable

ReadRow: TypeAlias = Callable[[Takeover, Row, Place], None]
ReadValue: TypeAlias = Callable[[Takeover, Any, Place], bool]
_OF_VISITS = ("link_id", "created_at", "total")  # Kutt's table, which names links by the ids of its other one
_WIDTHS_S = {"minute": MINUTE_S, "hour": HOUR_S, "day": DAY_S}


@dataclass(frozen=True, slots=True)
class Product:
    """What its exports are made of.

    tables: the columns that tell a table -> what reads a row of it. lists: the long lists of its JSON -> what reads an
    item; of_objects: whether an object in place of a list is read too. read_document: reads a document of JSON, without
    these items. read_zip: reads a zip file. All of these return whether it is the product's.
    """

    tables: Mapping[tuple[str, ...], ReadRow] = field(default_factory=dict)
    lists: Mapping[tuple[str, ...], ReadValue] = field(default_factory=dict)
    of_objects: bool = False
    read_document: ReadValue = lambda takeover, value, where: False
    read_zip: Callable[[Takeover, ExportFile], bool] = lambda takeover, file: False

    def long_lists(self) -> LongLists:
        return dict.fromkeys(self.lists, self.of_objects)


def read_product(product: str, paths: Sequence[Path], takeover: Takeover) -> None:
    """Reads all files of an export, one after the other; raises SourceUnreadable for one that is not the product's."""
    with ExitStack() as kept:
        later = []
        for path in paths:
            file = ExportFile(path)
            if file.has(*_OF_VISITS):
                later.append(kept.enter_context(closing(file)))
                continue
            with closing(file):
                _read_file(product, file, takeover)
        for file in later:
            _read_file(product, file, takeover)


def _read_file(name: str, file: ExportFile, takeover: Takeover) -> None:
    product = PRODUCTS[name]
    for columns, read_row in product.tables.items():
        if file.has(*columns):
            for line, row in file.rows():
                read_row(takeover, row, (file.name, line))
            return
    is_known = False
    for at, number, value in file.found(product.long_lists()):
        read = product.read_document if at is None else product.lists[at]
        is_known = read(takeover, value, (file.name, number)) or is_known
    if not (is_known or product.read_zip(takeover, file)):
        raise SourceUnreadable(f"{file.name} is not a known export of {name}; docs/import.md lists the known ones")


def _total(key: str, count: str) -> ReadRow:
    """Returns what reads a link's count of all time from these columns."""
    return lambda takeover, row, where: takeover.total(takeover.hosts.key(row[key]), row[count], where)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """Returns a value that is a text; of any other one nothing: an address of another type names no link."""
    return value if isinstance(value, str) else ""


def _id(value: Any) -> str:
    """Returns an id, which is a text or a whole number; of any other value nothing."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value)


# --- Shlink -------------------------------------------------------------------------------------------------------
def _shlink_visit(takeover: Takeover, row: Row, where: Place) -> None:
    """Reads a visit of the command's CSV, which has no column of bots before Shlink 5: there the agent decides."""
    agent, marked = row.get("User agent"), row.get("Potential bot")
    bot = takeover.is_bot(agent or "") if marked is None else bool(marked.strip())
    key = _shlink_key(takeover, row["Visited URL"], row.get("Type"))
    takeover.visit(row["Date"], key, bot, where, agent, row.get("Referer"))


def _shlink_visit_shown(takeover: Takeover, row: Row, where: Place) -> None:
    """Reads a visit of the web client's CSV."""
    key, bot = _shlink_key(takeover, row["visitedUrl"], row.get("type")), row["potentialBot"].strip().lower() == "true"
    takeover.visit(row["date"], key, bot, where, row.get("userAgent"), row.get("referer"))


def _shlink_key(takeover: Takeover, address: str, kind: str | None) -> str:
    """Returns the key of a visit; "" of one that found no link. Lists of such visits tell it by their kind."""
    return takeover.key_of_address(address) if kind in (None, "", "valid_short_url") else ""


def _shlink_visit_answered(takeover: Takeover, value: Any, where: Place) -> bool:
    visit = _object(value)
    key, bot = takeover.key_of_address(visit.get("visitedUrl")), visit.get("potentialBot") is True
    country = _object(visit.get("visitLocation")).get("countryCode")
    takeover.visit(visit.get("date"), key, bot, where, visit.get("userAgent"), visit.get("referer"), country)
    return True


def _shlink_link_answered(takeover: Takeover, value: Any, where: Place) -> bool:
    link = _object(value)
    key = takeover.hosts.key(_text(link.get("shortCode")), _text(link.get("domain")))
    counts = link.get("visitsSummary")
    if not isinstance(counts, dict):
        counts = {"total": link.get("visitsCount")}
    of_people = "nonBots" in counts
    takeover.total(key, counts.get("nonBots" if of_people else "total"), where, of_people)
    if counts.get("bots"):
        takeover.total_of_bots(key, counts["bots"])
    return True


def _shlink_answer(takeover: Takeover, value: Any, where: Place) -> bool:
    """Tells an answer of the API, also one without visits or links."""
    return any(isinstance(_object(_object(value).get(name)).get("data"), list) for name in ("visits", "shortUrls"))


# --- YOURLS -------------------------------------------------------------------------------------------------------
def _yourls_click(takeover: Takeover, row: Row, where: Place) -> None:
    key, agent = takeover.hosts.key(row["shorturl"]), row.get("user_agent", "")
    bot = bool(agent) and takeover.is_bot(agent)
    takeover.visit(row["click_time"], key, bot, where, agent, row.get("referrer"), row.get("country_code"))


def _yourls_link(takeover: Takeover, value: Any, where: Place) -> bool:
    """Reads a link of the stats, which are a list, or an object of `link_1` and so on."""
    link = _object(value)
    takeover.total(takeover.key_of_address(link.get("shorturl")), link.get("clicks"), where)
    return isinstance(value, dict)


# --- Kutt ---------------------------------------------------------------------------------------------------------
def _kutt_link(takeover: Takeover, row: Row, where: Place) -> None:
    key = takeover.hosts.key(row["address"])
    takeover.name_link(row["id"], key)
    takeover.total(key, row["visit_count"], where)


def _kutt_hour(takeover: Takeover, row: Row, where: Place) -> None:
    key, values = takeover.key_of(row["link_id"]), hour_values(row, whole_count(row["total"]) or 0)
    takeover.bucket(row["created_at"], HOUR_S, key, row["total"], where, values)


def _kutt_link_answered(takeover: Takeover, value: Any, where: Place) -> bool:
    link = _object(value)
    key = takeover.hosts.key(_text(link.get("address")), _text(link.get("domain")))
    takeover.total(key, link.get("visit_count"), where)
    return "visit_count" in link


def _kutt_stats(takeover: Takeover, value: Any, where: Place) -> bool:
    """Reads the stats of one link; what is left of a list of links has no count."""
    return "visit_count" in _object(value) and _kutt_link_answered(takeover, value, where)


# --- Bitly --------------------------------------------------------------------------------------------------------
def _bitly_answer(takeover: Takeover, value: Any, where: Place) -> bool:
    """Reads clicks by minute, hour or day, and counts of all time."""
    if not isinstance(value, dict) or not ("link_clicks" in value or "total_clicks" in value):
        takeover.note_bad(where, "no answer about clicks")
        return False
    key = takeover.key_of_address(value.get("bitlink"))
    if "total_clicks" in value and value.get("units", -1) == -1:
        takeover.total(key, value["total_clicks"], where)
    listed = value.get("link_clicks", [])
    if listed is not None and not isinstance(listed, list):
        raise SourceUnreadable(f"{where[0]}, answer {where[1] + 1}: link_clicks is not a list")
    width_s = _WIDTHS_S.get(str(value.get("unit", "day")))
    if listed is None:
        takeover.note_bad(where, "link_clicks is null")
    elif width_s is None and listed:
        takeover.note_bad(where, f"clicks by {value.get('unit')}; ask Bitly for days")
    elif width_s is not None:
        for clicks in map(_object, listed):
            takeover.bucket(clicks.get("date"), width_s, key, clicks.get("clicks"), where)
    return True


# --- GoatCounter --------------------------------------------------------------------------------------------------
def _goatcounter_view(takeover: Takeover, row: Row, where: Place) -> None:
    key, agent = _key_of_path(row["2Path"], row.get("Event") == "1", takeover), row.get("UserAgent", "")
    bot = row.get("Bot", "0") not in ("", "0") or (bool(agent) and takeover.is_bot(agent))
    # Of the schemes h and o (apps) a referrer is an address; the others are names.
    referrer = row.get("Referrer") if row.get("Referrer scheme", "") in ("h", "o") else None
    takeover.visit(row["Date"], key, bot, where, agent, referrer, row.get("Location", "").partition("-")[0])


def _goatcounter_zip(takeover: Takeover, file: ExportFile) -> bool:
    """Reads the hours of paths."""
    paths, hours = file.found_in("paths.jsonl"), file.found_in("hit_stats.jsonl")
    if paths is None or hours is None:
        return False
    for _, n, path in paths:
        of_path = _required(path, ("paths.jsonl", n))
        key = _key_of_path(_text(of_path.get("path")), of_path.get("event") is True, takeover)
        takeover.name_link(_id(of_path.get("id")), key)
    for _, n, hour in hours:
        of_hour, where = _required(hour, ("hit_stats.jsonl", n)), ("hit_stats.jsonl", n + 1)
        key = takeover.key_of(_id(of_hour.get("path_id")))
        takeover.bucket(of_hour.get("hour"), HOUR_S, key, of_hour.get("count"), where)
    return True


# --- Plausible ----------------------------------------------------------------------------------------------------
def _plausible_page(takeover: Takeover, row: Row, where: Place) -> None:
    """Reads the views of a page on a day, which is taken for one of UTC."""
    key = takeover.noted(takeover.hosts.key(row["page"].partition("?")[0].removeprefix("/"), row.get("hostname", "")))
    takeover.bucket(f"{row['date']}T00:00:00Z", DAY_S, key, row["pageviews"], where)


def _plausible_goal(takeover: Takeover, row: Row, where: Place) -> None:
    takeover.note_bad(where, f"the goal {shown(row['name'])!r} is of no page, and so of no link")


def _plausible_zip(takeover: Takeover, file: ExportFile) -> bool:
    """Reads the tables in its export that say something of pages, or of goals."""
    is_known = False
    for columns, read_row in _PLAUSIBLE.items():
        for name, header, rows in file.tables_in(_PLAUSIBLE_NAMES[columns]):
            if not set(columns) <= set(header):
                raise SourceUnreadable(f"{name} lacks one of the columns {', '.join(columns)}")
            is_known = True
            for line, row in rows:
                read_row(takeover, row, (name, line))
    return is_known


_PAGES, _GOALS = ("date", "page", "pageviews"), ("date", "name", "events")
_PLAUSIBLE: Mapping[tuple[str, ...], ReadRow] = {_PAGES: _plausible_page, _GOALS: _plausible_goal}
_PLAUSIBLE_NAMES: Mapping[tuple[str, ...], str] = {_PAGES: "imported_pages", _GOALS: "imported_custom_events"}


# --- any ----------------------------------------------------------------------------------------------------------
def _required(value: Any, where: Place) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SourceUnreadable(f"{where[0]}, entry {where[1] + 1} is not an object")
    return value


def _key_of_path(path: str, is_event: bool, takeover: Takeover) -> str:
    """Returns the key: an event's name as it is, a path without its leading slash and without the query."""
    if is_event or not path.startswith("/"):
        return path
    return takeover.noted(takeover.hosts.key(path.partition("?")[0].partition("#")[0].removeprefix("/")))


PRODUCTS: Mapping[str, Product] = {
    "shlink": Product(
        {
            ("Date", "Visited URL"): _shlink_visit,
            ("date", "potentialBot", "visitedUrl"): _shlink_visit_shown,
            ("shortCode", "visits"): _total("shortCode", "visits"),
        },
        {("visits", "data"): _shlink_visit_answered, ("shortUrls", "data"): _shlink_link_answered},
        read_document=_shlink_answer,
    ),
    "yourls": Product(
        {("click_time", "shorturl"): _yourls_click, ("keyword", "clicks"): _total("keyword", "clicks")},
        {("links",): _yourls_link},
        of_objects=True,
    ),
    "kutt": Product(
        {("id", "address", "visit_count"): _kutt_link, _OF_VISITS: _kutt_hour},
        {("data",): _kutt_link_answered, (): _kutt_link_answered},
        read_document=_kutt_stats,
    ),
    "bitly": Product(read_document=_bitly_answer),
    "goatcounter": Product({("2Path", "Date"): _goatcounter_view}, read_zip=_goatcounter_zip),
    "plausible": Product(_PLAUSIBLE, read_zip=_plausible_zip),
}
