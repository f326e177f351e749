"""A server that looks right and is not: it answers from memory and writes its totals down only now and then.

The harness must catch it. It takes the flags of `clickcurve serve` and keeps its totals in DIR/totals.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

WRITE_EVERY_S = 0.4
RECEIPT = '{"counted":%d,"duplicate":0,"late":0,"refused":0,"items":[]}'


class Forgetful:
    def __init__(self, data: Path) -> None:
        data.mkdir(exist_ok=True)
        self.file = data / "totals"
        self.totals: dict[str, int] = json.loads(self.file.read_text()) if self.file.exists() else {}

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            except (asyncio.IncompleteReadError, OSError):
                writer.close()
                return
            lengths = [line.partition(":")[2] for line in head if line.lower().startswith("content-length:")]
            body = await reader.readexactly(int(lengths[0])) if lengths else b""
            answer = self.answer(head[0].split()[1], body)
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n{answer}".encode())

    def answer(self, path: str, body: bytes) -> str:
        if path.startswith("/v1/links/"):
            return json.dumps({"total": self.totals.get(path.split("/")[3], 0)})
        if not path.startswith("/v1/hits"):
            return "{}"
        hits: list[dict[str, Any]]
        if not body:
            hits = [{"key": path.removeprefix("/v1/hits/")}]
        elif body.startswith(b"["):
            hits = json.loads(body)
        else:
            hits = [json.loads(line) for line in body.splitlines()]
        for hit in hits:
            self.totals[hit["key"]] = self.totals.get(hit["key"], 0) + hit.get("count", 1)
        counted: int = sum(hit.get("count", 1) for hit in hits)
        return RECEIPT % counted

    async def run(self, host: str, port: int) -> None:
        async with await asyncio.start_server(self.connected, host, port):
            while True:
                await asyncio.sleep(WRITE_EVERY_S)
                fresh = self.file.with_suffix(".new")
                fresh.write_text(json.dumps(self.totals))
                fresh.replace(self.file)


if __name__ == "__main__":
    given = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=True))
    asyncio.run(Forgetful(Path(given["--data"])).run(given["--host"], int(given["--port"])))
