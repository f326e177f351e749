"""TLS, passwords and grants, on nodes that insist on them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from clickcurve.buckets.errors import ClickcurveError, StoreMismatch, StoreUnavailable
from storage.cassandra.schema import apply_schema
from storage.cassandra.session import Session, connect
from storage.cassandra.uri import parse
from storage.from_uri import open_store
from testing.cassandra.node import READY_LINE, Node
from testing.cassandra.ring import place_one
from testing.client import Clickcurve
from testing.server import ROOT, run
from tests.conftest import Serve
from tests.storage.flushes import Flusher, hits
from tests.storage.stores import LADDER

# Without caches of them, what is granted and revoked holds at once.
ROLES = {
    "authenticator": "PasswordAuthenticator",
    "authorizer": "CassandraAuthorizer",
    **dict.fromkeys(("permissions_validity", "roles_validity", "credentials_validity"), "0ms"),
}
GUIDE = ROOT / "docs" / "cassandra.md"


def make_certificate(folder: Path, name: str) -> Path:
    """A key of its own for 127.0.0.1 in name.p12, and its certificate, which vouches for itself."""
    store = ["-keystore", str(folder / f"{name}.p12"), "-storepass", "for-tests", "-storetype", "PKCS12"]
    pair = ["-genkeypair", "-alias", "node", "-keyalg", "EC", "-dname", "CN=node", "-ext", "SAN=IP:127.0.0.1"]
    certificate = folder / f"{name}.pem"
    for task in (pair, ["-exportcert", "-alias", "node", "-rfc", "-file", str(certificate)]):
        subprocess.run(["keytool", *task, *store], check=True, capture_output=True, timeout=600)
    return certificate


@pytest.fixture(scope="module")
def strict(cassandra_program: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a keyspace on such a node, without parameters, and the folder of certificates and passwords."""
    folder = tmp_path_factory.mktemp("strict")
    make_certificate(folder, "keys")
    make_certificate(folder, "others")
    (folder / "password").write_text("cassandra\n")
    (folder / "wrong").write_text("sesame")
    keys = f"keystore: {folder}/keys.p12, keystore_password: for-tests, store_type: PKCS12"
    tls = {"client_encryption_options": f"{{enabled: true, optional: false, {keys}}}"}
    node = Node(place_one(folder / "node", settings={**ROLES, **tls})).start()
    uri = f"cassandra://{node.address}:{node.port}/clicks"
    try:
        node.until(lambda: READY_LINE in node._log_of_this_start())
        node.until(lambda: connects(f"{uri}?{parameters(folder)}"))  # the first user is made a little later
        yield uri, folder
    finally:
        node.kill()


def parameters(
    folder: Path, ca: str = "keys", password: str = "password", tls: str = "1", user: str = "cassandra"
) -> str:
    return f"tls={tls}&ca={folder}/{ca}.pem&user={user}&password_file={folder}/{password}"


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


def grants_of_the_guide(role: str) -> list[str]:
    """What docs/cassandra.md grants a role, as statements without the word GRANT and the role: `SELECT ON ...`."""
    found = re.findall(rf"^GRANT (.+) TO {role};$", GUIDE.read_text(), re.MULTILINE)
    assert found, f"{GUIDE} grants nothing to {role}"
    return found


@contextmanager
def without(grant: str, role: str, admin: Session) -> Iterator[None]:
    admin.define(f"REVOKE {grant} FROM {role}")
    try:
        yield
    finally:
        admin.define(f"GRANT {grant} TO {role}")


def use_all(uri: str) -> None:
    """What a server does: a flush, an erasure, claims of ids, a list of all links."""
    store = open_store(uri, LADDER)
    try:
        owner = Flusher(store)
        owner.flush({"a": hits((1, 1))})
        store.erase(["b"], 5)
        assert store.claim_ids(owner.held, 1, {"visit": 5}, 50) == set()
        assert [key for key, _ in store.walk(None, 5)] == ["a", ""]
    finally:
        store.close()


def refuses(grant: str, act: Callable[[], object]) -> None:
    """Without this grant the sentence names the permission and what it is for."""
    permission, _, resource = grant.partition(" ON ")
    with pytest.raises(StoreMismatch) as refused:
        act()
    said = refused.value.detail.lower()
    assert f"has no {permission.lower()} permission on <" in said
    assert resource.split()[-1].lower() in said


def test_the_grants_of_the_guide_are_enough_and_each_is_needed(
    strict: tuple[str, Path], keyspace: str, serve: Serve
) -> None:
    address, folder = strict
    uri = address.replace("clicks", keyspace)
    maker, server = (f"{uri}?{parameters(folder, user=role)}" for role in ("clickcurve_schema", "clickcurve"))
    admin = connect(parse(f"{uri}?{parameters(folder)}"))

    def prepare(role: str) -> list[str]:
        admin.define(f"CREATE ROLE {role} WITH PASSWORD = 'cassandra' AND LOGIN = true")
        grants = [each.replace("clicks", keyspace) for each in grants_of_the_guide(role)]
        for grant in grants:
            admin.define(f"GRANT {grant} TO {role}")
        return grants

    def make() -> list[str]:
        with closing(connect(parse(maker))) as session:
            return apply_schema(session, LADDER, replication=1)

    for grant in prepare("clickcurve_schema"):
        with without(grant, "clickcurve_schema", admin):
            refuses(grant, make)
        admin.define(f"DROP KEYSPACE IF EXISTS {keyspace}")
    make()
    assert make() == []
    for grant in prepare("clickcurve"):
        with without(grant, "clickcurve", admin):
            refuses(grant, lambda: use_all(server))
    use_all(server)
    running = serve("--store", server)
    with Clickcurve(running.url) as client:
        assert client.hit("launch")["counted"] == 1
    assert running.stop() == 0
    assert run("verify", "--store", server).returncode == 0
    admin.close()


@pytest.mark.usefixtures("cassandra_program")
def test_a_guardrail_against_old_stamps_refuses_flushes_of_an_ordinary_user(tmp_path: Path, keyspace: str) -> None:
    """Superusers, and all where nobody logs in, are beyond guardrails."""
    (tmp_path / "password").write_text("cassandra")
    node = Node(place_one(tmp_path / "node", settings={**ROLES, "user_timestamps_enabled": "false"})).start()
    uri = f"cassandra://{node.address}:{node.port}/{keyspace}?password_file={tmp_path}/password&user="
    try:
        node.until(lambda: READY_LINE in node._log_of_this_start())
        node.until(lambda: connects(f"{uri}cassandra"))
        with closing(connect(parse(f"{uri}cassandra"))) as admin:
            apply_schema(admin, LADDER, replication=1)
            use_all(f"{uri}cassandra")
            admin.define("CREATE ROLE clickcurve WITH PASSWORD = 'cassandra' AND LOGIN = true")
            for grant in ("ALL ON ALL KEYSPACES", "SELECT ON system_views.settings"):
                admin.define(f"GRANT {grant} TO clickcurve")
            admin.look_up(f"TRUNCATE {keyspace}.owners")
            with pytest.raises(StoreUnavailable, match="Guardrail user_timestamps violated"):
                use_all(f"{uri}clickcurve")
    finally:
        node.kill()
