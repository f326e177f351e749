"""`clickcurve` for libfaketime, under which Python cannot sleep.

Python sleeps until an instant of the monotonic clock, which fails (EINVAL) where libfaketime leaves that clock true. To
wait for nothing, for a while, does the same.
"""

from __future__ import annotations

import select
from unittest.mock import patch

from server.cli.main import main


def wait(seconds: float) -> None:
    select.select([], [], [], max(0.0, seconds))


if __name__ == "__main__":
    with patch("time.sleep", wait):
        main()
