"""The check of a graph by several processes."""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import delete, text

from services.api.verification import GraphVerifier
from shared.database.engine import Database
from shared.database.tables import GraphNode
from shared.errors import RetrySoonError
from shared.graph.scope import GraphScope
from shared.runtime.settings import Settings
from shared.schemas.provenance import CheckedCounts, ElementFault
from tests.support.api.full_agent import AGENT, create_full_agent
from tests.support.api.rows import delete_pages, get_agent

PART_ROWS = 2
ROWS = 5


@pytest.fixture
async def scope(api: httpx.AsyncClient, database: Database) -> GraphScope:
    """Of a graph with faults: the pages of its evidence were deleted."""
    await api.get("/agents")  # creates the owner
    await create_full_agent(database)
    agent = await get_agent(database, AGENT)
    await delete_pages(database, agent)
    return GraphScope(agent.owner_id, agent.id)


@asynccontextmanager
async def verifying(
    database_url: str, database: Database, processes: int
) -> AsyncIterator[GraphVerifier]:
    settings = Settings(database_url=database_url)
    verifier = GraphVerifier(settings, database, processes=processes, part_rows=PART_ROWS)
    yield verifier
    await verifier.close()


async def check_all(
    verifier: GraphVerifier, database: Database, scope: GraphScope
) -> tuple[CheckedCounts, list[ElementFault]]:
    counts, faults, cursor = Counter[str](), list[ElementFault](), None
    while True:
        async with database.snapshot() as session:
            page = await verifier.check(session, scope, cursor=cursor, rows=ROWS)
        counts.update(page.checked.model_dump())
        faults += page.breaks
        cursor = page.next
        if cursor is None:
            return CheckedCounts(**counts), faults


def children() -> set[int]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(pid) for pid in listed.split()}


@pytest.mark.slow
async def test_a_page_that_takes_long_is_not_ended_as_idle(
    database_url: str, database: Database, scope: GraphScope
) -> None:
    """The transaction with the snapshot waits for the parts."""
    async with verifying(database_url, database, 2) as both, database.snapshot() as session:
        await session.execute(text("set local idle_in_transaction_session_timeout = '200ms'"))
        page = await both.check(session, scope, cursor=None, rows=ROWS)
        while page.next is not None:
            page = await both.check(session, scope, cursor=page.next, rows=ROWS)


async def test_several_processes_find_what_one_finds_and_are_replaced_if_they_end(
    database_url: str, database: Database, scope: GraphScope
) -> None:
    others = children()
    async with (
        verifying(database_url, database, 1) as alone,
        verifying(database_url, database, 2) as both,
    ):
        expected = await check_all(alone, database, scope)
        assert children() == others
        assert await check_all(both, database, scope) == expected
        assert len(children() - others) == 2
        for pid in children() - others:
            os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.1)
        with pytest.raises(RetrySoonError, match="ended"):
            await check_all(both, database, scope)
        assert await check_all(both, database, scope) == expected
    assert children() == others
    counts, faults = expected
    assert counts.nodes > ROWS
    assert len(faults) > PART_ROWS


async def test_the_parts_of_a_page_see_its_snapshot(
    database_url: str, database: Database, scope: GraphScope
) -> None:
    async with verifying(database_url, database, 2) as verifier, database.snapshot() as session:
        cursor, page = None, await verifier.check(session, scope, cursor=None, rows=ROWS)
        while not page.checked.rows:
            cursor = page.next
            page = await verifier.check(session, scope, cursor=cursor, rows=ROWS)
        await delete_all_nodes(database, scope)
        assert await verifier.check(session, scope, cursor=cursor, rows=ROWS) == page
    assert page.checked.rows > ROWS


async def delete_all_nodes(database: Database, scope: GraphScope) -> None:
    async with database.transaction() as session:
        await session.execute(delete(GraphNode).where(GraphNode.agent_id == scope.agent_id))


@pytest.mark.slow
async def test_a_process_ends_with_the_api() -> None:
    """However the API ends, the process reads the end of its input."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.api.verification"), stdin=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 60) == 0
