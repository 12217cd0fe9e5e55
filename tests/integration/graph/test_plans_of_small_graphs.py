"""Plans for a graph of few nodes: PostgreSQL keeps them while the graph grows, until it analyses the tables again."""

import re
from typing import Any, Final

import pytest

from bench.graph.filling import fill
from shared.database.engine import Database
from shared.database.statements import BoundQuery
from shared.graph import elements
from shared.graph.context import recent
from shared.graph.entity_resolution import aliases
from shared.graph.entity_resolution.aliases import NameRequest

FEW: Final = (60, 200)
"""PostgreSQL analyses a table for the first time when it has more than 50 rows."""

_ALL_OF_AGENT: Final = re.compile(r"Index Cond: \(agent_id = [^=]*$", re.MULTILINE)


async def _plan(database: Database, query: BoundQuery[Any]) -> str:
    """The plan that workers use, whatever the values are."""
    statement = query.statement.bind(query.params).sql.decode()
    async with database.connection() as connection:
        cursor = await connection.execute(f"explain (generic_plan) {statement}".encode())
        return "\n".join(row[0] for row in await cursor.fetchall())


@pytest.mark.parametrize("size", FEW)
async def test_rows_are_found_by_their_id_or_key(
    database: Database, database_url: str, size: int
) -> None:
    """And not among all rows of the agent, which are many later."""
    filled = fill(database_url, size)
    scope, ids = filled.scope, filled.ids[:2]
    request, other = (
        aliases.request_keys(NameRequest("Type1", name, ["Other"], duplicate_threshold=0.5))
        for name in filled.names[:2]
    )
    queries: dict[str, BoundQuery[Any]] = {
        "nodes by id": recent.nodes_by_ids(scope, ids),
        "edges by id": recent.edges_by_ids(scope, ids),
        "existing nodes": elements.existing_ids(scope, ids),
        "ends of edges": elements.ends_query(scope, [("type_1", ids[0], ids[1])] * 2),
        "names": aliases.names_query(scope, [request, other]),
    }
    plans = {name: await _plan(database, query) for name, query in queries.items()}
    for name, plan in plans.items():
        assert "Seq Scan" not in plan, f"{name}\n{plan}"
        assert "_updated_idx" not in plan, f"{name}\n{plan}"
        assert not _ALL_OF_AGENT.search(plan), f"{name}\n{plan}"
        # It would sort all that come before or after a name.
        assert "Bitmap Index Scan on graph_names" not in plan, f"{name}\n{plan}"
    for index in ("graph_names_pkey", "graph_nodes_agent_id_type_name_key"):
        assert index in plans["names"], plans["names"]
