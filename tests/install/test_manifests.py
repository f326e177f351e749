"""The manifests of Kubernetes and the compose file: by the published schemas, and in step with the program."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingest.reading.body_budget import WAITING_BYTES
from server.app.limits import LIMITS
from server.app.shutdown import EMPTYING_S
from server.process.journals import MIB
from server.settings.table import TABLE
from server.settings.values import IN_CLUSTER
from storage.cassandra.uri import parse
from testing.server import ROOT, run
from tests.install.environments import Environment, project

DEPLOY = ROOT / "deploy"
KINDS = {"one-machine": "StatefulSet", "cluster": "StatefulSet", "without-volumes": "Deployment"}
WITH_VOLUMES = [kind for kind, server in KINDS.items() if server == "StatefulSet"]
VALIDATOR, KUBERNETES = "kubernetes-validate==1.37.0", "1.37"
PROGRAM_MIB = 100  # of a worker at rest: docs/measurements.md has 73 MB
SETTINGS = {setting.variable: setting for setting in TABLE}


def manifests(kind: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Each file that the kustomization names and does not delete, with what is in it."""
    folder = DEPLOY / "kubernetes" / kind
    found = yaml.safe_load((folder / "kustomization.yaml").read_text())
    deleted = [deleted_by(each["patch"]) for each in found.get("patches", ())]
    for name in found["resources"]:
        if (folder / name).is_dir():
            others = dict(manifests(Path(name).name))
        else:
            others = {folder / name: yaml.safe_load((folder / name).read_text())}
        for file, document in others.items():
            if (document["kind"], document["metadata"]["name"]) not in deleted:
                yield file, document


def deleted_by(patch: str) -> tuple[str, str]:
    read = yaml.safe_load(patch)
    assert read["$patch"] == "delete"
    return read["kind"], read["metadata"]["name"]


def of_kind(kind: str, name: str) -> dict[str, Any]:
    (found,) = (document for _, document in manifests(kind) if document["kind"] == name)
    return found


def container(kind: str, of: str = "") -> dict[str, Any]:
    (found,) = of_kind(kind, of or KINDS[kind])["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def variables(kind: str) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container(kind)["env"]}


def mebibytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi|m)", text).groups()  # type: ignore[union-attr]
    return int(number) * (1024 if unit == "Gi" else 1)


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


@pytest.mark.needs("network")
def test_the_published_schemas_know_every_field(tmp_path: Path) -> None:
    environment = Environment.made(tmp_path / "venv")
    environment.pip("install", "--only-binary", ":all:", VALIDATOR)
    files = sorted({str(file) for kind in KINDS for file, _ in manifests(kind)})
    command = [str(environment.python.parent / "kubernetes-validate"), "-k", KUBERNETES, "--strict", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("passed for resource") == len(files)


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_of_a_folder_is_in_its_kustomization(kind: str) -> None:
    folder = DEPLOY / "kubernetes" / kind
    files = {file.name for file, _ in manifests(kind) if file.parent == folder}
    assert {file.name for file in folder.iterdir()} == files | {"kustomization.yaml"}
    images = [yaml.safe_load(file.read_text()).get("images") for file in DEPLOY.glob("kubernetes/*/kustomization.yaml")]
    for (image,) in filter(None, images):
        assert image == {"name": container(kind)["image"], "newTag": project()["project"]["version"]}


@pytest.mark.parametrize("kind", KINDS)
def test_every_variable_is_a_setting_and_has_a_value_that_it_takes(kind: str) -> None:
    for name, value in variables(kind).items():
        SETTINGS[name].parse(value)
    secret = re.search(
        r"secretRef: \{name: clickcurve\}  # (.*)", (DEPLOY / "kubernetes" / kind / "server.yaml").read_text()
    )
    assert secret is not None
    assert [name for name in secret[1].split(" and ") if name not in SETTINGS] == []


def test_every_variable_of_compose_is_a_setting() -> None:
    for name in ("schema", "clickcurve"):
        service = compose()["services"][name]
        for variable, value in service["environment"].items():
            if not value.startswith("${"):
                SETTINGS[variable].parse(value)
            assert variable in SETTINGS


@pytest.mark.parametrize(
    "words",
    [container("cluster", "Job")["args"], compose()["services"]["schema"]["command"]],
    ids=["kubernetes", "compose"],
)
def test_the_tables_are_made_by_a_command_that_there_is(words: list[str]) -> None:
    shown = run(*words[:2], "--help")
    assert shown.returncode == 0, shown.stderr
    assert [word for word in words[2:] if word.startswith("--") and word not in shown.stdout] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_pod_may_take_as_long_as_a_stop_does(kind: str) -> None:
    pod, environ = of_kind(kind, KINDS[kind])["spec"]["template"]["spec"], variables(kind)
    stop_s = LIMITS["last_answers_s"].value + LIMITS["last_flush_s"].value + 3
    drain_s = int(environ["CLICKCURVE_DRAIN_S"])
    assert pod["terminationGracePeriodSeconds"] > drain_s + EMPTYING_S + stop_s
    assert int(compose()["services"]["clickcurve"]["stop_grace_period"].removesuffix("s")) > stop_s
    # Kubernetes takes a pod out of its service within seconds of SIGTERM; until then it is asked.
    probe = container(kind)["readinessProbe"]
    assert drain_s > probe["periodSeconds"] * probe["failureThreshold"]


@pytest.mark.parametrize(
    ("kind", "rows_mib"),
    [
        ("one-machine", 0),
        *((kind, parse("cassandra://h1/clicks").row_cache_mib) for kind in ("cluster", "without-volumes")),
    ],
)
def test_a_pod_has_the_memory_that_the_program_may_take(kind: str, rows_mib: int) -> None:
    needed = PROGRAM_MIB + WAITING_BYTES // MIB + int(variables(kind)["CLICKCURVE_BUFFER_MIB"]) + rows_mib
    assert mebibytes(container(kind)["resources"]["limits"]["memory"]) > needed
    if rows_mib:
        assert mebibytes(compose()["services"]["clickcurve"]["mem_limit"]) > needed


def test_a_pod_without_volumes_writes_into_a_temporary_folder_alone() -> None:
    pod = of_kind("without-volumes", "Deployment")["spec"]["template"]["spec"]
    assert [(each["name"], list(each)) for each in pod["volumes"]] == [("tmp", ["name", "emptyDir"])]
    assert container("without-volumes")["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]
    environ = variables("without-volumes")
    assert environ["CLICKCURVE_JOURNAL"] == IN_CLUSTER
    assert Path(environ["CLICKCURVE_DATA"]).parent == Path("/tmp")


@pytest.mark.parametrize("kind", WITH_VOLUMES)
def test_a_volume_holds_the_journal_and_its_database(kind: str) -> None:
    (claim,) = of_kind(kind, "StatefulSet")["spec"]["volumeClaimTemplates"]
    assert mebibytes(claim["spec"]["resources"]["requests"]["storage"]) > int(variables(kind)["CLICKCURVE_JOURNAL_MIB"])
    mounts = {mount["name"]: mount["mountPath"] for mount in container(kind)["volumeMounts"]}
    assert mounts[claim["metadata"]["name"]] == variables(kind)["CLICKCURVE_DATA"]


@pytest.mark.parametrize("kind", KINDS)
def test_probes_ask_open_paths_on_the_port_that_is_served(kind: str) -> None:
    served = container(kind)
    probes = {name: served[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/healthz",
        "readinessProbe": "/readyz",
        "livenessProbe": "/healthz",
    }
    (port,) = served["ports"]
    assert str(port["containerPort"]) == next(setting.default for setting in TABLE if setting.name == "port")
    (of_service,) = of_kind(kind, "Service")["spec"]["ports"]
    assert {probe["port"] for probe in probes.values()} == {port["name"], of_service["targetPort"]}


def test_the_policies_choose_the_pods_of_the_servers() -> None:
    for kind in KINDS:
        labels = of_kind(kind, KINDS[kind])["spec"]["template"]["metadata"]["labels"]
        assert of_kind(kind, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
        assert of_kind(kind, "Service")["spec"]["selector"] == labels
        policy = of_kind(kind, "NetworkPolicy")["spec"]
        assert [rule["ports"] for rule in policy["ingress"]] == [[{"port": container(kind)["ports"][0]["name"]}]]
        leaves = {each["port"] for rule in policy["egress"] for each in rule["ports"]}
        assert leaves == ({53} if kind == "one-machine" else {53, parse("cassandra://h1/clicks").port})
    assert of_kind("cluster", "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels


@pytest.mark.needs("sed")
def test_cassandra_of_compose_has_the_settings_that_the_page_asks_for(tmp_path: Path) -> None:
    """Its commands are run on a file with the settings that the image has."""
    page = (ROOT / "docs" / "cassandra.md").read_text()
    asked = yaml.safe_load(re.search(r"In `cassandra.yaml` of every node:\n\n```yaml\n(.*?)```", page, re.DOTALL)[1])  # type: ignore[index]
    file = tmp_path / "cassandra.yaml"
    file.write_text("commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\nconcurrent_writes: 32\nnum_tokens: 16\n")
    bash, flags, script = compose()["services"]["cassandra"]["command"]
    assert (bash, flags) == ("bash", "-ec")
    script = (
        script.replace("$$", "$")
        .replace("/etc/cassandra/cassandra.yaml", str(file))
        .replace("exec docker", "true docker")
    )
    subprocess.run(["sh", "-ec", script], check=True, timeout=600)
    assert yaml.safe_load(file.read_text()) == {"num_tokens": 16, **asked}
