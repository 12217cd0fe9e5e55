"""Steps that fail permanently, by a real worker on the real bus."""

from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import func, update

from services.researcher.router import create_router
from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Iteration, Step
from shared.enums import IterationStatus, Stage, StepKind, StepStatus
from shared.errors import PermanentError
from shared.runtime.bus import Bus
from shared.runtime.consumer import MessageConsumer
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepHandler, StepResult, step_consumer
from shared.workflow import dead_letters, iterations, leases, steps
from shared.workflow.iterations import IterationRow, StepRow
from tests.support import claims, table_rows
from tests.support.claims import Claim, Claimed
from tests.support.factories import make_agent, make_iteration
from tests.support.steps import running_service, status_is
from tests.support.stored_dead_letters import rows
from tests.support.waiting import wait_until

QUERY = {"objective": "lithium", "reasoning": "why not", "search_hints": []}


async def fail_permanently(lease: leases.Lease, step: StepRow) -> StepResult:
    raise PermanentError("llm_key", "the key is wrong")


async def succeed(lease: leases.Lease, step: StepRow) -> StepResult:
    return StepResult({"nodes": 1, "edges": 0})


def researcher(settings: Settings, work: StepHandler) -> MessageConsumer:
    return step_consumer(
        "researcher",
        settings,
        Database(settings.database_url, name="r"),
        {StepKind.QUERY: work},
        create_router,
        concurrency=2,
    )


async def planned(database: Database) -> tuple[IterationRow, StepRow]:
    """A running iteration with one requested query."""
    start = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        claim = await claims.claim(session, start.observe.id, "observer")
        assert isinstance(claim, Claimed)
        iteration = start.iteration
        await iterations.plan_steps(iteration, queries=[QUERY], insights=[]).execute(session)
        await steps.end(session, claim.lease, {})
        (query,) = await steps.list_steps(session, iteration.id, StepKind.QUERY)
    return iteration, query


async def end_iteration(database: Database, iteration: Iteration | IterationRow) -> None:
    """End the iteration as the aggregator does if every query has failed."""
    async with database.transaction() as session:
        row = await session.get_one(Iteration, iteration.id)
        row = await table_rows.change(
            session, row, status=IterationStatus.FAILED, stage=Stage.ENDED
        )
        row = await table_rows.change(
            session, row, ended_at=await iterations.database_time(session)
        )


async def failed_query(
    database: Database,
    bus: Bus,
    settings: Settings,
    work: StepHandler = fail_permanently,
    *,
    ended: bool = True,
) -> StepRow:
    """A query that a worker has failed permanently; unless `ended` is false, its iteration has ended."""
    iteration, query = await planned(database)
    await bus.publish(derived_events.iteration_step_event(iteration, query))
    async with running_service(researcher(settings, work)):
        await wait_until(partial(status_is, database, query, StepStatus.FAILED), what="the failure")
    if ended:
        await end_iteration(database, iteration)
    return query


async def request_retry(database: Database) -> None:
    async with database.transaction() as session:
        (dead_letter,) = await rows(database)
        await dead_letters.request_retries(session, [dead_letter.id])


async def claim_step(database: Database, step: StepRow) -> Claim:
    async with database.transaction() as session:
        return await claims.claim(session, step.id, "worker")


def ago(seconds: float) -> Any:
    return func.clock_timestamp() - timedelta(seconds=seconds)


async def change(database: Database, step: StepRow, **values: Any) -> None:
    async with database.transaction() as session:
        await session.execute(update(Step).where(Step.id == step.id).values(**values))
