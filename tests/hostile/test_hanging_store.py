"""While threads that ask the store hang, each route answers within the time that it may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from clickcurve import waiting
from server.app.application import create_app
from server.app.parts import ROUTES
from server.app.startup import running
from server.http import export_route
from server.settings.reading import read_settings
from storage.memory_store import MemoryStore
from tests.hostile.each_route import path_of, request_of

WAIT_S = 0.05
ANSWER_WITHIN_S = 10.0
ANSWERS_AT_ONCE = {"ladder", "uuid", "close", "measures", "rows", "claimed"}
# It asks the owner's own thread, behind a flush; how long that may take is for the store's driver to say.
BEHIND_A_FLUSH = "/v1/import/{source}"


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Two events: once the first is set, threads that ask a store hang until the second is."""
    hangs, over = threading.Event(), threading.Event()

    def hanging_in_threads(verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if hangs.is_set() and threading.current_thread() is not threading.main_thread():
                over.wait()
            return verb(*given, **named)

        return call

    for name, verb in vars(MemoryStore).items():
        if callable(verb) and not name.startswith("_") and name not in ANSWERS_AT_ONCE:
            monkeypatch.setattr(MemoryStore, name, hanging_in_threads(verb))
    for module in (waiting, export_route):
        monkeypatch.setattr(module, "WAIT_S", WAIT_S)
    return hangs, over


def test_each_route_answers_while_the_store_hangs(
    hanging: tuple[threading.Event, threading.Event], tmp_path: Path
) -> None:
    statuses: dict[str, int] = {}
    hangs, over = hanging

    async def ask(http: httpx.AsyncClient) -> None:
        for route in ROUTES.routes:
            for method in route.methods.split() if route.path != BEHIND_A_FLUSH else ():
                path, request = path_of(route, "acme/launch", "acme"), request_of(method, route.path)
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    answer = await http.request(method, path, **request)
                statuses[f"{method} {route.path}"] = answer.status_code

    async def ask_all() -> None:
        async with running(read_settings({"data": str(tmp_path), "store": "memory://"}, {}), [0]) as worker:
            transport = httpx.ASGITransport(app=create_app(worker))
            hangs.set()
            try:
                async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                    await ask(http)
            finally:
                over.set()  # for the flush at the worker's end

    asyncio.run(ask_all())
    assert {status for status in statuses.values() if status >= 500} == {503}
    for refused in ("GET /v1/tokens", "GET /v1/audit", "GET /v1/disavow", "GET /share/{signed}", "GET /v1/export"):
        assert statuses[refused] == 503, refused
    assert statuses["POST /v1/hits/{key}"] == statuses["GET /v1/total"] == 200
