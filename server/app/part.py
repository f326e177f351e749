"""What a feature hands to the composition of a worker (`server.app.parts`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter

from server.job import Job
from server.metrics import Sample


async def _nothing() -> None:
    return


async def _begun(patience_s: float) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One feature in one worker.

    begin: called before the first request, with the seconds that it may wait for the store; raises ClickcurveError
    where the worker must not start. close: called at a stop, before the last flush.
    """

    routes: Sequence[APIRouter] = ()
    jobs: Iterable[Job] = ()
    samples: Callable[[], Iterable[Sample]] = tuple
    begin: Callable[[float], Awaitable[None]] = _begun
    close: Callable[[], Awaitable[None]] = _nothing
