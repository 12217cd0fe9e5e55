"""A plan does not ask what the graph answers freshly."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import func, update

from services.observer.history import PlanHistory
from services.observer.planning import ResolvedPlan, resolve_plan
from services.observer.prompts import ObserverPlan, PlannedInsight, PlannedQuery
from shared.database.tables import Evidence, GraphNode, Source
from tests.support.graph.agent_graph import AgentGraph

OBJECTIVE = "What is the population of Ghana"


async def plan(agent_graph: AgentGraph, *objectives: str) -> ResolvedPlan:
    queries = [
        PlannedQuery(objective=objective, reasoning="", search_hints=[], answers=[])
        for objective in objectives
    ]
    now = datetime.now(UTC)
    past = PlanHistory((), (), {}, now, now)
    async with agent_graph.database.transaction() as session:
        return await resolve_plan(
            session, agent_graph.scope, past, ObserverPlan(queries=queries, insights=[])
        )


async def test_an_insight_keeps_the_names_of_what_has_no_node_yet(agent_graph: AgentGraph) -> None:
    known = await agent_graph.node("Ghana")
    unknown = str(uuid4())
    insight = PlannedInsight(
        observation="A fire stopped a furnace.",
        synthesis_direction="What does it mean?",
        relevant_node_ids=["Ghana", "Carrick Fibre", "Torvald Basalt", unknown, "[n17]", " "],
    )
    now = datetime.now(UTC)
    past = PlanHistory((), (), {}, now, now)
    async with agent_graph.database.transaction() as session:
        resolved = await resolve_plan(
            session, agent_graph.scope, past, ObserverPlan(queries=[], insights=[insight])
        )
    (planned,) = resolved.insights
    assert planned["relevant_node_ids"] == [str(known)]
    assert planned["synthesis_direction"] == (
        "What does it mean? Look in the graph for: Carrick Fibre, Torvald Basalt."
    )
    assert resolved.dropped_references == [unknown, "[n17]", " "]


@pytest.fixture
async def ghana(agent_graph: AgentGraph) -> AgentGraph:
    await agent_graph.store_search_results()
    await agent_graph.node("Ghana")
    return agent_graph


async def test_what_the_graph_answers_is_not_asked(ghana: AgentGraph) -> None:
    async with ghana.database.transaction() as session:
        await session.execute(update(Evidence).values(claims={"population": 33_000_000}))
        await session.execute(update(GraphNode).values(properties={"population": 33_000_000}))
    resolved = await plan(ghana, OBJECTIVE, "Growth of the population of Ghana")
    assert [query["objective"] for query in resolved.queries] == [
        "Growth of the population of Ghana"
    ]
    (repeat,) = resolved.repeats
    assert (repeat.text, repeat.repeated) == (OBJECTIVE, "Ghana: population is 33000000")


async def test_what_was_confirmed_long_ago_or_has_no_evidence_is_asked(ghana: AgentGraph) -> None:
    async with ghana.database.transaction() as session:
        await session.execute(update(GraphNode).values(properties={"population": 33_000_000}))
        await session.execute(update(Evidence).values(claims={}))
    assert (await plan(ghana, OBJECTIVE)).repeats == []
    async with ghana.database.transaction() as session:
        long_ago = func.clock_timestamp() - timedelta(days=1, minutes=1)
        values = {"claims": {"population": 33_000_000}, "learned_at": long_ago, "as_of": long_ago}
        await session.execute(update(Evidence).values(values))
    assert (await plan(ghana, OBJECTIVE)).repeats == []


async def test_evidence_of_another_value_confirms_nothing(ghana: AgentGraph) -> None:
    """A new page with an old figure: which one is right is worth a query."""
    async with ghana.database.transaction() as session:
        await session.execute(update(Evidence).values(claims={"population": 24_000_000}))
        await session.execute(update(GraphNode).values(properties={"population": 33_000_000}))
    assert (await plan(ghana, OBJECTIVE)).repeats == []


async def test_a_retracted_source_confirms_nothing(ghana: AgentGraph) -> None:
    async with ghana.database.transaction() as session:
        await session.execute(update(Evidence).values(claims={"population": 33_000_000}))
        await session.execute(update(GraphNode).values(properties={"population": 33_000_000}))
        await session.execute(update(Source).values(retracted_at=func.clock_timestamp()))
    assert (await plan(ghana, OBJECTIVE)).repeats == []


async def test_a_node_without_support_answers_nothing(ghana: AgentGraph) -> None:
    async with ghana.database.transaction() as session:
        await session.execute(update(Evidence).values(claims={"population": 33_000_000}))
        values = {"properties": {"population": 1}, "unsupported_since": func.clock_timestamp()}
        await session.execute(update(GraphNode).values(values))
    assert (await plan(ghana, OBJECTIVE)).repeats == []
