"""The example of alert rules: known to Prometheus, about metrics that there are, and firing when they should."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from server.app.parts import FAMILIES
from server.process.journals import LONG_SHARE
from testing.server import ROOT

FILE = ROOT / "examples" / "prometheus" / "alerts.yaml"
RULES: list[dict[str, Any]] = [rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]]


def test_each_rule_is_about_a_metric_of_the_program() -> None:
    for rule in RULES:
        names = re.findall(r"clickcurve_\w+", rule["expr"])
        assert names, rule["alert"]
        assert [name for name in names if name not in FAMILIES] == []


def test_the_share_that_alarms_is_the_one_that_the_log_warns_of() -> None:
    (rule,) = (rule for rule in RULES if rule["alert"] == "ClickcurveFlushLong")
    assert rule["expr"] == f"clickcurve_flush_share > {LONG_SHARE}"


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.needs("prometheus")
def test_prometheus_knows_the_rules_and_a_long_flush_fires_after_ten_minutes(tmp_path: Path) -> None:
    checked = promtool("check", "rules", str(FILE))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    series = 'clickcurve_flush_share{instance="a"}'
    cases: list[dict[str, Any]] = [{"eval_time": "9m", "alertname": "ClickcurveFlushLong", "exp_alerts": []}]
    summary = "Flushes of a take 85% of their interval: fewer links a machine, or a longer flush_s, end that."
    alert = {"exp_labels": {"severity": "ticket", "instance": "a"}, "exp_annotations": {"summary": summary}}
    cases.append({"eval_time": "11m", "alertname": "ClickcurveFlushLong", "exp_alerts": [alert]})
    tried = {
        "rule_files": [str(FILE)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": "0.85x12"}],
                "alert_rule_test": cases,
            }
        ],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tried))
    done = promtool("test", "rules", str(tmp_path / "tests.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr
