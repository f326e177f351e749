"""How often a backend of named counters is asked, and what is written to it."""

from __future__ import annotations

from clickcurve.limiter.backends.counters import Counter, Verdict, counters_charged, decide_by_counters
from clickcurve.limiter.rule import parse_rules
from tests.limiter.given import ANN, MIDNIGHT, T, hits
from tests.limiter.places import CounterBackend, Place, Recorder


def test_one_round_of_reading_serves_any_number_of_rules_and_rates() -> None:
    backend = CounterBackend()
    rule = {"by": "ip", "rates": "20/s, 50/m, 100/h, 200/d"}
    limiter = Place("memcached", backend).limiter(
        {"e": [rule, {**rule, "by": "user"}, {**rule, "strategy": "fixed"}, {**rule, "edge": "minute", "rates": "9/m"}]}
    )
    assert hits(limiter, 5, T) == [True] * 5
    limiter.peek("e", ANN, explain=True, now=T + 4_000)
    assert backend.rounds == [1] * 6


def test_a_refused_hit_reads_two_rounds_more_at_most_and_writes_nothing() -> None:
    backend = CounterBackend()
    limiter = Place("memcached", backend).limiter({"e": {"by": "ip", "rates": "9/d"}})
    assert hits(limiter, 9, T) == [True] * 9
    before = dict(backend.counters)
    for later_s in (1, 70, 4_000, 80_000):
        assert not limiter.hit("e", ANN, now=T + later_s).allowed
    assert max(backend.rounds) == 3
    assert backend.counters == before


def test_a_clock_that_stepped_back_costs_one_round_more() -> None:
    backend = CounterBackend()
    limiter = Place("memcached", backend).limiter({"e": {"by": "ip", "rates": "9/d"}})
    hits(limiter, 1, T)
    hits(limiter, 1, T - 30)
    assert backend.rounds == [1, 2]


def test_what_is_written_lives_as_long_as_it_may_be_read() -> None:
    tiered, fixed, kept = parse_rules(
        {
            "a": {"by": "ip", "rates": "2/s, 100/d"},
            "b": {"by": "ip", "rates": "3/s, 20/m", "strategy": "fixed"},
            "c": {"by": "ip", "rates": "3/s, 20/m", "strategy": "fixed", "ttl_s": 90},
        }
    )
    second = MIDNIGHT + 3_661
    assert counters_charged(tiered, "k", second * 20 + 7) == [
        (Counter("k", 1, second * 20 + 7), 22),
        (Counter("k", 20, second * 20), 86_402),
        (Counter("k", 1_200, (second - 1) * 20), 86_461),
        (Counter("k", 72_000, (second - 61) * 20), 90_001),
    ]
    assert counters_charged(fixed, "k", second) == [(Counter("k", 1, second), 1), (Counter("k", 60, second - 1), 60)]
    assert [life_s for _, life_s in counters_charged(kept, "k", second)] == [31, 90]


def test_the_latest_second_is_put_once_a_second() -> None:
    backend = Recorder()
    limiter = Place("memory", backend).limiter({"e": {"by": "ip", "rates": "9/m"}})
    counters: dict[Counter, int] = {}
    written = []
    for n in range(6):
        limiter.hit("e", ANN, now=MIDNIGHT + n / 3)
        deciding = decide_by_counters(backend.questions[-1])
        next(deciding)
        try:
            deciding.send(counters)
        except StopIteration as ended:
            verdict: Verdict = ended.value
        counters |= {name: counters.get(name, 0) + 1 for name, _ in verdict.add}
        counters |= {name: value for name, value, _ in verdict.put}
        written.append(len(verdict.put))
    assert written == [1, 0, 0, 1, 0, 0]
    assert len(counters) == 4  # two seconds, a minute, and the latest
