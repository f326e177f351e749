"""`clickcurve import --from PRODUCT`: what has times of an export, in their order, then totals without dates."""

from __future__ import annotations

import asyncio
import tempfile
from hashlib import blake2b
from pathlib import Path

from ingest.imports.access_log import AccessLog
from ingest.imports.importer import Importer, ImportSummary, SourceKind
from ingest.imports.products.takeover import Takeover, send_openings
from ingest.imports.target import Sender


async def take_over(sender: Sender, history: Takeover, product: str, label: str) -> tuple[ImportSummary, ImportSummary]:
    """Imports what was read of an export; returns what came of what has dates, and of what has none."""
    # Without a name: what visits say must not be left behind by a kill.
    with tempfile.TemporaryFile(prefix="clickcurve-") as lines:
        await asyncio.to_thread(lines.writelines, history.history())
        lines.flush()
        importer = Importer(sender, AccessLog(lambda agent: False), SourceKind.history, f"{product}:{label}")
        dated = await importer.run(Path(f"/proc/self/fd/{lines.fileno()}"))
    dated.bad += history.bad
    dated.first_bad += history.first_bad
    undated = ImportSummary(kind=SourceKind.history)
    name = f"openings-{product}-{blake2b(label.encode(), digest_size=8).hexdigest()}"
    await send_openings(sender, name, history.openings(), undated)
    return dated, undated
