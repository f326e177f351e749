"""Unit costs, measured: processor time of a hit, a question, a flushed row and a fold; of a Cassandra node, a row."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import median
from time import process_time, time
from typing import Any

from bench import servers
from bench.ingest import NDJSON
from bench.scale.traffic import row
from bench.workload import Workload, batch
from bench.wrk import Requests, drive
from clickcurve.buckets.codec import decode_lazily, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.row import Delta, apply
from clickcurve.keys import link_key
from ingest.batch import Batch
from storage.contract import Store
from storage.from_uri import open_store
from storage.memory_store import MemoryStore
from testing.cassandra.node import Node
from testing.cassandra.tables import table_stats
from testing.owner_process import OwnerProcess, TrackedDisk

Costs = dict[str, Any]
KEYSPACE = "scale"
ROWS, HITS = 20_000, 60  # rows of a flush on a Cassandra node, and moments with hits of each
TICKS = os.sysconf("SC_CLK_TCK")
RATE = 1e-3  # hits a second of the links whose rows are folded and written: 86 a day


def cpu_s(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def of_server(folder: Path, rounds: int, seconds: int) -> Costs:
    """Microseconds of a hit by itself and in a batch, and of a curve, over HTTP, without flushes."""
    workload = Workload(10_000, 100_000, 400, int(time()) // 3_600 * 3_600)
    keys = workload.draw(20_000, seed=1)
    singles, curves = folder / "singles.txt", folder / "curves.txt"
    singles.write_text("".join(f"/v1/hits/{key}\n" for key in keys))
    curves.write_text("".join(f"/v1/links/{key}/curve?last=30d\n" for key in keys))
    bodies = []
    for number in range(20):
        bodies.append(folder / f"body-{number}")
        bodies[-1].write_text("\n".join(batch(workload.draw(1_000, seed=10 + number), int(time()) - 60)))
    asked: dict[str, tuple[Requests, int, int]] = {
        "single": (Requests.paths("POST", singles), 32, 1),
        "batched": (Requests.bodies("/v1/hits", NDJSON, bodies), 4, 1_000),
        "curve": (Requests.paths("GET", curves), 4, 1),
    }
    found: dict[str, list[float]] = {name: [] for name in asked}
    with servers.clickcurve(folder / "server", {"CLICKCURVE_FLUSH_S": "3600"}, pinned=True) as server:
        for _ in range(rounds):
            for name, (requests, connections, each) in asked.items():
                before = cpu_s(server.pid)
                run = drive(server.url, requests, connections, seconds)
                found[name].append((cpu_s(server.pid) - before) / (run.requests * each) * 1e6)
    return {f"{name}_us": median(each) for name, each in found.items()}


def of_fold(rounds: int) -> Costs:
    """Microseconds of reading, folding by a day and encoding a row, and of the same without a day between."""
    now = int(time()) // DAY_S * DAY_S + DAY_S // 2
    rows = [row(RATE, now, Random(number)) for number in range(200)]
    delta = Delta({now - 60: 1}, {})

    def again(moment: int) -> float:
        begun = process_time()
        for data in rows:
            encode(apply(decode_lazily(data), delta, 2, fold_day(moment), 0, CLICKS))
        return (process_time() - begun) / len(rows) * 1e6

    same, folded = ([again(moment) for _ in range(rounds * 3)] for moment in (now, now + DAY_S))
    return {"row_us": median(same), "folded_row_us": median(folded), "row_bytes": sum(map(len, rows)) / len(rows)}


def of_cassandra(node: Node, uri: str, folder: Path, rounds: int) -> Costs:
    """Microseconds of the flush and of the node for each row: cold, where rows are read before, and warm.

    `memory` is the same flush to a store in memory: what is dearer on Cassandra is the driver's.
    """
    now = int(time()) // 60 * 60
    asyncio.run(_fill(lambda: open_store(uri, CLICKS), folder / "scale", now))
    runs = [asyncio.run(_flushes(node.pid, open_store(uri, CLICKS), folder / "scale", now)) for _ in range(rounds)]
    memory = MemoryStore()
    asyncio.run(_fill(lambda: memory, folder / "memory", now))
    in_memory = [asyncio.run(_flushes(None, memory, folder / "memory", now)) for _ in range(rounds)]
    node.nodetool("flush", KEYSPACE)
    node.nodetool("compact", KEYSPACE)
    found = {name: median(run[name] for run in runs) for name in runs[0]}
    return {
        **found,
        "flush_memory_us": median(run["flush_warm_us"] for run in in_memory),
        "disk_bytes": table_stats(node, KEYSPACE)["rows"].disk_bytes / ROWS,
        "row_bytes": sum(len(asyncio.run(memory.rows(link_key(f"s{n}"))).rows[0].data) for n in range(100)) / 100,
    }


async def _fill(store_of: Callable[[], Store], journal: Path, now: int) -> None:
    """Gives links the hits of 400 days."""
    chance = Random(7)
    with closing(store_of()) as store:
        owner = OwnerProcess(journal, store, lambda: float(now), alone=False, disk=TrackedDisk()).owner
        for _ in range(HITS):
            at = (now - int(400 * DAY_S * chance.random() ** 1.35)) // 3_600 * 3_600
            await owner.accept(Batch(people={at: {f"s{number}": chance.randint(1, 9) for number in range(ROWS)}}))
        await owner.flush()
        await owner.close()


async def _flushes(pid: int | None, opened: Store, journal: Path, now: int) -> Costs:
    """An owner after its start: none of the rows is in memory, then all of them are."""
    found: Costs = {}
    with closing(opened) as store:
        owner = OwnerProcess(journal, store, lambda: float(now), alone=False, disk=TrackedDisk()).owner
        await owner.flush()
        for which in ("cold", "warm"):
            await owner.accept(Batch(people={now: {f"s{number}": 1 for number in range(ROWS)}}))
            before = process_time(), cpu_s(pid) if pid else 0.0
            await owner.flush()
            found[f"flush_{which}_us"] = (process_time() - before[0]) / ROWS * 1e6
            if pid:
                found[f"node_{which}_us"] = (cpu_s(pid) - before[1]) / ROWS * 1e6
        await owner.close()
    return found
