"""Makes the README's pictures of the page and its tour, from a demo of now: `python -m testing.page.pictures`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PIL import Image

from testing.browser import Browser
from testing.page.tour import NAME as TOUR
from testing.page.tour import make_tour
from testing.program import running
from testing.server import ROOT, free_port

FOLDER = ROOT / "docs" / "pictures"
COLOURS = 160  # of a picture's palette: flags and a map have more than bars, and the file is half as large as with all
WIDTH = 1280
PICTURES = (("links", "/", 1200, False), ("link-dark", "/links/launch?last=30d", 1200, True))


def make(folder: Path) -> None:
    """Writes each picture, a view's first pixels down to a height."""
    port = free_port()
    with tempfile.TemporaryDirectory() as made:
        log = Path(made) / "log"
        command = [sys.executable, "-m", "clickcurve", "demo", "--port", str(port), "--data", f"{made}/data"]
        with running(command, log) as demo, Browser() as browser:
            demo.until(lambda: '"listening"' in log.read_text())
            make_tour(browser, f"http://127.0.0.1:{port}", folder / TOUR)
            for name, path, height, dark in PICTURES:
                with browser.page(WIDTH, height, dark=dark) as page:
                    page.open(f"http://127.0.0.1:{port}{path}")
                    page.until("document.querySelector('.why')")  # what changed may be told a moment later
                    page.until("[...document.querySelectorAll('.world use')].every((each) => each.getBBox().width)")
                    page.shot(folder / f"{name}.png", whole=False)
                _shrink(folder / f"{name}.png")


def _shrink(file: Path) -> None:
    with Image.open(file) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(file, optimize=True)


if __name__ == "__main__":
    make(FOLDER)
