"""A shop's webhook and a form in one file: each paid order is a sale of the link that brought it, each form a lead.

    WEBHOOK_SECRET=... CLICKCURVE_URL=http://127.0.0.1:8080 python examples/shop/shop.py 9000

- The shop sends a webhook again until it is answered with success, perhaps three times. The order's number is the id of
  the event, so it counts once; and success is answered when the server has counted it, so it counts.
- What a visitor sends reaches the client alone, which never waits and never raises.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import json
import os
import secrets
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs
from wsgiref.simple_server import make_server

from clickcurve.client import Client

BODY_BYTES = 64 * 1024
WITHIN_S = 5
FORM = """<!DOCTYPE html><meta charset="utf-8"><title>Ask us</title><form method="post">
<input type="hidden" name="via" value="{via}"><input type="hidden" name="id" value="{id}">
<input name="name" placeholder="Your name"><button>Send</button></form>"""


class Shop:
    """The WSGI application. secret: that of the shop's webhook; clicks: reports events."""

    def __init__(self, secret: str, clicks: Client) -> None:
        self._secret, self._clicks = secret.encode(), clicks

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        size = min(int(environ.get("CONTENT_LENGTH") or 0), BODY_BYTES)
        status, page = self._answer(environ, environ["wsgi.input"].read(size))
        start(status, [("Content-Type", "text/html; charset=utf-8")])
        return [page.encode()]

    def _answer(self, environ: dict[str, Any], body: bytes) -> tuple[str, str]:
        match environ["REQUEST_METHOD"], environ["PATH_INFO"]:
            case "POST", "/webhook":
                return self._sold(body, environ.get("HTTP_X_SHOP_SIGNATURE", "")), ""
            case "GET", "/form":
                via = parse_qs(environ["QUERY_STRING"]).get("via", [""])[0]
                return "200 OK", FORM.format(via=html.escape(via), id=secrets.token_hex(8))
            case "POST", "/form":
                given = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
                if "via" in given and "id" in given:  # the browser's agent tells a lead of a bot
                    agent = environ.get("HTTP_USER_AGENT", "")
                    self._clicks.hit(given["via"], event="lead", id=f"form-{given['id']}", ua=agent)
                return "200 OK", "Thank you."
        return "404 Not Found", ""

    def _sold(self, body: bytes, signature: str) -> str:
        if not is_signed(body, signature, self._secret):
            return "401 Unauthorized"
        try:
            key, value, id_ = order(body)
        except (ValueError, KeyError, TypeError, ArithmeticError):
            return "400 Bad Request"
        self._clicks.hit(key, event="sale", value=value, id=id_)
        return "204 No Content" if self._clicks.flush(WITHIN_S) else "502 Bad Gateway"


def is_signed(body: bytes, signature: str, secret: bytes) -> bool:
    """Tells whether the shop has sent a body."""
    return hmac.compare_digest(hmac.new(secret, body, hashlib.sha256).hexdigest().encode(), signature.encode())


def order(body: bytes) -> tuple[str, int, str]:
    """Returns of an order the link's key, the amount in the smallest unit, and the id under which it counts once."""
    told = json.loads(body)
    return str(told["via"]), int(Decimal(str(told["total"])) * 100), f"order-{int(told['id'])}"


def main() -> None:
    """Serves until it is stopped."""
    url = os.environ.get("CLICKCURVE_URL", "http://127.0.0.1:8080")
    with Client(url, os.environ.get("CLICKCURVE_TOKEN"), gather_s=0.1) as clicks:
        make_server("127.0.0.1", int(sys.argv[1]), Shop(os.environ["WEBHOOK_SECRET"], clicks)).serve_forever()


if __name__ == "__main__":
    main()
