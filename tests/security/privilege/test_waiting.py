"""Waiting for providers and deferring deadlines, each under the role of the service that does it."""

from datetime import timedelta

from sqlalchemy import func, select, update

from services.aggregator.handler import Aggregate
from shared.billing import call_ledger
from shared.database.engine import Database
from shared.database.tables import Agent, Call, Iteration, Step
from shared.runtime.connections import create_database
from shared.workflow import iterations, steps
from shared.workflow.steps import Pauses
from tests.support import claims
from tests.support.claims import Claimed
from tests.support.secured_installation import SecuredInstallation
from tests.support.spending import Spender
from tests.support.table_rows import remove


async def test_services_may_store_waits_and_defer_deadlines(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    spender = await Spender.of(owner_database, name="Waiting")
    attempt = await spender.reserved("1")
    observer = create_database(installation.settings("observer"), "observer", pool_size=1)
    aggregator = create_database(installation.settings("aggregator"), "aggregator", pool_size=1)
    try:
        await call_ledger.report_progress(observer, attempt.call_id, 7)
        async with observer.transaction() as session:
            await steps.wait(session, spender.lease, "away", pauses=Pauses(0.0, 0.0))
        async with observer.transaction() as session:
            claim = await claims.claim(session, spender.lease.step_id, "observer")
            assert isinstance(claim, Claimed)
            await steps.wait_ending(claim.lease).execute(session)
        async with owner_database.transaction() as session:
            assert (await session.get_one(Call, attempt.call_id)).received_chars == 7
            day_ago = func.clock_timestamp() - timedelta(days=1)
            of_agent = Iteration.agent_id == spender.agent.id
            await session.execute(update(Iteration).where(of_agent).values(deadline_at=day_ago))
        async with aggregator.transaction() as session:
            stalled = iterations.list_stalled(600, look_again_seconds=60)
            assert await stalled.execute(session) == []
            deadline = await session.scalar(select(Iteration.deadline_at).where(of_agent))
            assert deadline is not None
            assert deadline > await iterations.database_time(session)
        assert spender.lease.iteration_id is not None
        [end] = await Aggregate(aggregator).pass_deadline(spender.lease.iteration_id, 600)
        assert end.subject == "iteration.failed"
        async with owner_database.transaction() as session:
            step = await session.get_one(Step, spender.lease.step_id)
            await remove(session, await session.get_one(Agent, spender.agent.id))
        assert (step.waits, step.waiting_since) == (1, None)
    finally:
        await observer.close()
        await aggregator.close()
