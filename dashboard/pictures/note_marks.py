"""Notes in a picture of a curve: an upright line at the moment of each, with its number, and what it says below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from clickcurve.answers.counts import NoteAnswer
from clickcurve.visible import visible
from dashboard.pictures.shapes import Box, Label, Shape

_APART = 18  # pixels from one number to the next, at least
_WIDE = 1.5  # pixels of a line


def note_marks(
    notes: Sequence[NoteAnswer], x: Callable[[int], float], top: float, bottom: float, width: int
) -> Iterable[Shape]:
    """Yields the lines, and above them the numbers; those that stand too close share one: `2-4`.

    x: where a moment stands across. width: of the plot, in pixels.
    """
    for note in notes:
        yield Box("note", x(note.at), top, min(1.0, x(note.at) + _WIDE / width), bottom)
    groups: list[list[int]] = []
    for number, note in enumerate(notes):
        if groups and (x(note.at) - x(notes[groups[-1][0]].at)) * width < _APART:
            groups[-1].append(number)
        else:
            groups.append([number])
    for first, *others in groups:
        text = f"{first + 1}-{others[-1] + 1}" if others else f"{first + 1}"
        place = x(notes[first].at)
        yield Label("label", place, top - 4, text, "start" if place < 0.02 else "end" if place > 0.98 else "middle")


def notes_text(notes: Sequence[NoteAnswer]) -> str:
    """Says what is noted, under the numbers of the lines."""
    return "; ".join(f"{number}: {visible(note.text)}" for number, note in enumerate(notes, 1))
