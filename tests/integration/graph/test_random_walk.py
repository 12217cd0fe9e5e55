"""Random operations leave a graph that verifies as intact, and that survives export and import."""

from random import Random
from typing import Final

import pytest

from shared.graph.scope import GraphScope
from tests.support.canonical_graph import canonical_hash
from tests.support.graph.graph_with_evidence import Proven
from tests.support.graph.transfer import exported, imported
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
        actions: list[str] = []
        for step in range(STEPS):
            actions.append(await walk.step())
            await assert_intact(world, world.scope, actions)
            if step % BETWEEN_EXPORTS == 0:
                scope = await imported(Proven(world), await exported(Proven(world)))
                await assert_intact(world, scope, actions)
                async with world.database.snapshot() as session:
                    before = await canonical_hash(session, world.scope)
                    assert await canonical_hash(session, scope) == before, actions


async def assert_intact(world: World, scope: GraphScope, actions: list[str]) -> None:
    """Faults of kind `retracted` are expected and ignored."""
    async with world.database.snapshot() as session:
        faults = [fault for fault in await breaks(session, scope) if fault.broken != "retracted"]
    assert faults == [], actions
