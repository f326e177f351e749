"""What came of the clicks of a page, as cards that the chart draws: each event, its rate, the sum of its values."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Mapping
from functools import partial

from clickcurve.answers.counts import CurveAnswer
from clickcurve.answers.events import EventAnswer, RateBounds, Within
from dashboard.page.cards import Card, CardCurve
from dashboard.page.changes import NO_CHANGE, about, change_of
from dashboard.page.shown import Shown
from dashboard.page.view import EVENT, VALUE, TimeSpan
from dashboard.pictures.axes import PERCENT
from dashboard.pictures.curve_picture import Unit, amount_words
from dashboard.questions import AskCurve, CountedEvents


def event_name(event: str, plural: bool = False) -> str:
    """Names an event for people: `Sign up`."""
    return event.replace("_", " ").capitalize() + "s" * plural


def shows_of(events: CountedEvents | None) -> tuple[str, ...]:
    """Returns what an address may show of events."""
    return () if events is None else tuple(kind + name for name in events.units for kind in (EVENT, VALUE))


def question_of(show: str) -> str:
    """Returns what to add to a question so that it is of what an address shows: an event, or the sum of its values."""
    kind, colon, name = show.partition(":")
    return f"&event={name}" + "&measure=value" * (kind + colon == VALUE)


def asked_of(ask: AskCurve, show: str) -> AskCurve:
    """Returns the same question of an event, or of its values."""
    return lambda query: ask(query + question_of(show).encode())


async def event_cards(events: CountedEvents, shown: Shown) -> list[CardCurve]:
    """Asks for what the cards of events say. Raises what the questions raise."""
    counts, before = await _counts(events, shown, None), None
    if shown.before is not None:
        before = await _counts(events, shown, shown.before)
    asked = (
        _event_card(shown, each, None if before is None else before[name], events.units[name])
        for name, each in counts.items()
    )
    return list(await gather(*asked))


async def _event_card(shown: Shown, answer: EventAnswer, before: EventAnswer | None, unit: Unit) -> CardCurve:
    name, value = answer.event, answer.value
    by_value = shown.view.show == VALUE + name and value.at_most > 0
    show = (VALUE if by_value else EVENT) + name
    ask = asked_of(shown.ask_curve, show)
    notes = [] if answer.rate is None else [f"{rate_words(answer.rate)} of hits"]
    if value.at_most:
        notes.insert(0, amount_words(value.at_least, value.at_most, unit))
    change = NO_CHANGE
    if before is not None:
        change = change_of((before.at_least, before.at_most), (answer.at_least, answer.at_most))
    count = about(answer.at_least, answer.at_most)
    card = Card(event_name(name, plural=True), count, ", ".join(notes), change, help="events")
    kinds = ((EVENT + name, "Number"), (VALUE + name, "Value")) if value.at_most else ()
    noun = event_name(name).lower()
    curve = await ask(shown.view.curve_query)
    earlier = partial(shown.earlier, ask)
    return CardCurve(show, card, noun, curve, earlier, unit=unit if by_value else None, kinds=kinds)


async def _counts(events: CountedEvents, shown: Shown, span: TimeSpan | None) -> Mapping[str, EventAnswer]:
    """Returns each event in the view's range, or in another span: all of one moment, unless a filter divides them."""
    if not shown.view.by:
        answer = await events.questions.of(shown.subject, shown.view.count_query(span))
        found = {each.event: each for each in answer.events}
        return {name: found[name] for name in events.units}
    clicks, query = shown.curve, shown.view.curve_query
    if span is not None:
        query = shown.view.curve_query_of(*span, shown.curve.step)
        clicks = await shown.ask_curve(query)
    shows = [kind + name for name in events.units for kind in (EVENT, VALUE)]
    curves = await gather(*(asked_of(shown.ask_curve, show)(query) for show in shows))
    pairs = zip(events.units, curves[::2], curves[1::2], strict=True)
    return {name: _answer(name, clicks, count, value) for name, count, value in pairs}


def _answer(name: str, clicks: CurveAnswer, count: CurveAnswer, value: CurveAnswer) -> EventAnswer:
    rate = None
    if clicks.at_least:
        rate = RateBounds(count.at_least / clicks.at_most, count.at_most / clicks.at_least)
    return EventAnswer(name, count.at_least, count.at_most, Within(value.at_least, value.at_most), rate)


def rate_words(rate: RateBounds) -> str:
    """Writes events by hit: `2.4 %`, with both bounds where they differ."""
    least, most = (f"{each * 100:,.1f}".removesuffix(".0") for each in (rate.at_least, rate.at_most))
    return f"{least}{PERCENT}" if least == most else f"{least} to {most}{PERCENT}"
