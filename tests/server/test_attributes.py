"""What servers agree on in the store: since when hits are divided, and the salts of days, which are deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from clickcurve.buckets.codec import encode
from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.row import EMPTY, Row
from server.attributes import SALT_KEPT_S, SINCE_LATER_S, Attributes, dimensions_in
from server.settings.reading import read_settings
from storage.memory_store import MemoryStore
from tests.storage.stores import in_flush, saved

DAY = 1_772_000_000 // 86_400 * 86_400
NOON = DAY + 12 * 3_600


class Server:
    """One server's dividing, at a time of its own."""

    def __init__(self, store: MemoryStore, dimensions: str = "ref,source", **more: str) -> None:
        self.now = NOON
        settings = read_settings({"breakdown_dimensions": dimensions, **more}, {})
        self.dividing = Attributes(settings, store, lambda: self.now)

    def begin(self, holds_hits: bool = False) -> None:
        asyncio.run(self.dividing.begin(holds_hits))

    def salts(self) -> Any:
        return self.dividing.reader.salts


def test_in_a_store_without_hits_hits_are_divided_since_ever() -> None:
    server = Server(MemoryStore())
    with pytest.raises(StoreUnavailable, match="start of each dimension"):
        server.dividing.since("ref")
    server.begin()
    assert (server.dividing.since("ref"), server.dividing.since("source")) == (0, 0)


@pytest.mark.parametrize(("hits", "since"), [(EMPTY, 0), (EMPTY._replace(bots=1), NOON + SINCE_LATER_S)])
def test_a_row_of_all_links_that_counts_nothing_is_no_hit(hits: Row, since: int) -> None:
    store = MemoryStore()
    store.save_own(in_flush(store), 1, saved("", data=encode(hits._replace(mark=1))), {})
    server = Server(store)
    server.begin()
    assert server.dividing.since("ref") == since


@pytest.mark.parametrize("stored", [True, False])
def test_else_since_all_workers_have_begun_to_and_all_agree(stored: bool) -> None:
    store = MemoryStore()
    if stored:
        store.save_own(in_flush(store), 1, saved(""), {})
    first, second = Server(store), Server(store)
    first.begin(holds_hits=not stored)
    second.now += 60
    second.begin()
    assert first.dividing.since("ref") == second.dividing.since("ref") == NOON + SINCE_LATER_S
    other = Server(store, "ref")
    other.begin()
    assert set(store.notes()) & {"since:source", "since:ref"} == {"since:ref"}


def test_servers_share_the_salt_of_a_day_until_it_is_deleted() -> None:
    store = MemoryStore()
    one, other = Server(store), Server(store)
    one.begin()
    other.begin()
    assert set(one.salts()) == {DAY - 86_400, DAY}
    assert one.salts() == other.salts()
    assert len(set(one.salts().values())) == 2
    today = one.salts()[DAY]
    one.now = DAY + 86_400 - 60
    asyncio.run(one.dividing.renew())
    assert set(one.salts()) == {DAY - 86_400, DAY, DAY + 86_400}
    assert one.salts()[DAY] == today
    one.now = DAY + SALT_KEPT_S
    asyncio.run(one.dividing.renew())
    assert set(one.salts()) == {DAY + 86_400, DAY + 2 * 86_400}
    kept = {name for name in store.notes() if name.startswith("salt:")}
    assert kept == {f"salt:{DAY + 86_400}", f"salt:{DAY + 2 * 86_400}"}


def test_a_salt_is_let_go_in_time_while_the_store_is_away() -> None:
    class Away(MemoryStore):
        away = False

        def notes(self, prefix: str = "") -> dict[str, str]:
            if self.away:
                raise StoreUnavailable("away")
            return super().notes(prefix)

    store = Away()
    server = Server(store)
    server.begin()
    store.away, server.now = True, DAY - 86_400 + SALT_KEPT_S
    with pytest.raises(StoreUnavailable):
        asyncio.run(server.dividing.renew())
    assert set(server.salts()) == {DAY}


def test_without_visitors_there_are_no_salts() -> None:
    store = MemoryStore()
    for server in (Server(store, breakdown_visitors="off"), Server(store, "off")):
        server.begin()
        assert server.salts() is None
    assert not [name for name in store.notes() if name.startswith("salt:")]


def test_a_store_that_does_not_answer_is_asked_again() -> None:
    class Down(MemoryStore):
        down = True
        asked = 0

        def notes(self, prefix: str = "") -> dict[str, str]:
            self.asked += prefix == "since:"
            if self.down:
                raise StoreUnavailable("down")
            return super().notes(prefix)

    store = Down()
    server = Server(store)
    server.begin()
    assert server.salts() == {}
    with pytest.raises(StoreUnavailable):
        asyncio.run(server.dividing.renew())
    store.down = False
    for _ in range(2):
        asyncio.run(server.dividing.renew())
    assert store.asked == 3, "it has agreed, for ten minutes"
    assert server.dividing.since("ref") == NOON + SINCE_LATER_S, "hits may have come before"
    assert set(server.salts()) == {DAY - 86_400, DAY}


class FaultyStore(MemoryStore):
    """A store whose notes end in a fault of its own, which is not that it does not answer."""

    def notes(self, prefix: str = "") -> dict[str, str]:
        raise ZeroDivisionError


def test_a_fault_at_the_start_is_raised_not_waited_for() -> None:
    with pytest.raises(ZeroDivisionError):
        Server(FaultyStore()).begin()


class SlowStore(MemoryStore):
    """A store that answers as soon as the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = Event()

    def notes(self, prefix: str = "") -> dict[str, str]:
        self.go_on.wait()
        return super().notes(prefix)


def test_a_store_that_takes_too_long_is_agreed_with_later() -> None:
    store = SlowStore()
    server = Server(store)

    async def begin() -> None:
        await server.dividing.begin(False, patience_s=0.01)
        try:
            with pytest.raises(StoreUnavailable, match="start of each dimension"):
                server.dividing.since("ref")
        finally:
            store.go_on.set()
        await server.dividing.renew()

    asyncio.run(begin())
    assert server.dividing.since("ref") in (0, NOON + SINCE_LATER_S), "the start or the later one agreed first"


def test_rules_for_bots_are_read_again_and_bad_ones_leave_the_old_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, listed = tmp_path / "clickcurve.toml", tmp_path / "list.txt"
    listed.write_text("spam.example\n")
    config.write_text(f'[bots]\nfiles = ["{listed}"]\n')
    attributes = Attributes(read_settings({"config": str(config)}, {}), MemoryStore(), lambda: NOON)
    judging = attributes.reader.without_visitors().bot_rules
    assert judging.rule(None, "spam.example", None) == "ref:spam.example"
    attributes.reload()
    assert "rules for bots" not in caplog.text, "they are the same"
    caplog.set_level("INFO", "clickcurve")
    listed.write_text("other.example\n")
    attributes.reload()
    assert judging.rule(None, "spam.example", None) == ""
    assert judging.rule(None, "other.example", None) == "ref:other.example"
    listed.write_text("*.example\n")
    attributes.reload()
    assert judging.rule(None, "other.example", None) == "ref:other.example"
    assert [record.message for record in caplog.records] == [
        "rules for bots reloaded",
        "rules for bots not reloaded",
    ]
    assert f"{listed}:1: " in caplog.records[1].reason  # type: ignore[attr-defined]


def test_a_day_whose_salt_was_lost_is_known_to_have_had_several() -> None:
    """A backup and a copy have no salts, and which days had some."""
    store = MemoryStore()
    server = Server(store)
    server.begin()
    other = Server(store)
    other.begin()
    days = DAY - 86_400, DAY, DAY + 86_400
    assert [each.dividing.salts_in(day, day + 86_400) for each in (server, other) for day in days] == [1] * 6
    store.drop_notes([name for name in store.notes() if name.startswith("salt:")])
    for many in (2, 2):
        restored = Server(store)
        restored.begin()
        assert [restored.dividing.salts_in(day, day + 86_400) for day in days] == [many, many, 1]
    assert restored.dividing.salts_in(DAY - 7 * 86_400, DAY - 6 * 86_400) == 1
    assert restored.dividing.salts_in(DAY - 7 * 86_400, DAY + 1) == 2
    restored.now = DAY + 5 * 86_400
    asyncio.run(restored.dividing.renew())
    kept = {name: many for name, many in store.notes("salted:").items() if many != "1"}
    assert kept == {f"salted:{DAY - 86_400}": "2", f"salted:{DAY}": "2"}, "for as long as their visitors are"
    assert min(int(name.removeprefix("salted:")) for name in store.notes("salted:").keys() - kept.keys()) > DAY


# --- the dimensions of a new store and of one that exists -------------------------------------------------------------
FORMER = ("ref", "country", "device", "source")


def test_a_new_store_divides_by_channel_and_one_that_exists_keeps_what_it_has() -> None:
    settings = read_settings({}, {})
    new, old = MemoryStore(), MemoryStore()
    assert dimensions_in(new, settings) == (*FORMER, "channel")
    for name in FORMER:
        old.note(f"since:{name}", "0")
    assert dimensions_in(old, settings) == FORMER
    named = read_settings({"breakdown_dimensions": "ref,channel"}, {})
    assert dimensions_in(old, named) == ("ref", "channel")


def test_a_worker_that_begins_while_another_agrees_takes_the_store_for_no_older_one() -> None:
    settings, seen = read_settings({}, {}), []

    class Watched(MemoryStore):
        def note(self, name: str, value: str, kept_s: int | None = None) -> str:
            seen.append(dimensions_in(self, settings))
            return super().note(name, value, kept_s)

    store = Watched()
    dividing = Attributes(settings, store, lambda: NOON, dimensions=dimensions_in(store, settings))
    asyncio.run(dividing.begin(False))
    assert {*seen, dimensions_in(store, settings)} == {(*FORMER, "channel")}
    assert dividing.since("channel") == 0


def test_a_store_that_was_told_to_divide_by_channel_goes_on_without_being_told() -> None:
    store = MemoryStore()
    Server(store, "ref,channel").begin()
    assert dimensions_in(store, read_settings({}, {})) == (*FORMER, "channel")
