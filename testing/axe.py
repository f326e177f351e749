"""axe-core, which judges pages for readers with screen readers and keyboards: one file, pinned by hash.

npm fetches it once into a cache outside the tree: `clickcurve` below `$XDG_CACHE_HOME` or `~/.cache`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from testing.browser import Page

VERSION = "4.10.3"
SHA512 = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
FETCH_WITHIN_S = 120.0


def axe_script() -> str:
    """The script, fetched now if it never was. What is not the pinned file is refused."""
    below = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    kept = Path(below) / "clickcurve" / f"axe-core-{VERSION}.tgz"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            command = ["npm", "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", folder]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=FETCH_WITHIN_S)
            (Path(folder) / kept.name).replace(kept)
    found = base64.b64encode(hashlib.sha512(kept.read_bytes()).digest()).decode()
    assert found == SHA512, f"{kept} is not the pinned file: {found}"
    with tarfile.open(kept) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def violations(page: Page, script: str, *rules: str) -> list[str]:
    """What breaks a rule on a page, each as impact, rule, and the elements. rules: the only ones, none: all."""
    page.js(script + ";0")
    only = f"runOnly: {json.dumps(rules)}, " if rules else ""
    shown: list[dict[str, Any]] = page.js(
        f"axe.run(document, {{{only}resultTypes: ['violations']}}).then((r) => r.violations.map((v) =>"
        " ({impact: v.impact, id: v.id, nodes: v.nodes.map((n) => n.html.slice(0, 120))})))"
    )
    return [f"{each['impact']} {each['id']}: {each['nodes']}" for each in shown]
