"""What the traffic takes of a cluster, by plain multiplication of unit costs, and the page that says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.measure import markdown
from bench.scale.share import OWNERS
from bench.scale.traffic import Traffic
from clickcurve.buckets.ladder import DAY_S

PAGE = Path(__file__).with_name("cluster.txt")
MACHINES = "machines for "
# Of figures that are not printed as whole numbers.
DIGITS = {"writes a hit": 3, "bytes on all disks, TB": 1, "cores busy with hits": 1, "dollars for a million links": 2}
SIMULATED = ("a flush every", "rows a flush", "by the formula", "rows read before", "bytes of a row", "µs of a row")
Figures = dict[str, Any]


def needed(traffic: Traffic, figures: Figures, share: Figures) -> dict[str, float]:
    """Returns what one interval of flushes takes, by the names on the page; `share` is what the simulation saw with it.

    Cores are processor time a second. `assumed` in the sheet is what no run here can tell: replicas, of which a read at
    QUORUM asks `read_by`; a machine's cores and disk, and what part of them may be busy and full, for compactions;
    dollars a month of a core with 4 GB of memory, and of a GB of disk.
    """
    assumed = figures["assumed"]
    server, node = figures["server"], figures["cassandra"]
    rows_per_s = traffic.rows_per_s(share["flush_s"])
    reads_per_s = rows_per_s * share["read"] / share["written"]
    row_us = share["cpu_s"] / share["written"] * 1e6 + max(0.0, node["flush_warm_us"] - node["flush_memory_us"])
    read_us = max(0.0, node["flush_cold_us"] - node["flush_warm_us"])
    node_read_us = max(0.0, node["node_cold_us"] - node["node_warm_us"])
    accept = traffic.hits_per_s * server["batched_us"] / 1e6
    flush = (rows_per_s * row_us + reads_per_s * read_us) / 1e6
    writes = rows_per_s * node["node_warm_us"] * assumed["replicas"] / 1e6
    reads = reads_per_s * node_read_us * assumed["read_by"] / 1e6
    disk_gb = traffic.links * figures["row_bytes"] * node["disk_bytes"] / node["row_bytes"] * assumed["replicas"] / 1e9
    usable = assumed["cores"] * assumed["busy"]
    cores_month = (accept + flush + writes + reads) / assumed["busy"] * assumed["core_month"]
    month = cores_month + disk_gb / assumed["full"] * assumed["gb_month"]
    return {
        "rows written a second": rows_per_s,
        "writes a hit": rows_per_s / traffic.hits_per_s,
        "rows read before, a second": reads_per_s,
        "rows folded a second, each link once a day": traffic.links / DAY_S,
        "bytes to all replicas, MB/s": rows_per_s * share["bytes"] / share["written"] * assumed["replicas"] / 1e6,
        "bytes on all disks, TB": disk_gb / 1_000,
        "cores busy with hits": accept,
        "cores busy with flushes": flush,
        "cores of Cassandra, writes": writes,
        "cores of Cassandra, reads": reads,
        f"{MACHINES}owners' processors, hits": accept / usable,
        f"{MACHINES}owners' processors, flushes": flush / usable,
        f"{MACHINES}Cassandra's processors, writes": writes / usable,
        f"{MACHINES}Cassandra's processors, reads before writes": reads / usable,
        f"{MACHINES}Cassandra's disks": disk_gb / (assumed["disk_gb"] * assumed["full"]),
        "dollars a month": month,
        "dollars for a million links": month / traffic.links * 1e6,
    }


def first_full(found: dict[str, float]) -> str:
    """Returns what takes most of the machines."""
    return max((what for what in found if what.startswith(MACHINES)), key=found.__getitem__).removeprefix(MACHINES)


def page(figures: Figures) -> str:
    """Returns the page as Markdown."""
    traffic, server = Traffic(figures["links"], figures["hits_per_s"], figures["skew"]), figures["server"]
    found = {f"{share['flush_s']} s": needed(traffic, figures, share) for share in figures["shares"]}
    lines = zip(*(each.items() for each in found.values()), strict=True)
    return PAGE.read_text().format(
        **figures,
        top=traffic.rate(1),
        last=traffic.rate(traffic.links) * DAY_S,
        needed=markdown(("a flush every", *found), map(_line, lines)),
        first="; ".join(f"with a flush every {flush_s} {first_full(each)}" for flush_s, each in found.items()),
        owners=OWNERS,
        simulated=markdown(SIMULATED, _simulated(figures, traffic)),
        curves=server["curve_us"] / 1_000,
        top_batched=traffic.rate(1) * server["batched_us"] / 1e6,
        top_single=traffic.rate(1) * server["single_us"] / 1e6,
    )


def _line(cells: Sequence[tuple[str, float]]) -> Sequence[str]:
    what = cells[0][0]
    digits = 1 if what.startswith(MACHINES) else DIGITS.get(what, 0)
    return what, *(f"{figure:,.{digits}f}" for _, figure in cells)


def _simulated(figures: Figures, traffic: Traffic) -> Iterator[Sequence[str]]:
    for share in figures["shares"]:
        flush_s, written = share["flush_s"], share["written"]
        yield (
            f"{flush_s} s",
            f"{written / share['flushes']:,.0f}",
            f"{traffic.rows_per_s(flush_s) * flush_s / figures['part']:,.0f}",
            f"{share['read'] / written:.0%}",
            f"{share['bytes'] / written:,.0f}",
            f"{share['cpu_s'] / written * 1e6:.0f}",
        )
