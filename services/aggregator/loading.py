"""What the join decides on, read from the rows. Call it with the iteration's row locked."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from services.aggregator.state import Ended, Lack, Part, State
from shared.store import investigations, steps
from shared.store.tables import Agent, Iteration, Step
from shared.store.words import Stage, StepKind, StepStatus

Lacks = Mapping[UUID, Sequence[Lack]]
"""By the step that said so."""


async def loaded(session: AsyncSession, iteration: Iteration) -> State:
    rows = await steps.of_iteration(session, iteration.id)
    rests = func.coalesce(Agent.resting_until > func.statement_timestamp(), False)
    agent = await session.execute(
        select(Agent.feedback_rounds, rests).where(Agent.id == iteration.agent_id)
    )
    feedback_rounds, is_resting = agent.one()
    # Most agents look for nothing within an iteration: then nobody needs to know what was lacking.
    lacks = await _lacks(session, iteration.id) if feedback_rounds else {}
    return State(
        Stage(iteration.stage),
        tuple(_part(row, lacks) for row in rows),
        iteration.id,
        feedback_rounds,
        is_resting,
    )


async def _lacks(session: AsyncSession, iteration_id: UUID) -> Lacks:
    found: dict[UUID, list[Lack]] = defaultdict(list)
    for request in await investigations.of_iteration(session, iteration_id):
        if request.step_id is not None:
            found[request.step_id].append(Lack(request.id, request.objective))
    return found


def _part(step: Step, lacks: Lacks) -> Part:
    again_of = step.input.get("again_of")
    return Part(
        step.id,
        StepKind(step.kind),
        ended(step, lacks),
        steps.round_of(step),
        tuple(UUID(request_id) for request_id in step.input.get("answers", [])),
        None if again_of is None else UUID(again_of),
    )


def ended(step: Step, lacks: Lacks | None = None) -> Ended | None:
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
