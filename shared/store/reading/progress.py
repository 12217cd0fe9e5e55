"""Work while it goes on: little enough to be read again and again, for nothing of it was said by a model."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Select, bindparam, cast, func, select
from sqlalchemy.dialects.postgresql import JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import iterations
from shared.store import steps as step_store
from shared.store.reading import calls
from shared.store.reading.iterations import LOOP_ORDER
from shared.store.reading.progress_shapes import PhaseRunView, ProgressView
from shared.store.reading.shapes import IterationView, StepView
from shared.store.tables import Interaction, Step
from shared.store.words import StepKind


async def of_iteration(session: AsyncSession, iteration: IterationView) -> ProgressView:
    """The caller has seen to it that the iteration is the owner's."""
    rows = sorted(await step_store.of_iteration(session, iteration.id), key=_place)
    return ProgressView(
        iteration=iteration,
        now=await iterations.clock(session),
        steps=[StepView.model_validate(row) for row in rows],
        runs=await _runs(session, _OF_ITERATION, iteration.id),
        calls=(await calls.of_iteration(session, iteration.id)).totals,
        running_calls=await calls.running_of_iteration(session, iteration.id),
    )


async def of_step(session: AsyncSession, step_id: UUID) -> Sequence[PhaseRunView]:
    """The runs of a step that is no iteration's. The caller has seen to it that it is the owner's."""
    return await _runs(session, _OF_STEP, step_id)


async def _runs(
    session: AsyncSession, statement: Select[*tuple[object, ...]], wanted: UUID
) -> list[PhaseRunView]:
    rows = await session.execute(statement, {"wanted": wanted})
    return [PhaseRunView.model_validate(row) for row in rows]


def _place(step: Step) -> tuple[int, int]:
    return LOOP_ORDER[StepKind(step.kind)], step.index


_IS_ANSWER: Final = cast('$[*] ? (@.type == "answer")', JSONPATH)
_ANSWERS: Final = func.jsonb_array_length(
    func.jsonb_path_query_array(Interaction.events, _IS_ANSWER)
)
_RUNS: Final = select(
    Interaction.step_id,
    Interaction.phase,
    Interaction.model,
    _ANSWERS.label("answers"),
    Interaction.created_at,
    Interaction.completed_at,
).order_by(Interaction.created_at, Interaction.id)
_OF_ITERATION: Final = _RUNS.where(Interaction.iteration_id == bindparam("wanted"))
_OF_STEP: Final = _RUNS.where(Interaction.step_id == bindparam("wanted"))
