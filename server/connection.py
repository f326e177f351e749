"""uvicorn's HTTP connection, with a bound on what a request may say before its body.

The parser takes headers without end and keeps them in memory; a connection whose headers are longer than the bound is
answered 400 and closed.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from server import limits


class Connection(HttpToolsProtocol):
    """What the server talks HTTP through."""

    _unfinished_bytes = 0  # of a request whose headers have not ended
    _in_headers = False

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = True

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._unfinished_bytes = 0
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_headers:
            self._unfinished_bytes += len(data)
            if self._unfinished_bytes > limits.HEADER_BYTES.value and not self.transport.is_closing():
                self.send_400_response(f"the headers are longer than {limits.HEADER_BYTES.value} bytes")
