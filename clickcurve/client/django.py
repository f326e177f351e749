"""Counts the redirects of a Django project.

    MIDDLEWARE = ["clickcurve.client.django.click_middleware", ...]
    CLICKCURVE = {"url": "http://127.0.0.1:8080", "token": "...", "spool": "/var/lib/shop/clicks", "prefix": "/r/"}

The members of CLICKCURVE are the arguments of `Client` and of `RedirectCounter`. It runs in front of synchronous and of
asynchronous views.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

from clickcurve.client.client import Client
from clickcurve.client.redirects import RedirectCounter
from clickcurve.client.wsgi import count_environ

_OF_COUNTER = ("statuses", "prefix", "fields", "trusted_proxies")


def click_middleware(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Makes the middleware; Django calls this once, at its start."""
    counter = _counter(dict(import_module("django.conf").settings.CLICKCURVE))

    def count(request: Any, response: Any) -> None:
        if counter.wants(request.method, response.status_code):
            count_environ(counter, request.META)

    if iscoroutinefunction(get_response):

        async def answer_async(request: Any) -> Any:
            response = await get_response(request)
            count(request, response)
            return response

        return answer_async

    def answer_sync(request: Any) -> Any:
        response = get_response(request)
        count(request, response)
        return response

    return answer_sync


click_middleware.sync_capable = click_middleware.async_capable = True  # type: ignore[attr-defined]


def _counter(given: Mapping[str, Any]) -> RedirectCounter:
    of_counter = {name: given[name] for name in _OF_COUNTER if name in given}
    of_client = {name: value for name, value in given.items() if name not in of_counter}
    return RedirectCounter(Client(**of_client), **of_counter)
