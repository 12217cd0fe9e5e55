"""Leases: one holder, and nobody else may write."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import func, text, update

from shared.database.engine import Database
from shared.database.tables import Step
from shared.workflow import leases, steps
from shared.workflow.leases import (
    LEASE_SECONDS,
    AlreadyEnded,
    Claimed,
    Lease,
    LeaseLostError,
    NotFound,
    Unavailable,
)
from tests.support.locked import SLOW_COMMIT, slow_commits
from tests.support.making import make_agent, make_iteration
from tests.support.waiting import until


async def new_step(database: Database) -> Step:
    return (await make_iteration(database, await make_agent(database))).observe


async def claim(
    database: Database, step: Step, owner: str = "worker", seconds: float = LEASE_SECONDS
) -> leases.Claim:
    async with database.transaction() as session:
        return await leases.claim(session, step.id, owner, seconds=seconds)


async def claimed(
    database: Database, step: Step, owner: str = "worker", seconds: float = LEASE_SECONDS
) -> Lease:
    got = await claim(database, step, owner, seconds)
    assert isinstance(got, Claimed)
    return got.lease


async def lapse(database: Database, step: Step) -> None:
    async with database.transaction() as session:
        past = func.clock_timestamp() - timedelta(seconds=1)
        await session.execute(update(Step).where(Step.id == step.id).values(lease_until=past))


async def test_of_many_workers_one_gets_the_step(database: Database) -> None:
    step = await new_step(database)
    claims = await asyncio.gather(*(claim(database, step, f"w{n}") for n in range(8)))
    assert sum(isinstance(got, Claimed) for got in claims) == 1
    assert sum(isinstance(got, Unavailable) for got in claims) == 7


async def test_a_lapsed_lease_is_taken_and_its_holder_refused_everywhere(
    database: Database,
) -> None:
    step = await new_step(database)
    old = await claimed(database, step, "old")
    await lapse(database, step)
    new = await claimed(database, step, "new")
    assert new.epoch == old.epoch + 1
    with pytest.raises(LeaseLostError):
        async with leases.leased_transaction(database, old):
            pass
    for write in (
        lambda session: leases.renew(session, old),
        lambda session: steps.end(session, old, {}),
        lambda session: steps.fail(session, old, "x", attempts=1),
        lambda session: steps.release(session, old, "x", attempts=1, rest_seconds=0),
    ):
        with pytest.raises(LeaseLostError):
            async with database.transaction() as session:
                await write(session)
    async with leases.leased_transaction(database, new) as session:
        await steps.end(session, new, {"ok": True})
    ended = await claim(database, step)
    assert isinstance(ended, AlreadyEnded)
    assert ended.step.result == {"ok": True}


async def test_a_lapsed_lease_that_nobody_took_is_still_its_holders(database: Database) -> None:
    step = await new_step(database)
    lease = await claimed(database, step)
    await lapse(database, step)
    async with database.transaction() as session:
        await leases.renew(session, lease)
    assert isinstance(await claim(database, step), Unavailable)


async def test_a_resting_step_is_not_claimed_before_its_time(database: Database) -> None:
    step = await new_step(database)
    lease = await claimed(database, step)
    async with database.transaction() as session:
        await steps.release(session, lease, "429", attempts=1, rest_seconds=30)
    got = await claim(database, step)
    assert isinstance(got, Unavailable)
    assert 20 < got.seconds_left <= 30


async def test_a_step_that_is_not_there_is_gone(database: Database) -> None:
    async with database.transaction() as session:
        assert isinstance(await leases.claim(session, uuid4(), "worker"), NotFound)


async def test_work_is_cancelled_when_its_lease_is_lost(database: Database) -> None:
    step = await new_step(database)
    lease = await claimed(database, step, seconds=0.15)
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    holding = asyncio.create_task(leases.run_while_renewing(database, lease, work()))
    await begun.wait()
    async with database.transaction() as session:
        await session.execute(update(Step).where(Step.id == step.id).values(epoch=lease.epoch + 1))
    with pytest.raises(LeaseLostError):
        await asyncio.wait_for(holding, 10)
    assert cancelled.is_set()


async def test_a_renewal_whose_commit_fails_just_as_the_work_ends_is_the_last(
    database: Database,
) -> None:
    lease = await claimed(database, await new_step(database), seconds=0.15)
    ended = asyncio.Event()

    async def renewing() -> int:
        async with database.transaction() as session:
            return await session.scalar(SLOW_COMMIT) or 0

    async def work() -> int:
        renewal = await until(renewing, what="the commit of a renewal")
        ended.set()
        return renewal

    async with database.transaction() as session:
        await slow_commits(session, "update on steps")
    async with database.transaction() as session:
        await session.execute(text("select pg_advisory_xact_lock(1)"))
        holding = asyncio.create_task(leases.run_while_renewing(database, lease, work()))
        await ended.wait()
        await session.execute(text(f"select pg_terminate_backend(pid) from ({SLOW_COMMIT}) as it"))
    assert await asyncio.wait_for(holding, 10) > 0


async def test_while_held_passes_results_and_errors_on(database: Database) -> None:
    lease = await claimed(database, await new_step(database))

    async def well() -> int:
        return 42

    async def badly() -> int:
        raise ValueError("as it was")

    assert await leases.run_while_renewing(database, lease, well()) == 42
    with pytest.raises(ValueError, match="as it was"):
        await leases.run_while_renewing(database, lease, badly())
