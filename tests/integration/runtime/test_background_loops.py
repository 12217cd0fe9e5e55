"""The background loops of the scheduler and the aggregator continue after any error."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from structlog.testing import capture_logs
from structlog.typing import EventDict

from services.aggregator import deadlines as deadlines_module
from services.scheduler import scheduler as clock_module
from shared.database.engine import Database
from shared.enums import IterationStatus
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.workflow.iterations import IterationRow
from tests.support.engines import Postgres
from tests.support.factories import make_agent
from tests.support.joins import reload_iteration
from tests.support.running_services import running_services
from tests.support.scheduling import add_missed_step, overdue, republished_ids
from tests.support.steps import published_subjects
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.05)
    monkeypatch.setattr(deadlines_module, "CHECK_SECONDS", 0.05)


@asynccontextmanager
async def table_missing(settings: Settings, table: str) -> AsyncIterator[None]:
    """Within the block the table does not exist, which causes an unexpected error."""
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        connection.execute(f"alter table {table} rename to gone")
        yield
        connection.execute(f"alter table gone rename to {table}")


@asynccontextmanager
async def connections_refused(postgres: Postgres, settings: Settings) -> AsyncIterator[None]:
    """Within the block PostgreSQL refuses connections to the database."""
    name = urlsplit(settings.database_url).path.removeprefix("/")
    allow = sql.SQL("alter database {} allow_connections {}")
    end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
        connection.execute(end, (name,))
        yield
        connection.execute(allow.format(sql.Identifier(name), sql.SQL("true")))


async def is_logged(lines: list[EventDict], event: str, times: int = 2) -> bool:
    """Whether the event was logged so often; twice means that the loop has continued."""
    return [line["event"] for line in lines].count(event) >= times


async def iteration_started(bus: Bus) -> bool:
    return "iteration.started" in await published_subjects(bus)


@asynccontextmanager
async def surviving(
    failure: AbstractAsyncContextManager[None], settings: Settings, service: str, message: str
) -> AsyncIterator[None]:
    """Starts the service during a failure; within the block it has logged the failure, which is over."""
    async with AsyncExitStack() as stack:
        with capture_logs() as lines:
            async with failure:
                await stack.enter_async_context(running_services(settings, (service,)))
                await wait_until(
                    lambda: is_logged(lines, message), what=f"{message!r} to be logged"
                )
        yield


async def test_the_scheduler_ticks_after_an_unexpected_error(
    settings: Settings, database: Database, bus: Bus
) -> None:
    await make_agent(database)
    failure = table_missing(settings, "agents")
    async with surviving(failure, settings, "scheduler", "unexpected error"):
        await wait_until(lambda: iteration_started(bus), what="the iteration to start")


async def test_the_reconciler_runs_after_an_unexpected_error(
    settings: Settings, database: Database, bus: Bus
) -> None:
    await add_missed_step(database)
    failure = table_missing(settings, "steps")
    async with surviving(failure, settings, "scheduler", "unexpected error"):
        await wait_until(lambda: republished_ids(bus), what="what was lost to be republished")


async def test_deadlines_are_checked_after_an_unexpected_error(
    settings: Settings, database: Database, bus: Bus
) -> None:
    iteration = await overdue(database, "overdue")
    failure = table_missing(settings, "iterations")
    async with surviving(failure, settings, "aggregator", "unexpected error"):
        await wait_until(lambda: is_failed(database, iteration), what="the iteration to be ended")
    assert "iteration.failed" in await published_subjects(bus)


@pytest.mark.parametrize(
    ("service", "message"),
    [("scheduler", "will retry at the next run"), ("aggregator", "will check deadlines again")],
)
async def test_both_loops_continue_after_an_outage_of_postgres(
    settings: Settings, database: Database, bus: Bus, postgres: Postgres, service: str, message: str
) -> None:
    iteration = await overdue(database, "overdue")
    await add_missed_step(database)
    async with AsyncExitStack() as stack:
        with capture_logs() as lines:
            await stack.enter_async_context(running_services(settings, (service,)))
            await wait_until(lambda: is_logged(lines, "ready", 1), what="the service to be ready")
            async with connections_refused(postgres, settings):
                await wait_until(
                    lambda: is_logged(lines, message), what=f"{message!r} to be logged"
                )
        if service == "scheduler":
            await wait_until(lambda: republished_ids(bus), what="what was lost to be republished")
        else:
            await wait_until(
                lambda: is_failed(database, iteration), what="the iteration to be ended"
            )


async def is_failed(database: Database, iteration: IterationRow) -> bool:
    return (await reload_iteration(database, iteration)).status == IterationStatus.FAILED
