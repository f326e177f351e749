"""The bytes on the disk are those that the documentation shows, and the tables there are of the sizes that it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.journal.contract import Identity
from ingest.journal.segment_format import (
    GROUP,
    DiskFlushRecord,
    DiskJournalState,
    Header,
    Malformed,
    decode_segment_header,
    decode_state,
    encode_group,
    encode_segment_header,
    encode_state,
    frame_bytes,
    payloads_of,
    used_bytes,
    valid_frames,
)

DOCUMENT = Path("docs/journal-format.md")
SALT = 0x1122334455667788
STATE = DiskJournalState(Identity(7, 2, "holder", ((2, "token"),)), 5, DiskFlushRecord(6, 5, 20_000, 4), 3)
HEADER = Header(SALT, bytes(range(16)), 5, 4, 0x99AABBCCDDEEFF00, 4_096, STATE)

signed = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
flushes = st.none() | st.builds(DiskFlushRecord, signed.filter(bool), signed, signed, signed)
identities = st.builds(Identity, signed, signed, texts, st.lists(st.tuples(signed, texts), max_size=3).map(tuple))
states = st.builds(DiskJournalState, identities, signed, flushes, signed)
unsigned = st.integers(0, 2**64 - 1)


def documented() -> bytes:
    block = re.search(r"```hex\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert block
    return bytes.fromhex("".join(line[8:] for line in block[1].splitlines()))


def test_the_documented_example_is_what_is_written() -> None:
    header = encode_segment_header(HEADER)
    group = encode_group([b"one", b"", b"three"], 1_700_000_000_000_000, len(header), len(header), SALT)
    assert documented() == header + b"".join(group)


def test_the_documented_example_is_what_is_read() -> None:
    view = memoryview(documented())
    header, start = decode_segment_header(view)
    assert header == HEADER
    (found,) = valid_frames(view, start, len(view), header.salt)
    assert (found.kind, found.accepted_us, found.end) == (GROUP, 1_700_000_000_000_000, len(view))
    assert list(payloads_of(view, found)) == [b"one", b"", b"three"]


@given(states)
def test_a_state_is_read_as_it_was_written(state: DiskJournalState) -> None:
    assert decode_state(memoryview(encode_state(state) + bytes(7))) == state


@given(st.builds(Header, unsigned, st.binary(min_size=16, max_size=16), unsigned, unsigned, unsigned, unsigned, states))
def test_a_header_is_read_as_it_was_written(header: Header) -> None:
    written = encode_segment_header(header)
    assert len(written) % 8 == 0
    assert decode_segment_header(memoryview(written + b"frames")) == (header, len(written))


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=40), signed, unsigned)
def test_a_group_is_read_as_it_was_written(payloads: list[bytes], accepted_us: int, salt: int) -> None:
    head, body = encode_group(payloads, accepted_us, 16, 8, salt)
    assert len(head) + len(body) == frame_bytes(sum(map(len, payloads)), len(payloads))
    view = memoryview(bytes(16) + head + body)
    (found,) = valid_frames(view, 16, len(view), salt)
    assert (found.accepted_us, found.durable, list(payloads_of(view, found))) == (accepted_us, 8, payloads)
    assert not list(valid_frames(view, 16, len(view), salt ^ 1)), "of another segment"
    assert not list(valid_frames(memoryview(bytes(8) + view), 24, len(view) + 8, salt)), "at another place"


@given(st.binary(max_size=300))
def test_garbage_is_no_header_and_no_state_or_a_whole_one(garbage: bytes) -> None:
    with pytest.raises(Malformed):
        decode_segment_header(memoryview(garbage))
    try:
        state = decode_state(memoryview(garbage))
    except Malformed:
        return
    assert encode_state(state) == garbage[: len(encode_state(state))] or not state.flush


@pytest.mark.parametrize(("payloads", "lengths"), [(9, b""), (1, b"\xff\0\0\0"), (1, b"\0\0\0\0rest")])
def test_a_group_whose_lengths_do_not_add_up_is_malformed(payloads: int, lengths: bytes) -> None:
    view = memoryview(lengths + bytes(8))
    found = next(iter(valid_frames(memoryview(b"".join(encode_group([b"x"], 1, 0, 0, 0))), 0, 64, 0)))
    with pytest.raises(Malformed):
        list(payloads_of(view, found._replace(body=0, length=len(lengths), payloads=payloads)))


@given(st.binary(max_size=50), st.integers(0, 50))
def test_used_bytes_leaves_out_the_zeros_at_the_end(content: bytes, zeros: int) -> None:
    assert used_bytes(memoryview(content + bytes(zeros))) == len(content.rstrip(b"\0"))


def test_used_bytes_sees_a_single_byte_far_before_the_end() -> None:
    assert used_bytes(memoryview(b"\1" + bytes(3 << 20))) == 1
    assert used_bytes(memoryview(bytes(3 << 20))) == 0
