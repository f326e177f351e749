"""The manual page: whole, the same each time, and plain roff."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import click
import pytest

from server.cli.main import EXIT_CODES, main
from server.cli.manual import manual_page
from server.settings.table import TABLE, Setting
from tests.server.commands import said

MACROS = {".TH", ".SH", ".SS", ".PP", ".TP", ".nf", ".fi", ".nh", ".ad"}


def page(program: click.Command = main, settings: tuple[Setting, ...] = TABLE) -> str:
    return manual_page(program, "1.2.3", settings, EXIT_CODES)


def every_command(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    yield context.command_path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from every_command(found, click.Context(found, info_name=name, parent=context))


def rendered(roff: str) -> str:
    """The page as a terminal of 200 columns shows it; every warning of groff is an error."""
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", "-P-c", "-P-b", "-P-u", "-rLL=200n"],
        input=roff,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_the_command_prints_the_page() -> None:
    assert said("manual") == manual_page(main, said("version").split()[-1], TABLE, EXIT_CODES) + "\n"


@pytest.mark.needs("groff")
def test_the_page_holds_every_command_with_its_options() -> None:
    shown = rendered(page())
    for path, command in every_command(main, click.Context(main, info_name="clickcurve")):
        below = shown.partition(f"\n   {path.removeprefix('clickcurve ')}\n")[2] if path != "clickcurve" else shown
        assert below, path
        section = re.split(r"\n   \w", below)[0]
        for parameter in command.params:
            for flag in parameter.opts if isinstance(parameter, click.Option) else ():
                assert flag in section or flag == "--version", (path, flag)


@pytest.mark.needs("groff")
def test_the_page_holds_every_setting_and_exit_code() -> None:
    shown = rendered(page()).partition("\nSETTINGS\n")[2]
    for setting in TABLE:
        assert f"{setting.name}, {setting.flag}, {setting.variable}\n" in shown
    codes = shown.partition("\nEXIT STATUS\n")[2]
    for code, meaning in EXIT_CODES.items():
        plain = meaning.replace("`", "")  # what stands between backquotes is bold
        assert re.search(rf"^ +{code} +{re.escape(plain)}$", codes, re.MULTILINE)


def test_the_page_is_the_same_each_time_in_ascii_and_few_macros() -> None:
    assert page() == page()
    assert page().isascii()
    assert {line.split()[0] for line in page().splitlines() if line.startswith((".", "'"))} <= MACROS


@pytest.mark.needs("groff")
@pytest.mark.parametrize(
    "text",
    [
        ".dot first",
        "'quote first",
        r"a back\slash and C:\new",
        "it's ^caret ~tilde -dash --double",
        '"double" quotes & more',
    ],
)
def test_text_is_printed_as_it_is(text: str) -> None:
    @click.command(help=text, epilog="")
    def one() -> None:
        pass

    group = click.Group("g", {"one": one}, help=f"\b\n{text}\n  {text}")
    shown = rendered(page(group, ()))
    assert shown.count(text) == 3
    assert f"\n         {text}\n" in shown, "lines of a block keep their indentation"
