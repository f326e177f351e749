"""uvicorn's HTTP connection, which also lets a request close it without an answer.

After a failed sync that could not be taken back nobody knows whether a hit counts; the only honest answer is none.
ASGI has no word for that, so the connection puts one into the scope's extensions.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

ABORT = "clickcurve.abort"


class Connection(HttpToolsProtocol):
    """A connection whose requests carry `scope["extensions"]["clickcurve.abort"]["transport"]`."""

    _extensions: dict[str, dict[str, Any]]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._extensions = {ABORT: {"transport": transport}}

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]


async def abort(scope: Any) -> None:
    """Closes the connection of this request at once; nothing that is sent afterwards reaches anybody."""
    transport = scope.get("extensions", {}).get(ABORT, {}).get("transport")
    if transport is not None:
        transport.abort()
        await asyncio.sleep(0)  # the connection learns of it in the next turn; only then is the request over
