"""What people see of a graph, and that they see no one else's (promise G10)."""

from uuid import uuid4

import pytest
from sqlalchemy.exc import IntegrityError

from services.api.queries import graph
from shared.enums import ADVICE_TYPE
from shared.graph import context, nodes, types
from shared.graph.conclusions import conclusions, queries
from shared.graph.retrieval import query
from shared.graph.scope import GraphScope
from shared.schemas.base import Wanted
from shared.tools import ToolRefusalError
from tests.support.committing import SURE
from tests.support.graph.world import COUNTRY, COUNTRY_SCHEMA, GROUNDS, World


async def test_counts_lists_and_one_node_with_its_edges(world: World) -> None:
    ghana, togo, benin = [await world.node(name) for name in ("Ghana", "Togo", "Benin")]
    near, far = await world.edge(ghana, togo), await world.edge(togo, benin)
    async with world.database.transaction() as session:
        analysis = await conclusions.add_analysis(
            session,
            world.scope,
            name="Growth",
            kind="observation",
            summary="It grows.",
            content=f"[node:{ghana}]",
            **SURE,
        )
        counted = await graph.counts(session, world.scope)
        newest = await graph.newest_nodes(session, world.scope, limit=2)
        countries = await graph.newest_nodes(session, world.scope, type_name="Country")
        edges = await graph.newest_edges(session, world.scope)
        listed = await graph.types(session, world.scope)
        one = await graph.find_node(session, world.scope, togo)
        no_advice = await queries.list_conclusions(session, world.scope, ADVICE_TYPE, Wanted())
    assert counted == graph.Counts(nodes=4, edges=2, analyses=1, advice=0)
    assert [each.id for each in newest] == [analysis, benin]
    assert [each.name for each in countries] == ["Benin", "Togo", "Ghana"]
    assert [(each.id, each.source_name, each.target_name) for each in edges] == [
        (far, "Togo", "Benin"),
        (near, "Ghana", "Togo"),
    ]
    assert [each.name for each in listed.edges] == ["about", "borders"]
    assert one is not None
    assert one.name == "Togo"
    assert [each.id for each in one.edges.items] == [far, near]
    assert (no_advice.items, no_advice.next) == ([], None)


async def test_limits_that_make_no_sense_do_no_harm(world: World) -> None:
    await world.node("Ghana")
    async with world.database.transaction() as session:
        assert await graph.newest_nodes(session, world.scope, limit=-1) == []
        assert len(await graph.newest_nodes(session, world.scope, limit=10**9)) == 1


async def test_whoever_does_not_own_the_agent_sees_nothing_and_writes_nothing(
    world: World, stranger: World
) -> None:
    ghana, togo = await world.node("Ghana"), await world.node("Togo")
    await world.edge(ghana, togo)
    intruder = GraphScope(owner_id=stranger.scope.owner_id, agent_id=world.scope.agent_id)
    async with world.database.transaction() as session:
        assert await graph.counts(session, intruder) == graph.Counts(0, 0, 0, 0)
        assert await graph.newest_nodes(session, intruder) == []
        assert await graph.newest_edges(session, intruder) == []
        assert await graph.types(session, intruder) == graph.Types([], [])
        assert await graph.find_node(session, intruder, ghana) is None
        assert (await query.query_graph(session, intruder, neighbours=True))["nodes"] == []
        assert "0 nodes, 0 edges, 0 node types" in await context.build_survey(session, intruder)
        assert await context.describe_nodes(session, intruder, [ghana]) == ""
        assert await context.resolve_references(session, intruder, ["Ghana"]) == ([], ["Ghana"])
        with pytest.raises(ToolRefusalError, match="no node type"):
            await nodes.add_node(
                session,
                intruder,
                world.validators,
                type_name="Country",
                name="Mali",
                properties=COUNTRY,
                grounds=GROUNDS,
            )
    with pytest.raises(IntegrityError):
        async with world.database.transaction() as session:
            await types.create_node_type(
                session,
                intruder,
                world.validators,
                name="River",
                description="x",
                properties_schema=COUNTRY_SCHEMA,
                example_properties=COUNTRY,
                created_by="intruder",
            )


async def test_an_agents_other_agents_are_other_agents_too(world: World, stranger: World) -> None:
    theirs = await stranger.node("Mali")
    async with world.database.transaction() as session:
        assert await graph.find_node(session, world.scope, theirs) is None
        assert await graph.find_node(session, world.scope, uuid4()) is None
        assert (await graph.counts(session, world.scope)).nodes == 0
