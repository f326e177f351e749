"""From cells to machines: workers, memory and disk of one machine over SQLite, and the page that says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.command import Options
from bench.measure import Line, markdown
from bench.scale.cluster import page
from bench.scale.one_machine import FLUSH_S, LINKS, Cell
from bench.scale.traffic import DAYS, Traffic
from ingest.flush import ROWS_PER_SAVE

PAGE = Path(__file__).with_name("sizing.txt")
MOST_WORKERS = 16
MOST_SHARE = 0.5  # of the interval for a flush, and for the transactions of all workers; of a core for hits
MOST_CORES = 8.0  # busy, of a machine of 16
MOST_DISK_GB = 1_000.0
WAL_GB = 0.024
NOW = 1_783_000_000  # of rows whose lengths are compared
LONG_S = 60
SHARES = (f"share of {FLUSH_S} s", f"share of {LONG_S} s")
SIZED = ("links", "hits a second", "workers", *SHARES, "cores", "memory", "disk")
CHECKED = ("links", "hits a second", "attributes", "share estimated", "share by the server", "memory estimated", "RSS")
RANGES = ("link_us", "saved_us", "link_bytes")
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sized:
    """One machine. share: of the interval, for the flush of a worker; turns: for all workers' transactions together."""

    workers: int
    share: float
    turns: float
    cores: float
    memory_mb: float
    disk_gb: float

    @property
    def too_much(self) -> str:
        """Returns what one machine cannot do; "" if it can do all."""
        limits = {
            "flushes": self.share <= MOST_SHARE,
            "transactions": self.turns <= MOST_SHARE,
            "cores": self.cores <= MOST_CORES,
            "disk": self.disk_gb <= MOST_DISK_GB,
        }
        return ", ".join(name for name, kept in limits.items() if not kept)


def sized(cell: Cell, hits: dict[str, float], flush_s: float = FLUSH_S) -> Sized:
    """Returns the machine with the fewest workers whose flushes leave half of the interval, or the largest."""
    found = [with_workers(cell, hits, workers, flush_s) for workers in range(1, MOST_WORKERS + 1)]
    return next((each for each in found if each.share <= MOST_SHARE), found[-1])


def with_workers(cell: Cell, hits: dict[str, float], workers: int, flush_s: float = FLUSH_S) -> Sized:
    """Returns what so many workers take, each with its part of all hits, which come one by one."""
    whole, own = Traffic(cell.links, cell.hits_per_s), Traffic(cell.links, cell.hits_per_s / workers)
    said = "_attributes" if cell.attributes else ""
    busy = own.hits_per_s * hits[f"single{said}_us"] / 1e6
    flushed = own.rows_per_s(flush_s) * flush_s  # links of a worker's flush
    spent = flushed * cell.link_us / 1e6 / flush_s
    piece = min(flushed, ROWS_PER_SAVE / (2 if cell.attributes else 1))  # links whose rows are in memory, old and new
    # A worker has its own row of a link; all rows of a link together are shorter than so many times the row of one.
    copies = workers * own.row_bytes(NOW) / whole.row_bytes(NOW)
    journal = 2 * cell.journal_bytes * cell.hits_per_s * flush_s  # the segments of a flush go when it has ended
    return Sized(
        workers,
        spent / (1 - busy) if busy < MOST_SHARE else 1.0,
        workers * flushed * cell.saved_us / 1e6 / flush_s,
        workers * (busy + spent),
        workers * (hits[f"rest{said}_mb"] + (2 * piece * cell.link_bytes + flushed * cell.buffer_bytes) / 1e6),
        (cell.links * cell.link_bytes * copies + journal) / 1e9 + workers * WAL_GB,
    )


def render(options: Options) -> Iterator[Line]:
    """Writes both pages."""
    pages = {"scale.md": page(options.sheet), "sizing.md": sizing_page(options.sheet["sizing"])}
    for name, text in pages.items():
        (options.docs / name).write_text(text)
        yield Line(name, f"{len(text):,} signs")


def sizing_page(figures: Figures) -> str:
    """Returns the page as Markdown."""
    hits, cells = figures["hits"], [Cell(**each) for each in figures["cells"]]
    kinds = [[cell for cell in cells if cell.attributes == said] for said in (False, True)]
    plain, said = (markdown(SIZED, (_line(cell, hits) for cell in kind)) for kind in kinds)
    ranges = {name: [_range([getattr(cell, name) for cell in kind]) for kind in kinds] for name in RANGES}
    return PAGE.read_text().format(
        **figures | ranges,
        plain=plain,
        said=said,
        checked=markdown(CHECKED, _checked(figures["servers"], hits)),
        days=DAYS,
        most=LINKS,
        most_cores=MOST_CORES,
        most_disk=MOST_DISK_GB,
        most_share=_percent(MOST_SHARE, 0),
        most_workers=MOST_WORKERS,
    )


def _range(values: Sequence[float]) -> str:
    return f"{min(values):,.0f} to {max(values):,.0f}"


def _percent(part: float, digits: int = 1) -> str:
    return f"{100 * part:.{digits}f} %"


def _line(cell: Cell, hits: dict[str, float]) -> Sequence[str]:
    one = sized(cell, hits)
    shares = [_percent(one.share), _percent(with_workers(cell, hits, one.workers, LONG_S).share)]
    workers = str(one.workers)
    if one.too_much:
        one, short = sized(cell, hits, LONG_S), one
        workers = f"{one.workers} with `flush_s` = {LONG_S}, else several machines: {short.too_much}"
        shares = ["", _percent(one.share)]
    if one.too_much:
        workers, shares = f"several machines: {one.too_much}", ["", ""]
    disk = f"{one.disk_gb:,.2f} GB" if one.disk_gb < 10 else f"{one.disk_gb:,.0f} GB"
    rest = (*shares, f"{one.cores:.2f}", f"{one.memory_mb:,.0f} MB", disk)
    return f"{cell.links:,}", f"{cell.hits_per_s:,.0f}", workers, *rest


def _checked(servers: Sequence[Figures], hits: dict[str, float]) -> Iterator[Sequence[str]]:
    for each in servers:
        cell = Cell(**each["cell"])
        one = with_workers(cell, hits, 1)
        traffic = (f"{cell.links:,}", f"{each['hits_per_s']:,.0f}", "yes" if cell.attributes else "no")
        yield (
            *traffic,
            _percent(one.share),
            _percent(each["share"]),
            f"{one.memory_mb:,.0f} MB",
            f"{each['rss_mb']:,.0f} MB",
        )
