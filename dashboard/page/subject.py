"""What a page is about: a link, a group, or all links together, with the questions about it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from clickcurve.keys import group_key, link_key
from dashboard.answers import READ_CURVE, READ_TOTAL, Answers, CurveAnswer, Question, TotalAnswer

LINK, GROUP = "link", "group"


@dataclass(frozen=True, slots=True)
class PageSubject:
    """kind is LINK or GROUP, or empty for all links. stored: the key of its row."""

    kind: str
    name: str
    stored: str
    asked_curve: Question
    asked_total: Question
    summary: Question | None = None

    async def curve(self, query: bytes) -> CurveAnswer:
        return READ_CURVE((await self.asked_curve(query))[1])

    async def total(self, query: bytes) -> TotalAnswer:
        return READ_TOTAL((await self.asked_total(query))[1])


def all_links(answers: Answers) -> PageSubject:
    return PageSubject("", "", "", partial(answers.curve, None), partial(answers.total, None))


def link_or_group(answers: Answers, kind: str, name: str) -> PageSubject:
    """Returns a link or a group by its name."""
    if kind == LINK:
        curve, total, summary = answers.curve, answers.total, answers.summary
        return PageSubject(
            kind, name, link_key(name), partial(curve, name), partial(total, name), partial(summary, name)
        )
    asked = (partial(each, name) for each in (answers.group_curve, answers.group_total, answers.group_summary))
    return PageSubject(kind, name, group_key(name), *asked)
