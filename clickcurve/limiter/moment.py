"""Which moment a question is of, where its time is earlier than that of what is counted.

Threads that read the clock one after the other may ask in another order, and the clocks of two machines never agree to
the millisecond. So a count of the next second, as the asking clock has it, counts already, and the question is of that
moment. Otherwise a clock that is a little behind would find free again what others have just taken.

What is counted later than that was counted by a clock that was ahead, or this one was set back. **A count whose window
begins after now is no count**: nobody is refused for hits that lie in the future, and nobody waits longer than the
period of the rate that refuses (its window; of `tiered` and the strict side one edge more). The next hit that is
admitted forgets such counts. What began before now counts as ever.
"""

from __future__ import annotations

from clickcurve.times import SECOND_US

# A time that is earlier by so much, or by more, is never taken for the later one.
SKEW_US = 2 * SECOND_US


def last_us(at_us: int) -> int:
    """Returns the last epoch microsecond from which something may count already at at_us: that of the next second."""
    return at_us - at_us % SECOND_US + SKEW_US - 1


def moment(at_us: int, counted_us: int) -> int:
    """Returns the epoch microsecond that a question at at_us is of, beside a count that begins at counted_us."""
    return counted_us if at_us < counted_us <= last_us(at_us) else at_us
