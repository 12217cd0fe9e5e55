"""Every list that can grow, page by page: all of it, in order, nothing twice, whatever comes in between."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import insert, text

from shared.database.engine import Database
from shared.database.tables import GraphNode
from tests.support.api.asking import assert_problem, created
from tests.support.api.full import AGENT, Full, full_agent

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
async def full(api: httpx.AsyncClient, database: Database) -> Full:
    await created(api, name="Another")
    return await full_agent(database)


async def pages(api: httpx.AsyncClient, path: str, **params: Any) -> AsyncIterator[list[Any]]:
    cursor: dict[str, str] = {}
    while True:
        answer = await api.get(path, params=params | cursor)
        assert answer.status_code == 200, answer.text
        yield answer.json()["items"]
        if (after := answer.json()["next"]) is None:
            return
        cursor = {"cursor": after}


async def whole(api: httpx.AsyncClient, path: str, **params: Any) -> list[Any]:
    return [item async for page in pages(api, path, **params) for item in page]


async def test_a_list_is_the_same_in_pages_of_any_size(api: httpx.AsyncClient, full: Full) -> None:
    for path in LISTS:
        at_once = await whole(api, path, limit=200)
        assert len(at_once) >= 2, f"{path} has nothing to part"
        one_by_one = [page async for page in pages(api, path, limit=1)]
        assert [len(page) for page in one_by_one] == [1] * len(at_once), path
        assert [page[0] for page in one_by_one] == at_once, path


async def test_another_lists_cursor_is_refused(api: httpx.AsyncClient, full: Full) -> None:
    for path in LISTS:
        for cursor in ("x", "WzEsIm90aGVyIiwiYSJd"):
            answer = await api.get(path, params={"cursor": cursor})
            assert_problem(answer, 422, "not a cursor of this list")
        assert_problem(await api.get(path, params={"limit": 0}), 422, "limit")
        assert_problem(await api.get(path, params={"limit": 201}), 422, "limit")


async def test_what_comes_in_between_moves_nothing(
    api: httpx.AsyncClient, full: Full, database: Database
) -> None:
    path = f"/agents/{AGENT}/nodes"
    before = [node["id"] for node in await whole(api, path)]
    seen = []
    async for (node,) in pages(api, path, limit=1):
        seen.append(node["id"])
        async with database.transaction() as session:
            values = {"id": uuid4(), "agent_id": full.agent_id, "type": "Thing"}
            await session.execute(
                insert(GraphNode).values(**values, name=f"new {len(seen)}", properties={})
            )
    assert seen == before


async def test_nodes_of_one_moment_are_told_once_each(
    api: httpx.AsyncClient, full: Full, database: Database
) -> None:
    async with database.transaction() as session:
        await session.execute(text("update graph_nodes set updated_at = now()"))
    path = f"/agents/{AGENT}/nodes"
    found = [node["id"] for node in await whole(api, path, limit=2)]
    assert len(set(found)) == len(found) == len(await whole(api, path))


async def test_lists_are_filtered(api: httpx.AsyncClient, full: Full) -> None:
    for path, filters, told in (
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
        found = await whole(api, f"/agents/{AGENT}/{path}", **filters)
        assert [each["name"] for each in found] == told, (path, filters)


async def test_edges_are_filtered_by_their_ends(api: httpx.AsyncClient, full: Full) -> None:
    path = f"/agents/{AGENT}/edges"
    (buys,) = await whole(api, path, type="buys")
    assert (buys["source_name"], buys["target_name"]) == ("Halden Cells", "Lithium")
    maker, metal = buys["source_id"], buys["target_id"]
    for filters, count in (
        ({"source_id": maker}, 1),
        ({"target_id": maker, "type": "buys"}, 0),
        ({"node_id": metal, "type": "buys"}, 1),
        ({"node_id": str(uuid4())}, 0),
    ):
        assert len(await whole(api, path, **filters)) == count, filters
    assert await whole(api, f"/agents/{AGENT}/nodes/{metal}/edges", type="buys") == [buys]
    assert_problem(await api.get(f"/agents/{AGENT}/nodes/{uuid4()}/edges"), 404)


async def test_agents_are_found_by_state_and_name(api: httpx.AsyncClient, full: Full) -> None:
    await api.post("/agents/another/pause")
    for filters, names in (
        ({"state": "paused"}, ["Another"]),
        ({"state": "waiting"}, []),
        ({"state": "running"}, [AGENT]),
        ({"search": "OTHER an"}, ["Another"]),
        ({"search": "100%"}, []),
    ):
        found = await whole(api, "/agents", **filters)
        assert [each["name"] for each in found] == names, filters
    assert_problem(await api.get("/agents", params={"state": "asleep"}), 422, "state")
