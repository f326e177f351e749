"""`make chaos`: the long campaigns. It prints their reports and ends with 1 if anything is wrong."""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from testing.cassandra.prepare import prepare
from tests.chaos.campaign import Campaign, Outcomes, Plan, long_plan, stage
from tests.chaos.report import PAGES, page, printed

MINUTES = 12.0


def campaign(folder: Path, plan: Plan, seed: int) -> Outcomes:
    """One campaign in that folder."""
    chance = random.Random(seed)
    with stage(folder, plan, chance) as on:
        return asyncio.run(Campaign(on, plan, seed, chance).play())


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos ARGS=...", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"how long faults come (default {MINUTES:g})")
    parser.add_argument("--journal", choices=PAGES, help="where journals lie (default: one campaign with each)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32), help="a former run's, to play it again")
    parser.add_argument("--report", type=Path, help="write the figures to pages in this folder, too")
    parser.add_argument("--folder", type=Path, help="keep data and logs here instead of throwing them away")
    given = parser.parse_args()
    prepare()
    wrong = 0
    for journal in [given.journal] if given.journal else PAGES:
        plan = long_plan(journal, given.minutes * 60)
        print(f"journal {journal}, seed {given.seed}, {given.minutes:g} minutes", flush=True)
        with tempfile.TemporaryDirectory(prefix="clickcurve-chaos-") as temporary:
            found = campaign((given.folder or Path(temporary)) / journal, plan, given.seed)
        print(printed(found, plan), flush=True)
        if given.report is not None:
            command = f"make chaos ARGS='--journal {journal} --minutes {given.minutes:g} --seed {given.seed}'"
            text = page(found, plan, command, datetime.now(UTC).date().isoformat())
            (given.report / f"{PAGES[journal]}.md").write_text(text)
        wrong += len(found.wrong())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
