"""The second run of `make test` and `make test-all`: what failed beside others runs again, alone, and is named."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

MOST = 5  # more failures than these are no accident of a busy machine


def run_again(command: list[str], cache: Path, code: int) -> int:
    """Runs again what failed, if it is little. Returns the exit code of the last run.

    command: pytest, with its arguments, as it ran. cache: its `cache_dir`, empty before. code: how that run ended.
    """
    if code != pytest.ExitCode.TESTS_FAILED:
        return code
    failed = json.loads((cache / "v/cache/lastfailed").read_text())
    if len(failed) > MOST:
        return code
    print(f"\nFailed beside others, so run again alone: {', '.join(failed)}", flush=True)
    return subprocess.call([*command, "--last-failed"])
