"""`clickcurve` for libfaketime: while it leaves the monotonic clock true, each sleep of Python fails (EINVAL), because that
sleeps until an instant of that clock. Waiting for nothing does the same by a duration."""

from __future__ import annotations

import select
from unittest.mock import patch

from server.cli.main import main


def wait(seconds: float) -> None:
    select.select([], [], [], max(0.0, seconds))


if __name__ == "__main__":
    with patch("time.sleep", wait):
        main()
