"""What conclusions commit themselves to: demanded when they are written, and read as of today."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from services.api.queries import notifications
from shared.database.tables import GraphNode, GraphNodeType
from shared.enums import ADVICE_TYPE
from shared.graph import system_types
from shared.graph.conclusions import conclusions, queries
from shared.graph.types import get_node_type
from shared.schemas.base import Wanted
from shared.tools import ToolRefusalError
from tests.support.committing import COMMITTED, SURE
from tests.support.graph.world import World


@pytest.fixture
async def advised(world: World) -> World:
    ghana = await world.node("Ghana")
    async with world.database.transaction() as session:
        analysis = await conclusions.add_analysis(
            session,
            world.scope,
            name="Big",
            kind="pattern",
            summary="It grows.",
            content=f"[node:{ghana}]",
            **SURE,
        )
        await conclusions.add_advice(
            session,
            world.scope,
            name="Wait",
            action="HOLD",
            summary="Wait.",
            content=f"[node:{analysis}]",
            **COMMITTED | {"horizon": "10 days"},
        )
    return world


async def _set(world: World, **properties: object) -> None:
    async with world.database.transaction() as session:
        kept = {"action": "HOLD", "summary": "Wait.", "content": "Wait.", "generated_at": "x"}
        await session.execute(
            update(GraphNode)
            .where(GraphNode.type == ADVICE_TYPE)
            .values(properties=kept | properties)
        )


async def _read(world: World) -> tuple[dict[str, object], dict[str, object]]:
    """As it is told of the conclusion, and of the inbox item."""
    async with world.database.transaction() as session:
        (advice,) = (
            await queries.list_conclusions(session, world.scope, ADVICE_TYPE, Wanted())
        ).items
        (item,) = (
            await notifications.list_inbox_items(session, world.scope.owner_id, Wanted())
        ).items
    return advice.model_dump(), item.model_dump()


async def test_commitments_are_told_with_advice_and_in_the_inbox(advised: World) -> None:
    until = datetime.now(UTC).date() + timedelta(days=10)
    for told in await _read(advised):
        assert (told["confidence"], told["expired"]) == (0.5, False)
        assert told["horizon"] in {until, until - timedelta(days=1)}
        assert told["invalidation"] == COMMITTED["invalidation"]


async def test_what_is_past_its_horizon_reads_as_expired(advised: World) -> None:
    await _set(advised, horizon="2020-01-01")
    for told in await _read(advised):
        assert told["expired"] is True


async def test_advice_of_before_still_reads(advised: World) -> None:
    for older in ({}, {"horizon": "some day"}):
        await _set(advised, **older)
        for told in await _read(advised):
            assert (told["confidence"], told["horizon"], told["expired"]) == (None, None, False)


async def test_a_horizon_that_has_passed_is_refused_by_the_database_s_day(world: World) -> None:
    async with world.database.transaction() as session:
        with pytest.raises(ToolRefusalError, match="2020-01-01 is not in the future"):
            await conclusions.add_advice(
                session,
                world.scope,
                name="Wait",
                action="HOLD",
                summary="Wait.",
                content="Wait.",
                **COMMITTED | {"horizon": "2020-01-01"},
            )


async def test_types_of_an_older_version_are_brought_up_to_date(world: World) -> None:
    async with world.database.transaction() as session:
        await session.execute(
            update(GraphNodeType)
            .where(GraphNodeType.name == ADVICE_TYPE)
            .values(properties_schema={"type": "object"})
        )
        await system_types.ensure_system_types(session, world.scope.agent_id)
        brought = await get_node_type(session, world.scope, ADVICE_TYPE)
    assert "invalidation" in brought.properties_schema["properties"]
