"""Signing in with a token and out again. The token is kept in a cookie that no script and no other site can use."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request, Response

from clickcurve.asgi import read_bounded
from clickcurve.buckets.errors import ClickcurveError, ParameterInvalid
from dashboard.page.page_routes import html, page_route
from dashboard.page.templates import Templates

COOKIE = "clickcurve"
KEPT_S = 30 * 86_400
_FORM_BYTES = 8_192
_MOST_FIELDS = 16
# A header that is far longer than the address that it answers is refused by clients.
_LONGEST_ADDRESS = 4_096
_MOST_FOLDERS = 100
_IN_ADDRESSES = "/?&=%+,:@!$'()*;~-._"


def login_routes(templates: Templates, check: Callable[[str], None], needed: Callable[[], bool]) -> APIRouter:
    """Makes the router.

    check: passes a token that may read, and raises ClickcurveError for any other text. needed: whether the server asks
    for tokens at all.
    """
    router = APIRouter(route_class=page_route(templates))

    async def form(request: Request, following: str, refusal: str = "", status: int = 200) -> Response:
        return await html(request, templates, "login.html", status, next=following, refusal=refusal, shared=True)

    @router.get("/login", include_in_schema=False)
    async def ask(request: Request) -> Response:
        if not needed():
            return Response(status_code=303, headers={"Location": within("")})
        return await form(request, request.query_params.get("next", ""))

    @router.post("/login", include_in_schema=False)
    async def sign_in(request: Request) -> Response:
        fields = await read_form(request)
        following, token = fields.get("next", ""), fields.get("token", "").strip()
        if not needed():
            return Response(status_code=303, headers={"Location": within(following)})
        try:
            check(token)
        except ClickcurveError as error:
            return await form(request, following, error.detail, error.status)
        answer = Response(status_code=303, headers={"Location": within(following)})
        is_secure = request.headers.get("origin", "").startswith("https://") or request.url.scheme == "https"
        answer.set_cookie(COOKIE, token, max_age=KEPT_S, httponly=True, samesite="strict", secure=is_secure)
        return answer

    @router.post("/logout", include_in_schema=False)
    async def sign_out(request: Request) -> Response:
        answer = Response(status_code=303, headers={"Location": "login"})
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    return router


def within(path: str) -> str:
    """Returns an address on this server, whatever the path says: it follows `./`, so it names no other host."""
    return "./" + quote(path.lstrip("/\\"), safe=_IN_ADDRESSES)


def login_address(raw_path: bytes, query: bytes) -> str:
    """Returns where a request without a token is sent; it comes back after it, unless its address is very long."""
    wanted = raw_path.decode("latin-1").lstrip("/") + ("?" + query.decode("latin-1") if query else "")
    following = f"?next={quote(wanted, safe='')}" if 0 < len(wanted) <= _LONGEST_ADDRESS else ""
    return "../" * min(raw_path.count(b"/") - 1, _MOST_FOLDERS) + "login" + following


async def read_form(request: Request) -> dict[str, str]:
    """Reads the fields of a small form. Raises BodyTooLarge, ParameterInvalid."""
    body = await read_bounded(request.stream(), _FORM_BYTES)
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        rule = f"at most {_MOST_FIELDS} fields"
        raise ParameterInvalid("the form has too many fields", field="form", rule=rule) from None
    return {name: values[0] for name, values in fields.items()}
