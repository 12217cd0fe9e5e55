"""A real Prometheus and a real Alertmanager with the shipped rules, whose durations are divided; and served services."""

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import uvicorn
import yaml

from cli.local.ports import free_port
from shared.runtime.process import Service, health_app
from tests.support.paths import ROOT
from tests.support.waiting import wait_for

RULES: Final = ROOT / "deploy" / "prometheus" / "alerts.yaml"
ALERTMANAGER: Final = RULES.with_name("alertmanager.yaml")
PROGRAMS: Final = ("prometheus", "promtool", "prometheus-alertmanager")
MISSING: Final = [name for name in PROGRAMS if shutil.which(name) is None]
WHY_SKIPPED: Final = (
    f"{', '.join(MISSING)} not on PATH: apt install prometheus prometheus-alertmanager"
)
DIVISOR: Final = 60
"""A minute of the rules is a second here."""
SCRAPE_SECONDS: Final = 0.5
_DURATION: Final = re.compile(r"^(\d+)m$")
_RANGE: Final = re.compile(r"\[(\d+)m\]")
_IN_MINUTES: Final = " / 60 >"


@dataclass(frozen=True)
class Monitoring:
    alertmanager: str
    """Its URL."""
    prometheus: str

    def firing(self, alert: str, **labels: str) -> bool | None:
        """Whether Alertmanager has that alert, as active. None instead of False, for `wait_for`."""
        return any(_matches(each, alert, labels) for each in self._alerts()) or None

    def resolved(self, alert: str, **labels: str) -> bool | None:
        """Whether Alertmanager no longer has it, and Prometheus does not wait for it to become active either."""
        pending = self._query(f'ALERTS{{alertname="{alert}"}}')
        is_pending = any(_matches({"labels": each["metric"]}, alert, labels) for each in pending)
        return True if not is_pending and not self.firing(alert, **labels) else None

    def labels(self, alert: str) -> list[Mapping[str, Any]]:
        """Labels and annotations of the active alerts of that name."""
        return [each for each in self._alerts() if each["labels"]["alertname"] == alert]

    def _alerts(self) -> list[dict[str, Any]]:
        response = httpx.get(f"{self.alertmanager}/api/v2/alerts", params={"active": "true"})
        alerts: list[dict[str, Any]] = response.raise_for_status().json()
        return alerts

    def _query(self, expression: str) -> list[dict[str, Any]]:
        response = httpx.get(f"{self.prometheus}/api/v1/query", params={"query": expression})
        result: list[dict[str, Any]] = response.raise_for_status().json()["data"]["result"]
        return result


def _matches(alert: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    found: Mapping[str, str] = alert["labels"]
    return found["alertname"] == name and labels.items() <= found.items()


def divided_rules() -> dict[str, Any]:
    """The shipped rules with all durations, and ages in minutes, divided by DIVISOR."""
    rules: dict[str, Any] = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            expression = _RANGE.sub(lambda found: f"[{_divided(found[1])}]", rule["expr"])
            rule["expr"] = expression.replace(_IN_MINUTES, " >")
            if "for" in rule:
                found = _DURATION.match(rule["for"])
                assert found, f"write minutes: {rule['for']}"
                rule["for"] = _divided(found[1])
    return rules


def _divided(minutes: str) -> str:
    return f"{int(minutes) * 60_000 // DIVISOR}ms"


@contextmanager
def running_alertmanager(home: Path, config: Path) -> Iterator[str]:
    """Its URL. It keeps its data in `home`."""
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus-alertmanager",
        f"--config.file={config}",
        f"--storage.path={home / 'alertmanager'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    ]
    with _running(command, home / "alertmanager.log"):
        wait_for(lambda: _is_ready(f"http://{address}"), "Alertmanager to be ready")
        yield f"http://{address}"


@contextmanager
def monitoring(home: Path, targets: Mapping[str, int]) -> Iterator[Monitoring]:
    """Scrapes the port of each service in `targets`, in the job `vigil`."""
    config = home / "alertmanager.yaml"
    config.write_text(json.dumps({"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}))
    with (
        running_alertmanager(home, config) as url,
        _running_prometheus(home, targets, url) as started,
    ):
        yield started


@contextmanager
def _running_prometheus(
    home: Path, targets: Mapping[str, int], alertmanager: str
) -> Iterator[Monitoring]:
    port = free_port()
    files = {
        "alerts.yaml": divided_rules(),
        "targets.json": [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"service": service}}
            for service, port in targets.items()
        ],
        "prometheus.yaml": {
            "global": {
                "scrape_interval": f"{SCRAPE_SECONDS * 1000:.0f}ms",
                "scrape_timeout": f"{SCRAPE_SECONDS * 1000:.0f}ms",
                "evaluation_interval": "500ms",
            },
            "rule_files": ["alerts.yaml"],
            "alerting": {
                "alertmanagers": [
                    {"static_configs": [{"targets": [alertmanager.removeprefix("http://")]}]}
                ]
            },
            "scrape_configs": [
                {"job_name": "vigil", "file_sd_configs": [{"files": ["targets.json"]}]}
            ],
        },
    }
    for name, content in files.items():
        (home / name).write_text(json.dumps(content))
    command = [
        "prometheus",
        f"--config.file={home / 'prometheus.yaml'}",
        f"--storage.tsdb.path={home / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with _running(command, home / "prometheus.log"):
        started = Monitoring(alertmanager, f"http://127.0.0.1:{port}")
        wait_for(lambda: _is_ready(started.prometheus), "Prometheus to be ready")
        yield started


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[None]:
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


def _is_ready(url: str) -> bool | None:
    try:
        return httpx.get(f"{url}/-/ready", verify=False).is_success or None
    except httpx.TransportError:
        return None


@contextmanager
def served(build: Callable[[], Service], port: int) -> Iterator[None]:
    """Runs a service in a thread of this process, with its health endpoints and metrics on `port`."""
    server = uvicorn.Server(
        uvicorn.Config(
            health_app(build()),
            port=port,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
    )
    thread = threading.Thread(target=server.run, name=f"service on {port}")
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not _is_service_ready(port):
            assert thread.is_alive(), "the service did not start"
            assert time.monotonic() < deadline, "the service was not ready in time"
            time.sleep(0.02)
        yield
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive(), "the service did not stop"


def _is_service_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health/ready", verify=False).is_success
    except httpx.TransportError:
        return False
