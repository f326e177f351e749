"""Readers of the page: signed in by a cookie that holds a token, or sent to the form that asks for one."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie

from starlette.responses import RedirectResponse, Response

from clickcurve.asgi import Scope
from dashboard.page.login_routes import COOKIE, login_address

_PAGES = frozenset({b"/", b"/limits", b"/node"})
_PAGES_BELOW = (b"/links/", b"/groups/")


def is_page(scope: Scope) -> bool:
    """Returns whether a request is for a page that a person looks at."""
    path = scope["raw_path"]
    return scope["method"] == "GET" and (path in _PAGES or path.startswith(_PAGES_BELOW))


def cookie_of(scope: Scope) -> bytes | None:
    """Returns the token of the page's cookie as an Authorization header has it; None without a cookie."""
    sent = b"; ".join(value for name, value in scope["headers"] if name == b"cookie")
    if not sent:
        return None
    try:
        found = SimpleCookie(sent.decode("latin-1")).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else b"Bearer " + found.value.encode("latin-1", "replace")


def to_login(scope: Scope) -> Response:
    """Returns the way to the form that asks for a token, and back."""
    return RedirectResponse(login_address(scope["raw_path"], scope["query_string"]), 303)
