"""The names on /metrics of the numbers that each part keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from clickcurve.visible import visible
from ingest.owner_status import OwnerStatus
from ingest.reading.receipt import IngestCounters
from server.http.problems import Problems
from server.metrics import Sample
from server.process.schedule import JobStatus
from server.tokens.gate import Gate

DAMAGED_ROWS = 20  # that are named; all are counted


def of_ingest(counters: IngestCounters) -> Iterator[Sample]:
    yield Sample("clickcurve_hits_total", counters.counted + counters.singles, ("counted",))
    yield Sample("clickcurve_hits_total", counters.late, ("late",))
    yield Sample("clickcurve_hits_total", counters.duplicate, ("duplicate",))
    yield Sample("clickcurve_hits_total", sum(counters.refused.values()), ("refused",))
    for rule, count in counters.refused.items():
        yield Sample("clickcurve_refused_hits_total", count, (rule,))
    for name, count in counters.adjusted.items():
        yield Sample("clickcurve_adjusted_fields_total", count, (name,))
    for name, count in counters.ignored.items():
        yield Sample("clickcurve_ignored_fields_total", count, (name,))
    for (product, reason), count in counters.ignored_events.items():
        yield Sample("clickcurve_ignored_events_total", count, (product, reason))
    yield Sample("clickcurve_writes_total", counters.singles, ("single",))
    yield Sample("clickcurve_writes_total", counters.batches, ("batch",))
    for status, count in counters.rejected.items():
        yield Sample("clickcurve_refused_writes_total", count, (str(status),))
    yield Sample("clickcurve_write_bytes_total", counters.body_bytes)
    yield Sample("clickcurve_unanswered_writes_total", counters.unanswered)
    yield Sample("clickcurve_abandoned_writes_total", counters.disconnected)


def of_owner(
    status: OwnerStatus, journal_limit_bytes: int | None, flush_state: str, flush_s: float
) -> Iterator[Sample]:
    """Yields what there is to say of an owner. journal_limit_bytes: None where the buffer alone bounds the journal."""
    yield Sample("clickcurve_owner_info", 1, (str(status.owner), status.state))
    yield Sample("clickcurve_store_up", status.store_up)
    yield Sample("clickcurve_buffered_hits", status.buffered_hits)
    yield Sample("clickcurve_buffered_entries", status.buffered_entries)
    yield Sample("clickcurve_buffer_bytes", status.buffer_bytes)
    yield Sample("clickcurve_buffer_limit_bytes", status.buffer_bytes_max)
    yield Sample("clickcurve_journal_bytes", status.journal_bytes)
    if journal_limit_bytes is not None:
        yield Sample("clickcurve_journal_limit_bytes", journal_limit_bytes)
    yield Sample("clickcurve_flushes_total", status.flushes)
    yield Sample("clickcurve_failed_flushes_total", status.failed_flushes)
    yield Sample("clickcurve_flush_at_seconds", status.last_flush_at)
    yield Sample("clickcurve_flush_seconds", status.last_flush_s)
    yield Sample("clickcurve_flush_share", status.last_flush_s / flush_s)
    yield Sample("clickcurve_flush_rows", status.last_flush_rows)
    yield Sample("clickcurve_flush_hits", status.last_flush_hits)
    yield Sample("clickcurve_flush_lag_seconds", status.lag_s)
    yield Sample("clickcurve_damaged_rows", len(status.quarantined))
    for key, hits in islice(status.quarantined.items(), DAMAGED_ROWS):
        yield Sample("clickcurve_quarantined_hits", hits, (str(status.owner), visible(key)))
    yield Sample("clickcurve_flush_stuck", flush_state == "stuck")


def of_jobs(jobs: Mapping[str, JobStatus]) -> Iterator[Sample]:
    for name, job in jobs.items():
        yield Sample("clickcurve_job_runs_total", job.runs, (name,))
        yield Sample("clickcurve_job_failures_total", job.failures, (name,))
        yield Sample("clickcurve_job_skipped_total", job.skipped, (name,))
        yield Sample("clickcurve_job_lag_seconds", job.lag_s, (name,))
        yield Sample("clickcurve_job_seconds", job.last_s, (name,))


def of_requests(problems: Problems, gate: Gate, answers: Counter[int], incomplete: int) -> Iterator[Sample]:
    for (status, title), count in problems.refused.items():
        yield Sample("clickcurve_refused_requests_total", count, (str(status), title))
    for reason, count in gate.refused.items():
        yield Sample("clickcurve_refused_tokens_total", count, (reason,))
    for status, count in answers.items():
        yield Sample("clickcurve_answers_total", count, (str(status),))
    yield Sample("clickcurve_incomplete_answers_total", incomplete)


def of_connections(refused: Counter[str]) -> Iterator[Sample]:
    for reason in ("full", "address", "unreadable", "headers", "head", "body", "drained", "answer"):
        yield Sample("clickcurve_refused_connections_total", refused[reason], (reason,))
