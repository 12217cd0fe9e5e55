"""The best connected nodes of a graph."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement
from shared.graph.context.standing import STANDS_SQL
from shared.graph.scope import JOINS_TWO_NODES_SQL, OWNED_AGENT_ID_SQL, GraphScope

DEGREE_LIMIT: Final = 500
"""Counting the edges of a node stops here, in each direction."""
_EDGES_SAMPLED: Final = 1_000
"""Hubs are searched among the newest edges, so that the cost does not grow with the graph."""


@dataclass(frozen=True)
class Hub:
    id: UUID
    type: str
    name: str
    edges: int


# An edge of the node with itself (see JOINS_TWO_NODES_SQL) is counted and taken off. A condition that leaves it out would
# be checked in the table, for each edge of a hub, because no index of the edges that end at a node has their source.
_HUBS: Final = CompiledStatement(f"""
    with recent as (
        select source_id, target_id from graph_edges
        where agent_id = {OWNED_AGENT_ID_SQL} and {JOINS_TWO_NODES_SQL}
        order by updated_at desc limit {_EDGES_SAMPLED}
    ), busiest as (
        select node_id
        from (select source_id as node_id from recent union all select target_id from recent) as ends
        group by node_id order by count(*) desc, node_id limit :most
    )
    select node.id, node.type, node.name,
      (select count(*) from (
        select from graph_edges where source_id = node.id limit {DEGREE_LIMIT} + history.edges
      ) as starting)
      + (select count(*) from (
        select from graph_edges where target_id = node.id limit {DEGREE_LIMIT} + history.edges
      ) as ending)
      - 2 * history.edges as degree
    from graph_nodes as node join busiest on busiest.node_id = node.id
    cross join lateral (
        select count(*) as edges from graph_edges where source_id = node.id and target_id = node.id
    ) as history
    where {STANDS_SQL}
    order by degree desc, node.name, node.id
    """)


def find_hubs(scope: GraphScope, limit: int) -> BoundQuery[list[Hub]]:
    """The nodes with the most edges, among those of the newest edges."""
    params = {**scope.sql_params, "most": limit}
    return BoundQuery(_HUBS, params, lambda rows: [Hub(*row) for row in rows])
