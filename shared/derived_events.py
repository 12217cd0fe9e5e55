"""Derives events from the stored state. The same state always gives the same events.

Services publish them after a commit and again after a redelivery. The reconciler publishes them if the bus lost a message.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

from shared.agents import conversations
from shared.database.statements import BoundQuery, CompiledStatement, Executor
from shared.database.transaction import Transaction
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.events import models as events
from shared.events.envelope import Event
from shared.workflow import steps as step_store
from shared.workflow.iterations import IterationRow, StepRow

_TOTALS: Final = CompiledStatement("""
select (select sum(cost_usd) from calls where iteration_id = :of_iteration) as cost_usd,
  (select graph_root from iterations where id = :of_iteration) as graph_root
""")


class IterationTotals(NamedTuple):
    """What the event of an iteration's end says, and neither its row as the join sees it nor its steps have."""

    cost_usd: Decimal | None
    """The known cost of its calls in dollars; None if no cost is known."""
    graph_root: bytes | None
    """The newest hash of the graph's journal when it ended; None if the graph was never written."""


async def step_requested_event(transaction: Executor, step: StepRow) -> Event:
    """Returns the event that requests `step`, of any kind, from a worker."""
    if step.iteration_id is None:
        return agent_task_event(step)
    if step.kind != StepKind.OBSERVE:
        return later_step_event(step)
    return iteration_step_event(await step_store.iteration_query(step).execute(transaction), step)


def agent_task_event(step: StepRow) -> Event:
    """Returns the event that requests `step`, an agent task, from a worker."""
    fields = {"agent_id": step.agent_id, "step_id": step.id, "occurred_at": step.first_requested_at}
    match StepKind(step.kind):
        case StepKind.CONFIGURE:
            return events.ConfigurationRequested.of(**fields)
        case StepKind.CONVERSE:
            return events.AnswerRequested.of(**fields)
        case kind:
            raise AssertionError(f"a step of kind {kind} belongs to an iteration")


def iteration_step_event(iteration: IterationRow, step: StepRow) -> Event:
    """Returns the event that requests `step` of `iteration` from a worker."""
    if step.kind != StepKind.OBSERVE:
        return later_step_event(step)
    return events.IterationStarted.of(
        **_step_fields(step),
        occurred_at=iteration.started_at,
        number=iteration.number,
        why=iteration.why,
    )


def later_step_event(step: StepRow) -> Event:
    """Does the same for a step of an iteration that is not its first."""
    fields = _step_fields(step) | {"occurred_at": step.first_requested_at}
    match StepKind(step.kind):
        case StepKind.QUERY:
            return events.QueryRequested.of(**fields, query=events.Query(**step.input))
        case StepKind.INSIGHT:
            return events.InsightRequested.of(**fields, insight=events.Insight(**step.input))
        case StepKind.ADVISE:
            return events.AnalysisProduced.of(**fields, analysis_ids=step.input["analysis_ids"])
        case kind:
            raise AssertionError(f"a step of kind {kind} does not follow another one")


async def events_after_step(transaction: Transaction, step: StepRow) -> Sequence[Event]:
    """Returns the events that follow from the end of `step`."""
    if step.iteration_id is None:
        return [_events_after_agent_task(step), *await _next_answer_request(transaction, step)]
    if step.kind != StepKind.OBSERVE or step.status == StepStatus.FAILED:
        return events_after_iteration_step(step, ())
    return events_after_iteration_step(
        step, await step_store.list_plan(transaction, step.iteration_id)
    )


def events_after_iteration_step(step: StepRow, plan: Sequence[StepRow]) -> Sequence[Event]:
    """Does the same for a step of an iteration. `plan` has the steps that an observe step has planned."""
    fields = _step_fields(step) | {"occurred_at": step.ended_at}
    has_failed = step.status == StepStatus.FAILED
    result = step.result or {}
    match StepKind(step.kind):
        case StepKind.OBSERVE:
            if has_failed:
                return [events.PlanFailed.of(**fields, error=step.error)]
            return _events_after_plan(plan, fields)
        case StepKind.QUERY:
            if has_failed:
                return [events.QueryFailed.of(**fields, error=step.error)]
            return [
                events.QueryCompleted.of(**fields, nodes=result["nodes"], edges=result["edges"])
            ]
        case StepKind.INSIGHT:
            if has_failed:
                return [events.InsightFailed.of(**fields, error=step.error)]
            return [
                events.InsightCompleted.of(
                    **fields, analyses=len(result["analyses"]), missing=result["missing"]
                )
            ]
        case StepKind.ADVISE:
            if has_failed:
                return [events.AdviceFailed.of(**fields, error=step.error)]
            return _events_after_advice(result["advice"], fields)
        case kind:
            raise AssertionError(f"a step of kind {kind} is an agent task")


def _events_after_agent_task(step: StepRow) -> Event:
    fields = {"agent_id": step.agent_id, "step_id": step.id, "occurred_at": step.ended_at}
    has_failed = step.status == StepStatus.FAILED
    match StepKind(step.kind):
        case StepKind.CONFIGURE if has_failed:
            return events.ConfigurationFailed.of(**fields, error=step.error)
        case StepKind.CONFIGURE:
            return events.ConfigurationCompleted.of(**fields)
        case StepKind.CONVERSE if has_failed:
            return events.AnswerFailed.of(**fields, error=step.error)
        case StepKind.CONVERSE:
            return events.AnswerCompleted.of(**fields)
        case kind:
            raise AssertionError(f"a step of kind {kind} belongs to an iteration")


async def _next_answer_request(transaction: Transaction, step: StepRow) -> Sequence[Event]:
    """The answers of a conversation are generated one at a time. The end of one requests the next."""
    if step.kind != StepKind.CONVERSE:
        return []
    next_step = await conversations.find_requested_answer(transaction, step)
    return [] if next_step is None else [agent_task_event(next_step)]


async def iteration_ended_event(
    transaction: Executor, iteration: IterationRow, steps: Sequence[StepRow]
) -> Event:
    """Returns the event of `iteration`'s end, with the counts of its `steps` and the known cost of its calls."""
    return iteration_ended_with(
        iteration, steps, await iteration_totals(iteration.id).execute(transaction)
    )


def iteration_totals(iteration_id: UUID) -> BoundQuery[IterationTotals]:
    return BoundQuery(
        _TOTALS, {"of_iteration": iteration_id}, lambda rows: IterationTotals(*rows[0])
    )


def iteration_ended_with(
    iteration: IterationRow, steps: Sequence[StepRow], totals: IterationTotals
) -> Event:
    """Does the same with known totals."""
    fields: dict[str, Any] = {
        "agent_id": iteration.agent_id,
        "iteration_id": iteration.id,
        "occurred_at": iteration.ended_at,
        "number": iteration.number,
        "errors": iteration.errors,
        "cost_usd": totals.cost_usd,
    }
    if iteration.status == IterationStatus.FAILED:
        return events.IterationFailed.of(**fields)
    return events.IterationCompleted.of(
        **fields,
        queries=sum(step.kind == StepKind.QUERY for step in steps),
        insights=sum(step.kind == StepKind.INSIGHT for step in steps),
        analyses=sum(len((step.result or {}).get("analyses", [])) for step in steps),
        advice=sum(len((step.result or {}).get("advice", [])) for step in steps),
        quiet=iteration.status == IterationStatus.QUIET,
        graph_root=None if totals.graph_root is None else totals.graph_root.hex(),
    )


def _events_after_plan(plan: Sequence[StepRow], fields: dict[str, Any]) -> Sequence[Event]:
    queries = [step for step in plan if step.kind == StepKind.QUERY]
    insights = sum(step.kind == StepKind.INSIGHT for step in plan)
    produced = events.PlanProduced.of(**fields, queries=len(queries), insights=insights)
    return [produced, *(later_step_event(query) for query in queries)]


def _events_after_advice(advice: list[dict[str, Any]], fields: dict[str, Any]) -> Sequence[Event]:
    return [
        *(
            events.AdviceProduced.of(**fields, advice_id=item["id"], action=item["action"])
            for item in advice
        ),
        events.AdviceCompleted.of(**fields, advice=len(advice)),
    ]


def _step_fields(step: StepRow) -> dict[str, Any]:
    return {
        "agent_id": step.agent_id,
        "iteration_id": step.iteration_id,
        "step_id": step.id,
    }
