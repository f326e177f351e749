"""The page of performance, made of a sheet of figures: tables, and plots of level bars, one a peer, beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from math import ceil, floor, log10
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from bench.command import Options
from bench.measure import Line, markdown, spread
from bench.micro.growth import MOMENTS
from bench.peers.hits import POPULAR, QUIET
from bench.peers.measure import KILLS
from bench.peers.over_http import BATCH_WRITERS, WRITERS
from dashboard.pictures.shapes import Box, Label, Picture, Shape
from dashboard.pictures.svg import AUTO, svg_file

WIDTH, GUTTER, ROOM = 760, 190, 0.14  # pixels; of the plot's width, for the figure behind the longest bar
ROW, HEAD, BETWEEN = 20, 30, 14
OWN = "Clickcurve"
Place: TypeAlias = Callable[[float], float]  # in parts of the plot's width


def plots(figures: dict[str, Any]) -> dict[str, bytes]:
    """Returns each plot as an SVG file, by its name."""
    peers: dict[str, Any] = figures["peers"]
    batches = (1_000, 100_000)
    drawn = {
        "writing": {
            "hits a second, one by one": _of_each(peers, "singles"),
            **{f"hits a second, batches of {size:,}": _of_each(peers, "batches", str(size)) for size in batches},
        },
        "size": {
            "bytes on disk for each link": {
                name: peer["bytes"] / peer["links"] for name, peer in peers.items() if "bytes" in peer
            }
        },
    }
    return {name: svg_file(_bars(groups), AUTO) for name, groups in drawn.items()}


def _of_each(peers: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """Returns what is at this path in the figures of each peer; nothing of some."""
    return {name: reduce(lambda of, key: of.get(key, {}), path, peer) for name, peer in peers.items()}


def _bars(groups: Mapping[str, Mapping[str, Any]]) -> Picture:
    """Draws groups of bars below one another; marks are ten times apart."""
    shapes: list[Shape] = []
    top = 0.0
    for title, rounds in groups.items():
        values = {name: median(each) if isinstance(each, list) else each for name, each in rounds.items() if each}
        if values:
            shapes += _group(title, values, top, *_tenfold([*values.values()]))
            top += HEAD + ROW * len(values) + BETWEEN
    said = f"{'; '.join(groups)}. Each mark of the scale is ten times the one before."
    return Picture(WIDTH, int(top), said, tuple(shapes), GUTTER)


def _group(
    title: str, values: Mapping[str, float], top: float, marks: Sequence[float], place: Place
) -> Iterator[Shape]:
    yield Label("title", 0, top + 20, title, shift=8 - GUTTER)
    for mark in marks:
        yield Box("grid", place(mark), top + HEAD, place(mark) + 0.0015, top + HEAD + ROW * len(values))
    for number, (name, value) in enumerate(values.items()):
        y = top + HEAD + ROW * number
        own = name == OWN
        yield Label("label", 0, y + 14, name, "end", shift=-8)
        yield Box("bar" if own else "partial", 0, y + 3, place(value), y + ROW - 3)
        yield Label("label", place(value), y + 14, f"{value:,.0f}" if value >= 100 else f"{value:.3g}", shift=6)


def _tenfold(values: Sequence[float]) -> tuple[list[float], Place]:
    """Returns the marks from one power of ten to another, and where a value stands."""
    low = floor(log10(0.8 * min(values)))
    high = max(low + 1, ceil(log10(max(values))))
    marks = [10.0**power for power in range(low, high + 1)]
    return marks, lambda value: (log10(value) - low) / (high - low) * (1 - ROOM)


Figures = dict[str, Any]
PAGE = Path(__file__).with_name("page.txt")
QUESTIONS = ("total", "curve 60 min", "curve 24 h", "curve 30 d", "curve 12 mo")
NONE = "-"


def render(options: Options) -> Iterator[Line]:
    """Writes the page and its pictures."""
    files = {f"pictures/performance-{name}.svg": picture + b"\n" for name, picture in plots(options.sheet).items()}
    files["performance.md"] = page(options.sheet).encode()
    (options.docs / "pictures").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (options.docs / name).write_bytes(content)
        yield Line(name, f"{len(content):,} B")


def page(figures: Figures) -> str:
    """Returns the page as Markdown."""
    tables: dict[str, tuple[Sequence[str], Callable[[Figures], Iterator[str]]]] = {
        "doors": (("version", "is written to", "is asked", "synced", "the workload is sent"), _doors),
        "writing": (("one by one", "batches of 1,000", "batches of 100,000", "whole workload"), _writing),
        "size": (("on disk", "a link", "memory"), _size),
        "reading": ((*QUESTIONS, "top 20, life", "top 20, 7 d"), _reading),
        "answered": (("wrong answers", "late hit", "two at once", "after a kill", "singles"), _answers),
    }
    of = figures["stores"]
    made = {}
    for table, (head, cells) in tables.items():
        rows = {name: tuple(cells({"all": of["links"]} | peer)) for name, peer in figures["peers"].items()}
        made[table] = markdown(("", *head), ((name, *row) for name, row in rows.items() if row))
    sizes = ("links", "bytes a link", "flush of a row", "start", "curve p50", "curve p99", "memory")
    return PAGE.read_text().format(
        **figures,
        **made,
        **of,
        grown=markdown(sizes, map(_grown, figures["sizes"])),
        compared=POPULAR + QUIET,
        writers=WRITERS,
        batch_writers=BATCH_WRITERS,
        kills=KILLS,
        moments=MOMENTS,
    )


def _doors(peer: Figures) -> Iterator[str]:
    yield from (peer[name] for name in ("version", "writes", "reads", "synced", "sends"))


def _writing(peer: Figures) -> Iterator[str]:
    batches = peer.get("batches", {})
    for values in (peer.get("singles"), batches.get("1000"), batches.get("100000")):
        yield f"{median(values):,.0f} ± {spread(values)}" if values else NONE
    part = "" if peer.get("links") == peer["all"] else f" ({peer.get('links', 0):,} links)"
    yield f"{peer['load_s']:,.1f} + {peer['settle_s']:,.1f} s{part}" if "load_s" in peer else NONE


def _size(peer: Figures) -> Iterator[str]:
    size = peer.get("bytes")
    yield NONE if size is None else f"{size / 1e6:,.1f} MB"
    yield NONE if size is None else f"{size / peer['links']:,.0f} B"
    yield f"{peer['rss_mb']:,.0f} MB" if "rss_mb" in peer else NONE


def _reading(peer: Figures) -> Iterator[str]:
    for question in QUESTIONS:
        found = peer["latencies"].get(question)
        yield f"{_ms(found['p50'])} / {_ms(found['p99'])}" if found else "not kept"
    yield from (_ms(peer["tops"][span]) for span in ("life", "7 d"))


def _ms(values: Sequence[float]) -> str:
    middle = median(values)
    return f"{middle:.3f}" if middle < 0.1 else f"{middle:.2f}" if middle < 10 else f"{middle:,.0f}"


def _answers(peer: Figures) -> Iterator[str]:
    yield _wrong(peer["answers"]) if "answers" in peer else NONE
    for figure, right in (("late", 1), ("twice", 2)):
        got = peer.get(figure)
        yield NONE if got is None else str(right) if got == right else f"{got}: wrong by {abs(got - right)}"
    yield f"{peer['killed']} of {KILLS}" if "killed" in peer else NONE
    counted, sent = peer.get("counted") or (0, 0)
    yield NONE if not sent else "all" if counted >= sent else f"wrong by {sent - counted:,} of {sent:,}"


def _wrong(answers: Figures) -> str:
    kept = {name: each for name, each in answers.items() if each is not None}
    wrong = [
        f"{name}: {each['wrong']} of {each['asked']}, by up to {each['by']:,} hits"
        for name, each in kept.items()
        if each["wrong"]
    ]
    absent = [name for name in answers if name not in kept]
    said = "; ".join(wrong) or f"0 of {sum(each['asked'] for each in kept.values())}"
    return said + (f"; not kept: {', '.join(absent)}" if absent else "")


def _grown(size: Figures) -> Sequence[str]:
    flush = f"{median(size['flush_us']):.1f} µs ± {spread(size['flush_us'])}"
    start = f"{median(size['start_s']):.2f} s"
    ms = (f"{_ms(size['p50'])} ms", f"{_ms(size['p99'])} ms")
    return f"{size['links']:,}", f"{size['bytes_a_link']:.1f}", flush, start, *ms, f"{size['rss_mb']:.0f} MB"
