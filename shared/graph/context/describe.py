"""The nodes and analyses that a phase was given, as they stand in `<relevant_nodes>` and `<analyses>`."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import around
from shared.graph.context import listed
from shared.graph.context.listed import EdgeFacts, NodeFacts
from shared.graph.layout import within
from shared.graph.lines import edge_line, node_line, shortened
from shared.graph.moves import followed
from shared.graph.scope import Scope
from shared.store.words import ANALYSIS_TYPE
from shared.tools import Json

MAX_NODES = 50
_MAX_NEIGHBOURS = 30
_MAX_EDGES = 100
_TOKEN_BUDGET = 6_000
_SHOWN_OF_ANALYSES = ("type", "summary", "content", "confidence", "horizon")


async def describe_nodes(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> str:
    """The lines for `<relevant_nodes>`: the nodes in full, their edges, and briefly the nodes at the other ends.

    Ids that are not this agent's nodes are passed over. Empty where none is.
    """
    nodes = await _given(session, scope, await followed(session, scope, ids))
    if not nodes:
        return ""
    known = [node.id for node in nodes]
    touching = await around.touching(session, scope, known, _MAX_EDGES)
    edges = await listed.edges_by_ids(session, scope, [edge.id for edge in touching])
    neighbours = await _neighbours(session, scope, known, edges)
    lines = [
        *(node_line(node.id, node.type, node.name, node.properties) for node in nodes),
        *(edge_line(e.id, e.type, e.source, e.target, e.properties) for e in edges),
        *(node_line(n.id, n.type, n.name, shortened(n.properties)) for n in neighbours),
    ]
    return within(lines, _TOKEN_BUDGET)


async def describe_analyses(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> str:
    """The lines for `<analyses>`, in the order of `ids`; ids that are not this agent's analyses are passed over."""
    given = await _given(session, scope, ids)
    analyses = [each for each in given if each.type == ANALYSIS_TYPE]
    lines = [
        node_line(each.id, each.type, each.name, _only(_SHOWN_OF_ANALYSES, each.properties))
        for each in analyses
    ]
    return within(lines, _TOKEN_BUDGET)


def _only(keys: Sequence[str], properties: Json) -> Json:
    return {key: properties[key] for key in keys if key in properties}


async def _given(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> list[NodeFacts]:
    """In the order of `ids`, MAX_NODES at most."""
    found = await listed.nodes_by_ids(session, scope, ids)
    return [found[each] for each in dict.fromkeys(ids) if each in found][:MAX_NODES]


async def _neighbours(
    session: AsyncSession, scope: Scope, ids: Sequence[UUID], edges: Sequence[EdgeFacts]
) -> list[NodeFacts]:
    """The nodes at the other ends of `edges`."""
    ends = dict.fromkeys(end for edge in edges for end in (edge.source_id, edge.target_id))
    return await _given(session, scope, [end for end in ends if end not in ids][:_MAX_NEIGHBOURS])
