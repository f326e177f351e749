"""An import from its source to its target: find the place, send piece after piece, go on after any failure.

What makes it exact is that the place in the source moves with the hits, in one journal frame, on the other side. So the
client keeps nothing: it may be killed at any moment and asks for the place when it comes back; and where the outcome of a
piece is not known it asks as well. Waiting is passed in.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from buckets.errors import (
    ImportElsewhere,
    ImportOutOfStep,
    JournalError,
    JournalUnknown,
    OwnerFenced,
    StoreUnavailable,
)
from ingest.access_log import SHOWN_BAD_LINES, AccessLog, BadLine, Reading
from ingest.batch import SourceStep
from ingest.fingerprint import RUNGS, Likeness
from ingest.import_piece import Piece
from ingest.import_source import Cutter, Lines, SourceChanged, Stream, open_reader
from ingest.import_target import ImportRefused, Place, Taken, Target

Wait = Callable[[float], Awaitable[None]]
POLL_S = 1.0  # how often a followed log is looked at
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 15.0
TRIES = 40  # of one request, some nine minutes; a followed log is tried for ever
QUICK_TRIES = 16  # new connections until one reaches the right worker, before there is any waiting
T = TypeVar("T")
