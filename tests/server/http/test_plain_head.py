"""A head that is read at once says what the parser reads in it, and nothing that the parser would not take is read."""

from __future__ import annotations

from typing import Any

import httptools
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from server.http.plain_head import read_head
from tests.power import examples

NAMES = (
    *(b"Host", b"authorization", b"Content-Type", b"CONTENT-LENGTH", b"Connection", b"Proxy-Connection", b"Cookie"),
    *(b"Transfer-Encoding", b"Content-Encoding", b"Expect", b"Origin", b"Upgrade", b"Trailer", b"TE", b"Keep-Alive"),
    *(b"Idempotency-Key", b"Sec-Fetch-Site", b"Sec-Fetch-Mode", b"X-Request-ID", b"x_y", b"Hosts", b"Hos", b"C", b""),
)
VALUES: tuple[bytes, ...] = (
    b"localhost",
    b"16",
    b"0",
    b"-1",
    b"+1",
    b"0x1",
    b"1,1",
    b"16 ",
    b"chunked",
    b"keep-alive",
    b"close",
    b"h2c",
)
VALUES += (
    b"application/json",
    b"Bearer a  b",
    b"100-continue",
    b"\xe4",
    b"",
    b"a\tb",
    b"a\x00",
    b"a\x7f",
    b"a\rb",
    b"a\nb",
)
ENDS = (b"\r\n",) * 8 + (b"\n", b"\r", b"\r\n ", b"\r\r\n", b"")
COLONS = (b": ",) * 6 + (b":", b" : ", b":\t", b":  ", b"", b" ")
STARTS: tuple[bytes, ...] = (
    b"POST /v1/hits HTTP/1.1",
    b"GET /v1/links/a/total HTTP/1.1",
    b"POST /v1/hits/a#b HTTP/1.1",
    b"POST * HTTP/1.1",
)
STARTS += (b"POST  /a HTTP/1.1", b"POST /a HTTP/1.0", b"post /a HTTP/1.1", b"PRI * HTTP/2.0", b"CONNECT a HTTP/1.1")
STARTS += (
    b"POST /a HTTP/1.1 ",
    b"POST /a?b HTTP/1.1",
    b"\r\nPOST /a HTTP/1.1",
    b"PURGE /a HTTP/1.1",
    b"SOURCE /a ICE/1.0",
)
ONCE = (b"host", b"authorization", b"content-type", b"content-length")


class Parsed:
    """What the parser reads in these bytes, until it raises."""

    def __init__(self, data: bytes) -> None:
        self.url, self.fields, self.body, self.is_head_whole, self.is_whole = b"", list[Any](), b"", False, False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.is_head_whole = True

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_whole = True


def check(data: bytes) -> None:
    """Compares both ways where the head is read at once, with a body of the length that it says behind it."""
    head = read_head(data)
    if head is None:
        return
    method, target, *values = head.groups()
    length = int(head[6] or 0)
    whole = data[: head.end()] + b"x" * length
    parsed = Parsed(whole)
    assert parsed.is_whole and parsed.body == b"x" * length
    assert not Parsed(data[: head.end() - 1]).is_head_whole
    if length:
        assert not Parsed(whole[:-1]).is_whole
    assert (parsed.parser.get_method(), parsed.url, parsed.parser.get_http_version()) == (method, target, "1.1")
    assert parsed.parser.should_keep_alive() and not parsed.parser.should_upgrade()
    for name, value in zip(ONCE, values, strict=True):
        assert [said for field, said in parsed.fields if field == name] == ([] if value is None else [value])
    odd = {b"transfer-encoding", b"content-encoding", b"expect", b"cookie", b"origin", b"upgrade", b"trailer"}
    assert odd.isdisjoint(name for name, _ in parsed.fields)


LINE = st.tuples(*map(st.sampled_from, (NAMES, COLONS, VALUES, ENDS))).map(b"".join)
HEADS = st.tuples(st.sampled_from(STARTS), st.sampled_from(ENDS), st.lists(LINE, max_size=6).map(b"".join))
GOOD = [b"POST /v1/hits HTTP/1.1\r\n", b"Host: localhost\r\n", b"Content-Length: 16\r\n", b"X: y\r\n", b"\r\n"]


@given(head=HEADS, last=st.sampled_from((b"\r\n", b"\n", b"", b"\r\n\r\n")))
@settings(max_examples=examples(4_000))
@example(head=(STARTS[0], b"\r\n", b"Host: a\r\nHost: b\r\n"), last=b"\r\n")
@example(head=(STARTS[0], b"\r\n", b"Host: a\r\nContent-Length: 1\r\ncontent-length: 1\r\n"), last=b"\r\n")
def test_what_is_read_at_once_the_parser_reads_alike(head: tuple[bytes, bytes, bytes], last: bytes) -> None:
    check(b"".join(head) + last)


@given(data=st.data())
@settings(max_examples=examples(4_000))
def test_a_good_head_with_some_other_bytes_is_read_as_by_the_parser(data: st.DataObject) -> None:
    raw = bytearray(b"".join(GOOD))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.binary(max_size=2) | st.sampled_from((*GOOD, b"\r", b"\n"))
        )
    check(bytes(raw))


@pytest.mark.parametrize("left_out", range(len(GOOD)))
def test_a_head_is_read_whole_or_not_at_all(left_out: int) -> None:
    whole = b"".join(GOOD)
    assert read_head(whole) is not None
    assert all(read_head(whole[:size]) is None for size in range(len(whole)))
    left = read_head(b"".join(line for place, line in enumerate(GOOD) if place != left_out))
    assert (left is not None) is (left_out in (2, 3))  # neither a length nor any other field is needed
