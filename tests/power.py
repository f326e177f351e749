"""How often random tests try: few times in each change of a line, as often as they are worth in `make test-long`.

The power is Hypothesis's profile: QUICK, or LONG with `pytest --hypothesis-profile=long`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

QUICK, LONG = "quick", "long"
QUICK_EXAMPLES = 25
# Of the examples that a law asks for by a number of its own, one in so many.
QUICK_SHARE = 8

# No deadline: machines are shared, and the laws do not speak of time.
settings.register_profile(LONG, deadline=None)
settings.register_profile(QUICK, deadline=None, max_examples=QUICK_EXAMPLES)
settings.load_profile(QUICK)  # what is imported without pytest, and pytest unless it is told another


def is_long() -> bool:
    """Returns whether this run has the power of `make test-long`."""
    return settings.get_current_profile_name() == LONG


def examples(long: int) -> int:
    """Returns how many examples a law is tried with that is worth so many: a share of them, or all."""
    return long if is_long() else max(min(long, QUICK_EXAMPLES), long // QUICK_SHARE)


def at(*, quick: int, full: int) -> int:
    """Returns how often something random is done: a few times, or as often as it is worth."""
    return full if is_long() else quick


def sweep(name: str) -> Iterator[int]:
    """The numbers of calls that fail in turn, 1, 2, 3 ...: the first and then each third, or each one.

    Which ones depends on the name, so that tests of one kind try different ones.
    """
    step = at(quick=3, full=1)
    return chain((1,), count(2 + crc32(name.encode()) % step, step))


def one_in(step: int, cases: Iterable[Any]) -> list[ParameterSet]:
    """Returns the parameters of a test, of which the first and then one in so many run, and all with `make test-long`.

    cases: what `pytest.mark.parametrize` takes: values, or tuples of them.
    """
    listed = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*case, marks=[pytest.mark.long] if number % step else []) for number, case in enumerate(listed)
    ]
