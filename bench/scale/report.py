"""The page of scale, made of a file of figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template
from typing import Any

from bench.measure import markdown
from bench.scale.reckoning import Assumed, Needed, needed
from bench.scale.share import OWNERS
from bench.scale.traffic import Traffic
from clickcurve.buckets.ladder import DAY_S

PAGE = Path(__file__).with_name("page.txt")
Figures = dict[str, Any]


def page(figures: Figures) -> str:
    """The page as Markdown."""
    traffic = Traffic(figures["links"], figures["hits_per_s"], figures["skew"])
    assumed = Assumed()
    found = [needed(traffic, figures, share, assumed) for share in figures["shares"]]
    server = figures["server"]
    return Template(PAGE.read_text()).substitute(
        {name: figures[name] for name in ("day", "machine", "python", "load", "skew")},
        links=f"{traffic.links:,}",
        hits=f"{traffic.hits_per_s:,.0f}",
        top=f"{traffic.rate(1):,.0f}",
        last=f"{traffic.rate(traffic.links) * DAY_S:.1f}",
        row_bytes=f"{figures['row_bytes']:,.0f}",
        costs=markdown(("what", "figure", "measured by"), _costs(figures)),
        assumed=_assumed(assumed),
        needed=markdown(("a flush every", *(f"{each.flush_s} s" for each in found)), _needed(found, traffic)),
        first="; ".join(f"with a flush every {each.flush_s} s {each.first}" for each in found) + ".",
        part=f"{figures['part']:,}",
        owners=OWNERS,
        simulated=markdown(SIMULATED, _simulated(figures, traffic)),
        curve_us=f"{server['curve_us']:.0f}",
        curves=f"{server['curve_us'] / 1_000:.2f}",
        top_batched=f"{traffic.rate(1) * server['batched_us'] / 1e6:.2f}",
        top_single=f"{traffic.rate(1) * server['single_us'] / 1e6:.1f}",
    )


ROW_CODEC = "`python -m bench.micro row_codec`"
SIMULATED = (
    "a flush every",
    "rows a flush",
    "by the formula",
    "rows read before",
    "bytes of a row",
    "µs of a row",
)


def _costs(figures: Figures) -> Iterable[Sequence[str]]:
    server, fold, node = figures["server"], figures["fold"], figures["cassandra"]
    single, batched = f"{server['single_us']:.1f} µs", f"{server['batched_us']:.2f} µs"
    warm = f"{node['flush_warm_us']:.0f} µs, the node {node['node_warm_us']:.0f}"
    cold = f"{node['flush_cold_us']:.0f} µs, the node {node['node_cold_us']:.0f}"
    yield "a hit by itself, over HTTP, server's processor", single, "`make bench ARGS=workers`"
    yield "a hit in batches of 1,000", batched, "`make bench ARGS=workers`"
    yield f"a row of {fold['row_bytes']:,.0f} B read, added to and encoded", f"{fold['row_us']:.0f} µs", ROW_CODEC
    yield "... and folded by a day", f"{fold['folded_row_us']:.0f} µs", "`python -m bench.micro growth`"
    memory = f"{node['flush_memory_us']:.0f} µs"
    yield f"a row of {node['row_bytes']:,.0f} B flushed to memory", memory, "`python -m bench.micro growth`"
    yield "... to Cassandra, row in the owner's memory", warm, "`python -m bench.cassandra flush`"
    yield "... row read before", cold, "`python -m bench.cassandra flush`"
    yield "... on the node's disk, compacted", f"{node['disk_bytes']:,.0f} B", "`python -m bench.cassandra month`"


def _assumed(assumed: Assumed) -> str:
    return (
        f"{assumed.replicas} replicas, reads by {assumed.read_by}; machines of {assumed.cores} cores, "
        f"{assumed.busy:.0%} busy, and {assumed.disk_gb:,.0f} GB of disk, {assumed.full:.0%} full; "
        f"${assumed.core_month:.0f} a month for a core with 4 GB of memory, ${assumed.gb_month:.2f} for a GB of disk"
    )


def _needed(found: Sequence[Needed], traffic: Traffic) -> Iterable[Sequence[str]]:
    yield "rows written a second", *(f"{each.rows_per_s:,.0f}" for each in found)
    yield "writes a hit", *(f"{each.rows_per_s / traffic.hits_per_s:.3f}" for each in found)
    yield "rows read before, a second", *(f"{each.reads_per_s:,.0f}" for each in found)
    yield "rows folded a second, each link once a day", *(f"{traffic.links / DAY_S:,.0f}" for _ in found)
    yield "bytes to all replicas, MB/s", *(f"{each.written_mb_per_s:,.0f}" for each in found)
    yield "bytes on all disks, TB", *(f"{each.disk_gb / 1_000:,.1f}" for each in found)
    yield "cores busy with hits", *(f"{each.accept_cores:,.1f}" for each in found)
    yield "cores busy with flushes", *(f"{each.flush_cores:,.0f}" for each in found)
    yield "cores of Cassandra, writes", *(f"{each.cassandra_write_cores:,.0f}" for each in found)
    yield "cores of Cassandra, reads", *(f"{each.cassandra_read_cores:,.0f}" for each in found)
    for what in found[0].machines:
        yield f"machines for {what}", *(f"{each.machines[what]:,.1f}" for each in found)
    yield "dollars a month", *(f"{each.month:,.0f}" for each in found)
    yield "dollars for a million links", *(f"{each.month / traffic.links * 1e6:,.2f}" for each in found)


def _simulated(figures: Figures, traffic: Traffic) -> Iterable[Sequence[str]]:
    for share in figures["shares"]:
        rows = share["written"] / share["flushes"]
        yield (
            f"{share['flush_s']} s",
            f"{rows:,.0f}",
            f"{traffic.rows_per_s(share['flush_s']) * share['flush_s'] / figures['part']:,.0f}",
            f"{share['read'] / share['written']:.0%}",
            f"{share['bytes'] / share['written']:,.0f}",
            f"{share['cpu_s'] / share['written'] * 1e6:.0f}",
        )
