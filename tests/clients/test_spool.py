"""The spool file: what it holds after any kill, with two processes, on a full disk; and files that are none."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import cast

import pytest

from clickcurve.client import Client, SpoolUnusable
from clickcurve.client.outbox import Outbox
from clickcurve.client.post import HitsPost, Tried
from clickcurve.client.sender import BatchSender
from clickcurve.client.spool import HEADER, REWRITE_FROM_BYTES, Spool, read_records
from tests.clients.scripted import Reply, scripted

WITHIN_S = 600.0
MINUTE = 1_800_000_000


def outbox() -> Outbox:
    return Outbox(1 << 20, lambda: 0.0, with_records=True)


def write(spool: Spool, box: Outbox) -> None:
    spool.append(box.take_records, box.snapshot)


def held(path: Path) -> tuple[list[tuple[str, int, float | None]], int]:
    """The batches of a file, by id, hits and doubt, and the hits that are in none."""
    text = path.read_bytes()
    assert text.startswith(HEADER)
    batches, last = read_records(text.removeprefix(HEADER))
    return [(batch.id, batch.hits, batch.doubt_at) for batch in batches], sum(last.values())


def test_a_file_says_what_happened(tmp_path: Path) -> None:
    spool, box = Spool(tmp_path / "spool"), outbox()
    box.add(MINUTE, b'"key":"a"', b',"ip":"203.0.113.7"', 2, single=False)
    box.add(MINUTE, b'"key":"a"', b"", 1, single=False)
    box.add(MINUTE, b'"key":"a","id":"x"', b"", 1, single=True)
    write(spool, box)
    assert held(spool.path) == ([], 4)
    assert not box.flush(0)
    batch = box.next_batch(0)
    assert batch is not None
    write(spool, box)
    assert held(spool.path) == ([(batch.id, 4, None)], 0)
    assert box.begin_try(batch, MINUTE + 7)
    write(spool, box)
    assert held(spool.path) == ([(batch.id, 4, MINUTE + 7)], 0)
    box.not_counted(batch)
    write(spool, box)
    assert held(spool.path) == ([(batch.id, 4, None)], 0)
    box.answer(batch, 4, 0, "")
    write(spool, box)
    assert held(spool.path) == ([], 0)
    assert b"203.0.113.7" not in spool.path.read_bytes()
    spool.close(is_empty=True)
    assert not (tmp_path / "spool").exists()


def test_hits_with_one_id_stay_apart_in_the_file(tmp_path: Path) -> None:
    spool, box = Spool(tmp_path / "spool"), outbox()
    for _ in range(2):
        box.add(MINUTE, b'"key":"a","id":"x"', b"", 1, single=True)
    write(spool, box)
    spool.forget()
    (batch,) = Spool(tmp_path / "spool").recovered
    assert len(batch.lines) == 2


def test_a_file_that_is_torn_anywhere_holds_all_that_was_whole(tmp_path: Path) -> None:
    spool, box = Spool(tmp_path / "spool"), outbox()
    for number in range(3):
        box.add(MINUTE, b'"key":"%d"' % number, b"", 1, single=False)
    assert not box.flush(0)
    batch = box.next_batch(0)
    assert batch is not None
    box.begin_try(batch, MINUTE)
    box.add(MINUTE, b'"key":"z"', b"", 10, single=False)
    write(spool, box)
    whole = spool.path.read_bytes()
    spool.forget()
    sums = set()
    for size in range(len(whole) + 1):
        torn = tmp_path / f"torn-{size}"
        torn.write_bytes(whole[:size])
        found = Spool(torn)
        sums.add(total := sum(each.hits for each in found.recovered))
        batches, last = held(torn)
        assert (sum(hits for _, hits, _ in batches), last) == (total, 0), "what was open has an id before it is sent"
        found.forget()
        again = Spool(torn)
        assert [each.id for each in again.recovered] == [each.id for each in found.recovered]
        again.forget()
    assert sums == {0, 1, 2, 3, 13}


def test_a_file_does_not_grow_with_what_is_answered(tmp_path: Path) -> None:
    spool, box = Spool(tmp_path / "spool"), outbox()
    key = b'"key":"%s"' % (b"x" * 1000)
    largest = 0
    for _ in range(3 * REWRITE_FROM_BYTES // 1000):
        box.add(MINUTE, key, b"", 1, single=False)
        assert not box.flush(0)
        batch = box.next_batch(0)
        assert batch is not None
        box.answer(batch, 1, 0, "")
        write(spool, box)
        largest = max(largest, spool.path.stat().st_size)
    assert REWRITE_FROM_BYTES < largest < REWRITE_FROM_BYTES + 4096


def test_records_that_a_disk_does_not_take_stay_bounded(tmp_path: Path) -> None:
    box = Outbox(10_000, lambda: 0.0, with_records=True)
    for _ in range(10_000):
        box.add(MINUTE, b'"key":"a"', b"", 1, single=False)
    assert box.take_records() is None, "a snapshot is asked for"
    assert box.snapshot() == [b'+10000 %d "key":"a"\n' % MINUTE]
    assert box.take_records() == []


def test_a_snapshot_has_every_batch_in_order_and_what_is_open(tmp_path: Path) -> None:
    spool, box = Spool(tmp_path / "spool"), outbox()
    for number in range(3):
        box.add(MINUTE, b'"key":"%d"' % number, b"", number + 1, single=False)
        assert not box.flush(0)
    first = box.next_batch(0)
    assert first is not None and box.begin_try(first, MINUTE + 7)
    box.add(MINUTE, b'"key":"z"', b"", 10, single=False)
    spool.broken = "as after a write that failed"
    write(spool, box)
    batches, last = held(spool.path)
    ids = [id_ for id_, _, _ in batches]
    assert ids[0] == first.id and len(set(ids)) == 3
    assert [(hits, doubt) for _, hits, doubt in batches] == [(1, MINUTE + 7), (2, None), (3, None)]
    assert last == 10


class Looking:
    """A post that looks at the spool file when it is asked to send, and says what became of each try."""

    def __init__(self, path: Path, *tried: Tried) -> None:
        self._path, self._tried = path, list(tried)
        self.seen: list[bytes] = []

    def send(self, id_: str, body: bytes) -> Tried:
        assert body
        self.seen.append(self._path.read_bytes())
        assert b"=%s\n" % id_.encode() in self.seen[-1], "the id is written down before it is used"
        return self._tried.pop(0)

    def cut(self) -> None: ...

    def close(self) -> None: ...


class UnwrittenOutbox(Outbox):
    """An outbox whose records no thread writes down beside the one that sends."""

    def wait_for_records(self) -> bool:
        return False


def test_the_file_says_that_a_batch_may_have_been_counted_before_it_is_sent(tmp_path: Path) -> None:
    """A kill right after the server has counted must not find a batch that is certainly not counted."""
    spool, box = Spool(tmp_path / "spool"), UnwrittenOutbox(1 << 20, lambda: 0.0, with_records=True)
    lost = Tried(False, "no answer", certain=False)
    post = Looking(spool.path, Tried(False, "busy"), lost, Tried(True, taken=1))
    sender = BatchSender(box, cast(HitsPost, post), spool, 0.0, lambda: float(MINUTE), lambda: 0.0)
    box.add(MINUTE, b'"key":"a"', b"", 1, single=False)
    sender.start()
    assert sender.end(WITHIN_S)
    doubts = [[doubt for _, _, doubt in read_batches(text)] for text in post.seen]
    assert doubts == [[MINUTE]] * 3, "also where the try before was certainly not counted"


def read_batches(text: bytes) -> list[tuple[str, int, float | None]]:
    batches, _ = read_records(text.removeprefix(HEADER))
    return [(batch.id, batch.hits, batch.doubt_at) for batch in batches]


def test_a_full_disk_stops_neither_hits_nor_sending_and_is_made_good_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    is_full = True

    def full(fd: int, text: memoryview) -> int:
        if not is_full or bytes(text) == HEADER:
            return os.write(fd, text)
        if room := fits.pop() if fits else 0:
            return os.write(fd, text[:room])  # a part of it fits, and then nothing more
        raise OSError(errno.ENOSPC, "no space left on device")

    spool, box = Spool(tmp_path / "spool", write=full), outbox()
    box.add(MINUTE, b'"key":"a"', b"", 1, single=False)
    fits = [len(first := b'+1 %d "key":"a"\n' % MINUTE)]
    box.add(MINUTE, b'"key":"b"', b"", 2, single=False)
    write(spool, box)
    assert "no space left" in spool.broken
    assert spool.path.read_bytes() == HEADER, f"no part of what happened, such as {first!r}"
    is_full = False
    box.add(MINUTE, b'"key":"a"', b"", 4, single=False)
    write(spool, box)
    assert spool.broken == ""
    assert held(spool.path) == ([], 7)


def test_two_processes_name_one_file_and_hold_two(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    first, second = Spool(path), Spool(path)
    assert [first.path.name, second.path.name] == ["spool", "spool.1"]
    box = outbox()
    box.add(MINUTE, b'"key":"a"', b"", 5, single=False)
    write(second, box)
    second.forget()
    first.forget()
    third = Spool(path)
    assert third.path.name == "spool"
    assert [batch.hits for batch in third.recovered] == [5], "what a dead process left behind is taken over"
    assert not (tmp_path / "spool.1").exists()
    fourth = Spool(path)
    assert (fourth.path.name, fourth.recovered) == ("spool.1", []), "but nothing of a living one"


def test_a_kill_while_files_are_taken_over_counts_nothing_twice(tmp_path: Path) -> None:
    """The other file has an id for what was open before its batches are in ours: both hold the same then."""
    first, second, box = Spool(tmp_path / "spool"), Spool(tmp_path / "spool"), outbox()
    box.add(MINUTE, b'"key":"a"', b"", 5, single=False)
    write(second, box)
    second.forget()
    first.forget()
    before = (tmp_path / "spool.1").read_bytes()
    third = Spool(tmp_path / "spool")
    (batch,) = third.recovered
    (tmp_path / "spool.1").write_bytes(before + b"=%s\n" % batch.id.encode())  # as it was just before it went
    third.forget()
    fourth = Spool(tmp_path / "spool")
    assert {each.id for each in fourth.recovered} == {batch.id}
    assert [each.hits for each in fourth.recovered] == [5]


def test_a_kill_between_two_files_leaves_one_id_for_what_was_open(tmp_path: Path) -> None:
    """The process dies when both files hold the same hits: these must have one id, or they would count twice."""
    path, box = tmp_path / "spool", outbox()
    first, second = Spool(path), Spool(path)
    box.add(MINUTE, b'"key":"a"', b"", 5, single=False)
    write(second, box)
    second.forget()
    first.forget()
    dying = os.fork()
    if not dying:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Path, "unlink", lambda path: os._exit(9))
            Spool(path)
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(dying, 0)[1]) == 9
    both = [held(each)[0] for each in (path, tmp_path / "spool.1")]
    assert both[0] == both[1] and len(both[0]) == 1
    assert [batch.hits for batch in Spool(path).recovered] == [5]


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary")
    with pytest.raises(SpoolUnusable, match="is not a spool file"):
        Client("http://127.0.0.1:9", spool=path)
    assert path.read_text() == "dear diary"
    with pytest.raises(SpoolUnusable, match="cannot be opened"):
        Client("http://127.0.0.1:9", spool=tmp_path / "none" / "spool")


def test_a_damaged_file_is_kept_aside_and_the_application_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "spool"
    path.write_bytes(HEADER + b"+1 x\n")
    with scripted() as server, Client(server.url, spool=path) as clicks:
        clicks.hit("launch")
        assert clicks.flush(WITHIN_S)
    assert (tmp_path / "spool.damaged").read_bytes() == HEADER + b"+1 x\n"
    assert "is damaged" in caplog.text


def test_what_could_not_be_sent_is_sent_by_the_next_life_under_the_same_id(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    busy = Reply(503, b"{}", (("Retry-After", "3600"),))
    with scripted(busy, busy, busy, busy) as server:
        clicks = Client(server.url, spool=path, gather_s=0.0)
        clicks.hit("launch", count=3, visitor="ann")
        server.wait_for(1)
        assert not clicks.close(0.0)
        assert (clicks.delivered, clicks.dropped, clicks.waiting) == (0, 0, 3)
        server.script.clear()
        with Client(server.url, spool=path) as next_life:
            assert next_life.flush(WITHIN_S)
            assert next_life.delivered == 3
        first, last = server.posts[0], server.posts[-1]
    assert first.id == last.id
    assert (first.hits[0].pop("visitor"), first.hits) == ("ann", last.hits)
