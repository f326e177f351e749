"""`make chaos`: the long campaign. It prints its report and ends with 1 if anything is wrong."""

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
from tests.chaos.campaign import Campaign, Outcomes, Plan, stage
from tests.chaos.report import page, printed

MINUTES = 12.0


def campaign(folder: Path, plan: Plan, seed: int) -> Outcomes:
    """One campaign in that folder."""
    chance = random.Random(seed)
    with stage(folder, plan, chance) as on:
        return asyncio.run(Campaign(on, plan, seed, chance).play())


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos ARGS=...", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"how long faults come (default {MINUTES:g})")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32), help="a former run's, to play it again")
    parser.add_argument("--report", type=Path, help="write the figures to this file, too")
    parser.add_argument("--folder", type=Path, help="keep data and logs here instead of throwing them away")
    given = parser.parse_args()
    prepare()
    plan = Plan(given.minutes * 60)
    print(f"seed {given.seed}, {given.minutes:g} minutes", flush=True)
    with tempfile.TemporaryDirectory(prefix="clickcurve-chaos-") as temporary:
        found = campaign(given.folder or Path(temporary), plan, given.seed)
    print(printed(found, plan))
    if given.report is not None:
        command = f"make chaos ARGS='--minutes {given.minutes:g} --seed {given.seed}'"
        given.report.write_text(page(found, plan, command, datetime.now(UTC).date().isoformat()))
    return 1 if found.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
