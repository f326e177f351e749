"""The tour in the README is what its script makes, as long as it should be, and light."""

from __future__ import annotations

from PIL import Image

from testing.page.pictures import FOLDER
from testing.page.tour import HEIGHT, NAME, SCENE_MS, SCENES, WIDTH

LARGEST = 1_500_000  # bytes


def test_the_tour_takes_twenty_seconds_and_is_light() -> None:
    file = FOLDER / NAME
    assert file.stat().st_size < LARGEST
    with Image.open(file) as tour:
        assert tour.size == (WIDTH, HEIGHT)
        assert getattr(tour, "n_frames", 1) == len(SCENES)
        for scene in range(len(SCENES)):
            tour.seek(scene)
            assert tour.info["duration"] == SCENE_MS
    assert SCENE_MS * len(SCENES) == 20_000
