"""Sources that begin alike are told apart, and each is found again, by as many questions as it has lines in common."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.imports.fingerprint import FAMILY_BYTES, LEVELS, Beginning, Likeness, tail_of
from ingest.imports.target import KeptOffset
from tests.ingest.imports.import_kit import MemoryTarget, expected, log_line, log_lines, run
from tests.power import at

FIELDS = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent)"
HEADER = f"#Version: 1.0\n#Fields: {FIELDS} {'x-more ' * 30}\n".encode()
FILES = at(quick=600, full=20_000)


def cloudfront(*numbers: int) -> bytes:
    """A file of CloudFront's: some lines below a header of more than 256 bytes."""
    lines = (
        f"2025-10-09\t08:00:{n % 60:02}\tFRA{n}\t182\t192.0.2.{n % 250}\tGET\td1.example\t/k{n % 5}\t302\t-\tUA\n"
        for n in numbers
    )
    return HEADER + "".join(lines).encode()


def test_many_files_that_begin_alike_are_told_apart_and_found_again(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "one.log"
    for number in range(FILES):
        path.write_bytes(cloudfront(number))
        before = target.requests
        assert run(target, path).counted == 1
        assert target.requests - before <= 8
    assert target.people.total() == len(target.offsets) == FILES
    for number in range(0, FILES, max(1, FILES // 200)):
        before = target.requests
        path.write_bytes(cloudfront(number))
        assert run(target, path).chunks == 0
        assert target.requests - before <= 7
        path.write_bytes(gzip.compress(cloudfront(number, FILES + number)))  # grown, and packed by a rotation
        assert run(target, path).counted == 1
        assert run(target, path.rename(tmp_path / "one.log.1.gz")).chunks == 0
    assert len(target.offsets) == FILES


@pytest.mark.parametrize("shared", [*range(1, 12), 20, 31])
@pytest.mark.parametrize("first_is_longer", [False, True])
def test_the_shorter_of_two_logs_that_begin_alike_is_no_part_of_the_longer(
    shared: int, first_is_longer: bool, tmp_path: Path, target: MemoryTarget
) -> None:
    one, other = log_lines(shared), [log_lines(40, 100, "one"), log_lines(3, 200, "two")]
    for more in other if first_is_longer else other[::-1]:
        path = tmp_path / "access.log"
        path.write_bytes(one + more)
        run(target, path)
        assert run(target, path).chunks == 0
    assert target.people == expected(shared) + expected(40, 100) + expected(shared) + expected(3, 200)


def test_a_part_of_each_of_many_twins_is_known_for_a_part(tmp_path: Path, target: MemoryTarget) -> None:
    path = tmp_path / "access.log"
    logs = [log_lines(5) + log_lines(20, 100 * n, str(n)) for n in range(1, 9)]
    for log in logs:
        path.write_bytes(log)
        run(target, path)
    counted = Counter(target.people)
    for log in logs:
        for lines in range(6, 25):
            path.write_bytes(b"\n".join(log.split(b"\n")[:lines]) + b"\n")
            assert run(target, path).is_part
    assert target.people == counted


def test_what_older_versions_kept_still_holds(tmp_path: Path, target: MemoryTarget) -> None:
    """They named those that begin alike by numbers, up to a thousand, and kept no hashes of lines."""
    logs = [log_lines(5) + log_lines(9, 100 * n, str(n)) for n in range(1, 5)]
    for number, log in enumerate(logs):
        beginning = Beginning()
        beginning.feed(0, log)
        tail = beginning.tail(len(log), log[-256:])
        old = f"{tail.last}.{tail.prefixes}"
        target.offsets[f"{beginning.families()[0]}-{number}"] = KeptOffset(len(log), old)
    path = tmp_path / "access.log"
    for n, log in enumerate(logs, 1):
        path.write_bytes(log)
        assert run(target, path).chunks == 0
        path.write_bytes(log[:-200])
        assert run(target, path).is_part
        path.write_bytes(log + log_line(100 * n + 50, str(n)))
        assert run(target, path).counted == 1
    assert len(target.offsets) == len(logs)
    path.write_bytes(log_lines(5) + log_lines(9, 900, "new"))
    assert run(target, path).counted == 14
    assert sum("L-" in name for name in target.offsets) == 1


def test_an_older_version_reads_what_is_kept_today() -> None:
    """It compares the parts of a tail before and behind the first dot, as far as both go."""
    log = log_lines(60)
    beginning = Beginning()
    beginning.feed(0, log)
    kept, _, prefixes = beginning.tail(len(log), log[-256:])._replace(log="d0t1m5").text().partition(".")
    sizes = [size for size in (16, 64, 256, 1024, 4096) if size <= len(log)]
    assert kept == tail_of(f"{kept}.{prefixes}").last
    assert prefixes[: 8 * len(sizes)] == tail_of(f"{kept}.{prefixes}").prefixes
    assert len(f"{kept}.{prefixes}") <= 400


def test_a_tail_of_the_longest_beginning_fits() -> None:
    log = log_lines(20_000)
    beginning = Beginning()
    beginning.feed(0, log)
    tail = beginning.tail(len(log), log[-256:])._replace(log="d" * 60).text()
    assert len(tail) <= 400
    assert len(beginning.levels()) == len(LEVELS) == 60


@given(st.integers(0, 60), st.integers(1, 12), st.integers(1, 12), st.lists(st.integers(0, 6000), max_size=5))
def test_of_two_sources_one_is_a_part_of_the_other_only_if_it_is(
    shared: int, more: int, others: int, cuts: list[int]
) -> None:
    longer = log_lines(shared) + log_lines(more + others, 1000, "one")
    shorter = log_lines(shared) + log_lines(others, 2000, "two")
    one, other = Beginning(), Beginning()
    one.feed(0, longer)
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(shorter)], strict=True):
        other.feed(start, shorter[start:end])
    tail = tail_of(one.tail(len(longer), longer[-256:]).text())
    is_told = shared < 32 or any(shared < level <= shared + others for level in LEVELS)
    assert other.likeness(len(longer), tail, None) is Likeness.other or not is_told  # bytes may tell them, too
    part = Beginning()
    part.feed(0, longer[: -len(log_line(1000, "one"))])
    assert part.likeness(len(longer), tail, None) is Likeness.shorter


def test_comments_count_with_the_line_behind_them() -> None:
    beginning = Beginning()
    beginning.feed(0, HEADER * 3)
    assert beginning.levels() == []
    assert len(beginning.families()) == len(FAMILY_BYTES)
    beginning.feed(3 * len(HEADER), b"a\n#b\nc\nd")
    assert [name.partition("-")[0] for name in beginning.levels()] == ["1L", "2L"]
