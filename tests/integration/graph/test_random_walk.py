"""Random operations leave a graph that verifies as intact, and that survives export and import."""

from random import Random
from typing import Final

import pytest

from shared.graph.scope import GraphScope
from tests.support.canonical_graph import graph_fingerprint
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.graph_with_evidence import EvidenceGraph
from tests.support.graph.transfer import exported, imported
from tests.support.graph.verification import breaks
from tests.support.graph.walking import Walk
from tests.support.marks import slow
from tests.support.seeds import repeatable, seed_count

WALKS: Final = [
    (0, 40),
    *slow((1, 40), (2, 40), *((number, 200) for number in range(seed_count() or 3))),
]
"""The number of each, and its steps."""
BETWEEN_EXPORTS: Final = 10


@pytest.mark.parametrize(("number", "steps"), WALKS)
async def test_every_step_leaves_an_intact_graph(
    agent_graph: AgentGraph, seed: int, number: int, steps: int
) -> None:
    with repeatable(seed):
        walk = Walk(agent_graph, Random(seed + number))
        await walk.begin()
        actions: list[str] = []
        for step in range(steps):
            actions.append(await walk.step())
            await assert_intact(agent_graph, agent_graph.scope, actions)
            if step % BETWEEN_EXPORTS == 0:
                scope = await imported(
                    EvidenceGraph(agent_graph), await exported(EvidenceGraph(agent_graph))
                )
                await assert_intact(agent_graph, scope, actions)
                async with agent_graph.database.snapshot() as session:
                    before = await graph_fingerprint(session, agent_graph.scope)
                    assert await graph_fingerprint(session, scope) == before, actions


async def assert_intact(agent_graph: AgentGraph, scope: GraphScope, actions: list[str]) -> None:
    """Faults of kind `retracted` are expected and ignored."""
    async with agent_graph.database.snapshot() as session:
        faults = [fault for fault in await breaks(session, scope) if fault.broken != "retracted"]
    assert faults == [], actions
