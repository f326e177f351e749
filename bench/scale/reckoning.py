"""From unit costs to machines: what a traffic takes, by plain multiplication, with what is assumed in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.scale.traffic import Traffic

GB = 1e9


@dataclass(frozen=True, slots=True)
class Assumed:
    """What no run here can tell: machines and their price, replicas, and how full things may be."""

    replicas: int = 3
    read_by: int = 2  # replicas that a read at QUORUM asks
    cores: int = 16  # of a machine
    busy: float = 0.5  # of its cores
    disk_gb: float = 2_000.0  # of a machine
    full: float = 0.5  # of its disk, for compactions
    core_month: float = 25.0  # a core with 4 GB of memory, in dollars
    gb_month: float = 0.10


@dataclass(frozen=True, slots=True)
class Needed:
    """What one interval of flushes takes. Cores are processor time a second."""

    flush_s: int
    rows_per_s: float
    reads_per_s: float
    accept_cores: float
    flush_cores: float
    cassandra_write_cores: float
    cassandra_read_cores: float
    written_mb_per_s: float
    disk_gb: float
    machines: dict[str, float]
    month: float

    @property
    def first(self) -> str:
        """What takes most of the machines."""
        return max(self.machines, key=self.machines.__getitem__)


def needed(traffic: Traffic, figures: dict[str, Any], share: dict[str, Any], assumed: Assumed) -> Needed:
    """Reckons for one interval; `share` is what the simulation saw with it."""
    server, node = figures["server"], figures["cassandra"]
    rows_per_s = traffic.rows_per_s(share["flush_s"])
    reads_per_s = rows_per_s * share["read"] / share["written"]
    row_us = share["cpu_s"] / share["written"] * 1e6 + max(0.0, node["flush_warm_us"] - node["flush_memory_us"])
    read_us = max(0.0, node["flush_cold_us"] - node["flush_warm_us"])
    node_read_us = max(0.0, node["node_cold_us"] - node["node_warm_us"])
    accept = traffic.hits_per_s * server["batched_us"] / 1e6
    flush = (rows_per_s * row_us + reads_per_s * read_us) / 1e6
    writes = rows_per_s * node["node_warm_us"] * assumed.replicas / 1e6
    reads = reads_per_s * node_read_us * assumed.read_by / 1e6
    disk_gb = traffic.links * figures["row_bytes"] * node["disk_bytes"] / node["row_bytes"] * assumed.replicas / GB
    usable = assumed.cores * assumed.busy
    machines = {
        "owners' processors, hits": accept / usable,
        "owners' processors, flushes": flush / usable,
        "Cassandra's processors, writes": writes / usable,
        "Cassandra's processors, reads before writes": reads / usable,
        "Cassandra's disks": disk_gb / (assumed.disk_gb * assumed.full),
    }
    cores = (accept + flush + writes + reads) / assumed.busy
    return Needed(
        share["flush_s"],
        rows_per_s,
        reads_per_s,
        accept,
        flush,
        writes,
        reads,
        rows_per_s * share["bytes"] / share["written"] * assumed.replicas / 1e6,
        disk_gb,
        machines,
        cores * assumed.core_month + disk_gb / assumed.full * assumed.gb_month,
    )
