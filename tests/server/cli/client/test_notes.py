"""`clickcurve note` and `clickcurve notes` against a running server."""

from __future__ import annotations

import json
import re

from testing.server import RunningServer
from tests.server.commands import said


def test_a_note_is_written_listed_and_deleted(shared: RunningServer) -> None:
    url = ("--url", shared.url)
    line = said("note", "Mail\twent out", "--key", "noted", "--at", "2026-03-01T12:00Z", *url, code=1)
    assert "control characters" in line
    line = said("note", "Mail went out", "--key", "noted", "--at", "2026-03-01T12:00Z", *url)
    (note_id,) = re.fullmatch(r"2026-03-01 12:00  note     Mail went out  \(link noted; (\w+)\)\n", line).groups()  # type: ignore[union-attr]
    assert said("note", "Press", "--group", "noted", *url).endswith(")\n")
    assert said("notes", "--key", "noted", *url) == line
    tokyo = said("notes", "--key", "noted", "--tz", "Asia/Tokyo", "--from", "2026-03-01", "--to", "2026-03-02", *url)
    assert tokyo == line.replace("12:00", "21:00")
    assert said("notes", "--key", "noted", "--last", "1d", *url) == "nothing is noted\n"
    assert json.loads(said("notes", "--key", "noted", "--json", *url)) == {
        "id": note_id, "at": 1_772_366_400, "kind": "note", "text": "Mail went out", "key": "noted", "group": None
    }  # fmt: skip
    assert "(group noted;" in said("notes", "--group", "noted", *url)
    assert said("notes", "--delete", note_id, *url) == f"deleted {note_id}\n"
    assert "no note with this id" in said("notes", "--delete", note_id, *url, code=1)
    assert "nothing else" in said("notes", "--delete", note_id, "--key", "noted", *url, code=2)


def test_a_note_of_nothing_or_of_both_is_refused(shared: RunningServer) -> None:
    url = ("--url", shared.url)
    assert "text is empty" in said("note", " ", *url, code=1)
    assert "both a link and a group" in said("note", "x", "--key", "a", "--group", "b", *url, code=1)
    assert "is not a time" in said("note", "x", "--at", "soon", *url, code=1)
