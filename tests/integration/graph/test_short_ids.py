"""Short ids: what models read and write in place of UUIDs."""

import asyncio
import random
from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from shared.database.statements import Batch
from shared.database.tables import GraphNode
from shared.graph import context
from shared.graph.short_ids import ShortIds, number_in
from shared.graph.tools import add_agent_analysis_node
from shared.tools import ToolRefusalError
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.tooling import call
from tests.support.seeds import first_seed, repeatable, seed_count
from tests.support.sql_capture import captured_statements


async def shown(agent_graph: AgentGraph, *texts: str) -> ShortIds:
    """The short ids of a run that shows these texts."""
    ids = ShortIds(agent_graph.scope)
    async with agent_graph.database.transaction() as session:
        await ids.number(session, texts)
    return ids


async def test_nodes_and_edges_are_numbered_once_and_for_all_runs(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    border = await agent_graph.edge(ghana, togo)
    foreign, unknown = await stranger.node("Mali"), uuid4()
    text = (
        f'- [node:{togo}] Country "Togo"\n- [edge:{border}] {{"id": "{ghana}"}} {foreign} {unknown}'
    )
    first = await shown(agent_graph, text)
    assert (
        first.shorten(text) == f'- [n1] Country "Togo"\n- [e2] {{"id": "n3"}} {foreign} {unknown}'
    )
    second = await shown(agent_graph, f"[node:{ghana}] [node:{togo}]")
    assert second.shorten(f"[node:{ghana}] [node:{togo}]") == "[n3] [n1]"
    benin = await agent_graph.node("Benin")
    assert (await shown(agent_graph, str(benin))).shorten(str(benin)) == "n4"
    assert (await shown(stranger, str(foreign))).shorten(str(foreign)) == "n1"


async def test_short_ids_are_expanded_where_they_are_cited(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    border = await agent_graph.edge(ghana, togo)
    ids = await shown(agent_graph, f"{ghana} {togo} {border}")
    assert ids.expand("It grows [n1], as [node:n2] does [ n1 , e3 ].") == (
        f"It grows [node:{ghana}], as [node:{togo}] does [node:{ghana}] [edge:{border}]."
    )
    untouched = f"n1 alone, an N95 mask, [1] and [node:{ghana}]"
    assert ids.expand(untouched) == untouched
    assert ids.expand("[n1, n9] and [e1]") == (
        f"[node:{ghana}] [node:00000000-0000-0000-0000-000000000009]"
        " and [edge:00000000-0000-0000-0000-000000000001]"
    )
    assert [
        ids.find(each) for each in ("n2", "[n2]", "[node:n2]", f"[node:{togo}]", str(togo))
    ] == [togo] * 5
    assert [ids.find(each) for each in ("n9", "e2", "Togo", "")] == [None] * 4
    assert [number_in(each) for each in ("n12", "[e3]", "Togo", "n1 n2")] == [12, 3, None, None]


async def test_an_id_that_was_not_shown_is_refused(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    ids = await shown(agent_graph, str(ghana))
    tool = add_agent_analysis_node(agent_graph.scope, ids)
    arguments = {"name": "Growth", "type": "pattern", "summary": "It grows.", "confidence": 0.5}
    with pytest.raises(ToolRefusalError, match=r"content: \[n7\] is not an id that you were given"):
        await call(agent_graph, tool, **arguments, content="It grows [n1], as others do [n7].")
    written = await call(agent_graph, tool, **arguments, content="It grows [n1].")
    async with agent_graph.database.transaction() as session:
        analysis = await session.get_one(GraphNode, UUID(written["nodeId"]))
    assert analysis.properties["content"] == f"It grows [node:{ghana}]."


async def test_a_resumed_run_knows_what_it_has_shown(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    message = (await shown(agent_graph, f"{ghana} {togo}")).shorten(f"[node:{ghana}] and n99")
    resumed = ShortIds(agent_graph.scope)
    async with agent_graph.database.transaction() as session:
        await resumed.load(session, [message])
    missing = UUID("00000000-0000-0000-0000-000000000002")
    assert resumed.expand("[n1] [n2]") == f"[node:{ghana}] [node:{missing}]"


async def test_relevant_nodes_are_numbered_with_the_statements_that_load_their_edges(
    agent_graph: AgentGraph,
) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    mali = await agent_graph.node("Mali")
    border = await agent_graph.edge(ghana, togo)
    ids = ShortIds(agent_graph.scope)
    batch = Batch()
    describe = context.prepare_nodes(batch, agent_graph.scope, [ghana], ids)
    written = f"[node:{mali}]"
    async with agent_graph.database.transaction() as session:
        await batch.execute(session)
        lines = await describe(session, [written])
        with captured_statements() as statements:
            await ids.number(session, [written, lines])
    assert statements == []
    assert ids.shorten(f"{mali} {ghana} {border} {togo}") == "n1 n2 e3 n4"
    assert str(togo) in lines


WALKS = 3


async def test_concurrent_runs_agree(agent_graph: AgentGraph) -> None:
    first = first_seed()
    for place in range(seed_count() or WALKS):
        nodes = [await agent_graph.node(f"Country {12 * place + each}") for each in range(12)]
        with repeatable(first + place):
            await walk(agent_graph, nodes, random.Random(first + place))


async def walk(agent_graph: AgentGraph, nodes: Sequence[UUID], chance: random.Random) -> None:
    """Runs number random elements at the same time, and some of them fail before they commit."""

    async def run(chosen: list[UUID], *, fails: bool) -> dict[UUID, str]:
        ids = ShortIds(agent_graph.scope)
        async with agent_graph.database.transaction() as session:
            await ids.number(session, map(str, chosen))
            if fails:
                await session.rollback()
                return {}
        return {node: ids.shorten(str(node)) for node in chosen}

    known: dict[UUID, str] = {}
    for _ in range(6):
        runs = [
            run(chance.sample(nodes, chance.randint(1, 6)), fails=chance.random() < 0.3)
            for _ in range(5)
        ]
        for numbered in await asyncio.gather(*runs):
            for node, short in numbered.items():
                assert number_in(short), f"{short} is no short id"
                assert known.setdefault(node, short) == short
    assert len(set(known.values())) == len(known)
