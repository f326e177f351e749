"""Following a log: it is written, rotated, truncated, read by two, and the other side fails meanwhile."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from ingest.imports.importer import ImportSummary
from ingest.imports.source import PlainSource, SourceUnreadable, open_reader
from tests.ingest.imports.import_kit import FAULTS, Died, MemoryTarget, expected, importer, log_lines, run


class Stopped(BaseException):
    """The follower was told to end."""


def follow(target: MemoryTarget, path: Path, *steps: Callable[[], object]) -> ImportSummary:
    """Follow a log; at each wait the next of the steps happens to it."""
    waiting = iter(steps)
    summary = ImportSummary()

    async def wait(seconds: float) -> None:
        step = next(waiting, None)
        if step is None:
            raise Stopped
        step()

    with pytest.raises(Stopped):
        asyncio.run(importer(target, wait).follow(path, summary))
    return summary


def nothing() -> None:
    pass


def append(path: Path, data: bytes) -> Callable[[], object]:
    def step() -> None:
        with path.open("ab") as log:
            log.write(data)

    return step


def test_a_followed_log_is_counted_as_it_is_written(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "access.log"
    data = log_lines(40)
    cuts = [0, 5, 90, 400, 401, 2000, len(data)]
    steps = [append(path, data[start:end]) for start, end in pairwise(cuts)]
    summary = follow(target, path, nothing, *steps, nothing)
    assert (target.people, summary.lines, summary.left_bytes) == (expected(40), 40, 0)


def test_a_rotation_loses_no_line_also_when_the_writer_is_late(tmp_path: Path, target: MemoryTarget) -> None:
    path, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    path.write_bytes(log_lines(10))
    follow(
        target,
        path,
        append(path, log_lines(5, 10)),
        lambda: path.rename(moved),
        append(moved, log_lines(5, 15)),
        append(path, log_lines(5, 20)),
        append(path, log_lines(5, 25)),
    )
    assert target.people == expected(30)
    assert run(target, moved).chunks == 0


def test_a_log_that_was_moved_is_read_until_another_one_has_its_name(tmp_path: Path, target: MemoryTarget) -> None:
    path, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    path.write_bytes(log_lines(10))
    follow(
        target,
        path,
        lambda: path.rename(moved),
        *(append(moved, log_lines(2, 10 + 2 * n)) for n in range(5)),  # its writer has not noticed yet
        append(path, log_lines(5, 20)),
        nothing,
        append(path, log_lines(5, 25)),
        nothing,
    )
    assert target.people == expected(30)
    assert run(target, moved).chunks == 0


@pytest.mark.parametrize("times", [1, 5])
def test_a_log_whose_rights_come_late_is_waited_for(
    tmp_path: Path, target: MemoryTarget, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    path, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    path.write_bytes(log_lines(10))
    refusals = iter([False] + [True] * times)

    def opened(source: Path) -> PlainSource:
        if next(refusals, False):
            raise SourceUnreadable(f"{source}: Permission denied")
        return open_reader(source)

    monkeypatch.setattr("ingest.imports.importer.open_reader", opened)
    rotated = [lambda: path.rename(moved), append(path, log_lines(5, 10)), *[nothing] * (times + 2)]
    follow(target, path, *rotated, append(path, log_lines(5, 15)), nothing)
    assert target.people == expected(20)


def test_a_log_that_may_not_be_read_is_refused_at_once_and_one_that_just_appears_is_not(
    tmp_path: Path, target: MemoryTarget
) -> None:
    with pytest.raises(SourceUnreadable, match="directory"):
        asyncio.run(importer(target, lambda _: asyncio.sleep(0)).follow(tmp_path, ImportSummary()))
    path = tmp_path / "access.log"
    follow(target, path, nothing, append(path, log_lines(10)), nothing)
    assert target.people == expected(10)


def test_a_truncated_log_is_followed_from_its_new_beginning(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(log_lines(10))
    follow(
        target,
        path,
        lambda: path.write_bytes(b""),
        append(path, log_lines(3, 10)),
        lambda: path.write_bytes(log_lines(30, 13)),  # longer than before
        nothing,
    )
    assert target.people == expected(43)


def test_following_goes_on_where_it_was_stopped(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "access.log"
    for n in range(10):
        append(path, log_lines(7, 7 * n))()
        follow(target, path, append(path, b""))
    assert target.people == expected(70)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failure_while_following_changes_no_count(tmp_path: Path, fault: str) -> None:
    for nth in range(1, 30):
        path = tmp_path / f"{fault}{nth}"
        target = MemoryTarget()
        target.faults = {nth: fault}
        path.write_bytes(log_lines(2))
        try:
            follow(target, path, append(path, log_lines(20, 2)), append(path, log_lines(3, 22)), nothing)
        except Died:
            append(path, log_lines(25)[path.stat().st_size :])()
            follow(target, path)
        assert target.people == expected(25)


def test_a_line_counts_once_when_two_follow_one_log(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(log_lines(3))
    steps = iter([append(path, log_lines(4, 3 + 4 * n)) for n in range(8)])

    async def both() -> None:
        async def wait(seconds: float) -> None:
            step = next(steps, None)
            if step is None:
                raise Stopped
            step()
            await asyncio.sleep(0)

        followers = [importer(target, wait).follow(path, ImportSummary()) for _ in range(2)]
        await asyncio.gather(*followers, return_exceptions=True)

    asyncio.run(both())
    run(target, path)
    assert target.people == expected(35)


def test_a_packed_log_cannot_grow_so_following_it_ends(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "access.log.gz"
    path.write_bytes(gzip.compress(log_lines(20)))
    asyncio.run(importer(target).follow(path, ImportSummary()))
    assert target.people == expected(20)
