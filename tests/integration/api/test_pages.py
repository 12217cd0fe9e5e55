"""Pagination: every list is complete, ordered and without duplicates, also while rows are added."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import insert, text

from shared.database.engine import Database
from shared.database.tables import GraphNode
from tests.support.api.clients import assert_problem, create_agent
from tests.support.api.full_agent import AGENT, FullAgent, create_full_agent

LISTS = [
    "/agents",
    f"/agents/{AGENT}/iterations",
    f"/agents/{AGENT}/interactions",
    f"/agents/{AGENT}/nodes",
    f"/agents/{AGENT}/edges",
    f"/agents/{AGENT}/sources",
    f"/agents/{AGENT}/node-types",
    f"/agents/{AGENT}/edge-types",
    f"/agents/{AGENT}/analyses",
    f"/agents/{AGENT}/advice",
    f"/agents/{AGENT}/calls",
    f"/agents/{AGENT}/investigation-requests",
    "/inbox",
    "/dead-letters",
]


@pytest.fixture
async def full(api: httpx.AsyncClient, database: Database) -> FullAgent:
    await create_agent(api, name="Another")
    return await create_full_agent(database)


async def fetch_pages(api: httpx.AsyncClient, path: str, **params: Any) -> AsyncIterator[list[Any]]:
    cursor: dict[str, str] = {}
    while True:
        response = await api.get(path, params=params | cursor)
        assert response.status_code == 200, response.text
        yield response.json()["items"]
        if (next_cursor := response.json()["next"]) is None:
            return
        cursor = {"cursor": next_cursor}


async def fetch_all(api: httpx.AsyncClient, path: str, **params: Any) -> list[Any]:
    return [item async for page in fetch_pages(api, path, **params) for item in page]


async def test_a_list_is_the_same_for_any_page_size(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    for path in LISTS:
        items = await fetch_all(api, path, limit=200)
        assert len(items) >= 2, f"{path} has fewer than two items"
        single_pages = [page async for page in fetch_pages(api, path, limit=1)]
        assert [len(page) for page in single_pages] == [1] * len(items), path
        assert [page[0] for page in single_pages] == items, path


async def test_a_cursor_of_another_list_is_rejected(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    for path in LISTS:
        for cursor in ("x", "WzEsIm90aGVyIiwiYSJd"):
            response = await api.get(path, params={"cursor": cursor})
            assert_problem(response, 422, "not a cursor of this list")
        assert_problem(await api.get(path, params={"limit": 0}), 422, "limit")
        assert_problem(await api.get(path, params={"limit": 201}), 422, "limit")


async def test_rows_added_during_pagination_do_not_shift_pages(
    api: httpx.AsyncClient, full: FullAgent, database: Database
) -> None:
    path = f"/agents/{AGENT}/nodes"
    before = [node["id"] for node in await fetch_all(api, path)]
    node_ids = []
    async for (node,) in fetch_pages(api, path, limit=1):
        node_ids.append(node["id"])
        async with database.transaction() as session:
            values = {"id": uuid4(), "agent_id": full.agent_id, "type": "Thing"}
            await session.execute(
                insert(GraphNode).values(**values, name=f"new {len(node_ids)}", properties={})
            )
    assert node_ids == before


async def test_nodes_updated_at_the_same_time_are_listed_once_each(
    api: httpx.AsyncClient, full: FullAgent, database: Database
) -> None:
    async with database.transaction() as session:
        await session.execute(text("update graph_nodes set updated_at = now()"))
    path = f"/agents/{AGENT}/nodes"
    node_ids = [node["id"] for node in await fetch_all(api, path, limit=2)]
    assert len(set(node_ids)) == len(node_ids) == len(await fetch_all(api, path))


async def test_lists_are_filtered(api: httpx.AsyncClient, full: FullAgent) -> None:
    for path, filters, expected in (
        ("nodes", {"type": "Thing"}, ["Lithium", "Halden Cells"]),
        ("nodes", {"search": "hal", "type": "Thing"}, ["Halden Cells"]),
        ("nodes", {"search": "cell hald"}, ["Halden Cells"]),
        ("nodes", {"search": "LITH", "type": "Thing"}, ["Lithium"]),
        ("nodes", {"search": "alden"}, []),
        ("nodes", {"search": " "}, []),
        ("nodes", {"search": "a' | b:* & \\ !("}, []),
        ("nodes", {"type": "None"}, []),
        ("nodes", {"updated_since": "2999-01-01T00:00:00Z"}, []),
        ("node-types", {}, ["AgentAdvice", "AgentAnalysis", "Thing"]),
    ):
        items = await fetch_all(api, f"/agents/{AGENT}/{path}", **filters)
        assert [item["name"] for item in items] == expected, (path, filters)


async def test_edges_are_filtered_by_their_ends(api: httpx.AsyncClient, full: FullAgent) -> None:
    path = f"/agents/{AGENT}/edges"
    (buys,) = await fetch_all(api, path, type="buys")
    assert (buys["source_name"], buys["target_name"]) == ("Halden Cells", "Lithium")
    maker, metal = buys["source_id"], buys["target_id"]
    for filters, count in (
        ({"source_id": maker}, 1),
        ({"target_id": maker, "type": "buys"}, 0),
        ({"node_id": metal, "type": "buys"}, 1),
        ({"node_id": str(uuid4())}, 0),
    ):
        assert len(await fetch_all(api, path, **filters)) == count, filters
    assert await fetch_all(api, f"/agents/{AGENT}/nodes/{metal}/edges", type="buys") == [buys]
    assert_problem(await api.get(f"/agents/{AGENT}/nodes/{uuid4()}/edges"), 404)


async def test_agents_are_found_by_state_and_name(api: httpx.AsyncClient, full: FullAgent) -> None:
    await api.post("/agents/another/pause")
    for filters, names in (
        ({"state": "paused"}, ["Another"]),
        ({"state": "waiting"}, []),
        ({"state": "running"}, [AGENT]),
        ({"search": "OTHER an"}, ["Another"]),
        ({"search": "100%"}, []),
    ):
        items = await fetch_all(api, "/agents", **filters)
        assert [item["name"] for item in items] == names, filters
    assert_problem(await api.get("/agents", params={"state": "asleep"}), 422, "state")
