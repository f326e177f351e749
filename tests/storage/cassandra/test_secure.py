"""TLS and passwords, on a node that insists on both."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clickcurve.buckets.errors import ClickcurveError, StoreMismatch, StoreUnavailable
from storage.cassandra.schema import apply_schema
from storage.cassandra.session import connect
from storage.cassandra.uri import parse
from storage.from_uri import open_store
from testing.cassandra import node as node_module
from testing.cassandra.node import READY_LINE, Node, Place
from testing.cassandra.ring import place_one
from tests.storage.stores import LADDER

STRICT = """
authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
client_encryption_options:
  enabled: true
  optional: false
  keystore: {folder}/keys.p12
  keystore_password: for-tests
  store_type: PKCS12
"""


def make_certificate(folder: Path, name: str) -> Path:
    """A key of its own for 127.0.0.1 in name.p12, and its certificate, which vouches for itself."""
    store = ["-keystore", str(folder / f"{name}.p12"), "-storepass", "for-tests", "-storetype", "PKCS12"]
    pair = ["-genkeypair", "-alias", "node", "-keyalg", "EC", "-dname", "CN=node", "-ext", "SAN=IP:127.0.0.1"]
    certificate = folder / f"{name}.pem"
    for task in (pair, ["-exportcert", "-alias", "node", "-rfc", "-file", str(certificate)]):
        subprocess.run(["keytool", *task, *store], check=True, capture_output=True, timeout=60)
    return certificate


@pytest.fixture(scope="module")
def strict(cassandra_program: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a keyspace on such a node, without parameters, and the folder of certificates and passwords."""
    folder = tmp_path_factory.mktemp("strict")
    make_certificate(folder, "keys")
    make_certificate(folder, "others")
    (folder / "password").write_text("cassandra\n")
    (folder / "wrong").write_text("sesame")
    plain = node_module.configuration

    def configuration(place: Place) -> str:
        return plain(place) + STRICT.format(folder=folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_module, "configuration", configuration)
        node = Node(place_one(folder / "node")).start()
    uri = f"cassandra://{node.address}:{node.port}/clicks"
    try:
        node.until(lambda: READY_LINE in node._log_of_this_start())
        node.until(lambda: connects(f"{uri}?{parameters(folder)}"))  # the first user is made a little later
        yield uri, folder
    finally:
        node.kill()


def parameters(folder: Path, ca: str = "keys", password: str = "password", tls: str = "1") -> str:
    return f"tls={tls}&ca={folder}/{ca}.pem&user=cassandra&password_file={folder}/{password}"


def connects(uri: str) -> bool:
    try:
        connect(parse(uri)).close()
    except (StoreMismatch, StoreUnavailable):
        return False
    return True


@pytest.mark.parametrize("tls", ["1", "chain"])
def test_a_store_is_used_over_tls_with_a_password(strict: tuple[str, Path], tls: str) -> None:
    uri, folder = strict
    session = connect(parse(f"{uri}?{parameters(folder)}"))
    apply_schema(session, LADDER, replication=1)
    session.close()
    store = open_store(f"{uri}?{parameters(folder, tls=tls)}", LADDER)
    assert store.owners() == []
    store.close()


def test_what_is_wrong_is_named_and_no_password_is_shown(strict: tuple[str, Path]) -> None:
    uri, folder = strict
    wrong: dict[str, tuple[type[ClickcurveError], str]] = {
        parameters(folder, password="wrong"): (StoreMismatch, "the cluster refuses the user"),
        f"tls=1&ca={folder}/keys.pem": (StoreMismatch, "the cluster refuses the user"),
        parameters(folder, ca="others"): (StoreUnavailable, "certificate verify failed"),
        "timeout_s=2": (StoreUnavailable, "no node of the cluster can be asked"),
    }
    for query, (error, sentence) in wrong.items():
        with pytest.raises(error) as refused:
            open_store(f"{uri}?{query}", LADDER)
        assert sentence in refused.value.detail
        assert "sesame" not in refused.value.detail
