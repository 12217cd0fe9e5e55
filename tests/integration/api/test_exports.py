"""Exports over HTTP: few at a time, and ended when nobody reads them any more; and what is verified there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect

from services.api.exports import MAX_RUNNING, ExportResponse, Exports, Format
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.errors import TransientError
from shared.graph.scope import GraphScope
from tests.support.api.asking import assert_problem
from tests.support.api.full import AGENT, Full, full_agent
from tests.support.api.rows import forget_pages, row_of


@pytest.fixture
async def full(api: httpx.AsyncClient, database: Database) -> Full:
    await api.get("/agents")  # makes the owner
    return await full_agent(database)


async def test_what_was_made_without_evidence_is_told_to_be_unproven(
    api: httpx.AsyncClient, database: Database, full: Full
) -> None:
    await forget_pages(database, await row_of(database, AGENT))
    told = (await api.get(f"/agents/{AGENT}/verification", params={"limit": 3})).json()
    assert (told["checked"]["sources"], told["breaks"]) == (0, [])
    found, pages = list[Any](), 1
    while told["next"]:
        params = {"limit": 3, "cursor": told["next"]}
        told = (await api.get(f"/agents/{AGENT}/verification", params=params)).json()
        found += told["breaks"]
        pages += 1
    assert pages == 1 + 2 + 1
    assert {each["broken"] for each in found} >= {"unproven"}
    chain = (await api.get(f"/conclusions/{full.advice_id}/verification")).json()
    assert chain["holds"] is False
    assert chain["conclusions"][0]["id"] == str(full.advice_id)
    assert_problem(await api.get(f"/conclusions/{full.node_id}/verification"), 404)
    for cursor in ("x", "WzEsInZlcmlmaWNhdGlvbiIsOSwiIl0"):
        bad = await api.get(f"/agents/{AGENT}/verification", params={"cursor": cursor})
        assert_problem(bad, 422, "cursor")


async def test_each_format_has_its_media_type(api: httpx.AsyncClient, full: Full) -> None:
    for wanted, media_type in (
        ("jsonl", "application/x-ndjson"),
        ("graphml", "application/graphml+xml"),
        ("prov", "application/ld+json"),
    ):
        answer = await api.get(f"/agents/{AGENT}/export", params={"format": wanted})
        assert answer.status_code == 200
        assert answer.headers["content-type"] == media_type
        assert "Halden Cells" in answer.text
    assert_problem(await api.get(f"/agents/{AGENT}/export?format=csv"), 422, "format")
    assert_problem(await api.get("/agents/nobody/export"), 404)


async def test_as_many_go_on_as_may_and_no_more(database: Database, full: Full) -> None:
    async with database.transaction() as session:
        agent = await session.get_one(Agent, full.agent_id)
    exports, scope = Exports(database), GraphScope(agent.owner_id, agent.id)
    async with AsyncExitStack() as going_on:
        for _ in range(MAX_RUNNING):
            body = exports.of(scope, Format.PROV).body_iterator
            await going_on.enter_async_context(aclosing(body))  # type: ignore[type-var]  # a generator
            assert await anext(aiter(body))
        with pytest.raises(TransientError, match="as many as may"):
            exports.of(scope, Format.JSONL)
    assert exports.of(scope, Format.JSONL)


@pytest.mark.parametrize("version", ["2.0", "2.4"])
async def test_who_goes_away_ends_it(version: str) -> None:
    """Whichever way the server tells of it."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            yield b"second"
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def receive() -> dict[str, str]:
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if version == "2.4" and message.get("body") == b"second":
            raise OSError("the connection is closed")

    response = ExportResponse(pieces(), media_type="text/plain")
    scope = {"type": "http", "asgi": {"spec_version": version}}
    try:
        await response(scope, receive, send)
    except ClientDisconnect:
        assert version == "2.4"
    assert ended.is_set()
