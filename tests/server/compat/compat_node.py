"""The routes that other tools read, over a node in this process with hits in memory and a hand-moved clock."""

from __future__ import annotations

from typing import Any

import httpx
from fastapi import FastAPI

from query.breakdowns.queries import BreakdownQueries
from query.queries import Queries
from server.compat.bitly import bitly_routes
from server.compat.graphite.routes import graphite_routes
from server.compat.graphite.series import SeriesReader
from server.compat.prometheus.routes import prometheus_routes
from server.http.problems import Problems
from testing.asgi import ask_app
from tests.query.queried_nodes import QueriedNodes

NOW = 1_772_407_710  # 2026-03-01T23:28:30Z, a Sunday
MINUTE, HOUR, DAY = 60, 3_600, 86_400


class Asked:
    """Answers as a server does to other tools."""

    def __init__(self, queries: Queries, breakdowns: BreakdownQueries | None = None) -> None:
        self.problems = Problems()
        app = FastAPI()
        self.problems.install(app)
        app.include_router(graphite_routes(SeriesReader(queries, breakdowns)))
        app.include_router(prometheus_routes(queries, breakdowns, self.problems.answer))
        app.include_router(bitly_routes(queries, breakdowns))
        self.app = app

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        return ask_app(self.app, method, path, **options)

    def get(self, path: str, **parameters: Any) -> httpx.Response:
        return self.ask("GET", path, params=parameters)

    def post(self, path: str, **form: Any) -> httpx.Response:
        return self.ask("POST", path, data=form)


class CompatNode(Asked):
    """`nodes` counts the hits and knows the time."""

    def __init__(self) -> None:
        self.nodes = QueriedNodes(now=NOW)
        super().__init__(self.nodes.queries)

    def hit(self, key: str, ago_s: int = 0, count: int = 1) -> None:
        self.nodes.hit(key, NOW - ago_s, count)
