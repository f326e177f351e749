"""HTTP as an auditor needs it: after each request it is certain whether there was an answer, none, or no connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping


class Unanswered(Exception):
    """The request was sent, at least in part, and the connection ended without a whole answer."""


class Unreachable(Exception):
    """There was no connection, so nothing was sent."""


class Wire:
    """One connection to the server on this port, opened again when needed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Status and body of the answer. Raises Unreachable or Unanswered."""
        return await self._ask("POST", path, body, {"Content-Length": str(len(body)), **headers})

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of the answer. Raises Unreachable or Unanswered."""
        return await self._ask("GET", path, b"", {})

    async def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        reader, writer = await self._connected()
        lines = {"Host": "127.0.0.1", **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        try:
            writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
            await writer.drain()
            return await _answer(reader)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            raise Unanswered(str(error)) from error

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # A kept connection whose end has been read already is known to be dead: nothing can be sent over it.
        if self._streams is None or self._streams[0].at_eof() or self._streams[1].is_closing():
            self.close()
            try:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError as error:
                raise Unreachable(str(error)) from error
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    lengths = [line.partition(":")[2] for line in head[1:] if line.lower().startswith("content-length:")]
    body = await reader.readexactly(int(lengths[0])) if lengths else b""
    return int(head[0].split()[1]), body
