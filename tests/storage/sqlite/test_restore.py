"""A backup put in the place of a database: whole or not at all, at whatever step it is killed; nothing is deleted."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clickcurve.buckets.errors import ClickcurveError, SettingInvalid, StoreMismatch, StoreUnavailable
from clickcurve.buckets.ladder import Ladder
from storage.sqlite.backup import backup
from storage.sqlite.restore import restore
from tests.storage.flushes import Flusher, hits
from tests.storage.processes import Start, opened, whole
from tests.storage.stores import LADDER

OLD, NEW = 4, 3  # links of the database that is replaced, and of the backup


@pytest.fixture
def copy(path: Path, tmp_path: Path) -> Path:
    """A backup, and at `path` the database that was made of, further on, as kill -9 left it: with a log."""
    made, source = tmp_path / "made.db", tmp_path / "copy.db"
    with opened(made) as store:
        flusher = Flusher(store)
        flusher.flush({"a": hits((0, 5)), "b": hits((0, 1))})
        backup(made, source)
        flusher.flush({"c": hits((0, 7))})
        for end in ("", "-wal", "-shm"):
            shutil.copy(f"{made}{end}", f"{path}{end}")
    return source


def links(path: Path) -> int:
    with opened(path) as store:
        listed = len(store.walk(None, 100))
    assert whole(path)
    return listed


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir() if "clickcurve.db" in file.name}


def test_what_was_there_is_kept_whole_under_another_name(path: Path, copy: Path) -> None:
    for n in (1, 2):
        before = copy.read_bytes()
        restored = restore(copy, path, LADDER)
        assert (restored.size, copy.read_bytes()) == (len(before), before)
        assert restored.moved == [path.with_name(f"replaced-{n}-clickcurve.db")]
        assert links(path) == NEW
        with opened(path) as store:
            Flusher(store, 9).flush({"later": hits((0, 1))})
    assert links(path.with_name("replaced-1-clickcurve.db")) == OLD
    assert links(path.with_name("replaced-2-clickcurve.db")) == NEW + 1
    assert names(path.parent) == {"clickcurve.db", "replaced-1-clickcurve.db", "replaced-2-clickcurve.db"}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_database_beside_a_foreign_log_is_kept_with_it(path: Path, copy: Path) -> None:
    shutil.copy(copy, path)  # as people did before there was a command
    log = Path(f"{path}-wal").read_bytes()
    restored = restore(copy, path, LADDER)
    assert [name.name for name in restored.moved] == [f"replaced-1-clickcurve.db{end}" for end in ("", "-wal", "-shm")]
    assert restored.moved[1].read_bytes() == log
    assert links(path) == NEW


def test_a_damaged_database_is_replaced_and_kept_as_it_is(path: Path, copy: Path) -> None:
    damaged = path.read_bytes()[:10_000] + bytes(30_000)
    path.write_bytes(damaged)
    Path(f"{path}-wal").unlink()
    restored = restore(copy, path, LADDER)
    assert restored.moved[0].read_bytes() == damaged
    assert links(path) == NEW


def test_an_empty_folder_gets_the_backup(tmp_path: Path, copy: Path) -> None:
    (tmp_path / "new").mkdir()
    restored = restore(copy, tmp_path / "new" / "clickcurve.db", LADDER)
    assert restored.moved == []
    assert links(tmp_path / "new" / "clickcurve.db") == NEW


def test_a_log_that_began_on_the_restored_file_is_foreign_to_a_copy_that_is_restored_again(
    path: Path, copy: Path, tmp_path: Path
) -> None:
    restore(copy, path, LADDER)
    with opened(path) as store:
        Flusher(store, 9).flush({"later": hits((0, 1))})
        shutil.copy(f"{path}-wal", tmp_path / "log")
    restore(copy, path, LADDER)
    shutil.copy(tmp_path / "log", f"{path}-wal")
    with pytest.raises(StoreMismatch), opened(path):
        pass


def of_another_ladder(copy: Path) -> None:
    copy.unlink()
    with opened(copy, ladder=Ladder.parse("60:2,3600:31,month")):
        pass


REFUSED: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "missing": (lambda copy: copy.unlink(), SettingInvalid, "there is no backup at"),
    "not a database": (lambda copy: copy.write_text("?" * 9_000), StoreMismatch, "is not an SQLite database"),
    "cut": (lambda copy: os.truncate(copy, copy.stat().st_size - 8192), ClickcurveError, "copy.db"),
    "of another ladder": (of_another_ladder, StoreMismatch, "was made with the ladder 60:2"),
    "with a log": (lambda copy: Path(f"{copy}-wal").write_text("x"), SettingInvalid, "is not whole without it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_good_backup_is_refused_and_changes_nothing(path: Path, copy: Path, name: str) -> None:
    spoil, error, sentence = REFUSED[name]
    spoil(copy)
    before = {file: (path.parent / file).read_bytes() for file in names(path.parent)}
    with pytest.raises(error, match=sentence):
        restore(copy, path, LADDER)
    assert {file: (path.parent / file).read_bytes() for file in names(path.parent)} == before
    assert links(path) == OLD


def test_a_database_is_no_backup_of_itself(path: Path, copy: Path) -> None:
    with pytest.raises(SettingInvalid, match="is the database itself"):
        restore(path, path, LADDER)


def test_a_database_that_another_process_has_open_is_refused(path: Path, copy: Path, start: Start) -> None:
    other = start("write", path, 7, 1)  # it has opened the database, and waits
    with pytest.raises(StoreUnavailable, match="in use by another process"):
        restore(copy, path, LADDER)
    other.kill()
    restore(copy, path, LADDER)
    assert links(path) == NEW


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Does the work in another process, which kills itself before the step-th thing it asks of the file system."""
    child = os.fork()
    if child == 0:
        left = step

        def count(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            if event in ("open", "os.link", "os.rename", "os.remove", "os.truncate", "sqlite3.connect"):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


@pytest.mark.parametrize("foreign", [False, True], ids=["beside its log", "beside a foreign log"])
def test_a_kill_at_any_step_leaves_the_old_or_the_new_one_and_a_repeat_ends_it(
    path: Path, copy: Path, tmp_path: Path, foreign: bool
) -> None:
    if foreign:
        shutil.copy(copy, path)
    found: list[str] = []
    for step in range(100):
        folder = tmp_path / str(step)
        folder.mkdir()
        here = folder / path.name
        for end in ("", "-wal", "-shm"):
            shutil.copy(f"{path}{end}", f"{here}{end}")
        died = killed_at(step, lambda here=here: restore(copy, here, LADDER))  # type: ignore[misc]
        as_left = folder / "as left"
        as_left.mkdir()
        for file in folder.glob("clickcurve.db*"):
            shutil.copy(file, as_left)
        try:
            found.append(str(links(as_left / path.name)))
        except StoreMismatch as error:
            assert foreign and "clickcurve restore FILE" in error.detail
            found.append("refused")
        restore(copy, here, LADDER)
        assert links(here) == NEW
        assert {part.name for part in folder.glob(".*")} == set()
        if not foreign:
            assert links(folder / "replaced-1-clickcurve.db") == OLD
        if not died:
            break
    before = "refused" if foreign else str(OLD)
    assert found == [before] * found.count(before) + [str(NEW)] * found.count(str(NEW))
    assert found.count(before) > 5 and found.count(str(NEW)) > 1
