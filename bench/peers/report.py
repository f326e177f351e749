"""The page of performance, made of a file of figures: tables, and pictures beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from string import Template
from typing import Any

from bench.measure import markdown, spread
from bench.peers.growth import MOMENTS
from bench.peers.hits import POPULAR, QUIET
from bench.peers.measure import KILLS
from bench.peers.over_http import BATCH_WRITERS, WRITERS
from bench.peers.plots import plots

Figures = dict[str, Any]
PAGE = Path(__file__).with_name("page.txt")
QUESTIONS = ("total", "curve 60 min", "curve 24 h", "curve 30 d", "curve 12 mo")
NONE = "-"


def render(figures: Figures, docs: Path) -> list[Path]:
    """Writes the page and its pictures; returns their paths."""
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "pictures").mkdir(exist_ok=True)
    written = []
    for name, picture in plots(figures).items():
        written.append(docs / "pictures" / f"performance-{name}.svg")
        written[-1].write_bytes(picture + b"\n")
    written.append(docs / "performance.md")
    written[-1].write_text(page(figures))
    return written


def page(figures: Figures) -> str:
    """Returns the page as Markdown."""
    peers: dict[str, Figures] = figures["peers"]
    of = figures["stores"]
    doors = ("version", "writes", "reads", "synced", "sends")
    stored = {name: peer for name, peer in peers.items() if "latencies" in peer}
    tables: dict[str, tuple[str, Iterable[Sequence[str]]]] = {
        "doors": (
            "|version|is written to|is asked|synced|the workload is sent",
            ((name, *(peer[each] for each in doors)) for name, peer in peers.items()),
        ),
        "writing": ("|one by one|batches of 1,000|batches of 100,000|whole workload", _by_peer(_writing, peers, of)),
        "size": ("|on disk|a link|memory", _by_peer(_size, peers, of)),
        "reading": (f"|{'|'.join(QUESTIONS)}|top 20, life|top 20, 7 d", _by_peer(_reading, stored, of)),
        "answers": ("|wrong answers|late hit|two at once|after a kill|singles", _by_peer(_answers, peers, of)),
        "growth": (
            "links|bytes a link|flush of a row|start|curve p50|curve p99|memory",
            map(_growth, figures["sizes"]),
        ),
    }
    numbers = {
        "circumstances": _circumstances(figures),
        "sentences": "\n".join(_fate(name, peer) for name, peer in peers.items() if "killed" in peer),
        "hits": f"{of['hits']:,}",
        "links": f"{of['links']:,}",
        "days": of["days"],
        "rounds": of["rounds"],
        "seconds": f"{of['seconds']:g}",
        "compared": POPULAR + QUIET,
        "writers": WRITERS,
        "batch_writers": BATCH_WRITERS,
        "kills": KILLS,
        "moments": MOMENTS,
    }
    made = {name: markdown(head.split("|"), rows) for name, (head, rows) in tables.items()}
    return Template(PAGE.read_text()).substitute(made | numbers)


def _by_peer(
    cells: Callable[[Figures, Figures], Iterable[str]], peers: dict[str, Figures], of: Figures
) -> Iterator[Sequence[str]]:
    return ((name, *cells(peer, of)) for name, peer in peers.items())


def _circumstances(figures: Figures) -> str:
    """Each part with its day, machine and load; one sentence where they are the same."""
    sentences = [
        f"- {part.capitalize()}: {of['day']}, {of['machine']}, Python {of['python']}, {of['took_s']} s, "
        f"load {of['load']} at its end."
        for part in ("rates", "stores", "growth")
        if (of := figures.get(part))
    ]
    return "\n".join(sentences)


def _writing(peer: Figures, of: Figures) -> Iterator[str]:
    batches = peer.get("batches", {})
    for values in (peer.get("singles"), batches.get("1000"), batches.get("100000")):
        yield f"{median(values):,.0f} ± {spread(values)}" if values else NONE
    part = "" if peer.get("links") == of["links"] else f" ({peer.get('links', 0):,} links)"
    yield f"{peer['load_s']:,.1f} + {peer['settle_s']:,.1f} s{part}" if "load_s" in peer else NONE


def _size(peer: Figures, _: Figures) -> Iterator[str]:
    size = peer.get("bytes")
    yield NONE if size is None else f"{size / 1e6:,.1f} MB"
    yield NONE if size is None else f"{size / peer['links']:,.0f} B"
    yield f"{peer['rss_mb']:,.0f} MB" if "rss_mb" in peer else NONE


def _reading(peer: Figures, _: Figures) -> Iterator[str]:
    for question in QUESTIONS:
        found = peer["latencies"].get(question)
        yield f"{_ms(found['p50'])} / {_ms(found['p99'])}" if found else "not kept"
    yield from (_ms(peer["tops"][span]) for span in ("life", "7 d"))


def _ms(values: Sequence[float]) -> str:
    middle = median(values)
    return f"{middle:.3f}" if middle < 0.1 else f"{middle:.2f}" if middle < 10 else f"{middle:,.0f}"


def _answers(peer: Figures, _: Figures) -> Iterator[str]:
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


def _fate(name: str, peer: Figures) -> str:
    """Says what became of single hits, in a sentence."""
    there = peer["killed"]
    often = {KILLS: "was there every time", 0: "was never there"}.get(there, f"was there {there} of {KILLS} times")
    answered = "its answer" if "no answer" not in peer["writes"] else "its arrival in memory; there is no answer"
    return f"- {name}: a hit {often} after a `kill -9` right behind {answered}."


def _growth(size: Figures) -> Sequence[str]:
    flush = f"{median(size['flush_us']):.1f} µs ± {spread(size['flush_us'])}"
    start = f"{median(size['start_s']):.2f} s"
    ms = (f"{_ms(size['p50'])} ms", f"{_ms(size['p99'])} ms")
    return f"{size['links']:,}", f"{size['bytes_a_link']:.1f}", flush, start, *ms, f"{size['rss_mb']:.0f} MB"
