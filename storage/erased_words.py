"""Which values must be forgotten, in the notes of a store: so every process that writes it knows them.

An erasure is noted with a digest of the value, never with the value. Each owner then confirms that none of its rows has
it; a refusal says why one cannot. When all owners have confirmed and the bytes are gone, the erasure is done. Hits with
the value are counted as `other` until KEPT_S later: clients repeat what they could not send. Any change is followed by
another version.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from hashlib import blake2b

import msgspec

from clickcurve.buckets.breakdowns.erased import NO_WORDS, ErasedWord, ErasedWords, digest_of
from clickcurve.buckets.ladder import DAY_S
from storage.contract import Store
from storage.note_versions import FollowedVersion, renew_version
from storage.notes import Notes, NoteSpace, TakenAlong

# ERASE, then the id of an erasure: which value must be forgotten, as a digest. ERASE_CONFIRMED, ERASE_REFUSED, then its
# id and an owner: no row of this owner has the value, or why some may have. ERASE_DONE, then its id: all is done.
# ERASE_SECRET is what digests are made with. ERASE_VERSION is another one after each change of these.
ERASE, ERASE_CONFIRMED, ERASE_REFUSED, ERASE_DONE = "erase:", "erase-confirmed:", "erase-refused:", "erase-done:"
ERASE_SECRET, ERASE_VERSION = "erase-secret", "erase-version"

KEPT_S = 8 * DAY_S
_NOTES = ERASE[:-1]  # how the names of all notes of erasures begin


class NotedWord(msgspec.Struct, frozen=True):
    """What is noted of a value. row: the stored key of the one row of counts whose breakdown is meant; None: all."""

    dimension: str
    digest: str
    row: str | None
    at: int

    @property
    def id(self) -> str:
        """The same for a value that is sent again."""
        meant = msgspec.json.encode((self.dimension, self.digest, self.row))
        return blake2b(meant, digest_size=8).hexdigest()

    @property
    def word(self) -> ErasedWord:
        return ErasedWord(self.id, self.dimension, self.digest, self.row)


class Confirmed(msgspec.Struct, frozen=True):
    """What an owner has rewritten: rows, and the hits with the value in those of links, or of the one row."""

    rows: int
    hits: int


class Erasure(msgspec.Struct, frozen=True):
    """An erasure with what is noted of it. done_at: when all was done. refused: why owners cannot confirm."""

    noted: NotedWord
    confirmed: dict[int, Confirmed]
    refused: dict[int, str]
    done_at: int | None

    @property
    def id(self) -> str:
        return self.noted.id

    @property
    def kept_until(self) -> int | None:
        """Until when hits with the value become `other`; None: at least until it is done."""
        return None if self.done_at is None else self.done_at + KEPT_S

    def is_kept(self, now: int) -> bool:
        """Tells whether hits with the value become `other` still."""
        return self.kept_until is None or now < self.kept_until


class ErasureBook:
    """Notes, lists and drops the erasures of a store. May block, and raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def followed(self) -> FollowedVersion:
        """Returns what tells that the erasures have changed."""
        return FollowedVersion(self._store, ERASE_VERSION)

    def all(self) -> list[Erasure]:
        """Returns the erasures, oldest first. One that cannot be read names no value: it is left out."""
        notes = self._store.notes(_NOTES)
        found = []
        for name, value in notes.items():
            if not name.startswith(ERASE):
                continue
            try:
                noted = msgspec.json.decode(value, type=NotedWord)
            except msgspec.DecodeError:
                continue
            confirmed = _by_owner(notes, f"{ERASE_CONFIRMED}{noted.id}:")
            refused = _by_owner(notes, f"{ERASE_REFUSED}{noted.id}:")
            done_at = notes.get(ERASE_DONE + noted.id)
            found.append(
                Erasure(
                    noted,
                    {owner: msgspec.json.decode(text, type=Confirmed) for owner, text in confirmed.items()},
                    {owner: text for owner, text in refused.items() if owner not in confirmed},
                    None if done_at is None else int(done_at),
                )
            )
        return sorted(found, key=lambda erasure: (erasure.noted.at, erasure.id))

    def words(self, now: int) -> ErasedWords:
        """Returns the values that must be forgotten now."""
        words = [erasure.noted.word for erasure in self.all() if erasure.is_kept(now)]
        return ErasedWords(self._secret(), words) if words else NO_WORDS

    def words_of(self, erasure: Erasure) -> ErasedWords:
        """Returns the value of one erasure."""
        return ErasedWords(self._secret(), [erasure.noted.word])

    def meant(self, dimension: str, value: str, row: str | None, now: int) -> NotedWord:
        """Returns what is to be noted of a value."""
        return NotedWord(dimension, digest_of(self._secret(), dimension, value), row, now)

    def add(self, noted: NotedWord) -> None:
        """Notes that a value must be forgotten; one that was erased before is erased again."""
        for erasure in self.all():
            if erasure.id == noted.id and erasure.done_at is not None:
                self._store.drop_notes([ERASE_DONE + noted.id, *_notes_of_owners(erasure)])
        self._store.note(ERASE + noted.id, msgspec.json.encode(noted).decode())
        self._change()

    def is_running(self, erasure_id: str) -> bool:
        """Tells whether an erasure is noted and not done."""
        is_noted = self._store.noted(ERASE + erasure_id) is not None
        return is_noted and self._store.noted(ERASE_DONE + erasure_id) is None

    def waiting(self, erasure: Erasure) -> list[int]:
        """Returns the owners of which a row may have the value."""
        if erasure.done_at is not None:
            return []
        return [record.owner for record in self._store.owners() if record.owner not in erasure.confirmed]

    def confirm(self, erasure: Erasure, owner: int, confirmed: Confirmed) -> None:
        """Notes that no row of an owner has the value."""
        self._store.note(f"{ERASE_CONFIRMED}{erasure.id}:{owner}", msgspec.json.encode(confirmed).decode())
        self._store.drop_notes([f"{ERASE_REFUSED}{erasure.id}:{owner}"])

    def refuse(self, erasure: Erasure, owner: int, reason: str) -> None:
        """Notes why a row of an owner may have the value still."""
        name = f"{ERASE_REFUSED}{erasure.id}:{owner}"
        if erasure.refused.get(owner) != reason:
            self._store.drop_notes([name])
            self._store.note(name, reason)

    def finish(self, erasure: Erasure, now: int) -> None:
        """Notes that no file of the store has the value."""
        self._store.note(ERASE_DONE + erasure.id, str(now))
        self._change()

    def forget_old(self, now: int) -> None:
        """Drops what is noted of values that need not be looked for any more."""
        old = [erasure for erasure in self.all() if not erasure.is_kept(now)]
        names = [name + erasure.id for erasure in old for name in (ERASE, ERASE_DONE)]
        if old:
            self._store.drop_notes([*names, *(name for erasure in old for name in _notes_of_owners(erasure))])
            self._change()

    def _secret(self) -> bytes:
        noted = self._store.noted(ERASE_SECRET) or self._store.note(ERASE_SECRET, secrets.token_hex(32))
        return bytes.fromhex(noted)

    def _change(self) -> None:
        renew_version(self._store, ERASE_VERSION)


def _by_owner(notes: dict[str, str], prefix: str) -> dict[int, str]:
    return {int(name.removeprefix(prefix)): value for name, value in notes.items() if name.startswith(prefix)}


def _notes_of_owners(erasure: Erasure) -> Iterable[str]:
    yield from (f"{ERASE_CONFIRMED}{erasure.id}:{owner}" for owner in erasure.confirmed)
    yield from (f"{ERASE_REFUSED}{erasure.id}:{owner}" for owner in {*erasure.refused, *erasure.confirmed})


class KnownWords:
    """The values that must be forgotten, as the process of an owner knows them; asks the store little."""

    def __init__(self, book: ErasureBook) -> None:
        self._book, self._version = book, book.followed()
        self._words = NO_WORDS

    def read(self, clock: Callable[[], float]) -> ErasedWords:
        """Returns those of now. One look at a note, unless they have changed. May block; raises StoreUnavailable."""
        if self._version.is_changed():
            self._words = self._book.words(int(clock()))
            self._version.note_read()
        return self._words


def _take_along(source: Notes, target: Store, now: int) -> TakenAlong:
    """Makes a target forget the values that a source forgets: all are looked for anew, in all rows of both."""
    erasures = {name: value for name, value in source.items() if name.startswith(ERASE)}
    if not erasures:
        return TakenAlong()
    if target.note(ERASE_SECRET, source[ERASE_SECRET]) != source[ERASE_SECRET]:  # its digests say nothing there
        left = f"{len(erasures):,} erased values may come back in the target: send their erasures there again"
        return TakenAlong(0, [left])
    new = erasures.keys() - target.notes(ERASE).keys()
    for name in sorted(new):
        target.note(name, erasures[name])
    if new:
        renew_version(target, ERASE_VERSION)
    return TakenAlong(len(new))


_OWN = ERASE, ERASE_CONFIRMED, ERASE_REFUSED, ERASE_DONE, ERASE_SECRET, ERASE_VERSION
ERASE_NOTES = NoteSpace("erasures", _OWN, _take_along)
