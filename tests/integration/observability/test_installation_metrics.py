"""What the scheduler reports of the whole installation, from rows in a real database."""

import asyncio
import time
from collections.abc import AsyncIterator
from math import isnan
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import delete, text

from services.scheduler import app, installation_metrics
from shared.billing.reservations import INSTALLATION
from shared.database.engine import Database
from shared.database.statements import BoundQuery
from shared.database.tables import DeadLetter
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.provider_limits.state import ProviderState
from shared.provider_limits.store import StateStore, provider_key
from shared.runtime.consumer import MessageConsumer
from shared.runtime.settings import Settings
from tests.support.case_files import read_cases
from tests.support.observability import installation_rows as rows
from tests.support.observability.scraping import scrape, value
from tests.support.seeds import repeatable
from tests.support.waiting import wait_until

CASES = read_cases(__file__)

WALKS = 25
PROMPT_COLUMNS = ", ".join(rows.PROMPTS)
THOUSAND_AGENTS = f"""
insert into agents (id, owner_id, name, mission, interval_seconds, status, created_at, updated_at,
  next_run_at, {PROMPT_COLUMNS})
select gen_random_uuid(), users.id, 'agent ' || number, 'Watch.', 300, 'ready', now() - interval '1 day',
  now() - interval '1 day', now() + interval '1 minute', {", ".join(["'Go on.'"] * len(rows.PROMPTS))}
from users, generate_series(1, 1000) as number
"""
THEIR_ITERATIONS = """
insert into iterations (id, agent_id, number, why, status, stage, started_at, ended_at, deadline_at)
select gen_random_uuid(), agents.id, number, 'due',
  case when right(name, 1) in ('1', '3', '5', '7', '9') then 'failed' else 'completed' end, 'ended',
  now() - (20 - number) * interval '5 minutes' - interval '1 minute', now() - (20 - number) * interval '5 minutes', now()
from agents, generate_series(1, 20) as number
"""
TOLERANCE_SECONDS = 5.0
SERVER = "the model server at http://127.0.0.1:1/v1"
OLD_PROVIDERS = "update provider_limits set updated_at = now() - interval '1 hour'"


@pytest.fixture
async def scheduler(database_url: str) -> AsyncIterator[MessageConsumer]:
    """A scheduler that does not run, and measures at every scrape."""
    service = app.build(Settings(database_url=database_url))
    yield service
    await service.database.close()


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation_metrics, "CACHE_SECONDS", 0.0)


async def test_an_empty_installation(scheduler: MessageConsumer) -> None:
    samples = await scrape(scheduler)
    for name in ("dead_letters", "late_agents", "active_agents", "budget_spent_usd", "leases_held"):
        assert value(samples, f"vigil_{name}") == 0, name
    for name in ("budget_left_usd", "budget_left_calls", "budget_used_ratio", "data_free_bytes"):
        assert isnan(value(samples, f"vigil_{name}") or 0), name
    assert value(samples, "vigil_open_steps", kind="query") == 0
    assert value(samples, "vigil_database_up") == 1
    assert (value(samples, "vigil_database_size_bytes") or 0) > 1_000_000
    skew = value(samples, "vigil_clock_skew_seconds")
    assert skew is not None
    assert abs(skew) < 1


async def test_scrapes_at_the_same_time_read_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation_metrics, "CACHE_SECONDS", 60.0)
    queries = []
    run = database.run

    async def counted(query: BoundQuery[Any]) -> Any:
        queries.append(query)
        return await run(query)

    monkeypatch.setattr(database, "run", counted)
    gauges = installation_metrics.InstallationMetrics(database, None)
    await asyncio.gather(*(gauges.refresh() for _ in range(50)))
    assert len(queries) == 1


async def test_a_reading_that_takes_longer_than_a_scrape_is_used_by_a_later_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, queries = asyncio.Event(), []
    run = database.run

    async def slow(query: BoundQuery[Any]) -> Any:
        queries.append(query)
        await go_on.wait()
        return await run(query)

    async def has_started() -> bool:
        return bool(queries)

    monkeypatch.setattr(database, "run", slow)
    monkeypatch.setattr(installation_metrics, "CACHE_SECONDS", 60.0)
    gauges = installation_metrics.InstallationMetrics(database, None)
    reading = asyncio.create_task(gauges.refresh())
    await wait_until(has_started, what="the query")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    go_on.set()
    await gauges.refresh()
    assert gauges.registry.get_sample_value("vigil_dead_letters") == 0
    assert len(queries) == 1


@pytest.mark.parametrize(
    ("waits_for", "is_unavailable", "is_recent", "is_reported"),
    [
        (SERVER, True, True, True),
        (SERVER, False, True, False),  # it limits requests
        ("the search service", True, True, False),
        (SERVER, True, False, False),
    ],
)
async def test_outages_that_steps_wait_for(
    scheduler: MessageConsumer,
    database: Database,
    waits_for: str,
    is_unavailable: bool,
    is_recent: bool,
    is_reported: bool,
) -> None:
    store = StateStore(database, "model", provider_key("http://127.0.0.1:1/v1", "key"), SERVER)
    now = (await store.read()).now
    since = now - 120 if is_unavailable else None
    await store.write(0, ProviderState(unavailable_since=since, paused_until=now + 60))
    place = await rows.begin(database)
    iteration = rows.add_iteration(
        place, rows.add_agent(place), IterationStatus.RUNNING, started=200
    )
    rows.add_step(
        place, iteration, waiting_since=place.ago(60), error=f"{waits_for.title()} is away"
    )
    await rows.write(database, place)
    if not is_recent:
        async with database.transaction() as session:
            await session.execute(text(OLD_PROVIDERS))
    samples = await scrape(scheduler)
    model = value(samples, "vigil_provider_outage_seconds", provider="model")
    assert model == (pytest.approx(120, abs=TOLERANCE_SECONDS) if is_reported else 0)
    assert value(samples, "vigil_provider_outage_seconds", provider="search") == 0


async def test_a_random_walk_agrees_with_the_rows(
    scheduler: MessageConsumer, database: Database, seed: int
) -> None:
    for number in range(WALKS):
        with repeatable(seed + number):
            place = await rows.begin(database)
            rows.random_installation(place, Random(seed + number))
            await rows.write(database, place)
            samples = await scrape(scheduler)
            assert value(samples, "vigil_late_agents") == rows.expected_late(place)
            assert value(samples, "vigil_active_agents") == sum(a["active"] for a in place.agents)
            running = [i for i in place.iterations if i["status"] == IterationStatus.RUNNING]
            assert value(samples, "vigil_running_iterations") == len(running)
            for name, expected in rows.expected_steps(place).items():
                found = value(samples, f"vigil_{name}")
                assert found is not None
                margin = TOLERANCE_SECONDS if name.endswith("_seconds") and expected else 0.0
                assert expected <= found <= expected + margin, name
            for kind in (StepKind.QUERY, StepKind.INSIGHT):
                states = (StepStatus.PENDING, StepStatus.RUNNING)
                count = sum(s["kind"] == kind and s["status"] in states for s in place.steps)
                assert value(samples, "vigil_open_steps", kind=kind) == count


@pytest.mark.parametrize(
    ("usd", "calls", "spent", "reserved", "spent_calls", "left", "ratio"),
    CASES["the_installations_budget"],
)
async def test_the_installations_budget(
    scheduler: MessageConsumer,
    database: Database,
    usd: str | None,
    calls: int | None,
    spent: str,
    reserved: str,
    spent_calls: int,
    left: float | None,
    ratio: float | None,
) -> None:
    async with database.transaction() as session:
        await rows.cap_installation(session, usd, calls)
        await rows.spend(session, INSTALLATION, spent, reserved=reserved, calls=spent_calls)
    samples = await scrape(scheduler)
    assert value(samples, "vigil_budget_spent_usd") == float(spent)
    assert value(samples, "vigil_budget_reserved_usd") == float(reserved)
    for name, expected in (("budget_left_usd", left), ("budget_used_ratio", ratio)):
        found = value(samples, f"vigil_{name}")
        assert found is not None
        assert isnan(found) if expected is None else found == pytest.approx(expected), name
    if calls is not None:
        assert value(samples, "vigil_budget_left_calls") == calls - spent_calls


async def test_agents_near_their_budget(scheduler: MessageConsumer, database: Database) -> None:
    place = await rows.begin(database)
    cases = [("10", None, "8", 0), ("10", None, "7.9", 0), (None, 10, "9", 8), (None, None, "9", 9)]
    agents = [
        rows.add_agent(place, budget_usd_per_day=usd, budget_calls_per_day=calls)
        for usd, calls, _, _ in cases
    ]
    paused = rows.add_agent(place, budget_usd_per_day="1", active=False)
    await rows.write(database, place)
    async with database.transaction() as session:
        for agent, (_, _, spent, calls_spent) in zip(agents, cases, strict=True):
            await rows.spend(session, agent["id"], spent, calls=calls_spent)
        await rows.spend(session, paused["id"], "1")
    assert value(await scrape(scheduler), "vigil_agents_near_budget") == 2


async def test_dead_letters_and_deliveries(scheduler: MessageConsumer, database: Database) -> None:
    place = await rows.begin(database)
    async with database.transaction() as session:
        for _ in range(3):
            letter = await rows.add_dead_letter(session)
        await rows.add_deliveries(session, place.owner, [5, 500])
    samples = await scrape(scheduler)
    assert value(samples, "vigil_dead_letters") == 3
    assert value(samples, "vigil_pending_deliveries") == 2
    oldest = value(samples, "vigil_oldest_pending_delivery_seconds")
    assert oldest is not None
    assert 500 <= oldest < 500 + TOLERANCE_SECONDS
    async with database.transaction() as session:
        await session.execute(delete(DeadLetter).where(DeadLetter.id == letter))
    assert value(await scrape(scheduler), "vigil_dead_letters") == 2


async def test_the_disk_of_the_data_directory(database_url: str, tmp_path: Path) -> None:
    for directory, is_measured in ((tmp_path, True), (tmp_path / "missing", False)):
        service = app.build(Settings(database_url=database_url, data_directory=directory))
        samples = await scrape(service)
        free, size = (value(samples, f"vigil_data_{name}_bytes") for name in ("free", "size"))
        assert free is not None
        assert size is not None
        assert (0 < free <= size) if is_measured else (isnan(free) and isnan(size))
        await service.database.close()


async def test_without_postgres_a_scrape_still_answers_and_the_values_grow_old(
    unreachable_database_url: str,
) -> None:
    service = app.build(Settings(database_url=unreachable_database_url))
    began = time.monotonic()
    samples = await scrape(service)
    assert time.monotonic() - began < 8
    assert value(samples, "vigil_database_up") == 0
    skew = value(samples, "vigil_clock_skew_seconds")
    assert skew is not None
    assert isnan(skew)
    assert (value(samples, "vigil_installation_state_age_seconds") or 0) > 0
    await service.database.close()


async def test_scrapes_within_seconds_read_postgres_once(
    scheduler: MessageConsumer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation_metrics, "CACHE_SECONDS", 60.0)
    assert value(await scrape(scheduler), "vigil_dead_letters") == 0
    async with database.transaction() as session:
        await rows.add_dead_letter(session)
    assert value(await scrape(scheduler), "vigil_dead_letters") == 0
    fresh = installation_metrics.InstallationMetrics(database, None)
    await fresh.refresh()
    assert fresh.registry.get_sample_value("vigil_dead_letters") == 1


async def test_half_of_a_thousand_agents_have_only_failed(
    scheduler: MessageConsumer, database: Database
) -> None:
    await rows.begin(database)
    async with database.transaction() as session:
        await session.execute(text(THOUSAND_AGENTS))
        await session.execute(text(THEIR_ITERATIONS))
        await session.execute(text("analyze agents"))
        await session.execute(text("analyze iterations"))
    assert value(await scrape(scheduler), "vigil_late_agents") == 500
