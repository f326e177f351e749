"""`clickcurve send`."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import click

from clickcurve.times import parse_time
from server.cli.client.api import NamedServer, with_server
from server.cli.main import FAILED, USAGE, Failed
from server.cli.output import Result, note, reports

BATCH_BYTES = 4 * 1024 * 1024
SUMS = ("counted", "duplicate", "late", "refused")


@reports("send")
@click.argument("key", required=False)
@click.option("--file", "source", type=click.File("rb"), help="NDJSON of hits instead of one KEY; - is standard input.")
@click.option("--ts", help="The time, in epoch seconds or ISO 8601 (UTC if it has no offset). Without it: now.")
@click.option("--count", type=int, help="How many hits.")
@click.option("--id", "hit_id", help="An id: the hit counts once, however often it is sent within 48 hours.")
@click.option("--bot", is_flag=True, help="It was a bot.")
@click.option("--ua", help="The visitor's user agent, which tells bots from people.")
@click.option("--ref", help="Where the visitor came from: a URL or a host.")
@click.option("--ip", help="The visitor's address, for the country and to tell visitors apart; it is not kept.")
@click.option("--country", help="Two letters; used instead of the country of --ip.")
@click.option("--lang", help="A language tag, or the value of Accept-Language.")
@click.option("--source", "said_source", help="Where the link was published, such as qr or email.")
@click.option("--utm", multiple=True, metavar="NAME=TEXT", help="source, medium or campaign; may be repeated.")
@click.option(
    "--tag", "tags", multiple=True, metavar="NAME=TEXT", help="A tag that the settings name; may be repeated."
)
@click.option("--visitor", help="A name that identifies this visitor; only a hash is kept.")
@click.option("--group", "groups", multiple=True, help="A group that the hit counts in; may be repeated.")
@click.option("--event", help="What came of a click, such as sale, in place of a click; one that the settings name.")
@click.option("--value", type=int, help="The amount of one --event, in the smallest unit.")
@with_server
def send_command(server: NamedServer, key: str | None, source: BinaryIO | None, **fields: Any) -> Result:
    """Send one hit of the link KEY, or a file of hits, to a running server.

    It prints what was counted. Each batch has its own id, and is sent again if the server is busy or an answer is lost;
    it still counts once. The exit code is 1 if hits were refused.

    \b
    Examples:
      clickcurve send launch
      clickcurve send launch --count 5 --ts 2026-01-31T12:00
      clickcurve send launch --ref https://news.example/a --country DE --group spring
      clickcurve send launch --event sale --value 4990 --id order-1001
      echo '{"key": "launch", "ts": 1767225600}' | clickcurve send --file -
    """
    if (key is None) == (source is None):
        raise Failed("send takes one KEY, or --file with many hits", USAGE)
    if source is not None and any(value not in (None, False, ()) for value in fields.values()):
        raise Failed(
            "--ts, --count and the other fields of a hit are for one KEY; in a file each hit has its own", USAGE
        )
    sums: Counter[str] = Counter()
    if source is None:
        _send_hits(server, _hit(key, **fields), "application/json", sums)
    else:
        for batch in _batches(source):
            _send_hits(server, batch, "application/x-ndjson", sums)
    receipt = {name: sums[name] for name in SUMS}
    text = ", ".join(f"{name} {count:,}" for name, count in receipt.items())
    return Result([text], [receipt], FAILED if receipt["refused"] else 0)


def _hit(key: str | None, ts: str | None, hit_id: str | None, bot: bool, **given: Any) -> bytes:
    fields = {
        "key": key,
        "ts": None if ts is None else parse_time("ts", ts).utc_s,
        "id": hit_id,
        "bot": bot or None,
        "source": given.pop("said_source"),
        "utm": _pairs("utm", given.pop("utm")),
        "tags": _pairs("tag", given.pop("tags")),
        "groups": list(given.pop("groups")) or None,
        **given,
    }
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


def _pairs(flag: str, given: Sequence[str]) -> dict[str, str] | None:
    """Returns what repeated flags NAME=TEXT name; None if there is none."""
    pairs = [text.partition("=") for text in given]
    for name, sign, _ in pairs:
        if not (name and sign):
            raise Failed(f"--{flag} {name} is not NAME=TEXT", USAGE)
    return {name: text for name, _, text in pairs} or None


def _batches(source: BinaryIO) -> Iterator[bytes]:
    """Yields whole lines, 4 MiB at a time."""
    while lines := source.readlines(BATCH_BYTES):
        yield b"".join(lines)


def _send_hits(server: NamedServer, body: bytes, media_type: str, sums: Counter[str]) -> None:
    headers = {"Content-Type": media_type, "Idempotency-Key": str(uuid.uuid4())}
    receipt = server.send("/v1/hits", body, headers).json()
    for item in receipt["items"]:
        if item["status"] in ("refused", "adjusted"):
            note(f"{item['status']} hit {item['index']}: {item['reason']}")
    sums.update({name: receipt[name] for name in SUMS})
