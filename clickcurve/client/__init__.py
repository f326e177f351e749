"""Reports hits to a Clickcurve server from a shortener's own code, in the background and each once.

    from clickcurve.client import Client

    clicks = Client("http://127.0.0.1:8080")
    clicks.hit("launch", ref="https://news.example/a")     # returns at once, whatever the server does
    ...
    clicks.close()

`AsyncClient` is the same with `await flush()` and `await close()`. Nothing but the standard library is loaded. With a
`RedirectCounter` and one of `clickcurve.client.asgi`, `.wsgi` and `.django` an application's redirects are counted.
"""

from __future__ import annotations

from clickcurve.client.client import AsyncClient, Client
from clickcurve.client.redirects import RedirectCounter
from clickcurve.client.spool import SpoolUnusable

__all__ = ["AsyncClient", "Client", "RedirectCounter", "SpoolUnusable"]
