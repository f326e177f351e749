"""Which prefixes a key begins with."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.prefixes import Prefixes, is_of_links

TEXTS = st.text(alphabet="ab/\0\x01é\U0010ffff", max_size=4)


@given(st.sets(TEXTS, max_size=12), st.lists(TEXTS, max_size=8))
def test_keys_have_the_prefixes_that_they_begin_with_the_longest_first(prefixes: set[str], keys: list[str]) -> None:
    found = Prefixes(prefixes)
    for key in [*keys, *sorted(keys)]:
        meant = {*prefixes, ""} if is_of_links(key) else prefixes - {""}
        expected = sorted((each for each in meant if key.startswith(each)), key=len, reverse=True)
        assert list(found.of(key)) == expected
