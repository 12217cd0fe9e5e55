"""The palette finds what all agents of an owner hold, and nothing of other owners."""

import re

import httpx
import psycopg

from services.api.resources.palette.pages import MAX_SEARCH_CHARS
from shared.database.engine import Database
from shared.database.tables import GraphNode, InboxItem, Source
from shared.runtime.settings import Settings
from tests.support.api.clients import create_client
from tests.support.api.full_agent import create_full_agent
from tests.support.large_agent import OWNER, Size, fill
from tests.support.sql_capture import captured_statements, explain

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


SIZE = Size(
    nodes=20_000, edges=1_000, iterations=1_000, items=5_000, calls=100, agents=50, sources=2_000
)


async def test_searching_many_agents_uses_indexes_and_few_statements(database_url: str) -> None:
    fill(database_url, SIZE)
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
