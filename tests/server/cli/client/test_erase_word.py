"""`clickcurve erase-word`: a value from standard input is forgotten by a running server."""

from __future__ import annotations

import json
import re

from testing.client import Clickcurve
from testing.server import RunningServer
from tests.server.commands import said
from tests.server.conftest import wait_until


def test_a_value_from_standard_input_is_forgotten(shared: RunningServer) -> None:
    with Clickcurve(shared.url) as client:
        client.send([{"key": "erased", "ref": "gone.example", "count": 3}, {"key": "erased", "ref": "fine.example"}])
        said("disavow", "erased", "--ref", "nobody.example", "--url", shared.url)  # has all be stored
    url = ("--url", shared.url)
    made = said("erase-word", "ref", "-", *url, stdin="gone.example\n")
    (erasure,) = re.findall(r"`clickcurve erase-word show (\w+)` says when it is done", made)
    assert "owner 1 has not confirmed it: at its next flush" in made and "gone.example" not in made
    wait_until(lambda: json.loads(said("erase-word", "show", erasure, "--json", *url))["state"] == "done", 30)
    shown = said("erase-word", "show", erasure, *url)
    assert re.fullmatch(rf"done: 3 stored hits in \d+ rows had the value of the erasure {erasure}\n", shown)
    by = json.loads(said("by", "erased", "ref", "--json", *url))
    assert ([each["value"] for each in by["values"]], by["other"]) == (["fine.example"], 3)
    assert "no erasure with this id" in said("erase-word", "show", "none", *url, code=1)


def test_what_no_value_can_be_is_refused(shared: RunningServer) -> None:
    url = ("--url", shared.url)
    for stdin in ("", "\n", "two\nlines\n", "x" * 5_000):
        assert "standard input holds no value" in said("erase-word", "ref", "-", *url, stdin=stdin, code=2)
    assert "names of bots" in said("erase-word", "bot", "-", *url, stdin="x", code=2)
    assert "not a dimension" in said("erase-word", "colour", "-", *url, stdin="x", code=2)
    text = said("erase-word", "ref", "gone.example", *url, code=2)
    assert "standard input" in text and "gone.example" not in text  # it would be in the history of the shell
