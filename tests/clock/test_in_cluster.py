"""Servers of a real node, one of which has a wrong clock: it folds nothing by it, and widens no answer of the other."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from clickcurve.buckets.ladder import DAY_S
from tests.clock.clocked_server import clocked, send_two_links
from tests.clock.wrong_clock import WrongClock

pytestmark = pytest.mark.needs("compiler", "cassandra")


@pytest.mark.parametrize("journal", [pytest.param("disk", marks=pytest.mark.long), "cluster"])
def test_a_wrong_clock_of_one_server_widens_no_answer_of_the_other(
    journal: str, tmp_path: Path, wall: WrongClock, cassandra_uri: str
) -> None:
    true = WrongClock(tmp_path / "true-clock")
    flags = ("--store", cassandra_uri, "--journal", journal)
    with clocked(tmp_path / "right", true, *flags) as right, clocked(tmp_path / "wrong", wall, *flags) as wrong:
        before = send_two_links(wrong)
        right.process.wait_until(lambda: right.widths("minutes") == before[0])

        def check(what: str) -> None:
            for server in (wrong, right):
                assert server.both_widths() == before, what

        wall.set(400 * DAY_S)
        wrong.process.wait_until(lambda: wrong.ready().get("clock") == "stepped")
        for _ in range(3):
            with wrong.answers as asking:
                asking.hit("minutes")
            wrong.flush()
        check("while it runs")
        assert right.ready()["clock"] == "ok"

        wrong.process.kill()
        if journal == "cluster":  # its machine comes back with nothing
            shutil.rmtree(wrong.data)
        wall.set(-30 * DAY_S)
        with wrong.start() as asking:
            wrong.process.wait_until(lambda: "behind" in str(wrong.ready()))
            asking.hit("new")
            first = asking.link("new")["first_hit"]
            assert first > time.time() - 3_600, "no earlier than the newest flush of its owner"
        check("after a start that is behind")

        wrong.process.kill()
        if journal == "cluster":
            shutil.rmtree(wrong.data)
        wall.set(3 * DAY_S)
        with wrong.start() as asking:
            wrong.process.wait_until(lambda: wrong.ready().get("ready", False) or "clock" in wrong.ready())
            for _ in range(3):
                asking.hit("minutes")
                wrong.flush()
        # Without its folder nobody can tell that clock from one of a machine that was off; but nothing is folded by it.
        assert wrong.ready()["clock"] == ("ok" if journal == "cluster" else "stepped")
        assert wrong.metric("folding_held") == (journal == "cluster")
        assert right.both_widths() == before
        wall.set(0)
        wrong.process.wait_until(lambda: wrong.ready().get("clock") == "ok" and wrong.metric("folding_held") == 0)
        wrong.flush()
        check("when it is right again")
