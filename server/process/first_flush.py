"""The first flush of a worker: before it answers, so that answers are whole, but not for long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from clickcurve.buckets.errors import ClickcurveError, JournalSuperseded, OwnerFenced
from ingest.owner import Owner
from server.logs import log

CLAIM_S = 20  # for a store that neither answers nor fails; longer than any store of ours takes for that
FIRST_FLUSH_S = 3  # after the claim; then requests are answered


async def begin_first_flush(owner: Owner) -> None:
    """Claims the owner and begins its first flush, for some seconds; what is unfinished then goes on.

    Raises what the claim or the flush raised by then.
    """
    if await _ended(owner.claim(), CLAIM_S):
        await _ended(owner.flush(), FIRST_FLUSH_S)


async def _ended(part: Coroutine[None, None, None], patience_s: float) -> bool:
    """Waits until this part of a first flush has ended, and returns True; False: it goes on meanwhile."""
    under_way = asyncio.ensure_future(part)
    await asyncio.wait({under_way}, timeout=patience_s)
    if under_way.done():
        under_way.result()
        return True
    log.warning("first flush unfinished", extra={"after_s": patience_s, "then": "it goes on"})
    under_way.add_done_callback(_ended_late)
    return False


def first_flush_failed(error: ClickcurveError, then: str) -> None:
    """Logs why a first flush failed, and what happens then."""
    log.warning("first flush failed", extra={"reason": error.detail, "then": then})


def _ended_late(flushing: asyncio.Future[None]) -> None:
    """Logs how a first flush ended that went on after requests were answered."""
    if flushing.cancelled():
        return
    try:
        flushing.result()
    except (JournalSuperseded, OwnerFenced) as error:
        first_flush_failed(error, "nothing is accepted; a restart quarantines the journal")
    except ClickcurveError as error:
        first_flush_failed(error, "it is tried again")
    except Exception:
        log.exception("first flush failed")
