"""Searching the graph: behind the tool queryGraph, and bounded in what it returns."""

import json
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, Text, case, cast, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.lines import shortened, utc
from shared.graph.moves import followed
from shared.graph.scope import Scope
from shared.graph.standing import is_supported
from shared.graph.types import node_type
from shared.store.tables import GraphEdge, GraphNode
from shared.tools import Json

MAX_NODES = 50
MAX_EDGES = 100
MAX_BYTES = 20_000
_MAX_WORDS = 8
_NAME_WEIGHT = 3


async def query(
    session: AsyncSession,
    scope: Scope,
    *,
    text: str | None = None,
    type_name: str | None = None,
    ids: Sequence[UUID] = (),
    neighbours: bool = False,
    limit: int = 20,
) -> Json:
    """`{"nodes", "edges"}`: the nodes that meet every condition given, best match first, and the edges among them.

    With `neighbours`, also the edges that touch them and the nodes at the other ends. What is more than MAX_NODES,
    MAX_EDGES or MAX_BYTES is left out, and `cut` says so. What rests on retracted pages alone is not found. Refuses a
    type that does not exist.
    """
    if type_name is not None:
        await node_type(session, scope, type_name)
    ids = await followed(session, scope, ids)
    nodes = await _matching(session, scope, text, type_name, ids, min(limit, MAX_NODES))
    found = [node.id for node in nodes]
    edges = await _edges(session, scope, found, touching=neighbours)
    if neighbours:
        ends = dict.fromkeys(end for edge in edges for end in (edge.source_id, edge.target_id))
        others = [end for end in ends if end not in set(found)][: MAX_NODES - len(nodes)]
        nodes += await _matching(session, scope, None, None, others, MAX_NODES) if others else []
    return _bounded([_node(node) for node in nodes], [_edge(edge) for edge in edges])


def text_score(text: str) -> ColumnElement[int]:
    """How well a node matches the words of `text`; 0 is not at all. The one place that knows how text is searched."""
    score: ColumnElement[int] = literal(0)
    for word in text.replace("\x00", " ").split()[:_MAX_WORDS]:
        in_name = GraphNode.name.icontains(word, autoescape=True)
        in_properties = cast(GraphNode.properties, Text).icontains(word, autoescape=True)
        score = score + case((in_name, _NAME_WEIGHT), (in_properties, 1), else_=0)
    return score


async def _matching(
    session: AsyncSession,
    scope: Scope,
    text: str | None,
    type_name: str | None,
    ids: Sequence[UUID],
    limit: int,
) -> list[GraphNode]:
    statement = select(GraphNode).where(
        GraphNode.agent_id == scope.agent(), is_supported(GraphNode)
    )
    if type_name is not None:
        statement = statement.where(GraphNode.type == type_name)
    if ids:
        statement = statement.where(GraphNode.id.in_(ids))
    if text and text.strip():
        score = text_score(text)
        statement = statement.where(score > 0).order_by(score.desc())
    return list(
        await session.scalars(
            statement.order_by(GraphNode.updated_at.desc(), GraphNode.id)
            .limit(limit)
            .execution_options(populate_existing=True)
        )
    )


async def _edges(
    session: AsyncSession, scope: Scope, ids: Sequence[UUID], *, touching: bool
) -> list[GraphEdge]:
    from_them, to_them = GraphEdge.source_id.in_(ids), GraphEdge.target_id.in_(ids)
    return list(
        await session.scalars(
            select(GraphEdge)
            .where(
                GraphEdge.agent_id == scope.agent(),
                is_supported(GraphEdge),
                or_(from_them, to_them) if touching else from_them & to_them,
            )
            .order_by(GraphEdge.updated_at.desc(), GraphEdge.id)
            .limit(MAX_EDGES)
            .execution_options(populate_existing=True)
        )
    )


def _node(node: GraphNode) -> Json:
    return {
        "id": str(node.id),
        "type": node.type,
        "name": node.name,
        "properties": node.properties,
        "updatedAt": utc(node.updated_at),
    }


def _edge(edge: GraphEdge) -> Json:
    return {
        "id": str(edge.id),
        "type": edge.type,
        "sourceId": str(edge.source_id),
        "targetId": str(edge.target_id),
        "properties": edge.properties,
    }


def _bounded(nodes: list[Json], edges: list[Json]) -> Json:
    """Everything in short while it fits, nodes before edges; then in full what the room that is left allows."""
    things = [*nodes, *edges]
    shown = [_brief(thing) for thing in things]
    # The brackets and the sentence about the cut take some of the room.
    left_bytes = MAX_BYTES - 300 - sum(map(_size_bytes, shown))
    while left_bytes < 0:
        left_bytes += _size_bytes(shown.pop())
    for index, brief in enumerate(shown):
        more_bytes = _size_bytes(things[index]) - _size_bytes(brief)
        if more_bytes <= left_bytes:
            left_bytes -= more_bytes
            shown[index] = things[index]
    answer: Json = {"nodes": shown[: len(nodes)], "edges": shown[len(nodes) :]}
    left_out = len(things) - len(shown)
    shortened_count = sum(each is not whole for each, whole in zip(shown, things, strict=False))
    if left_out or shortened_count:
        answer["cut"] = (
            f"For length, {left_out} nodes or edges are left out and {shortened_count} are shortened; ask for fewer, "
            "by nodeIds, to see them in full."
        )
    return answer


def _brief(thing: Json) -> Json:
    return {**thing, "properties": shortened(thing["properties"])}


def _size_bytes(thing: Json) -> int:
    return len(json.dumps(thing, ensure_ascii=False).encode()) + len(", ")
