"""Transcripts of phase runs: their events joined with the responses in the call ledger."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Select, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from services.api.queries.usage import SPENT
from shared.database import pagination
from shared.database.pagination import Keyset, paginate
from shared.database.tables import Agent, Call, Interaction
from shared.enums import CallKind, Phase
from shared.llm import phase_run_store
from shared.schemas.base import (
    AnswerEvent,
    FailedSending,
    InteractionEvent,
    InteractionResponse,
    Json,
    Page,
    PageRequest,
    RepairEvent,
    ToolCall,
    ToolResultEvent,
)
from shared.schemas.iterations import (
    CallUsage,
    InteractionDetails,
    InteractionHead,
    ModelTurn,
    PhaseRun,
    ToolUse,
)

_EVENTS = "events of an interaction"
_NEWEST = Keyset("interactions", (Interaction.created_at, Interaction.id))
_PHASE_ORDER = {phase: place for place, phase in enumerate(Phase)}


async def interactions_of_iteration(
    session: AsyncSession, iteration_id: UUID, step_order: Mapping[UUID, int]
) -> list[InteractionResponse]:
    """Returns the phase runs in the order of the phases, and of the steps within a phase."""
    scalars = await session.scalars(
        select(Interaction)
        .where(Interaction.iteration_id == iteration_id)
        .execution_options(populate_existing=True)
    )
    rows = list(scalars)
    requests = await phase_run_store.load_requests(session, rows)
    answers = {
        call.id: call
        for call in await session.scalars(select(Call).where(Call.iteration_id == iteration_id))
    }
    sorted_rows = sorted(rows, key=lambda row: _place(row, step_order))
    return [_view(row, requests[row.id], answers) for row in sorted_rows]


async def list_phase_runs(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    page_request: PageRequest,
    *,
    phase: Phase | None = None,
) -> Page[InteractionHead]:
    """Lists phase runs, newest first; with `phase`, those of one phase."""
    owned_agent = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    statement = _heads().where(Interaction.agent_id == owned_agent.scalar_subquery())
    if phase is not None:
        statement = statement.where(Interaction.phase == phase)
    return (await paginate(session, statement, _NEWEST, page_request)).page(_head)


async def find_phase_run(
    session: AsyncSession, owner_id: UUID, interaction_id: UUID
) -> InteractionDetails | None:
    """Returns the phase run, or None where the owner has none of that id."""
    row = await _row(session, owner_id, interaction_id)
    if row is None:
        return None
    head = _head(row, len(row.events))
    requests = await phase_run_store.load_requests(session, [row])
    return InteractionDetails(
        **dict(head), system_prompt=row.system_prompt, request=requests[row.id]
    )


async def list_events(
    session: AsyncSession, owner_id: UUID, interaction_id: UUID, page_request: PageRequest
) -> Page[InteractionEvent] | None:
    """Lists the events of a phase run, oldest first; None where the owner has none of that id.

    Raises InvalidCursorError.
    """
    row = await _row(session, owner_id, interaction_id)
    if row is None:
        return None
    begin = _begin(page_request.cursor)
    end = begin + page_request.limit
    events = row.events[begin:end]
    call_ids = [UUID(event["call_id"]) for event in events if "call_id" in event]
    calls = await session.scalars(select(Call).where(Call.id.in_(call_ids)))
    is_last = end >= len(row.events)
    return Page(
        items=_events(events, {call.id: call for call in calls}),
        next=None if is_last else pagination.encode_cursor(_EVENTS, (end,)),
    )


def _begin(cursor: str | None) -> int:
    if cursor is None:
        return 0
    (begin,) = pagination.decode_cursor(_EVENTS, (int,), cursor)
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
    """Selects phase runs without their large columns."""
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


async def list_phase_runs_of_step(
    session: AsyncSession, step_id: UUID
) -> list[InteractionResponse]:
    """Returns the phase runs of a step in the order of the phases."""
    scalars = await session.scalars(
        select(Interaction)
        .where(Interaction.step_id == step_id)
        .execution_options(populate_existing=True)
    )
    rows = list(scalars)
    requests = await phase_run_store.load_requests(session, rows)
    calls = await session.scalars(select(Call).where(Call.step_id == step_id))
    answers = {call.id: call for call in calls}
    sorted_rows = sorted(rows, key=lambda row: _PHASE_ORDER[Phase(row.phase)])
    return [_view(row, requests[row.id], answers) for row in sorted_rows]


def _place(row: Interaction, step_order: Mapping[UUID, int]) -> tuple[int, int]:
    step = -1 if row.step_id is None else step_order[row.step_id]
    return _PHASE_ORDER[Phase(row.phase)], step


def _view(row: Interaction, request: Json, answers: Mapping[UUID, Call]) -> InteractionResponse:
    return InteractionResponse(
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
    """Returns every attempt of `calls` without a usable response, oldest first."""
    failures = [
        FailedSending.model_validate(failure) for call in calls for failure in call.failures
    ]
    return sorted(failures, key=lambda item: item.at)


def _events(events: Sequence[Json], answers: Mapping[UUID, Call]) -> list[InteractionEvent]:
    return [_event(event, answers) for event in events]


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
        tool_calls=[_tool_call(item) for item in (message or {}).get("tool_calls") or []],
        message=message,
        finish_reason=answer.get("finish_reason"),
        input_tokens=call.input_tokens if call else None,
        output_tokens=call.output_tokens if call else None,
    )


def _tool_call(call: Json) -> ToolCall:
    return ToolCall(
        id=call.get("id"),
        name=call["function"]["name"],
        arguments=call["function"]["arguments"],
    )


def _result(event: Json, answers: Mapping[UUID, Call]) -> Json | None:
    """Returns a tool's result: a free tool's is in the event, a paid one's in the ledger."""
    if "call_id" not in event:
        result: Json | None = event.get("result")
        return result
    call = answers.get(UUID(event["call_id"]))
    return call.answer if call else None


async def runs_of_iteration(session: AsyncSession, iteration_id: UUID) -> list[PhaseRun]:
    """Returns the phase runs by start time, with their costs.

    The caller has checked that the iteration is the owner's.
    """
    columns = [
        getattr(Interaction, name) for name in PhaseRun.model_fields if name not in _COMPUTED_FIELDS
    ]
    rows = await session.execute(
        select(*columns, func.jsonb_array_length(Interaction.events).label("event_count"))
        .where(Interaction.iteration_id == iteration_id)
        .order_by(Interaction.created_at, Interaction.id)
    )
    sums = await session.execute(
        select(Call.interaction_id, *SPENT)
        .where(Call.iteration_id == iteration_id)
        .group_by(Call.interaction_id)
    )
    costs = {row["interaction_id"]: CallUsage.model_validate(dict(row)) for row in sums.mappings()}
    return [
        PhaseRun(**dict(row), spent=costs.get(row["id"], CallUsage())) for row in rows.mappings()
    ]


async def list_answers(
    session: AsyncSession, owner_id: UUID, interaction_id: UUID
) -> list[ModelTurn] | None:
    """Returns the model's answers with their tool uses, oldest first; None where the owner has no such phase run."""
    events = await session.scalar(
        select(Interaction.events)
        .join(Agent, Agent.id == Interaction.agent_id)
        .where(Interaction.id == interaction_id, Agent.owner_id == owner_id)
    )
    if events is None:
        return None
    rows = await session.scalars(select(Call).where(Call.interaction_id == interaction_id))
    return _answers(events, {str(call.id): call for call in rows})


def _answers(events: Sequence[Json], calls: Mapping[str, Call]) -> list[ModelTurn]:
    """Groups events by answer. Tool results come before the next request to the model."""
    rounds: list[tuple[str, list[Json]]] = []
    for event in events:
        if event["type"] == "answer":
            rounds.append((event["call_id"], []))
        elif rounds and event["type"] == "tool_result":
            rounds[-1][1].append(event)
    answered_calls = {call_id for call_id, _ in rounds}
    # The last request may have had failed attempts only, so far.
    failing = [
        _failed_answer(call)
        for call in calls.values()
        if call.failures and str(call.id) not in answered_calls and call.kind == CallKind.LLM
    ]
    return [*(_answer_view(call_id, results, calls) for call_id, results in rounds), *failing]


def _failed_answer(call: Call) -> ModelTurn:
    return ModelTurn(
        is_kept=True,
        text=None,
        tool_uses=[],
        failures=failures_of([call]),
        spent=_spent(call),
        started_at=call.started_at,
        answered_at=None,
    )


def _answer_view(call_id: str, results: Sequence[Json], calls: Mapping[str, Call]) -> ModelTurn:
    call = calls.get(call_id)
    message: Json | None = ((call.answer if call else None) or {}).get("message")
    tool_calls: list[Json] = (message or {}).get("tool_calls") or []
    uses = [
        _tool_use(item["function"], _matching_result(f"{call_id}/{index}", item, results), calls)
        for index, item in enumerate(tool_calls)
    ]
    if not tool_calls:
        # Tool calls that the model wrote into its text, or that the phase made itself. Or the
        # answer has expired from the ledger, while the tool results are still in the phase run.
        uses = [_tool_use({"arguments": "", **result}, result, calls) for result in results]
    return ModelTurn(
        is_kept=message is not None,
        text=(message or {}).get("content"),
        tool_uses=uses,
        failures=[] if call is None else failures_of([call]),
        spent=_spent(call),
        started_at=call.started_at if call else None,
        answered_at=call.answered_at if call else None,
    )


def _matching_result(key: str, tool_call: Json, results: Sequence[Json]) -> Json | None:
    """Matches by position in the answer; in older phase runs by the model's tool call id."""
    for result in results:
        if result.get("key") == key or result.get("tool_call_id", key) == tool_call.get("id"):
            return result
    return None


def _tool_use(function: Json, event: Json | None, calls: Mapping[str, Call]) -> ToolUse:
    """Builds a tool use. A free tool's result is in the event, a paid one's in the ledger."""
    is_paid = event is not None and "call_id" in event
    call = calls.get(event["call_id"]) if event is not None and is_paid else None
    free = None if event is None else event.get("result")
    return ToolUse(
        name=function["name"],
        arguments=function["arguments"],
        has_ended=event is not None,
        result=call.answer if call is not None else free,
        spent=_spent(call) if is_paid else None,
    )


def _spent(call: Call | None) -> CallUsage:
    if call is None:
        return CallUsage()
    figures: dict[str, Any] = {
        "input_tokens": call.input_tokens or 0,
        "output_tokens": call.output_tokens or 0,
        "cost_usd": call.cost_usd or 0,
        "assumed_usd": call.assumed_usd,
        "unpriced": int(call.kind == CallKind.LLM and call.cost_usd is None),
    }
    return CallUsage(calls=1, **figures)


_COMPUTED_FIELDS = ("event_count", "spent")
