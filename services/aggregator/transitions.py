"""Loads what the join decides on, under the iteration's row lock, and carries its commands out in the same transaction."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.aggregator.reducer import (
    AbandonSteps,
    Command,
    Complete,
    Ended,
    Fail,
    Lack,
    NewInsight,
    NewQuery,
    Part,
    RequestAdvice,
    RequestAgain,
    RequestInsights,
    RequestQueries,
    State,
    Tick,
    join,
)
from shared.billing import reservations
from shared.database.tables import InvestigationRequest
from shared.enums import IterationStatus, Stage, StepKind, StepStatus
from shared.failpoints import CrashPoint, reach
from shared.workflow import investigations, iterations, steps
from shared.workflow.iterations import IterationRow, StepRow, Work

Lacks = Mapping[UUID, Sequence[Lack]]
"""By the step that said so."""


@dataclass(frozen=True)
class Rows:
    """An iteration, locked, and all that belongs to it, as it is now."""

    iteration: IterationRow
    work: Work
    requests: Sequence[InvestigationRequest] = ()

    @property
    def steps(self) -> Sequence[StepRow]:
        return self.work.steps

    def step(self, step_id: UUID) -> StepRow | None:
        return next((row for row in self.steps if row.id == step_id), None)

    def planned(self, kind: StepKind) -> tuple[UUID, ...]:
        """Those of the plan, without what later rounds have added."""
        return tuple(row.id for row in self.steps if row.kind == kind and not steps.round_of(row))


async def loaded(session: AsyncSession, iteration: IterationRow) -> Rows:
    work = await iterations.work(session, iteration)
    # Most agents look for nothing within an iteration: then nobody needs to know what was lacking.
    if not work.feedback_rounds:
        return Rows(iteration, work)
    return Rows(iteration, work, await investigations.of_iteration(session, iteration.id))


def state_of(rows: Rows) -> State:
    lacks = _lacks(rows.requests)
    return State(
        Stage(rows.iteration.stage),
        tuple(_part(row, lacks) for row in rows.steps),
        rows.iteration.id,
        rows.work.feedback_rounds,
        rows.work.rests,
    )


def _lacks(requests: Iterable[InvestigationRequest]) -> Lacks:
    found: dict[UUID, list[Lack]] = defaultdict(list)
    for request in requests:
        if request.step_id is not None:
            found[request.step_id].append(Lack(request.id, request.objective))
    return found


def _part(step: StepRow, lacks: Lacks) -> Part:
    again_of = step.input.get("again_of")
    return Part(
        step.id,
        StepKind(step.kind),
        ended(step, lacks),
        steps.round_of(step),
        tuple(UUID(request_id) for request_id in step.input.get("answers", [])),
        None if again_of is None else UUID(again_of),
    )


def ended(step: StepRow, lacks: Lacks | None = None) -> Ended | None:
    """How the step's row says that it ended, or None."""
    match step.status:
        case StepStatus.COMPLETED:
            result = step.result or {}
            return Ended(
                analysis_ids=tuple(UUID(given) for given in result.get("analyses", [])),
                lacks=tuple((lacks or {}).get(step.id, ())),
                found=bool(result.get("nodes") or result.get("edges")),
            )
        case StepStatus.FAILED:
            return Ended(error=step.error or "failed")
        case _:
            return None


async def make_queries(
    session: AsyncSession, rows: Rows, queries: Sequence[NewQuery]
) -> list[StepRow]:
    lacking = {each.id: each for each in rows.requests}
    made = []
    for query in queries:
        request = lacking[query.part.answers[0]]
        given = {
            "objective": request.objective,
            "reasoning": request.reasoning,
            "search_hints": request.search_hints,
            "answers": [str(request_id) for request_id in query.part.answers],
            "round": query.part.round,
        }
        made.append(
            await iterations.add(
                session, rows.iteration, StepKind.QUERY, query.index, given, rows.work.now
            )
        )
    return made


async def make_insights(
    session: AsyncSession, rows: Rows, insights: Sequence[NewInsight]
) -> list[StepRow]:
    """Each with the input of the insight that it is again, and what has been found since."""
    lacking = {each.id: each for each in rows.requests}
    made = []
    for insight in insights:
        planned = rows.step(insight.part.planned_id)
        assert planned is not None, f"insight {insight.part.planned_id} is asked again, and gone"
        given = planned.input | {
            "again_of": str(planned.id),
            "answered": [
                {"id": str(request_id), "objective": lacking[request_id].objective}
                for request_id in insight.answered
            ],
            "round": insight.part.round,
        }
        made.append(
            await iterations.add(
                session, rows.iteration, StepKind.INSIGHT, insight.index, given, rows.work.now
            )
        )
    return made


async def settle(
    session: AsyncSession, iteration_id: UUID, tick_of: Callable[[Rows], Tick]
) -> Rows | None:
    """Joins the tick that `tick_of` sees in the rows into the iteration. Raises what `tick_of` does.

    Returns the rows as they are then, the iteration's locked; None where it is gone.
    """
    iteration = await iterations.locked(session, iteration_id)
    if iteration is None:
        return None
    rows = await loaded(session, iteration)
    before = state_of(rows)
    after, commands = join(before, tick_of(rows))
    changed: list[StepRow] = []
    for command in commands:
        changed += await _carry_out(session, rows, command)
    if after.stage != before.stage:
        iteration = await _moved(session, rows, after, commands)
    reach(CrashPoint.STATE_WRITTEN)
    return replace(rows, iteration=iteration, work=_with(rows, changed))


async def _carry_out(session: AsyncSession, rows: Rows, command: Command) -> Sequence[StepRow]:
    """The steps that are new, or other than they were."""
    match command:
        case RequestInsights(step_ids):
            return await iterations.ask_for(session, step_ids)
        case RequestQueries(queries):
            return await make_queries(session, rows, queries)
        case RequestAgain(insights):
            return await make_insights(session, rows, insights)
        case RequestAdvice(_, analysis_ids):
            given = {"analysis_ids": [str(analysis_id) for analysis_id in analysis_ids]}
            return [
                await iterations.add(
                    session, rows.iteration, StepKind.ADVISE, 0, given, rows.work.now
                )
            ]
        case AbandonSteps(step_ids, error):
            abandoned = await iterations.abandon(session, step_ids, error)
            for step_id in step_ids:
                await reservations.presume_step(session, step_id)
            return abandoned
        case Complete() | Fail():
            return ()


async def _moved(
    session: AsyncSession, rows: Rows, after: State, commands: Iterable[Command]
) -> IterationRow:
    """The iteration in its new stage, written once and after its steps: it ends when all of them have."""
    for command in commands:
        match command:
            case Complete(errors):
                status = IterationStatus.COMPLETED
            case Fail(errors):
                status = IterationStatus.FAILED
            case _:
                continue
        return await iterations.end(session, rows.iteration, status, errors, rows.work.now)
    return await iterations.move(session, rows.iteration, after.stage, rows.work.now)


def _with(rows: Rows, changed: Sequence[StepRow]) -> iterations.Work:
    fresh = {row.id: row for row in changed}
    kept = [fresh.pop(row.id, row) for row in rows.steps]
    return rows.work._replace(steps=[*kept, *fresh.values()])
