"""Dashboards, alerts and runbooks agree with the metrics, with the services and with each other."""

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.events.topology import CONSUMERS
from tests.support.case_files import read_cases
from tests.support.observability import promql
from tests.support.paths import ROOT

CASES = read_cases(__file__)

RULES = ROOT / "deploy" / "prometheus" / "alerts.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"
DASHBOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
SECTIONS = ["What users notice", "Check", "Fix"]
_LEGEND = re.compile(r"{{(\w+)}}")


def alert_rules() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text())["panels"]:
            yield f"{file.stem}: {panel['title']}", panel


def expressions() -> dict[str, str]:
    """Every expression of an alert or a panel, by where it is."""
    found = {rule["alert"]: rule["expr"] for rule in alert_rules()}
    for title, panel in panels():
        for target in panel["targets"]:
            if target["datasource"]["type"] == "prometheus":
                found[f"{title} {target['refId']}"] = target["expr"]
    return found


def test_metrics_and_labels_of_alerts_and_panels_exist() -> None:
    faults = {place: list(promql.faults(used)) for place, used in expressions().items()}
    assert {place: found for place, found in faults.items() if found} == {}


@pytest.mark.parametrize(("expression", "fault"), CASES["the_check_finds_what_does_not_exist"])
def test_the_check_finds_what_does_not_exist(expression: str, fault: str) -> None:
    assert list(promql.faults(expression)) == [fault]


def test_legends_use_labels_that_the_expression_keeps() -> None:
    for title, panel in panels():
        for target in panel["targets"]:
            labels = set(_LEGEND.findall(target.get("legendFormat", "")))
            assert labels <= promql.read(target.get("expr", "")).grouped, title


def test_dashboards_have_unique_ids_and_read_known_sources() -> None:
    datasources = ROOT / "deploy" / "grafana" / "provisioning" / "datasources" / "vigil.yaml"
    provisioned = {
        (each["uid"], each["type"])
        for each in yaml.safe_load(datasources.read_text())["datasources"]
    }
    assert [file.stem for file in DASHBOARDS] == ["agent", "bus", "database", "money", "overview"]
    uids = Counter(json.loads(file.read_text())["uid"] for file in DASHBOARDS)
    assert set(uids.values()) == {1}
    for file in DASHBOARDS:
        ids = [panel["id"] for panel in json.loads(file.read_text())["panels"]]
        assert len(set(ids)) == len(ids)
    for title, panel in panels():
        for target in panel["targets"]:
            source = target["datasource"]
            assert (source["uid"], source["type"]) in provisioned, title


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    pages = [rule["annotations"]["runbook"] for rule in alert_rules()]
    files = {str(file.relative_to(ROOT)) for file in RUNBOOKS.glob("*.md")} - {
        "docs/runbooks/README.md"
    }
    assert set(pages) == files
    assert len(set(pages)) == len(pages)
    index = (RUNBOOKS / "README.md").read_text()
    for rule in alert_rules():
        page = ROOT / rule["annotations"]["runbook"]
        lines = page.read_text().splitlines()
        assert lines[0] == f"# {rule['alert']}"
        assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == SECTIONS, (
            page
        )
        assert "```" in page.read_text(), f"{page} has no command"
        assert f"| `{rule['alert']}` | [{page.stem}]({page.name}) |" in index
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


def test_every_service_is_scraped_and_missed_when_it_is_not() -> None:
    jobs = yaml.safe_load((RULES.parent / "prometheus.yaml").read_text())["scrape_configs"]
    by_name = {job["job_name"]: job for job in jobs}
    [discovery] = by_name["vigil"]["dns_sd_configs"]
    assert set(discovery["names"]) == set(CONSUMERS)
    [api] = by_name["vigil-api"]["static_configs"]
    assert api["labels"] == {"service": "api"}
    [down] = [rule for rule in alert_rules() if rule["alert"] == "VigilServiceDown"]
    assert set(
        re.findall(r'absent\(up\{job="vigil", service=~"(\w+)\|\w+"}\)', down["expr"])
    ) == set(CONSUMERS)
    assert 'absent(up{job=~"vigil|vigil-api", service="api"})' in down["expr"]
    compose = yaml.safe_load((ROOT / "deploy" / "compose.observability.yaml").read_text())[
        "services"
    ]
    for service in CONSUMERS:
        assert compose[service]["environment"]["VIGIL_HOST"] == "0.0.0.0", service
    for service in (*CONSUMERS, "api"):
        assert compose[service]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"], service


def _compose_is_there() -> bool:
    if shutil.which("docker") is None:
        return False
    return (
        subprocess.run(
            ["docker", "compose", "version"], capture_output=True, check=False
        ).returncode
        == 0
    )


@pytest.mark.skipif(not _compose_is_there(), reason="docker compose is not installed")
@pytest.mark.parametrize("others", [[], ["deploy/compose.ha.yaml"], ["deploy/compose.tls.yaml"]])
def test_docker_compose_accepts_the_files(others: list[str], tmp_path: Path) -> None:
    files = ["compose.yaml", *others, "deploy/compose.observability.yaml"]
    command = [
        "docker",
        "compose",
        *(f"--file={file}" for file in files),
        "config",
        "--format=json",
    ]
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "VIGIL_CERTS": str(tmp_path),
    }
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    config = json.loads(result.stdout)
    tools = {"prometheus", "alertmanager", "grafana", "otel-collector", "tempo"}
    assert tools < set(config["services"])
    for tool in tools:
        for port in config["services"][tool].get("ports", []):
            assert port["host_ip"] == "127.0.0.1", tool
        assert config["services"][tool]["cap_drop"] == ["ALL"]
    for name, file in config["configs"].items():
        assert Path(file["file"]).is_file(), name
