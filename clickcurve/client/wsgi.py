"""Counts the redirects of any WSGI application: Flask, Bottle, Pyramid.

    clicks = Client("http://127.0.0.1:8080")
    app.wsgi_app = ClickWsgi(app.wsgi_app, RedirectCounter(clicks))

An answer is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias
from urllib.parse import quote

from clickcurve.client.redirects import RedirectCounter, encoded_path

Environ: TypeAlias = dict[str, Any]
WsgiApplication: TypeAlias = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class ClickWsgi:
    """The application, whose redirects are reported."""

    def __init__(self, app: WsgiApplication, counter: RedirectCounter) -> None:
        self._app = app
        self._counter = counter

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        def counting(status: str, headers: list[tuple[str, str]], error: Any = None) -> Any:
            write = start_response(status, headers, error) if error is not None else start_response(status, headers)
            if self._counter.wants(environ["REQUEST_METHOD"], int(status[:3])):
                count_environ(self._counter, environ)
            return write

        return self._app(environ, counting)


def count_environ(counter: RedirectCounter, environ: Environ) -> None:
    """Reports the hit that a request's WSGI variables describe."""

    def header(name: str) -> bytes | None:
        value = environ.get("HTTP_" + name.upper().replace("-", "_"))
        return None if value is None else value.encode("latin-1", "replace")  # as WSGI has all its text

    counter.count(_sent_path(environ), environ.get("QUERY_STRING", ""), header, environ.get("REMOTE_ADDR"))


def _sent_path(environ: Environ) -> str:
    """Returns the path as it was sent where the server tells (gunicorn, uWSGI, mod_wsgi), else encodes it anew."""
    raw = environ.get("RAW_URI") or environ.get("REQUEST_URI") or ""
    if raw.startswith("/"):
        return encoded_path(str(raw).partition("?")[0].encode("latin-1", "replace"))
    decoded = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return quote(decoded.encode("latin-1"), safe="/:@!$&'()*+,;=~")
