"""Connections are cut into messages wherever the network cuts them."""

from __future__ import annotations

import io
import random
import struct

import pytest
from cassandra.segment import SegmentCodec

from tests.cassandra.protocol import (
    BATCH,
    ERROR,
    EXECUTE,
    MAX_PAYLOAD,
    QUERY,
    RESULT,
    SUPPORTED,
    Envelope,
    Splitter,
    in_segments,
    is_unprepared,
    prepared_id,
    text_of,
    without_compression,
)


def envelope(opcode: int, body: bytes = b"", stream: int = 0, version: int = 5, flags: int = 0) -> Envelope:
    return Envelope(
        version, flags, stream, opcode, struct.pack(">BBhBi", version, flags, stream, opcode, len(body)) + body
    )


def short(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def long(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


SENT = [
    envelope(QUERY, bytes(size), stream) for stream, size in enumerate([0, 5, 300, MAX_PAYLOAD, 2 * MAX_PAYLOAD, 1])
]


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("longest", [7, 1000, 10**5, 10**6])
def test_messages_are_found_wherever_the_network_cuts(segments: bool, longest: int) -> None:
    cuts = random.Random(longest)
    sent = SENT[:3] if longest == 7 else SENT
    data = in_segments(sent[:3]) + b"".join(in_segments([one]) for one in sent[3:])
    if not segments:
        data = b"".join(one.raw for one in sent)
    splitter = Splitter()
    splitter.in_segments = segments
    pieces = []
    at = 0
    while at < len(data):
        size = cuts.randint(1, longest)
        pieces += list(splitter.feed(data[at : at + size]))
        at += size
    assert [found for piece in pieces for found in piece.envelopes] == sent
    assert b"".join(piece.raw for piece in pieces) == data


@pytest.mark.parametrize("sent", [SENT[:1], SENT[:3], SENT[4:5]])
def test_segments_are_those_of_the_driver(sent: list[Envelope]) -> None:
    theirs = io.BytesIO()
    SegmentCodec().encode(theirs, b"".join(one.raw for one in sent))
    assert in_segments(sent) == theirs.getvalue()


def test_the_change_to_segments_is_possible_within_one_packet() -> None:
    splitter = Splitter()
    found = splitter.feed(SENT[1].raw + in_segments([SENT[2]]))
    assert next(found).envelopes == (SENT[1],)
    splitter.in_segments = True
    assert next(found).envelopes == [SENT[2]]


def test_the_statement_of_a_request_is_known() -> None:
    prepared = {b"id1": "UPDATE a", b"id2": "UPDATE b"}
    payload = struct.pack(">H", 1) + short(b"key") + long(b"value")
    assert text_of(envelope(QUERY, long(b"SELECT 1")), prepared) == "SELECT 1"
    assert text_of(envelope(QUERY, payload + long(b"SELECT 1"), flags=4), prepared) == "SELECT 1"
    assert text_of(envelope(EXECUTE, short(b"id2") + bytes(20)), prepared) == "UPDATE b"
    assert text_of(envelope(EXECUTE, short(b"id3") + bytes(20)), prepared) == ""
    assert text_of(envelope(SUPPORTED), prepared) is None
    values = struct.pack(">H", 2) + long(b"1") + struct.pack(">i", -1)
    batch = (
        b"\0" + struct.pack(">H", 2) + b"\1" + short(b"id1") + values + b"\0" + long(b"INSERT c") + struct.pack(">H", 0)
    )
    assert text_of(envelope(BATCH, batch), prepared) == "UPDATE a; INSERT c"


def test_the_id_of_a_prepared_statement_is_known() -> None:
    result = struct.pack(">i", 4) + short(b"id1") + b"more"
    assert prepared_id(envelope(RESULT, result)) == b"id1"
    assert prepared_id(envelope(RESULT, struct.pack(">i", 1))) is None
    assert prepared_id(envelope(SUPPORTED, result)) is None
    warnings = struct.pack(">H", 2) + short(b"one") + short(b"two")
    payload = struct.pack(">H", 1) + short(b"key") + long(b"value")
    assert prepared_id(envelope(RESULT, bytes(16) + warnings + payload + result, flags=2 | 4 | 8)) == b"id1"


def test_a_node_that_has_done_nothing_for_want_of_the_statement_is_known() -> None:
    unprepared = struct.pack(">i", 0x2500) + short(b"what") + short(b"id1")
    assert is_unprepared(envelope(ERROR, unprepared))
    assert is_unprepared(envelope(ERROR, bytes(16) + unprepared, flags=2))
    assert not is_unprepared(envelope(ERROR, struct.pack(">i", 0x1100) + unprepared))
    assert not is_unprepared(envelope(RESULT, unprepared))


def test_a_node_is_made_to_offer_no_compression() -> None:
    one = short(b"CQL_VERSION") + struct.pack(">H", 1) + short(b"3.4.7")
    two = short(b"COMPRESSION") + struct.pack(">H", 2) + short(b"snappy") + short(b"lz4")
    three = short(b"PROTOCOL_VERSIONS") + struct.pack(">H", 1) + short(b"5/v5")
    offered = envelope(SUPPORTED, struct.pack(">H", 3) + one + two + three, stream=7)
    kept = envelope(SUPPORTED, struct.pack(">H", 3) + one + short(b"COMPRESSION") + b"\0\0" + three, stream=7)
    assert without_compression(offered) == kept
