"""What the tools ask of evidence, and of those who have none."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError
from sqlalchemy import func, select

from shared.database.tables import Evidence, GraphEdge, GraphNode
from shared.graph import tools
from shared.graph.conclusions import conclusions
from shared.graph.provenance import integrity
from shared.tools import Json, ToolRefusalError
from tests.support.committing import SURE
from tests.support.graph.tooling import EVIDENCE, call, named
from tests.support.graph.world import COUNTRY, World


async def _add(world: World, evidence: list[dict[str, Any]], **properties: Any) -> Json:
    add = named(tools.graph_construction(world.scope, world.validators), "addGraphNode")
    return await call(
        world,
        add,
        type="Country",
        name="Ghana",
        properties=COUNTRY | properties,
        evidence=evidence,
    )


async def test_evidence_says_when_it_holds_and_the_answer_what_gave_way(world: World) -> None:
    of_2022 = [{**EVIDENCE[0], "validFrom": "2022", "validTo": "2022"}]
    of_2023 = [{**EVIDENCE[0], "validFrom": "2023-05-01T12:00:00+02:00", "validTo": None}]
    await _add(world, of_2022, population=31)
    newer = await _add(world, of_2023, population=33)
    assert newer["superseded"] == {"population": {"held": 31, "asOf": "2022-01-01T00:00:00Z"}}
    older = await _add(world, of_2022, population=30)
    assert older["kept"] == {"population": {"held": 33, "asOf": "2023-05-01T10:00:00Z"}}
    async with world.database.transaction() as session:
        ends = set(await session.scalars(select(Evidence.valid_to)))
    assert ends == {None, datetime(2023, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"validFrom": "lately"}, r"evidence\[0\].validFrom: 'lately' is no date; write YYYY"),
        ({"validTo": "9999"}, r"evidence\[0\].validTo: '9999' is no date"),
        ({"validFrom": "2024", "validTo": "2023"}, "validTo is before validFrom"),
        ({"properties": ["area"]}, "area, which is not among"),
        ({"quote": "That is not there."}, "it does not stand in"),
    ],
)
async def test_evidence_that_cannot_be_is_refused(
    world: World, entry: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ToolRefusalError, match=reason):
        await _add(world, [EVIDENCE[0] | entry])


async def test_without_evidence_the_arguments_do_not_fit(world: World) -> None:
    for name in ("addGraphNode", "addGraphEdge"):
        tool = named(tools.graph_construction(world.scope), name)
        for given in (None, [], EVIDENCE * 11):
            with pytest.raises(ValidationError, match="evidence"):
                tool.arguments.model_validate({"type": "x", "name": "x", "evidence": given})


async def test_an_analyzer_ties_analyses_and_nothing_else(world: World) -> None:
    ghana, togo = await world.node("Ghana"), await world.node("Togo")
    await world.edge_type("resembles")
    analyzer = tools.analysis_generation(world.scope)
    tie = named(analyzer, "addGraphEdge")
    given = {"type": "borders", "sourceId": str(ghana), "targetId": str(togo)}
    with pytest.raises(ToolRefusalError, match="Neither end is an AgentAnalysis"):
        await call(world, tie, **given)
    with pytest.raises(ValidationError, match="evidence"):
        tie.arguments.model_validate({**given, "evidence": EVIDENCE})
    analysis = await call(
        world,
        named(analyzer, "addAgentAnalysisNode"),
        name="Growth",
        type="observation",
        summary="It grows.",
        content=f"It grows [node:{ghana}].",
        confidence=0.5,
    )
    for properties in ({"share": 1}, {"why": "both grow"}):
        tied = await call(
            world,
            tie,
            type="resembles",
            sourceId=str(ghana),
            targetId=analysis["nodeId"],
            properties=properties,
        )
    assert tied["created"] is False
    async with world.database.transaction() as session:
        edge = await session.get_one(GraphEdge, UUID(tied["edgeId"]))
        node = await session.get_one(GraphNode, UUID(analysis["nodeId"]))
        assert await session.scalar(select(func.count()).where(Evidence.edge_id == edge.id)) == 0
    assert edge.properties == {"share": 1, "why": "both grow"}
    assert edge.seal == integrity.edge_seal(
        edge_id=edge.id,
        agent_id=edge.agent_id,
        type_name="resembles",
        source_id=ghana,
        target_id=node.id,
        properties=edge.properties,
        evidence=(),
    )
    assert node.seal == integrity.node_seal(
        node_id=node.id,
        agent_id=node.agent_id,
        type_name="AgentAnalysis",
        name="Growth",
        properties=node.properties,
        evidence=(),
    )


async def test_no_page_speaks_of_a_conclusion(world: World) -> None:
    ghana = await world.node("Ghana")
    async with world.database.transaction() as session:
        analysis = await conclusions.add_analysis(
            session,
            world.scope,
            name="Growth",
            kind="pattern",
            summary="It grows.",
            content=f"It grows [node:{ghana}].",
            **SURE,
        )
    connect = named(tools.graph_construction(world.scope), "addGraphEdge")
    with pytest.raises(ToolRefusalError, match="One end is an AgentAnalysis"):
        await call(
            world,
            connect,
            type="about",
            sourceId=str(analysis),
            targetId=str(ghana),
            evidence=EVIDENCE,
        )
