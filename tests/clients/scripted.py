"""A server that answers posts of hits as a test says: well, badly, late, never, or not at all."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WITHIN_S = 600.0


@dataclass(frozen=True)
class Post:
    """One request that arrived."""

    path: str
    id: str
    headers: dict[str, str]
    hits: list[dict[str, Any]]

    @property
    def sum(self) -> int:
        return sum(hit.get("count", 1) for hit in self.hits)


@dataclass(frozen=True)
class Reply:
    """What is answered. status 0 closes the connection without an answer, -1 never answers."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


NO_ANSWER = Reply(0)
NEVER = Reply(-1)


def counted(post: Post) -> Reply:
    receipt = {"counted": post.sum, "duplicate": 0, "late": 0, "refused": 0, "items": []}
    return Reply(200, json.dumps(receipt).encode())


class ScriptedServer:
    """Gives the next reply of `script` to each post, and counts once the script is over."""

    def __init__(self, *script: Reply) -> None:
        self.script: deque[Reply | Callable[[Post], Reply]] = deque(script)
        self.posts: list[Post] = []
        self._arrived = threading.Condition()
        self._over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer._answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def wait_for(self, posts: int) -> list[Post]:
        """Waits until so many posts have arrived; returns all."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.posts) >= posts, WITHIN_S), f"{len(self.posts)} posts"
            return list(self.posts)

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        lines = body.splitlines() if headers["content-type"] == "application/x-ndjson" else []
        hits = [json.loads(line) for line in lines] if lines else json.loads(body)
        post = Post(handler.path, headers.get("idempotency-key", ""), headers, hits)
        with self._arrived:
            self.posts.append(post)
            step = self.script.popleft() if self.script else counted
            self._arrived.notify_all()
        reply = step if isinstance(step, Reply) else step(post)
        if reply.status == NEVER.status:
            self._over.wait(WITHIN_S)
        if reply.status <= 0:
            handler.close_connection = True
            return
        handler.send_response(reply.status)
        for name, value in (*reply.headers, ("Content-Length", str(len(reply.body)))):
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(reply.body)

    def close(self) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def scripted(*script: Reply) -> Iterator[ScriptedServer]:
    server = ScriptedServer(*script)
    try:
        yield server
    finally:
        server.close()
