"""Writing conclusions: an analysis or advice must rest on what it cites."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import Uuid, any_, bindparam, select
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.statements import Direct
from shared.database.tables import Conversation, GraphEdge, GraphNode, InboxItem, Message
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, Role
from shared.graph import nodes
from shared.graph.conclusions import citation_index
from shared.graph.conclusions.citations import (
    Found,
    Kind,
    Refusal,
    parse,
    refuse_advice,
    refuse_analysis,
)
from shared.graph.conclusions.commitments import (
    checked_confidence,
    checked_horizon,
    checked_invalidation,
)
from shared.graph.entity_resolution.redirects import current_ids
from shared.graph.prompt_format import utc
from shared.graph.retraction.doubts import is_doubted
from shared.graph.scope import OWNED, Scope, hold_still, is_supported
from shared.graph.validation import normal_name, one_line, refuse_large, refuse_unstorable
from shared.schemas.base import CommitmentView
from shared.tools import Json, ToolRefusalError
from shared.workflow.iterations import clock

AnalysisKind = Literal["observation", "pattern"]
Action = Literal["BUY", "SELL", "HOLD"]

_GIVEN: Final = any_(bindparam("ids", type_=ARRAY(Uuid())))
_NODES: Final = Direct(
    select(
        GraphNode.id,
        GraphNode.type,
        (is_supported(GraphNode) & ~is_doubted()).label("stands"),
    ).where(GraphNode.agent_id == OWNED, GraphNode.id == _GIVEN)
)
_EDGES: Final = Direct(
    select(GraphEdge.id, is_supported(GraphEdge).label("stands")).where(
        GraphEdge.agent_id == OWNED, GraphEdge.id == _GIVEN
    )
)
_Rule = Callable[[str, str, Found], Refusal | None]


async def add_analysis(
    session: AsyncSession,
    scope: Scope,
    *,
    name: str,
    kind: AnalysisKind,
    summary: str,
    content: str,
    confidence: float,
    horizon: str | None = None,
) -> UUID:
    """The id of the new AgentAnalysis; `confidence` is 0 to 1, `horizon` a date or a time from today on.

    Refuses where these or the citations do not hold, or the name is taken.
    """
    given: Json = {"type": kind, "summary": one_line(summary), "content": content.strip()}
    given |= await _committed(session, confidence, horizon)
    return await _conclude(session, scope, ANALYSIS_TYPE, name, given, refuse_analysis)


async def add_advice(
    session: AsyncSession,
    scope: Scope,
    *,
    name: str,
    action: Action,
    summary: str,
    content: str,
    confidence: float,
    horizon: str,
    invalidation: str,
) -> UUID:
    """The id of the new AgentAdvice, which is also put into its owner's inbox and the agent's conversation.

    `confidence` is 0 to 1, `horizon` a date or a time from today on, `invalidation` what would prove it wrong.
    Refuses where these or the citations do not hold, or the name is taken.
    """
    given: Json = {"action": action, "summary": one_line(summary), "content": content.strip()}
    given |= await _committed(session, confidence, horizon)
    given["invalidation"] = checked_invalidation(invalidation)
    advice_id = await _conclude(session, scope, ADVICE_TYPE, name, given, refuse_advice)
    title = f"{action}: {normal_name(name)}"
    await _tell_owner(session, scope, advice_id, title, given)
    return advice_id


async def _committed(session: AsyncSession, confidence: float, horizon: str | None) -> Json:
    committed: Json = {"confidence": checked_confidence(confidence)}
    if horizon is not None:
        today = (await clock(session)).astimezone(UTC).date()
        committed["horizon"] = checked_horizon(horizon, today).isoformat()
    return committed


async def _conclude(
    session: AsyncSession,
    scope: Scope,
    type_name: str,
    name: str,
    given: Json,
    rule: _Rule,
) -> UUID:
    name = normal_name(name)
    refuse_unstorable(given, type_name)
    refuse_large(given, type_name)
    if not given["summary"]:
        raise ToolRefusalError("summary: it is empty; say the conclusion in one sentence.")
    await hold_still(session, scope.agent_id)
    found = await _found(session, scope, given)
    if refusal := rule(given["content"], given["summary"], found):
        raise ToolRefusalError(refusal.reason)
    properties = {**given, "generated_at": utc(await clock(session))}
    node_id = ids.node_id(scope.agent_id, type_name, name)
    if not await nodes.insert_new(
        session, scope, type_name=type_name, name=name, properties=properties
    ):
        raise ToolRefusalError(
            f"An {type_name} with this name exists: [node:{node_id}]; name what is new, "
            "and where nothing is new, add nothing."
        )
    await citation_index.keep(session, node_id, citation_index.cited_in(given))
    return node_id


async def _found(session: AsyncSession, scope: Scope, given: Json) -> Found:
    cited = parse(given["content"], given["summary"])
    moved = await current_ids(session, scope, cited.ids())
    nodes_cited, edges_cited = (
        [moved.get(each, each) for each in cited.ids(kind)] for kind in (Kind.NODE, Kind.EDGE)
    )
    node_rows = await _NODES.rows(session, {**scope.bound, "ids": nodes_cited})
    edge_rows = await _EDGES.rows(session, {**scope.bound, "ids": edges_cited})
    types: dict[UUID, str] = {row.id: row.type for row in node_rows}
    stands: dict[UUID, bool] = {row.id: row.stands for row in (*node_rows, *edge_rows)}
    # What a merge has moved is cited by either id.
    types |= {gone: types[kept] for gone, kept in moved.items() if kept in types}
    stands |= {gone: stands[kept] for gone, kept in moved.items() if kept in stands}
    return Found(
        types,
        stands.keys() - types.keys(),
        frozenset(each for each, does_stand in stands.items() if not does_stand),
    )


async def _tell_owner(
    session: AsyncSession, scope: Scope, advice_id: UUID, title: str, given: Json
) -> None:
    await session.execute(
        insert(InboxItem).values(
            id=ids.inbox_item_id(advice_id),
            owner_id=scope.owner_id,
            agent_id=scope.agent_id,
            node_id=advice_id,
            title=title,
            summary=given["summary"],
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
            content=f"**{title}**\n\n{given['summary']}\n\n{given['content']}",
        )
    )


async def today(session: AsyncSession) -> date:
    """The database's day (UTC)."""
    now: datetime = await clock(session)
    return now.astimezone(UTC).date()


def committed(properties: Json | None, day: date) -> dict[str, Any]:
    """The fields of CommitmentView, as they are on `day`; older conclusions have some or none of them."""
    told = properties or {}
    until = _date(told.get("horizon"))
    return CommitmentView(
        confidence=told.get("confidence"),
        horizon=until,
        invalidation=told.get("invalidation"),
        expired=until is not None and until < day,
    ).model_dump()


def _date(written: Any) -> date | None:
    """What is no date was written by nobody of ours, and is no reason to show nothing at all."""
    try:
        return date.fromisoformat(written)
    except (TypeError, ValueError):
        return None
