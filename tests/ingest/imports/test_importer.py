"""Imports count each line once: again, grown, rotated, packed, look-alike, killed anywhere, in company."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.errors import JournalBehind
from ingest.imports.importer import SourceKind, kind_of
from ingest.imports.target import ImportRefused
from tests.ingest.imports.import_kit import FAULTS, Died, MemoryTarget, expected, importer, log_line, log_lines, run
from tests.power import examples


def file(tmp_path: Path, data: bytes, name: str = "access.log") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def test_every_line_counts_once_however_often_a_log_is_imported(tmp_path: Path, target: MemoryTarget) -> None:
    data = log_lines(95) + log_lines(5, 95, agent="Googlebot") + b"junk\n" + log_line(1).replace(b" 302 ", b" 404 ")
    path = file(tmp_path, data)
    first = run(target, path)
    assert (first.lines, first.people_hits, first.bot_hits, first.bad) == (102, 95, 5, 1)
    assert (first.skipped, first.counted, first.late) == ({"status 404": 1}, 100, 100)
    assert (first.first_bad[0].line, first.to_byte, first.left_bytes) == (101, len(data), 0)
    assert first.chunks > 5
    assert (target.people, target.bots) == (expected(95), Counter({f"k{n}": 1 for n in range(5)}))
    again = run(target, path)
    assert (again.lines, again.chunks, again.from_byte) == (0, 0, len(data))
    assert target.people == expected(95)


def test_a_log_that_grew_was_rotated_and_packed_is_known_again(tmp_path: Path, target: MemoryTarget) -> None:
    path = file(tmp_path, log_lines(1))
    run(target, path)
    path.write_bytes(log_lines(7))
    run(target, path)
    moved = path.rename(tmp_path / "access.log.1")
    moved.write_bytes(log_lines(60))
    run(target, moved)
    packed = file(tmp_path, gzip.compress(log_lines(60)), "access.log.1.gz")
    assert run(target, packed).chunks == 0
    packed.write_bytes(gzip.compress(log_lines(40)) + gzip.compress(log_lines(23, 40)))
    assert run(target, packed).lines == 3
    assert target.people == expected(63)
    assert len(target.offsets) == 1


@settings(max_examples=examples(50))
@given(st.lists(st.integers(1, 3000), max_size=8))
def test_growth_may_be_seen_at_any_length(tmp_path_factory: pytest.TempPathFactory, lengths: list[int]) -> None:
    """Also in the middle of a line, and when it is too short to have a name."""
    target, data = MemoryTarget(), log_lines(25)
    path = tmp_path_factory.mktemp("grow") / "access.log"
    for length in [*sorted(lengths), len(data)]:
        path.write_bytes(data[:length])
        run(target, path)
    assert target.people == expected(25)


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 2500)), max_size=8), st.integers(0, 4))
def test_logs_that_begin_alike_are_told_apart(
    tmp_path_factory: pytest.TempPathFactory, looks: list[tuple[str, int]], alike: int
) -> None:
    """Two servers' logs with the same first lines, seen in any order at any length: each counts its own lines.

    The lines that they share count once or twice while one of them is not yet longer; in the end twice.
    """
    target = MemoryTarget()
    folder = tmp_path_factory.mktemp("alike")
    logs = {server: log_lines(alike) + log_lines(20, alike, server) for server in "ab"}
    shown = dict.fromkeys("ab", 0)
    for server, length in [*looks, ("a", 9999), ("b", 9999), ("a", 9999), ("b", 9999)]:
        shown[server] = max(shown[server], length)
        path = folder / server
        path.write_bytes(logs[server][: shown[server]])
        run(target, path)
    assert target.people == expected(20 + alike) + expected(20 + alike)


def test_a_part_of_a_known_log_adds_nothing_and_says_so(tmp_path: Path, target: MemoryTarget) -> None:
    run(target, file(tmp_path, log_lines(50)))
    part = run(target, file(tmp_path, log_lines(20), "part"))
    assert (part.is_part, part.chunks, part.from_byte) == (True, 0, len(log_lines(50)))


def test_a_label_counts_a_log_anew(tmp_path: Path, target: MemoryTarget) -> None:
    path = file(tmp_path, log_lines(10))
    for label in ("", "twice", "twice"):
        run(target, path, label=label)
    assert target.people == expected(10) + expected(10)


# --- the last line ------------------------------------------------------------------------------------------------
def test_a_last_line_without_its_newline_counts_if_it_is_whole(tmp_path: Path, target: MemoryTarget) -> None:
    path = file(tmp_path, log_lines(3)[:-1])
    assert (run(target, path).left_bytes, target.people) == (0, expected(3))
    path.write_bytes(log_lines(5))
    summary = run(target, path)
    assert (summary.skipped, target.people) == ({"blank line": 1}, expected(5))


def test_a_last_line_that_is_cut_waits_for_its_end(tmp_path: Path, target: MemoryTarget) -> None:
    path = file(tmp_path, log_lines(3)[:-30])
    assert run(target, path).left_bytes == len(log_line(2)) - 30
    assert target.people == expected(2)
    path.write_bytes(log_lines(3))
    run(target, path)
    assert target.people == expected(3)


BOT_LINE = log_line(1, agent="Googlebot/2.1 (+http://www.google.com/bot.html)")


@pytest.mark.parametrize("at", range(1, len(BOT_LINE), 3))
def test_a_bot_whose_line_is_half_written_never_counts_as_a_person(
    tmp_path: Path, target: MemoryTarget, at: int
) -> None:
    path = file(tmp_path, BOT_LINE * 3 + BOT_LINE[:-at])
    run(target, path)
    path.write_bytes(BOT_LINE * 4)
    summary = run(target, path)
    assert (target.bots.total(), target.people.total(), summary.bad) == (4, 0, 0)


@pytest.mark.parametrize("first", [b"", b"\n", b'{"status":302}\n'])
def test_a_last_line_with_no_line_like_it_before_waits_for_its_end(
    tmp_path: Path, target: MemoryTarget, first: bytes
) -> None:
    path = file(tmp_path, first + BOT_LINE[:-1])
    assert (run(target, path).left_bytes, target.bots.total()) == (len(BOT_LINE) - 1, 0)


def test_a_json_line_is_whole_when_its_brace_is_closed(tmp_path: Path, target: MemoryTarget) -> None:
    line = b'{"ts":1760000000,"status":302,"request":"GET /k HTTP/1.1"}'
    path = file(tmp_path, b"\n" + line[:-1])
    assert run(target, path).left_bytes == len(line) - 1
    path.write_bytes(b"\n" + line)
    assert (run(target, path).left_bytes, target.people) == (0, {"k": 1})


def test_a_last_line_that_is_cut_in_a_packed_log_is_bad(tmp_path: Path, target: MemoryTarget) -> None:
    summary = run(target, file(tmp_path, gzip.compress(log_lines(3)[:-30])))
    assert (summary.bad, summary.left_bytes, target.people) == (1, 0, expected(2))


def test_a_packed_log_that_ends_early_counts_what_there_is_and_goes_on_later(
    tmp_path: Path, target: MemoryTarget
) -> None:
    packed = gzip.compress(log_lines(500))
    path = file(tmp_path, packed[: len(packed) // 2])
    summary = run(target, path)
    assert summary.damage == "the gzip data ends early" and 0 < summary.lines < 500
    path.write_bytes(packed)
    assert run(target, path).damage is None
    assert target.people == expected(500)


def test_an_empty_file_and_one_that_is_too_short_are_left(tmp_path: Path, target: MemoryTarget) -> None:
    assert run(target, file(tmp_path, b"")).lines == 0
    assert run(target, file(tmp_path, b"203.0.113.9")).left_bytes == 11


# --- faults -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failure_at_any_request_changes_no_count(tmp_path: Path, fault: str) -> None:
    """The n-th request fails, for n = 1, 2, 3 and so on until none does."""
    path = file(tmp_path, log_lines(30))
    for nth in range(1, 100):
        target = MemoryTarget()
        target.faults = {nth: fault}
        try:
            run(target, path)
        except Died:
            run(target, path)
        assert target.people == expected(30)
        if nth > target.requests:
            return
    pytest.fail("never ran without a fault")


@settings(max_examples=examples(50))
@given(st.dictionaries(st.integers(1, 60), st.sampled_from(FAULTS), max_size=30))
def test_many_failures_change_no_count(tmp_path_factory: pytest.TempPathFactory, faults: dict[int, str]) -> None:
    path = file(tmp_path_factory.mktemp("faults"), log_lines(30))
    target = MemoryTarget()
    target.faults = faults
    for _ in range(100):
        try:
            asyncio.run(importer(target, tries=None).run(path))
            break
        except Died:
            continue
    assert target.people == expected(30)


def test_a_lost_receipt_is_told(tmp_path: Path, target: MemoryTarget) -> None:
    families = 3  # are asked for first
    target.faults = {families + 2: "lost after"}
    summary = asyncio.run(importer(target, chunk_bytes=40_000).run(file(tmp_path, log_lines(1000))))
    assert (summary.lines, summary.unanswered) == (1000, 1)
    assert target.people == expected(1000)


def test_it_gives_up_after_its_tries_and_goes_on_in_the_next_run(tmp_path: Path, target: MemoryTarget) -> None:
    path = file(tmp_path, log_lines(30))
    target.faults = dict.fromkeys(range(5, 100), "behind")
    with pytest.raises(JournalBehind):
        run(target, path)
    target.faults = {}
    run(target, path)
    assert target.people == expected(30)


def test_another_worker_is_looked_for_over_new_connections(tmp_path: Path, target: MemoryTarget) -> None:
    target.faults = dict.fromkeys(range(5, 20), "elsewhere")
    run(target, file(tmp_path, log_lines(30)))
    assert target.reconnects == 15
    assert target.people == expected(30)


def test_two_imports_of_one_log_at_once_count_it_once(tmp_path: Path, target: MemoryTarget) -> None:
    path = file(tmp_path, log_lines(300))

    async def both() -> None:
        await asyncio.gather(importer(target).run(path), importer(target, chunk_bytes=900).run(path))

    asyncio.run(both())
    assert target.people == expected(300)


def test_a_log_written_anew_while_it_is_read_is_begun_again(tmp_path: Path, target: MemoryTarget) -> None:
    path = file(tmp_path, log_lines(20_000))  # longer than what is read ahead to know it
    written = log_lines(10, server="new")

    def rewrite() -> None:
        if target.requests == 5:
            path.write_bytes(written)

    target.before_send = rewrite
    summary = asyncio.run(importer(target, chunk_bytes=200_000).run(path))
    old, new = sorted((kept.offset for kept in target.offsets.values()), reverse=True)
    assert (new, summary.lines) == (len(written), 10 + log_lines(20_000)[:old].count(b"\n"))
    assert target.people == expected(10) + expected(summary.lines - 10)


# --- history ------------------------------------------------------------------------------------------------------
def test_history_is_told_from_a_log_by_its_first_line(tmp_path: Path, target: MemoryTarget) -> None:
    lines = [{"key": "a", "total": 3}, {"key": "b", "total": 4}, {"key": "", "total": 9}, {"key": "c", "total": -2}]
    path = file(tmp_path, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    summary = run(target, path)
    assert (summary.kind, summary.lines, summary.counted, summary.refused) == (SourceKind.history, 4, 7, 10)
    assert [reason.split(", in the line of ")[1][:3] for reason in summary.reasons] == ["'' ", "'c'"]
    assert target.openings == {"a": 3, "b": 4}
    assert run(target, path).chunks == 0


def test_history_whose_last_line_is_cut_waits_for_it(tmp_path: Path, target: MemoryTarget) -> None:
    text = b'{"key": "a", "total": 3}\n{"key": "b", "total": 44'
    path = file(tmp_path, text)
    assert run(target, path).left_bytes == 24
    path.write_bytes(text + b"}")
    assert run(target, path).left_bytes == 0
    assert target.openings == {"a": 3, "b": 44}


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (b'{"key": "a", "total": 1}\n{', SourceKind.history),
        (b'\n {"total": 1, "key": "a"}', SourceKind.history),
        (b'{"ts": 1, "request": {}}\n', SourceKind.log),
        (b'{"key": "cut', SourceKind.log),
        (b'"key"\n', SourceKind.log),
        (b"1.2.3.4 - -", SourceKind.log),
        (b'{"group": "a", "total": 1}\n', SourceKind.history),
        (b"", SourceKind.log),
    ],
)
def test_the_kind_of_a_source(begin: bytes, kind: SourceKind) -> None:
    assert kind_of(begin) is kind


# --- pipes --------------------------------------------------------------------------------------------------------
def through_pipe(target: MemoryTarget, data: bytes) -> None:
    inward, outward = os.pipe()
    with os.fdopen(outward, "wb") as writing:
        writing.write(data)
    asyncio.run(importer(target).run(io.BufferedReader(io.FileIO(inward))))


def test_a_pipe_goes_on_at_its_offset(target: MemoryTarget) -> None:
    through_pipe(target, log_lines(20))
    through_pipe(target, gzip.compress(log_lines(45)))
    assert target.people == expected(45)


def test_a_look_alike_in_a_pipe_is_refused_when_it_is_noticed_too_late(target: MemoryTarget) -> None:
    through_pipe(target, log_lines(37))
    with pytest.raises(ImportRefused, match="cannot be read again"):
        through_pipe(target, log_lines(33) + log_lines(6, 33, "b"))
    through_pipe(target, log_lines(31) + log_lines(8, 31, "b"))
    assert target.people == expected(37) + expected(39)
