"""How many hits a second are read from bodies in memory: `python -m bench.micro.parse`.

Decoding, checking and summing, without HTTP, journal or sync. Best of some rounds, by processor time; a plain hit has
about 34 bytes. Then what a plain hit takes from its body into the buffer, by stage, with the hits of `bench ingest`.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable

from bench.workload import Workload, batch
from ingest.batch import encode_batch
from ingest.buffer import Buffer
from ingest.hit import Moment
from ingest.reading.body import Media, read_hits
from ingest.reading.bots import bot_judge
from ingest.reading.request_sums import RequestSums

NOW = 1_767_268_800
MOMENT = Moment(NOW, NOW - 43_200, NOW + 300)
KEYS = 100_000
SECONDS = 0.7
AGENTS = [f"Mozilla/5.0 (X11; Linux x86_64; rv:{n}.0) Gecko/20100101 Firefox/{n}.0" for n in range(60, 140)]

Make = Callable[[random.Random, str, int], str]


def plain(_: random.Random, key: str, place: int) -> str:
    """Hits as they came in over the last ten minutes."""
    return f'{{"key":"{key}","ts":{NOW - 600 + place}}}'


def scattered(rng: random.Random, key: str, _: int) -> str:
    """Hits of a whole day in no order."""
    return f'{{"key":"{key}","ts":{NOW - rng.randrange(43_200)}}}'


def timeless(_: random.Random, key: str, __: int) -> str:
    return f'{{"key":"{key}"}}'


def with_agent(rng: random.Random, key: str, place: int) -> str:
    return f'{{"key":"{key}","ts":{NOW - 600 + place},"ua":"{rng.choice(AGENTS)}"}}'


def with_id(rng: random.Random, key: str, place: int) -> str:
    return f'{{"key":"{key}","ts":{NOW - 600 + place},"id":"{rng.getrandbits(64):x}"}}'


def iso(_: random.Random, key: str, place: int) -> str:
    return f'{{"key":"{key}","ts":"2026-01-01T11:{50 + place // 60:02}:{place % 60:02}Z"}}'


def nested(rng: random.Random, key: str, place: int) -> str:
    return f'{{"key":"{key}","geo":{{"country":"DE"}},"labels":["a","b"],"ts":{NOW - 600 + place}}}'


def bodies(make: Make, hits: int) -> tuple[bytes, bytes]:
    """The same hits as a JSON array and as NDJSON. Keys as popular as links are (Zipf)."""
    rng = random.Random(hits)
    names = ["".join(rng.choices("abcdefghijkmnpqrstuvwxyzABCDEFGH23456789", k=6)) for _ in range(KEYS)]
    weights = [1 / rank**1.1 for rank in range(1, KEYS + 1)]
    made = [make(rng, key, place * 600 // hits) for place, key in enumerate(rng.choices(names, weights, k=hits))]
    return f"[{','.join(made)}]".encode(), ("\n".join(made) + "\n").encode()


def rate(body: bytes, media: Media, hits: int, is_bot: Callable[[str], bool]) -> float:
    """Million hits a second, the best of the rounds that fit in the time."""
    best, began = 0.0, time.process_time()
    while (start := time.process_time()) - began < SECONDS:
        sums = RequestSums(MOMENT)
        for read in read_hits(body, media):
            sums.add(read, is_bot)
        receipt = sums.receipt()
        best = max(best, hits / (time.process_time() - start))
        assert receipt.counted == hits, receipt
    return best / 1e6


def stages(hits: int, is_bot: Callable[[str], bool]) -> str:
    """Nanoseconds a hit of each stage, the best of the rounds that fit in the time: batches of several minutes."""
    workload = Workload(KEYS, 10_000_000, 400, NOW)
    texts = [batch(workload.draw(hits, seed=10 + number), NOW - 60) for number in range(max(4, 20_000 // hits))]
    buffer, best = Buffer(MOMENT.late_before), defaultdict[str, float](lambda: float("inf"))
    began = time.process_time()
    while time.process_time() - began < 3 * SECONDS:
        for text in texts:
            body = f"[{','.join(text)}]".encode()
            taken = [time.process_time()]
            sums = RequestSums(MOMENT)
            for read in read_hits(body, Media.json):
                sums.add(read, is_bot)
            counted = sums.batch()
            assert counted is not None
            taken.append(time.process_time())
            payload = encode_batch(counted)
            taken.append(time.process_time())
            buffer.add_batch(counted, 1, False)
            taken.append(time.process_time())
            for stage, start, end in zip(("reading", "journal's bytes", "buffer"), taken, taken[1:], strict=False):
                best[stage] = min(best[stage], (end - start) / hits * 1e9)
    found = ", ".join(f"{stage} {ns:.0f} ns" for stage, ns in best.items())
    return f"batches of {hits:,}: {found} a hit; {len(payload) / hits:.1f} B of it in the journal"


def main() -> None:
    is_bot = bot_judge()
    print(f"{'M hits/s':<12}{'array 1,000':>14}{'lines 1,000':>14}{'array 100,000':>16}{'lines 100,000':>16}")
    for make in (plain, timeless, scattered, with_agent, with_id, iso, nested):
        figures = []
        for hits in (1_000, 100_000):
            array, lines = bodies(make, hits)
            figures += [rate(array, Media.json, hits, is_bot), rate(lines, Media.lines, hits, is_bot)]
        print(f"{make.__name__:<12}{figures[0]:>14.2f}{figures[1]:>14.2f}{figures[2]:>16.2f}{figures[3]:>16.2f}")
    for hits in (1_000, 100_000):
        print(stages(hits, is_bot))


if __name__ == "__main__":
    main()
