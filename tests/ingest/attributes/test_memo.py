"""What is kept of what was asked lately: found again, bounded, and nothing long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingest.attributes.memo import Memo


@given(st.lists(st.text("ab", max_size=4), max_size=60), st.integers(2, 6))
def test_what_is_kept_is_what_the_function_says(asked: list[str], most: int) -> None:
    kept = Memo(str.upper, most, 3)
    for text in asked:
        assert kept[text] == text.upper()
        assert len(kept) + len(kept._before) <= most
        assert not any(len(key) > 3 for key in (*kept, *kept._before))


def test_the_function_is_asked_once_for_what_comes_again_and_again() -> None:
    asked: list[str] = []

    def of(text: str) -> int:
        asked.append(text)
        return len(asked)

    kept = Memo(of, 8, 100)
    for number in range(40):
        assert kept["often"] == 1
        kept[f"once {number}"]
    assert asked.count("often") == 1
    kept.clear()
    assert kept["often"] == 42
