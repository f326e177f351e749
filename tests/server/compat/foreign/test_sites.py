"""Sites of Matomo's senders: by `idsite` and the settings the links of each are behind a prefix, or in a group."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from server.compat.foreign.event import in_site
from server.compat.foreign.products import MATOMO, UMAMI
from server.settings.sites import Site
from server.tokens.token import Scope
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token

URL = "https://s.test/abc"
SITES = {"1": Site("acme/"), "2": Site(group="shop"), "3": Site("beta/", "beta/qr")}
UNKNOWN: list[object] = ["4", "01", "", 4, -1, 10**99, True, 1.0, None, ["1"], {}]
SETTINGS = """
[matomo.1]
prefix = "acme/"
[matomo.2]
group = "shop"
[matomo.3]
prefix = "beta/"
group = "beta/qr"
"""


@pytest.mark.parametrize(
    ("idsite", "hit"),
    [
        ("1", {"key": "acme/abc"}),
        (1, {"key": "acme/abc"}),
        ("2", {"key": "abc", "groups": ["shop"]}),
        ("3", {"key": "beta/abc", "groups": ["beta/qr"]}),
        *((unknown, {"key": "abc"}) for unknown in UNKNOWN),
    ],
)
def test_a_hit_is_of_its_site(idsite: object, hit: dict[str, object]) -> None:
    assert in_site(MATOMO, {"idsite": idsite}, {"key": "abc"}, SITES) == hit


def test_a_number_of_thousands_of_digits_is_no_site() -> None:
    assert in_site(MATOMO, {"idsite": 10**6_000}, {"key": "abc"}, SITES) == {"key": "abc"}


def test_sites_are_matomos_alone() -> None:
    assert in_site(UMAMI, {"idsite": "1"}, {"key": "abc"}, SITES) == {"key": "abc"}


def total(http: httpx.Client, path: str) -> int:
    return int(http.get(f"/v1/{path}/total?bots=include").json()["total"])


def test_requests_and_bulks_count_in_their_sites(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(SETTINGS)
    with RunningServer(tmp_path / "data", "--config", str(settings)) as server, http_client(server.url) as http:
        assert http.get("/matomo.php", params={"idsite": 1, "url": URL}).status_code == 200
        assert http.post("/matomo.php?idsite=2", data={"url": URL}).status_code == 200
        assert http.post("/matomo.php", data={"idsite": "9", "url": URL}).status_code == 200
        requests = [f"?idsite=1&url={URL}", {"idsite": 3, "url": URL}, f"?url={URL}", f"?idsite=2&url={URL}"]
        assert http.post("/matomo.php", json={"requests": requests}).json()["tracked"] == 4
        long = {"idsite": "1", "url": "https://s.test/" + "k" * 1_020}
        refused = http.post("/matomo.php", data=long)
        assert refused.status_code == 400 and "key has 1,025 bytes" in refused.text
        keys = {"acme%2Fabc": 2, "beta%2Fabc": 1, "abc": 4}
        assert {key: total(http, f"links/{key}") for key in keys} == keys
        assert (total(http, "groups/shop"), total(http, "groups/beta%2Fqr")) == (2, 1)


def test_a_token_with_a_prefix_holds_for_sites(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(SETTINGS)
    file = tmp_path / "data" / "tokens.json"
    acme = add_token(file, "acme", (Scope.write,), prefix="acme/")
    beta = add_token(file, "beta", (Scope.write,), prefix="beta/")
    admin = add_token(file, "admin", (Scope.admin,))
    with RunningServer(tmp_path / "data", "--config", str(settings)) as server, http_client(server.url) as http:

        def asked(token: str, idsite: int, url: str = URL) -> int:
            return http.post("/matomo.php", data={"idsite": idsite, "url": url, "token_auth": token}).status_code

        assert (asked(acme, 1), asked(beta, 3)) == (200, 200)
        assert (asked(acme, 3), asked(beta, 1), asked(acme, 9)) == (400, 400, 400), "keys outside the prefix"
        assert asked(acme, 2, "https://s.test/acme/abc") == 400, "a group outside the token's"
        bulk = {"requests": [f"?idsite=1&url={URL}", f"?idsite=3&url={URL}"], "token_auth": acme}
        assert http.post("/matomo.php", json=bulk).json() == {"status": "success", "tracked": 1, "invalid": 1}
        http.headers["Authorization"] = f"Bearer {admin}"
        assert (total(http, "groups/acme"), total(http, "groups/beta"), total(http, "groups/beta%2Fqr")) == (2, 1, 1)


def test_a_server_with_a_bad_site_does_not_start(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[matomo.1]\nprefix = ""\n')
    with pytest.raises(Exception, match=r"matomo\.1\.prefix is '': it must be 1 to 256 bytes"):
        RunningServer(tmp_path / "data", "--config", str(settings)).__enter__()
