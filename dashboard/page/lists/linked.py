"""How many links have a hit: in a range, and in each point of its curve. A ranking tells, up to as many as it has."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from msgspec.structs import replace

from clickcurve.answers.counts import CurveAnswer, LinksAnswer, PointAnswer
from clickcurve.keys import ALL
from dashboard.page.lists.rankings import RANKED
from dashboard.questions import Questions

MOST_POINTS = 92  # rankings of one curve
PATIENCE_S = 0.05  # a page goes on without the curve
_LONGER = ("1h", "1d", "1w", "1mo", "1y")  # steps of a curve that has too many points


async def links_of_points(questions: Questions, query: bytes) -> CurveAnswer | None:
    """Returns how many links have a hit in each point of the curve of all links.

    query: of that curve; of too many points a longer step is taken. A link counts in each point that it has a hit in,
    so the total is no sum: it is 0. None where years are too many.
    """
    asked = dict(parse_qsl(query.decode("latin-1")))
    curve = await questions.curve(ALL, query)
    for step in _LONGER:
        if len(curve.points) <= MOST_POINTS:
            break
        curve = await questions.curve(ALL, urlencode({**asked, "step": step}).encode())
    if len(curve.points) > MOST_POINTS:
        return None
    points = [replace(each, count=await _links_of(questions, each, asked.get("bots", ""))) for each in curve.points]
    return replace(curve, points=points, total=0, at_least=0, at_most=0)


async def _links_of(questions: Questions, point: PointAnswer, bots: str) -> int:
    if not point.count:
        return 0
    asked = {"from": point.start, "to": point.end, "limit": RANKED, **({"bots": bots} if bots else {})}
    return len((await questions.links(urlencode(asked).encode())).links)


def of_links(curve: CurveAnswer, links: LinksAnswer) -> CurveAnswer:
    """Returns a curve of links with those of the whole range as its total."""
    many = len(links.links)
    return replace(curve, total=many, at_least=many, at_most=many, exact=True)
