"""The cards of a page, and what the chart draws of each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from clickcurve.answers.counts import CurveAnswer
from dashboard.page.changes import NO_CHANGE, Change, Count
from dashboard.pictures.curve_picture import Unit

AskEarlier = Callable[[], Awaitable[CurveAnswer | None]]


@dataclass(frozen=True, slots=True)
class Card:
    """One number and what it means. change: since the period before; spark: a small curve as safe markup.

    address: the view whose chart draws it, empty where it cannot be drawn; chosen: the chart does. help: what explains
    it, by its name in `manual/sections.py`.
    """

    name: str
    count: Count
    note: str
    change: Change = NO_CHANGE
    spark: str = ""
    address: str = ""
    chosen: bool = False
    help: str = ""


@dataclass(frozen=True, slots=True)
class CardCurve:
    """A card, and what the chart draws of it. curve: None where there is none; earlier: asks for the period before.

    noun: what the curve counts; note: what to know of it, as a sentence below the chart. unit: of a curve of amounts,
    that of what the noun says; kinds: what else the chart may draw of it, as addresses show it and in words.
    """

    show: str
    card: Card
    noun: str
    curve: CurveAnswer | None = None
    earlier: AskEarlier | None = None
    note: str = ""
    unit: Unit | None = None
    kinds: tuple[tuple[str, str], ...] = ()
