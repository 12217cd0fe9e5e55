"""Compose and Swarm can be given each documented setting. Kubernetes passes on a whole ConfigMap."""

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cli.config.providers import FETCHES_ONLY, USED_BY
from shared.events.topology import CONSUMERS
from shared.runtime.settings import PREFIX, Settings
from tests.support.paths import ROOT

SERVICES: Final = (*CONSUMERS, "api", "migrate")
OWN: Final = {"GIVEN", "MAIL"}
"""Variables of compose.yaml that make a container be created again."""
OF_THE_FILES: Final = {"VIGIL_DRAIN_SECONDS", "VIGIL_DATA_DIRECTORY"}
"""Settings that depend on something else in the files: the time to stop, a volume."""
OF_A_PATH: Final = {"VIGIL_PRICES_FILE", "VIGIL_SIGNING_KEY_FILE"}
"""Settings that name a file, which the operator must mount."""


@cache
def environments(file: str) -> dict[str, dict[str, Any]]:
    """The environment of each service."""
    services = yaml.load((ROOT / file).read_text(), yaml.CSafeLoader)["services"]
    return {name: services[name].get("environment") or {} for name in SERVICES}


def documented() -> set[str]:
    """The settings of the tables in the guide."""
    rows = [
        line.split("|")[1]
        for file in (ROOT / "docs" / "guide").glob("*.md")
        for line in file.read_text().splitlines()
        if line.startswith("| `")
    ]
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    return {name for row in rows for name in re.findall(r"`(\w+)`", row) if name in known}


def test_compose_can_be_given_every_documented_setting() -> None:
    passed_on = {name for each in environments("compose.yaml").values() for name in each}
    secret = {name.upper() for name in USED_BY}
    assert len(documented()) > 40
    missing = documented() - passed_on - secret - OF_THE_FILES - OF_A_PATH - {"VIGIL_PORT"}
    assert sorted(missing) == []


@pytest.mark.parametrize("service", SERVICES)
def test_swarm_passes_on_what_compose_does(service: str) -> None:
    compose, stack = environments("compose.yaml")[service], environments("deploy/stack.yaml")
    assert sorted(set(compose) - set(stack[service]) - OWN) == []


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("file", ["compose.yaml", "deploy/stack.yaml"])
def test_what_decides_for_all_services_reaches_all(file: str, service: str) -> None:
    """Such as the scheduler, which fails iterations, and the aggregator, which handles messages."""
    names = {"CONCURRENCY", "LEASE_SECONDS", "MAX_ATTEMPTS", "ITERATION_DEADLINE_SECONDS"}
    for name in (*names, "SEARCH_TTL_SECONDS"):
        assert f"{PREFIX}{name}" in environments(file)[service]


def test_each_service_of_a_stack_gets_the_secrets_of_its_providers() -> None:
    services = yaml.load((ROOT / "deploy/stack.yaml").read_text(), yaml.CSafeLoader)["services"]
    for name, users in USED_BY.items():
        having = {
            service
            for service in SERVICES
            if any(each["source"] == name for each in services[service].get("secrets", []))
        }
        assert having == set(users), name
    for service in FETCHES_ONLY:
        assert "VIGIL_SEARCH_GIVEN" in services[service]["environment"]


def test_compose_copies_every_secret_of_a_provider() -> None:
    compose = yaml.load((ROOT / "compose.yaml").read_text(), yaml.CSafeLoader)
    expected = {f"{name}{end}" for name in USED_BY for end in ("", "_file")}
    assert set(compose["services"]["keys"]["secrets"]) == expected
    for name in USED_BY:
        assert compose["secrets"][name] == {"environment": name.upper()}
        assert compose["secrets"][f"{name}_file"] == {
            "file": f"${{{name.upper()}_FILE:-/dev/null}}"
        }


def test_files_without_a_secret_are_settings_that_are_not_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = Settings()
    for name in USED_BY:
        source = "no-providers" if name == "vigil_providers" else "no-key"
        (tmp_path / name).write_text((ROOT / "deploy" / source).read_text())
    monkeypatch.setenv("VIGIL_SECRETS_DIR", str(tmp_path))
    assert Settings() == defaults


def test_a_stack_is_reachable_for_prometheus() -> None:
    for service, environment in environments("deploy/stack.yaml").items():
        assert environment["VIGIL_HOST"] == "0.0.0.0", service


COMPOSE_VARIABLES: Final = {"COMPOSE_PROFILES"}


def cluster_variables() -> set[str]:
    """Return the variables used as `${NAME…}`, or passed on by a name without a value."""
    files = [ROOT / "compose.yaml", *(ROOT / "deploy").glob("*.yaml")]
    text = "\n".join(file.read_text() for file in files)
    passed_on = re.findall(r"^\s+((?:VIGIL|OPENAI|TAVILY|OTEL)_[A-Z_]+):\s*$", text, re.M)
    from_secrets = re.findall(r"\{environment: (\w+)\}", text)
    return {*from_secrets, *re.findall(r"(?<!\$)\$\{([A-Z_]+)", text), *passed_on}


def test_the_env_file_names_every_variable_of_the_cluster() -> None:
    names = re.findall(r"^(?:# )?([A-Z_]+)=", (ROOT / ".env").read_text(), re.M)
    assert len(names) == len(set(names))
    assert {*names} - COMPOSE_VARIABLES == cluster_variables()


def test_the_env_file_names_each_secret_without_a_value() -> None:
    """Compose does not start if the variable of a secret is not defined at all."""
    compose = (ROOT / "compose.yaml").read_text()
    secrets = set(re.findall(r"^  \w+: \{environment: (\w+)\}$", compose, re.M))
    settings = dict(re.findall(r"^([A-Z_]+)=(.*)$", (ROOT / ".env").read_text(), re.M))
    assert len(secrets) == 5
    assert {name: settings.get(name) for name in secrets} == dict.fromkeys(secrets, "")


NAMES = {
    f"{PREFIX}{name.upper()}" for name in Settings.model_fields if name.startswith("retention_")
}


@pytest.mark.parametrize("file", ["compose.yaml", "deploy/stack.yaml"])
def test_the_scheduler_has_every_setting(file: str) -> None:
    services = yaml.load((ROOT / file).read_text(), yaml.CSafeLoader)["services"]
    of_scheduler = services["scheduler"]["environment"]
    assert len(NAMES) == 17
    assert {name for name in of_scheduler if "RETENTION" in name} == NAMES
    passed_on = {of_scheduler[name] for name in NAMES}
    assert passed_on == {None} or passed_on == {f"${{{name}:-}}" for name in NAMES}


def test_compose_passes_on_where_the_collector_is_and_its_key() -> None:
    passed_on = re.findall(r"^  ((?:OTEL|VIGIL)_\w+):$", (ROOT / "compose.yaml").read_text(), re.M)
    assert {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "VIGIL_TRACE_URL"} <= {
        *passed_on
    }


def test_a_stack_passes_them_on_too() -> None:
    stack = (ROOT / "deploy" / "stack.yaml").read_text()
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"):
        assert f"  {name}: ${{{name}:-}}\n" in stack
