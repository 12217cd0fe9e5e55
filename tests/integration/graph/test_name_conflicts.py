"""A name that another transaction claims between lookup and write: no partial data is left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select, text

from shared.database.tables import Evidence, GraphName, GraphNode
from shared.database.transaction import Transaction
from shared.graph import elements
from shared.graph.entity_resolution import aliases
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.upsert import UpsertResult
from tests.support.graph.agent_graph import COUNTRY, EVIDENCE_INPUTS, PAGE, AgentGraph
from tests.support.graph.concurrent_writes import resolve_and_reserve, retried
from tests.support.waiting import wait_until


@pytest.fixture
async def companies(agent_graph: AgentGraph) -> AgentGraph:
    await agent_graph.node_type("Company")
    return agent_graph


async def _add(
    agent_graph: AgentGraph, session: Transaction, name: str, **options: Any
) -> UpsertResult:
    return await elements.add_node(
        session,
        agent_graph.scope,
        agent_graph.validators,
        type_name="Company",
        name=name,
        properties=COUNTRY,
        evidence=EVIDENCE_INPUTS,
        **options,
    )


@retried
async def _add_in_transaction(agent_graph: AgentGraph, name: str, **options: Any) -> UpsertResult:
    async with agent_graph.database.transaction() as session:
        return await _add(agent_graph, session, name, **options)


async def _list_names(agent_graph: AgentGraph, node_id: UUID) -> list[str]:
    async with agent_graph.database.transaction() as session:
        return await aliases.list_names(session, agent_graph.scope, node_id)


async def _count(agent_graph: AgentGraph, table: type[GraphNode | GraphName | Evidence]) -> int:
    async with agent_graph.database.transaction() as session:
        return await session.scalar(select(func.count()).select_from(table)) or 0


async def _count_waiting(agent_graph: AgentGraph) -> int:
    async with agent_graph.database.transaction() as session:
        statement = text(
            "select count(*) from pg_locks join pg_stat_activity using (pid)"
            " where not granted and datname = current_database()"
        )
        return int((await session.execute(statement)).scalar_one())


@asynccontextmanager
async def _add_behind_a_claim(
    agent_graph: AgentGraph, first: str, *, name: str, **options: Any
) -> AsyncIterator[tuple[Transaction, "asyncio.Task[UpsertResult]"]]:
    """Yield a session that claimed `first` without committing, and a task that waits for it to add `name`."""
    async with agent_graph.database.transaction() as session:
        await resolve_and_reserve(
            session, agent_graph.scope, [aliases.NameRequest("Company", first)]
        )
        task = asyncio.create_task(_add_in_transaction(agent_graph, name, **options))
        await wait_until(
            lambda: _count_waiting(agent_graph), what="the second to wait for the first's name"
        )
        yield session, task


async def test_losing_the_only_name_yields_the_other_node(companies: AgentGraph) -> None:
    async with _add_behind_a_claim(companies, "Nvidia", name="NVIDIA Corp.") as (session, task):
        await _add(companies, session, "Nvidia")
    result = await task
    assert not result.created
    assert await _list_names(companies, result.id) == ["Nvidia"]
    assert await _count(companies, GraphNode) == 1


async def test_a_rolled_back_claim_frees_the_name_for_a_new_node(companies: AgentGraph) -> None:
    async with _add_behind_a_claim(companies, "Nvidia", name="NVIDIA Corp.") as (session, task):
        await session.rollback()
    result = await task
    assert result.created
    assert await _list_names(companies, result.id) == ["NVIDIA Corp."]
    assert await _count(companies, GraphNode) == 1


async def test_losing_one_of_two_names_keeps_the_other(companies: AgentGraph) -> None:
    """The node is written without its derived alias, which belongs to another node."""
    name = "Nvidia (NASDAQ: NVDA)"
    async with _add_behind_a_claim(companies, "NVDA", name=name) as (session, task):
        await _add(companies, session, "NVDA")
    result = await task
    assert result.created
    assert await _list_names(companies, result.id) == [name]
    assert await _count(companies, GraphNode) == await _count(companies, GraphName) == 2
    assert await _count(companies, Evidence) == 2


async def test_a_duplicate_that_appears_meanwhile_is_refused_and_claims_no_name(
    companies: AgentGraph,
) -> None:
    name = "Nvidia (NASDAQ: NVDA)"
    async with _add_behind_a_claim(companies, "NVDA", name=name, duplicate_threshold=0.55) as (
        session,
        task,
    ):
        await _add(companies, session, "NVDA")
    with pytest.raises(Exception, match="which may be the same thing"):
        await task
    assert await _count(companies, GraphName) == await _count(companies, GraphNode) == 1


async def test_a_retraction_while_evidence_is_written_is_applied(
    companies: AgentGraph,
) -> None:
    """The running write still sees the page as valid, so the worker that propagates the retraction waits for it."""
    async with _add_behind_a_claim(companies, "Nvidia", name="NVIDIA Corp.") as (session, task):
        async with companies.database.transaction() as other:
            await retractions.retract_source(other, companies.scope, PAGE["url"], "made up")
        work = asyncio.create_task(propagate_retractions(companies.database))
        await wait_until(lambda: _two_wait_or_done(companies, work), what="the worker to wait")
        await session.rollback()
    result = await task
    await work
    async with companies.database.transaction() as session:
        node = await session.get_one(GraphNode, result.id)
        assert node.properties == {}
        assert node.unsupported_since is not None


async def _two_wait_or_done(agent_graph: AgentGraph, work: "asyncio.Task[None]") -> bool:
    return work.done() or await _count_waiting(agent_graph) > 1
