"""Forecast terms of conclusions: required when written, and evaluated as of today."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from services.api.queries import notifications
from shared.database.tables import GraphNode, GraphNodeType
from shared.enums import ADVICE_TYPE
from shared.graph import system_types
from shared.graph.conclusions import conclusions, queries
from shared.graph.types import get_node_type
from shared.schemas.base import PageRequest
from shared.tools import ToolRefusalError
from tests.support.forecast_terms import ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.graph.agent_graph import AgentGraph
from tests.support.second_analysis import add_second_analysis


@pytest.fixture
async def agent_graph_with_advice(agent_graph: AgentGraph) -> AgentGraph:
    ghana = await agent_graph.node("Ghana")
    async with agent_graph.database.transaction() as session:
        analysis = await conclusions.add_analysis(
            session,
            agent_graph.scope,
            name="Big",
            kind="pattern",
            summary="It grows.",
            content=f"[node:{ghana}]",
            **ANALYSIS_TERMS,
        )
        second = await add_second_analysis(session, agent_graph.scope, ghana)
        await conclusions.add_advice(
            session,
            agent_graph.scope,
            name="Wait",
            action="HOLD",
            summary="Wait.",
            content=f"[node:{analysis}] [node:{second}]",
            **ADVICE_TERMS | {"horizon": "10 days"},
        )
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
            await notifications.list_inbox_items(session, agent_graph.scope.owner_id, PageRequest())
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
    async with agent_graph.database.transaction() as session:
        with pytest.raises(ToolRefusalError, match="2020-01-01 is not in the future"):
            await conclusions.add_advice(
                session,
                agent_graph.scope,
                name="Wait",
                action="HOLD",
                summary="Wait.",
                content="Wait.",
                **ADVICE_TERMS | {"horizon": "2020-01-01"},
            )


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
