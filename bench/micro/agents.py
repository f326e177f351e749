"""Who of many agents is judged a bot, beside other libraries, and what a new and a known agent cost.

The agents are lines of a label (`bot` or `person`), a source and an agent (`--agents FILE`, which may be packed by
gzip); without a file those of the tests. isbot needs Node and the packages of `make bench-peers`.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import quantiles
from time import thread_time_ns

from crawlerdetect import CrawlerDetect
from crawleruseragents import is_crawler

from bench.command import Options
from bench.measure import Beside, Figures, Line
from ingest.agents.bots import BotJudge
from testing.server import ROOT

OF_TESTS = ROOT / "tests" / "ingest" / "agents" / "agents.tsv"
ISBOT = ROOT / ".venv" / "peers" / "node_modules" / "isbot"
_ASK_ISBOT = """
import {isbot} from 'isbot'; import fs from 'fs';
console.log(JSON.stringify(JSON.parse(fs.readFileSync(0, 'utf8')).map((agent) => isbot(agent))))
"""


def agents(options: Options) -> Iterator[Line | Beside]:
    """How many bots are missed and how many people are called bots; times of agents that are new and known."""
    labelled = _read(options.agents or OF_TESTS)
    texts, are_bots = [agent for _, agent in labelled], [label == "bot" for label, _ in labelled]
    judges: dict[str, Callable[[Sequence[str]], list[bool]]] = {
        "clickcurve": partial(_by_one, BotJudge()),
        "crawler-user-agents": partial(_by_one, is_crawler),
        "crawlerdetect": partial(_by_one, CrawlerDetect().isCrawler),
    }
    if ISBOT.is_dir() and shutil.which("node"):
        judges["isbot"] = _by_isbot
    for name, judge in judges.items():
        judged = judge(texts)
        bots, people = are_bots.count(True), are_bots.count(False)
        missed = sum(is_bot and not said for is_bot, said in zip(are_bots, judged, strict=True))
        wrong = sum(said and not is_bot for is_bot, said in zip(are_bots, judged, strict=True))
        figure = f"{missed:,} of {bots:,} bots missed ({missed / bots:.1%})"
        yield Line(name, figure, f"{wrong:,} of {people:,} people called bots ({wrong / people:.2%})")
    Random(1).shuffle(labelled)
    half = len(labelled) // 2
    warm, new = ([agent for _, agent in some] for some in (labelled[:half], labelled[half:]))
    yield Beside("agents that are new", {"": partial(_of_new, warm, new)})


def _read(file: Path) -> list[tuple[str, str]]:
    """Returns the label and the agent of each line."""
    data = file.read_bytes()
    lines = (gzip.decompress(data) if file.suffix == ".gz" else data).decode().splitlines()
    return [(label, agent) for label, _, agent in (line.split("\t", 2) for line in lines)]


def _by_one(judge: Callable[[str], object], texts: Sequence[str]) -> list[bool]:
    return [bool(judge(text)) for text in texts]


def _by_isbot(texts: Sequence[str]) -> list[bool]:
    command = ["node", "--input-type=module", "--eval", _ASK_ISBOT]
    asked = subprocess.run(command, input=json.dumps(texts), cwd=ISBOT, capture_output=True, text=True, check=True)
    judged: list[bool] = json.loads(asked.stdout)
    return judged


def _of_new(warm: Sequence[str], new: Sequence[str]) -> Figures:
    """Returns what each new agent takes a judge that has seen the others, in processor time, and what a known one."""
    judge = BotJudge()
    for agent in warm:
        judge(agent)
    took_us = []
    for agent in new:
        begun = thread_time_ns()
        judge(agent)
        took_us.append((thread_time_ns() - begun) / 1e3)
    cuts = quantiles(took_us, n=100, method="inclusive")
    known, times = new[-min(len(new), 1_000) :], 20
    for agent in known:
        judge(agent)
    begun = thread_time_ns()
    for _ in range(times):
        for agent in known:
            judge(agent)
    known_us = (thread_time_ns() - begun) / 1e3 / times / len(known)
    return {"{} us": cuts[49], "p99 {} us": cuts[98], "known {} us": known_us}
