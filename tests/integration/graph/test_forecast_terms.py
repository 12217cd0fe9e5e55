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
from tests.support.graph.world import World


@pytest.fixture
async def world_with_advice(world: World) -> World:
    ghana = await world.node("Ghana")
    async with world.database.transaction() as session:
        analysis = await conclusions.add_analysis(
            session,
            world.scope,
            name="Big",
            kind="pattern",
            summary="It grows.",
            content=f"[node:{ghana}]",
            **ANALYSIS_TERMS,
        )
        await conclusions.add_advice(
            session,
            world.scope,
            name="Wait",
            action="HOLD",
            summary="Wait.",
            content=f"[node:{analysis}]",
            **ADVICE_TERMS | {"horizon": "10 days"},
        )
    return world


async def _set_properties(world: World, **properties: object) -> None:
    async with world.database.transaction() as session:
        defaults = {"action": "HOLD", "summary": "Wait.", "content": "Wait.", "generated_at": "x"}
        await session.execute(
            update(GraphNode)
            .where(GraphNode.type == ADVICE_TYPE)
            .values(properties=defaults | properties)
        )


async def _load_responses(world: World) -> tuple[dict[str, object], dict[str, object]]:
    """The responses for the advice and for its inbox item."""
    async with world.database.transaction() as session:
        (advice,) = (
            await queries.list_conclusions(session, world.scope, ADVICE_TYPE, PageRequest())
        ).items
        (item,) = (
            await notifications.list_inbox_items(session, world.scope.owner_id, PageRequest())
        ).items
    return advice.model_dump(), item.model_dump()


async def test_advice_and_inbox_items_include_forecast_terms(world_with_advice: World) -> None:
    until = datetime.now(UTC).date() + timedelta(days=10)
    for response in await _load_responses(world_with_advice):
        assert (response["confidence"], response["expired"]) == (0.5, False)
        assert response["horizon"] in {until, until - timedelta(days=1)}
        assert response["invalidation"] == ADVICE_TERMS["invalidation"]


async def test_advice_past_its_horizon_is_expired(world_with_advice: World) -> None:
    await _set_properties(world_with_advice, horizon="2020-01-01")
    for response in await _load_responses(world_with_advice):
        assert response["expired"] is True


async def test_advice_without_valid_forecast_terms_is_still_readable(
    world_with_advice: World,
) -> None:
    for properties in ({}, {"horizon": "some day"}):
        await _set_properties(world_with_advice, **properties)
        for response in await _load_responses(world_with_advice):
            assert (response["confidence"], response["horizon"], response["expired"]) == (
                None,
                None,
                False,
            )


async def test_a_past_horizon_is_refused_by_the_database_date(world: World) -> None:
    async with world.database.transaction() as session:
        with pytest.raises(ToolRefusalError, match="2020-01-01 is not in the future"):
            await conclusions.add_advice(
                session,
                world.scope,
                name="Wait",
                action="HOLD",
                summary="Wait.",
                content="Wait.",
                **ADVICE_TERMS | {"horizon": "2020-01-01"},
            )


async def test_outdated_system_types_are_updated(world: World) -> None:
    async with world.database.transaction() as session:
        await session.execute(
            update(GraphNodeType)
            .where(GraphNodeType.name == ADVICE_TYPE)
            .values(properties_schema={"type": "object"})
        )
        await system_types.ensure_system_types(session, world.scope.agent_id)
        advice_type = await get_node_type(session, world.scope, ADVICE_TYPE)
    assert "invalidation" in advice_type.properties_schema["properties"]
