"""What the state implies, as events: the same ones whenever, and by whomever, they are asked for.

Actors publish from here after a commit, again after a redelivery, and the reconciler when the bus has lost a message.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.agents import conversations
from shared.database.statements import Direct
from shared.database.tables import Call, Iteration, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.events import models as events
from shared.events.envelope import Event
from shared.workflow import steps as step_store
from shared.workflow.iterations import IterationRow, StepRow

_COST: Final = Direct(
    select(func.sum(Call.cost_usd)).where(Call.iteration_id == bindparam("of_iteration"))
)


async def requested(session: AsyncSession, step: Step) -> Event:
    """The event that asks a worker for `step`, whatever its kind."""
    if step.iteration_id is None:
        return order(step)
    return request(await step_store.iteration_of(session, step), step)


def order(step: Step) -> Event:
    """The event that asks a worker for `step`, which is no iteration's."""
    about = {"agent_id": step.agent_id, "step_id": step.id, "occurred_at": step.first_requested_at}
    match StepKind(step.kind):
        case StepKind.CONFIGURE:
            return events.ConfigurationRequested.of(**about)
        case StepKind.CONVERSE:
            return events.AnswerRequested.of(**about)
        case kind:
            raise AssertionError(f"a step of kind {kind} is an iteration's")


def request(iteration: Iteration | IterationRow, step: Step | StepRow) -> Event:
    """The event that asks a worker for `step` of `iteration`."""
    about = _about(step)
    # Not the stage's time, which moves on while the step may still be asked for again. Rows of older data have no other.
    asked_at = step.first_requested_at or iteration.stage_changed_at
    match StepKind(step.kind):
        case StepKind.OBSERVE:
            return events.IterationStarted.of(
                **about,
                occurred_at=iteration.started_at,
                number=iteration.number,
                why=iteration.why,
            )
        case StepKind.QUERY:
            return events.QueryRequested.of(
                **about, occurred_at=asked_at, query=events.Query(**step.input)
            )
        case StepKind.INSIGHT:
            return events.InsightRequested.of(
                **about, occurred_at=asked_at, insight=events.Insight(**step.input)
            )
        case StepKind.ADVISE:
            return events.AnalysisProduced.of(
                **about, occurred_at=asked_at, analysis_ids=step.input["analysis_ids"]
            )
        case kind:
            raise AssertionError(f"a step of kind {kind} is no iteration's")


async def ended(session: AsyncSession, step: Step) -> Sequence[Event]:
    """The events that follow from `step` having ended."""
    if step.iteration_id is None:
        return [_order_ended(step), *await _next_order(session, step)]
    about = _about(step) | {"occurred_at": step.ended_at}
    failed = step.status == StepStatus.FAILED
    result = step.result or {}
    match StepKind(step.kind):
        case StepKind.OBSERVE:
            if failed:
                return [events.PlanFailed.of(**about, error=step.error)]
            return await _planned(session, step, about)
        case StepKind.QUERY:
            if failed:
                return [events.QueryFailed.of(**about, error=step.error)]
            return [events.QueryCompleted.of(**about, nodes=result["nodes"], edges=result["edges"])]
        case StepKind.INSIGHT:
            if failed:
                return [events.InsightFailed.of(**about, error=step.error)]
            return [
                events.InsightCompleted.of(
                    **about, analyses=len(result["analyses"]), missing=result["missing"]
                )
            ]
        case StepKind.ADVISE:
            if failed:
                return [events.AdviceFailed.of(**about, error=step.error)]
            return _advised(result["advice"], about)
        case kind:
            raise AssertionError(f"a step of kind {kind} is no iteration's")


def _order_ended(step: Step) -> Event:
    about = {"agent_id": step.agent_id, "step_id": step.id, "occurred_at": step.ended_at}
    failed = step.status == StepStatus.FAILED
    match StepKind(step.kind):
        case StepKind.CONFIGURE if failed:
            return events.ConfigurationFailed.of(**about, error=step.error)
        case StepKind.CONFIGURE:
            return events.ConfigurationCompleted.of(**about)
        case StepKind.CONVERSE if failed:
            return events.AnswerFailed.of(**about, error=step.error)
        case StepKind.CONVERSE:
            return events.AnswerCompleted.of(**about)
        case kind:
            raise AssertionError(f"a step of kind {kind} is an iteration's")


async def _next_order(session: AsyncSession, step: Step) -> Sequence[Event]:
    """Answers of one conversation are made one after another: the end of one asks for the next."""
    if step.kind != StepKind.CONVERSE:
        return []
    following = await conversations.asked_next(session, step)
    return [] if following is None else [order(following)]


async def iteration_ended(
    session: AsyncSession,
    iteration: Iteration | IterationRow,
    done: Sequence[Step | StepRow] | None = None,
) -> Event:
    """The event of `iteration`'s end, with its counts and what its calls cost as far as that is known.

    `done` are its steps; without them they are read.
    """
    about: dict[str, Any] = {
        "agent_id": iteration.agent_id,
        "iteration_id": iteration.id,
        "occurred_at": iteration.ended_at,
        "number": iteration.number,
        "errors": iteration.errors,
        "cost_usd": await _COST.value(session, {"of_iteration": iteration.id}),
    }
    if iteration.status == IterationStatus.FAILED:
        return events.IterationFailed.of(**about)
    if done is None:
        done = await step_store.of_iteration(session, iteration.id)
    return events.IterationCompleted.of(
        **about,
        queries=sum(step.kind == StepKind.QUERY for step in done),
        insights=sum(step.kind == StepKind.INSIGHT for step in done),
        analyses=sum(len((step.result or {}).get("analyses", [])) for step in done),
        advice=sum(len((step.result or {}).get("advice", [])) for step in done),
    )


async def _planned(session: AsyncSession, observe: Step, about: dict[str, Any]) -> Sequence[Event]:
    iteration, plan = await step_store.planned(session, observe)
    queries = [step for step in plan if step.kind == StepKind.QUERY]
    insights = sum(step.kind == StepKind.INSIGHT for step in plan)
    produced = events.PlanProduced.of(**about, queries=len(queries), insights=insights)
    return [produced, *(request(iteration, query) for query in queries)]


def _advised(advice: list[dict[str, Any]], about: dict[str, Any]) -> Sequence[Event]:
    return [
        *(
            events.AdviceProduced.of(**about, advice_id=given["id"], action=given["action"])
            for given in advice
        ),
        events.AdviceCompleted.of(**about, advice=len(advice)),
    ]


def _about(step: Step | StepRow) -> dict[str, Any]:
    return {
        "agent_id": step.agent_id,
        "iteration_id": step.iteration_id,
        "step_id": step.id,
    }
