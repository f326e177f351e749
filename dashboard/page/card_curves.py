"""What the cards of a page count, each of which the chart can draw: hits, visitors, links, events, bots.

What a page counts is one more function here, and one more line in `card_curves_of`, which lists them in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from clickcurve.answers.counts import CurveAnswer, LinksAnswer, TotalAnswer
from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.keys import ALL
from clickcurve.waiting import computed
from dashboard.page.audience.values import share_text
from dashboard.page.audience.visits import visitor_count, visitor_curve
from dashboard.page.cards import Card, CardCurve
from dashboard.page.changes import NO_CHANGE, Change, Count, about, change_of
from dashboard.page.chart import CARD_SPARK, DRAWING, spark
from dashboard.page.event_cards import event_cards, shows_of
from dashboard.page.lists.linked import of_links
from dashboard.page.lists.rankings import RANKED
from dashboard.page.shown import Shown
from dashboard.pictures.axes import with_commas
from dashboard.pictures.curve_picture import HIT
from dashboard.questions import BrokenDown, Questions

HITS, VISITORS, LINKS, BOTS = "", "visitors", "links", "bots"  # as an address has them
SHOWS = (HITS, VISITORS, LINKS, BOTS)
BOT_HIT = "bot hit"


@dataclass(frozen=True, slots=True)
class LinkCounts:
    """The links with a hit: in the range, in the period before, and in each point of the curve, where known."""

    links: LinksAnswer
    before: LinksAnswer | None = None
    curve: CurveAnswer | None = None


async def card_curves_of(
    questions: Questions, broken_down: BrokenDown | None, shown: Shown, links: LinkCounts | None
) -> list[CardCurve]:
    """Asks for what the page's cards count. links: of all links together only.

    Raises what the questions raise, and ParameterInvalid for something to show that is not known.
    """
    view = shown.view
    if view.show not in (shows := (*SHOWS, *shows_of(shown.events))):
        why, rule = f"show {view.show!r} is not known", ", ".join(filter(None, shows))
        raise ParameterInvalid(why, field="show", value=view.show, rule=f"one of {rule}, or left out for hits")
    hits, of_bots = _hits(shown), view.by in OF_BOTS
    came = [] if shown.events is None or of_bots else await event_cards(shown.events, shown)
    if view.by:
        return [hits, *await _share(questions, shown), *came]
    found = [hits]
    if broken_down is not None and broken_down.visitors and shown.subject != ALL:
        found += await _visitors(broken_down, shown)
    if links is not None:
        found.append(_links(links))
    found += came
    if view.bots in ("", "exclude"):
        found.append(await _bots(questions, shown))
    return found


def chosen_of(found: list[CardCurve], show: str) -> CardCurve:
    """Returns what the chart draws: what is asked for if the page can draw it, else hits."""
    return next((each for each in found if each.show == show and each.curve is not None), found[0])


async def cards_of(found: list[CardCurve], shown: Shown) -> list[Card]:
    """Returns the cards with their small curves, and the views that draw them."""
    chosen = chosen_of(found, shown.view.show)
    curves = [each.curve for each in found]
    sparks = await computed(DRAWING, lambda: ["" if curve is None else spark(curve, CARD_SPARK) for curve in curves])
    drawable = sum(curve is not None for curve in curves) > 1
    return [
        replace(
            each.card,
            spark=drawn,
            address=shown.view.address(show=each.show) if drawable and each.curve is not None else "",
            chosen=drawable and each is chosen,
        )
        for each, drawn in zip(found, sparks, strict=True)
    ]


def _hits(shown: Shown) -> CardCurve:
    """Says the hits of the range: all of them, or those of the filter's value."""
    curve = shown.curve
    count, note, change = about(curve.at_least, curve.at_most), "in this range", NO_CHANGE
    if shown.was is not None and shown.compared is not None:
        change = _change(shown.was, curve)
        was = about(shown.was.at_least, shown.was.at_most)
        note = f"{was.text} before"
    name, noun, explained = ("Bots", BOT_HIT, "bots") if shown.view.by in OF_BOTS else ("Hits", HIT, "")
    card = Card(name, count, note, change, help="bounds" if count.bounds else explained)
    return CardCurve(HITS, card, noun, curve, partial(shown.earlier, shown.ask_curve))


async def _share(questions: Questions, shown: Shown) -> list[CardCurve]:
    """Says what part of all hits of people, or of bots, a filter's curve is."""
    view, whose = shown.view.with_bots("exclude"), "people"
    if view.by in OF_BOTS:
        view, whose = view.with_bots("only"), "bots"
    everything = await questions.total(shown.subject, view.count_query())
    if not everything.at_least:
        return []
    curve = shown.curve
    least, most = (share_text(count, everything.at_least) for count in (curve.at_least, curve.at_most))
    share = Count(least) if least == most else Count(f"{least} to {most}")
    note = f"of {about(everything.at_least, everything.at_most).text} hits of {whose}"
    return [CardCurve("share", Card("Share", share, note), HIT)]


async def _visitors(broken_down: BrokenDown, shown: Shown) -> list[CardCurve]:
    """Asks for daily visitors, added up; nothing where no hit of the range tells whose it is."""
    ask = partial(broken_down.questions.visitors, shown.subject)
    answer = await ask(shown.view.total_query)
    count = visitor_count(answer)
    if count.text == "0":
        return []
    several, change = len(answer.days) > 1, NO_CHANGE

    async def earlier() -> CurveAnswer | None:
        axis = await shown.earlier(shown.ask_curve)
        if axis is None:
            return None
        return visitor_curve(await ask(shown.view.people_query((axis.start, axis.end))), axis, shown.now)

    if shown.before is not None:
        was = await ask(shown.view.people_query(shown.before))
        change = change_of((was.at_least, was.at_most), (answer.at_least, answer.at_most))
    name, note = ("Daily visitors", "each day's, added up") if several else ("Visitors", "of this day")
    words = ["Daily visitors are added up: somebody who comes on two days counts twice."] if several else []
    if answer.unknown:
        hits = "hit does" if answer.unknown == 1 else "hits do"
        words.append(f"{with_commas(answer.unknown)} {hits} not tell whose they are.")
    curve = visitor_curve(answer, shown.curve, shown.now)
    card = Card(name, count, note, change, help="visitors")
    return [CardCurve(VISITORS, card, "daily visitor", curve, earlier, " ".join(words))]


def _links(counts: LinkCounts) -> CardCurve:
    """Says how many links have a hit in the range, as far as links are ranked."""
    many, was = len(counts.links.links), 0 if counts.before is None else len(counts.before.links)
    if many >= RANKED:
        return CardCurve(LINKS, Card("Links with hits", Count(f"{with_commas(many)} or more"), "in this range"), "link")
    count, note, change = Count(with_commas(many)), "in this range", NO_CHANGE
    if 0 < was < RANKED:
        note, change = f"{with_commas(was)} before", change_of((was, was), (many, many))
    drawn = None if counts.curve is None else of_links(counts.curve, counts.links)
    words = "A link counts in each bar in which it has a hit."
    return CardCurve(LINKS, Card("Links with hits", count, note, change), "link", drawn, note=words)


async def _bots(questions: Questions, shown: Shown) -> CardCurve:
    """Asks for the hits of bots, which are no hits of people."""
    ask, view = partial(questions.curve, shown.subject), shown.view.with_bots("only")
    bots, people = await ask(view.curve_query), shown.curve
    change = NO_CHANGE
    if shown.before is not None:
        change = _change(await questions.total(shown.subject, view.count_query(shown.before)), bots)
    share = f"{share_text(bots.at_most, people.at_most + bots.at_most)} of all, " if bots.at_most else ""
    card = Card("Bots", about(bots.at_least, bots.at_most), f"{share}not counted as hits", change, help="bots")
    drawn = bots if bots.at_most else None
    return CardCurve(BOTS, card, BOT_HIT, drawn, partial(replace(shown, view=view).earlier, ask))


def _change(before: CurveAnswer | TotalAnswer, after: CurveAnswer) -> Change:
    return change_of((before.at_least, before.at_most), (after.at_least, after.at_most))
