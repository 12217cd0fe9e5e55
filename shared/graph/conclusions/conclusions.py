"""Writing conclusions: an analysis or advice must cite what it rests on."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import select

from shared.database import ids
from shared.database.statements import (
    ANY_OF_IDS,
    BoundQuery,
    CompiledStatement,
    Executor,
    InTransaction,
    RoundTrip,
    Row,
    uuid_array,
)
from shared.database.tables import GraphEdge, GraphNode
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, Role
from shared.graph import nodes, upsert
from shared.graph.conclusions import citation_index
from shared.graph.conclusions.citations import (
    CitedElements,
    Kind,
    ParsedCitations,
    Refusal,
    parse_citations,
    refuse_advice,
    refuse_analysis,
)
from shared.graph.conclusions.commitments import (
    parse_horizon,
    validate_confidence,
    validate_invalidation,
)
from shared.graph.entity_resolution.redirects import current_ids, has_redirect
from shared.graph.prompt_format import format_utc
from shared.graph.retraction.doubts import is_doubted
from shared.graph.scope import (
    GraphScope,
    is_owned,
    is_supported,
    shared_retraction_lock,
    take_shared_retraction_lock,
)
from shared.graph.upsert import ElementBuffer
from shared.graph.validation import normalize_name, one_line, refuse_large, refuse_unstorable
from shared.schemas.base import ForecastTerms
from shared.tools import Json, ToolRefusalError
from shared.workflow.iterations import CLOCK, database_time

AnalysisKind = Literal["observation", "pattern"]
Action = Literal["BUY", "SELL", "HOLD"]

_CITED_NODES: Final = CompiledStatement(
    select(
        GraphNode.id,
        GraphNode.type,
        (is_supported(GraphNode) & ~is_doubted()).label("is_valid"),
    ).where(is_owned(GraphNode.agent_id), GraphNode.id == ANY_OF_IDS)
)
_CITED_EDGES: Final = CompiledStatement(
    select(GraphEdge.id, is_supported(GraphEdge).label("is_valid")).where(
        is_owned(GraphEdge.agent_id), GraphEdge.id == ANY_OF_IDS
    )
)
_Rule = Callable[[str, str, CitedElements], Refusal | None]


async def add_analysis(
    session: InTransaction,
    scope: GraphScope,
    *,
    name: str,
    kind: AnalysisKind,
    summary: str,
    content: str,
    confidence: float,
    horizon: str | None = None,
) -> UUID:
    """Add an AgentAnalysis and return its id.

    `confidence` is 0 to 1, `horizon` a date or a duration from today. Raises ToolRefusalError if an argument or a
    citation is invalid, or the name is taken.
    """
    properties: Json = {"type": kind, "summary": one_line(summary), "content": content.strip()}
    properties |= await _validate_forecast(session, confidence, horizon)
    return await _add_conclusion(session, scope, ANALYSIS_TYPE, name, properties, refuse_analysis)


async def add_advice(
    session: InTransaction,
    scope: GraphScope,
    *,
    name: str,
    action: Action,
    summary: str,
    content: str,
    confidence: float,
    horizon: str,
    invalidation: str,
) -> UUID:
    """Add an AgentAdvice, put it into the owner's inbox and the agent's conversation, and return its id.

    `confidence` is 0 to 1, `horizon` a date or a duration from today, `invalidation` what would prove it wrong.
    Raises ToolRefusalError if an argument or a citation is invalid, or the name is taken.
    """
    properties: Json = {"action": action, "summary": one_line(summary), "content": content.strip()}
    properties |= await _validate_forecast(session, confidence, horizon)
    properties["invalidation"] = validate_invalidation(invalidation)
    advice_id = await _add_conclusion(session, scope, ADVICE_TYPE, name, properties, refuse_advice)
    title = f"{action}: {normalize_name(name)}"
    await _notify_owner(session, scope, advice_id, title, properties)
    return advice_id


async def _validate_forecast(
    session: InTransaction, confidence: float, horizon: str | None
) -> Json:
    terms: Json = {"confidence": validate_confidence(confidence)}
    if horizon is not None:
        today = (await _current_time(session)).astimezone(UTC).date()
        terms["horizon"] = parse_horizon(horizon, today).isoformat()
    return terms


async def _add_conclusion(
    session: InTransaction,
    scope: GraphScope,
    type_name: str,
    name: str,
    properties: Json,
    rule: _Rule,
) -> UUID:
    name = normalize_name(name)
    refuse_unstorable(properties, type_name)
    refuse_large(properties, type_name)
    if not properties["summary"]:
        raise ToolRefusalError("summary: it is empty; say the conclusion in one sentence.")
    if _lookups(session) is None:
        await take_shared_retraction_lock(session, scope.agent_id)
    cited = await _load_cited(session, scope, properties)
    if refusal := rule(properties["content"], properties["summary"], cited):
        raise ToolRefusalError(refusal.reason)
    generated_at = format_utc(await _current_time(session))
    node_properties = {**properties, "generated_at": generated_at}
    node_id = ids.node_id(scope.agent_id, type_name, name)
    if not await _insert(session, scope, type_name, name, node_properties):
        raise ToolRefusalError(
            f"An {type_name} with this name exists: [node:{node_id}]; add only what is new, "
            "under a new name."
        )
    return node_id


async def _insert(
    session: InTransaction, scope: GraphScope, type_name: str, name: str, properties: Json
) -> bool:
    """Insert the node and what it cites; returns False if it exists."""
    buffer, lookups = upsert.element_buffer(session), _lookups(session)
    node_id = ids.node_id(scope.agent_id, type_name, name)
    cited = sorted(set(citation_index.cited_ids(properties)))
    if buffer is not None and lookups is not None and node_id in lookups.named:
        if lookups.named[node_id] or node_id in buffer.written_nodes:
            return False
        columns = nodes.new_columns(scope, type_name=type_name, name=name, properties=properties)
        buffer.add_conclusion(columns, cited)
        return True
    is_new = await nodes.insert_node(
        session, scope, type_name=type_name, name=name, properties=properties
    )
    if is_new:
        await citation_index.store_citations(session, node_id, cited)
    return is_new


@dataclass(frozen=True)
class _Cited:
    """Current ids by old id of merged elements; types of the cited nodes; whether each cited element can be cited."""

    current: Mapping[UUID, UUID]
    types: Mapping[UUID, str]
    is_valid: Mapping[UUID, bool]


@dataclass(frozen=True)
class _Lookups:
    """What the conclusions of one answer look up; see `ask_lookups`."""

    now: datetime
    cited_ids: Set[UUID]
    cited: _Cited | None
    """None if a merge has moved one of them: then they are looked up in another way."""
    named: Mapping[UUID, bool]
    """Whether the conclusion of this id exists, by the ids of those to be written."""


def ask_lookups(
    trip: RoundTrip, scope: GraphScope, type_name: str, texts: Sequence[tuple[str, str, str]]
) -> Callable[[ElementBuffer], None]:
    """Asks for what conclusions with these names, summaries and contents look up, under the lock that keeps retractions
    out. When the trip has been made, call the result with the buffer of the transaction.
    """
    cited_ids, named = set[UUID](), set[UUID]()
    for name, summary, content in texts:
        cited_ids.update(parse_citations(content.strip(), one_line(summary)).ids())
        with suppress(ToolRefusalError):
            named.add(ids.node_id(scope.agent_id, type_name, normalize_name(name)))
    trip.ask(shared_retraction_lock(scope.agent_id))
    now = trip.ask(CLOCK)
    is_moved = trip.ask(has_redirect(scope, cited_ids))
    node_rows = trip.ask(_by_ids(_CITED_NODES, scope, cited_ids))
    edge_rows = trip.ask(_by_ids(_CITED_EDGES, scope, cited_ids))
    existing = trip.ask(nodes.existing_ids(scope, named))

    def hand_over(buffer: ElementBuffer) -> None:
        buffer.lookups[_Lookups] = _Lookups(
            now.value,
            cited_ids,
            None if is_moved.value else _as_cited({}, node_rows.value, edge_rows.value),
            {node_id: node_id in existing.value for node_id in named},
        )

    return hand_over


def _lookups(session: InTransaction) -> _Lookups | None:
    buffer = upsert.element_buffer(session)
    return None if buffer is None else buffer.lookups.get(_Lookups)


async def _current_time(session: InTransaction) -> datetime:
    lookups = _lookups(session)
    return await database_time(session) if lookups is None else lookups.now


async def _load_cited(session: InTransaction, scope: GraphScope, properties: Json) -> CitedElements:
    citations = parse_citations(properties["content"], properties["summary"])
    lookups, buffer = _lookups(session), upsert.element_buffer(session)
    if (
        lookups is not None
        and lookups.cited is not None
        and buffer is not None
        and lookups.cited_ids >= set(citations.ids())
        and buffer.written_nodes.keys().isdisjoint(citations.ids())
    ):
        cited = lookups.cited
    else:
        cited = await _read_cited(session, scope, citations)
    types, is_valid = dict(cited.types), dict(cited.is_valid)
    # A merged element may be cited by its old or its new id.
    for old_id, new_id in cited.current.items():
        if new_id in types:
            types[old_id] = types[new_id]
        if new_id in is_valid:
            is_valid[old_id] = is_valid[new_id]
    return CitedElements(
        types,
        is_valid.keys() - types.keys(),
        frozenset(element_id for element_id, is_usable in is_valid.items() if not is_usable),
    )


async def _read_cited(
    session: InTransaction, scope: GraphScope, citations: ParsedCitations
) -> _Cited:
    current = await current_ids(session, scope, citations.ids())
    nodes_cited, edges_cited = (
        [current.get(element_id, element_id) for element_id in citations.ids(kind)]
        for kind in (Kind.NODE, Kind.EDGE)
    )
    return _as_cited(
        current,
        await _by_ids(_CITED_NODES, scope, nodes_cited).answer(session),
        await _by_ids(_CITED_EDGES, scope, edges_cited).answer(session),
    )


def _as_cited(
    current: Mapping[UUID, UUID], node_rows: Sequence[Row], edge_rows: Sequence[Row]
) -> _Cited:
    return _Cited(
        current,
        {row.id: row.type for row in node_rows},
        {row.id: row.is_valid for row in (*node_rows, *edge_rows)},
    )


def _by_ids(
    statement: CompiledStatement, scope: GraphScope, element_ids: Iterable[UUID]
) -> BoundQuery[list[Row]]:
    return BoundQuery(statement, {**scope.sql_params, "ids": uuid_array(element_ids)}, list)


_NOTIFY: Final = CompiledStatement("""
with inbox as (
  insert into inbox_items (id, owner_id, agent_id, node_id, title, summary)
  values (:item_id, :owner_id, :agent_id, :node_id, :title, :summary)
),
conversation as (
  insert into conversations (id, agent_id) values (:conversation_id, :agent_id)
  on conflict do nothing
)
insert into messages (id, conversation_id, role, node_id, content)
select :message_id,
  coalesce((select id from conversations where agent_id = :agent_id), :conversation_id),
  :role, :node_id, :content
""")


async def _notify_owner(
    session: InTransaction, scope: GraphScope, advice_id: UUID, title: str, properties: Json
) -> None:
    params = {
        "item_id": ids.inbox_item_id(advice_id),
        "owner_id": scope.owner_id,
        "agent_id": scope.agent_id,
        "node_id": advice_id,
        "title": title,
        "summary": properties["summary"],
        "conversation_id": ids.conversation_id(scope.agent_id),
        "message_id": ids.message_id(advice_id),
        "role": Role.AGENT,
        "content": f"**{title}**\n\n{properties['summary']}\n\n{properties['content']}",
    }
    await _NOTIFY.run(session, params)


async def database_date(session: Executor) -> date:
    """The database's current date (UTC)."""
    now: datetime = await database_time(session)
    return now.astimezone(UTC).date()


def forecast_fields(properties: Json | None, day: date) -> dict[str, Any]:
    """The fields of ForecastTerms on the given day; older conclusions have only some of them."""
    values = properties or {}
    horizon = _parse_date(values.get("horizon"))
    return ForecastTerms(
        confidence=values.get("confidence"),
        horizon=horizon,
        invalidation=values.get("invalidation"),
        expired=horizon is not None and horizon < day,
    ).model_dump()


def _parse_date(value: Any) -> date | None:
    """None for anything that is no date: an edited value must not prevent showing the conclusion."""
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        return None
