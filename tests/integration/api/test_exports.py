"""Exports over HTTP: limited in number and ended when the client disconnects; and verification."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect

from services.api.resources.graph.exports import MAX_RUNNING, ExportResponse, Exports, Format
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.errors import TransientError
from shared.graph.scope import GraphScope
from shared.graph.verification import journal
from tests.support.api.clients import assert_problem
from tests.support.api.full_agent import AGENT, FullAgent, create_full_agent
from tests.support.api.rows import delete_pages, get_agent


@pytest.fixture
async def full(api: httpx.AsyncClient, database: Database) -> FullAgent:
    await api.get("/agents")  # creates the owner
    return await create_full_agent(database)


async def test_elements_without_evidence_are_reported_as_unproven(
    api: httpx.AsyncClient, database: Database, full: FullAgent
) -> None:
    await delete_pages(database, await get_agent(database, AGENT))
    breaks, pages, params = list[Any](), list[Any](), {"limit": 3}
    while True:
        report = (await api.get(f"/agents/{AGENT}/verification", params=params)).json()
        breaks += report["breaks"]
        pages.append(report["checked"])
        if report["next"] is None:
            break
        params = {"limit": 3, "cursor": report["next"]}
    assert sum(page["sources"] for page in pages) == 0
    assert [sum(page[kind] > 0 for page in pages) for kind in ("nodes", "edges")] == [3, 1]
    assert sum(page["rows"] > 0 for page in pages) <= len(journal.TABLES)
    assert {fault["broken"] for fault in breaks} >= {"unproven"}
    chain = (await api.get(f"/conclusions/{full.advice_id}/verification")).json()
    assert chain["holds"] is False
    assert chain["conclusions"][0]["id"] == str(full.advice_id)
    assert_problem(await api.get(f"/conclusions/{full.node_id}/verification"), 404)
    for cursor in ("x", "WzEsInZlcmlmaWNhdGlvbiIsOSwiIl0"):
        response = await api.get(f"/agents/{AGENT}/verification", params={"cursor": cursor})
        assert_problem(response, 422, "cursor")


async def test_each_format_has_its_media_type(api: httpx.AsyncClient, full: FullAgent) -> None:
    for export_format, media_type in (
        ("jsonl", "application/x-ndjson"),
        ("graphml", "application/graphml+xml"),
        ("prov", "application/ld+json"),
    ):
        response = await api.get(f"/agents/{AGENT}/export", params={"format": export_format})
        assert response.status_code == 200
        assert response.headers["content-type"] == media_type
        assert "Halden Cells" in response.text
    assert_problem(await api.get(f"/agents/{AGENT}/export?format=csv"), 422, "format")
    assert_problem(await api.get("/agents/nobody/export"), 404)


async def test_the_number_of_running_exports_is_limited(
    database: Database, full: FullAgent
) -> None:
    async with database.transaction() as session:
        agent = await session.get_one(Agent, full.agent_id)
    exports, scope = Exports(database), GraphScope(agent.owner_id, agent.id)
    async with AsyncExitStack() as running:
        for _ in range(MAX_RUNNING):
            body = exports.of(scope, Format.PROV).body_iterator
            await running.enter_async_context(aclosing(body))  # type: ignore[type-var]  # a generator
            assert await anext(aiter(body))
        with pytest.raises(TransientError, match="already running, which is the maximum"):
            exports.of(scope, Format.JSONL)
    assert exports.of(scope, Format.JSONL)


@pytest.mark.parametrize("version", ["2.0", "2.4"])
async def test_an_export_ends_when_the_client_disconnects(version: str) -> None:
    """In both ways in which the server reports a disconnect."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            yield b"second"
            started.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def receive() -> dict[str, str]:
        await started.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if version == "2.4" and message.get("body") == b"second":
            raise OSError("the connection is closed")

    response = ExportResponse(chunks(), media_type="text/plain")
    scope = {"type": "http", "asgi": {"spec_version": version}}
    try:
        await response(scope, receive, send)
    except ClientDisconnect:
        assert version == "2.4"
    assert ended.is_set()
