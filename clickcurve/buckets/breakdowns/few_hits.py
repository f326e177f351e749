"""A breakdown without the names of values that have few hits, for pages that strangers see.

Each kept bucket is judged by itself: a value with fewer than `least` hits in it joins `other` there. All answers are
sums over buckets, so no question, and no difference of two, gives such a value back.

What is left over must not give it back either. In a bucket that hides a value, values are hidden from the smallest on,
those of equal counts together, until they have `least` hits on average, so there are two at least. Then more than one
assignment of counts to the hidden names gives the same bucket, also to somebody who knows all names and this rule
(complementary suppression, as statistical offices do it). This needs a `least` of 3 or more.

`""` is not a name and stays; so does the sum of each bucket.
"""

from __future__ import annotations

from collections.abc import Mapping

from clickcurve.buckets.breakdowns.breakdown import NOT_GIVEN, Breakdown, ValueCounts

LEAST = 3  # the smallest that hides what two hidden values of one hit each would tell


def hide_few(row: Breakdown, least: int) -> Breakdown:
    """Returns the breakdown with the values that have few hits as `other`, bucket by bucket. For reading only."""
    dimensions = {
        name: tuple({start: hide_few_of(bucket, least) for start, bucket in tier.items()} for tier in tiers)
        for name, tiers in row.dimensions.items()
    }
    return row._replace(dimensions=dimensions)


def hide_few_of(counts: ValueCounts, least: int) -> ValueCounts:
    """Returns the bucket without values of few hits; those left have at least `least`."""
    values, other, slack = counts
    hidden = _most_hidden(values, least)
    if not hidden:
        return counts
    shown = {value: count for value, count in values.items() if value == NOT_GIVEN or count > hidden}
    rest = sum([count for value, count in values.items() if value not in shown])
    # What a hidden value may have, by what is shown alone: less than any shown one, and no more than all the rest.
    below = min([count for value, count in shown.items() if value != NOT_GIVEN], default=rest + 1) - 1
    return ValueCounts(shown, other + rest, slack + min(rest, below))


def _most_hidden(values: Mapping[str, int], least: int) -> int:
    """Returns the greatest count of a value that is to be hidden; 0: none is."""
    ranked = sorted([count for value, count in values.items() if value != NOT_GIVEN])
    if not ranked or ranked[0] >= least:
        return 0
    many = hits = most = 0
    for count in ranked:
        if many and hits >= many * least:
            break
        many, hits, most = many + 1, hits + count, count
    return most
