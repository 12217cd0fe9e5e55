"""Iterations of one agent that end in a certain way, through the aggregator."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import select

from services.aggregator.handler import Aggregate
from shared import derived_events
from shared.billing.budgets import SUSPENSION_WORDS
from shared.database.engine import Database
from shared.database.tables import Agent, InboxItem, Iteration
from shared.enums import InboxKind, StepKind
from shared.workflow import attention, iterations, steps
from shared.workflow.attention import Attention
from shared.workflow.iterations import IterationRow, StepRow
from tests.support import claims
from tests.support.factories import make_iteration
from tests.support.joins import INSIGHT, QUERY

KEY_ERROR: Final = "the model server refused the key. Check OPENAI_API_KEY"
BUDGET_ERROR: Final = f"the budget is used up. The agent is suspended {SUSPENSION_WORDS}"
_RESULTS: Final[dict[str, tuple[StepKind, dict[str, Any]]]] = {
    "wrote nodes": (StepKind.QUERY, {"nodes": 2, "edges": 0}),
    "wrote edges": (StepKind.QUERY, {"nodes": 0, "edges": 1}),
    "wrote nothing": (StepKind.QUERY, {"nodes": 0, "edges": 0}),
    "analyzed": (StepKind.INSIGHT, {"analyses": [str(uuid4())], "missing": []}),
    "lacked data": (StepKind.INSIGHT, {"analyses": [], "missing": ["a figure"]}),
}
_ERRORS: Final = {"failed": KEY_ERROR, "over budget": BUDGET_ERROR}


async def run_courses(database: Database, agent: Agent, courses: Iterable[str]) -> None:
    for course in courses:
        await run_course(database, agent, course)


async def run_course(database: Database, agent: Agent, course: str) -> IterationRow:
    """Starts the agent's next iteration and ends it: a result of its only step, an error, `no plan`, `plan failed`,
    `quiet`, or `idle`: no plan although items wait.
    """
    start = await make_iteration(database, agent)
    kind, result = _RESULTS.get(course, (StepKind.QUERY, {}))
    is_insight = kind == StepKind.INSIGHT
    if course == "plan failed":
        await end_step(database, start.observe, error=KEY_ERROR)
        return start.iteration
    is_planned = course not in ("no plan", "idle", "quiet")
    if is_planned:
        async with database.transaction() as session:
            await iterations.plan_steps(
                start.iteration,
                queries=[] if is_insight else [QUERY],
                insights=[INSIGHT] if is_insight else [],
            ).execute(session)
    observed: dict[str, dict[str, Any]] = {
        "quiet": {iterations.QUIET: True},
        "idle": {attention.WAITING: 4},
    }
    await end_step(database, start.observe, observed.get(course))
    if not is_planned:
        return start.iteration
    async with database.transaction() as session:
        [step] = await steps.list_steps(session, start.iteration.id, kind)
    await end_step(database, step, result, error=_ERRORS.get(course))
    if is_insight and result["analyses"]:
        async with database.transaction() as session:
            [advise] = await steps.list_steps(session, start.iteration.id, StepKind.ADVISE)
        await end_step(database, advise, {"advice": [], "reason": "nothing to advise"})
    return start.iteration


async def end_step(
    database: Database,
    step: StepRow,
    result: dict[str, Any] | None = None,
    *,
    error: str | None = None,
) -> None:
    """Ends the step as a worker does, and lets the aggregator handle the event."""
    async with database.transaction() as session:
        claim = await claims.claimed(session, step.id, "worker")
        if error is None:
            ended = await steps.end(session, claim.lease, result or {})
        else:
            ended = await steps.fail(session, claim.lease, error, attempts=1)
        event, *_ = await derived_events.events_after_step(session, ended)
    await Aggregate(database)(event)


async def find_attention(database: Database, agent: Agent) -> Attention | None:
    async with database.transaction() as session:
        return (await attention.find([agent.id]).execute(session)).get(agent.id)


async def notices(database: Database, agent: Agent) -> Sequence[InboxItem]:
    """The agent's notices, oldest first."""
    async with database.transaction() as session:
        rows = await session.scalars(
            select(InboxItem)
            .where(InboxItem.agent_id == agent.id, InboxItem.kind == InboxKind.NOTICE)
            .order_by(InboxItem.created_at)
        )
        return rows.all()


@dataclass(frozen=True)
class NextRun:
    """`after` is the time from the start of the newest iteration to the next one."""

    at: datetime
    after: timedelta


async def next_run(database: Database, agent: Agent) -> NextRun:
    async with database.transaction() as session:
        row = await session.get_one(Agent, agent.id)
        started_at = await session.scalar(
            select(Iteration.started_at)
            .where(Iteration.agent_id == agent.id)
            .order_by(Iteration.number.desc())
            .limit(1)
        )
        assert started_at is not None
        return NextRun(row.next_run_at, row.next_run_at - started_at)
