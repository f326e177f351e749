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
from dataclasses import dataclass
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

FAMILIES: dict[str, Family] = {
    "clickcurve_hits_total": Family(
        "Hits by outcome: counted, late (counted as well), duplicate, refused.", ("outcome",)
    ),
    "clickcurve_refused_hits_total": Family("Hits refused, by the field to blame.", ("field",)),
    "clickcurve_adjusted_fields_total": Family(
        "Words of hits that were cut or left out because they broke a rule; the hits count.", ("field",)
    ),
    "clickcurve_ignored_events_total": Family(
        "Events of other products that are no hits, by product and reason.", ("product", "reason")
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
    "clickcurve_clock_offset_seconds": Family("The system's clock less the one that the server goes by."),
    "clickcurve_clock_steps_total": Family("Jumps of the system's clock by more than ten seconds."),
    "clickcurve_folding_held": Family("1 while what cannot be undone waits, since the clock jumped ahead."),
    "clickcurve_job_runs_total": Family("Runs of a scheduled job.", ("job",)),
    "clickcurve_job_failures_total": Family("Runs of a scheduled job that failed.", ("job",)),
    "clickcurve_job_skipped_total": Family("Due times skipped because the job still ran.", ("job",)),
    "clickcurve_job_lag_seconds": Family("How long after its due time the job last began.", ("job",)),
    "clickcurve_job_seconds": Family("How long the job's last run took.", ("job",)),
    "clickcurve_folded_rows_total": Family("Quiet rows that the retention pass folded."),
    "clickcurve_limit_history_lost_total": Family("Hits that the limiter was asked for and whose history may be lost."),
    "clickcurve_quarantined_journals": Family("Journals in the data folder that nothing flushes; see the log."),
    "clickcurve_limit_decisions_total": Family(
        "Decisions by event: allowed, refused, shadow (allowed), blind (no backend).", ("event", "outcome")
    ),
    "clickcurve_limit_fallbacks_total": Family("Decisions without a backend (outcome blind).", ("event",)),
    "clickcurve_limit_rules": Family("Rules of the limiter."),
    "clickcurve_limit_reloads_total": Family("Reloads of the rules.", ("outcome",)),
    "clickcurve_limit_keys": Family("Callers that a limiter's backend counts.", ("backend",)),
    "clickcurve_limit_bytes": Family("Memory that the callers of a backend take, roughly.", ("backend",)),
    "clickcurve_limit_keys_evicted_total": Family(
        "Callers forgotten because none of their hits counted any more.", ("backend",)
    ),
    "clickcurve_limit_overflow_total": Family("New callers that had to share a key.", ("backend",)),
    "clickcurve_limit_buckets_merged_total": Family(
        "Hits counted in a neighbouring bucket because there was no room.", ("backend",)
    ),
    "clickcurve_limit_reservations": Family("Reservations that are remembered.", ("backend",)),
    "clickcurve_limit_reservations_lapsed_early_total": Family(
        "Reservations dropped because there was no room.", ("backend",)
    ),
    "clickcurve_limit_failures_total": Family("Calls that a backend did not answer.", ("backend",)),
    "clickcurve_limit_breaker_open": Family("1 while a backend is not asked.", ("backend",)),
    "clickcurve_limit_breaker_opened_total": Family("Pauses in which a backend was not asked.", ("backend",)),
    "clickcurve_limit_settles_lost_total": Family(
        "Ended reservations of which the backend did not learn.", ("backend",)
    ),
    "clickcurve_limit_connections_made_total": Family("Connections made to a backend.", ("backend",)),
    "clickcurve_limit_idle_connections": Family("Open connections to a backend that are not in use.", ("backend",)),
    "clickcurve_limit_raced_total": Family(
        "Writes that failed because of another write, and were decided again.", ("backend",)
    ),
    "clickcurve_limit_seen_bytes": Family("Bytes kept of the items that were seen last.", ("backend",)),
    "clickcurve_limit_taken_back_total": Family(
        "Hits taken back from some rules because the write of another failed.", ("backend",)
    ),
    "clickcurve_limit_gave_up_total": Family("Hits refused because they lost every race.", ("backend",)),
    "clickcurve_limit_calls_under_way": Family("Calls in threads or waiting for one.", ("backend",)),
    "clickcurve_limit_fallback_open_total": Family("Hits admitted without the backend.", ("backend",)),
    "clickcurve_limit_fallback_closed_total": Family("Hits refused without the backend.", ("backend",)),
    "clickcurve_limit_fallback_local_total": Family("Hits decided in process, without the backend.", ("backend",)),
    "clickcurve_limit_blind_open_total": Family("Old name of ..._limit_fallback_open_total.", ("backend",)),
    "clickcurve_limit_blind_closed_total": Family("Old name of ..._limit_fallback_closed_total.", ("backend",)),
    "clickcurve_limit_blind_local_total": Family("Old name of ..._limit_fallback_local_total.", ("backend",)),
    "clickcurve_statsd_lines_total": Family(
        "Lines of StatsD: taken, refused (also later, by the write route), dropped, lost.", ("outcome",)
    ),
    "clickcurve_frames_total": Family(
        "Groups of hits sent to the cluster's journal: kept, or given up (their connections close).", ("outcome",)
    ),
    "clickcurve_rounds_total": Family(
        "Rounds of 2 s in which a worker shows the cluster that it lives: counted, missed.", ("outcome",)
    ),
    "clickcurve_dead_owners": Family("Owners in the cluster whose processes are gone, not emptied yet."),
    "clickcurve_adopted_owners_total": Family("Owners of processes that are gone, taken to be emptied."),
    "clickcurve_duty_held": Family("1 if this worker does the job for all servers of the store.", ("duty",)),
    "clickcurve_alerts_firing": Family("Alerts that fire, of those that this node keeps."),
    "clickcurve_alert_messages_total": Family(
        "Messages of alerts by outcome: delivered, failed (sent again), given up.", ("outcome",)
    ),
    "clickcurve_build_info": Family("Always 1; the label is the version that runs.", ("version",)),
}
# A metric that was renamed keeps its old name beside the new one for one version: old name -> new name.
FORMER_NAMES = {
    "clickcurve_unheard_answers_total": "clickcurve_incomplete_answers_total",
    "clickcurve_journals_set_aside": "clickcurve_quarantined_journals",
    "clickcurve_set_aside_hits": "clickcurve_quarantined_hits",
}
FAMILIES |= {old: FAMILIES[new]._replace(help=f"Former name of {new}.") for old, new in FORMER_NAMES.items()}


class _Collector(Collector):
    """Hands one answer's samples to prometheus-client."""

    def __init__(self, by_journal: Mapping[str, Sequence[Sample]]) -> None:
        self._by_journal = by_journal

    def collect(self) -> Iterator[Metric]:
        by_name: dict[str, list[tuple[str, Sample]]] = defaultdict(list)
        for journal, samples in sorted(self._by_journal.items()):
            for sample in samples:
                by_name[sample.name].append((journal, sample))
        for name, family in {**_PROCESS, **FAMILIES}.items():
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
    """One worker's samples, and the answer for all workers. `shared` is the folder of all, None with one worker."""

    journal: str
    sources: Sequence[Source]
    shared: Path | None
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
        registry.register(_Collector(self.by_journal(await self.publish())))
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
