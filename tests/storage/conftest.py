from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from storage.contract import Store
from tests.storage.processes import Other, Start
from tests.storage.stores import OUTAGES, STORES, Outage, StoreFactory
from tests.storage.tools.copies import Make


@pytest.fixture(params=STORES)
def store_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreFactory]:
    factory = STORES[request.param](tmp_path, request.getfixturevalue)
    yield factory
    factory.close()


@pytest.fixture
def store(store_factory: StoreFactory) -> Store:
    return store_factory()


@pytest.fixture(params=OUTAGES, ids=str)
def outage(request: pytest.FixtureRequest) -> Outage:
    found: Outage = request.param
    return found


@pytest.fixture
def failing_factory(request: pytest.FixtureRequest, outage: Outage, tmp_path: Path) -> Iterator[StoreFactory]:
    factory = STORES[outage.store](tmp_path, request.getfixturevalue)
    yield factory
    factory.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clickcurve.db"


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Other] = []

    def start(*arguments: object) -> Other:
        started.append(Other(*arguments))
        assert started[-1].line() == "ready", started[-1].end()
        return started[-1]

    yield start
    for other in started:
        other.kill()


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """A new store of a kind; of Cassandra's there is one at a time."""
    with ExitStack() as opened:
        made = 0

        def make(kind: str) -> Store:
            nonlocal made
            made += 1
            folder = tmp_path / str(made)
            folder.mkdir()
            factory = STORES[kind](folder, request.getfixturevalue)
            opened.callback(factory.close)
            return factory()

        yield make
