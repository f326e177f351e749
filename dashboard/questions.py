"""What the page and the pictures ask of which subject: a picture shows what a program would be told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar
from urllib.parse import quote

from clickcurve.answers.breakdowns import ValueCurveAnswer, ValuesAnswer, VisitorsAnswer, WhyAnswer
from clickcurve.answers.counts import CurveAnswer, GroupsAnswer, HoursAnswer, LinksAnswer, SummaryAnswer, TotalAnswer
from clickcurve.answers.events import EventsAnswer, EventsByAnswer
from clickcurve.keys import ALL, Subject, group_of, group_subject, link_subject
from dashboard.pictures.curve_picture import Unit

# A raw query string in, an answer out.
AskCurve: TypeAlias = Callable[[bytes], Awaitable[CurveAnswer]]
LINK, GROUP = "link", "group"
AT_ONCE = 50  # rows that are asked for: how long the event loop has no turn is for the request's budget to say
AnswerT = TypeVar("AnswerT")


def link_or_group(kind: str, name: str) -> Subject:
    """Returns a link or a group by its name."""
    return link_subject(name) if kind == LINK else group_subject(name)


def kind_of(subject: Subject) -> str:
    """Returns LINK or GROUP; empty for all links."""
    if subject == ALL:
        return ""
    return LINK if group_of(subject.stored) is None else GROUP


def in_zone(query: bytes, tz: str) -> bytes:
    """Returns a raw query string that names this zone if it names none. tz: empty for UTC."""
    if not tz or any(part.partition(b"=")[0] == b"tz" for part in query.split(b"&")):
        return query
    return b"&".join(filter(None, (query, b"tz=" + quote(tz, safe="/").encode())))


async def asked_of_each(
    ask: Callable[[Subject, bytes], Awaitable[AnswerT]], subjects: Sequence[Subject], query: bytes
) -> list[AnswerT]:
    """Asks the same of many subjects, so many at once."""
    answers: list[AnswerT] = []
    for start in range(0, len(subjects), AT_ONCE):
        answers += await asyncio.gather(*(ask(each, query) for each in subjects[start : start + AT_ONCE]))
    return answers


class Questions(Protocol):
    """The questions about hits. `query` is a raw query string."""

    async def curve(self, subject: Subject, query: bytes) -> CurveAnswer: ...

    async def total(self, subject: Subject, query: bytes) -> TotalAnswer: ...

    def before(self, query: bytes, asked: tuple[int, int]) -> tuple[int, int, int]: ...

    async def hours(self, subject: Subject, query: bytes) -> HoursAnswer: ...

    async def summary(self, subject: Subject, query: bytes) -> SummaryAnswer: ...

    async def links(self, query: bytes) -> LinksAnswer: ...

    async def groups(self, query: bytes) -> GroupsAnswer: ...


class BreakdownQuestions(Protocol):
    """The questions about what hits say."""

    async def by(self, subject: Subject, dimension: str, query: bytes) -> ValuesAnswer: ...

    async def curve(self, subject: Subject, dimension: str, query: bytes) -> ValueCurveAnswer: ...

    async def bounds_in(
        self, subject: Subject, dimension: str, values: Sequence[str], span: tuple[int, int]
    ) -> Sequence[tuple[int, int]]: ...

    async def visitors(self, subject: Subject, query: bytes) -> VisitorsAnswer: ...


@dataclass(frozen=True, slots=True)
class BrokenDown:
    """A server that breaks hits down: by which dimensions, and whether it keeps days of visitors.

    why: the question why a total changed. hides_few: values with few hits are not named here, while programs may ask
    for them.
    """

    questions: BreakdownQuestions
    why: Callable[[Subject, bytes], Awaitable[WhyAnswer]]
    dimensions: Sequence[str]
    visitors: bool
    hides_few: bool = False


class EventQuestions(Protocol):
    """The questions what came of clicks."""

    async def of(self, subject: Subject, query: bytes) -> EventsAnswer: ...

    async def by(self, subject: Subject, dimension: str, query: bytes) -> EventsByAnswer: ...


@dataclass(frozen=True, slots=True)
class CountedEvents:
    """The events that a server counts, in the order of its settings, and the unit of the values of each."""

    questions: EventQuestions
    units: Mapping[str, Unit]
