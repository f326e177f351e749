"""The client for Node: its own tests, its types, and kill -9 of its server and of itself."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from testing.client import Clickcurve
from testing.program import Program, running
from testing.server import ROOT
from tests.clients.test_kill import spooled, written
from tests.conftest import Serve

pytestmark = pytest.mark.needs("node")

JS = ROOT / "clients" / "js"
NODE_TESTS = sorted((ROOT / "tests" / "clients" / "node").glob("*.test.js"))
LOAD = str(ROOT / "tests" / "clients" / "node" / "load.js")
KEYS = [f"key-{number}" for number in range(20)]
KILLS = 2

# All that the declarations promise, used; and what they must refuse.
TYPED = """
import { Client, type Fields, type Options } from "./clickcurve.js";
import { countRedirects, redirectCounter } from "./express.js";
import { fit } from "./fit.js";
import { Spool } from "./spool.js";

const options: Options = { token: "t", spool: await Spool.open("clicks"), gatherMs: 1, timeoutMs: 1, maxBytes: 1 };
const clicks = new Client("http://127.0.0.1:8080", { ...options, fetch, now: () => 1, log: (text: string) => {} });
const fields: Fields = { count: 1, ts: new Date(), utm: { source: "mail" }, tags: { a: "b" }, groups: ["g"] as const };
clicks.hit("launch", fields);
clicks.hit("launch", { ref: fit("ref", null) });
const sums: number = clicks.delivered + clicks.dropped + clicks.waiting;
const sent: boolean = (await clicks.flush(1)) && (await clicks.close());
countRedirects(clicks, { prefix: "/r/", fields: ["ref"], statuses: [302] });
redirectCounter(clicks)({ method: "GET", url: "/", headers: {} }, { statusCode: 302 });
// @ts-expect-error
clicks.hit(7);
// @ts-expect-error
clicks.hit("launch", { referrer: "misspelt" });
// @ts-expect-error
countRedirects(clicks, { fields: ["shoe"] });
"""


def debian_modules() -> dict[str, str]:
    """The environment in which Node finds the modules that Debian packages."""
    return {**os.environ, "NODE_PATH": "/usr/share/nodejs"}


@pytest.mark.parametrize("file", NODE_TESTS, ids=lambda file: str(file.name))
def test_the_tests_for_node_pass(file: Path) -> None:
    command = ["node", "--test", str(file)]
    done = subprocess.run(command, env=debian_modules(), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert "# pass 0" not in done.stdout


@pytest.mark.needs("typescript")
def test_the_declarations_are_those_of_the_modules(tmp_path: Path) -> None:
    for declared in JS.glob("*.d.ts"):
        shutil.copy(declared, tmp_path)
    (tmp_path / "program.mts").write_text(TYPED)
    strict = ["--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom"]
    command = ["tsc", *strict, "program.mts"]
    (tmp_path / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    modules = ["clickcurve", "spool", "express", "fit"]
    shown = "import(process.argv[1]).then((module) => console.log(JSON.stringify(Object.keys(module))))"
    names = {}
    for module in modules:
        command = ["node", "-e", shown, str(JS / f"{module}.js")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
        names[module] = json.loads(done.stdout)
    assert names == {
        "clickcurve": ["Client"],
        "spool": ["Spool", "readRecords"],
        "express": ["countRedirects", "redirectCounter"],
        "fit": ["fit"],
    }


def counts(program: Program) -> dict[str, Any]:
    """The last counts that the program printed."""
    lines = [line for line in program.log.read_text().split("\n")[:-1] if line.startswith("{")]
    answer: dict[str, Any] = json.loads(lines[-1]) if lines else {"reported": 0, "delivered": 0}
    return answer


def test_a_server_that_is_killed_counts_all_that_node_says_was_delivered_once(serve: Serve, tmp_path: Path) -> None:
    server = serve("--flush-s", "1")
    chance = random.Random(11)
    with running(["node", LOAD, server.url, "-", str(len(KEYS))], tmp_path / "load.log") as program:
        for _ in range(KILLS):
            wanted = counts(program)["delivered"] + chance.randrange(200, 2_000)
            program.until(lambda wanted=wanted: counts(program)["delivered"] >= wanted)  # type: ignore[misc]
            server.kill()
            delivered = counts(program)["delivered"]
            server.start()
            with Clickcurve(server.url) as client:
                assert sum(client.lifetimes(KEYS).values()) >= delivered
        assert program.stop() == 0, program.output()
        said = counts(program)
    assert (said["delivered"], said["dropped"]) == (said["reported"], 0)
    with Clickcurve(server.url) as client:
        assert sum(client.lifetimes(KEYS).values()) == said["reported"]


def test_node_that_is_killed_leaves_each_written_hit_to_the_next_life_once(serve: Serve, tmp_path: Path) -> None:
    """It is killed while it sends: what was on its way is sent again under the same id."""
    server, spool = serve(), tmp_path / "spool"
    command = ["node", LOAD, server.url, str(spool), str(len(KEYS))]
    chance = random.Random(5)
    total = left = 0
    for life in range(KILLS):
        with running(command, tmp_path / f"load-{life}.log") as program:
            wanted = chance.randrange(500, 3_000)
            program.until(lambda program=program, wanted=wanted: counts(program)["reported"] >= wanted)  # type: ignore[misc]
            program.kill()
        total += written(spool) - left
        left = spooled(spool)
    assert b"203.0.113.7" not in spool.read_bytes()
    assert total > KILLS * 400
    with running(command, tmp_path / "last.log") as program:
        program.until(lambda: counts(program)["delivered"] > left)
        assert program.stop() == 0, program.output()
        said = counts(program)
    assert (said["delivered"], said["dropped"]) == (said["reported"] + left, 0)
    with Clickcurve(server.url) as client:
        assert sum(client.lifetimes(KEYS).values()) == total + said["reported"]
    assert not spool.exists()
