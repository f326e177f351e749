"""A web server and a mail server on this machine that keep what they get, each in a thread of its own."""

from __future__ import annotations

import socketserver
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread


class Hooks(ThreadingHTTPServer):
    """Takes POSTs. `refusing`: so many are answered 503 first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Hook)
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.refusing = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Hook(BaseHTTPRequestHandler):
    server: Hooks

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        refused = self.server.refusing > 0
        self.server.refusing -= refused
        if not refused:
            self.server.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(503 if refused else 204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the library names it
        pass


class HostileReceiver(socketserver.ThreadingTCPServer):
    """Sends `pieces` to each connection as fast as they are taken, for ever if they never end."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, pieces: Callable[[], Iterator[bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), _Endless)
        self.pieces = pieces
        self.sent_bytes = 0
        self.closing = Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def server_close(self) -> None:
        self.closing.set()
        super().server_close()


class _Endless(socketserver.BaseRequestHandler):
    server: HostileReceiver

    def handle(self) -> None:
        with suppress(OSError):
            for piece in self.server.pieces():
                self.request.sendall(piece)
                self.server.sent_bytes += len(piece)
                if self.server.closing.is_set():
                    return


class MailBox(socketserver.ThreadingTCPServer):
    """Speaks as much SMTP as is needed to take a mail; without TLS."""

    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Post)
        self.got: list[tuple[str, list[str], str]] = []  # from, to, text

    @property
    def address(self) -> str:
        return f"smtp://127.0.0.1:{self.server_address[1]}"


class _Post(socketserver.StreamRequestHandler):
    server: MailBox

    def handle(self) -> None:
        self._say("220 here")
        sender, to = "", []
        while line := self.rfile.readline().decode().strip():
            verb = line[:4].upper()
            if verb == "EHLO":
                self._say("250 here")
            elif verb == "MAIL":
                sender = line.partition(":")[2].split()[0].strip("<>")
                self._say("250 ok")
            elif verb == "RCPT":
                address = line.partition(":")[2].strip("<> ")
                fine = not address.startswith("nobody")
                to += [address] if fine else []
                self._say("250 ok" if fine else "550 no such box")
            elif verb == "DATA":
                self._say("354 go on")
                text = b""
                while not text.endswith(b"\r\n.\r\n"):
                    text += self.rfile.readline()
                self.server.got.append((sender, to, text.decode()))
                self._say("250 taken")
            else:
                self._say("221 bye" if verb == "QUIT" else "250 ok")
                if verb == "QUIT":
                    return

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def served_by(server: socketserver.BaseServer) -> Iterator[None]:
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
