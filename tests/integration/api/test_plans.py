"""List pages use their indexes: the query plans of the statements that the API sends."""

from typing import Any, Final

import httpx
import psycopg

from shared.runtime.settings import Settings
from tests.support.api.clients import create_client
from tests.support.large_agent import AGENT, OWNER, Size, fill
from tests.support.sql_capture import Statements, captured_statements, explain

SIZE: Final = Size(nodes=5_000, edges=10_000, iterations=1_000, items=2_000, calls=5_000)

INDEX_BY_PATH: Final = {
    f"/agents/{AGENT}/iterations": "iterations_agent_id_number_key",
    f"/agents/{AGENT}/interactions": "llm_interactions_agent_idx",
    f"/agents/{AGENT}/nodes": "graph_nodes_agent_updated_idx",
    f"/agents/{AGENT}/nodes?type=Type3": "graph_nodes_agent_type_updated_idx",
    f"/agents/{AGENT}/nodes?search=word777": "graph_nodes_search_idx",
    f"/agents/{AGENT}/edges": "graph_edges_agent_updated_idx",
    f"/agents/{AGENT}/edges?type=type_3": "graph_edges_agent_type_updated_idx",
    f"/agents/{AGENT}/analyses": "graph_nodes_agent_type_updated_idx",
    f"/agents/{AGENT}/calls": "calls_costs_idx",
    f"/agents/{AGENT}/edges?node_id={{hub}}": "graph_edges_target_updated_idx",
    "/inbox": "inbox_items_shown_idx",
    "/inbox?view=open": "inbox_items_shown_idx",
    "/inbox?unread=true": "inbox_items_unread_idx",
}
"""The index that each list uses. Lists that stay small (agents, types, dead letters) are not checked."""


def _page_query(statements: Statements) -> tuple[str, Any]:
    """Returns the query that reads the page: it is ordered, and it is not the lookup of the agent."""
    page_queries = [
        statement
        for statement in statements
        if "ORDER BY" in statement[0] and "lower(agents.name)" not in statement[0]
    ]
    (query,) = page_queries
    return query


async def test_every_list_page_uses_its_index(database_url: str) -> None:
    hub = fill(database_url, SIZE)
    async with create_client(Settings(database_url=database_url, owner=OWNER)) as api:
        for template, index in INDEX_BY_PATH.items():
            path = template.format(hub=hub)
            first = await api.get(path)
            assert first.status_code == 200, first.text
            for cursor in {None, first.json()["next"]}:
                params = {"cursor": cursor} if cursor else {}
                with captured_statements() as statements:
                    await api.get(httpx.URL(path).copy_merge_params(params))
                with psycopg.connect(database_url) as connection:
                    plan = explain(connection, *_page_query(statements))
                assert index in plan, f"{path}\n{plan}"
                # There is one agent, and the node has few edges in this data.
                if "node_id" not in path:
                    others = plan.replace("Seq Scan on agents", "")
                    assert "Seq Scan" not in others, f"{path}\n{plan}"
