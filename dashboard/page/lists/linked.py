"""How many links have a hit: in a range, and in each point of its curve. A ranking tells, up to as many as it has."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from msgspec.structs import replace

from clickcurve.answers.counts import CurveAnswer, LinksAnswer, PointAnswer
from clickcurve.buckets.ladder import DAY_S
from clickcurve.keys import ALL
from dashboard.page.lists.rankings import RANKED
from dashboard.page.periods import moment_written
from dashboard.questions import Questions

MOST_POINTS = 92  # rankings of one curve
PATIENCE_S = 0.05  # a page goes on without the curve
# The steps that a curve with too many points may have, with their seconds at least.
_LONGER = {"1h": 3_600, "1d": DAY_S, "1w": 7 * DAY_S, "1mo": 28 * DAY_S, "1y": 365 * DAY_S}


async def links_of_points(questions: Questions, query: bytes) -> CurveAnswer | None:
    """Returns how many links have a hit in each point of the curve of all links.

    query: of that curve; of too many points a longer step is taken. A link counts in each point that it has a hit in,
    so the total is no sum: it is 0. None where years are too many.
    """
    asked = dict(parse_qsl(query.decode("latin-1")))
    curve = await questions.curve(ALL, query)
    if len(curve.points) > MOST_POINTS:
        length_s = curve.points[-1].end - curve.points[0].start
        step = next((name for name, step_s in _LONGER.items() if length_s <= MOST_POINTS * step_s), None)
        if step is None:
            return None
        curve = await questions.curve(ALL, urlencode({**asked, "step": step}).encode())
    points = [replace(each, count=await _links_of(questions, each, asked.get("bots", ""))) for each in curve.points]
    return replace(curve, points=points, total=0, at_least=0, at_most=0)


async def _links_of(questions: Questions, point: PointAnswer, bots: str) -> int:
    if not point.count:
        return 0
    asked = {"from": moment_written(point.start), "to": moment_written(point.end), "limit": RANKED}
    asked |= {"bots": bots} if bots else {}
    return len((await questions.links(urlencode(asked).encode())).links)


def of_links(curve: CurveAnswer, links: LinksAnswer) -> CurveAnswer:
    """Returns a curve of links with those of the whole range as its total."""
    many = len(links.links)
    return replace(curve, total=many, at_least=many, at_most=many, exact=True)
