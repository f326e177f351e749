"""What a recovery does with bytes that are not what was written: it cuts, refuses with file and offset, or ignores."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import JournalDamaged
from ingest.journal.contract import Frame, Identity
from ingest.journal.disk_journal import DiskJournal
from ingest.journal.segment_format import FoundFrame, decode_segment_header, encode_group, valid_frames
from tests.ingest.journal.faulty_disk import FaultyDisk
from tests.power import at

FOLDER = Path("/journal")
LAST, MIDDLE = -1, 0
EACH_BIT = at(quick=3, full=1)  # each, or each third: of one byte the first, of the next the second ...


def open_journal(disk: FaultyDisk, folder: Path = FOLDER) -> DiskJournal:
    return DiskJournal(folder, disk, chunk_bytes=256)


def frames_of(disk: FaultyDisk, folder: Path = FOLDER) -> list[Frame]:
    """Everything a recovery finds, by opening and closing the journal."""
    journal = open_journal(disk, folder)
    flush = journal.state.flush
    frames = [*(journal.frames(flush) if flush else []), *journal.frames()]
    journal.close()
    return frames


def two_segments() -> FaultyDisk:
    """Segments 1 (three groups, sealed by flush 1) and 2 (three groups), left as by kill -9."""
    disk = FaultyDisk()
    journal = open_journal(disk)
    for number in range(6):
        if number == 3:
            journal.record_identity(Identity(1, 1, "holder", ((1, "token"),)))
            journal.record_flush(1, 7)
        journal.append([b"group %d" % number, b"", b"x" * number], number)
    disk.kill()
    return disk


def layout(disk: FaultyDisk, place: int) -> tuple[Path, bytearray, int, list[FoundFrame]]:
    """Of the first or last segment: path, content, end of the header, frames."""
    path = disk.segments(FOLDER)[place]
    content = disk.content(path)
    header, start = decode_segment_header(memoryview(content))
    return path, content, start, list(valid_frames(memoryview(bytes(content)), start, len(content), header.salt))


def begins(start: int, frames: list[FoundFrame]) -> list[int]:
    return [start, *(found.end for found in frames[:-1])]


def expected(groups: int) -> list[Frame]:
    return [
        Frame(number, payload) for number in range(groups) for payload in (b"group %d" % number, b"", b"x" * number)
    ]


@pytest.mark.parametrize("reserved", [0, 100])
def test_a_journal_cut_at_any_byte_of_its_last_two_groups_keeps_the_whole_ones(reserved: int) -> None:
    _, content, _, frames = layout(two_segments(), LAST)
    written = bytes(content)
    for cut in range(frames[-3].end, frames[-1].end):
        disk = two_segments()
        content = layout(disk, LAST)[1]
        content[cut:] = bytes(reserved)
        # A frame ends in zeros, and so may what was reserved: cut there, and followed by it, the frame is whole again.
        whole = sum(found.end <= cut or (bool(reserved) and not any(written[cut : found.end])) for found in frames)
        assert frames_of(disk) == expected(3 + whole)
        assert frames_of(disk) == expected(3 + whole), "the cut must last"


def test_a_torn_tail_is_cut_for_good_before_anything_is_appended() -> None:
    disk = two_segments()
    path, content, _, frames = layout(disk, LAST)
    content[frames[-1].end - 1] ^= 1
    kept = bytes(content[: frames[-2].end])
    journal = open_journal(disk)
    assert journal.torn_bytes == frames[-1].end - frames[-2].end
    journal.append([b"new"], 9)
    disk.lose_power()
    disk.content(path)[:] = kept + b"\xff" * 50  # what a cut leaves never counts
    assert frames_of(disk) == [*expected(5), Frame(9, b"new")]


@pytest.mark.parametrize("place", [LAST, MIDDLE])
def test_any_bit_flipped_in_a_header_is_refused(place: int) -> None:
    _, _, start, _ = layout(two_segments(), place)
    for bit in range(0, 8 * start, EACH_BIT):
        disk = two_segments()
        path, content, _, _ = layout(disk, place)
        content[bit // 8] ^= 1 << bit % 8
        with pytest.raises(JournalDamaged) as caught:
            open_journal(disk)
        assert (caught.value.field, caught.value.value) == (str(path), 0)
        assert str(path) in caught.value.detail and "byte 0" in caught.value.detail


@pytest.mark.parametrize("place", [LAST, MIDDLE])
def test_any_bit_flipped_in_a_record_with_whole_ones_after_it_is_refused(place: int) -> None:
    _, _, start, frames = layout(two_segments(), place)
    checked = frames if place == MIDDLE else frames[:-1]  # of a closed segment the length is known: its last one, too
    for begin, found in zip(begins(start, frames), checked, strict=False):
        for bit in range(8 * begin, 8 * found.end, EACH_BIT):
            disk = two_segments()
            path, content, _, _ = layout(disk, place)
            content[bit // 8] ^= 1 << bit % 8
            with pytest.raises(JournalDamaged) as caught:
                open_journal(disk)
            assert (caught.value.field, caught.value.value) == (str(path), begin)
            assert f"byte {begin}" in caught.value.detail


def test_any_bit_flipped_in_the_last_record_cuts_it_off() -> None:
    _, _, _, frames = layout(two_segments(), LAST)
    for bit in range(8 * frames[-2].end, 8 * frames[-1].end, EACH_BIT):
        disk = two_segments()
        layout(disk, LAST)[1][bit // 8] ^= 1 << bit % 8
        assert frames_of(disk) == expected(5)


def test_garbage_in_the_room_that_is_reserved_is_ignored() -> None:
    disk = two_segments()
    _, content, _, frames = layout(disk, LAST)
    content[frames[-1].end :] = bytes(range(256))
    assert frames_of(disk) == expected(6)


@pytest.mark.parametrize("place", [LAST, MIDDLE])
def test_records_swapped_or_repeated_are_refused(place: int) -> None:
    disk = two_segments()
    path, content, start, frames = layout(disk, place)
    first, second = bytes(content[start : frames[0].end]), bytes(content[frames[0].end : frames[1].end])
    for forged in (second + first, first + first, second + second):
        disk = two_segments()
        content = layout(disk, place)[1]
        content[start : frames[1].end] = forged.ljust(frames[1].end - start, b"\0")[: frames[1].end - start]
        with pytest.raises(JournalDamaged) as caught:
            open_journal(disk)
        assert caught.value.field == str(path)


def test_a_record_repeated_after_the_last_one_does_not_count() -> None:
    for source in (0, 1, 2):
        disk = two_segments()
        _, content, start, frames = layout(disk, LAST)
        copied = bytes(content[begins(start, frames)[source] : frames[source].end])
        content[frames[-1].end : frames[-1].end + len(copied)] = copied
        assert frames_of(disk) == expected(6)


def test_a_segment_that_is_missing_in_the_middle_is_refused_by_name() -> None:
    disk = two_segments()
    first = disk.segments(FOLDER)[0]
    disk.forget(first)
    with pytest.raises(JournalDamaged, match="missing") as caught:
        open_journal(disk)
    assert caught.value.field == str(first)


def test_segments_under_each_others_names_are_refused() -> None:
    disk = two_segments()
    first, last = (disk.content(path) for path in disk.segments(FOLDER))
    first[:], last[:] = bytes(last), bytes(first)
    with pytest.raises(JournalDamaged, match="name says segment 2, its header says 1"):
        open_journal(disk)


def test_files_of_a_journal_and_its_copy_are_not_mixed() -> None:
    disk, copy = two_segments(), Path("/copy")
    disk.copy(FOLDER, copy)
    for folder in (FOLDER, copy):  # From here on the two have different segments under the same numbers.
        journal = open_journal(disk, folder)
        journal.append([folder.name.encode()], 7)
        journal.complete_flush(1)
        journal.record_flush(2, 7)
        journal.close()
    name = disk.segments(copy)[-2].name
    disk.content(FOLDER / name)[:] = disk.content(copy / name)
    with pytest.raises(JournalDamaged, match="two journals"):
        open_journal(disk)


def test_a_copied_folder_opens_beside_the_original_with_the_same_name_and_the_same_hits() -> None:
    disk, copy = two_segments(), Path("/copy")
    disk.copy(FOLDER, copy)
    original, copied = open_journal(disk), open_journal(disk, copy)
    assert (original.name, original.found) == (copied.name, copied.found)
    assert original.torn_bytes == copied.torn_bytes
    assert list(original.frames()) == list(copied.frames())


def test_damage_in_a_segment_that_a_complete_flush_covers_harms_nobody() -> None:
    disk = two_segments()
    journal = open_journal(disk)
    kept = bytes(disk.content(disk.segments(FOLDER)[0]))
    journal.complete_flush(1)
    disk.kill()
    first = FOLDER / "segment-00000001"
    assert first not in disk.segments(FOLDER)
    fd = disk.create(first)  # it was not removed after all, and its bytes have gone bad
    disk.content(first)[:] = kept[::-1]
    disk.close(fd)
    assert frames_of(disk) == expected(6)[9:]
    assert first not in disk.segments(FOLDER)


def test_an_unknown_version_is_refused_by_number() -> None:
    disk = two_segments()
    struct.pack_into("<I", layout(disk, LAST)[1], 8, 2)
    with pytest.raises(JournalDamaged, match="version 2; this program knows version 1"):
        open_journal(disk)


def test_a_payload_made_of_frames_is_not_taken_for_frames() -> None:
    """Also when it is torn in front, so that a recovery looks for whole records inside of it."""
    disk = FaultyDisk()
    journal = open_journal(disk)
    path = disk.segments(FOLDER)[0]
    header, start = decode_segment_header(memoryview(disk.content(path)))
    for salt in (0, 1, header.salt + (1 << 20)):  # A client cannot know the salt.
        forged = b"".join(b"".join(encode_group([b"forged"], 1, at, at, salt)) for at in range(start, start + 4_000, 8))
        journal.append([forged], 1)
    whole = list(journal.frames())
    disk.kill()
    assert frames_of(disk) == whole
    disk.content(path)[start + 40] ^= 1
    with pytest.raises(JournalDamaged) as caught:
        open_journal(disk)
    assert caught.value.value == start
    disk.content(path)[start + 40] ^= 1


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=5), st.binary(min_size=1, max_size=200))
def test_whatever_follows_the_last_record_it_is_cut(payloads: list[bytes], garbage: bytes) -> None:
    disk = FaultyDisk()
    journal = open_journal(disk)
    journal.append(payloads, 5)
    path, end = disk.segments(FOLDER)[0], journal.bytes_held
    disk.kill()
    disk.content(path)[end:] = garbage
    assert frames_of(disk) == [Frame(5, payload) for payload in payloads]


@given(st.data())
def test_random_bytes_instead_of_a_segment_are_refused_and_never_crash(data: st.DataObject) -> None:
    disk = two_segments()
    path, content, _, _ = layout(disk, data.draw(st.sampled_from([LAST, MIDDLE])))
    begin = data.draw(st.integers(0, len(content) - 1))
    garbage = data.draw(st.binary(min_size=1, max_size=80))
    content[begin : begin + len(garbage)] = garbage
    try:
        found = frames_of(disk)
    except JournalDamaged as error:
        assert error.field == str(path)
    else:
        assert found == expected(len(found) // 3)
