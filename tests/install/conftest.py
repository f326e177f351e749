"""The wheel is built once, and installed once into an environment with all that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.install.environments import Environment, build_wheel, copy_of_the_tree, lowest_setuptools, make_wheel, pins


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with pip and the lowest setuptools that pyproject.toml declares."""
    environment = Environment.made(tmp_path_factory.mktemp("builder"))
    environment.pip("install", lowest_setuptools())
    return environment


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_the_tree(tmp_path_factory.mktemp("source") / "clickcurve")


@pytest.fixture(scope="session")
def dist(builder: Environment, tree: Path) -> Path:
    """The folder with the wheel and the source distribution."""
    return make_wheel(builder, tree)


@pytest.fixture(scope="session")
def sdist(dist: Path) -> Path:
    (packed,) = dist.glob("*.tar.gz")
    return packed


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (packed,) = dist.glob("*.whl")
    return packed


@pytest.fixture(scope="session")
def installed(builder: Environment, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A fresh environment with the wheel, all extras and their dependencies at the versions of requirements.lock."""
    return _with_wheel(tmp_path_factory.mktemp("installed"), builder, f"{wheel}[all]")


@pytest.fixture(scope="session")
def light(builder: Environment, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The same without extras: the server on SQLite, the client and the limiter in memory."""
    return _with_wheel(tmp_path_factory.mktemp("light"), builder, str(wheel))


def _with_wheel(folder: Path, builder: Environment, wheel: str) -> Environment:
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins()))
    environment = Environment.made(folder / "venv", pip=builder)
    environment.pip("install", "--only-binary", ":all:", "--constraint", constraints, wheel)
    return environment


@pytest.fixture(scope="session")
def ratelimit(builder: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of PyPI's package `ratelimit`, whose name was a folder of ours once."""
    folder = tmp_path_factory.mktemp("ratelimit")
    builder.pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, "ratelimit==2.2.1")
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def wheel_of_sdist(builder: Environment, sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(builder, sdist, tmp_path_factory.mktemp("wheel_of_sdist"))
