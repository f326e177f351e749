"""Readers of the page: signed in by a cookie that holds a token, or sent to the form that asks for one."""

from __future__ import annotations

import re

from starlette.responses import RedirectResponse, Response

from clickcurve.asgi import Scope
from dashboard.page.login_routes import COOKIE, login_address

_COOKIE = COOKIE.encode()
_is_token = re.compile(rb"[A-Za-z0-9_-]{1,256}").fullmatch
_PAGES = frozenset({b"/", b"/links", b"/links.csv", b"/limits", b"/system", b"/node"})
_PAGES_BELOW = (b"/links/", b"/groups/")


def is_page(scope: Scope) -> bool:
    """Returns whether a request is for a page that a person looks at."""
    path = scope["raw_path"]
    return scope["method"] == "GET" and (path in _PAGES or path.startswith(_PAGES_BELOW))


def cookie_of(scope: Scope) -> bytes | None:
    """Returns the token of the page's cookie as an Authorization header has it; None without such a cookie.

    Read by hand: a token has no character that a cookie quotes, and the library's reader takes quadratic time for some.
    """
    token = None
    for sent in (value for name, value in scope["headers"] if name == b"cookie"):
        for pair in sent.split(b";"):
            name, _, value = pair.partition(b"=")
            if name.strip() == _COOKIE and _is_token(value.strip()):
                token = value.strip()
    return None if token is None else b"Bearer " + token


def to_login(scope: Scope) -> Response:
    """Returns the way to the form that asks for a token, and back."""
    return RedirectResponse(login_address(scope["raw_path"], scope["query_string"]), 303)
