"""The OpenAPI document against the server: requests made from it, and whether each answer is one that it describes.

SCHEMA_INPUTS is how many requests each operation gets, and SCHEMA_SEED repeats a run. The test prints how many it made.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.schemas import OpenApiSchema

from server.tokens.token import Scope
from testing.server import ROOT, RunningServer
from testing.tokens import add_token
from tests.power import at

pytestmark = pytest.mark.slow

INPUTS = int(os.environ.get("SCHEMA_INPUTS") or at(quick=2, full=15))
SEED = int(os.environ.get("SCHEMA_SEED", "1"))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
RULES = """
[limits.login]
by = "user"
rates = "5/m, 20/h"
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, str]]:
    """A server with a rule of the limiter, and a token that may do everything."""
    folder = tmp_path_factory.mktemp("described")
    (folder / "data").mkdir()
    (folder / "clickcurve.toml").write_text(RULES)
    token = add_token(folder / "data" / "tokens.json", "all", (Scope.admin,), 0)
    with RunningServer(folder / "data", "--config", str(folder / "clickcurve.toml")) as server:
        yield server, token


def test_every_answer_is_one_that_the_document_describes(
    guarded: tuple[RunningServer, str], capsys: pytest.CaptureFixture[str]
) -> None:
    server, token = guarded
    schema: OpenApiSchema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    tried: Counter[str] = Counter()
    broken: list[str] = []
    described = set()
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        described.add(found.ok().label)
        try:
            for mode in GenerationMode:
                ask(found.ok(), mode, token, tried)
        except FailureGroup as error:
            broken += [f"{found.ok().label}: {failure} {failure.message}" for failure in error.exceptions]
    with capsys.disabled():
        for label, count in tried.items():
            print(f"\n{label}: {count} inputs", end="")
        print(f"\nOpenAPI: {tried.total():,} inputs of {len(tried)} operations (SCHEMA_SEED={SEED})")
    assert tried.keys() == described
    assert f"inputs of {len(tried)} operations" in (ROOT / "docs" / "promises.md").read_text()
    assert tried.total() > 30 * INPUTS
    assert not broken, "\n\n".join(broken)


def ask(operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode, token: str, tried: Counter[str]) -> None:
    @hypothesis.seed(SEED)
    @settings(max_examples=INPUTS, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def asked(case: schemathesis.Case[Any]) -> None:
        tried[operation.label] += 1
        case.call_and_validate(checks=CHECKS, headers={"Authorization": f"Bearer {token}"})

    with suppress(Unsatisfiable):  # what has no parameter and no body cannot be asked wrongly
        asked()
