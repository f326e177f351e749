"""One journal that counts hits of the link "a", for stories of who may flush under which number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clickcurve.keys import link_key
from ingest.batch import Batch
from ingest.stamps import Stamps
from storage.contract import RETIRED, Store
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.owner_kit import counts, minute_of, read

NOW = 1_772_000_000.0


def start(folder: Path, store: Store, stamps: Stamps | None = None) -> OwnerProcess:
    """Starts it. stamps: those of another journal that the same worker holds."""
    shared = None if stamps is None else lambda: stamps
    return OwnerProcess(folder, store, lambda: NOW, alone=False, disk=TrackedDisk(), stamps=shared)


def die(node: OwnerProcess) -> None:
    node.disk.kill()


async def hit(node: OwnerProcess, count: int) -> None:
    await node.owner.accept(Batch(people=counts(minute_of(NOW), {"a": count})))


async def lifetime(store: Store) -> int:
    return (await read(store, [], link_key("a"), int(NOW))).lifetime


def retire(store: Store, owner: int) -> None:
    record = store.owner(owner)
    assert record is not None
    assert store.claim(record, replace(record, state=RETIRED))
