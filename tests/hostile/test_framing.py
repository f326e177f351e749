"""Bytes at the wire: what is one request, what is several, and what is none. Each case is sent whole and byte by byte.

What two programs on a connection may read differently is how a request is smuggled past a proxy; so it is refused, and
nothing that follows it on the connection is read. The last request of each refused case would be answered if it was.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

import pytest

from testing.server import ROOT
from tests.server.http.test_connection import listening

HOST = b"Host: localhost\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: localhost\r\n\r\n"


def post(*fields: bytes, body: bytes = b"", line: bytes = b"POST /x HTTP/1.1") -> bytes:
    return line + b"\r\n" + HOST + b"".join(field + b"\r\n" for field in fields) + b"\r\n" + body


def chunked(body: bytes, *fields: bytes) -> bytes:
    return post(CODED, *fields, body=body)


def get(line: bytes, *fields: bytes) -> bytes:
    return line + b"\r\n" + b"".join(field + b"\r\n" for field in fields) + b"\r\n"


A_HOST = b"Host: localhost"
CODED = b"Transfer-Encoding: chunked"
NONE = b"0\r\n\r\n"  # an empty body in chunks
CASES: dict[str, tuple[bytes, list[int]]] = {
    # --- lengths ---
    "a length": (post(b"Content-Length: 3", body=b"abc"), [200]),
    "no length, no body": (post(), [200]),
    "a length and a transfer coding": (post(b"Content-Length: 3", CODED, body=NONE), [400]),
    "a transfer coding and a length": (post(CODED, b"Content-Length: 3", body=NONE), [400]),
    "two lengths": (post(b"Content-Length: 3", b"Content-Length: 4", body=b"abcd"), [400]),
    "one length twice": (post(b"Content-Length: 3", b"Content-Length: 3", body=b"abc"), [400]),
    "two lengths on a line": (post(b"Content-Length: 3, 4", body=b"abc"), [400]),
    "one length twice on a line": (post(b"Content-Length: 3, 3", body=b"abc"), [400]),
    "a length with a plus": (post(b"Content-Length: +3", body=b"abc"), [400]),
    "a length with a minus": (post(b"Content-Length: -3", body=b"abc"), [400]),
    "a length in hexadecimal": (post(b"Content-Length: 0x3", body=b"abc"), [400]),
    "a length with a fraction": (post(b"Content-Length: 3.0", body=b"abc"), [400]),
    "a length with an underscore": (post(b"Content-Length: 0_3", body=b"abc"), [400]),
    "a length in quotes": (post(b'Content-Length: "3"', body=b"abc"), [400]),
    "a length in other digits": (post("Content-Length: ٣".encode(), body=b"abc"), [400]),
    "a length within blanks": (post(b"Content-Length:   3  ", body=b"abc"), [200]),
    "a length with zeros": (post(b"Content-Length: 003", body=b"abc"), [200]),
    "a length with a blank in it": (post(b"Content-Length: 1 1", body=b"abc"), [400]),
    "a length beyond 64 bits": (post(b"Content-Length: 99999999999999999999", body=b"abc"), [400]),
    "an empty length": (post(b"Content-Length:", body=b"abc"), [400]),
    "a length that is too short": (post(b"Content-Length: 1", body=b"abc") + LAST, [200]),
    "a length that is too long": (post(b"Content-Length: 9", body=b"abc"), []),
    # --- names and lines ---
    "a blank before the colon": (post(b"Content-Length : 3", body=b"abc"), [400]),
    "a tab before the colon": (post(b"Content-Length\t: 3", body=b"abc"), [400]),
    "a blank before the name": (post(b" Content-Length: 3", body=b"abc"), [400]),
    "a folded line": (post(b"X: a\r\n b"), [400]),
    "a folded length": (post(b"Content-Length:\r\n 3", body=b"abc"), [400]),
    "a folded first line": (get(b"GET / HTTP/1.1\r\n X: y", A_HOST), [400]),
    "an empty name": (post(b": y"), [400]),
    "a line without a colon": (post(b"Content-Length 3"), [400]),
    "NUL in a name": (post(b"X\0: y"), [400]),
    "NUL in a value": (post(b"X: \0"), [400]),
    "DEL in a name": (post(b"X\x7f: y"), [400]),
    "a quote in a name": (post(b'"X": y'), [400]),
    "a byte above 127 in a name": (post(b"X\xe4: y"), [400]),
    "a byte above 127 in a value": (post(b"X: \xe4"), [200]),
    "a control character in a value": (post(b"X: a\x01"), [400]),
    "an escape in a value": (post(b"X: \x1b[0m"), [400]),
    "a tab in a value": (post(b"X: a\tb"), [200]),
    "bare LF between lines": (post(b"X: a\nContent-Length: 3", body=b"abc"), [400]),
    "bare LF after the first line": (b"GET / HTTP/1.1\n" + HOST + b"\r\n", [400]),
    "bare LF everywhere": (b"GET / HTTP/1.1\nHost: localhost\n\n", [400]),
    "bare LF at the end of the head": (b"GET / HTTP/1.1\r\n" + HOST + b"\n", [400]),
    "bare CR in a value": (post(b"X: a\rb"), [400]),
    "bare CR between lines": (post(b"X: a\rContent-Length: 3"), [400]),
    "two CR": (post(b"X: a\r"), [400]),
    "an empty line first": (b"\r\n" + LAST, [200]),
    # --- transfer codings ---
    "chunks": (chunked(b"3\r\nabc\r\n0\r\n\r\n"), [200]),
    "chunks, in capitals": (post(b"TRANSFER-ENCODING: CHUNKED", body=b"3\r\nabc\r\n0\r\n\r\n"), [200]),
    "an unknown coding": (post(b"Transfer-Encoding: xchunked", body=NONE), [501]),
    "gzip, then chunked": (post(b"Transfer-Encoding: gzip, chunked", body=NONE), [501]),
    "chunked, then gzip": (post(b"Transfer-Encoding: chunked, gzip", body=NONE), [400]),
    "chunked twice on a line": (post(b"Transfer-Encoding: chunked, chunked", body=NONE), [400]),
    "chunked twice": (post(CODED, CODED, body=NONE), [400]),
    "identity": (post(b"Transfer-Encoding: identity", body=NONE), [501]),
    "an empty coding": (post(b"Transfer-Encoding:", body=NONE), [400]),
    "a coding with a parameter": (post(b"Transfer-Encoding: chunked;a=b", body=NONE), [501]),
    "a coding in quotes": (post(b'Transfer-Encoding: "chunked"', body=NONE), [501]),
    "a coding after a control character": (post(b"Transfer-Encoding: \x0bchunked", body=NONE), [400]),
    "a blank before the colon of a coding": (post(b"Transfer-Encoding : chunked", body=NONE), [400]),
    "chunks in HTTP/1.0": (post(CODED, body=NONE, line=b"POST /x HTTP/1.0"), [400]),
    # --- chunks ---
    "a chunk with an extension": (chunked(b"3;a=b\r\nabc\r\n0\r\n\r\n"), [200]),
    "an extension in quotes": (chunked(b'3;a="b;c"\r\nabc\r\n0\r\n\r\n'), [200]),
    "an extension with a bare LF": (chunked(b"3;a\nabc\r\n0\r\n\r\n"), [400]),
    "a trailer": (chunked(b"3\r\nabc\r\n0\r\nX: y\r\n\r\n"), [200]),
    "a trailer that is a length": (chunked(b"3\r\nabc\r\n0\r\nContent-Length: 50\r\n\r\n") + LAST, [400]),
    "a trailer with NUL": (chunked(b"0\r\nX: \0\r\n\r\n"), [400]),
    "a size in capitals": (chunked(b"A\r\n0123456789\r\n0\r\n\r\n"), [200]),
    "a size with zeros": (chunked(b"0003\r\nabc\r\n000\r\n\r\n"), [200]),
    "a size with 0x": (chunked(b"0x3\r\nabc\r\n0\r\n\r\n"), [400]),
    "a size with a plus": (chunked(b"+3\r\nabc\r\n0\r\n\r\n"), [400]),
    "a size with a minus": (chunked(b"-3\r\nabc\r\n0\r\n\r\n"), [400]),
    "a size that is none": (chunked(b"xyz\r\nabc\r\n0\r\n\r\n"), [400]),
    "an empty size": (chunked(b"\r\nabc\r\n0\r\n\r\n"), [400]),
    "a blank before a size": (chunked(b" 3\r\nabc\r\n0\r\n\r\n"), [400]),
    "a blank after a size": (chunked(b"3 \r\nabc\r\n0\r\n\r\n"), [400]),
    "a size beyond 64 bits": (chunked(b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n"), [400]),
    "a size that is too small": (chunked(b"2\r\nabc\r\n0\r\n\r\n"), [400]),
    "a size that is too large": (chunked(b"4\r\nabc\r\n0\r\n\r\n"), [400]),
    "a bare LF after a size": (chunked(b"3\nabc\r\n0\r\n\r\n"), [400]),
    "a bare LF after a chunk": (chunked(b"3\r\nabc\n0\r\n\r\n"), [400]),
    "a bare LF at the end": (chunked(b"3\r\nabc\r\n0\r\n\n"), [400]),
    "chunks without an end": (chunked(b"3\r\nabc\r\n"), []),
    # --- Host and version ---
    "no Host": (get(b"GET / HTTP/1.1"), [400]),
    "two Hosts": (get(b"GET / HTTP/1.1", A_HOST, b"Host: other"), [400]),
    "one Host twice": (get(b"GET / HTTP/1.1", A_HOST, A_HOST), [400]),
    "two Hosts in HTTP/1.0": (get(b"GET / HTTP/1.0", A_HOST, A_HOST), [400]),
    "no Host in HTTP/1.0": (get(b"GET / HTTP/1.0"), [200]),
    "an empty Host": (get(b"GET / HTTP/1.1", b"Host:"), [200]),
    "HTTP/0.9": (b"GET /\r\n\r\n", [505]),
    "HTTP/0.9 by name": (get(b"GET / HTTP/0.9", A_HOST), [505]),
    "HTTP/2.0": (get(b"GET / HTTP/2.0", A_HOST), [505]),
    "HTTP/1.2": (get(b"GET / HTTP/1.2", A_HOST), [400]),
    "HTTP/3": (get(b"GET / HTTP/3", A_HOST), [400]),
    "http/1.1": (get(b"GET / http/1.1", A_HOST), [400]),
    "HTTP/01.1": (get(b"GET / HTTP/01.1", A_HOST), [400]),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", [400]),
    "a line of a proxy": (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + LAST, [400]),
    # --- cookies ---
    "a cookie": (post(b"Cookie: a=b; c=\"d\""), [200]),
    "a backslash in a cookie": (post(b'Cookie: a="\\"'), [400]),
    "cookies that are too long": (post(*[b"Cookie: a=" + b"b" * 4_095] * 2), [431]),
    "a cookie in a trailer": (chunked(b"0\r\nCookie: a=\"\\\"\r\n\r\n"), [200]),
    # --- targets and methods ---
    "an absolute target": (get(b"GET http://localhost/x HTTP/1.1", A_HOST), [200]),
    "an absolute target without a path": (get(b"GET http://localhost HTTP/1.1", A_HOST), [400]),
    "dot segments": (get(b"GET /v1/../x/./y HTTP/1.1", A_HOST), [200]),
    "encoded dot segments": (get(b"GET /%2e%2e/%2E/x HTTP/1.1", A_HOST), [200]),
    "two slashes": (get(b"GET //x HTTP/1.1", A_HOST), [200]),
    "a backslash": (get(b"GET /\\x HTTP/1.1", A_HOST), [200]),
    "no slash": (get(b"GET x HTTP/1.1", A_HOST), [400]),
    "a star": (get(b"OPTIONS * HTTP/1.1", A_HOST), [200]),
    "a fragment": (get(b"GET /x#y HTTP/1.1", A_HOST) + LAST, [400]),
    "an encoded fragment": (get(b"GET /x%23y HTTP/1.1", A_HOST), [200]),
    "NUL in a target": (get(b"GET /\0 HTTP/1.1", A_HOST), [400]),
    "a blank in a target": (get(b"GET /a b HTTP/1.1", A_HOST), [400]),
    "a tab in a target": (get(b"GET /a\tb HTTP/1.1", A_HOST), [400]),
    "a byte above 127 in a target": (get(b"GET /\xe4 HTTP/1.1", A_HOST), [400]),
    "a tunnel": (get(b"CONNECT localhost:80 HTTP/1.1", A_HOST), [400]),
    "an unknown method": (get(b"FOO / HTTP/1.1", A_HOST), [400]),
    "a method in small letters": (get(b"get / HTTP/1.1", A_HOST), [400]),
    "no target": (get(b"GET HTTP/1.1", A_HOST), [400]),
    "two blanks": (get(b"GET  / HTTP/1.1", A_HOST), [200]),
    "a body of GET": (post(b"Content-Length: 3", body=b"abc", line=b"GET /x HTTP/1.1") + LAST, [200, 200]),
    # --- several ---
    "two requests": (LAST * 2, [200, 200]),
    "ten requests": (LAST * 10, [200] * 10),
    "one after a close": (get(b"GET / HTTP/1.1", A_HOST, b"Connection: close") + LAST, [200]),
    "one after HTTP/1.0": (get(b"GET / HTTP/1.0", A_HOST) + LAST, [200]),
    "a bad one, then a good one": (get(b"GET / HTTP/1.1") + LAST, [400]),
    "a good, a bad, a good one": (LAST + get(b"GET / HTTP/1.1") + LAST, [200]),
    "a body that looks like a request": (post(b"Content-Length: %d" % len(LAST), body=LAST), [200]),
    "such a body, with an upgrade": (
        post(b"Connection: upgrade", b"Upgrade: h2c", b"Content-Length: %d" % len(LAST), body=LAST),
        [200],
    ),
}  # fmt: skip

# What follows a good request and cannot be read is told only if it comes after that one's answer.
ANSWERED_BEFORE = ("a good, a bad, a good one", "a length that is too short")


async def statuses(port: int, raw: bytes, bytewise: bool) -> list[int]:
    """The statuses that come back for these bytes, after which the client closes its side."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = bytearray()

    async def read() -> None:
        with suppress(ConnectionError):  # what came before it counts
            while piece := await reader.read(1 << 16):
                found.extend(piece)

    reading = asyncio.create_task(read())
    for piece in [raw[at : at + 1] for at in range(len(raw))] if bytewise else [raw]:
        writer.write(piece)
        await asyncio.sleep(0)
    if not reading.done():
        writer.write_eof()
    await asyncio.wait_for(reading, 600)
    writer.close()
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", found)]


@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "byte by byte"])
def test_what_is_a_request_and_what_is_none(bytewise: bool, capsys: pytest.CaptureFixture[str]) -> None:
    async def run() -> dict[str, list[int]]:
        async with listening() as port:
            return {name: await statuses(port, raw, bytewise) for name, (raw, _) in CASES.items()}

    found = asyncio.run(run())
    for name in ANSWERED_BEFORE:
        if found[name][-1] == 400:
            found[name].pop()
    assert {name: (found[name], wanted) for name, (_, wanted) in CASES.items() if found[name] != wanted} == {}
    refused = sum(max(wanted, default=400) >= 400 for _, wanted in CASES.values())
    said = f"{len(CASES)} cases, {refused} of them refused or never complete"
    with capsys.disabled():
        print(f"\nframing: {said}")
    assert said in (ROOT / "docs" / "promises.md").read_text()
