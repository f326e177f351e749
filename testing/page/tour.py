"""The tour: what somebody sees in the page's first twenty seconds, as one picture that moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image

from testing.browser import Browser, Page

NAME = "tour.gif"
WIDTH, HEIGHT = 1280, 800
SCENE_MS = 2_500
COLOURS = 96  # of each scene's palette: text stays sharp, and the file is half as large as with all
MAP_SHOWN = "[...document.querySelectorAll('.world use')].every((each) => each.getBBox().width)"


def _looked_at(page: Page) -> None:
    page.until(f"document.querySelector('.why') && {MAP_SHOWN}")


def _filtered(page: Page) -> None:
    page.until("document.querySelector('figure.chart svg')")


def _range_menu(page: Page) -> None:
    _looked_at(page)
    page.click("#range summary")
    page.until("document.querySelector('#range[open]')")


def _read(page: Page) -> None:
    _looked_at(page)
    left, top, width, height = page.js(
        "(() => { const b = document.querySelector('figure.chart svg').getBoundingClientRect();"
        " return [b.left, b.top, b.width, b.height]; })()"
    )
    page.mouse("mouseMoved", left + width * 0.62, top + height * 0.5)
    page.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def _countries(page: Page) -> None:
    _looked_at(page)
    page.box(".world")


# Address, whether it is in dark, and what is done before the picture is taken.
SCENES: Sequence[tuple[str, bool, Callable[[Page], None]]] = (
    ("/", False, _looked_at),
    ("/", False, _read),
    ("/", False, _range_menu),
    ("/?last=91d", False, _looked_at),
    ("/?last=91d", False, _countries),
    ("/?by=ref&value=social.example", False, _filtered),
    ("/links/launch", False, _looked_at),
    ("/links/launch", True, _looked_at),
)


def make_tour(browser: Browser, url: str, file: Path) -> None:
    """Writes the scenes of a server with made-up traffic, one after the other, for ever."""
    shot = file.with_suffix(".png")
    scenes = []
    for path, dark, act in SCENES:
        with browser.page(WIDTH, HEIGHT, dark=dark) as page:
            page.open(f"{url}{path}")
            act(page)
            page.shot(shot, whole=False)
        with Image.open(shot) as picture:
            scenes.append(picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE))
    shot.unlink()
    first, *others = scenes
    first.save(file, format="GIF", save_all=True, append_images=others, duration=SCENE_MS, loop=0, optimize=True)
