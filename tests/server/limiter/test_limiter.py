"""The server's limiter without a server: which rules are refused, what is counted, how other rules take over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from clickcurve.buckets.errors import RuleInvalid, SettingInvalid
from clickcurve.limiter.backends.memory import MemoryBackend
from server.app.parts import FAMILIES
from server.limiter import limiter
from server.limiter.limiter import ServerLimiter
from server.settings.reading import read_settings
from server.settings.table import Settings
from tests.limiter.http.asgi import Down

NOW = 1_709_204_800
LOGIN = '[limits.login]\nby = "ip"\nrates = "2/m"\nstrategy = "fixed"\n'
WRITE = '[limits.write]\nby = ["token", "ip"]\nrates = "2/m"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "clickcurve.toml"


def settings(config: Path, text: str, **flags: str) -> Settings:
    config.write_text(text)
    return read_settings({"config": str(config), **flags}, {})


def started(config: Path, text: str, **flags: str) -> ServerLimiter:
    return ServerLimiter(settings(config, text, **flags), lambda: NOW, lambda: 0.0)


def hit(found: ServerLimiter, event: str = "login", ip: str = "a") -> bool:
    return asyncio.run(found.limiter.hit(event, {"ip": ip})).allowed


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("limits = 5\n", "limits must be tables such as [limits.login]"),
        ("[limits]\nlogin = 5\n", "limits.login: limits must be a table, or a list of tables, not 5"),
        ('[limits.login]\nby = "ip"\n', "limits.login: the setting rates is missing (file {file})"),
        (LOGIN + "burst = 7\n", "limits.login: burst means nothing to the strategy 'fixed' (file {file})"),
        (
            LOGIN.replace("2/m", "2/x"),
            "min, hour, day, week, month (file {file})",
        ),
        (LOGIN + "[[limits.b]]\nby = 1\n", "limits.b: the setting rates is missing"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_sentence_and_the_file(config: Path, text: str, sentence: str) -> None:
    with pytest.raises(RuleInvalid) as refused:
        settings(config, text)
    assert sentence.format(file=config) in refused.value.detail
    assert "\n" not in refused.value.detail


@pytest.mark.parametrize(
    ("text", "flags", "sentence"),
    [
        (
            LOGIN + 'backend = "redis"\n',
            {},
            "limits.login: the backend 'redis' is not set up: it needs the setting limits_redis",
        ),
        (LOGIN + 'backend = "memcached"\n', {}, "it needs the setting limits_memcached"),
        (LOGIN, {"workers": "2"}, "the backend 'memory' counts in one process, and each of 2 workers would admit all"),
        (WRITE.replace("token", "user"), {}, "limits.write: requests of the server have the features token and ip"),
    ],
)
def test_a_rule_that_this_server_cannot_keep_is_refused(
    config: Path, text: str, flags: dict[str, str], sentence: str
) -> None:
    with pytest.raises(RuleInvalid) as refused:
        started(config, text, **flags)
    assert sentence in refused.value.detail


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("limits_redis", "h1:6379", "must begin with redis://"),
        ("limits_memcached", "h1", "must be host:port"),
        ("limits_memcached", "h1:0", "must be host:port"),
        ("limits_headers", "kong", "must be one of x, github, ietf, ietf-11, none"),
        ("trusted_proxies", "10.0.0.1/8", "is not a network"),
        ("proxy_header", "x-real-ip", "must be one of x-forwarded-for, forwarded"),
        ("ipv6_prefix", "0", "a whole number from 1 to 128"),
        ("limits_timeout_ms", "0", "a whole number from 1 to 60000"),
    ],
)
def test_a_wrong_setting_of_the_limiter_is_refused(name: str, value: str, sentence: str) -> None:
    with pytest.raises(SettingInvalid) as refused:
        read_settings({name: value}, {})
    assert sentence in refused.value.detail


def test_good_settings_of_the_limiter_and_a_password_that_is_not_shown() -> None:
    settings = read_settings(
        {"limits_redis": "redis://:geheim@h1:6379/0", "limits_memcached": "h1:11211,[::1]:11211"}, {}
    )
    assert ("limits_redis", "********", "flag --limits-redis") in settings.listing()
    assert read_settings({"trusted_proxies": "10.0.0.0/8, 2001:db8::/32"}, {}).trusted_proxies
    assert read_settings({}, {}).rules == ()


def test_decisions_are_counted_by_event_and_outcome(config: Path) -> None:
    found = started(config, LOGIN + '[limits.tried]\nby = "ip"\nrates = "1/m"\nshadow = true\n')
    heard: list[str] = []
    found.listeners.append(lambda event, cost, decision: heard.append(event))
    assert [hit(found) for _ in range(3)] == [True, True, False]
    assert [hit(found, "tried") for _ in range(2)] == [True, True]
    exported = {sample.labels: sample.value for sample in found.samples() if "decisions" in sample.name}
    assert exported == {
        ("login", "allowed"): 2,
        ("login", "refused"): 1,
        ("tried", "allowed"): 1,
        ("tried", "shadow"): 1,
    }
    assert heard == ["login"] * 3 + ["tried"] * 2


def test_every_number_of_the_limiter_has_a_name_on_metrics(config: Path) -> None:
    found = started(config, LOGIN)
    hit(found)
    for sample in found.samples():
        assert len(sample.labels) == len(FAMILIES[sample.name].labels), sample
    assert ("clickcurve_limit_keys", 1, ("memory",)) in [tuple(sample) for sample in found.samples()]


def test_every_number_of_every_backend_has_a_name_on_metrics(config: Path) -> None:
    async def names() -> set[str]:
        found = started(
            config,
            "".join(LOGIN.replace("login", name) + f'backend = "{name}"\n' for name in ("redis", "memcached")),
            limits_redis="redis://127.0.0.1:1",
            limits_memcached="127.0.0.1:1",
        )
        exported = {sample.name for sample in found.samples()}
        await found.close()
        return exported

    assert asyncio.run(names()) <= FAMILIES.keys()


# --- other rules ------------------------------------------------------------------------------------------------------
def test_rules_are_replaced_and_counts_go_on(config: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    found = started(config, LOGIN)
    assert [hit(found) for _ in range(3)] == [True, True, False]
    config.write_text(LOGIN.replace("2/m", "3/m") + "[limits.more]\nby = 'ip'\nrates = '1/m'\n")
    found.reload()
    assert [hit(found) for _ in range(2)] == [True, False]
    assert hit(found, "more")
    assert "limits reloaded" in caplog.text
    assert "settings changed" not in caplog.text


@pytest.mark.parametrize("text", ["[limits.login", LOGIN + "prot = 1\n", LOGIN.replace("2/m", "3/x"), 'port = "x"\n'])
def test_a_bad_file_keeps_the_old_rules_and_says_why(config: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    found = started(config, LOGIN)
    hit(found)
    config.write_text(text)
    found.reload()
    assert [hit(found) for _ in range(2)] == [True, False]
    (record,) = caplog.records
    assert (record.levelname, record.message) == ("ERROR", "limits not reloaded")
    reloads = {sample.labels: sample.value for sample in found.samples() if "reloads" in sample.name}
    assert reloads == {("done",): 0, ("refused",): 1}


def test_a_file_that_is_gone_keeps_the_old_rules(config: Path) -> None:
    found = started(config, LOGIN)
    config.unlink()
    found.reload()
    assert found.limiter.events.rules().keys() == {"login"}


def test_a_rule_that_the_running_server_cannot_keep_is_refused(config: Path) -> None:
    found = started(config, LOGIN)
    config.write_text('limits_redis = "redis://h1"\n' + LOGIN + 'backend = "redis"\n')
    found.reload()
    assert hit(found), "the setting holds from the next start on, so there is no Redis yet"


def test_other_settings_that_changed_are_logged(config: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = started(config, LOGIN)
    config.write_text("workers = 2\nflush_s = 3\n" + LOGIN)
    found.reload()
    (record,) = [record for record in caplog.records if record.message == "settings changed"]
    assert vars(record)["settings"] == ["workers", "flush_s"]


def test_the_limit_of_writes_comes_and_goes_with_its_rule(config: Path) -> None:
    found = started(config, LOGIN)
    assert not found.limits_writes
    config.write_text(WRITE)
    found.reload()
    assert found.limits_writes
    config.write_text("")
    found.reload()
    assert not found.limits_writes


# --- backends ---------------------------------------------------------------------------------------------------------
class Shared(Down):
    """A backend beyond the process."""

    def __init__(self) -> None:
        super().__init__()
        self.up = MemoryBackend()
        self.closed = False

    def measures(self) -> Mapping[str, float]:
        return {"redis_failures_total": 2, "failures_total": 3}

    async def close(self) -> None:
        self.closed = True


def test_a_backend_is_opened_when_a_rule_names_it_first(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Shared()
    monkeypatch.setattr(limiter, "OPENERS", {**limiter.OPENERS, "redis": lambda *_: shared})
    found = started(config, LOGIN, limits_redis="redis://h1")
    config.write_text(LOGIN + 'backend = "redis"\n')
    found.reload()

    assert [hit(found) for _ in range(3)] == [True, True, False]
    assert shared.up is not None and shared.up.measures()["memory_keys"] == 1
    exported = [sample for sample in found.samples() if sample.labels == ("redis",)]
    assert exported == [("clickcurve_limit_failures_total", 3, ("redis",))], "once, though two count them"
    asyncio.run(found.close())
    assert shared.closed


def test_several_workers_may_share_a_backend_beyond_the_process(config: Path) -> None:
    found = settings(config, LOGIN, workers="2")
    with pytest.raises(RuleInvalid):
        limiter.check_rules(found.rules, found)
    limiter.check_rules(found.rules, replace(found, workers=1))


@pytest.mark.parametrize(("policy", "status"), [("open", None), ("local", None), ("closed", 429)])
def test_writes_do_not_fail_with_a_backend_that_is_down(
    config: Path, monkeypatch: pytest.MonkeyPatch, policy: str, status: int | None
) -> None:
    monkeypatch.setattr(limiter, "OPENERS", {"memory": lambda *_: Down()})
    found = started(config, WRITE + f'on_failure = "{policy}"\n')
    refused = asyncio.run(found.refuse_write({"ip": "a"}))
    assert (refused and refused.status) == status
    assert [sample.labels for sample in found.samples() if "decisions" in sample.name] == [("write", "blind")]
