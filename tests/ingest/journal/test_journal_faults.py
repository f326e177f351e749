"""Every call of the journal to the disk fails once, twice or for good, and the program stops at every call."""

from __future__ import annotations

import errno
from typing import Literal

import pytest

from tests.ingest.journal.audited_journal import AuditedJournal
from tests.ingest.journal.faulty_disk import DONE, KINDS, Fault, FaultyDisk, Stopped
from tests.power import sweep

ENDS = ("kill", "evict", "power")


def run_story(audited: AuditedJournal) -> None:
    """Every kind of step, in an order that meets all states: a flush open, hits behind it, a new segment."""
    audited.append(3)
    audited.record_identity("first")
    audited.append(2)
    begin(audited)
    audited.append(2)
    finish(audited)
    audited.record_identity("second")
    audited.append(9)  # some segments
    begin(audited)
    finish(audited)
    begin(audited)  # of nothing
    audited.append(1)
    finish(audited)
    audited.append(1)


def begin(audited: AuditedJournal) -> None:
    if audited.journal and not audited.journal.state.flush:
        audited.record_flush()


def finish(audited: AuditedJournal) -> None:
    if audited.journal and audited.journal.state.flush:
        audited.finish_flush()


def run_with(fault: Fault, end: str, seed: int, sync: Literal["always", "off"] = "always") -> Fault:
    disk = FaultyDisk(seed)
    audited = AuditedJournal(disk, sync)
    audited.open()
    disk.fault = fault
    try:
        run_story(audited)
    except Stopped:
        end = "kill" if end == "go on" else end
    disk.fault = None
    if end == "go on":
        audited.check()
        audited.run_on()
        end = "power" if sync == "always" else "kill"
    audited.recover(end)
    return fault


@pytest.mark.parametrize("times", [1, 2, 1_000])
@pytest.mark.parametrize("way", [*DONE, "short"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_holds_when_the_nth_call_of_a_kind_fails(kind: str, way: str, times: int) -> None:
    if way == "short" and kind != "write":
        return
    for nth in sweep(f"{kind} {way} {times}"):
        for end in ("go on", ENDS[(nth + times) % 3]):  # each n meets each end, with one way or another
            code = errno.ENOSPC if nth % 2 else errno.EIO
            fired = bool(run_with(Fault(kind, nth, way, times, code), end, seed=nth).fired)
        if not fired:
            break


@pytest.mark.parametrize("way", ["stop", "stop after"])
@pytest.mark.parametrize("sync", ["always", "off"])
def test_every_answer_holds_when_the_program_stops_at_the_nth_call(way: str, sync: Literal["always", "off"]) -> None:
    for end in ("kill", "power"):
        for nth in sweep(f"{way} {sync} {end}"):
            if not [run_with(Fault(None, nth, way), end, seed, sync).fired for seed in range(3)][-1]:
                break
