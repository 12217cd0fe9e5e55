"""Whatever is done to a graph in whatever order: verify finds it intact, and it comes back from a file as it went out."""

from random import Random
from typing import Final

import pytest

from shared.graph.scope import GraphScope
from tests.support.canonical_graph import canonical_hash
from tests.support.graph.proven import Proven
from tests.support.graph.transferring import exported, imported
from tests.support.graph.verifying import breaks
from tests.support.graph.walking import Walk
from tests.support.graph.world import World
from tests.support.seeds import repeatable

WALKS: Final = 3
STEPS: Final = 40
BETWEEN_EXPORTS: Final = 10


@pytest.mark.parametrize("number", range(WALKS))
async def test_every_step_leaves_an_intact_graph(world: World, seed: int, number: int) -> None:
    with repeatable(seed):
        walk = Walk(world, Random(seed + number))
        await walk.begin()
        done: list[str] = []
        for step in range(STEPS):
            done.append(await walk.step())
            await assert_intact(world, world.scope, done)
            if step % BETWEEN_EXPORTS == 0:
                scope = await imported(Proven(world), await exported(Proven(world)))
                await assert_intact(world, scope, done)
                async with world.database.snapshot() as session:
                    before = await canonical_hash(session, world.scope)
                    assert await canonical_hash(session, scope) == before, done


async def assert_intact(world: World, scope: GraphScope, done: list[str]) -> None:
    """What rests on retracted pages alone is told, and is no damage."""
    async with world.database.snapshot() as session:
        found = [each for each in await breaks(session, scope) if each.broken != "retracted"]
    assert found == [], done
