"""What a whole loop counts agrees with the rows that it wrote, also while calls fail."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from math import isnan

import pytest
from sqlalchemy import func, select, update

from cli.local.nats import EmbeddedNats
from services.scheduler import scheduler as clock_module
from shared.billing.reservations import INSTALLATION
from shared.database.engine import Database
from shared.database.tables import Agent, BudgetDay, Call, DeadLetter, Iteration, Step
from shared.enums import CallKind, StepStatus
from shared.llm import model_server
from shared.runtime import step_runner as runner_module
from shared.runtime.bus import Bus
from shared.runtime.middlewares import retry
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepResult
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease
from shared.workflow.steps import Pauses
from tests.support.factories import make_agent
from tests.support.observability.scraping import Counting, scrape, value
from tests.support.processes import ready
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.steps import observer, request_observe_step, running_service
from tests.support.waiting import wait_until

AGENTS = 3


async def run_agents(settings: Settings, database: Database) -> None:
    agents = [await make_agent(database, name=f"Watch {number}") for number in range(AGENTS)]
    async with running_services(settings):
        for agent in agents:
            await ended_iteration(database, agent, 1)


async def ledger(database: Database) -> tuple[Sequence[Call], float]:
    """All calls, and what the installation has spent."""
    async with database.transaction() as session:
        calls = list(await session.scalars(select(Call)))
        spent = await session.scalar(
            select(func.sum(BudgetDay.spent_usd)).where(BudgetDay.scope == INSTALLATION)
        )
    return calls, float(spent or 0)


async def assert_agrees(database: Database, counting: Counting) -> Counter[str]:
    """Compares tokens, costs, steps and iterations with the rows; returns the attempts of model calls by outcome."""
    calls, spent = await ledger(database)
    models = [call for call in calls if call.kind == CallKind.LLM and call.answered_at]
    failures = [failure for call in calls for failure in call.failures]
    for kind, column in (("input", "input_tokens"), ("output", "output_tokens")):
        in_ledger = sum(getattr(call, column) or 0 for call in models)
        in_ledger += sum(failure[column] or 0 for failure in failures)
        counted = counting.gains("vigil_tokens_total")
        assert sum(n for labels, n in counted.items() if labels[0] == kind) == in_ledger, kind
    assert sum(counting.gains("vigil_spent_usd_total").values()) == pytest.approx(spent)
    attempts: Counter[str] = Counter()
    for (outcome, _), number in counting.gains("vigil_model_calls_total").items():
        attempts[outcome] += int(number)
    assert attempts["answered"] == len(models)
    async with database.transaction() as session:
        steps = Counter(await session.scalars(select(Step.status)))
        ends = Counter(await session.scalars(select(Iteration.status)))
        letters = await session.scalar(select(func.count()).select_from(DeadLetter)) or 0
        agents = await session.scalar(select(func.count()).select_from(Agent))
    counted_steps: Counter[str] = Counter()
    for (_, outcome), number in counting.gains("vigil_step_seconds_count").items():
        counted_steps[outcome] += int(number)
    assert counted_steps["completed"] == steps[StepStatus.COMPLETED]
    assert counted_steps["failed"] == steps[StepStatus.FAILED]
    assert sum(counting.gains("vigil_dead_letters_stored_total").values()) == letters
    counted_ends = counting.gains("vigil_iteration_seconds_count")
    assert {outcome: n for (outcome,), n in counted_ends.items()} == ends
    assert sum(ends.values()) == agents
    return attempts


async def test_failed_attempts_and_rate_limits_are_counted(
    sandbox_settings: Settings,
    database: Database,
    bus: Bus,
    sandbox_control: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.2)
    monkeypatch.setattr(runner_module, "PAUSES", Pauses(0.05, 0.1))
    monkeypatch.setattr(retry, "MIN_DELAY_SECONDS", 0.05)
    # Every retry is one of the step.
    monkeypatch.setattr(model_server, "MAX_QUICK_WAIT_SECONDS", 0.0)
    sandbox_control.faults(
        {"kind": "status", "status": 429, "phase": "graph_construction", "count": 5},
        {"kind": "cut", "phase": "knowledge_acquisition", "count": 2},
        {"kind": "status", "status": 400, "phase": "analysis_generation", "count": 2},
    )
    counting = Counting()
    await run_agents(sandbox_settings, database)
    attempts = await assert_agrees(database, counting)
    limited = counting.gained("vigil_rate_limited_responses_total", provider="model")
    assert limited == attempts["unavailable"] > 0
    assert attempts["cut_off"] == 2
    waits = counting.gained("vigil_step_seconds_count", kind="query", outcome="waiting")
    retries = counting.gained("vigil_step_seconds_count", kind="query", outcome="retried")
    assert waits >= limited
    assert retries + waits == limited + attempts["cut_off"]
    redelivered = counting.gains("vigil_message_retries_total")
    assert redelivered["researcher", "unavailable"] >= waits
    assert redelivered.get(("researcher", "error"), 0) == retries
    calls, _ = await ledger(database)
    searches = sum(call.kind == CallKind.SEARCH for call in calls)
    assert counting.gained("vigil_search_calls_total", outcome="answered") == searches > 0


async def test_a_lost_lease_and_a_stopped_worker_are_counted(
    settings: Settings, database: Database, bus: Bus
) -> None:
    """The first worker of the step loses it to another one, and the second is stopped in the middle of its work."""
    started = asyncio.Event()
    workers: list[Lease] = []

    async def work(lease: Lease, step: StepRow) -> StepResult:
        workers.append(lease)
        if len(workers) == 1:
            await take_over(database, lease)
            return StepResult({"queries": 0, "insights": 0})
        started.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    counting = Counting()
    quick = settings.model_copy(update={"drain_seconds": 0.05, "lease_seconds": 0.5})
    async with running_service(observer(quick, work)):
        await request_observe_step(database, bus)
        await asyncio.wait_for(started.wait(), 30)
    assert counting.gains("vigil_step_seconds_count") == {
        ("observe", "lease_lost"): 1,
        ("observe", "released"): 1,
    }
    assert (
        counting.gained("vigil_message_retries_total", consumer="observer", reason="unavailable")
        > 0
    )


async def take_over(database: Database, lease: Lease) -> None:
    """As another worker does whose lease has then expired."""
    async with database.transaction() as session:
        await session.execute(
            update(Step)
            .where(Step.id == lease.step_id)
            .values(
                epoch=lease.epoch + 1,
                status=StepStatus.RUNNING,
                lease_until=func.clock_timestamp(),
            )
        )


async def test_the_lag_of_a_consumer_is_unknown_without_nats(
    settings: Settings, database: Database, own_nats: EmbeddedNats
) -> None:
    own = settings.model_copy(update={"nats_url": own_nats.url})
    await provision_stream(own)

    async def work(lease: Lease, step: StepRow) -> StepResult:
        raise AssertionError("nothing is requested")

    service = observer(own, work)

    async def lag() -> float | None:
        await service.fault()
        return value(await scrape(service), "vigil_consumer_pending_messages", consumer="observer")

    async def is_unknown() -> bool:
        return isnan(await lag() or 0)

    async with running_service(service):
        await wait_until(lambda: ready(service), what="the observer to be ready")
        assert await lag() == 0
        own_nats.stop()
        await wait_until(is_unknown, what="the lag to be unknown")
        own_nats.start()


async def test_the_lag_is_unknown_while_a_service_waits_for_nats_or_for_its_consumer(
    settings: Settings, database: Database, own_nats: EmbeddedNats
) -> None:
    """As after a start of the machine on which NATS stays down, or after the stream was deleted."""
    own = settings.model_copy(update={"nats_url": own_nats.url})
    own_nats.stop()

    async def work(lease: Lease, step: StepRow) -> StepResult:
        raise AssertionError("nothing is requested")

    service = observer(own, work)

    async def lag() -> float | None:
        return value(await scrape(service), "vigil_consumer_pending_messages", consumer="observer")

    def waits_for(reason: str) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return reason in (await service.fault() or "")

        return look

    async with running_service(service):
        await wait_until(waits_for("NATS: not connected"), what="the service to wait for NATS")
        assert isnan(await lag() or 0)
        own_nats.start()
        await wait_until(waits_for("is not on stream"), what="the service to wait for its consumer")
        assert isnan(await lag() or 0)
        await provision_stream(own)
        await wait_until(lambda: ready(service), what="the observer to be ready")
        assert await lag() == 0
