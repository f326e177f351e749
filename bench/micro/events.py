"""What events cost: a store of links that all have events and values is flushed, ranked by value, and asked."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from statistics import median
from time import perf_counter, process_time

from bench.command import Options
from bench.inside import Owned, read, saved_row
from bench.measure import Line, Percentiles
from bench.micro.growth import NOW, key_of, moments
from bench.rows import row_of
from bench.servers import on_disk
from clickcurve.buckets.ladder import CLICKS, fold_day
from clickcurve.buckets.measures import Measure, measures_of
from clickcurve.buckets.upper_bounds import upper_bounds_in
from clickcurve.keys import link_key, link_subject
from ingest.attributes.country import country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from query.counted import KnownEvents
from query.lists.listed_rows import GROUP, LINK
from query.lists.listing import Listing
from query.queries import Queries
from query.reader import Reader
from server.events.known_events import KnownNames
from storage.contract import SavedRow

NAMES = ("lead", "sale", "signup")
LINKS, FLUSHED, ASKED, BATCH = 100_000, 10_000, 1_000, 1_000
PRICES = (490, 990, 4_990, 19_900)
CLICKS_OF, EVENTS_OF = 5, 2  # moments of 400 days
READER = ProfileReader((), country_reader("builtin"), ReferrerReader(), events=NAMES)
RANKINGS = ("", "last=1d", "last=7d", "last=30d", "last=12mo")


def events(options: Options) -> Iterator[Line]:
    """Times are of the processor; those of questions by the wall too."""
    links = options.of(LINKS)
    began, file = perf_counter(), _filled(options, links)
    options.closing.callback(file.close)
    size = sum(map(on_disk, (options.folder / "data").glob("clickcurve.db*")))
    what = f"{links:,} links with {len(NAMES)} events"
    yield Line(
        what, f"{size / links:.0f} B a link", f"{1 + 2 * len(NAMES)} rows each, made in {perf_counter() - began:.0f} s"
    )
    some, chance = min(FLUSHED, links), random.Random(5)
    for brought in ((), ("sale",), NAMES):
        took = [_flush_us(file, chance, some, links, brought) for _ in range(options.rounds)]
        with_events = f"each with {', '.join(brought)}" if brought else "clicks alone"
        rows = 1 + 2 * len(brought)
        yield Line(f"flush of {some:,} links, {with_events}", f"{median(took):.1f} us a link", f"{rows} rows of each")
    yield from _lists(file, options.rounds)
    yield from _questions(file, links, options.of(ASKED))


def _filled(options: Options, links: int) -> Owned:
    """Returns a file with clicks, events and values of each link, and the candidates of all."""
    file, day = Owned.of_file(options.folder / "data", NOW), fold_day(NOW)

    def rows(mark: int) -> Iterator[tuple[str, SavedRow]]:
        for measure in sorted((each for name in NAMES for each in measures_of(name)), key=lambda each: each.prefix):
            for number in range(links):
                minutes = moments(EVENTS_OF)(number + links * (1 + NAMES.index(measure.event)), NOW)
                price = PRICES[number % len(PRICES)] * (1 + number % 97) if measure.of_values else 1
                counted = {minute: count * price for minute, count in minutes.items()}
                yield measure.row(link_key(key_of(number, links))), saved_row(row_of(counted, day=day, mark=mark))
        for number in range(links):
            row = row_of(moments(CLICKS_OF)(number, NOW), day=day, mark=mark)
            yield link_key(key_of(number, links)), saved_row(row)

    file.fill(link_key(key_of(0, links)), rows)
    file.store.rank_prefixes(KnownNames(NAMES, file.store).ranked_within(()))
    while file.store.rank_some(lambda data: upper_bounds_in(data, CLICKS)):
        pass
    return file


def _flush_us(file: Owned, chance: random.Random, some: int, links: int, brought: tuple[str, ...]) -> float:
    """Flushes a click of each of some links, and the events that it brought; returns microseconds a link."""
    keys = [key_of(number, links) for number in chance.sample(range(links), some)]
    hits: list[dict[str, object]] = [{"key": key} for key in keys]
    hits += [{"key": key, "event": name, "value": chance.choice(PRICES)} for key in keys for name in brought]
    for start in range(0, len(hits), BATCH):
        file.take(read(json.dumps(hits[start : start + BATCH]).encode(), file.now, READER))
    file.now += 15
    return file.flush().processor_s / some * 1e6


def _lists(file: Owned, rounds: int) -> Iterator[Line]:
    """The top 20 by clicks, by sales and by their values, each read anew after a flush."""
    for measure in (Measure(), *measures_of("sale")):
        for span in RANKINGS:
            wall_ms, cpu_ms = [], []
            for _ in range(max(rounds, 3)):
                queries = _queries(file)
                query = "&".join(filter(None, (_asking(measure), span, "limit=20"))).encode()
                wall, cpu = _timed(file, partial(queries.links, query))
                wall_ms.append(wall)
                cpu_ms.append(cpu)
            yield Line(
                f"top 20 by {measure}, {span or 'life'}", str(Percentiles.of(wall_ms)), f"cpu {median(cpu_ms):.1f} ms"
            )


def _questions(file: Owned, links: int, asked: int) -> Iterator[Line]:
    """Curves of clicks, of an event and of its values, and all events at once; links are drawn evenly."""
    chance, queries = random.Random(3), _queries(file)
    what_came = queries.what_came(None)
    curve = "curve of 30 d"
    asks: dict[str, Callable[[str], Awaitable[object]]] = {
        f"{curve}, {measure}": partial(_curve, queries, f"{_asking(measure)}&last=30d".lstrip("&").encode())
        for measure in (Measure(), *measures_of("sale"))
    }
    asks["all events of 30 d, with rates"] = lambda key: what_came.of(link_subject(key), b"last=30d")
    for what, ask in asks.items():
        took = [_timed(file, partial(ask, key_of(chance.randrange(links), links))) for _ in range(asked)]
        wall_ms, cpu_ms = zip(*took, strict=True)
        yield Line(what, str(Percentiles.of(wall_ms)), f"cpu {median(cpu_ms):.2f} ms")


async def _curve(queries: Queries, query: bytes, key: str) -> object:
    return await queries.curve(link_subject(key), query)


def _asking(measure: Measure) -> str:
    return f"event={measure.event}{'&measure=value' * measure.of_values}" if measure.event else ""


def _queries(file: Owned) -> Queries:
    """What answers over the file, with no ranking kept."""
    owner, store = file.owner, file.store
    reader = Reader(store.rows, owner.pending, owner.revisit, store.ladder)
    beside = owner.buffered_beside
    links, groups = (
        Listing(kind, store, owner.pending, owner.buffered_links, lambda: 0, buffered_beside=beside)
        for kind in (LINK, GROUP)
    )
    return Queries(reader, links, groups, lambda: file.now, KnownEvents(lambda: NAMES))


def _timed(file: Owned, ask: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Returns the milliseconds of one question, by the wall and of the processor."""

    async def asked() -> tuple[float, float]:
        wall, cpu = perf_counter(), process_time()
        await ask()
        return (perf_counter() - wall) * 1e3, (process_time() - cpu) * 1e3

    return file.run(asked())
