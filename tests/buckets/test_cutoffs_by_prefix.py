"""Which prefixes a key begins with."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.cutoffs_by_prefix import Prefixes

TEXTS = st.text(alphabet="ab/\0\x01é\U0010ffff", max_size=6)


@given(st.sets(TEXTS, max_size=12), TEXTS)
def test_a_key_has_the_prefixes_that_it_begins_with_the_longest_first(prefixes: set[str], key: str) -> None:
    expected = sorted((each for each in {"", *prefixes} if key.startswith(each)), key=len, reverse=True)
    assert list(Prefixes(prefixes).of(key)) == expected
