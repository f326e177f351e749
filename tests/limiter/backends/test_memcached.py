"""What is memcached's own: its traps by the numbers of the list, its lifetimes, several servers, and one that fails."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from time import time
from urllib.parse import unquote

import pytest

from clickcurve.buckets.errors import BackendUnavailable
from clickcurve.limiter.backend import Settled
from clickcurve.limiter.backends.bucket_series import Series
from clickcurve.limiter.backends.connections.memcached_connection import (
    MAX_RELATIVE_S,
    Server,
    delete_command,
    expiry,
    put_command,
)
from clickcurve.limiter.backends.guard import Guarded, Patience
from clickcurve.limiter.backends.memcached import MemcachedBackend
from clickcurve.limiter.backends.memcached_items import GRACE_S
from clickcurve.limiter.backends.meter import UNBOUNDED
from clickcurve.limiter.backends.packed_meters import pack_meter
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import FAILURES, STRATEGIES
from testing.backend_servers import Served, memcached_server
from testing.server import TRIES
from tests.limiter.given import ANN, BEN, T, free, hits, ten
from tests.limiter.places import PATIENCE_S, Place

pytestmark = pytest.mark.needs("memcached")

DAY_S = 86_400


@pytest.fixture
def server() -> Iterator[Served]:
    """One that has only what the test puts there, and that the test may break."""
    with memcached_server() as server:
        yield server


@pytest.fixture
def other_server() -> Iterator[Served]:
    with memcached_server() as server:
        yield server


@pytest.fixture
def place(server: Served) -> Iterator[Place]:
    with closing(backend_on(server)) as backend:
        yield Place("memcached", backend)


def backend_on(*servers: Served, timeout_s: float = PATIENCE_S) -> MemcachedBackend:
    return MemcachedBackend([server.address for server in servers], timeout_s=timeout_s)


def items(server: Served) -> dict[str, int]:
    """Every name that the server has, with the seconds that it has to live; -1 for ever. A dump may miss what is just
    being moved, so several are put together."""
    found: dict[str, int] = {}
    for _ in range(TRIES):
        now, many = stat(server, "time"), stat(server, "curr_items")
        for line in _dump(server).splitlines()[:-1]:
            fields = dict(each.split("=", 1) for each in line.split())
            expires = int(fields["exp"])
            found[unquote(fields["key"])] = -1 if expires <= 0 else expires - now
        if len(found) == many:
            return found
    raise AssertionError(f"{many} names, but only {found}")


def stat(server: Served, name: str) -> int:
    return int(server.ask(b"stats").partition(b"STAT " + name.encode() + b" ")[2].split()[0])


def writes(server: Served) -> list[int]:
    return [stat(server, name) for name in ("total_items", "cmd_set", "incr_hits", "incr_misses", "decr_hits")]


def _dump(server: Served) -> str:
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as talking:
        listed = b""
        while not listed.endswith(b"END\r\n"):
            if not listed or listed.startswith(b"BUSY"):
                listed = b""
                talking.sendall(b"lru_crawler metadump all\r\n")
            listed += talking.recv(65_536)
    return listed.decode()


# --- traps ------------------------------------------------------------------------------------------------------------
def test_trap_2_a_time_to_live_of_more_than_30_days_is_a_date(server: Served, place: Place) -> None:
    """Taken for a date in 1970, a count that is to live for a year would be gone at once."""
    limiter = place.limiter({"e": {"by": "ip", "rates": "3/365d", "strategy": "fixed"}})
    now = time()
    assert hits(limiter, 4, now) == [True] * 3 + [False]
    assert all(364 * DAY_S < life_s <= 367 * DAY_S for life_s in items(server).values())
    assert expiry(MAX_RELATIVE_S, 1_700_000_000_000_000) == MAX_RELATIVE_S
    assert expiry(MAX_RELATIVE_S + 1, 1_700_000_000_000_000) == 1_700_000_000 + MAX_RELATIVE_S + 1


def test_trap_3_a_time_to_live_of_a_second_may_end_at_once(server: Served, place: Place) -> None:
    hits(place.limiter({"e": {"by": "ip", "rates": "10/s", "strategy": "per_second"}}), 1, T)
    assert min(items(server).values()) >= GRACE_S


def test_trap_4_a_count_that_is_not_there_is_begun_in_the_same_step(server: Served, place: Place) -> None:
    """Gone between the reading and the writing, it is not added to nothing: the hit is decided again."""
    limiter = ten(place, "fixed")
    hits(limiter, 4, T)
    server.empty()
    assert free(limiter, T) == 10
    assert hits(limiter, 11, T) == [True] * 10 + [False]


def test_trap_4_what_is_given_back_never_falls_below_nothing(server: Served, place: Place) -> None:
    """What was reserved is gone; what others have counted since is not taken for it."""
    limiter = ten(place, "fixed")
    reservation = limiter.reserve("e", ANN, 5, now=T).reservation or ""
    counted = next(name for name in items(server) if name.endswith("|a"))
    assert server.ask(b"md " + counted.encode()) == b"HD\r\n"
    hits(limiter, 2, T)
    assert limiter.cancel("e", reservation, now=T) is Settled.done
    assert free(limiter, T) == 8


@pytest.mark.parametrize("value", ["x" * 300, "a b", "a\r\nflush_all", "ü", "\0", "a\tb", "x" * 5_000, "noreply", "|a"])
def test_trap_4_names_that_memcached_would_refuse(place: Place, value: str) -> None:
    limiter = place.limiter({"e": {"by": [["ip", "user"]], "rates": "2/m"}})
    caller, other = {"ip": "10.0.0.1", "user": value}, {"ip": "10.0.0.1", "user": value + "x"}
    assert [limiter.hit("e", caller, now=T).allowed for _ in range(3)] == [True, True, False]
    assert limiter.hit("e", other, now=T).allowed


def test_trap_8_a_name_of_an_item_is_the_name_of_no_other(server: Served, place: Place) -> None:
    limiter = place.limiter({"e": {"by": "ip", "rates": "2/s, 9/m"}})
    for ip in ("a", "a|a", "a|b", "a|", "a|0|60|1709204760", "held:"):
        assert [limiter.hit("e", {"ip": ip}, now=T).allowed for _ in range(3)] == [True, True, False]


def test_trap_11_every_name_has_an_end(server: Served, place: Place) -> None:
    limiter = place.limiter(
        {
            "e": [
                {"by": "ip", "rates": "2/s, 50/m, 100/d"},
                {"by": "user", "rates": "9/s, 20/m", "strategy": "fixed"},
                {"by": "ip", "rates": "30/s", "strategy": "per_second"},
            ]
        }
    )
    for now in (T, T + 0.2, T + 0.4, T + 9):
        limiter.hit("e", ANN, now=now)
        limiter.peek("e", BEN, now=now)
        reservations = [limiter.reserve("e", ANN, now=now).reservation or "" for _ in range(3)]
        limiter.cancel("e", reservations[0], now=now)
        limiter.commit("e", reservations[1], now=now)
        limiter.reset("e", BEN, now=now)
        found = items(server)
        assert found
        assert all(0 < life_s < 2 * DAY_S for life_s in found.values())


def test_a_refused_hit_and_a_peek_leave_nothing(server: Served, place: Place) -> None:
    limiter = ten(place, "tiered")
    limiter.hit("e", ANN, 11, now=T)
    limiter.peek("e", ANN, now=T)
    assert items(server) == {}
    hits(limiter, 10, T)
    before = writes(server)
    assert hits(limiter, 5, T + 1.5) == [False] * 5
    limiter.peek("e", ANN, explain=True, now=T + 70)
    assert writes(server) == before


def test_trap_14_what_got_no_answer_is_not_sent_again(server: Served) -> None:
    with closing(backend_on(server, timeout_s=0.2)) as backend:
        limiter = ten(Place("memcached", backend), "fixed")
        hits(limiter, 3, T)
        server.suspend()
        admitted = 3
        with pytest.raises(BackendUnavailable, match="timed out"):
            for _ in range(7):  # it may not stand still at once
                admitted += limiter.hit("e", ANN, now=T).allowed
        server.resume()
        assert free(limiter, T) in (10 - admitted, 9 - admitted)


def test_trap_15_a_reset_looks_for_nothing(server: Served, place: Place) -> None:
    """One request, however much was counted; what was counted before is gone."""
    limiter = place.limiter({"e": {"by": "ip", "rates": "500/d"}})
    for n in range(300):
        limiter.hit("e", ANN, now=T + 61 * n)
    assert len(items(server)) == 1
    before = stat(server, "total_items"), stat(server, "cmd_get")
    limiter.reset("e", ANN, now=T + 20_000)
    assert (stat(server, "total_items"), stat(server, "cmd_get")) == before
    assert items(server) == {}
    assert free(limiter, T + 20_000) == 500
    hits(limiter, 3, T + 20_000)
    limiter.reset("e", ANN, now=T + 20_000)
    assert hits(limiter, 2, T + 20_000) == [True, True]
    assert free(limiter, T + 80_000) == 498


# --- several servers --------------------------------------------------------------------------------------------------
def test_keys_are_spread_over_servers_and_stay_where_they_are(server: Served, other_server: Served) -> None:
    callers = [{"ip": f"10.0.0.{n}", "user": f"u{n % 7}"} for n in range(40)]
    limits = {"e": [{"by": "ip", "rates": "9/s, 20/m"}, {"by": "user", "rates": "1000/m", "strategy": "fixed"}]}
    with closing(backend_on(server, other_server)) as both, closing(backend_on(other_server, server)) as other:
        one, two = (Place("memcached", each).limiter(limits) for each in (both, other))
        for caller in callers:
            one.hit("e", caller, 2, now=T)
        spread = [{name.split("|")[0] for name in items(each)} for each in (server, other_server)]
        assert spread[0].isdisjoint(spread[1])
        assert all(len(names) > 8 for names in spread)
        assert all(two.peek("e", caller, now=T).remaining == 7 for caller in callers)
        reservations = [two.reserve("e", caller, 3, now=T).reservation or "" for caller in callers]
        assert {one.cancel("e", each, now=T) for each in reservations} == {Settled.done}
        assert all(one.peek("e", caller, now=T).remaining == 7 for caller in callers)


def test_no_other_server_takes_over(server: Served, other_server: Served) -> None:
    with closing(backend_on(server, other_server, timeout_s=1.0)) as backend:
        limiter = Place("memcached", backend).limiter({"e": {"by": "ip", "rates": "1/m"}})
        callers = [{"ip": f"10.0.0.{n}"} for n in range(20)]
        assert all(limiter.hit("e", caller, now=T).allowed for caller in callers)
        other_server.kill()
        told: list[bool | None] = []
        for caller in callers:
            try:
                told.append(limiter.hit("e", caller, now=T).allowed)
            except BackendUnavailable:
                told.append(None)
        assert set(told) == {False, None}


# --- a server that fails ----------------------------------------------------------------------------------------------
def test_a_server_that_is_not_there(server: Served) -> None:
    server.kill()
    with closing(backend_on(server)) as backend:
        limiter = ten(Place("memcached", backend), "fixed")
        for ask in (
            lambda: limiter.hit("e", ANN, now=T),
            lambda: limiter.peek("e", ANN, now=T),
            lambda: limiter.reset("e", ANN, now=T),
            lambda: limiter.cancel("e", "1-" + "0" * 32, now=T),
        ):
            with pytest.raises(BackendUnavailable):
                ask()
        server.start()
        assert hits(limiter, 11, T) == [True] * 10 + [False]


def test_a_restart_costs_one_question_and_forgets_what_was_counted(server: Served) -> None:
    with closing(backend_on(server)) as backend:
        limiter = ten(Place("memcached", backend), "fixed")
        servers = backend._servers
        for _ in range(3):  # several connections that all will turn out to be dead
            servers[0]._idle.append(servers[0]._connect())
        hits(limiter, 10, T)
        server.kill()
        server.start()
        with pytest.raises(BackendUnavailable):
            limiter.hit("e", ANN, now=T)
        assert hits(limiter, 11, T) == [True] * 10 + [False]


@pytest.mark.parametrize("how", ["killed", "suspended"])
def test_without_it_each_rule_says_what_is_done_and_with_it_again_it_decides(server: Served, how: str) -> None:
    patience = Patience(deadline_s=PATIENCE_S, failures=2, pause_s=5.0, max_pause_s=5.0)
    passed_s = [0.0]
    with closing(backend_on(server, timeout_s=1.0)) as backend:
        guarded = Guarded(backend, clock=lambda: T, timer=lambda: passed_s[0], patience=patience)
        rule = {"by": "ip", "rates": "3/m", "strategy": "fixed"}
        limiter = Place("memcached", guarded).limiter({name: {**rule, "on_failure": name} for name in FAILURES})

        def admitted() -> dict[str, int]:
            return {name: sum(limiter.hit(name, ANN, now=T).allowed for _ in range(5)) for name in FAILURES}

        assert [limiter.hit(name, ANN, now=T).allowed for name in FAILURES] == [True] * 3
        server.kill() if how == "killed" else server.suspend()
        while not limiter.hit("closed", ANN, now=T).fallback:  # it may not stand still at once
            pass
        assert admitted() == {"open": 5, "closed": 0, "local": 3}
        measures = guarded.measures()
        assert [measures[f"fallback_{name}_total"] for name in FAILURES] == [5, 6, 5]
        server.start() if how == "killed" else server.resume()
        passed_s[0] += 6.0
        # Killed, it knows nothing of before.
        assert admitted()["open"] == (3 if how == "killed" else 2)
        assert not limiter.hit("open", ANN, now=T).fallback


def test_an_item_with_hits_in_every_second_of_a_day(server: Served, place: Place) -> None:
    """It is the largest there is, and memcached takes it as it is set up."""
    limiter = place.limiter({"e": {"by": "ip", "rates": "100000/d"}})
    limiter.hit("e", ANN, now=T - 97_000)
    (name,) = items(server)
    (rule,) = limiter.events.rules()["e"]
    series = Series(rule, 0, UNBOUNDED)
    series.room = 200_000  # as large as it is just before it is trimmed
    for second in range(97_000):
        series.charge(rule, int(T - 97_000 + second) * 1_000_000, 1, "", False)
    value = pack_meter(rule, series, 7)
    with closing(Server(server.address, timeout_s=PATIENCE_S)) as asked:
        put, _ = asked.ask(delete_command(name.encode()) + put_command(name.encode(), value, 100, b""), 2)
    assert put is not None and put[1][0] == b"HD"
    assert len(value) > 776_000
    assert [limiter.hit("e", ANN, now=T + n).remaining for n in range(3)] == [13_599, 13_599, 13_599]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("other", [b"hello", b"", b"\1f" + b"x" * 9, b"\1tMN\r\n", b"\1b" + b"\0" * 35])
def test_something_else_under_the_name_of_an_item(server: Served, place: Place, strategy: str, other: bytes) -> None:
    """It is an error, for which there is a policy: taken for nothing, it would give a limit again. A reset ends it."""
    limiter = ten(place, strategy)
    token = limiter.reserve("e", ANN, now=T).reservation or ""
    counted = next(name for name in items(server) if name.endswith("|a"))
    assert server.ask(f"ms {counted} {len(other)} T100\r\n".encode() + other) == b"HD\r\n"
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match="not what a limit"):
            limiter.hit("e", ANN, now=T)
    with pytest.raises(BackendUnavailable, match="not what a limit"):
        limiter.cancel("e", token, now=T)
    limiter.reset("e", ANN, now=T)
    assert hits(limiter, 11, T) == [True] * 10 + [False]


def test_a_server_that_has_no_room(server: Served, place: Place) -> None:
    """It forgets what was not used for long; the hits that it forgot are free again, and nothing else is wrong."""
    limiter = ten(place, "fixed")
    hits(limiter, 10, T)
    for name in items(server):
        assert server.ask(f"md {name}".encode()) == b"HD\r\n"
    assert hits(limiter, 11, T) == [True] * 10 + [False]


def test_a_server_without_cas_numbers_is_refused() -> None:
    """Without them any write would be taken, over whatever is there."""
    with memcached_server("-C") as server, closing(backend_on(server)) as backend:
        limiter = ten(Place("memcached", backend), "fixed")
        for _ in range(3):
            with pytest.raises(BackendUnavailable, match="-C"):
                limiter.hit("e", ANN, now=T)


def test_after_a_restart_no_number_of_before_is_taken_for_one_of_now(server: Served) -> None:
    """A server counts its CAS numbers from 1 again, and soon one of them is that of a value that was seen before."""
    with closing(backend_on(server)) as backend, closing(backend_on(server)) as other:
        ours, others = (ten(Place("memcached", each), "fixed") for each in (backend, other))
        hits(ours, 1, T)
        (seen,) = backend._seen._seen.values()
        server.kill()
        server.start()
        backend.close()  # so that no broken connection says it
        hits(others, 1, T, cost=10)
        (now,) = other._seen._seen.values()
        assert seen.cas == now.cas
        assert hits(ours, 1, T) == [False]


def test_a_forked_process_has_connections_of_its_own(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(place.backend, MemcachedBackend)
    (server,) = place.backend._servers
    limiter = ten(place, "fixed")
    hits(limiter, 1, T)
    (before,) = server._idle
    monkeypatch.setattr(os, "getpid", lambda: -1)
    hits(limiter, 1, T)
    (after,) = server._idle
    with closing(before):
        assert before is not after
        assert before.fileno() > 0  # the other process may use it


def test_two_programs_on_one_server(server: Served) -> None:
    with (
        closing(MemcachedBackend([server.address], timeout_s=PATIENCE_S, prefix="one:")) as one,
        closing(MemcachedBackend([server.address], timeout_s=PATIENCE_S, prefix="")) as two,
    ):
        limiters: list[Limiter] = [ten(Place("memcached", each), "fixed") for each in (one, two)]
        assert [hits(limiter, 11, T).count(True) for limiter in limiters] == [10, 10]


@pytest.mark.parametrize("ahead_s", [3_600, 3 * DAY_S, -3_600])
def test_a_machine_with_a_wrong_clock_locks_nobody_out(server: Served, ahead_s: int) -> None:
    """It counts apart: the others admit their limit, and it admits the limit once more, never beyond that."""
    with closing(backend_on(server)) as backend:
        limiter = Place("memcached", backend).limiter({"e": {"by": "ip", "rates": "5/m"}})
        assert limiter.hit("e", ANN, now=T + ahead_s).allowed
        for minute in range(0, 10, 2):
            now = T + 60 * minute
            assert [limiter.hit("e", ANN, now=now).allowed for _ in range(7)].count(True) == 5
            wrong = [limiter.hit("e", ANN, now=now + ahead_s).allowed for _ in range(7)]
            assert 4 <= wrong.count(True) <= 5
