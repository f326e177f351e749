"""A job that the server does again and again. `server.process.schedule` runs them; what does them declares them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from server import clock


@dataclass(frozen=True, slots=True)
class DutyWork:
    """What makes a job one that a single process does for all that share the store (`server.process.duty`).

    work: what the settings of this process say is to be done. lost: ends what is under way, when another one has it.
    """

    work: Sequence[str]
    lost: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job is due at `since_s` and every `period_s` after it, and once at the start.

    since_s: any one due time, by the clock of the schedule; without one, when the job was declared. duty: None if every
    process does it.
    """

    name: str
    function: Callable[[], Awaitable[None]]
    period_s: float
    since_s: float = field(default_factory=clock.running)
    at_start: bool = True
    duty: DutyWork | None = None
