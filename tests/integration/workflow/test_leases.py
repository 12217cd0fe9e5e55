"""Leases: a step has one holder, and only the holder may write."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import func, text, update

from shared.database.engine import Database
from shared.database.tables import Step
from shared.durations import LEASE_SECONDS
from shared.workflow import leases, steps
from shared.workflow.iterations import StepRow
from shared.workflow.leases import (
    AlreadyEnded,
    Lease,
    LeaseLostError,
    NotFound,
    Unavailable,
)
from tests.support import claims
from tests.support.claims import Claim, Claimed
from tests.support.factories import make_agent, make_iteration
from tests.support.lock_probe import SLOW_COMMIT, slow_commits
from tests.support.waiting import wait_until


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
