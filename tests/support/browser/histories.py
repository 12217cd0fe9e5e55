"""Iterations for tests of the web UI, written to the database: failed, stopped, quiet and running ones."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import select, update

from shared.agents import agents
from shared.billing.budgets import SUSPENSION_WORDS
from shared.database.tables import Agent, Call, Interaction, Iteration, Step
from shared.database.transaction import Transaction
from shared.enums import CallKind, IterationStatus, Phase, Stage, StepKind, StepStatus
from shared.workflow.iterations import database_time
from tests.support.browser.agent_data import open_database
from tests.support.factories import make_ready
from tests.support.table_rows import add, change

QUIET_COUNT: Final = 5
REFUSED_KEY: Final = "Tavily refused the key: Unauthorized. Check TAVILY_API_KEY"
BUDGET_STOP: Final = (
    f"the budget of the agent for today is reached: 2 USD of 2 USD a day are spent. It is suspended {SUSPENSION_WORDS};"
    " a higher budget resumes it immediately"
)
_LATER: Final = timedelta(hours=1)


async def add_history(url: str, other_agent_id: str) -> UUID:
    """Adds an inactive agent: iteration 1 failed, 2 was stopped by the budget, and QUIET_COUNT quiet ones follow.

    It belongs to the owner of the agent `other_agent_id`. Returns its id.
    """
    async with open_database(url) as database, database.transaction() as session:
        agent = await _add_agent(session, UUID(other_agent_id))
        await _add_ended(session, agent, 1, IterationStatus.FAILED, StepKind.QUERY, REFUSED_KEY)
        await _add_ended(session, agent, 2, IterationStatus.FAILED, StepKind.OBSERVE, BUDGET_STOP)
        for number in range(3, 3 + QUIET_COUNT):
            await _add_ended(session, agent, number, IterationStatus.QUIET, StepKind.OBSERVE, None)
        await session.update(Agent, agent.id, iterations_started=2 + QUIET_COUNT)
        return agent.id


async def _add_agent(session: Transaction, other_agent_id: UUID) -> Agent:
    owner_id = (
        await session.scalars(select(Agent.owner_id).where(Agent.id == other_agent_id))
    ).one()
    agent = await agents.create_agent(
        session,
        owner_id,
        name=f"History {uuid4()}",
        mission="Watch battery makers",
        interval_seconds=86_400,
        active=False,
    )
    await make_ready(session, agent)
    return agent


async def _add_ended(
    session: Transaction,
    agent: Agent,
    number: int,
    status: IterationStatus,
    kind: StepKind,
    error: str | None,
) -> None:
    started_at = datetime.now(UTC) - timedelta(hours=3) + timedelta(minutes=5 * number)
    iteration = _iteration(agent, number, started_at, status=status, stage=Stage.ENDED)
    iteration.ended_at = iteration.end_published_at = started_at + timedelta(seconds=4)
    iteration.errors = [] if error is None else [f"{kind}: {error}"]
    await add(session, iteration)
    step = _step(iteration, kind, 0, StepStatus.COMPLETED if error is None else StepStatus.FAILED)
    step.started_at, step.ended_at = started_at, iteration.ended_at
    step.error, step.result = error, {"quiet": True} if error is None else None
    await add(session, step)


def _iteration(agent: Agent, number: int, started_at: datetime, **values: Any) -> Iteration:
    return Iteration(
        id=uuid4(),
        agent_id=agent.id,
        number=number,
        why="due",
        started_at=started_at,
        stage_changed_at=started_at,
        deadline_at=started_at + _LATER,
        **values,
    )


def _step(iteration: Iteration, kind: StepKind, index: int, status: StepStatus) -> Step:
    return Step(
        id=uuid4(),
        iteration_id=iteration.id,
        agent_id=iteration.agent_id,
        kind=kind,
        index=index,
        status=status,
        input={"objective": f"Who buys lithium from maker {index + 1}?"},
        first_requested_at=iteration.started_at,
        requested_at=iteration.started_at,
    )


async def begin_iteration(url: str, agent_id: UUID) -> int:
    """Adds a running iteration: its first query waits for the model, its second for the provider. Returns its number.

    No service of the installation continues it within the hour.
    """
    async with open_database(url) as database, database.transaction() as session:
        agent = await session.get_one(Agent, agent_id)
        agent = await change(session, agent, iterations_started=agent.iterations_started + 1)
        now = await database_time(session)
        started_at = now - timedelta(seconds=30)
        iteration = _iteration(
            agent,
            agent.iterations_started,
            started_at,
            status=IterationStatus.RUNNING,
            stage=Stage.RESEARCHING,
        )
        iteration.deadline_at = now + _LATER
        await add(session, iteration)
        running = _step(iteration, StepKind.QUERY, 0, StepStatus.RUNNING)
        running.started_at, running.lease_owner = started_at + timedelta(seconds=5), "test"
        running.lease_until, running.epoch = now + _LATER, 1
        waiting = _step(iteration, StepKind.QUERY, 1, StepStatus.PENDING)
        waiting.started_at = waiting.waiting_since = started_at + timedelta(seconds=8)
        waiting.retry_at, waiting.error = now + _LATER, "the model server answered 503: overloaded"
        await add(session, *[running, waiting])
        await _add_call(session, running)
        return iteration.number


async def _add_call(session: Transaction, step: Step) -> None:
    assert step.started_at is not None
    run = Interaction(
        id=uuid4(),
        agent_id=step.agent_id,
        iteration_id=step.iteration_id,
        step_id=step.id,
        phase=Phase.KNOWLEDGE_ACQUISITION,
        model="a-model",
        system_prompt="You search.",
        request={"messages": [{"role": "user", "content": "Who buys lithium?"}], "tools": []},
        created_at=step.started_at,
    )
    await add(session, run)
    await session.insert(
        Call,
        id=uuid4(),
        agent_id=step.agent_id,
        iteration_id=step.iteration_id,
        step_id=step.id,
        interaction_id=run.id,
        kind=CallKind.LLM,
        phase=run.phase,
        model=run.model,
        request_hash=str(run.id),
        request={},
        attempts=1,
        started_at=step.started_at,
        sent_at=step.started_at,
    )


async def end_query(url: str, agent_id: UUID, number: int) -> None:
    """Ends the first query of the iteration, as its worker would."""
    async with open_database(url) as database, database.transaction() as session:
        now = await database_time(session)
        iteration_id = (
            await session.scalars(
                select(Iteration.id).where(
                    Iteration.agent_id == agent_id, Iteration.number == number
                )
            )
        ).one()
        await session.execute(
            update(Call).where(Call.iteration_id == iteration_id).values(answered_at=now)
        )
        await session.execute(
            update(Interaction)
            .where(Interaction.iteration_id == iteration_id)
            .values(completed_at=now)
        )
        await session.execute(
            update(Step)
            .where(Step.iteration_id == iteration_id, Step.status == StepStatus.RUNNING)
            .values(status=StepStatus.COMPLETED, ended_at=now, result={"nodes": 0, "edges": 0})
        )
