"""The page of performance, made of a file of figures: tables, and pictures beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from string import Template
from typing import Any

from bench.measure import spread
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
    """The page as Markdown."""
    peers: dict[str, Figures] = figures["peers"]
    of = figures["stores"]
    tables = {
        "doors": _table(("", "version", "is written to", "is asked", "synced", "the workload is sent"), _doors(peers)),
        "writing": _table(
            ("", "one by one", "batches of 1,000", "batches of 100,000", "whole workload"), _writing(peers, of)
        ),
        "size": _table(("", "on disk", "a link", "memory"), _size(peers)),
        "reading": _table(("", *QUESTIONS, "top 20, life", "top 20, 7 d"), _reading(peers)),
        "answers": _table(("", "wrong answers", "late hit", "two at once", "after a kill", "singles"), _answers(peers)),
        "growth": _table(
            ("links", "bytes a link", "flush of a row", "start", "curve p50", "curve p99", "memory"),
            _growth(figures["sizes"]),
        ),
    }
    numbers = {
        "circumstances": _circumstances(figures),
        "sentences": "\n".join(_sentences(peers)),
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
    return Template(PAGE.read_text()).substitute(tables | numbers)


def _circumstances(figures: Figures) -> str:
    """Each part with its day, machine and load; one sentence where they are the same."""
    sentences = [
        f"- {part.capitalize()}: {of['day']}, {of['machine']}, Python {of['python']}, {of['took_s']} s, "
        f"load {of['load']} at its end."
        for part in ("rates", "stores", "growth")
        if (of := figures.get(part))
    ]
    return "\n".join(sentences)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _doors(peers: dict[str, Figures]) -> Iterable[Sequence[str]]:
    for name, peer in peers.items():
        yield name, peer["version"], peer["writes"], peer["reads"], peer["synced"], peer["sends"]


def _writing(peers: dict[str, Figures], of: Figures) -> Iterable[Sequence[str]]:
    for name, peer in peers.items():
        batches = peer.get("batches", {})
        load = f"{peer['load_s']:,.1f} + {peer['settle_s']:,.1f} s{_of_links(peer, of)}" if "load_s" in peer else NONE
        yield name, _rate(peer.get("singles")), _rate(batches.get("1000")), _rate(batches.get("100000")), load


def _of_links(peer: Figures, of: Figures) -> str:
    return "" if peer["links"] == of["links"] else f" ({peer['links']:,} links)"


def _rate(values: Sequence[float] | None) -> str:
    return f"{median(values):,.0f} ± {spread([*values])}" if values else NONE


def _size(peers: dict[str, Figures]) -> Iterable[Sequence[str]]:
    for name, peer in peers.items():
        size = peer.get("bytes")
        disk = NONE if size is None else f"{size / 1e6:,.1f} MB"
        a_link = NONE if size is None else f"{size / peer['links']:,.0f} B"
        yield name, disk, a_link, f"{peer['rss_mb']:,.0f} MB" if "rss_mb" in peer else NONE


def _reading(peers: dict[str, Figures]) -> Iterable[Sequence[str]]:
    for name, peer in peers.items():
        if "latencies" in peer:
            tops = [_ms(peer["tops"][span]) for span in ("life", "7 d")]
            yield name, *(_latency(peer["latencies"].get(question)) for question in QUESTIONS), *tops


def _latency(found: Figures | None) -> str:
    return f"{_ms(found['p50'])} / {_ms(found['p99'])}" if found else "not kept"


def _ms(values: Sequence[float]) -> str:
    middle = median(values)
    return f"{middle:.3f}" if middle < 0.1 else f"{middle:.2f}" if middle < 10 else f"{middle:,.0f}"


def _answers(peers: dict[str, Figures]) -> Iterable[Sequence[str]]:
    for name, peer in peers.items():
        late = peer.get("late")
        grown = NONE if late is None else "1" if late == 1 else f"{late}: wrong by {abs(late - 1)}"
        counted = peer.get("counted")
        missing = counted[1] - counted[0] if counted else 0
        singles = NONE if not counted else "all" if missing <= 0 else f"wrong by {missing:,} of {counted[1]:,}"
        twice = peer.get("twice")
        two = NONE if twice is None else "2" if twice == 2 else f"{twice}: wrong by {2 - twice}"
        killed = f"{peer['killed']} of {KILLS}" if "killed" in peer else NONE
        yield name, _wrong(peer.get("answers")), grown, two, killed, singles


def _wrong(answers: Figures | None) -> str:
    if answers is None:
        return NONE
    kept = {name: each for name, each in answers.items() if each is not None}
    wrong = [
        f"{name}: {each['wrong']} of {each['asked']}, by up to {each['by']:,} hits"
        for name, each in kept.items()
        if each["wrong"]
    ]
    absent = [name for name in answers if name not in kept]
    said = "; ".join(wrong) or f"0 of {sum(each['asked'] for each in kept.values())}"
    return said + (f"; not kept: {', '.join(absent)}" if absent else "")


def _sentences(peers: dict[str, Figures]) -> Iterable[str]:
    """What became of single hits, in a sentence each."""
    for name, peer in peers.items():
        if "killed" not in peer:
            continue
        there = peer["killed"]
        fate = (
            "was there every time"
            if there == KILLS
            else "was never there"
            if not there
            else f"was there {there} of {KILLS} times"
        )
        yield f"- {name}: a hit {fate} after a `kill -9` right behind {_behind(peer)}."


def _behind(peer: Figures) -> str:
    return "its arrival in memory; there is no answer" if "no answer" in peer["writes"] else "its answer"


def _growth(sizes: Sequence[Figures]) -> Iterable[Sequence[str]]:
    for size in sizes:
        flush = f"{median(size['flush_us']):.1f} µs ± {spread(size['flush_us'])}"
        start = f"{median(size['start_s']):.2f} s"
        ms = (f"{_ms(size['p50'])} ms", f"{_ms(size['p99'])} ms")
        yield f"{size['links']:,}", f"{size['bytes_a_link']:.1f}", flush, start, *ms, f"{size['rss_mb']:.0f} MB"
