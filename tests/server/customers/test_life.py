"""The life of a customer as docs/customers.md tells it: each command runs, in order, and prints what is shown."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from testing.server import ROOT, plain_environment
from tests.conftest import Serve
from tests.server.commands import said
from tests.server.conftest import wait_until
from tests.test_readme import ADDRESS, examples, program_on_path, shows

PAGE = ROOT / "docs" / "customers.md"
END = "-- that was it --"
# Tokens are listed by the second in which they were made.
NEXT_SECOND = 'second=$(date +%s); while [ "$(date +%s)" = "$second" ]; do :; done\n'


@pytest.mark.needs("bash", "curl")
def test_each_command_of_a_customers_life_prints_what_the_page_shows(serve: Serve, tmp_path: Path) -> None:
    text = PAGE.read_text()
    config = tmp_path / "clickcurve.toml"
    config.write_text(text.partition("```toml\n")[2].partition("```")[0])
    server = serve("--config", str(config))
    wait_until(lambda: "limits changed" in said("audit", "--data", str(server.data)))  # the page's first entry
    shown = examples(text)
    assert len(shown) >= 20
    commands = [each.command.replace(ADDRESS, server.url) for each in shown]
    script = "".join(f"{NEXT_SECOND * ('token create' in each)}{each}\necho '{END}'\n" for each in commands)
    environment = plain_environment({"CLICKCURVE_URL": server.url, "CLICKCURVE_DATA": str(server.data)})
    environment["PATH"] = f"{program_on_path(tmp_path)}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    printed = done.stdout.split(f"{END}\n")
    assert len(printed) == len(shown) + 1, done.stdout + done.stderr
    for example, output in zip(shown, printed, strict=False):
        assert shows(example.shown, output), f"line {example.line}: {example.command}\n{output}{done.stderr}"
