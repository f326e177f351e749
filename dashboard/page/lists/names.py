"""Links or groups as lines of a table: hits of the range, their share, their curve, and how they changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clickcurve.answers.counts import KeyCount
from clickcurve.visible import visible
from clickcurve.waiting import computed
from dashboard.page.audience.values import share_text
from dashboard.page.changes import NO_CHANGE, Change, certain_change
from dashboard.page.chart import DRAWING, in_path, spark
from dashboard.page.view import PageView
from dashboard.pictures.axes import with_commas
from dashboard.questions import LINK, Questions, asked_of_each, link_or_group

_CHANGED_BY_FORMS = frozenset("\0\r\n")


@dataclass(frozen=True, slots=True)
class Domain:
    """The host that a key begins with, as text. path: the table of its links, from the first page."""

    name: str
    path: str


def domain_and_name(key: str, view: PageView, hosts_in_key: bool) -> tuple[Domain | None, str]:
    """Returns the domain of a link, None if its key has none, and the rest of its key as text."""
    host, slash, rest = key.partition("/")
    if not (hosts_in_key and host and rest):
        return None, visible(key)
    return Domain(visible(host), "links" + view.of_one(by="", prefix=host + slash)), visible(rest)


def form_name(key: str) -> str:
    """Returns a key as forms send it; empty for one that browsers would send as another."""
    return "" if _CHANGED_BY_FORMS & set(key) else key


@dataclass(frozen=True, slots=True)
class NameRow:
    """A link or group of a list, with its curve as safe markup.

    form_name: as forms send it, empty where none can. path: its name in a path, empty for one that no browser can ask
    for. name: as text, behind its domain if it has one. part: of the greatest line, 0 to 100; share: of all hits, empty
    where that is not known.
    """

    form_name: str
    path: str
    domain: Domain | None
    name: str
    count: str
    spark: str
    part: float
    share: str
    change: Change = NO_CHANGE


@dataclass(frozen=True, slots=True)
class Beside:
    """What lines stand beside: all hits of the range, None where they are not known, and the span to compare with."""

    all_hits: int | None
    before: tuple[int, int] | None = None


async def name_rows(
    questions: Questions,
    kind: str,
    names: Sequence[KeyCount],
    view: PageView,
    beside: Beside,
    has_hits: bool = True,
    hosts_in_key: bool = False,
    changes: Sequence[Change] | None = None,
) -> list[NameRow]:
    """Makes the lines of a list. has_hits: the counts are the hits of the range; else its curves say them.

    hosts_in_key: keys begin with their hosts. changes: of each, None to ask for them. Raises what the questions raise.
    """
    view = replace(view, by="")
    subjects = [link_or_group(kind, each.key) for each in names]
    curves = await asked_of_each(questions.curve, subjects, view.curve_query)
    if changes is None and beside.before is not None:
        totals = await asked_of_each(questions.total, subjects, view.count_query(beside.before))
        counts = ((curve.at_least, curve.at_most) for curve in curves)
        changes = list(map(certain_change, ((each.at_least, each.at_most) for each in totals), counts))
    hits = [each.count if has_hits else curve.total for each, curve in zip(names, curves, strict=True)]
    sparks = await computed(DRAWING, lambda: list(map(spark, curves)))
    most = max(hits, default=1) or 1
    return [
        NameRow(
            form_name(each.key),
            in_path(each.key),
            *domain_and_name(each.key, view, hosts_in_key and kind == LINK),
            with_commas(count),
            drawn,
            count * 100 / most,
            share_text(count, beside.all_hits) if beside.all_hits else "",
            change,
        )
        for each, count, drawn, change in zip(names, hits, sparks, changes or [NO_CHANGE] * len(names), strict=True)
    ]
