"""Pages are read by indexes, however much there is: by what Postgres says of the very statements that the api sends."""

from typing import Any, Final

import httpx
import psycopg

from bench.large import AGENT, OWNER, Size, fill
from shared.runtime.settings import Settings
from tests.support.api.asking import client_of
from tests.support.sent import Sent, listened

SIZE: Final = Size(nodes=5_000, edges=10_000, iterations=1_000, items=2_000, calls=5_000)

BY: Final = {
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
    "/inbox": "inbox_items_owner_idx",
    "/inbox?unread=true": "inbox_items_unread_idx",
}
"""List to the index that it is read by. What is small by its nature (agents, types, dead letters) is not among them."""


def plan_of(url: str, statement: str, values: Any) -> str:
    with psycopg.connect(url) as connection:
        rows = connection.execute(f"explain {statement}".encode(), values)
        return "\n".join(row[0] for row in rows)


def _page_among(sent: Sent) -> tuple[str, Any]:
    """The one that is in order and limited, and does not look for the agent."""
    pages = [each for each in sent if "ORDER BY" in each[0] and "lower(agents.name)" not in each[0]]
    (page,) = pages
    return page


async def test_every_page_is_read_by_its_index(database_url: str) -> None:
    hub = fill(database_url, SIZE)
    async with client_of(Settings(database_url=database_url, owner=OWNER)) as api:
        for template, index in BY.items():
            path = template.format(hub=hub)
            first = await api.get(path)
            assert first.status_code == 200, first.text
            for cursor in {None, first.json()["next"]}:
                params = {"cursor": cursor} if cursor else {}
                with listened() as sent:
                    await api.get(httpx.URL(path).copy_merge_params(params))
                plan = plan_of(database_url, *_page_among(sent))
                assert index in plan, f"{path}\n{plan}"
                # There is one agent; and what was found by the node is joined to few edges here.
                if "node_id" not in path:
                    others = plan.replace("Seq Scan on agents", "")
                    assert "Seq Scan" not in others, f"{path}\n{plan}"
