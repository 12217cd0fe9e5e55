"""The loops of scheduler and aggregator go on beating, whatever a beat runs into."""

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
from shared.database.tables import Iteration
from shared.enums import IterationStatus
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.actors import running
from tests.support.engines import Postgres
from tests.support.joins import now
from tests.support.making import make_agent
from tests.support.scheduling import another_lost_one, overdue, resent
from tests.support.steps import subjects_told
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.05)
    monkeypatch.setattr(deadlines_module, "CHECK_SECONDS", 0.05)


@asynccontextmanager
async def broken(settings: Settings, table: str) -> AsyncIterator[None]:
    """While it lasts, there is no such table: an error that nobody foresaw."""
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        connection.execute(f"alter table {table} rename to gone")
        yield
        connection.execute(f"alter table gone rename to {table}")


@asynccontextmanager
async def shut(postgres: Postgres, settings: Settings) -> AsyncIterator[None]:
    """While it lasts, Postgres lets nobody into the database."""
    name = urlsplit(settings.database_url).path.removeprefix("/")
    allow = sql.SQL("alter database {} allow_connections {}")
    end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
        connection.execute(end, (name,))
        yield
        connection.execute(allow.format(sql.Identifier(name), sql.SQL("true")))


async def said(lines: list[EventDict], event: str, times: int = 2) -> bool:
    """Twice: the loop has gone on at least once."""
    return [line["event"] for line in lines].count(event) >= times


async def started(bus: Bus) -> bool:
    return "iteration.started" in await subjects_told(bus)


@asynccontextmanager
async def outliving(
    trouble: AbstractAsyncContextManager[None], settings: Settings, actor: str, complaint: str
) -> AsyncIterator[None]:
    """The actor, which was started in trouble, has complained of it, and has none any more."""
    async with AsyncExitStack() as stack:
        with capture_logs() as lines:
            async with trouble:
                await stack.enter_async_context(running(settings, (actor,)))
                await until(lambda: said(lines, complaint), what=f"{complaint!r} to be said")
        yield


async def test_the_clock_ticks_on_after_an_unexpected_error(
    settings: Settings, database: Database, bus: Bus
) -> None:
    await make_agent(database)
    trouble = broken(settings, "agents")
    async with outliving(trouble, settings, "scheduler", "unexpected error"):
        await until(lambda: started(bus), what="the iteration to start")


async def test_the_reconciler_looks_on_after_an_unexpected_error(
    settings: Settings, database: Database, bus: Bus
) -> None:
    await another_lost_one(database)
    trouble = broken(settings, "steps")
    async with outliving(trouble, settings, "scheduler", "unexpected error"):
        await until(lambda: resent(bus), what="what was lost to be asked for")


async def test_deadlines_are_looked_for_after_an_unexpected_error(
    settings: Settings, database: Database, bus: Bus
) -> None:
    iteration = await overdue(database, "overdue")
    trouble = broken(settings, "iterations")
    async with outliving(trouble, settings, "aggregator", "unexpected error"):
        await until(lambda: failed(database, iteration), what="the iteration to be ended")
    assert "iteration.failed" in await subjects_told(bus)


@pytest.mark.parametrize(
    ("actor", "complaint"),
    [("scheduler", "will retry at the next run"), ("aggregator", "will check deadlines again")],
)
async def test_both_look_on_after_postgres_was_away(
    settings: Settings, database: Database, bus: Bus, postgres: Postgres, actor: str, complaint: str
) -> None:
    iteration = await overdue(database, "overdue")
    await another_lost_one(database)
    async with AsyncExitStack() as stack:
        with capture_logs() as lines:
            await stack.enter_async_context(running(settings, (actor,)))
            await until(lambda: said(lines, "ready", 1), what="the actor to be ready")
            async with shut(postgres, settings):
                await until(lambda: said(lines, complaint), what=f"{complaint!r} to be said")
        if actor == "scheduler":
            await until(lambda: resent(bus), what="what was lost to be asked for")
        else:
            await until(lambda: failed(database, iteration), what="the iteration to be ended")


async def failed(database: Database, iteration: Iteration) -> bool:
    return (await now(database, iteration)).status == IterationStatus.FAILED
