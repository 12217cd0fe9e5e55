"""Phase runs, with the answers that they refer to taken from the ledger."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.reading.shapes import (
    AnswerEvent,
    InteractionEvent,
    InteractionView,
    Json,
    ToolResultEvent,
)
from shared.store.tables import Call, Interaction
from shared.store.words import Phase

_PHASE_ORDER = {phase: place for place, phase in enumerate(Phase)}


async def of_iteration(
    session: AsyncSession, iteration_id: UUID, step_order: Mapping[UUID, int]
) -> list[InteractionView]:
    """In the order of their steps, and of the phases within a step."""
    rows = await session.scalars(
        select(Interaction)
        .where(Interaction.iteration_id == iteration_id)
        .execution_options(populate_existing=True)
    )
    answers = {
        call.id: call
        for call in await session.scalars(select(Call).where(Call.iteration_id == iteration_id))
    }
    ordered = sorted(rows, key=lambda row: _place(row, step_order))
    return [_view(row, answers) for row in ordered]


async def of_step(session: AsyncSession, step_id: UUID) -> list[InteractionView]:
    """In the order of the phases."""
    rows = await session.scalars(
        select(Interaction)
        .where(Interaction.step_id == step_id)
        .execution_options(populate_existing=True)
    )
    calls = await session.scalars(select(Call).where(Call.step_id == step_id))
    answers = {call.id: call for call in calls}
    ordered = sorted(rows, key=lambda row: _PHASE_ORDER[Phase(row.phase)])
    return [_view(row, answers) for row in ordered]


def _place(row: Interaction, step_order: Mapping[UUID, int]) -> tuple[int, int]:
    step = -1 if row.step_id is None else step_order[row.step_id]
    return step, _PHASE_ORDER[Phase(row.phase)]


def _view(row: Interaction, answers: Mapping[UUID, Call]) -> InteractionView:
    return InteractionView(
        id=row.id,
        step_id=row.step_id,
        phase=row.phase,
        model=row.model,
        system_prompt=row.system_prompt,
        request=row.request,
        events=_events(row.events, answers),
        created_at=row.created_at,
        completed_at=row.completed_at,
    )


def _events(stored: Sequence[Json], answers: Mapping[UUID, Call]) -> list[InteractionEvent]:
    return [
        _answer(UUID(event["call_id"]), answers)
        if event["type"] == "answer"
        else ToolResultEvent(name=event["name"], result=_result(event, answers))
        for event in stored
    ]


def _answer(call_id: UUID, answers: Mapping[UUID, Call]) -> AnswerEvent:
    call = answers.get(call_id)
    answer = (call.answer if call else None) or {}
    return AnswerEvent(
        call_id=call_id,
        message=answer.get("message"),
        finish_reason=answer.get("finish_reason"),
        input_tokens=call.input_tokens if call else None,
        output_tokens=call.output_tokens if call else None,
    )


def _result(event: Json, answers: Mapping[UUID, Call]) -> Json | None:
    """A free tool's result stands in the event itself, a paid one's in the ledger."""
    if "call_id" not in event:
        found: Json | None = event.get("result")
        return found
    call = answers.get(UUID(event["call_id"]))
    return call.answer if call else None
