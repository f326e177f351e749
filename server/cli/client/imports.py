"""`clickcurve import`: access logs and other products' history, into a server or a data folder that no server holds."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import tzinfo
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import click
import httpx

from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.errors import ClickcurveError
from clickcurve.buckets.ladder import minutes_since
from clickcurve.hosts import Hosts, host_of_key
from ingest.agents.bots import bot_judge
from ingest.agents.reader import Agent
from ingest.attributes.dimensions import CHANNEL
from ingest.hit import Moment
from ingest.imports.access_log import REDIRECTS, AccessLog, LogOptions
from ingest.imports.importer import Importer, ImportSummary, Openable, SourceKind
from ingest.imports.places import Ahead, Placing, Wide
from ingest.imports.products.products import PRODUCTS, read_product
from ingest.imports.products.takeover import DecodingSender, Takeover, nameless_file, send_openings
from ingest.imports.rule_lines import rules_of
from ingest.imports.target import TIMEOUT_S, TRIES, HttpTarget, OwnerTarget, Sender, Target
from server import data_folder
from server.attributes import Attributes, dimensions_in
from server.cli.client.api import is_here
from server.cli.client.import_receipt import receipt_lines
from server.cli.client.imported_rules import take_rules
from server.cli.log_options import log_options, taken_options
from server.cli.main import FAILED, INTERRUPTED, USAGE, Failed
from server.cli.options import status_option, statuses_of, with_settings
from server.cli.output import ProgressLine, Result, note, number_of, on_screen, progress, reports, show
from server.process.journals import owning
from server.process.kept_clock import open_clock
from server.settings.table import Settings
from server.settings.values import Broken, dimensions

STDIN = Path("-")
SCREEN_EVERY_S = 1.0
NOTE_EVERY_S = 60.0
BUFFER_MIB = 64  # what an import into a folder holds before it flushes: its peak stays below 256 MiB
T = TypeVar("T")


class Interrupted(Exception):
    """A person, or the system, has asked the follower to end."""


class Interruption:
    """A wish to end: at the first signal after the chunk that is under way, so that it is reported; then at once."""

    def __init__(self) -> None:
        self._ends = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Waits so long; raises Interrupted as soon as the end is asked for."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ends.wait(), seconds)
        self.between()

    def between(self, raw_at: int = 0) -> None:
        """Raises Interrupted if the end was asked for; called when a chunk has counted."""
        if self._ends.is_set():
            raise Interrupted

    def signalled(self, running: asyncio.Future[Any]) -> bool:
        """Takes a signal; returns whether it is the first one. The second one cancels what is running."""
        is_first = not self._ends.is_set()
        if not is_first:
            running.cancel()
        self._ends.set()
        return is_first

    async def end(self, work: Coroutine[None, None, T], *signals: int, begun: Callable[[], None] | None = None) -> T:
        """Runs work; raises Interrupted if these signals ended it. begun: is called at the first of them."""
        loop, running = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def take() -> None:
            if self.signalled(running) and begun is not None:
                begun()

        for number in signals:
            loop.add_signal_handler(number, take)
        try:
            return await running
        except asyncio.CancelledError:
            raise Interrupted from None


@reports("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@status_option
@log_options
@click.option("--follow", is_flag=True, help="Keep reading while the log is written and rotated, until interrupted.")
@click.option(
    "--kind", type=click.Choice([kind.value for kind in SourceKind]), help="Without it, the first line decides."
)
@click.option(
    "--from", "product", type=click.Choice(list(PRODUCTS)), help="FILES are one export of this product, taken together."
)
@click.option("--host", default="", help="Where keys begin with hosts: the host of lines and links that name none.")
@click.option("--label", default="", help="A name for the source: the same file under another name counts again.")
@click.option(
    "--wide",
    type=click.Choice([wide.value for wide in Wide]),
    default=Wide.refuse.value,
    help="History in wider buckets than are kept at their time: refuse it, or count it at their start.",
)
@click.option(
    "--ahead",
    type=click.Choice([ahead.value for ahead in Ahead]),
    default=Ahead.refuse.value,
    help="History that begins ahead of the clock, as a wrong clock has left it: refuse it, or count it now.",
)
@click.option("--no-visitors", is_flag=True, help="Do not count visitors by address and agent.")
@click.option("--dimensions", metavar="NAMES", help="Count only these of the server's dimensions; off: none.")
@with_settings("url", "token", "data", "store", "ladder", "journal_mib", "config", without_default=("data",))
def import_command(settings: Settings, files: tuple[Path, ...], statuses: str | None, **given: Any) -> None:
    """Count access logs, whose format is recognised, or take over history (NDJSON of `export`, others').

    FILES may be compressed by gzip, zstd, bzip2 or xz; - is standard input. A hit's key is the path without its leading
    slash and query; only GET counts; bots are recognised by their user agent. Referrer, address and agent of a line,
    and the campaign in a query, are counted in the server's dimensions; a hit from before yesterday has no visitor.
    Hits go to the server of --url or, with --data, into a folder that no server holds.

    It may be repeated at any time: the offset of each source is kept with its hits, so the import of a file goes on
    where it stopped, also after the file has grown, or was rotated or compressed.

    \b
    Examples:
      clickcurve import access.log access.log.1.gz
      clickcurve import --follow /var/log/nginx/access.log
      clickcurve import --status 200,304 --data ./clickcurve-data access.log
      clickcurve import --client-field last --exclude favicon.ico --exclude 'wp-*' access.log
      clickcurve import --format '$remote_addr [$time_local] "$request" $status "$http_user_agent"' access.log
      clickcurve import history.ndjson
      clickcurve import --from shlink visits.csv short-urls.csv
    """
    if given["product"] and (given["follow"] or given["kind"] or statuses is not None or STDIN in files):
        raise Failed(
            "--from takes files and no standard input, and cannot be combined with --follow, --kind or --status", USAGE
        )
    if given["follow"] and len(files) != 1:
        raise Failed("--follow takes one file", USAGE)
    if given["follow"] and files[0] == STDIN:
        raise Failed("--follow takes a file; standard input is read to its end anyway", USAGE)
    options = taken_options(given)
    if given["product"] and options != LogOptions(zone=options.zone):
        raise Failed("of the flags for logs, --from takes --tz alone", USAGE)
    fields = _fields_of(given.pop("dimensions"), given["no_visitors"])
    hosts = Hosts(default=_host_of(given.pop("host")))
    log = AccessLog(bot_judge(), REDIRECTS if statuses is None else statuses_of(statuses), fields, hosts, options)
    local = settings.origins["data"].startswith("flag")
    holding = data_folder.held(settings.data, settings.store, "clickcurve import") if local else nullcontext()
    placing = Placing(Wide(given["wide"]), Ahead(given["ahead"]))
    opened = (_folder if local else _server)(settings, placing, not given["no_visitors"])
    kind = SourceKind(given["kind"]) if given["kind"] else None
    reading = _Reading(log, options.zone, kind, given["label"], statuses is not None, options.client.name)
    with holding, _seldom_collecting():
        if given["follow"]:
            importing = _follow(opened, files[0], reading)
        else:
            importing = _import(opened, files, given["product"], reading)
        all_fine = asyncio.run(importing)
        all_fine = _take_rules(settings, reading.histories, local) and all_fine
    if not all_fine:
        raise SystemExit(FAILED)


def _take_rules(settings: Settings, files: Sequence[Path], into_folder: bool) -> bool:
    """Takes the rules of exports that call hits bots: after their hits, so that these are called. Returns whether all.

    They are looked for in each file each time, so one that a kill left behind is taken by the next import.
    """
    fine = True
    for file in files:
        rules, bad = rules_of(file)
        for sentence in take_rules(settings, rules, into_folder):
            note(f"{file}: {sentence}")
            fine = False
        if bad:
            note(f"{file}: {bad:,} lines that hold no rule that can be read")
        fine = fine and not bad
    return fine


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Lets the garbage collector look seldom: lines leave no cycles behind, and its looks took 5 % of an import."""
    usual = gc.get_threshold()
    gc.set_threshold(20_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _fields_of(names: str | None, no_visitors: bool) -> list[str] | None:
    """Returns the fields of a line that these dimensions need, and visitors if they are counted; None: all."""
    if names is None:
        return None
    try:
        chosen = dimensions(names)
    except Broken as error:
        raise Failed(f"--dimensions {names}: {error}", USAGE) from None
    wanted = {"ref": ("ref", CHANNEL), "ip": ("country",), "source": ("source", CHANNEL)}
    wanted["ua"] = (*Agent._fields, *OF_BOTS)
    utm = (CHANNEL, *(name for name in chosen if name.startswith("utm_")))
    fields = [field for field, of in {**wanted, "utm": utm}.items() if not set(of).isdisjoint(chosen)]
    return fields if no_visitors or not chosen else list({*fields, "ip", "ua"})


def _host_of(text: str) -> str:
    host = host_of_key(text)
    if text and not host:
        raise Failed(f"--host {text}: write a name such as a.example, with a port if it is not 80 or 443", USAGE)
    return host


@dataclass(frozen=True, slots=True)
class _Reading:
    """How sources are read. zone: of times that name none. kind: None where the first line decides.

    hint: of what was read before by other options. client: the name of the field with the client's address. histories:
    the files that have been read so far and are no logs.
    """

    log: AccessLog
    zone: tzinfo
    kind: SourceKind | None
    label: str
    hint: bool
    client: str
    histories: list[Path] = field(default_factory=list)


async def _import(
    opened: AbstractAsyncContextManager[Target], files: tuple[Path, ...], product: str | None, reading: _Reading
) -> bool:
    """Imports files, or one export of a product. Returns whether all went well.

    Raises Failed after a Ctrl-C, when what was read is stored; a second Ctrl-C stops at once.
    """
    interruption = Interruption()

    async def importing() -> bool:
        async with opened as target:
            sender = Sender(target, interruption.wait, note, TRIES)
            if product is not None:
                return await _import_export(sender, files, product, reading)
            all_fine = True
            for file in files:
                all_fine = await _import_file(sender, file, interruption, reading) and all_fine
            return all_fine

    def say_stopping() -> None:
        progress("")
        note("stopping: what was read is being stored; Ctrl-C once more stops at once")

    try:
        return await interruption.end(importing(), signal.SIGINT, begun=say_stopping)
    except Interrupted:
        raise Failed("interrupted: the same command goes on where this one stopped", INTERRUPTED) from None


async def _import_export(sender: Sender, files: tuple[Path, ...], product: str, reading: _Reading) -> bool:
    """Imports an export: what has times, in their order, then totals without dates. Returns whether all went well."""
    log = reading.log
    there = await sender.offset(f"hosts-{product}")
    log.use_hosts(there.hosts_in_key)
    log.use(there.fields, there.people)
    # Without a name: what visits say must not be left behind by a kill.
    with Takeover(log.hosts, log.is_bot, reading.zone) as taken, nameless_file() as lines:
        await asyncio.to_thread(read_product, product, files, taken)
        await asyncio.to_thread(taken.write_history, lines)
        decoding = DecodingSender(sender.target, sender.wait, sender.on_wait, sender.tries, taken.decoded)
        importer = Importer(decoding, AccessLog(lambda agent: False), SourceKind.history, f"{product}:{reading.label}")
        dated = await importer.run(Path(f"/proc/self/fd/{lines.fileno()}"))
        undated = ImportSummary(kind=SourceKind.history)
        if bots := taken.bots_without_dates():
            undated.skipped["visits of bots without dates"] = bots
        name = f"openings-{product}-{blake2b(reading.label.encode(), digest_size=8).hexdigest()}"
        await send_openings(sender, name, taken, undated)
    # Bad lines are told with the part that has good ones: an export without any is most likely something else.
    with_good = dated if dated.lines or dated.from_byte else undated
    with_good.bad += taken.bad
    with_good.first_bad += taken.first_bad
    fine = _show_receipt(product, dated)
    return _show_receipt(f"{product} totals", undated) and fine


async def _import_file(sender: Sender, file: Path, interruption: Interruption, reading: _Reading) -> bool:
    """Imports one file and prints its receipt, also if it is interrupted. Returns whether all went well."""
    size = file.stat().st_size if file.is_file() else None
    summary, line = ImportSummary(), ProgressLine(file.name, "lines", notes=True)

    def chunk_counted(raw_at: int) -> None:
        line.show(raw_at, size, summary.lines)
        interruption.between()

    importer = Importer(sender, reading.log, reading.kind, reading.label, chunk_counted)
    opened: Openable = sys.stdin.buffer if file == STDIN else file  # type: ignore[assignment]
    try:
        with line:
            await importer.run(opened, summary)
    except ClickcurveError as error:
        note(error.detail if error.detail.startswith(f"{file}:") else f"{file}: {error.detail}")
        return False
    except (Interrupted, asyncio.CancelledError):
        _show_receipt(str(file), summary, reading)
        raise
    finally:
        if summary.kind is SourceKind.history and file.is_file():
            reading.histories.append(file)
    return _show_receipt(str(file), summary, reading)


async def _follow(opened: AbstractAsyncContextManager[Target], file: Path, reading: _Reading) -> bool:
    """Follows a log until a signal, and prints what was counted. Returns whether all went well."""
    interruption, summary, fine = Interruption(), ImportSummary(), True
    wait, between = interruption.wait, interruption.between
    async with opened as target:
        sender = Sender(target, wait, note, tries=None)
        following = Importer(sender, reading.log, reading.kind, reading.label, between).follow(file, summary)
        note(f"{file}: following it; Ctrl-C ends this and prints what was counted")
        try:
            async with _showing_sums(file, summary):
                await interruption.end(following, signal.SIGINT, signal.SIGTERM)
        except Interrupted:
            pass  # the receipt says how far it came
        except ClickcurveError as error:
            note(f"{file}: {error.detail}")
            fine = False
        return _show_receipt(str(file), summary, reading) and fine


@asynccontextmanager
async def _showing_sums(file: Path, summary: ImportSummary) -> AsyncIterator[None]:
    """Shows the sums so far: on a terminal in a line that keeps up, else in a line a minute, if there is news."""

    async def show_again() -> None:
        last = ""
        while True:
            await asyncio.sleep(SCREEN_EVERY_S if on_screen() else NOTE_EVERY_S)
            sentence = follow_line(file, summary)
            if on_screen():
                progress(sentence)
            elif sentence != last:
                note(sentence)
            last = sentence

    showing = asyncio.ensure_future(show_again())
    try:
        yield
    finally:
        showing.cancel()
        progress("")


def follow_line(file: Path, summary: ImportSummary) -> str:
    """Returns what a follower has done so far, and what it waits for."""
    waits = "waiting for more"
    if not file.exists():
        waits = "waiting until it is there"
    elif not os.access(file, os.R_OK):
        waits = "waiting until it may be read"
    return f"{file}: {number_of(summary.lines, 'line')} read, {number_of(summary.counted, 'hit')} counted; {waits}"


def _show_receipt(name: str, summary: ImportSummary, reading: _Reading | None = None) -> bool:
    """Prints what came of one source. Returns whether all of it went well."""
    counters = {"skipped": dict(summary.skipped), "formats": dict(summary.formats)}
    object_ = {"source": name, "kind": summary.kind, **asdict(summary), **counters}
    hint, client = (reading.hint, reading.client) if reading is not None else (False, "")
    show(Result(receipt_lines(name, summary, hint, client), [object_]))
    return not (summary.refused or summary.is_all_bad) and summary.damage is None


@asynccontextmanager
async def _server(settings: Settings, placing: Placing, visitors: bool) -> AsyncIterator[Target]:
    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    here = is_here(settings.url)
    target = HttpTarget(
        lambda: httpx.AsyncClient(base_url=settings.url, headers=headers, timeout=TIMEOUT_S, trust_env=not here),
        placing,
        visitors,
    )
    try:
        yield target
    finally:
        await target.close()


@asynccontextmanager
async def _folder(settings: Settings, placing: Placing, visitors: bool) -> AsyncIterator[Target]:
    trusted = open_clock(settings)

    def moment() -> Moment:
        return Moment.at(trusted.now(), minutes_since)

    bounded = replace(settings, buffer_mib=min(settings.buffer_mib, BUFFER_MIB))
    async with owning(bounded, 1, trusted) as (owner, store):
        dimensions = await asyncio.to_thread(dimensions_in, store, settings)
        dividing = Attributes(settings, store, trusted.now, trusted.careful, dimensions=dimensions)
        await dividing.begin(holds_hits=False)
        attribute_reader = dividing.reader if visitors else dividing.reader.without_visitors()
        flushing = asyncio.create_task(_flush_now_and_then(owner.flush, settings.flush_s))
        try:
            yield OwnerTarget(owner, store.ladder(), moment, placing, attribute_reader, dividing.hosts.in_key)
        finally:
            flushing.cancel()
            with suppress(asyncio.CancelledError):
                await flushing


async def _flush_now_and_then(flush: Callable[[], Any], every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        with suppress(ClickcurveError):  # the next one tries again, and the last one at the end raises
            await flush()
