"""Without extras the server runs on SQLite and is small; whatever needs an extra says which, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import zstandard

from clickcurve.extras import EXTRAS
from tests.install.environments import Environment, InstalledServer, project

MEGABYTE = 1_000_000
REDIS_RULE = '[limits.login]\nby = "user"\nrates = "5/m"\nbackend = "redis"\n'
LOADS = """
import sys
import clickcurve.client, clickcurve.limiter
from clickcurve.client import Client
from clickcurve.limiter import Limiter, parse_rules
print(*sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1:])), "program" in str(sys.path))
"""


@pytest.fixture(scope="module")
def server(light: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledServer]:
    with InstalledServer(light, tmp_path_factory.mktemp("light-server") / "data") as running:
        yield running


def test_it_takes_less_than_90_megabytes(light: Environment) -> None:
    size = sum(file.stat().st_size for file in light.packages.rglob("*") if file.is_file())
    assert size < 90 * MEGABYTE, f"{size / MEGABYTE:.1f} MB"


def test_each_library_of_an_extra_is_absent_and_its_extra_declared(light: Environment, tmp_path: Path) -> None:
    extras = project()["project"]["optional-dependencies"]
    assert set(EXTRAS.values()) < set(extras)
    assert extras["all"] == [f"clickcurve[{','.join(sorted(set(EXTRAS.values())))}]"]
    for module in EXTRAS:
        assert "ModuleNotFoundError" in light.run(f"import {module}", tmp_path).stderr


def test_the_server_counts_and_draws(server: InstalledServer) -> None:
    with httpx.Client(base_url=server.url) as client:
        assert client.post("/v1/hits/a").json()["counted"] == 1
        assert client.get("/v1/links/a/total").json()["total"] == 1
        assert client.get("/v1/links/a/curve.svg").status_code == 200
        assert client.get("/").status_code == 200


def test_a_png_says_which_extra_draws_it(server: InstalledServer) -> None:
    answer = httpx.get(f"{server.url}/v1/links/a/curve.png")
    assert answer.status_code == 501
    assert answer.json()["detail"] == "a picture as PNG needs the extra 'pictures': pip install 'clickcurve[pictures]'"


def test_a_body_packed_by_zstd_says_which_extra_unpacks_it(server: InstalledServer) -> None:
    body = zstandard.compress(b'{"key": "a"}')
    answer = httpx.post(f"{server.url}/v1/hits", content=body, headers={"Content-Encoding": "zstd"})
    assert answer.status_code == 415
    assert answer.json()["detail"].endswith("pip install 'clickcurve[zstd]'")


def test_a_log_packed_by_zstd_says_which_extra_unpacks_it(light: Environment, tmp_path: Path) -> None:
    (tmp_path / "access.log.zst").write_bytes(zstandard.compress(b"-\n"))
    done = light.call("import", "access.log.zst", "--data", "data", folder=tmp_path)
    assert done.returncode == 1
    assert "pip install 'clickcurve[zstd]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_start_on_cassandra_says_which_extra_it_needs(light: Environment, tmp_path: Path) -> None:
    done = light.call("serve", "--store", "cassandra://127.0.0.1:9/clicks", "--port", "0", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Error: the store cassandra:// needs the extra 'cassandra': pip install 'clickcurve[cassandra]'"
    ]


def test_a_rule_on_redis_says_which_extra_it_needs(light: Environment, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text('limits_redis = "redis://127.0.0.1:9"\n' + REDIS_RULE)
    done = light.call("serve", "--config", "rules.toml", "--port", "0", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "Error: the limiter's backend redis needs the extra 'redis': pip install 'clickcurve[redis]'"
    )


def test_the_client_and_the_limiter_load_nothing_of_the_server(light: Environment, tmp_path: Path) -> None:
    names = ("fastapi", "uvicorn", "starlette", "pydantic", "server", "ingest", "storage", "query", "jinja2", "httpx")
    assert light.run(LOADS, tmp_path, *names).stdout == "False\n"
