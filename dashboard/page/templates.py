"""The templates, which escape whatever they are given, and the two files that pages load: a stylesheet and a script."""

from __future__ import annotations

import re
from hashlib import sha256
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from clickcurve.visible import visible
from dashboard.page.compared import COMPARISONS
from dashboard.page.manual.sections import SECTIONS
from dashboard.page.view import BOTS, STEPS
from dashboard.pictures.lines_picture import line_styles
from dashboard.pictures.shapes import DARK, LIGHT
from dashboard.pictures.svg import styles

_HERE = Path(__file__).parent


class Templates:
    """Renders pages. `assets` are the files that pages load: name -> media type and content."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_HERE / "html"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        light, dark = styles(LIGHT) + line_styles("light"), styles(DARK) + line_styles("dark")
        pictures = f"{light}@media(prefers-color-scheme:dark){{{dark}}}"
        style = (_HERE / "static" / "page.css").read_bytes() + pictures.encode()
        self.assets = {
            "page.css": ("text/css; charset=utf-8", style),
            "page.js": ("text/javascript; charset=utf-8", (_HERE / "static" / "page.js").read_bytes()),
            "world.svg": ("image/svg+xml", (_HERE / "static" / "world.svg").read_bytes()),
            "icon.svg": ("image/svg+xml", (_HERE / "static" / "icon.svg").read_bytes()),
        }
        joined = b"".join(content for _, content in self.assets.values())
        self._environment.filters.update(ticked=_ticked, visible=visible, form_value=_form_value)
        self._environment.globals.update(version=sha256(joined).hexdigest()[:12], steps=STEPS, bots_choices=BOTS)
        self._environment.globals.update(comparisons=COMPARISONS, explained=SECTIONS)
        # What most pages show, or do not: a page that differs says so.
        self._environment.globals.update(
            signed_in=False, shared=False, may_share=False, customer=False, missing_s=0, updated=""
        )

    def render(self, template: str, /, **values: object) -> str:
        """Renders a template."""
        return self._environment.get_template(template).render(**values)


def _ticked(text: str) -> str:
    """Escapes a text; what stands between backquotes is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _form_value(text: str) -> str:
    """Escapes a text as the value of a hidden field. What does not print is written by its number."""
    return "".join(sign if sign.isprintable() else f"&#{ord(sign)};" for sign in escape(text))
