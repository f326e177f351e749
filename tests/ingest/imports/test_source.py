"""Reading sources: plain and packed, cut into whole lines, and known again by their bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingest.imports.fingerprint import TAIL_BYTES, Beginning, Likeness
from ingest.imports.source import SourceChanged, SourceLines, SourceUnreadable, Stream, open_reader
from tests.ingest.imports.import_kit import log_lines

TEXT = log_lines(9_000)


def file(tmp_path: Path, data: bytes, name: str = "log") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def read_all(path: Path, size: int = 1 << 20) -> tuple[bytes, str | None]:
    reader = open_reader(path)
    found = b"".join(iter(lambda: reader.read(size), b""))
    reader.close()
    return found, reader.damage


PACKED = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT, 1),
    "gzip in members": gzip.compress(TEXT[:1000]) + gzip.compress(b"") + gzip.compress(TEXT[1000:], 1),
    "gzip with padding": gzip.compress(TEXT, 1) + b"\0" * 200_000,
    "gzip, padding between": gzip.compress(TEXT[:5]) + b"\0" * 200_000 + gzip.compress(TEXT[5:], 1),
    "zstd": zstandard.compress(TEXT),
    "zstd in frames": zstandard.compress(TEXT[:1000]) + zstandard.compress(TEXT[1000:]),
    "bzip2": bz2.compress(TEXT, 1),
    "xz": lzma.compress(TEXT, preset=0),
}


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_a_source_is_unpacked_whatever_it_is_packed_by(tmp_path: Path, packing: str, size: int) -> None:
    assert read_all(file(tmp_path, PACKED[packing]), size) == (TEXT, None)


@pytest.mark.parametrize("packing", ["gzip", "zstd", "gzip in members", "bzip2", "xz"])
@pytest.mark.parametrize("cut", [-1, -9, 3000])
def test_packed_data_that_ends_early_gives_what_there_is_and_says_so(tmp_path: Path, packing: str, cut: int) -> None:
    found, damage = read_all(file(tmp_path, PACKED[packing][:cut]))
    assert TEXT.startswith(found)
    assert damage is not None and "ends early" in damage


def test_damage_and_garbage_behind_the_end_are_told(tmp_path: Path) -> None:
    found, damage = read_all(file(tmp_path, PACKED["gzip"] + b"garbage"))
    assert found == TEXT and damage is not None and damage.startswith("damaged gzip data before byte ")
    broken = bytearray(PACKED["gzip"])
    broken[2000] ^= 255
    assert read_all(file(tmp_path, bytes(broken)))[1] is not None


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="No such file"):
        open_reader(tmp_path / "none")


def test_a_pipe_is_read_once_and_cannot_go_back() -> None:
    inward, outward = os.pipe()
    with os.fdopen(outward, "wb") as writing:
        writing.write(gzip.compress(b"one\ntwo\n"))
    reader = open_reader(io.BufferedReader(io.FileIO(inward)))
    assert (reader.read(100), reader.final, reader.rewind()) == (b"one\ntwo\n", True, False)
    reader.close()


# --- cutting ------------------------------------------------------------------------------------------------------
def cut_up(path: Path, chunk_bytes: int, longest_line: int = 1 << 20, at: int = 0) -> list[SourceLines]:
    stream = Stream(open_reader(path), chunk_bytes=chunk_bytes, longest_line=longest_line)
    assert stream.skip(at)
    found = list(iter(stream.next_lines, None))
    if (last := stream.last_line()) is not None:
        found.append(last)
    stream.reader.close()
    return found


def beginning_of(data: bytes) -> Beginning:
    beginning = Beginning()
    beginning.feed(0, data)
    return beginning


@given(
    st.lists(st.text("ab ", max_size=40).map(str.encode), max_size=30),
    st.booleans(),
    st.integers(1, 99),
)
def test_pieces_are_whole_lines_that_join_to_the_source(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ended: bool, chunk_bytes: int
) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    chunks = cut_up(file(tmp_path_factory.mktemp("cut"), data), chunk_bytes)
    assert b"".join(chunk.data for chunk in chunks) == data
    assert all(chunk.data.endswith(b"\n") == chunk.ended for chunk in chunks)
    offset = 0
    for chunk in chunks:
        assert (chunk.start, chunk.end) == (offset, offset + len(chunk.data))
        offset = chunk.end
        assert chunk.tail == beginning_of(data).tail(offset, data[:offset][-TAIL_BYTES:])


@given(st.integers(1, 400), st.integers(0, 300), st.integers(0, 300), st.booleans())
def test_a_line_that_is_too_long_is_passed_over_and_told(
    tmp_path_factory: pytest.TempPathFactory, chunk_bytes: int, before: int, behind: int, ended: bool
) -> None:
    long_line = b"x" * 3000 + b"\n"
    data = b"a\n" * before + long_line + b"b\n" * behind
    if not ended:
        data = data[: data.index(b"x\n") + 1]
    chunks = cut_up(file(tmp_path_factory.mktemp("long"), data), chunk_bytes, longest_line=1000)
    assert sum(chunk.too_long for chunk in chunks) == 1
    assert b"".join(chunk.data for chunk in chunks) == data.replace(long_line if ended else long_line[:-1], b"")
    assert [chunk.start for chunk in chunks[1:]] == [chunk.end for chunk in chunks[:-1]]
    assert chunks[-1].end == len(data)
    for chunk in chunks:
        assert chunk.tail == beginning_of(data).tail(chunk.end, data[: chunk.end][-TAIL_BYTES:])


@pytest.mark.parametrize("packing", ["plain", "gzip"])
def test_cutting_goes_on_from_any_offset_with_the_same_tails(tmp_path: Path, packing: str) -> None:
    path = file(tmp_path, PACKED[packing])
    chunks = cut_up(path, 100_000)
    later = cut_up(path, 100_000, at=chunks[2].end)
    assert b"".join(chunk.data for chunk in later) == TEXT[chunks[2].end :]


def test_a_line_that_is_still_written_is_left_until_it_ends(tmp_path: Path) -> None:
    path = file(tmp_path, b"one\ntw")
    reader = open_reader(path)
    stream = Stream(reader)
    first = stream.next_lines()
    assert first is not None and first.data == b"one\n"
    assert (stream.next_lines(), stream.unfinished_bytes) == (None, 2)
    with path.open("ab") as log:
        log.write(b"o\nth")
    second = stream.next_lines()
    assert second is not None and (second.start, second.data) == (4, b"two\n")
    reader.close()


def test_a_file_that_is_written_anew_is_noticed_also_when_it_is_longer(tmp_path: Path) -> None:
    path = file(tmp_path, b"one\ntwo\n")
    reader = open_reader(path)
    stream = Stream(reader)
    assert stream.next_lines() is not None
    path.write_bytes(b"another\nlog\nlonger\n")
    with pytest.raises(SourceChanged):
        stream.next_lines()
    reader.close()


# --- fingerprints -------------------------------------------------------------------------------------------------
def test_a_source_stays_in_its_families_while_it_grows() -> None:
    long = beginning_of(TEXT).families()
    assert [family.partition("-")[0] for family in long] == ["256", "64", "16"]
    assert beginning_of(TEXT[:256]).families() == long
    assert beginning_of(TEXT[:255]).families() == long[1:]
    assert beginning_of(TEXT[:15]).families() == []


@given(st.lists(st.integers(0, 3000), max_size=8))
def test_families_do_not_depend_on_how_the_bytes_are_fed(edges: list[int]) -> None:
    beginning = Beginning()
    cuts = [0, *sorted(edges), 5000]
    for start, end in pairwise(cuts):
        beginning.feed(max(0, start - 7), TEXT[max(0, start - 7) : end])  # overlapping
    assert beginning.tail(5000, b"") == beginning_of(TEXT[:5000]).tail(5000, b"")


def test_a_label_makes_another_source() -> None:
    labelled = Beginning("again")
    labelled.feed(0, TEXT)
    assert not set(labelled.families()) & set(beginning_of(TEXT).families())


def test_what_stands_behind_a_gap_is_not_taken_for_the_beginning() -> None:
    beginning = beginning_of(TEXT[:100])
    tail = beginning.tail(9000, b"")
    beginning.feed(5000, TEXT[5000:])
    assert beginning.tail(9000, b"") == tail


def test_a_source_has_the_names_and_tails_that_stores_hold() -> None:
    beginning = beginning_of(b"0123456789abcdef" * 20)
    assert beginning.families() == [
        "256-66a4da2724af7623f75ec2a54b441051",
        "64-635ec1e40483076461e684b0618e354f",
        "16-b01084209f8271f6e1f668713ffa2bd5",
    ]
    assert beginning.tail(320, b"0123456789abcdef" * 16).text() == "d3aa348bbbc75873.b0108420635ec1e466a4da27"
    assert beginning.tail(100, b"0123456789abcdef" * 6 + b"0123").text() == "295cb53cbab4212a.b0108420635ec1e4"


def test_an_offset_is_told_from_a_look_alike() -> None:
    offset = 700
    tail = beginning_of(TEXT).tail(offset, TEXT[:offset][-TAIL_BYTES:])
    grown = beginning_of(TEXT[:900])
    assert grown.likeness(offset, tail, TEXT[:offset][-TAIL_BYTES:]) is Likeness.same
    assert grown.likeness(offset, tail, b"else") is Likeness.other
    assert beginning_of(TEXT[:300]).likeness(offset, tail, None) is Likeness.shorter
    other = TEXT[:200] + b"!" + TEXT[201:]
    assert beginning_of(other).likeness(offset, tail, TEXT[:offset][-TAIL_BYTES:]) is Likeness.other
    assert beginning_of(other[:300]).likeness(offset, tail, None) is Likeness.other
