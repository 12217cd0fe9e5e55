"""What the agent is doing, in words."""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.lines import short, utc
from shared.graph.values import one_line
from shared.store import steps
from shared.store.tables import Agent, Iteration, Step
from shared.store.words import IterationStatus, StepKind, StepStatus

_PLURALS = {
    StepKind.OBSERVE: "plans",
    StepKind.QUERY: "queries",
    StepKind.INSIGHT: "insights",
    StepKind.ADVISE: "decisions on advice",
}
_ERRORS_TOLD = 3


async def current_state(session: AsyncSession, agent: Agent) -> str:
    """The iteration that runs, with its plan; the one that ended last; and when the next is due."""
    newest = await session.scalars(
        select(Iteration)
        .where(Iteration.agent_id == agent.id)
        .order_by(Iteration.number.desc())
        .limit(2)
    )
    lines = [f"You are called {agent.name}; an iteration begins every {agent.interval_seconds} s."]
    for iteration in newest:
        running = iteration.status == IterationStatus.RUNNING
        lines += await (_running(session, iteration) if running else _ended(session, iteration))
        if not running:
            break
    lines.append(_next(agent))
    return "\n".join(lines)


async def _running(session: AsyncSession, iteration: Iteration) -> list[str]:
    work = await steps.of_iteration(session, iteration.id)
    return [
        f"Iteration {iteration.number} runs since {utc(iteration.started_at)}"
        f" and is {iteration.stage}: {_progress(work)}.",
        *_plan(iteration),
    ]


async def _ended(session: AsyncSession, iteration: Iteration) -> list[str]:
    assert iteration.ended_at is not None
    work = await steps.of_iteration(session, iteration.id)
    results = [step.result or {} for step in work]
    analyses = sum(len(result.get("analyses", [])) for result in results)
    advice = sum(len(result.get("advice", [])) for result in results)
    told = [
        f"Iteration {iteration.number} ended as {iteration.status} at {utc(iteration.ended_at)}:"
        f" {_progress(work)}; {analyses} new analyses, {advice} new advice.",
        *_plan(iteration),
    ]
    told += [
        f"It had trouble: {short(one_line(error))}" for error in iteration.errors[:_ERRORS_TOLD]
    ]
    return told


def _next(agent: Agent) -> str:
    if agent.run_requested_at is not None:
        return "Another iteration was asked for and begins as soon as it can."
    if not agent.active:
        return "You are paused: no iteration begins by itself."
    return f"The next iteration is due at {utc(agent.next_run_at)}."


def _plan(iteration: Iteration) -> list[str]:
    plan = iteration.observer_plan or {}
    queries = [short(one_line(each.get("objective", ""))) for each in plan.get("queries", [])]
    insights = [short(one_line(each.get("observation", ""))) for each in plan.get("insights", [])]
    return [
        *(f"- query of iteration {iteration.number}: {text}" for text in queries),
        *(f"- insight of iteration {iteration.number}: {text}" for text in insights),
    ]


def _progress(work: Sequence[Step]) -> str:
    """`2 of 3 queries done, 1 failed`, for each kind of step that it has."""
    told = []
    for kind, plural in _PLURALS.items():
        counts = Counter(step.status for step in work if step.kind == kind)
        if counts:
            failed = counts[StepStatus.FAILED]
            done = f"{counts[StepStatus.COMPLETED]} of {counts.total()} {plural} done"
            told.append(f"{done}, {failed} failed" if failed else done)
    return "; ".join(told) or "nothing is done yet"
