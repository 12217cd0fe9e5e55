"""What nodes and edges of a type must satisfy: asked for by whoever is about to write one, who takes its turn with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.turns import BESIDE_OTHERS_SQL
from shared.graph.types import edge_type, node_type
from shared.store.direct import Direct
from shared.store.within import within
from shared.tools import Json

_NODES: Final = Direct(
    f"select properties_schema, {BESIDE_OTHERS_SQL} from graph_node_types"
    f" where agent_id = {OWNED_SQL} and name = :called"
)
_EDGES: Final = Direct(
    f"select properties_schema, source_types, target_types, {BESIDE_OTHERS_SQL}"
    f" from graph_edge_types where agent_id = {OWNED_SQL} and name = :called"
)


@dataclass(frozen=True)
class EdgeRules:
    type_name: str
    schema: Json
    source_types: Sequence[str]
    target_types: Sequence[str]


async def of_nodes(session: AsyncSession, scope: Scope, type_name: str) -> Json:
    """The schema of their properties; refuses as `types.node_type` does. See `turns.write_beside_others`.

    Looked up once for all that a transaction writes: a type stays as it is.
    """
    known = within(session)
    if (key := (_NODES, scope.agent_id, type_name)) not in known:
        asked = {**scope.bound, "called": type_name}
        while (found := await _NODES.row(session, asked)) is None:
            # Refuses, but where it was made just now.
            await node_type(session, scope, type_name)
        known[key] = found.properties_schema
    schema: Json = known[key]
    return schema


async def of_edges(session: AsyncSession, scope: Scope, type_name: str) -> EdgeRules:
    """As `of_nodes`."""
    known = within(session)
    if (key := (_EDGES, scope.agent_id, type_name)) not in known:
        asked = {**scope.bound, "called": type_name}
        while (found := await _EDGES.row(session, asked)) is None:
            await edge_type(session, scope, type_name)
        known[key] = EdgeRules(type_name, *found[:3])
    rules: EdgeRules = known[key]
    return rules
