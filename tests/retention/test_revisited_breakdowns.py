"""The visit of all breakdowns after another time was set: once, whole, and anew where it was cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.keys import ALL_LINKS, breakdown_of, group_key, link_key, moved_key
from retention.run import PassReport, revisit_breakdowns
from storage.contract import StoredLink

KEYS = sorted([ALL_LINKS, group_key("g"), moved_key(link_key("a")), *(link_key(f"k{n}") for n in range(7))])


class OwnerOfRows:
    """Remembers what is revisited; the flush with the number `fail_at` finds no store."""

    def __init__(self, changed: bool, fail_at: int = 0) -> None:
        self.changed, self.fail_at = changed, fail_at
        self.asked: list[str] = []
        self.flushed: list[str] = []
        self.flushes = 0

    def revisit(self, keys: Iterable[str]) -> None:
        self.asked += keys

    async def flush(self) -> None:
        self.flushes += 1
        if self.flushes == self.fail_at:
            raise StoreUnavailable("the store is down")
        self.flushed += self.asked
        self.asked.clear()

    def walk(self, after: str | None, limit: int) -> Sequence[tuple[str, StoredLink]]:
        return [(key, StoredLink(0, ())) for key in KEYS if after is None or key > after][:limit]

    def times_changed(self) -> bool:
        return self.changed

    def note_times(self) -> None:
        self.changed = False


def visit(owner: OwnerOfRows) -> PassReport:
    return asyncio.run(revisit_breakdowns(owner, 20_000, 3))


def test_every_breakdown_is_visited_once_and_no_correction() -> None:
    owner = OwnerOfRows(changed=True)
    assert visit(owner) == PassReport(20_000, 4, len(KEYS))
    assert owner.flushed == [breakdown_of(key) for key in KEYS if key != moved_key(link_key("a"))]
    assert visit(owner) == PassReport(20_000, 0, 0)


def test_one_that_is_cut_off_begins_anew() -> None:
    owner = OwnerOfRows(changed=True, fail_at=3)
    assert visit(owner) == PassReport(20_000, 1, 3, "the store is down")
    assert owner.changed
    assert visit(owner).stopped is None
    assert set(owner.flushed) == {breakdown_of(key) for key in KEYS if key != moved_key(link_key("a"))}


def test_without_a_change_nothing_is_read() -> None:
    owner = OwnerOfRows(changed=False)
    assert visit(owner) == PassReport(20_000, 0, 0)
    assert owner.flushes == 0
