"""The deadline of an iteration limits the time without progress, not its duration."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from cli.local.members import prepare
from services.aggregator.deadlines import Deadlines
from services.aggregator.handler import Aggregate
from shared.billing import call_ledger
from shared.database.engine import Database
from shared.database.tables import Call, Iteration, Step
from shared.enums import IterationStatus
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.workflow import iterations, leases, steps
from shared.workflow.leases import Lease
from shared.workflow.steps import Pauses
from tests.support import claims
from tests.support.spending import Spender

PATIENCE_SECONDS = 1800.0


def ago(**units: float) -> Any:
    return func.clock_timestamp() - timedelta(**units)


async def make_stalled(database: Database) -> Spender:
    """Makes a step with a call sent three hours ago, in an iteration whose deadline has passed."""
    spender = await Spender.of(database)
    await spender.reserved("1")
    began = ago(hours=3)
    async with database.transaction() as session:
        await session.execute(
            update(Iteration).values(
                started_at=began, stage_changed_at=began, deadline_at=ago(hours=2)
            )
        )
        await session.execute(update(Step).values(first_requested_at=began, started_at=began))
        await session.execute(update(Call).values(started_at=began, sent_at=began))
    return spender


async def check_deadline(database: Database, bus: Bus, spender: Spender) -> Iteration:
    await Deadlines(database, bus, Aggregate(database), PATIENCE_SECONDS).end_stalled()
    assert spender.lease.iteration_id is not None
    async with database.transaction() as session:
        return await session.get_one(Iteration, spender.lease.iteration_id)


async def now(database: Database) -> datetime:
    async with database.transaction() as session:
        return await iterations.database_time(session)


async def test_the_time_in_which_nothing_ran_is_not_time_without_progress(
    settings: Settings, database: Database, bus: Bus
) -> None:
    """As after a restore, or of a machine that was off."""
    spender = await make_stalled(database)
    started_at = await now(database)
    patient = settings.model_copy(update={"iteration_deadline_seconds": PATIENCE_SECONDS})
    await prepare(patient)
    iteration = await check_deadline(database, bus, spender)
    assert iteration.status == IterationStatus.RUNNING
    assert iteration.deadline_at >= started_at + timedelta(seconds=PATIENCE_SECONDS)


async def test_an_iteration_without_progress_fails_and_names_the_setting(
    database: Database, bus: Bus
) -> None:
    iteration = await check_deadline(database, bus, await make_stalled(database))
    assert iteration.status == IterationStatus.FAILED
    assert iteration.errors == [
        "no progress for 1800 s while observing: no step ended and no call was answered"
        " (VIGIL_ITERATION_DEADLINE_SECONDS sets this limit)"
    ]


@pytest.mark.parametrize(
    "progress", ["a step ended", "a call was answered", "an answer grew", "stage"]
)
async def test_progress_postpones_the_deadline(database: Database, bus: Bus, progress: str) -> None:
    spender = await make_stalled(database)
    recent = ago(minutes=10)
    statement = {
        "a step ended": update(Step).values(ended_at=recent),
        "a call was answered": update(Call).values(answered_at=recent),
        "an answer grew": update(Call).values(progressed_at=recent, received_chars=7),
        "stage": update(Iteration).values(stage_changed_at=recent),
    }[progress]
    async with database.transaction() as session:
        await session.execute(statement)
    iteration = await check_deadline(database, bus, spender)
    assert iteration.status == IterationStatus.RUNNING
    left_seconds = (iteration.deadline_at - await now(database)).total_seconds()
    assert left_seconds == pytest.approx(PATIENCE_SECONDS - 600, abs=30)


async def test_a_streamed_response_of_hours_postpones_the_deadline_repeatedly(
    database: Database, bus: Bus
) -> None:
    spender = await make_stalled(database)
    async with database.transaction() as session:
        call_id = (await session.scalars(select(Call.id))).one()
    await call_ledger.report_progress(database, call_id, 12_000)
    assert (await check_deadline(database, bus, spender)).status == IterationStatus.RUNNING
    async with database.transaction() as session:
        await session.execute(update(Call).values(progressed_at=ago(hours=1)))
        await session.execute(update(Iteration).values(deadline_at=ago(minutes=1)))
    assert (await check_deadline(database, bus, spender)).status == IterationStatus.FAILED


async def test_the_deadline_does_not_pass_while_a_step_waits_for_a_provider(
    database: Database, bus: Bus
) -> None:
    spender = await make_stalled(database)
    async with database.transaction() as session:
        await steps.wait(session, spender.lease, "connection refused", pauses=Pauses())
        await session.execute(update(Step).values(waiting_since=ago(hours=2)))
    iteration = await check_deadline(database, bus, spender)
    assert iteration.status == IterationStatus.RUNNING
    assert iteration.deadline_at > await now(database), "the deadline is not checked all the time"


async def test_the_deadline_passes_if_the_returned_provider_brings_no_progress(
    database: Database, bus: Bus
) -> None:
    spender = await make_stalled(database)
    async with database.transaction() as session:
        await steps.wait(session, spender.lease, "connection refused", pauses=Pauses())
        await session.execute(update(Step).values(retry_at=None))
        claim = await claims.claimed(session, spender.lease.step_id, "another")
        await steps.wait_ending(claim.lease).execute(session)
    iteration = await check_deadline(database, bus, spender)
    assert iteration.status == IterationStatus.FAILED
    await assert_lease_lost(database, claim.lease)


async def assert_lease_lost(database: Database, lease: Lease) -> None:
    with pytest.raises(leases.LeaseLostError):
        async with leases.leased_transaction(database, lease):
            raise AssertionError("its step was abandoned")
