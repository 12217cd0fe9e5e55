"""Phase runs, with the answers that they refer to taken from the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from sqlalchemy import Select, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from shared.store import contexts
from shared.store.reading import cursors
from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.page import Page, Wanted
from shared.store.reading.shapes import (
    AnswerEvent,
    FailedSending,
    InteractionEvent,
    InteractionView,
    Json,
    RepairEvent,
    ToolCall,
    ToolResultEvent,
)
from shared.store.reading.work_shapes import InteractionDetails, InteractionHead
from shared.store.tables import Agent, Call, Interaction
from shared.store.words import Phase

_EVENTS = "events of an interaction"
_NEWEST = Keyset("interactions", (Interaction.created_at, Interaction.id))
_PHASE_ORDER = {phase: place for place, phase in enumerate(Phase)}


async def of_iteration(
    session: AsyncSession, iteration_id: UUID, step_order: Mapping[UUID, int]
) -> list[InteractionView]:
    """In the order of the phases, and of the steps within a phase."""
    found = await session.scalars(
        select(Interaction)
        .where(Interaction.iteration_id == iteration_id)
        .execution_options(populate_existing=True)
    )
    rows = list(found)
    requests = await contexts.requests(session, rows)
    answers = {
        call.id: call
        for call in await session.scalars(select(Call).where(Call.iteration_id == iteration_id))
    }
    ordered = sorted(rows, key=lambda row: _place(row, step_order))
    return [_view(row, requests[row.id], answers) for row in ordered]


async def of_agent(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    wanted: Wanted,
    *,
    phase: Phase | None = None,
) -> Page[InteractionHead]:
    """The newest first; of that phase where it is given."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    statement = _heads().where(Interaction.agent_id == owned.scalar_subquery())
    if phase is not None:
        statement = statement.where(Interaction.phase == phase)
    return (await slice_of(session, statement, _NEWEST, wanted)).page(_head)


async def find(
    session: AsyncSession, owner_id: UUID, interaction_id: UUID
) -> InteractionDetails | None:
    """None where the owner has no such interaction."""
    found = await _row(session, owner_id, interaction_id)
    if found is None:
        return None
    head = _head(found, len(found.events))
    requests = await contexts.requests(session, [found])
    return InteractionDetails(
        **dict(head), system_prompt=found.system_prompt, request=requests[found.id]
    )


async def events_of(
    session: AsyncSession, owner_id: UUID, interaction_id: UUID, wanted: Wanted
) -> Page[InteractionEvent] | None:
    """What happened in it, oldest first; None where the owner has no such interaction. Raises BadCursorError."""
    found = await _row(session, owner_id, interaction_id)
    if found is None:
        return None
    begin = _begin(wanted.cursor)
    end = begin + wanted.limit
    stored = found.events[begin:end]
    named = [UUID(event["call_id"]) for event in stored if "call_id" in event]
    calls = await session.scalars(select(Call).where(Call.id.in_(named)))
    is_last = end >= len(found.events)
    return Page(
        items=_events(stored, {call.id: call for call in calls}),
        next=None if is_last else cursors.written(_EVENTS, (end,)),
    )


def _begin(cursor: str | None) -> int:
    if cursor is None:
        return 0
    (begin,) = cursors.read(_EVENTS, (int,), cursor)
    assert isinstance(begin, int)
    return max(0, begin)


async def _row(session: AsyncSession, owner_id: UUID, interaction_id: UUID) -> Interaction | None:
    return await session.scalar(
        select(Interaction)
        .join(Agent, Agent.id == Interaction.agent_id)
        .where(Interaction.id == interaction_id, Agent.owner_id == owner_id)
        .execution_options(populate_existing=True)
    )


def _heads() -> Select[Interaction, int]:
    """Without what can be long."""
    light = defer(Interaction.system_prompt), defer(Interaction.request), defer(Interaction.events)
    return select(Interaction, func.jsonb_array_length(Interaction.events)).options(*light)


def _head(row: Interaction, event_count: int) -> InteractionHead:
    return InteractionHead(
        id=row.id,
        agent_id=row.agent_id,
        iteration_id=row.iteration_id,
        step_id=row.step_id,
        phase=row.phase,
        model=row.model,
        event_count=event_count,
        created_at=row.created_at,
        completed_at=row.completed_at,
    )


async def of_step(session: AsyncSession, step_id: UUID) -> list[InteractionView]:
    """In the order of the phases."""
    found = await session.scalars(
        select(Interaction)
        .where(Interaction.step_id == step_id)
        .execution_options(populate_existing=True)
    )
    rows = list(found)
    requests = await contexts.requests(session, rows)
    calls = await session.scalars(select(Call).where(Call.step_id == step_id))
    answers = {call.id: call for call in calls}
    ordered = sorted(rows, key=lambda row: _PHASE_ORDER[Phase(row.phase)])
    return [_view(row, requests[row.id], answers) for row in ordered]


def _place(row: Interaction, step_order: Mapping[UUID, int]) -> tuple[int, int]:
    step = -1 if row.step_id is None else step_order[row.step_id]
    return _PHASE_ORDER[Phase(row.phase)], step


def _view(row: Interaction, request: Json, answers: Mapping[UUID, Call]) -> InteractionView:
    return InteractionView(
        id=row.id,
        step_id=row.step_id,
        phase=row.phase,
        model=row.model,
        system_prompt=row.system_prompt,
        request=request,
        events=_events(row.events, answers),
        failures=failures_of(call for call in answers.values() if call.interaction_id == row.id),
        created_at=row.created_at,
        completed_at=row.completed_at,
    )


def failures_of(calls: Iterable[Call]) -> list[FailedSending]:
    """Every sending of `calls` that brought no usable answer, the oldest first."""
    failed = [FailedSending.model_validate(each) for call in calls for each in call.failures]
    return sorted(failed, key=lambda each: each.at)


def _events(stored: Sequence[Json], answers: Mapping[UUID, Call]) -> list[InteractionEvent]:
    return [_event(event, answers) for event in stored]


def _event(event: Json, answers: Mapping[UUID, Call]) -> InteractionEvent:
    match event["type"]:
        case "answer":
            return _answer(UUID(event["call_id"]), answers)
        case "repair":
            return RepairEvent(subject=event["subject"], repairs=event["repairs"])
        case _:
            return ToolResultEvent(
                tool_call_id=event.get("tool_call_id"),
                name=event["name"],
                result=_result(event, answers),
            )


def _answer(call_id: UUID, answers: Mapping[UUID, Call]) -> AnswerEvent:
    call = answers.get(call_id)
    answer = (call.answer if call else None) or {}
    message = answer.get("message")
    return AnswerEvent(
        call_id=call_id,
        text=(message or {}).get("content"),
        tool_calls=[_tool_call(each) for each in (message or {}).get("tool_calls") or []],
        message=message,
        finish_reason=answer.get("finish_reason"),
        input_tokens=call.input_tokens if call else None,
        output_tokens=call.output_tokens if call else None,
    )


def _tool_call(asked: Json) -> ToolCall:
    return ToolCall(
        id=asked.get("id"),
        name=asked["function"]["name"],
        arguments=asked["function"]["arguments"],
    )


def _result(event: Json, answers: Mapping[UUID, Call]) -> Json | None:
    """A free tool's result stands in the event itself, a paid one's in the ledger."""
    if "call_id" not in event:
        found: Json | None = event.get("result")
        return found
    call = answers.get(UUID(event["call_id"]))
    return call.answer if call else None
