"""What the server notes beside hits by itself: deletions and imports. Alerts and corrections note their own."""

from __future__ import annotations

from hashlib import blake2b

from clickcurve.keys import ALL_LINKS, Subject
from ingest.batch import Batch
from ingest.imports.routes import ImportIntake
from server.timeline.known_notes import KnownNotes
from server.timeline.note import NoteKind
from storage.contract import Source


class Marks:
    """Notes what was done. Is the intake of imports too: a source is noted once, when its first chunk was counted."""

    def __init__(self, notes: KnownNotes, intake: ImportIntake) -> None:
        self._notes, self._intake = notes, intake

    async def deleted(self, subject: Subject, text: str) -> None:
        """Notes beside the hits of a subject what was deleted."""
        await self._notes.write_own(NoteKind.delete, subject.stored, text)

    async def accept(self, batch: Batch) -> frozenset[str]:
        """Counts a chunk of an import, as the owner does."""
        duplicates = await self._intake.accept(batch)
        if batch.source is not None and batch.source.start == 0:
            source = batch.source.source
            note_id = f"import-{blake2b(source.encode(), digest_size=8).hexdigest()}"
            text = f"Import of {source.rpartition(' ')[2]}"  # of a prefix, what it keeps sources apart by is in front
            await self._notes.write_own(NoteKind.import_, ALL_LINKS, text, note_id=note_id)
        return duplicates

    async def kept_offset(self, source: str) -> Source:
        """Returns how far a source was counted."""
        return await self._intake.kept_offset(source)
