"""Lists: pagination, the palette, and the plans of their statements."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import psycopg
import pytest
from sqlalchemy import insert, text

from services.api.resources.palette.pages import MAX_SEARCH_CHARS
from services.api.web import libraries, rendering
from services.api.web.app import web_ui
from shared.database.engine import Database
from shared.database.tables import GraphNode, InboxItem, Source
from shared.runtime.settings import Settings
from tests.support import large_agent
from tests.support.api.clients import assert_problem, create_agent, create_client, signed_in_browser
from tests.support.api.full_agent import AGENT, FullAgent, create_full_agent
from tests.support.case_files import read_cases
from tests.support.large_agent import OWNER, Size, fill
from tests.support.sql_capture import Statements, captured_statements, explain

CASES = read_cases(__file__)

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
    for path, filters, expected in CASES["lists_are_filtered"]:
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


SIZE: Final = Size(nodes=5_000, edges=10_000, iterations=1_000, items=2_000, calls=5_000)

INDEX_BY_PATH: Final = {
    f"/agents/{large_agent.AGENT}/iterations": "iterations_agent_id_number_key",
    f"/agents/{large_agent.AGENT}/interactions": "llm_interactions_agent_idx",
    f"/agents/{large_agent.AGENT}/nodes": "graph_nodes_agent_updated_idx",
    f"/agents/{large_agent.AGENT}/nodes?type=Type3": "graph_nodes_agent_type_updated_idx",
    f"/agents/{large_agent.AGENT}/nodes?search=word777": "graph_nodes_search_idx",
    f"/agents/{large_agent.AGENT}/edges": "graph_edges_agent_updated_idx",
    f"/agents/{large_agent.AGENT}/edges?type=type_3": "graph_edges_agent_type_updated_idx",
    f"/agents/{large_agent.AGENT}/analyses": "graph_nodes_agent_type_updated_idx",
    f"/agents/{large_agent.AGENT}/calls": "calls_costs_idx",
    f"/agents/{large_agent.AGENT}/edges?node_id={{hub}}": "graph_edges_target_updated_idx",
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


ROOT = "http://127.0.0.1"
MAX_STATEMENTS = 14


async def search(api: httpx.AsyncClient, query: str, path: str = "/inbox") -> dict[str, list[str]]:
    """Returns the addresses of results by group."""
    answer = await api.get(f"{ROOT}/palette", params={"query": query, "from": path})
    assert answer.status_code == 200, answer.text
    parts = re.split(r'<h2 id="palette-group-\d+" role="presentation">([^<]*)</h2>', answer.text)
    return {
        name: re.findall(r'<a [^>]*href="([^"]*)"', rows)
        for name, rows in zip(parts[1::2], parts[2::2], strict=True)
    }


async def test_everything_that_agents_hold_is_found_from_any_page(
    database: Database, api: httpx.AsyncClient
) -> None:
    await api.get("/agents")  # creates the owner
    first = await create_full_agent(database)
    second = await create_full_agent(database, "Another")
    async with database.transaction() as session:
        node = await session.get_one(GraphNode, first.node_id)
        item = await session.get_one(InboxItem, first.item_id)
        source = await session.get_one(Source, first.source_id)
    found = await search(api, node.name[:-1])
    nodes = {f"/agents/{each.agent_id}/nodes/{each.node_id}" for each in (first, second)}
    assert nodes <= set(found["Nodes"])
    assert not any("/conclusions/" in address for address in found["Nodes"])
    found = await search(api, item.title[:8].upper())
    assert f"/inbox?view=all&amp;item={first.item_id}" in found["Inbox"]
    found = await search(api, source.url)
    assert f"/agents/{first.agent_id}/sources/{first.source_id}" in found["Sources"]


async def test_an_iteration_is_found_by_its_number_that_of_the_open_agent_first(
    database: Database, api: httpx.AsyncClient
) -> None:
    await api.get("/agents")  # creates the owner
    agents = [await create_full_agent(database, name) for name in ("Copper desk", "Zinc desk")]
    addresses = [f"/agents/{agent.agent_id}/iterations/2" for agent in agents]
    for query in ("2", "#2", "iteration 2", "2 iter"):
        for agent, address in zip(agents, addresses, strict=True):
            found = await search(api, query, f"/agents/{agent.agent_id}/graph")
            assert found["Iterations"][0] == address
            assert set(found["Iterations"]) == set(addresses)
    assert (await search(api, "zinc 2"))["Iterations"] == addresses[1:]
    for query in ("99", "2 2", "iteration", "9" * 30, "-2"):
        assert "Iterations" not in await search(api, query)


async def test_nothing_of_another_owner_is_found(
    database: Database, api: httpx.AsyncClient, database_url: str
) -> None:
    await api.get("/agents")  # creates the owner
    full = await create_full_agent(database)
    async with database.transaction() as session:
        node = await session.get_one(GraphNode, full.node_id)
        item = await session.get_one(InboxItem, full.item_id)
        source = await session.get_one(Source, full.source_id)
    async with create_client(Settings(database_url=database_url, owner="stranger")) as stranger:
        for query in (node.name, item.title, source.url, "1"):
            groups = {"Iterations", "Conclusions", "Inbox", "Nodes", "Sources"}
            assert not groups & set(await search(stranger, query))


async def test_hostile_words_are_only_words(database: Database, api: httpx.AsyncClient) -> None:
    await api.get("/agents")  # creates the owner
    await create_full_agent(database)
    for query in ("%", "__", "'; --", "a & !b", "\\", "<script>", "::"):
        assert not {"Inbox", "Sources", "Iterations"} & set(await search(api, query))


SEARCHED = Size(
    nodes=20_000, edges=1_000, iterations=1_000, items=5_000, calls=100, agents=50, sources=2_000
)


async def test_searching_many_agents_uses_indexes_and_few_statements(database_url: str) -> None:
    fill(database_url, SEARCHED)
    async with create_client(Settings(database_url=database_url, owner=OWNER)) as api:
        await api.get("/agents")
        with captured_statements() as statements:
            found = await search(api, "word777")
        assert found["Nodes"]
        assert len(statements) <= MAX_STATEMENTS, [statement for statement, _ in statements]
        plans = {
            index: statement
            for index, mark in (
                ("graph_nodes_search_idx", "NOT IN"),
                ("sources_agent_fetched_idx", "sources.fetched_at"),
                ("inbox_items_owner_idx", "inbox_items.title"),
            )
            for statement in statements
            if mark in statement[0]
        }
        assert len(plans) == 3
        with psycopg.connect(database_url) as connection:
            for index, (statement, values) in plans.items():
                plan = explain(connection, statement, values)
                assert index in plan, plan


async def test_a_query_that_is_too_long_gets_a_sentence(api: httpx.AsyncClient) -> None:
    """As the page asks, whatever a browser's extension makes of the Accept header."""
    for accept in ("text/html", "*/*"):
        headers = {"hx-request": "true", "accept": accept}
        for length, sentence in (
            (MAX_SEARCH_CHARS, "Nothing matches"),
            (MAX_SEARCH_CHARS + 1, None),
        ):
            answer = await api.get(
                f"{ROOT}/palette",
                params={"query": "x" * length, "from": "/a" * 400},
                headers=headers,
            )
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/html")
            assert (sentence or "Search for at most 200 characters.") in answer.text


async def test_a_part_of_a_page_that_is_refused_is_a_sentence(api: httpx.AsyncClient) -> None:
    """Whatever it accepts; only programs get JSON."""
    address = f"/agents?search={'x' * 201}"
    part = await api.get(f"{ROOT}{address}", headers={"hx-request": "true", "accept": "*/*"})
    assert part.text == "<p>search: it may have at most 200 characters.</p>"
    assert part.status_code == 422
    for url in (f"{ROOT}{address}", address):  # a page, for a program; and the API, also for a page
        headers = {"accept": "*/*"} if url.startswith(ROOT) else {"hx-request": "true"}
        assert (await api.get(url, headers=headers)).json()["status"] == 422


async def test_pages_without_browser_libraries_say_what_to_do(
    full: FullAgent,
    database: Database,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rendering, "VENDOR", tmp_path)
    web_ui.cache_clear()
    try:
        async with signed_in_browser(Settings(database_url=database_url), database) as browser:
            for path in (
                "/agents",
                f"/agents/{AGENT}",
                f"/agents/{AGENT}/graph",
                "/costs",
                "/operate",
            ):
                page = await browser.get(path)
                assert page.status_code == 200, path
                assert libraries.INSTALL in page.text, path
            script = re.search(r'src="([^"]*htmx.min.js)"', page.text)
            assert script is not None
            assert (await browser.get(script[1])).status_code == 404
    finally:
        web_ui.cache_clear()
