"""Many threads from the same moment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Barrier, Thread


def together(many: int, act: Callable[[int], None]) -> None:
    """Runs act(0) ... act(many - 1), each in a thread, all from the same moment; and they change places as often as the
    interpreter allows, in the middle of whatever they do."""
    start = Barrier(many)
    failures: list[BaseException] = []

    def run(number: int) -> None:
        start.wait()
        try:
            act(number)
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=run, args=(number,)) for number in range(many)]
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual_s)
    assert failures == []
