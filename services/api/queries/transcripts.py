"""Transcripts of phase runs: their events joined with the responses in the call ledger."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Integer, RowMapping, Select, column, func, literal, select
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH, aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from services.api.queries.usage import SPENT
from shared.database import pagination
from shared.database.pagination import Keyset, paginate
from shared.database.tables import Agent, Call, Interaction, Source
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
    CallDetails,
    CallUsage,
    InteractionDetails,
    InteractionHead,
    ModelTurn,
    PhaseRun,
    SourceName,
    ToolUse,
    TracedCall,
    TracedTool,
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
    head = _head(row, len(_visible(row.events)))
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
    all_events = _visible(row.events)
    events = all_events[begin:end]
    call_ids = [UUID(event["call_id"]) for event in events if "call_id" in event]
    calls = await session.scalars(select(Call).where(Call.id.in_(call_ids)))
    is_last = end >= len(all_events)
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
    return select(Interaction, _count_visible(Interaction.events)).options(*light)


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


def _visible(events: Sequence[Json]) -> list[Json]:
    """The events without those that only a resumed run needs: how results were shown, which the next request has."""
    return [event for event in events if event["type"] != "shown"]


def _count_visible(events: Any) -> ColumnElement[int]:
    path = literal('$[*] ? (@.type != "shown")').cast(JSONPATH)
    return func.jsonb_array_length(func.jsonb_path_query_array(events, path))


def _events(events: Sequence[Json], answers: Mapping[UUID, Call]) -> list[InteractionEvent]:
    return [_event(event, answers) for event in _visible(events)]


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
        select(*columns)
        .where(Interaction.iteration_id == iteration_id)
        .order_by(Interaction.created_at, Interaction.id)
    )
    event_count = func.sum(_count_visible(Call.events), type_=Integer)
    sums = await session.execute(
        select(Call.interaction_id, event_count.label("event_count"), *SPENT)
        .where(Call.iteration_id == iteration_id)
        .group_by(Call.interaction_id)
    )
    by_run = {row["interaction_id"]: dict(row) for row in sums.mappings()}
    return [
        PhaseRun(
            **dict(row),
            event_count=by_run.get(row["id"], {}).get("event_count", 0),
            spent=CallUsage.model_validate(by_run.get(row["id"], {})),
        )
        for row in rows.mappings()
    ]


MAX_SOURCES: Final = 50
_STORED_EVENT: Final = (
    func.jsonb_array_elements(Call.events)
    .table_valued(column("event", JSONB), with_ordinality="place", name="stored")
    .render_derived()
)
_EVENT: Final = _STORED_EVENT.c.event
_LIGHT_EVENTS: Final = (
    select(
        func.jsonb_agg(
            aggregate_order_by(
                func.jsonb_build_object(
                    "type",
                    _EVENT["type"],
                    "call_id",
                    _EVENT["call_id"],
                    "name",
                    _EVENT["name"],
                    "is_refused",
                    _EVENT["result"].has_key("error"),
                ),
                _STORED_EVENT.c.place,
            )
        )
    )
    .select_from(_STORED_EVENT)
    .scalar_subquery()
)
"""The events of a call without the results of tools."""
_CALL_FIELDS: Final = [name for name in TracedCall.model_fields if name not in ("tools", "repairs")]


async def calls_of_iteration(session: AsyncSession, iteration_id: UUID) -> list[TracedCall]:
    """Returns the calls without their answers, in the order in which they were first sent.

    The caller has checked that the iteration is the owner's.
    """
    columns = [getattr(Call, name) for name in _CALL_FIELDS]
    result = await session.execute(
        select(*columns, _LIGHT_EVENTS.label("light_events"))
        .where(Call.iteration_id == iteration_id)
        .order_by(Call.started_at, Call.id)
    )
    rows = result.mappings().all()
    tools = _tools_by_answer(rows)
    return [
        TracedCall(
            **{name: row[name] for name in _CALL_FIELDS},
            tools=[
                TracedTool(name=name, uses=len(refusals), refused=sum(refusals))
                for name, refusals in tools[str(row["id"])].items()
                if name != _REPAIR
            ],
            repairs=len(tools[str(row["id"])][_REPAIR]),
        )
        for row in rows
    ]


_REPAIR: Final = ""


def _tools_by_answer(rows: Sequence[RowMapping]) -> Mapping[str, Mapping[str, Sequence[bool]]]:
    """Returns for each answer of the model its uses of the graph's tools: by name, whether each was refused.

    Repairs of the answer have the name _REPAIR.
    """
    found: defaultdict[str, defaultdict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    newest: dict[UUID, str] = {}
    answered = [row for row in rows if row["answered_at"] is not None]
    for row in sorted(answered, key=itemgetter("answered_at")):
        run_id = row["interaction_id"]
        for event in row["light_events"] or ():
            if event["type"] == "answer":
                newest[run_id] = event["call_id"]
            elif event["type"] != "shown" and event["call_id"] is None and run_id in newest:
                found[newest[run_id]][event["name"] or _REPAIR].append(bool(event["is_refused"]))
    return found


async def find_call(
    session: AsyncSession, owner_id: UUID, iteration_id: UUID, call_id: UUID
) -> CallDetails | None:
    """Returns the call with its answer, or None where the owner's iteration has none of that id."""
    columns = [getattr(Call, name) for name in CallDetails.model_fields]
    row = (
        await session.execute(
            select(*columns)
            .join(Agent, Agent.id == Call.agent_id)
            .where(
                Call.id == call_id, Call.iteration_id == iteration_id, Agent.owner_id == owner_id
            )
        )
    ).one_or_none()
    return None if row is None else CallDetails.model_validate(row)


async def source_ids(
    session: AsyncSession, agent_id: UUID, urls: Collection[str]
) -> dict[str, UUID]:
    """Returns the newest source of each page that is stored. The caller has checked that the agent is the owner's."""
    rows = await session.execute(
        select(Source.url, Source.id)
        .where(Source.agent_id == agent_id, Source.url.in_(urls))
        .order_by(Source.fetched_at)
    )
    return {row.url: row.id for row in rows}


async def sources_of_step(session: AsyncSession, agent_id: UUID, step_id: UUID) -> list[SourceName]:
    """Returns the pages that the step was the first to fetch, at most MAX_SOURCES.

    The caller has checked that the agent is the owner's.
    """
    rows = await session.execute(
        select(Source.id, Source.url, Source.title)
        .where(Source.agent_id == agent_id, Source.step_id == step_id)
        .order_by(Source.fetched_at, Source.id)
        .limit(MAX_SOURCES)
    )
    return [SourceName.model_validate(row) for row in rows]


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
        call_id=call.id,
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
        call_id=UUID(call_id),
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
