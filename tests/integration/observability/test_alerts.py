"""The shipped alert rules, with the Prometheus and the Alertmanager of this machine.

`promtool` checks the rules, and runs a table of cases in which each alert fires and resolves. The long test provokes
what the alerts are about in real services and a real database. It waits until a real Prometheus has scraped their
metrics, evaluated the rules with durations divided by 60, and sent the alerts to a real Alertmanager. Then it repairs
everything, and waits until they are resolved.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
import yaml
from psycopg import sql
from sqlalchemy import delete, update

from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from services.observer import app as observer
from services.researcher.router import create_router
from services.scheduler import app as scheduler
from services.scheduler import installation_metrics
from shared.billing import budgets
from shared.billing.budgets import Caps
from shared.billing.reservations import INSTALLATION
from shared.database.engine import Database
from shared.database.tables import DeadLetter, Step
from shared.enums import IterationStatus, StepStatus
from shared.errors import TransientError, WaitForProviderError
from shared.events.envelope import Event
from shared.events.models import QueryRequested
from shared.llm.model_server import Limits, ModelServer
from shared.provider_limits.gate import ProviderGate
from shared.provider_limits.store import StateStore, provider_key
from shared.runtime import consumer as consumer_module
from shared.runtime import database_probe
from shared.runtime.bus import Bus
from shared.runtime.connections import create_bus, create_database
from shared.runtime.consumer import MessageConsumer
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from shared.web_search.client import NAME, SearchClient
from tests.support.engines import Postgres
from tests.support.observability import installation_rows as rows
from tests.support.observability.monitoring import (
    ALERTMANAGER,
    MISSING,
    RULES,
    SCRAPE_SECONDS,
    WHY_SKIPPED,
    Monitoring,
    monitoring,
    running_alertmanager,
    served,
)
from tests.support.paths import ROOT
from tests.support.scripted_server import json_reply, serve_model
from tests.support.waiting import wait_for, wait_until

CASES = Path(__file__).with_name("alert_rules.yaml")
needs_prometheus = pytest.mark.skipif(bool(MISSING), reason=WHY_SKIPPED)
needs_promtool = pytest.mark.skipif("promtool" in MISSING, reason=WHY_SKIPPED)

MESSAGES = 130
RATE_LIMITED_EVERY_SECONDS = 0.05
WRONG_BY_SECONDS = 30
ALERTS_AT_ONCE = (
    "VigilProviderUnavailable",
    "VigilRateLimited",
    "VigilBudgetNearlyUsed",
    "VigilAgentBudgetNearlyUsed",
    "VigilConsumerLag",
    "VigilDeadLetters",
    "VigilDiskNearlyFull",
    "VigilAgentsLate",
    "VigilClockSkew",
)
ONE_BY_ONE = ("VigilServiceDown", "VigilDatabaseDown", "VigilStateOutdated", "VigilBusDown")


def run_promtool(*arguments: str) -> None:
    result = subprocess.run(
        ["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def rule_names() -> list[str]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"]]


@needs_promtool
def test_promtool_accepts_the_rules_and_both_configurations(tmp_path: Path) -> None:
    run_promtool("check", "rules", str(RULES))
    for name in ("prometheus.yaml", "local.yaml"):
        config = (RULES.parent / name).read_text().replace("/etc/prometheus/", "")
        (tmp_path / name).write_text(config)
        shutil.copy(RULES, tmp_path)
        run_promtool("check", "config", "--syntax-only", str(tmp_path / name))


@needs_promtool
def test_each_alert_fires_and_resolves_in_the_table_of_cases() -> None:
    run_promtool("test", "rules", str(CASES))


@needs_prometheus
@pytest.mark.parametrize(
    ("cause", "suppressed"),
    [
        (
            "VigilDatabaseDown",
            {"VigilServiceDown api", "VigilAgentsLate", "VigilStateOutdated", "VigilDeadLetters"},
        ),
        ("VigilBusDown", {"VigilAgentsLate"}),
    ],
)
def test_the_outage_of_an_engine_suppresses_the_alerts_that_follow_from_it(
    tmp_path: Path, cause: str, suppressed: set[str]
) -> None:
    fired = [
        (cause, ""),
        ("VigilServiceDown", "api"),
        ("VigilServiceDown", "observer"),
        ("VigilAgentsLate", ""),
        ("VigilDeadLetters", ""),
        ("VigilStateOutdated", ""),
        ("VigilDiskNearlyFull", ""),
    ]
    labels = [{"alertname": alert, "service": service} for alert, service in fired]
    with running_alertmanager(tmp_path, ALERTMANAGER) as url:
        posted = httpx.post(f"{url}/api/v2/alerts", json=[{"labels": each} for each in labels])
        posted.raise_for_status()

        def found() -> set[str] | None:
            alerts = httpx.get(f"{url}/api/v2/alerts").raise_for_status().json()
            if len(alerts) < len(fired) or any(
                each["status"]["state"] == "unprocessed" for each in alerts
            ):
                return None
            inhibited = {
                f"{each['labels']['alertname']} {each['labels'].get('service', '')}".strip()
                for each in alerts
                if each["status"]["state"] == "suppressed"
            }
            # Alertmanager learns of the cause and of its consequences one after the other.
            return inhibited if inhibited >= suppressed else None

        assert wait_for(found, f"Alertmanager to suppress {suppressed}") == suppressed


def test_the_table_of_cases_has_every_alert_both_firing_and_not() -> None:
    cases = [
        case
        for test in yaml.safe_load(CASES.read_text())["tests"]
        for case in test["alert_rule_test"]
    ]
    for alerts in (True, False):
        covered = {case["alertname"] for case in cases if bool(case["exp_alerts"]) == alerts}
        assert covered == set(rule_names())


def test_the_test_with_a_real_alertmanager_knows_every_alert() -> None:
    assert {*ALERTS_AT_ONCE, *ONE_BY_ONE} == set(rule_names())


class StuckConsumer:
    """A service whose handlers wait until they are released."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.released = threading.Event()

    def build(self) -> MessageConsumer:
        return MessageConsumer(
            "researcher",
            create_router(self._wait),
            bus=create_bus(self._settings, "researcher"),
            database=create_database(self._settings, "researcher"),
        )

    async def _wait(self, _: Event) -> Sequence[Event]:
        while not self.released.is_set():  # noqa: ASYNC110  # set by another thread
            await asyncio.sleep(0.05)
        return []


class Providers:
    """A model server that limits requests, and a search service that cannot be reached, until both are repaired."""

    def __init__(self, database: Database) -> None:
        self._model: asyncio.Task[None] | None = None
        key = provider_key("http://127.0.0.1", "key")
        self._search_state = StateStore(database, "search", key, NAME)

    async def break_both(self) -> str:
        """Returns the error of a step that waits for the search service."""
        self._model = asyncio.create_task(self._ask_model())
        async with self._client(f"http://127.0.0.1:{free_port()}") as client:
            while True:
                with pytest.raises(TransientError) as failed:
                    await search(client)
                if isinstance(failed.value, WaitForProviderError):
                    return str(failed.value)

    async def repair_both(self) -> None:
        assert self._model is not None
        self._model.cancel()
        with suppress(asyncio.CancelledError):
            await self._model
        with serve_model(lambda *_: json_reply({"results": []})) as url:
            async with self._client(url.removesuffix("/v1")) as client:
                await wait_until(lambda: self._is_back(client), what="an answer to a probe")

    async def _is_back(self, client: SearchClient) -> bool:
        try:
            await search(client)
        except WaitForProviderError:
            return False
        return (await self._search_state.read()).state.unavailable_since is None

    async def _ask_model(self) -> None:
        refusal = {"error": {"message": "too many requests", "code": "rate_limit_exceeded"}}
        with serve_model(lambda *_: json_reply(refusal, 429)) as url:
            server = ModelServer(api_key="key", base_url=url, limits=Limits())
            try:
                while True:
                    call = server.client.chat.completions.with_raw_response.create(
                        model="m", messages=[]
                    )
                    with pytest.raises(TransientError, match="429"):
                        await server.json_object(call, "m")
                    await asyncio.sleep(RATE_LIMITED_EVERY_SECONDS)
            finally:
                await server.close()

    @asynccontextmanager
    async def _client(self, url: str) -> AsyncIterator[SearchClient]:
        gate = ProviderGate(NAME, store=self._search_state)
        client = SearchClient(api_key="key", base_url=url, timeout_seconds=5, gate=gate)
        try:
            yield client
        finally:
            await client.close()


async def search(client: SearchClient) -> None:
    await client.search("lithium", max_results=1, topic=None, time_range=None)


class Notifiers:
    """The notifier as a process of its own, whose clock may be wrong."""

    def __init__(self, settings: Settings, port: int) -> None:
        self._environment = {
            **os.environ,
            "VIGIL_DATABASE_URL": settings.database_url,
            "VIGIL_NATS_URL": settings.nats_url,
            "VIGIL_PORT": str(port),
            "PYTHONPATH": str(ROOT),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, clock_is_wrong_by_seconds: float) -> None:
        self.stop()
        command = ["-m", "tests.support.shifted_clock", str(clock_is_wrong_by_seconds), "notifier"]
        self._process = subprocess.Popen(
            [sys.executable, *command],
            env=self._environment,
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            finally:
                self._process.kill()
                self._process = None


async def break_state(database: Database, provider_error: str) -> None:
    """A late agent, an agent and an installation near their budgets, a step that waits for a provider, a dead letter."""
    place = await rows.begin(database)
    rows.add_agent(place, name="late")
    spender = rows.add_agent(
        place, name="spender", created_at=place.now, budget_usd_per_day=Decimal(10)
    )
    iteration = rows.add_iteration(place, spender, IterationStatus.RUNNING, started=1)
    rows.add_step(
        place,
        iteration,
        waiting_since=place.ago(60),
        retry_at=place.ago(-3600),
        error=provider_error,
    )
    await rows.write(database, place)
    async with database.transaction() as session:
        await rows.add_dead_letter(session)
        await rows.cap_installation(session, "20")
        await rows.spend(session, spender["id"], "8.5")
        await rows.spend(session, INSTALLATION, "17")


async def repair_state(database: Database) -> None:
    async with database.transaction() as session:
        agents = list(await session.execute(rows.AGENT_NAMES))
        ids = {name: agent_id for agent_id, name in agents}
        await budgets.cap_agent(session, ids["spender"], Caps(usd_per_day=Decimal(100)))
        await budgets.cap_installation(session, Caps(usd_per_day=Decimal(100)))
        await session.execute(delete(DeadLetter))
        await session.execute(update(Step).values(status=StepStatus.COMPLETED, waiting_since=None))
        await rows.complete_iteration(session, ids["late"])


async def publish_queries(bus: Bus) -> None:
    query = {"objective": "lithium", "reasoning": "why not", "search_hints": ["lithium"]}
    for _ in range(MESSAGES):
        event = QueryRequested.of(
            agent_id=uuid4(),
            iteration_id=uuid4(),
            step_id=uuid4(),
            occurred_at="2026-01-01T00:00:00Z",
            query=query,
        )
        await bus.publish(event)


@contextmanager
def database_refusing_connections(postgres: Postgres, url: str) -> Iterator[None]:
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    allow = sql.SQL("alter database {} allow_connections {}")
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        identifier = sql.Identifier(str(name))
        connection.execute(allow.format(identifier, sql.SQL("false")))
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name]
        )
        try:
            yield
        finally:
            connection.execute(allow.format(identifier, sql.SQL("true")))


@pytest.fixture
async def notifiers(settings: Settings) -> AsyncIterator[tuple[Notifiers, int]]:
    port = free_port()
    started = Notifiers(settings, port)
    yield started, port
    started.stop()


def wait_for_alerts(watched: Monitoring, *, are_firing: bool) -> None:
    for alert in ALERTS_AT_ONCE:
        look = watched.firing if are_firing else watched.resolved
        wait_for(lambda look=look, alert=alert: look(alert), f"{alert}: firing {are_firing}")  # type: ignore[misc]


@pytest.mark.slow
@needs_prometheus
async def test_every_alert_fires_and_resolves_with_a_real_prometheus_and_alertmanager(
    settings: Settings,
    database: Database,
    bus: Bus,
    postgres: Postgres,
    notifiers: tuple[Notifiers, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installation_metrics, "CACHE_SECONDS", 0.2)
    monkeypatch.setattr(consumer_module, "WATCH_SECONDS", 0.5)
    # Prometheus waits longer than a process does for PostgreSQL, as with the shipped values.
    monkeypatch.setattr(database_probe, "PROBE_SECONDS", SCRAPE_SECONDS / 2)
    disk = SimpleNamespace(total=100, free=5)
    monkeypatch.setattr(installation_metrics, "disk_usage", lambda _: disk)
    quiet = settings.model_copy(update={"resend_after_seconds": 3600.0, "data_directory": tmp_path})
    server = EmbeddedNats(tmp_path / "nats", free_port(), tmp_path / "nats.log", durable=False)
    of_server = settings.model_copy(update={"nats_url": server.start().url})
    await provision_stream(of_server)
    stuck, providers = StuckConsumer(settings), Providers(database)
    notifier, notifier_port = notifiers
    ports = {
        "scheduler": free_port(),
        "researcher": free_port(),
        "observer": free_port(),
        "notifier": notifier_port,
    }
    with ExitStack() as stack, ExitStack() as researcher:
        stack.enter_context(served(lambda: scheduler.build(quiet), ports["scheduler"]))
        stack.callback(server.stop)
        stack.enter_context(served(lambda: observer.build(of_server), ports["observer"]))
        researcher.enter_context(served(stuck.build, ports["researcher"]))
        watched = stack.enter_context(monitoring(tmp_path, ports))

        notifier.run(WRONG_BY_SECONDS)
        await break_state(database, await providers.break_both())
        await publish_queries(bus)
        await asyncio.to_thread(wait_for_alerts, watched, are_firing=True)
        check_labels(watched)

        notifier.run(0)
        await repair_state(database)
        stuck.released.set()
        await providers.repair_both()
        disk.free = 50
        await asyncio.to_thread(wait_for_alerts, watched, are_firing=False)

        with database_refusing_connections(postgres, settings.database_url):
            await asyncio.to_thread(wait_for_state, watched, "VigilDatabaseDown", "scheduler")
            await asyncio.to_thread(wait_for_state, watched, "VigilStateOutdated")
        await asyncio.to_thread(wait_for_state, watched, "VigilDatabaseDown", "scheduler", False)
        await asyncio.to_thread(wait_for_state, watched, "VigilStateOutdated", is_firing=False)

        server.stop()
        await asyncio.to_thread(wait_for_state, watched, "VigilBusDown")
        server.start()
        await asyncio.to_thread(wait_for_state, watched, "VigilBusDown", is_firing=False)

        await asyncio.to_thread(researcher.close)
        await asyncio.to_thread(wait_for_state, watched, "VigilServiceDown", "researcher")
        stack.enter_context(served(stuck.build, ports["researcher"]))
        await asyncio.to_thread(wait_for_state, watched, "VigilServiceDown", "researcher", False)


def wait_for_state(
    watched: Monitoring, alert: str, service: str | None = None, is_firing: bool = True
) -> None:
    look = watched.firing if is_firing else watched.resolved
    labels = {} if service is None else {"service": service}
    wait_for(lambda: look(alert, **labels), f"{alert}: firing {is_firing}")


def check_labels(watched: Monitoring) -> None:
    """What a person reads: which provider, consumer and service, and the page that helps."""
    expected: dict[str, dict[str, Any]] = {
        "VigilProviderUnavailable": {"provider": "search"},
        "VigilRateLimited": {"provider": "model"},
        "VigilConsumerLag": {"consumer": "researcher"},
        "VigilClockSkew": {"service": "notifier"},
    }
    for alert in ALERTS_AT_ONCE:
        [found] = watched.labels(alert)
        labels = {
            name: text
            for name, text in found["labels"].items()
            if name in ("provider", "consumer", "service")
        }
        assert labels == expected.get(alert, {}), alert
        assert (ROOT / found["annotations"]["runbook"]).is_file()
        assert "{{" not in found["annotations"]["summary"]
