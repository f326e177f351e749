"""/metrics: plain numbers that the parts keep, turned into Prometheus' text on request.

Every sample carries the label `journal`, which names its worker. With several workers any of them may be asked, so each
writes its samples to a file. The worker that answers renews its own file, then reads all of them: so no series ever
steps back, whichever worker answers, unless the disk takes longer than WRITE_S. Other workers' numbers are as old as
their last publication.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

WRITE_S = 1.0
_VERSION_GIVEN = re.compile(r"\bversion\s*=([^;]*)")
_VERSION = re.compile(r"\s*[0-9]{1,4}(\.[0-9]{1,4}){0,3}\s*", re.ASCII)


class Family(NamedTuple):
    """What a metric says, and the names of its labels next to `journal`. It is a counter if it is named `..._total`."""

    help: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """One number. `labels` are the values of its family's labels, in their order."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


Source = Callable[[], Iterable[Sample]]

# Of the core; each part names its own (`server.app.parts`).
CORE_FAMILIES: dict[str, Family] = {
    "clickcurve_hits_total": Family(
        "Hits by outcome: counted, late (counted as well), duplicate, refused.", ("outcome",)
    ),
    "clickcurve_refused_hits_total": Family("Hits refused, by the field to blame.", ("field",)),
    "clickcurve_adjusted_fields_total": Family(
        "Words of hits that were cut or left out because they broke a rule; the hits count.", ("field",)
    ),
    "clickcurve_ignored_events_total": Family(
        "Events of other products that are no hits, or whose amount is not counted, by product and reason.",
        ("product", "reason"),
    ),
    "clickcurve_ignored_fields_total": Family("Hits with a field that no dimension uses.", ("field",)),
    "clickcurve_writes_total": Family("Requests that were answered with a receipt.", ("kind",)),
    "clickcurve_write_bytes_total": Family("Decompressed bytes of the bodies of these requests."),
    "clickcurve_refused_writes_total": Family("Requests with hits that were refused as a whole.", ("status",)),
    "clickcurve_unanswered_writes_total": Family("Connections closed because the outcome was unknown."),
    "clickcurve_abandoned_writes_total": Family("Clients that left in the middle of a body."),
    "clickcurve_incomplete_answers_total": Family(
        "Questions for which another worker was not reached: its newest hits may be missing."
    ),
    "clickcurve_answers_total": Family("Answers to requests other than those with hits.", ("status",)),
    "clickcurve_refused_requests_total": Family("Refused requests other than those with hits.", ("status", "title")),
    "clickcurve_refused_tokens_total": Family("Requests without a token that allows them.", ("reason",)),
    "clickcurve_refused_connections_total": Family("Connections closed by the server.", ("reason",)),
    "clickcurve_owner_info": Family("1 for the state that the owner is in.", ("owner", "state")),
    "clickcurve_store_up": Family("1 if the store answered the last flush."),
    "clickcurve_buffered_hits": Family("Accepted hits that are not in the store yet."),
    "clickcurve_buffered_entries": Family("Counts (a link's minute each) that are not in the store yet."),
    "clickcurve_buffer_bytes": Family("Memory for hits that are not in the store yet, and for their flush."),
    "clickcurve_buffer_limit_bytes": Family("Memory that these hits and their flush may take."),
    "clickcurve_journal_bytes": Family("Bytes in the journal."),
    "clickcurve_journal_stalled_seconds": Family(
        "For how long the disk, or the cluster, has not answered a write of the journal; 0 while it answers in time."
    ),
    "clickcurve_journal_limit_bytes": Family("Bytes that the journal may hold, if it is on a disk."),
    "clickcurve_flushes_total": Family("Flushes that the store took."),
    "clickcurve_failed_flushes_total": Family("Flushes that the store did not take; they are tried again."),
    "clickcurve_flush_at_seconds": Family("When the last flush began, epoch seconds."),
    "clickcurve_flush_seconds": Family("How long the last flush took."),
    "clickcurve_flush_rows": Family("Rows that the last flush wrote."),
    "clickcurve_flush_hits": Family("Hits that the last flush moved."),
    "clickcurve_flush_share": Family("Duration of the last flush, as a share of the flush interval."),
    "clickcurve_flush_lag_seconds": Family("Age of the oldest hit that is not in the store."),
    "clickcurve_damaged_rows": Family("Rows that flushes found damaged; all others are flushed."),
    "clickcurve_quarantined_hits": Family("Hits that wait until a damaged row is repaired.", ("owner", "key")),
    "clickcurve_flush_stuck": Family("1 while the oldest hit is older than four flush intervals."),
    "clickcurve_row_cache_hits_total": Family("Own rows that a flush found in memory."),
    "clickcurve_row_cache_misses_total": Family("Own rows that a flush had to read."),
    "clickcurve_row_cache_bytes": Family("Bytes of own rows kept in memory."),
    "clickcurve_store_requests_total": Family("Requests to the database cluster."),
    "clickcurve_store_retries_total": Family("Requests to the cluster that repeat one after an error."),
    "clickcurve_store_unknown_total": Family("Conditional updates whose outcome had to be read back."),
    "clickcurve_job_runs_total": Family("Runs of a scheduled job.", ("job",)),
    "clickcurve_job_failures_total": Family("Runs of a scheduled job that failed.", ("job",)),
    "clickcurve_job_skipped_total": Family("Due times skipped because the job still ran.", ("job",)),
    "clickcurve_job_lag_seconds": Family("How long after its due time the job last began.", ("job",)),
    "clickcurve_job_seconds": Family("How long the job's last run took.", ("job",)),
    "clickcurve_folded_rows_total": Family("Quiet rows that the retention pass folded."),
    "clickcurve_quarantined_journals": Family("Journals in the data folder that nothing flushes; see the log."),
    "clickcurve_build_info": Family(
        "Always 1; the version that runs, and its build: plain or compiled.", ("version", "build")
    ),
}
# A metric that was renamed keeps its old name beside the new one for one version: old name -> new name.
FORMER_NAMES = {
    "clickcurve_unheard_answers_total": "clickcurve_incomplete_answers_total",
    "clickcurve_journals_set_aside": "clickcurve_quarantined_journals",
    "clickcurve_set_aside_hits": "clickcurve_quarantined_hits",
}
CORE_FAMILIES |= {old: CORE_FAMILIES[new]._replace(help=f"Former name of {new}.") for old, new in FORMER_NAMES.items()}


class _Collector(Collector):
    """Hands one answer's samples to prometheus-client."""

    def __init__(self, by_journal: Mapping[str, Sequence[Sample]], families: Mapping[str, Family]) -> None:
        self._by_journal, self._families = by_journal, families

    def collect(self) -> Iterator[Metric]:
        by_name: dict[str, list[tuple[str, Sample]]] = defaultdict(list)
        for journal, samples in sorted(self._by_journal.items()):
            for sample in samples:
                by_name[sample.name].append((journal, sample))
        for name, family in {**_PROCESS, **self._families}.items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            metric = kind(name, family.help, labels=["journal", *family.labels])
            for journal, sample in by_name[FORMER_NAMES.get(name, name)]:
                metric.add_metric([journal, *sample.labels], sample.value)
            yield metric


_PROCESS = {
    "process_cpu_seconds_total": Family("CPU time spent."),
    "process_resident_memory_bytes": Family("Memory in use."),
    "process_open_fds": Family("Open file descriptors."),
    "process_start_time_seconds": Family("When the process started, epoch seconds."),
}


def process_samples() -> Iterator[Sample]:
    """Yields what the system says of this process."""
    for metric in ProcessCollector(registry=None).collect():
        for sample in metric.samples:
            if sample.name in _PROCESS:
                yield Sample(sample.name, sample.value)


@dataclass(eq=False)
class Metrics:
    """One worker's samples, and the answer for all workers. `shared` is the folder of all, None with one worker.

    families: what can be said; samples of others are left out.
    """

    journal: str
    sources: Sequence[Source]
    shared: Path | None
    families: Mapping[str, Family] = field(default_factory=lambda: CORE_FAMILIES)
    _written: asyncio.Future[None] | None = None

    def _own(self) -> list[Sample]:
        return [sample for source in self.sources for sample in source()]

    async def publish(self) -> list[Sample]:
        """Writes this worker's samples to the shared folder, in a thread; returns them.

        It waits for a disk that does not answer for WRITE_S, and begins no other write meanwhile.
        """
        while self._written is not None and not self._written.done():
            if not (await asyncio.wait({self._written}, timeout=WRITE_S))[0]:
                return self._own()
        own = self._own()
        if self.shared is not None:
            # Its own name: as this one ends another may begin, before the loop comes back here.
            self._written = writing = asyncio.ensure_future(asyncio.to_thread(self._write, self.shared, own))
            if (await asyncio.wait({writing}, timeout=WRITE_S))[0]:
                writing.result()
        return own

    def _write(self, shared: Path, own: list[Sample]) -> None:
        fresh = shared / f".{self.journal}"
        fresh.write_text(json.dumps(own), "utf-8")
        fresh.replace(shared / f"{self.journal}.json")

    def by_journal(self, own: list[Sample] | None = None) -> dict[str, list[Sample]]:
        """Returns the samples of every worker; own: this one's, if not as of now."""
        by_journal: dict[str, list[Sample]] = {}
        for file in self.shared.glob("*.json") if self.shared is not None else ():
            rows = json.loads(file.read_text("utf-8"))
            by_journal[file.stem] = [Sample(name, value, tuple(labels)) for name, value, labels in rows]
        by_journal[self.journal] = self._own() if own is None else own
        return by_journal

    async def answer(self, accept: str) -> tuple[bytes, str]:
        """Returns (body, content type) for a scraper whose Accept header is `accept`."""
        encode, content_type = choose_encoder(known_versions(accept))
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(self.by_journal(await self.publish()), self.families))
        return encode(registry), content_type


def known_versions(accept: str) -> str:
    """Leaves out the types whose version is none: prometheus-client raises for them."""
    types = accept.split(",")
    return ",".join(kind for kind in types if all(map(_VERSION.fullmatch, _VERSION_GIVEN.findall(kind))))


def clear_samples(shared: Path) -> None:
    """Makes the folder of samples and removes those of former workers. Called before any worker runs."""
    shared.mkdir(mode=0o700, exist_ok=True)
    for file in [*shared.glob("*.json"), *shared.glob(".journal-*")]:
        file.unlink()
