"""Logs with columns of their own, files that are no logs, marks before the first byte: from the file to the counts."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from ingest.imports.access_log import AccessLog, LogOptions
from ingest.imports.fingerprint import tail_of
from ingest.imports.importer import Importer, ImportSummary, SourceKind
from ingest.imports.logs.log_format import own_format
from ingest.imports.target import Sender
from tests.ingest.imports.import_kit import MemoryTarget, expected, log_line, log_lines, no_wait, run
from tests.ingest.imports.test_import_follow import append, follow

FIELDS = b"#Software: IIS\r\n#Fields: date time cs-method cs-uri-stem c-ip sc-status sc-win32-status\r\n"


def iis_lines(count: int, first: int = 0) -> bytes:
    lines = (
        f"2015-05-17 00:00:{n % 60:02} GET /k{n % 5} 203.0.113.{n % 250} 302 0\r\n" for n in range(first, first + count)
    )
    return "".join(lines).encode()


def imported(target: MemoryTarget, path: Path, options: LogOptions) -> ImportSummary:
    log = AccessLog(lambda agent: False, options=options)
    return asyncio.run(Importer(Sender(target, no_wait, tries=5), log, chunk_bytes=700).run(path))


@pytest.mark.parametrize("packed", [bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
def test_an_import_goes_on_within_a_log_whose_columns_were_named_before(
    packed: Callable[[bytes], bytes], tmp_path: Path, target: MemoryTarget
) -> None:
    path, text = tmp_path / "u_ex150517.log", FIELDS + iis_lines(40)
    path.write_bytes(packed(text))
    assert run(target, path).formats == {"W3C": 40}
    for more in (1, 30):
        text += iis_lines(more, 40)
        path.write_bytes(packed(text))
        assert (run(target, path).bad, run(target, path).chunks) == (0, 0)
    assert target.people == expected(40) + expected(1, 40) + expected(30, 40)
    (kept,) = target.offsets.values()
    assert tail_of(kept.tail).log == "d0t1m2p3c4s5I"


def test_columns_that_change_in_the_middle_hold_from_there_on(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "u_ex150517.log"
    again = b"#Fields: sc-status cs-uri-stem time date\r\n302 /k1 00:00:07 2015-05-17\r\n"
    path.write_bytes(FIELDS + iis_lines(40) + again)
    run(target, path)
    path.write_bytes(FIELDS + iis_lines(40) + again + again.split(b"\r\n")[1] + b"\r\n")
    assert run(target, path).people_hits == 1
    assert target.people == expected(40) + expected(1, 1) + expected(1, 1)


def test_a_file_without_a_good_line_is_told_and_stays_uncounted(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "own.log"
    path.write_bytes(b"".join(b"203.0.113.9|17/May/2015:10:05:03 +0000|GET /k0|302|%d\n" % n for n in range(40)))
    for _ in range(2):
        summary = run(target, path)
        assert (summary.is_all_bad, summary.bad, summary.chunks) == (True, 40, 0)
        assert "--format" in (summary.looks_like or "")
    own = LogOptions(own=own_format("$remote_addr|$time_local|$request|$status|$request_id"))
    assert imported(target, path, own).counted == 40
    assert target.people["k0"] == 40


def test_bad_lines_before_the_first_good_one_are_counted_with_it(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"what is this\n" * 200 + log_lines(20))
    summary = run(target, path)
    assert (summary.bad, summary.counted, summary.looks_like, summary.is_all_bad) == (200, 20, None, False)
    assert run(target, path).chunks == 0
    path.write_bytes(b"what is this\n" * 200 + log_lines(21))
    assert run(target, path).lines == 1


def test_a_byte_order_mark_loses_nothing(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "log"
    for text in (log_lines(3), b'{"msec":"1431857103","request":"GET /k0 HTTP/1.1","status":302}\n'):
        path.write_bytes(b"\xef\xbb\xbf" + text)
        assert run(target, path).bad == 0
    path.write_bytes(b'\xef\xbb\xbf{"key": "a", "total": 3}\n{"key": "b", "total": 4}\n')
    summary = run(target, path)
    assert (summary.kind, summary.counted) == (SourceKind.history, 7)
    assert target.people == expected(3) + expected(1)
    assert target.openings == {"a": 3, "b": 4}


def test_keys_that_nobody_shortens_are_told(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(
        log_lines(3) + log_line(4).replace(b"/k4", b"/favicon.ico") + log_line(5).replace(b"/k0", b"/wp-x")
    )
    assert run(target, path).proposed == ["favicon.ico", "wp-*"]
    path.write_bytes(log_lines(3, 9))
    assert run(target, path).proposed == []


def test_a_click_over_the_edge_of_two_imports_counts_once(tmp_path: Path, target: MemoryTarget) -> None:
    path, once = tmp_path / "access.log", LogOptions(once_per_click=True)
    path.write_bytes(log_lines(40))
    imported(target, path, once)
    path.write_bytes(log_lines(40) + log_line(39) + log_line(41))
    assert imported(target, path, once).skipped == {"second line of a click": 1}
    assert target.people == expected(40) + expected(1, 41)


def test_a_followed_log_keeps_its_columns_through_a_rotation(tmp_path: Path, target: MemoryTarget) -> None:
    path, moved = tmp_path / "u_ex.log", tmp_path / "u_ex.log.1"
    path.write_bytes(FIELDS + iis_lines(10))
    other = b"#Software: IIS\r\n#Fields: sc-status cs-uri-stem time date\r\n"
    late = b"302 /k1 00:00:07 2015-05-17\r\n"
    summary = follow(
        target,
        path,
        append(path, iis_lines(5, 10)),
        lambda: path.rename(moved),
        append(moved, iis_lines(5, 15)),
        append(path, other + late),
        append(path, late * 3),
        append(path, late),
    )
    assert target.people == expected(20) + Counter(k1=5)
    assert (summary.bad, summary.formats) == (0, {"W3C": 25})


def test_a_followed_log_may_begin_with_lines_that_are_none(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"the service has started\n" * 3)
    summary = follow(
        target, path, append(path, b"and listens\n"), append(path, log_lines(5)), append(path, log_lines(5, 5))
    )
    assert (target.people, summary.bad, summary.looks_like) == (expected(10), 4, None)
    assert run(target, path).chunks == 0
