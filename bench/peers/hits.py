"""The workload in files, as each peer takes it, and the right answers to what peers are asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path

from bench.workload import Workload
from clickcurve.buckets.ladder import DAY_S

MINUTE_S, WEEK_S = 60, 7 * DAY_S
MONDAY_S = 4 * DAY_S  # the first Monday after the epoch
TOP = 20
BODY_HITS = 100_000
POPULAR, QUIET = 20, 10  # links whose answers are compared with the workload


@dataclass(frozen=True, slots=True)
class Question:
    """A link's counts from `start` to before `end` in steps of `step_s`; one step: a total."""

    name: str
    start: int
    end: int
    step_s: int

    @property
    def points(self) -> int:
        return (self.end - self.start) // self.step_s

    def counts(self, hits: Iterable[tuple[int, int]]) -> list[int]:
        """The right answer for hits given as (start of their bucket, count)."""
        found = [0] * self.points
        for ts, count in hits:
            if self.start <= ts < self.end:
                found[(ts - self.start) // self.step_s] += count
        return found


def questions(workload: Workload) -> tuple[Question, ...]:
    """What each peer is asked of a link. Steps are those that a curve of the length is drawn with."""
    end = workload.end
    day, monday = end // DAY_S * DAY_S, (end - MONDAY_S) // WEEK_S * WEEK_S + MONDAY_S
    life = day - (workload.days + 31) * DAY_S
    return (
        Question("total", life, day + DAY_S, day + DAY_S - life),
        Question("curve 60 min", end - 60 * MINUTE_S, end, MINUTE_S),
        Question("curve 24 h", end - DAY_S, end, 5 * MINUTE_S),
        Question("curve 30 d", day - 29 * DAY_S, day + DAY_S, DAY_S),
        Question("curve 12 mo", monday - 51 * WEEK_S, monday + WEEK_S, WEEK_S),
    )


def week(workload: Workload) -> tuple[int, int]:
    """The start and end of the seven days of which the most popular links are asked."""
    day = workload.end // DAY_S * DAY_S
    return day - 6 * DAY_S, day + DAY_S


@dataclass(slots=True)
class Truth:
    """Hits of the links that are compared, by time; of all links the sums of life and of seven days."""

    hits: dict[str, list[tuple[int, int]]]
    life: dict[str, int] = field(default_factory=dict)
    week: dict[str, int] = field(default_factory=dict)

    def top(self, of_week: bool) -> list[tuple[str, int]]:
        counts = self.week if of_week else self.life
        return sorted(counts.items(), key=lambda link: (-link[1], link[0]))[:TOP]


@dataclass(frozen=True)
class Feed:
    """Files of one workload: raw hits as NDJSON bodies and as one CSV `key,ts`; `summed` has `key,ts,count`, sorted.

    `links` has the keys by popularity, one a line.
    """

    workload: Workload
    bodies: tuple[Path, ...]
    raw: Path
    summed: Path
    links: Path

    @cached_property
    def truth(self) -> Truth:
        truth, (since, until) = Truth({key: [] for key in compared_keys(self.workload)}), week(self.workload)
        for key, hits in self.by_link():
            truth.life[key] = sum(count for _, count in hits)
            if recent := sum(count for ts, count in hits if since <= ts < until):
                truth.week[key] = recent
            if key in truth.hits:
                truth.hits[key] = hits
        return truth

    @property
    def files(self) -> dict[str, str]:
        """Returns where they are, for a process that knows no class of ours."""
        return {"raw": str(self.raw), "summed": str(self.summed), "links": str(self.links)}

    def by_link(self) -> Iterable[tuple[str, list[tuple[int, int]]]]:
        """Each link with its hits, summed by their time."""
        with self.summed.open() as lines:
            rows = (line.split(",") for line in lines)
            for key, some in groupby(rows, lambda row: row[0]):
                yield key, [(int(ts), int(count)) for _, ts, count in some]


def prepare(folder: Path, workload: Workload) -> Feed:
    """Write the files of a workload; no peer's time counts this."""
    folder.mkdir(parents=True)
    bodies, counts = list[Path](), Counter[bytes]()
    raw, summed, links = folder / "hits.csv", folder / "summed.csv", folder / "links.txt"
    with raw.open("wb") as hits:
        for number, body in enumerate(workload.bodies(BODY_HITS)):
            bodies.append(folder / f"hits-{number:04d}.ndjson")
            bodies[-1].write_bytes(body)
            lines = body.replace(b'{"key":"', b"").replace(b'","ts":', b",").replace(b"}", b"")
            hits.write(lines)
            counts.update(lines.splitlines())
    summed.write_bytes(b"".join(b"%b,%d\n" % (line, counts[line]) for line in sorted(counts)))
    links.write_text("\n".join(map(workload.key, range(workload.links))))
    return Feed(workload, tuple(bodies), raw, summed, links)


def compared_keys(workload: Workload) -> list[str]:
    """Links whose answers are compared: popular ones, and some of the least popular."""
    popular = workload.distinct(min(POPULAR, workload.links), seed=7)
    quiet = [workload.key(workload.links - 1 - rank) for rank in range(min(QUIET, workload.links))]
    return list(dict.fromkeys([*popular, *quiet]))
