"""The program with its clock set: in the environment, UPGRADE_MOMENT is the epoch second at which it starts.

python -m tests.upgrade.program serve ...
"""

from __future__ import annotations

import os
import time

from clickcurve.__main__ import main
from server import clock

_AHEAD_S = float(os.environ["UPGRADE_MOMENT"]) - time.time()


def _now() -> float:
    return time.time() + _AHEAD_S


if __name__ == "__main__":
    clock.now = _now
    main()
