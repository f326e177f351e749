"""How far a long command is: one line on a terminal, with what is done, how fast, and the time that is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from server import clock
from server.cli.output import on_screen, progress

EVERY_S = 0.1
BAR = 25  # characters


class ProgressLine:
    """Shows how far a command is, on a terminal only, and at most every EVERY_S. It is removed when its block is left.

    name: what is worked on. unit: what is counted, in the plural.
    """

    def __init__(self, name: str, unit: str, now: Callable[[], float] = clock.monotonic) -> None:
        self._name, self._unit, self._now = name, unit, now
        self._begun_at = now()
        self._shown_at = self._begun_at - EVERY_S
        self._first: int | None = None  # what was done before: an import goes on where it stopped
        self._is_shown = on_screen()

    def show(self, done: int, total: int | None, count: int | None = None) -> None:
        """Shows that `done` of `total` (None: nobody knows it) is done. count: of the unit, if that is not `done`."""
        if not self._is_shown:
            return
        if self._first is None:
            self._first = done
        now = self._now()
        if now - self._shown_at >= EVERY_S:
            self._shown_at = now
            units = done if count is None else count
            progress(progress_text(self._name, self._unit, done, total, units, now - self._begun_at, self._first))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            progress("")


def progress_text(
    name: str, unit: str, done: int, total: int | None, count: int, passed_s: float, first: int = 0
) -> str:
    """Returns the line: of a known total the part and the time that is left, and always how many and how fast."""
    parts = [name]
    part = min(1.0, done / total) if total else None
    if part is not None:
        parts.append(f"{'█' * int(part * BAR):░<{BAR}} {int(part * 100):3} %")
    parts.append(f" {count:,} {unit}")
    if passed_s >= 1:
        parts.append(f" {count / passed_s:,.0f}/s")
        if part is not None and total and done > first:
            left_s = int((total - done) * passed_s / (done - first))
            parts.append(f" {left_s // 60}:{left_s % 60:02} left")
    return " ".join(parts)
