"""The OpenAPI page says what the write routes do: its examples are sent, and its receipts are what comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import FastAPI

from ingest.hit_routes import hit_routes
from tests.ingest.http_kit import Client


def described() -> dict[str, Any]:
    app = FastAPI()
    app.include_router(hit_routes())
    paths: dict[str, Any] = app.openapi()["paths"]
    return paths


BODIES = described()["/v1/hits"]["post"]["requestBody"]["content"]
EXAMPLES = [
    (media, name, example["value"])
    for media, content in BODIES.items()
    for name, example in content["examples"].items()
]


@pytest.mark.parametrize(("media", "name", "value"), EXAMPLES)
def test_every_example_is_counted(media: str, name: str, value: Any) -> None:
    body = value if isinstance(value, str) else json.dumps(value)
    receipt = Client().post("/v1/hits", body.encode(), content_type=media)
    assert receipt.status == 200
    assert receipt.json["refused"] == 0
    assert receipt.json["counted"] >= 1


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/hits", b'[{"key":"a"},{"key":"a","count":0}]'), ("/v1/hits/{key}", b"")]
)
def test_receipts_look_as_described(path: str, body: bytes) -> None:
    operation = described()[path]["post"]
    content = operation["responses"]["200"]["content"]["application/json"]
    receipt = Client().post(path.replace("{key}", "a"), body).json
    assert set(receipt) <= set(content["schema"]["properties"])
    assert set(content["schema"]["required"]) <= set(receipt)
    if body:
        assert receipt == content["examples"]["partly"]["value"]
        refused = Client().post(path, b'[{"key":"a","count":0}]').json
        assert refused == operation["responses"]["422"]["content"]["application/json"]["examples"]["refused"]["value"]


@pytest.mark.parametrize("path", ["/v1/hits", "/v1/hits/{key}"])
def test_parameters_and_answers_are_named(path: str) -> None:
    operation = described()[path]["post"]
    named = {parameter["name"] for parameter in operation["parameters"]}
    assert named == {"Idempotency-Key"} | ({"key"} if "{key}" in path else set())
    assert {"200", "400", "422", "429", "503"} <= set(operation["responses"])
