"""Transcripts: phase runs with their answers from the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Select, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from services.api.queries.usage import SPENT
from shared.database import pagination
from shared.database.pagination import Keyset, slice_of
from shared.database.tables import Agent, Call, Interaction
from shared.enums import CallKind, Phase
from shared.llm import phase_run_store
from shared.schemas.base import (
    AnswerEvent,
    FailedSending,
    InteractionEvent,
    InteractionView,
    Json,
    Page,
    RepairEvent,
    ToolCall,
    ToolResultEvent,
    Wanted,
)
from shared.schemas.iterations import (
    InteractionDetails,
    InteractionHead,
    PhaseRun,
    Saying,
    Spent,
    ToolUse,
)

_EVENTS = "events of an interaction"
_NEWEST = Keyset("interactions", (Interaction.created_at, Interaction.id))
_PHASE_ORDER = {phase: place for place, phase in enumerate(Phase)}


async def interactions_of_iteration(
    session: AsyncSession, iteration_id: UUID, step_order: Mapping[UUID, int]
) -> list[InteractionView]:
    """In the order of the phases, and of the steps within a phase."""
    found = await session.scalars(
        select(Interaction)
        .where(Interaction.iteration_id == iteration_id)
        .execution_options(populate_existing=True)
    )
    rows = list(found)
    requests = await phase_run_store.requests(session, rows)
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
    requests = await phase_run_store.requests(session, [found])
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
        next=None if is_last else pagination.written(_EVENTS, (end,)),
    )


def _begin(cursor: str | None) -> int:
    if cursor is None:
        return 0
    (begin,) = pagination.read(_EVENTS, (int,), cursor)
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
    requests = await phase_run_store.requests(session, rows)
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


async def runs_of_iteration(session: AsyncSession, iteration_id: UUID) -> list[PhaseRun]:
    """In the order in which they began. The caller has seen to it that the iteration is the owner's."""
    columns = [getattr(Interaction, name) for name in PhaseRun.model_fields if name not in _MADE]
    rows = await session.execute(
        select(*columns, func.jsonb_array_length(Interaction.events).label("event_count"))
        .where(Interaction.iteration_id == iteration_id)
        .order_by(Interaction.created_at, Interaction.id)
    )
    summed = await session.execute(
        select(Call.interaction_id, *SPENT)
        .where(Call.iteration_id == iteration_id)
        .group_by(Call.interaction_id)
    )
    spent = {row["interaction_id"]: Spent.model_validate(dict(row)) for row in summed.mappings()}
    return [PhaseRun(**dict(row), spent=spent.get(row["id"], Spent())) for row in rows.mappings()]


async def said(session: AsyncSession, owner_id: UUID, interaction_id: UUID) -> list[Saying] | None:
    """The oldest first; None where the owner has no such run."""
    events = await session.scalar(
        select(Interaction.events)
        .join(Agent, Agent.id == Interaction.agent_id)
        .where(Interaction.id == interaction_id, Agent.owner_id == owner_id)
    )
    if events is None:
        return None
    rows = await session.scalars(select(Call).where(Call.interaction_id == interaction_id))
    return _sayings(events, {str(call.id): call for call in rows})


def _sayings(events: Sequence[Json], calls: Mapping[str, Call]) -> list[Saying]:
    """Tools give their results before the model is asked again."""
    rounds: list[tuple[str, list[Json]]] = []
    for event in events:
        if event["type"] == "answer":
            rounds.append((event["call_id"], []))
        elif rounds and event["type"] == "tool_result":
            rounds[-1][1].append(event)
    answered = {call_id for call_id, _ in rounds}
    # What the model was asked last may have brought nothing but failures so far.
    failing = [
        _saying_nothing(call)
        for call in calls.values()
        if call.failures and str(call.id) not in answered and call.kind == CallKind.LLM
    ]
    return [*(_saying(call_id, results, calls) for call_id, results in rounds), *failing]


def _saying_nothing(call: Call) -> Saying:
    return Saying(
        is_kept=True,
        text=None,
        tool_uses=[],
        failures=failures_of([call]),
        spent=_spent(call),
        started_at=call.started_at,
        answered_at=None,
    )


def _saying(call_id: str, results: Sequence[Json], calls: Mapping[str, Call]) -> Saying:
    call = calls.get(call_id)
    message: Json | None = ((call.answer if call else None) or {}).get("message")
    asked: list[Json] = (message or {}).get("tool_calls") or []
    uses = [
        _use(each["function"], _result_of(f"{call_id}/{index}", each, results), calls)
        for index, each in enumerate(asked)
    ]
    if not asked:
        # Calls that the model wrote into its text, or that the phase made itself. Or what was asked for has expired with
        # the answer, while what the tools gave back stands in the run itself.
        uses = [_use({"arguments": "", **each}, each, calls) for each in results]
    return Saying(
        is_kept=message is not None,
        text=(message or {}).get("content"),
        tool_uses=uses,
        failures=[] if call is None else failures_of([call]),
        spent=_spent(call),
        started_at=call.started_at if call else None,
        answered_at=call.answered_at if call else None,
    )


def _result_of(key: str, asked: Json, results: Sequence[Json]) -> Json | None:
    """By its place in the answer; in old runs by the id that the model gave the call."""
    for each in results:
        if each.get("key") == key or each.get("tool_call_id", key) == asked.get("id"):
            return each
    return None


def _use(asked: Json, event: Json | None, calls: Mapping[str, Call]) -> ToolUse:
    """A free tool's result stands in the event itself, a paid one's in the ledger."""
    is_paid = event is not None and "call_id" in event
    call = calls.get(event["call_id"]) if event is not None and is_paid else None
    free = None if event is None else event.get("result")
    return ToolUse(
        name=asked["name"],
        arguments=asked["arguments"],
        has_ended=event is not None,
        result=call.answer if call is not None else free,
        spent=_spent(call) if is_paid else None,
    )


def _spent(call: Call | None) -> Spent:
    if call is None:
        return Spent()
    figures: dict[str, Any] = {
        "input_tokens": call.input_tokens or 0,
        "output_tokens": call.output_tokens or 0,
        "cost_usd": call.cost_usd or 0,
        "presumed_usd": call.presumed_usd,
        "unpriced": int(call.kind == CallKind.LLM and call.cost_usd is None),
    }
    return Spent(calls=1, **figures)


_MADE = ("event_count", "spent")
