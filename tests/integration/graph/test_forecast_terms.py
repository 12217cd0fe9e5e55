"""Forecast terms of conclusions: required when written, and evaluated as of today."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import pytest
from sqlalchemy import update

from services.api.resources.inbox import model as notifications
from shared.database.tables import Agent, GraphNode, GraphNodeType
from shared.enums import ADVICE_TYPE
from shared.graph import system_types
from shared.graph.conclusions import queries
from shared.graph.conclusions.commitments import MAX_CONFIDENCE_OF_ONE_SITE
from shared.graph.types import get_node_type
from shared.schemas.base import PageRequest
from shared.tools import ToolRefusalError
from tests.support.api.access import owner_access
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.page_evidence import said
from tests.support.graph.retraction_graph import RetractionGraph

ATLAS: Final = "atlas.example"
"""The site of the page of `AgentGraph`."""


@pytest.fixture
async def agent_graph_with_advice(agent_graph: AgentGraph) -> AgentGraph:
    await agent_graph.advice_on(await agent_graph.node("Ghana"), horizon="10 days")
    return agent_graph


async def _set_properties(agent_graph: AgentGraph, **properties: object) -> None:
    async with agent_graph.database.transaction() as session:
        defaults = {"action": "HOLD", "summary": "Wait.", "content": "Wait.", "generated_at": "x"}
        await session.execute(
            update(GraphNode)
            .where(GraphNode.type == ADVICE_TYPE)
            .values(properties=defaults | properties)
        )


async def _load_responses(agent_graph: AgentGraph) -> tuple[dict[str, object], dict[str, object]]:
    """The responses for the advice and for its inbox item."""
    async with agent_graph.database.transaction() as session:
        (advice,) = (
            await queries.list_conclusions(session, agent_graph.scope, ADVICE_TYPE, PageRequest())
        ).items
        (item,) = (
            await notifications.list_inbox_items(
                owner_access(session, agent_graph.scope.owner_id), PageRequest()
            )
        ).items
    return advice.model_dump(), item.model_dump()


async def test_advice_and_inbox_items_include_forecast_terms(
    agent_graph_with_advice: AgentGraph,
) -> None:
    until = datetime.now(UTC).date() + timedelta(days=10)
    for response in await _load_responses(agent_graph_with_advice):
        assert (response["confidence"], response["expired"]) == (0.5, False)
        assert response["horizon"] in {until, until - timedelta(days=1)}
        assert response["invalidation"] == ADVICE_TERMS["invalidation"]


async def test_advice_past_its_horizon_is_expired(agent_graph_with_advice: AgentGraph) -> None:
    await _set_properties(agent_graph_with_advice, horizon="2020-01-01")
    for response in await _load_responses(agent_graph_with_advice):
        assert response["expired"] is True


async def test_advice_without_valid_forecast_terms_is_still_readable(
    agent_graph_with_advice: AgentGraph,
) -> None:
    for properties in ({}, {"horizon": "some day"}):
        await _set_properties(agent_graph_with_advice, **properties)
        for response in await _load_responses(agent_graph_with_advice):
            assert (response["confidence"], response["horizon"], response["expired"]) == (
                None,
                None,
                False,
            )


async def test_a_past_horizon_is_refused_by_the_database_date(agent_graph: AgentGraph) -> None:
    with pytest.raises(ToolRefusalError, match="2020-01-01 is not in the future"):
        await agent_graph.advice("Wait.", horizon="2020-01-01")


async def test_outdated_system_types_are_updated(agent_graph: AgentGraph) -> None:
    async with agent_graph.database.transaction() as session:
        await session.execute(
            update(GraphNodeType)
            .where(GraphNodeType.name == ADVICE_TYPE)
            .values(properties_schema={"type": "object"})
        )
        await system_types.ensure_system_types(session, agent_graph.scope.agent_id)
        advice_type = await get_node_type(session, agent_graph.scope, ADVICE_TYPE)
    assert "invalidation" in advice_type.properties_schema["properties"]


async def _confidence(agent_graph: AgentGraph, name: str, *cited: UUID) -> float:
    """What is kept of a confidence of 0.9 in an analysis that cites these nodes."""
    content = " ".join(f"[node:{node}]" for node in cited)
    return await _stored(agent_graph, await agent_graph.analysis(content, name, confidence=0.9))


async def _stored(agent_graph: AgentGraph, conclusion_id: UUID) -> float:
    async with agent_graph.database.transaction() as session:
        node = await session.get_one(GraphNode, conclusion_id)
    return float(node.properties["confidence"])


async def test_pages_of_one_site_allow_a_limited_confidence(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    for number in range(5):
        await said(agent_graph, f"https://{number}.{ATLAS}/x", "Ghana and Togo.", node=ghana)
    assert await _confidence(agent_graph, "One", ghana) == MAX_CONFIDENCE_OF_ONE_SITE
    assert await _confidence(agent_graph, "Other", ghana, togo) == MAX_CONFIDENCE_OF_ONE_SITE
    await said(agent_graph, "https://press.example/x", "Togo is small.", node=togo)
    assert await _confidence(agent_graph, "Both", ghana, togo) == 0.9
    assert await _confidence(agent_graph, "One again", ghana) == MAX_CONFIDENCE_OF_ONE_SITE
    retraction_graph = RetractionGraph(agent_graph)
    await retraction_graph.retract("https://press.example/x")
    assert await _confidence(agent_graph, "Both again", ghana, togo) == MAX_CONFIDENCE_OF_ONE_SITE


async def test_pages_of_barred_domains_do_not_count_as_sites(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    await said(agent_graph, "https://press.example/x", "Ghana.", node=ghana)
    await said(agent_graph, "https://blog.wire.example/x", "Ghana.", node=ghana)

    async def bar(*domains: str) -> None:
        async with agent_graph.database.transaction() as session:
            await session.execute(update(Agent).values(barred_domains=list(domains)))

    for number, (barred, confidence) in enumerate(
        (
            ((), 0.9),
            (("press.example",), 0.9),
            (("ads.press.example", "blog.wire.example"), 0.9),
            (("press.example", "blog.wire.example"), MAX_CONFIDENCE_OF_ONE_SITE),
            (("press.example", "wire.example", ATLAS), MAX_CONFIDENCE_OF_ONE_SITE),
        )
    ):
        await bar(*barred)
        assert await _confidence(agent_graph, f"Number {number}", ghana) == confidence


async def test_advice_rests_on_the_sites_of_its_analyses(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")

    async def advise(name: str) -> float:
        analyses = [
            await agent_graph.analysis(f"It is so [node:{node}].", f"{name} {which}")
            for node, which in ((ghana, "here"), (togo, "there"))
        ]
        content = " ".join(f"[node:{analysis}]" for analysis in analyses)
        return await _stored(agent_graph, await agent_graph.advice(content, name, confidence=0.8))

    assert await advise("Wait") == MAX_CONFIDENCE_OF_ONE_SITE
    await said(agent_graph, "https://press.example/x", "Togo is small.", node=togo)
    assert await advise("Wait on") == 0.8
