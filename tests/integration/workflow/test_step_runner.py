"""The step runner and leases: a step is found, claimed once, retried, failed and handed over."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, select, text, update

from shared import derived_events
from shared.database.engine import Database
from shared.database.statements import STRICT, Batch, BoundQuery
from shared.database.tables import DeadLetter, Step
from shared.durations import LEASE_SECONDS
from shared.enums import StepKind, StepStatus
from shared.errors import PermanentError, RetrySoonError, TransientError
from shared.runtime import step_runner as work_module
from shared.runtime.bus import Bus
from shared.runtime.consumer import MessageConsumer
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepHandler, StepResult
from shared.workflow import iterations, leases, steps
from shared.workflow.iterations import StepChanges, StepRow
from shared.workflow.leases import (
    AlreadyEnded,
    Lease,
    LeaseLostError,
    NotFound,
    Unavailable,
)
from tests.support import claims
from tests.support.claims import AGENT_ROW, Claim, Claimed
from tests.support.factories import make_agent, make_iteration
from tests.support.joins import QUERY
from tests.support.lock_probe import SLOW_COMMIT, slow_commits
from tests.support.steps import (
    observer,
    observer_is_idle,
    published_subjects,
    reload_step,
    request_observe_step,
    running_service,
    status_is,
)
from tests.support.waiting import wait_until

Run = Callable[[StepHandler], Awaitable[None]]


async def test_a_step_is_run_completed_and_published(
    settings: Settings, database: Database, bus: Bus
) -> None:
    async def work(lease: Lease, step: StepRow) -> StepResult:
        return StepResult({"queries": 0, "insights": 0})

    step = await request_observe_step(database, bus)
    async with running_service(observer(settings, work)):
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    completed = await reload_step(database, step)
    assert (completed.status, completed.lease_owner) == (StepStatus.COMPLETED, None)
    assert await published_subjects(bus) == ["iteration.started", "plan.produced"]


async def test_a_repeated_request_runs_the_step_once_and_publishes_the_same_event(
    settings: Settings, database: Database, bus: Bus
) -> None:
    runs = 0

    async def work(lease: Lease, step: StepRow) -> StepResult:
        nonlocal runs
        runs += 1
        return StepResult({"queries": 0, "insights": 0})

    started_iteration = await make_iteration(database, await make_agent(database))
    request = derived_events.iteration_step_event(
        started_iteration.iteration, started_iteration.observe
    )
    for resend in range(3):
        await bus.publish(request, resend=resend)
    # A message for a step that is being handled is redelivered when a lease has passed.
    short_lease = settings.model_copy(update={"lease_seconds": 1.0})
    async with running_service(observer(short_lease, work)):
        await wait_until(lambda: observer_is_idle(bus), what="all three messages to be acked")
    assert runs == 1
    assert (await published_subjects(bus)).count("plan.produced") == 1


@pytest.mark.parametrize(
    ("age", "is_counted"), [(timedelta(), False), (timedelta(minutes=1), True)]
)
async def test_a_claim_is_counted_before_the_run_where_an_earlier_worker_may_have_died(
    settings: Settings,
    database: Database,
    bus: Bus,
    age: timedelta,
    is_counted: bool,
) -> None:
    epochs: list[int] = []

    async def work(lease: Lease, step: StepRow) -> StepResult:
        epochs.append((await reload_step(database, step)).epoch)
        return StepResult({"queries": 0, "insights": 0})

    started_iteration = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        first_requested_at = Step.first_requested_at - age
        statement = update(Step).where(Step.id == started_iteration.observe.id)
        await session.execute(statement.values(first_requested_at=first_requested_at))
    await bus.publish(
        derived_events.iteration_step_event(started_iteration.iteration, started_iteration.observe)
    )
    async with running_service(observer(settings, work)):
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    assert epochs == [int(is_counted)]
    assert (await reload_step(database, started_iteration.observe)).epoch == 1


async def test_a_permanent_error_fails_the_step_and_stores_a_dead_letter(
    settings: Settings, database: Database, bus: Bus
) -> None:
    async def work(lease: Lease, step: StepRow) -> StepResult:
        raise PermanentError("llm_key", "the key is wrong")

    step = await request_observe_step(database, bus)
    async with running_service(observer(settings, work)):
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    failed = await reload_step(database, step)
    assert (failed.status, failed.error) == (StepStatus.FAILED, "the key is wrong")
    async with database.transaction() as session:
        dead_letter = (await session.scalars(select(DeadLetter))).one()
    assert (dead_letter.code, dead_letter.step_id, dead_letter.service) == (
        "llm_key",
        step.id,
        "observer",
    )
    assert await published_subjects(bus) == ["iteration.started", "plan.failed"]


async def test_a_transient_error_is_retried_until_attempts_are_used_up(
    settings: Settings, database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_module, "MIN_BACKOFF_SECONDS", 0.01)
    tries = 0

    async def work(lease: Lease, step: StepRow) -> StepResult:
        nonlocal tries
        tries += 1
        raise TransientError("the server is away")

    step = await request_observe_step(database, bus)
    async with running_service(observer(settings.model_copy(update={"max_attempts": 3}), work)):
        await wait_until(
            lambda: status_is(database, step, StepStatus.FAILED), what="the step to fail"
        )
    failed = await reload_step(database, step)
    assert tries == 3
    assert failed.error == (
        "the server is away (gave up after 3 attempts; VIGIL_MAX_ATTEMPTS sets the limit)"
    )


async def test_an_unavailable_engine_uses_up_no_attempt(
    settings: Settings, database: Database, bus: Bus
) -> None:
    tries = 0

    async def work(lease: Lease, step: StepRow) -> StepResult:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RetrySoonError("Postgres is away")
        return StepResult({"queries": 0, "insights": 0})

    step = await request_observe_step(database, bus)
    async with running_service(observer(settings.model_copy(update={"max_attempts": 1}), work)):
        await wait_until(
            lambda: status_is(database, step, StepStatus.COMPLETED), what="the step to complete"
        )
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    assert (await reload_step(database, step)).attempts == 0


async def test_a_stopping_worker_hands_its_step_over_at_once(
    settings: Settings, database: Database, bus: Bus
) -> None:
    begun = asyncio.Event()

    async def run_forever(lease: Lease, step: StepRow) -> StepResult:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def work(lease: Lease, step: StepRow) -> StepResult:
        return StepResult({"queries": 0, "insights": 0})

    step = await request_observe_step(database, bus)
    async with running_service(
        observer(settings.model_copy(update={"drain_seconds": 0.0}), run_forever)
    ):
        await asyncio.wait_for(begun.wait(), 10)
    assert await status_is(database, step, StepStatus.PENDING)
    async with running_service(observer(settings, work)):
        # Far less than ack_wait, after which NATS redelivers any message.
        await wait_until(
            lambda: status_is(database, step, StepStatus.COMPLETED), what="the step", seconds=15
        )


async def test_a_stopping_worker_completes_its_step_within_the_drain_period(
    settings: Settings, database: Database, bus: Bus
) -> None:
    begun, answered = asyncio.Event(), asyncio.Event()

    async def slow(lease: Lease, step: StepRow) -> StepResult:
        begun.set()
        await answered.wait()
        return StepResult({"queries": 0, "insights": 0})

    step = await request_observe_step(database, bus)
    worker = observer(settings.model_copy(update={"drain_seconds": 10.0}), slow)
    running_task = asyncio.create_task(worker.run())
    await asyncio.wait_for(begun.wait(), 10)
    running_task.cancel()
    await wait_until(lambda: is_stopping(worker), what="the service to stop")
    answered.set()
    with suppress(asyncio.CancelledError):
        await running_task
    completed = await reload_step(database, step)
    assert (completed.status, completed.epoch) == (StepStatus.COMPLETED, 1)
    assert await published_subjects(bus) == ["iteration.started", "plan.produced"]
    assert await observer_is_idle(bus)


async def is_stopping(worker: MessageConsumer) -> bool:
    return await worker.fault() == "still starting, or stopping"


async def test_a_step_of_another_kind_is_not_run(
    settings: Settings, database: Database, bus: Bus
) -> None:
    started_iteration = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        await session.execute(update(Step).values(kind=StepKind.QUERY))
    await bus.publish(
        derived_events.iteration_step_event(started_iteration.iteration, started_iteration.observe)
    )
    async with running_service(observer(settings, fail_if_run)):
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    untouched = await reload_step(database, started_iteration.observe)
    assert (untouched.status, untouched.epoch) == (StepStatus.PENDING, 0)
    async with database.transaction() as session:
        dead_letter = (await session.scalars(select(DeadLetter))).one()
    assert (dead_letter.service, dead_letter.code) == ("observer", "wrong_service")
    assert dead_letter.error.startswith("iteration.started requests a step of kind 'query'")


async def fail_if_run(lease: Lease, step: StepRow) -> StepResult:
    raise AssertionError("the step was run")


async def new_step(database: Database) -> StepRow:
    return (await make_iteration(database, await make_agent(database))).observe


async def claim(
    database: Database, step: StepRow, owner: str = "worker", seconds: float = LEASE_SECONDS
) -> Claim:
    async with database.transaction() as session:
        return await claims.claim(session, step.id, owner, seconds=seconds)


async def claim_lease(
    database: Database, step: StepRow, owner: str = "worker", seconds: float = LEASE_SECONDS
) -> Lease:
    result = await claim(database, step, owner, seconds)
    assert isinstance(result, Claimed)
    return result.lease


async def lapse(database: Database, step: StepRow) -> None:
    async with database.transaction() as session:
        lapsed_at = func.clock_timestamp() - timedelta(seconds=1)
        await session.execute(update(Step).where(Step.id == step.id).values(lease_until=lapsed_at))


async def test_only_one_of_many_workers_claims_the_step(database: Database) -> None:
    step = await new_step(database)
    claims = await asyncio.gather(*(claim(database, step, f"w{n}") for n in range(8)))
    assert sum(isinstance(result, Claimed) for result in claims) == 1
    assert sum(isinstance(result, Unavailable) for result in claims) == 7


async def test_a_lapsed_lease_is_taken_over_and_its_old_holder_cannot_write(
    database: Database,
) -> None:
    step = await new_step(database)
    old = await claim_lease(database, step, "old")
    await lapse(database, step)
    new = await claim_lease(database, step, "new")
    assert new.epoch == old.epoch + 1
    with pytest.raises(LeaseLostError):
        async with leases.leased_transaction(database, old):
            pass
    for write in (
        leases.renewal(old).execute,
        lambda session: steps.end(session, old, {}),
        lambda session: steps.fail(session, old, "x", attempts=1),
        lambda session: steps.release(session, old, "x", attempts=1, rest_seconds=0),
    ):
        with pytest.raises(LeaseLostError):
            async with database.transaction() as session:
                await write(session)
    async with leases.leased_transaction(database, new) as session:
        await steps.end(session, new, {"ok": True})
    result = await claim(database, step)
    assert isinstance(result, AlreadyEnded)
    assert result.step.result == {"ok": True}


async def test_a_lapsed_lease_that_was_not_taken_over_can_be_renewed(database: Database) -> None:
    step = await new_step(database)
    lease = await claim_lease(database, step)
    await lapse(database, step)
    async with database.transaction() as session:
        await leases.renewal(lease).execute(session)
    assert isinstance(await claim(database, step), Unavailable)


async def test_a_step_in_backoff_is_not_claimed_before_its_time(database: Database) -> None:
    step = await new_step(database)
    lease = await claim_lease(database, step)
    async with database.transaction() as session:
        await steps.release(session, lease, "429", attempts=1, rest_seconds=30)
    result = await claim(database, step)
    assert isinstance(result, Unavailable)
    assert 20 < result.seconds_left <= 30


async def test_a_missing_step_is_not_found(database: Database) -> None:
    async with database.transaction() as session:
        assert isinstance(await claims.claim(session, uuid4(), "worker"), NotFound)


async def test_work_is_cancelled_when_its_lease_is_lost(database: Database) -> None:
    step = await new_step(database)
    lease = await claim_lease(database, step, seconds=0.15)
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    task = asyncio.create_task(leases.run_while_renewing(database, lease, work()))
    await begun.wait()
    async with database.transaction() as session:
        await session.execute(update(Step).where(Step.id == step.id).values(epoch=lease.epoch + 1))
    with pytest.raises(LeaseLostError):
        await asyncio.wait_for(task, 10)
    assert cancelled.is_set()


async def test_a_result_is_returned_though_the_last_renewal_fails_to_commit(
    database: Database,
) -> None:
    lease = await claim_lease(database, await new_step(database), seconds=0.15)
    ended = asyncio.Event()

    async def renewing() -> int:
        async with database.transaction() as session:
            return await session.scalar(SLOW_COMMIT) or 0

    async def work() -> int:
        renewal = await wait_until(renewing, what="the commit of a renewal")
        ended.set()
        return renewal

    async with database.transaction() as session:
        await slow_commits(session, "update on steps")
    async with database.transaction() as session:
        await session.execute(text("select pg_advisory_xact_lock(1)"))
        task = asyncio.create_task(leases.run_while_renewing(database, lease, work()))
        await ended.wait()
        await session.execute(text(f"select pg_terminate_backend(pid) from ({SLOW_COMMIT}) as it"))
    assert await asyncio.wait_for(task, 10) > 0


async def test_run_while_renewing_passes_on_results_and_errors(database: Database) -> None:
    lease = await claim_lease(database, await new_step(database))

    async def succeed() -> int:
        return 42

    async def fail() -> int:
        raise ValueError("as it was")

    assert await leases.run_while_renewing(database, lease, succeed()) == 42
    with pytest.raises(ValueError, match="as it was"):
        await leases.run_while_renewing(database, lease, fail())


async def _plan(database: Database, query: BoundQuery[Any]) -> str:
    """The plan that workers use, whatever the values are."""
    statement = query.statement.bind({STRICT: False, **query.params}).sql.decode()
    async with database.connection() as connection:
        cursor = await connection.execute(f"explain (generic_plan) {statement}".encode())
        return "\n".join(row[0] for row in await cursor.fetchall())


@pytest.mark.parametrize("ended_steps", [60, 600])
async def test_a_step_is_found_by_its_id(database: Database, ended_steps: int) -> None:
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    iteration = started.iteration
    async with database.transaction() as session:
        planning = iterations.plan_steps(iteration, queries=[QUERY] * ended_steps, insights=[])
        await planning.execute(session)
        await session.execute(text("update steps set status = 'completed' where kind = 'query'"))
        await session.execute(text("analyze steps, iterations, agents"))
    lease = Lease(
        started.observe.id, iteration.id, agent.id, agent.owner_id, 1, "worker", 10.0, AGENT_ROW
    )
    seen = iterations.IterationRow(
        *[getattr(iteration, name) for name in iterations.IterationRow._fields]
    )
    batch = Batch()
    steps.end_with(batch, lease, {})
    (ending,) = batch._queries
    queries: dict[str, BoundQuery[Any]] = {
        "load": leases.load(lease.step_id, "worker"),
        "claim": leases.claim_query(lease, datetime.now(UTC)),
        "fence": leases.fence(lease),
        "renewal": leases.renewal(lease),
        "end": ending.query,
        "end of a wait": steps.wait_ending(lease),
        "load for the join": iterations.load_for_join(iteration.id, lease.step_id),
        "transition": iterations.move(seen, seen, StepChanges()),
    }
    for name, query in queries.items():
        plan = await _plan(database, query)
        assert "Seq Scan" not in plan, f"{name}\n{plan}"
        assert "steps_open_idx" not in plan, f"{name}\n{plan}"
        assert "steps_pkey" in plan, f"{name}\n{plan}"
