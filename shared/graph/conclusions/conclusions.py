"""Writing conclusions: an analysis or advice must cite what it rests on."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import Uuid, any_, bindparam, select
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.statements import CompiledStatement
from shared.database.tables import Conversation, GraphEdge, GraphNode, InboxItem, Message
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, Role
from shared.graph import nodes
from shared.graph.conclusions import citation_index
from shared.graph.conclusions.citations import (
    CitedElements,
    Kind,
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
from shared.graph.entity_resolution.redirects import current_ids
from shared.graph.prompt_format import format_utc
from shared.graph.retraction.doubts import is_doubted
from shared.graph.scope import OWNED_AGENT_ID, GraphScope, is_supported, take_shared_retraction_lock
from shared.graph.validation import normalize_name, one_line, refuse_large, refuse_unstorable
from shared.schemas.base import ForecastTerms
from shared.tools import Json, ToolRefusalError
from shared.workflow.iterations import database_time

AnalysisKind = Literal["observation", "pattern"]
Action = Literal["BUY", "SELL", "HOLD"]

_ANY_ID: Final = any_(bindparam("ids", type_=ARRAY(Uuid())))
_CITED_NODES: Final = CompiledStatement(
    select(
        GraphNode.id,
        GraphNode.type,
        (is_supported(GraphNode) & ~is_doubted()).label("is_valid"),
    ).where(GraphNode.agent_id == OWNED_AGENT_ID, GraphNode.id == _ANY_ID)
)
_CITED_EDGES: Final = CompiledStatement(
    select(GraphEdge.id, is_supported(GraphEdge).label("is_valid")).where(
        GraphEdge.agent_id == OWNED_AGENT_ID, GraphEdge.id == _ANY_ID
    )
)
_Rule = Callable[[str, str, CitedElements], Refusal | None]


async def add_analysis(
    session: AsyncSession,
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
    session: AsyncSession,
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


async def _validate_forecast(session: AsyncSession, confidence: float, horizon: str | None) -> Json:
    terms: Json = {"confidence": validate_confidence(confidence)}
    if horizon is not None:
        today = (await database_time(session)).astimezone(UTC).date()
        terms["horizon"] = parse_horizon(horizon, today).isoformat()
    return terms


async def _add_conclusion(
    session: AsyncSession,
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
    await take_shared_retraction_lock(session, scope.agent_id)
    cited = await _load_cited(session, scope, properties)
    if refusal := rule(properties["content"], properties["summary"], cited):
        raise ToolRefusalError(refusal.reason)
    node_properties = {**properties, "generated_at": format_utc(await database_time(session))}
    node_id = ids.node_id(scope.agent_id, type_name, name)
    if not await nodes.insert_node(
        session, scope, type_name=type_name, name=name, properties=node_properties
    ):
        raise ToolRefusalError(
            f"An {type_name} with this name exists: [node:{node_id}]; add only what is new, "
            "under a new name."
        )
    await citation_index.store_citations(session, node_id, citation_index.cited_ids(properties))
    return node_id


async def _load_cited(session: AsyncSession, scope: GraphScope, properties: Json) -> CitedElements:
    citations = parse_citations(properties["content"], properties["summary"])
    current = await current_ids(session, scope, citations.ids())
    nodes_cited, edges_cited = (
        [current.get(element_id, element_id) for element_id in citations.ids(kind)]
        for kind in (Kind.NODE, Kind.EDGE)
    )
    node_rows = await _CITED_NODES.rows(session, {**scope.sql_params, "ids": nodes_cited})
    edge_rows = await _CITED_EDGES.rows(session, {**scope.sql_params, "ids": edges_cited})
    types: dict[UUID, str] = {row.id: row.type for row in node_rows}
    is_valid: dict[UUID, bool] = {row.id: row.is_valid for row in (*node_rows, *edge_rows)}
    # A merged element may be cited by its old or its new id.
    types |= {old_id: types[new_id] for old_id, new_id in current.items() if new_id in types}
    is_valid |= {
        old_id: is_valid[new_id] for old_id, new_id in current.items() if new_id in is_valid
    }
    return CitedElements(
        types,
        is_valid.keys() - types.keys(),
        frozenset(element_id for element_id, is_usable in is_valid.items() if not is_usable),
    )


async def _notify_owner(
    session: AsyncSession, scope: GraphScope, advice_id: UUID, title: str, properties: Json
) -> None:
    await session.execute(
        insert(InboxItem).values(
            id=ids.inbox_item_id(advice_id),
            owner_id=scope.owner_id,
            agent_id=scope.agent_id,
            node_id=advice_id,
            title=title,
            summary=properties["summary"],
        )
    )
    await session.execute(
        insert(Conversation)
        .values(id=ids.conversation_id(scope.agent_id), agent_id=scope.agent_id)
        .on_conflict_do_nothing()
    )
    conversation = select(Conversation.id).where(Conversation.agent_id == scope.agent_id)
    await session.execute(
        insert(Message).values(
            id=ids.message_id(advice_id),
            conversation_id=conversation.scalar_subquery(),
            role=Role.AGENT,
            node_id=advice_id,
            content=f"**{title}**\n\n{properties['summary']}\n\n{properties['content']}",
        )
    )


async def database_date(session: AsyncSession) -> date:
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
