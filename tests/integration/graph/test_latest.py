"""The newest conclusions, advice and analyses together."""

from uuid import UUID

from services.api.queries import conclusions as latest
from shared.graph.conclusions import conclusions
from tests.support.committing import COMMITTED
from tests.support.graph.world import World


async def _analysis(world: World, name: str, node: UUID) -> UUID:
    async with world.database.transaction() as session:
        return await conclusions.add_analysis(
            session,
            world.scope,
            name=name,
            kind="pattern",
            summary=f"{name} grows.",
            content=f"It grows [node:{node}].",
            confidence=0.5,
        )


async def test_they_are_told_together_and_the_newest_first(world: World) -> None:
    ghana = await world.node("Ghana")
    first, second = await _analysis(world, "First", ghana), await _analysis(world, "Second", ghana)
    async with world.database.transaction() as session:
        advice = await conclusions.add_advice(
            session,
            world.scope,
            name="Wait",
            action="HOLD",
            summary="Wait.",
            content=f"As [node:{first}] says.",
            **COMMITTED,
        )
    third = await _analysis(world, "Third", ghana)
    async with world.database.transaction() as session:
        found = await latest.newest_conclusions(session, world.scope, 3)
    assert [each.id for each in found] == [third, advice, second]
    assert [each.word for each in found] == ["pattern", "HOLD", "pattern"]
    assert (found[0].name, found[0].summary) == ("Third", "Third grows.")
    assert found[0].doubted_since is None


async def test_none_are_told_of_an_agent_that_has_none(world: World) -> None:
    async with world.database.transaction() as session:
        assert await latest.newest_conclusions(session, world.scope, 3) == []
