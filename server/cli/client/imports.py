"""`clickcurve import`: access logs and other products' history, into a server or a data folder that no server holds."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import httpx

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.buckets.ladder import minutes_since
from clickcurve.hosts import Hosts, host_of_key
from ingest.attributes.agent import Agent
from ingest.attributes.dimensions import BOT
from ingest.hit import Moment
from ingest.imports.access_log import REDIRECTS, AccessLog
from ingest.imports.history_line import Wide
from ingest.imports.importer import Importer, ImportSummary, Openable, SourceKind
from ingest.imports.products.products import PRODUCTS, read_product
from ingest.imports.target import TIMEOUT_S, TRIES, HttpTarget, OwnerTarget, Sender, Target
from ingest.reading.bots import bot_judge
from server import clock, data_folder
from server.attributes import Attributes
from server.cli.client.api import is_here
from server.cli.client.follow import Follower, Interrupted, Interruption
from server.cli.client.takeover import take_over
from server.cli.main import FAILED, INTERRUPTED, USAGE, Failed
from server.cli.options import status_option, statuses_of, with_settings
from server.cli.output import Result, note, on_screen, progress, reports, show
from server.cli.progress import ProgressLine
from server.process.journals import owning
from server.settings.table import Settings
from server.settings.values import Broken, dimensions

STDIN = Path("-")
LABEL_HINT = (
    "  it was read before, and its lines were judged then: with --label NAME it is another source, and all of it counts"
    " again by these options"
)


@reports("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@status_option
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
@click.option("--no-visitors", is_flag=True, help="Do not count visitors by address and agent.")
@click.option("--dimensions", metavar="NAMES", help="Count only these of the server's dimensions; off: none.")
@with_settings("url", "token", "data", "store", "ladder", "journal_mib", "config", without_default=("data",))
def import_command(settings: Settings, files: tuple[Path, ...], statuses: str | None, **given: Any) -> None:
    """Count access logs (combined, common, Caddy or nginx JSON), or take over history (NDJSON of `export`, others').

    FILES may be compressed by gzip or zstd; - is standard input. A hit's key is the path without its leading slash and
    query; only GET counts; bots are recognised by their user agent. Referrer, address and agent of a line, and the
    campaign in a query, are counted in the server's dimensions; a hit from before yesterday has no visitor. Hits go to
    the server of --url or, with --data, into a folder that no server holds.

    It may be repeated at any time: the offset of each source is kept with its hits, so the import of a file goes on
    where it stopped, also after the file has grown, or was rotated or compressed.

    \b
    Examples:
      clickcurve import access.log access.log.1.gz
      clickcurve import --follow /var/log/nginx/access.log
      clickcurve import --status 200,304 --data ./clickcurve-data access.log
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
    fields = _fields_of(given.pop("dimensions"), given["no_visitors"])
    hosts = Hosts(default=_host_of(given.pop("host")))
    log = AccessLog(bot_judge(), REDIRECTS if statuses is None else statuses_of(statuses), fields, hosts)
    local = settings.origins["data"].startswith("flag")
    holding = data_folder.held(settings.data, settings.store, "clickcurve import") if local else nullcontext()
    with holding, _seldom_collecting():
        interruption = Interruption()
        importing = _import(settings, local, files, log, interruption, **given, hint=statuses is not None)
        all_fine = asyncio.run(importing if given["follow"] else _interruptible(interruption, importing))
    if not all_fine:
        raise SystemExit(FAILED)


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
    wanted = {"ref": ("ref",), "ip": ("country",), "source": ("source",), "ua": (*Agent._fields, BOT)}
    utm = tuple(name for name in chosen if name.startswith("utm_"))
    fields = [field for field, of in {**wanted, "utm": utm}.items() if not set(of).isdisjoint(chosen)]
    return fields if no_visitors or not chosen else list({*fields, "ip", "ua"})


def _host_of(text: str) -> str:
    host = host_of_key(text)
    if text and not host:
        raise Failed(f"--host {text}: write a name such as a.example, with a port if it is not 80 or 443", USAGE)
    return host


async def _import(
    settings: Settings,
    local: bool,
    files: tuple[Path, ...],
    log: AccessLog,
    interruption: Interruption,
    follow: bool,
    kind: str | None,
    label: str,
    wide: str,
    no_visitors: bool,
    hint: bool,
    product: str | None,
) -> bool:
    """Imports one file after the other. Returns whether all went well."""
    open_target = (_folder if local else _server)(settings, Wide(wide), not no_visitors)
    source_kind = SourceKind(kind) if kind else None
    async with open_target as target:
        if follow:
            return await _follow(target, files[0], log, source_kind, label, hint)
        sender = Sender(target, interruption.wait, note, TRIES)
        if product is not None:
            log.use_hosts((await sender.offset(f"hosts-{product}")).hosts_in_key)
            history = await asyncio.to_thread(read_product, product, files, bot_judge(), log.hosts)
            dated, undated = await take_over(sender, history, product, label)
            fine = _show_receipt(Path(product), dated, False)
            return _show_receipt(Path(f"{product} totals"), undated, False) and fine
        all_fine = True
        for file in files:
            all_fine = await _import_file(sender, file, log, interruption, source_kind, label, hint) and all_fine
    return all_fine


async def _import_file(
    sender: Sender,
    file: Path,
    log: AccessLog,
    interruption: Interruption,
    kind: SourceKind | None,
    label: str,
    hint: bool,
) -> bool:
    """Imports one file and prints its receipt, also if it is interrupted. Returns whether all went well."""
    size = file.stat().st_size if file.is_file() else None
    summary, line = ImportSummary(), ProgressLine(file.name, "lines")

    def chunk_counted(raw_at: int) -> None:
        line.show(raw_at, size, summary.lines)
        interruption.between()

    importer = Importer(sender, log, kind, label, chunk_counted)
    opened: Openable = sys.stdin.buffer if file == STDIN else file  # type: ignore[assignment]
    try:
        with line:
            await importer.run(opened, summary)
    except ClickcurveError as error:
        note(error.detail if error.detail.startswith(f"{file}:") else f"{file}: {error.detail}")
        return False
    except (Interrupted, asyncio.CancelledError):
        _show_receipt(file, summary, hint)
        raise
    return _show_receipt(file, summary, hint)


async def _interruptible(interruption: Interruption, work: Coroutine[None, None, bool]) -> bool:
    """Runs an import. Raises Failed after a Ctrl-C, when what was read is stored; a second Ctrl-C stops at once."""
    loop, running = asyncio.get_running_loop(), asyncio.ensure_future(work)

    def interrupt() -> None:
        if interruption.signalled(running):
            if on_screen():
                progress("")
            note("stopping: what was read is being stored; Ctrl-C once more stops at once")

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        return await running
    except (Interrupted, asyncio.CancelledError):
        raise Failed("interrupted: the same command goes on where this one stopped", INTERRUPTED) from None


async def _follow(target: Target, file: Path, log: AccessLog, kind: SourceKind | None, label: str, hint: bool) -> bool:
    """Follows a log until it is interrupted. Returns whether all went well."""
    follower = Follower(file)
    sender = Sender(target, follower.interruption.wait, note, tries=None)
    fine = True
    try:
        await follower.run(Importer(sender, log, kind, label, follower.interruption.between))
    except ClickcurveError as error:
        note(f"{file}: {error.detail}")
        fine = False
    return _show_receipt(file, follower.summary, hint) and fine


def _show_receipt(file: Path, summary: ImportSummary, hint: bool) -> bool:
    """Prints what came of one source. Returns whether all of it went well."""
    show(Result(source_lines(str(file), summary, hint), [_summary_object(str(file), summary)]))
    return not (summary.refused or summary.is_all_bad) and summary.damage is None


@asynccontextmanager
async def _server(settings: Settings, wide: Wide, visitors: bool) -> AsyncIterator[Target]:
    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    here = is_here(settings.url)
    target = HttpTarget(
        lambda: httpx.AsyncClient(base_url=settings.url, headers=headers, timeout=TIMEOUT_S, trust_env=not here),
        wide,
        visitors,
    )
    try:
        yield target
    finally:
        await target.close()


@asynccontextmanager
async def _folder(settings: Settings, wide: Wide, visitors: bool) -> AsyncIterator[Target]:
    def moment() -> Moment:
        return Moment.at(clock.now(), minutes_since)

    async with owning(settings, 1) as (owner, store):
        dividing = Attributes(settings, store, clock.now)
        await dividing.begin(holds_hits=False)
        attribute_reader = dividing.reader if visitors else dividing.reader.without_visitors()
        flushing = asyncio.create_task(_flush_now_and_then(owner.flush, settings.flush_s))
        try:
            yield OwnerTarget(owner, store.ladder(), moment, wide, attribute_reader, dividing.hosts.in_key)
        finally:
            flushing.cancel()
            with suppress(asyncio.CancelledError):
                await flushing


async def _flush_now_and_then(flush: Callable[[], Any], every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        with suppress(ClickcurveError):  # the next one tries again, and the last one at the end raises
            await flush()


def _summary_object(name: str, summary: ImportSummary) -> dict[str, object]:
    return {"source": name, "kind": summary.kind, **asdict(summary), "skipped": dict(summary.skipped)}


def source_lines(name: str, summary: ImportSummary, hint: bool) -> list[str]:
    """Reports for people what came of one source; with `hint` how to count again what was read before."""
    label = [LABEL_HINT] if hint and (summary.is_part or (summary.from_byte and not summary.lines)) else []
    if summary.is_part:
        return [f"{name}: a part of a source that was counted further already; nothing new", *label]
    again = f" (bytes up to {summary.from_byte:,} were counted before)" if summary.from_byte else ""
    read = f"{name}: {summary.lines:,} lines read{again}"
    if summary.kind is SourceKind.log:
        read += f", {summary.people_hits:,} hits of people, {summary.bot_hits:,} of bots"
    if summary.bad or summary.kind is SourceKind.log:
        read += f", {summary.bad:,} bad"
    lines = [read, *label]
    if summary.skipped:
        lines.append("  skipped: " + ", ".join(f"{n:,} {why}" for why, n in summary.skipped.most_common()))
    lines += [f"  bad line {bad.line}: {bad.reason}: {bad.text}" for bad in summary.first_bad]
    lines.append(f"  counted {summary.counted:,}, late {summary.late:,}, refused {summary.refused:,}")
    if summary.late:
        lines.append("  late: hits from before today (UTC); they count, in wider buckets than minutes")
    lines += [f"  refused: {reason}" for reason in summary.reasons]
    if summary.unanswered:
        lines.append(f"  {summary.unanswered:,} chunks count, but their receipts were lost")
    if summary.left_bytes:
        lines.append(f"  {summary.left_bytes:,} bytes of a last line without an end were left for the next import")
    if summary.damage is not None:
        lines.append(f"  read as far as it goes: {summary.damage}")
    return lines
