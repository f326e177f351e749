"""The program runs from the wheel alone: every command and every module, the limiter's scripts, its types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from testing.backend_servers import shared_redis
from tests.install.environments import Environment, project

IMPORT_ALL = """
import importlib, pathlib, sys
import clickcurve

package = pathlib.Path(clickcurve.__file__).parent
program = package / "program"
sys.path.insert(0, str(program))
for file in sorted(package.rglob("*.py")):
    top = program if file.is_relative_to(program) else package.parent
    name = ".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__")
    if file != program / "__init__.py":
        module = importlib.import_module(name)
        assert module.__file__ == str(file), (module.__file__, file)
        print(name)
"""

ON_REDIS = """
import sys
from clickcurve.limiter import Limiter, parse_rules
from clickcurve.limiter.backends.redis import RedisBackend

rules = parse_rules({"login": {"by": "user", "rates": "2/h", "backend": "redis"}})
limiter = Limiter(rules, clock=None, backends={"redis": RedisBackend(sys.argv[1], timeout_s=5.0)})
print([limiter.hit("login", {"user": "ann"}).allowed for _ in range(3)])
"""

TYPED = """
import time

from clickcurve import Ladder
from clickcurve.limiter import Decision, Limiter, parse_rules

ladder: Ladder = Ladder.parse("60:1,month")
limiter = Limiter(parse_rules({"login": {"by": "user", "rates": "5/m"}}), clock=time.time)


def may_pass(user: str) -> bool:
    decision: Decision = limiter.hit("login", {"user": user})
    return decision.allowed


limiter.hit(5)
"""


def test_the_command_is_there_and_tells_its_version(installed: Environment, tmp_path: Path) -> None:
    version = project()["project"]["version"]
    assert installed.call("--version", folder=tmp_path).stdout == f"clickcurve, version {version}\n"
    assert installed.call_module("--version", folder=tmp_path).stdout == f"clickcurve, version {version}\n"


def test_every_module_of_the_program_imports(installed: Environment, tmp_path: Path) -> None:
    done = installed.run(IMPORT_ALL, tmp_path)
    assert done.returncode == 0, done.stderr
    imported = done.stdout.split()
    assert {"clickcurve.limiter", "server.cli.serve", "storage.cassandra.session", "ingest.owner"} <= set(imported)
    assert len(imported) > 150


def test_every_dependency_is_there(installed: Environment) -> None:
    installed.pip("check")


def test_the_limiter_s_scripts_are_packed_and_decide_on_redis(installed: Environment, tmp_path: Path) -> None:
    done = installed.run(ON_REDIS, tmp_path, shared_redis().url)
    assert done.stdout == "[True, True, False]\n", done.stderr


def test_a_program_that_uses_the_limiter_is_checked_against_its_types(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TYPED)
    check = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(installed.python), "shop.py"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    found = [line.partition("error: ")[2] for line in done.stdout.splitlines() if "error: " in line]
    last = len(TYPED.splitlines())
    assert [line for line in done.stdout.splitlines() if f"shop.py:{last}:" not in line and ": error:" in line] == []
    assert found, "the wrong call in the last line was not found: the types of the wheel are not read"
