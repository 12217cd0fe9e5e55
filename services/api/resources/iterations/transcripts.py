"""Transcripts of phase runs: their events joined with the responses in the call ledger."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, Integer, Row, RowMapping, column, func, literal, select
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH, aggregate_order_by

from services.api.auth.dependencies import Access, AgentAccess, OwnedAccess, OwnedAgent
from services.api.http.dependencies import Page, PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.reading import columns_of, read_all, read_one, read_page
from services.api.resources.costs.ledger import SPENT
from shared.database.pagination import Keyset, decode_cursor, encode_cursor
from shared.database.tables import Agent, Call, Interaction, Source
from shared.database.transaction import Transaction
from shared.enums import CallKind, Phase
from shared.llm import phase_run_store
from shared.schemas.base import (
    AnswerEvent,
    FailedSending,
    InteractionEvent,
    InteractionResponse,
    Json,
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

_EVENTS: Final = "events of an interaction"
_NEWEST: Final = Keyset("interactions", (Interaction.created_at, Interaction.id))
_PHASES: Final = list(Phase)
# A row of a table without its large columns, as SQLAlchemy returns it.
_Row = Row[*tuple[Any, ...]]


def _count_visible(events: Any) -> ColumnElement[int]:
    """Counts the events without those that only a resumed run needs: how results were shown."""
    path = literal('$[*] ? (@.type != "shown")').cast(JSONPATH)
    return func.jsonb_array_length(func.jsonb_path_query_array(events, path))


_HEAD: Final = columns_of(
    Interaction, InteractionHead, event_count=_count_visible(Interaction.events)
)
_WHOLE: Final = (
    *_HEAD,
    Interaction.system_prompt,
    Interaction.request,
    Interaction.message,
    Interaction.context_sha256,
)
_ANSWERED: Final = (
    Call.id,
    Call.interaction_id,
    Call.kind,
    Call.answer,
    Call.failures,
    Call.input_tokens,
    Call.output_tokens,
    Call.cost_usd,
    Call.assumed_usd,
    Call.started_at,
    Call.answered_at,
)


async def list_interactions(
    session: Transaction,
    owner: Literal["iteration_id", "step_id"],
    owner_of_runs: UUID,
    steps: Sequence[UUID] = (),
) -> list[InteractionResponse]:
    """Returns the phase runs of an iteration or a step in the order of the phases, and of `steps` within a phase.

    The caller has checked that it is the owner's.
    """
    of_owner = getattr(Interaction, owner) == owner_of_runs
    rows: list[Any] = list(
        await session.execute(select(*_WHOLE, Interaction.events).where(of_owner))
    )
    requests = await phase_run_store.load_requests(session, rows)
    answered = select(*_ANSWERED).where(getattr(Call, owner) == owner_of_runs)
    calls = {call.id: call for call in await session.execute(answered)}
    places = {step_id: place for place, step_id in enumerate(steps)}
    rows.sort(key=lambda row: (_PHASES.index(row.phase), places.get(row.step_id, -1)))
    return [
        InteractionResponse(
            id=row.id,
            step_id=row.step_id,
            phase=row.phase,
            model=row.model,
            system_prompt=row.system_prompt,
            request=requests[row.id],
            events=_events(_visible(row.events), calls),
            failures=failures_of(call for call in calls.values() if call.interaction_id == row.id),
            created_at=row.created_at,
            completed_at=row.completed_at,
        )
        for row in rows
    ]


async def list_phase_runs(
    access: OwnedAgent, page_request: PageQuery, phase: Phase | None = None
) -> Page[InteractionHead]:
    """Lists phase runs, newest first; optionally of one phase."""
    statement = select(*_HEAD).where(Interaction.agent_id == access.scope.owned_agent_id())
    if phase is not None:
        statement = statement.where(Interaction.phase == phase)
    return await read_page(access.session, InteractionHead, statement, _NEWEST, page_request)


async def find_phase_run(access: OwnedAccess, interaction_id: UUID) -> InteractionDetails:
    """A phase run with its first messages; the later ones are its events."""
    row: Any = await _owned_run(access, interaction_id, *_WHOLE)
    requests = await phase_run_store.load_requests(access.session, [row])
    return InteractionDetails.model_validate({**row._mapping, "request": requests[row.id]})


async def list_events(
    access: OwnedAccess, page_request: PageQuery, interaction_id: UUID
) -> Page[InteractionEvent]:
    """Lists events, oldest first: answers with text and tool calls, and tool results."""
    all_events = _visible((await _owned_run(access, interaction_id, Interaction.events)).events)
    begin: Any = 0
    if page_request.cursor is not None:
        (begin,) = decode_cursor(_EVENTS, (int,), page_request.cursor)
    begin = max(0, begin)
    end = begin + page_request.limit
    events = all_events[begin:end]
    ids = [UUID(event["call_id"]) for event in events if "call_id" in event]
    calls = await access.session.execute(select(*_ANSWERED).where(Call.id.in_(ids)))
    return Page(
        items=_events(events, {call.id: call for call in calls}),
        next=None if end >= len(all_events) else encode_cursor(_EVENTS, (end,)),
    )


async def _owned_run(access: Access, interaction_id: UUID, *columns: Any) -> _Row:
    """Raises NotFoundError where the owner has no phase run of that id."""
    statement = (
        select(*columns)
        .join(Agent, Agent.id == Interaction.agent_id)
        .where(Interaction.id == interaction_id, Agent.owner_id == access.owner_id)
    )
    row = (await access.session.execute(statement)).one_or_none()
    if row is None:
        raise NotFoundError("interaction", interaction_id)
    return row


def failures_of(calls: Iterable[_Row]) -> list[FailedSending]:
    """Returns every attempt of `calls` without a usable response, oldest first."""
    failures = [
        FailedSending.model_validate(failure) for call in calls for failure in call.failures
    ]
    return sorted(failures, key=lambda item: item.at)


_HIDDEN: Final = frozenset({"shown", "reading"})
"""Types of events that only a resumed run needs."""


def _visible(events: Sequence[Json]) -> list[Json]:
    return [event for event in events if event["type"] not in _HIDDEN]


def _events(events: Sequence[Json], calls: Mapping[UUID, _Row]) -> list[InteractionEvent]:
    return [_event(event, calls) for event in events]


def _event(event: Json, calls: Mapping[UUID, _Row]) -> InteractionEvent:
    """Joins an event with its call. The result of a free tool is in the event, that of a paid one in the ledger."""
    if event["type"] == "repair":
        return RepairEvent(subject=event["subject"], repairs=event["repairs"])
    call = calls.get(UUID(event["call_id"])) if "call_id" in event else None
    answer: Json | None = call.answer if call else None
    if event["type"] != "answer":
        return ToolResultEvent(
            tool_call_id=event.get("tool_call_id"),
            name=event["name"],
            result=answer if "call_id" in event else event.get("result"),
        )
    message = (answer or {}).get("message")
    return AnswerEvent(
        call_id=event["call_id"],
        text=(message or {}).get("content"),
        tool_calls=[
            # A message has what the server sent, with fields of its own.
            ToolCall(
                id=each.get("id"),
                name=each["function"]["name"],
                arguments=each["function"]["arguments"],
            )
            for each in (message or {}).get("tool_calls") or []
        ],
        message=message,
        finish_reason=(answer or {}).get("finish_reason"),
        input_tokens=call.input_tokens if call else None,
        output_tokens=call.output_tokens if call else None,
    )


async def runs_of_iteration(session: Transaction, iteration_id: UUID) -> list[PhaseRun]:
    """Returns the phase runs by start time, with their costs.

    The caller has checked that the iteration is the owner's.
    """
    events = func.sum(_count_visible(Call.events), type_=Integer).label("event_count")
    sums = await session.execute(
        select(Call.interaction_id, events, *SPENT)
        .where(Call.iteration_id == iteration_id)
        .group_by(Call.interaction_id)
    )
    by_run = {row["interaction_id"]: dict(row) for row in sums.mappings()}
    runs = await session.execute(
        select(*columns_of(Interaction, PhaseRun))
        .where(Interaction.iteration_id == iteration_id)
        .order_by(Interaction.created_at, Interaction.id)
    )
    return [
        PhaseRun(
            **run,
            event_count=by_run.get(run["id"], {}).get("event_count", 0),
            spent=CallUsage.model_validate(by_run.get(run["id"], {})),
        )
        for run in map(dict, runs.mappings())
    ]


MAX_SOURCES: Final = 50
_STORED_EVENT: Final = (
    func.jsonb_array_elements(Call.events)
    .table_valued(column("event", JSONB), with_ordinality="place", name="stored")
    .render_derived()
)
_EVENT: Final = _STORED_EVENT.c.event
_LIGHT_FIELDS: Final[Mapping[str, Any]] = {
    "type": _EVENT["type"],
    "call_id": _EVENT["call_id"],
    "name": _EVENT["name"],
    "is_refused": _EVENT["result"].has_key("error"),
}
_LIGHT_EVENT: Final = func.jsonb_build_object(
    *(part for pair in _LIGHT_FIELDS.items() for part in pair)
)
_LIGHT_EVENTS: Final = (
    select(func.jsonb_agg(aggregate_order_by(_LIGHT_EVENT, _STORED_EVENT.c.place)))
    .select_from(_STORED_EVENT)
    .scalar_subquery()
)
"""The events of a call without the results of tools."""
_REPAIR: Final = ""


async def calls_of_iteration(session: Transaction, iteration_id: UUID) -> list[TracedCall]:
    """Returns the calls without their answers, in the order in which they were first sent.

    The caller has checked that the iteration is the owner's.
    """
    result = await session.execute(
        select(*columns_of(Call, TracedCall, light_events=_LIGHT_EVENTS))
        .where(Call.iteration_id == iteration_id)
        .order_by(Call.started_at, Call.id)
    )
    rows = result.mappings().all()
    tools = _tools_by_answer(rows)
    return [
        TracedCall(
            **row,
            tools=[
                TracedTool(name=name, uses=len(refusals), refused=sum(refusals))
                for name, refusals in tools[str(row["id"])].items()
                if name != _REPAIR
            ],
            repairs=len(tools[str(row["id"])][_REPAIR]),
        )
        for row in rows
    ]


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
            elif event["type"] not in _HIDDEN and event["call_id"] is None and run_id in newest:
                found[newest[run_id]][event["name"] or _REPAIR].append(bool(event["is_refused"]))
    return found


async def find_call(access: Access, iteration_id: UUID, call_id: UUID) -> CallDetails:
    """Returns the call with its answer. Raises NotFoundError where the owner's iteration has none of that id."""
    statement = (
        select(*columns_of(Call, CallDetails))
        .join(Agent, Agent.id == Call.agent_id)
        .where(Call.id == call_id, Call.iteration_id == iteration_id)
        .where(Agent.owner_id == access.owner_id)
    )
    call = await read_one(access.session, CallDetails, statement)
    if call is None:
        raise NotFoundError("call", call_id)
    return call


async def source_ids(access: AgentAccess, urls: Collection[str]) -> dict[str, UUID]:
    """Returns the newest source of each page that is stored."""
    rows = await access.session.execute(
        select(Source.url, Source.id)
        .where(Source.agent_id == access.agent.id, Source.url.in_(urls))
        .order_by(Source.fetched_at)
    )
    return {row.url: row.id for row in rows}


async def sources_of_step(access: AgentAccess, step_id: UUID) -> list[SourceName]:
    """Returns the pages that the step was the first to fetch, at most MAX_SOURCES."""
    statement = (
        select(*columns_of(Source, SourceName))
        .where(Source.agent_id == access.agent.id, Source.step_id == step_id)
        .order_by(Source.fetched_at, Source.id)
        .limit(MAX_SOURCES)
    )
    return await read_all(access.session, SourceName, statement)


async def list_answers(access: Access, interaction_id: UUID) -> list[ModelTurn]:
    """Returns the model's answers with their tool uses, oldest first. Raises NotFoundError."""
    events = (await _owned_run(access, interaction_id, Interaction.events)).events
    rows = await access.session.execute(
        select(*_ANSWERED).where(Call.interaction_id == interaction_id)
    )
    return _turns(events, {str(call.id): call for call in rows})


def _turns(events: Sequence[Json], calls: Mapping[str, _Row]) -> list[ModelTurn]:
    """Groups events by answer. Tool results come before the next request to the model."""
    rounds: dict[str, list[Json]] = {}
    for event in events:
        if event["type"] == "answer":
            rounds[event["call_id"]] = results = []
        elif rounds and event["type"] == "tool_result":
            results.append(event)
    # The last request may have had failed attempts only, so far.
    failing = [
        ModelTurn(
            is_kept=True,
            text=None,
            tool_uses=[],
            failures=failures_of([call]),
            spent=_spent(call),
            call_id=call.id,
            started_at=call.started_at,
            answered_at=None,
        )
        for call_id, call in calls.items()
        if call.failures and call_id not in rounds and call.kind == CallKind.LLM
    ]
    return [*(_turn(call_id, results, calls) for call_id, results in rounds.items()), *failing]


def _turn(call_id: str, results: Sequence[Json], calls: Mapping[str, _Row]) -> ModelTurn:
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


def _tool_use(function: Json, event: Json | None, calls: Mapping[str, _Row]) -> ToolUse:
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


def _spent(call: _Row | None) -> CallUsage:
    if call is None:
        return CallUsage()
    return CallUsage(
        calls=1,
        input_tokens=call.input_tokens or 0,
        output_tokens=call.output_tokens or 0,
        cost_usd=call.cost_usd or 0,
        assumed_usd=call.assumed_usd,
        unpriced=int(call.kind == CallKind.LLM and call.cost_usd is None),
    )
