"""The newest conclusions, advice and analyses together."""

from uuid import UUID

from services.api.queries import conclusions as latest
from shared.graph.conclusions import conclusions
from tests.support.forecast_terms import ADVICE_TERMS
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


async def test_advice_and_analyses_are_listed_newest_first(world: World) -> None:
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
            **ADVICE_TERMS,
        )
    third = await _analysis(world, "Third", ghana)
    async with world.database.transaction() as session:
        newest = await latest.newest_conclusions(session, world.scope, 3)
    assert [conclusion.id for conclusion in newest] == [third, advice, second]
    assert [conclusion.word for conclusion in newest] == ["pattern", "HOLD", "pattern"]
    assert (newest[0].name, newest[0].summary) == ("Third", "Third grows.")
    assert newest[0].doubted_since is None


async def test_an_agent_without_conclusions_has_an_empty_list(world: World) -> None:
    async with world.database.transaction() as session:
        assert await latest.newest_conclusions(session, world.scope, 3) == []
