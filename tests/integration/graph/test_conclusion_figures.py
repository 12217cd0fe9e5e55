"""What code checks of a conclusion: how much it cites, and how many of its figures its proof contains."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from shared.database.tables import Agent, GraphNode
from shared.graph.provenance import integrity
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.tools import ToolRefusalError
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.duplicates import merge_nodes
from tests.support.graph.graph_with_evidence import EvidenceGraph
from tests.support.graph.transfer import exported, imported
from tests.support.graph.verification import check_all

PAGES = {
    "https://a.example/old": ("2023-01-01", "Ghana has 33.8 million people."),
    "https://a.example/new": ("2025-01-01", "Ghana has 35 million people."),
    "https://a.example/togo": ("2023-01-01", "Togo has 8.65 million people."),
    "https://a.example/gold": ("2024-01-01", "The Gold Coast has 33.8 million people."),
}
OLD, NEW, TOGO, GOLD = PAGES


@pytest.fixture
async def countries(agent_graph: AgentGraph) -> AgentGraph:
    pages = [
        {"url": url, "title": "", "content": text, "published_date": day}
        for url, (day, text) in PAGES.items()
    ]
    await agent_graph.store_search_results({"results": pages})
    return agent_graph


async def add(graph: AgentGraph, name: str, population: int, url: str) -> UUID:
    properties = {"summary": "people", "population": population}
    return (await graph.add_node(name, properties, [EvidenceInput(url, PAGES[url][1])])).id


async def analyse(graph: AgentGraph, name: str, content: str, summary: str = "So it is.") -> UUID:
    return await graph.analysis(content, name, summary=summary)


async def advise(graph: AgentGraph, content: str, **terms: Any) -> UUID:
    return await graph.advice(content, **terms)


async def put_in(graph: AgentGraph, node_id: UUID, changes: Mapping[str, Any]) -> None:
    """Change a conclusion by SQL, with a correct seal."""
    async with graph.database.transaction() as session:
        node = await session.get_one(GraphNode, node_id)
        properties = {**node.properties, **changes}
        seal = integrity.node_seal(
            node_id=node.id,
            agent_id=node.agent_id,
            type_name=node.type,
            name=node.name,
            properties=properties,
            evidence=[],
            rules=node.rules,
        )
        await session.execute(
            update(GraphNode)
            .where(GraphNode.id == node_id)
            .values(properties=properties, seal=seal)
        )


async def test_advice_cites_two_analyses_unless_the_owner_allows_one(
    countries: AgentGraph,
) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    analysis = await analyse(countries, "One", f"Ghana is large [node:{ghana}].")
    with pytest.raises(ToolRefusalError, match="advice needs 2 that differ"):
        await advise(countries, f"Wait [node:{analysis}] [node:{analysis}].")
    for is_allowed in (True, False):
        async with countries.database.transaction() as session:
            await session.execute(update(Agent).values(advice_from_one_analysis=is_allowed))
        if is_allowed:
            await advise(countries, f"Wait [node:{analysis}].")
    # It was allowed when it was written.
    assert (await check_all(countries.database, countries.scope))[1] == []


async def test_figures_of_a_conclusion_are_counted_and_those_that_it_computes_are_no_fault(
    countries: AgentGraph,
) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    togo = await add(countries, "Togo", 8_650_000, TOGO)
    cited = f"Ghana has 33.8 million people [node:{ghana}], Togo 8.65 million [node:{togo}]"
    await analyse(countries, "Sizes", f"{cited}, 3.9 times as many. Two states are compared.")
    counts, faults = await check_all(countries.database, countries.scope)
    assert faults == []
    assert (counts.values_supported, counts.values_unverified, counts.conclusions_unchecked) == (
        2,
        1,
        0,
    )


async def test_a_figure_that_is_put_in_by_sql_does_not_count_as_found(
    countries: AgentGraph,
) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    analysis = await analyse(countries, "Size", f"Ghana has 33.8 million people [node:{ghana}].")
    await put_in(countries, analysis, {"content": f"Ghana has 99 million people [node:{ghana}]."})
    counts, _ = await check_all(countries.database, countries.scope)
    assert (counts.values_supported, counts.values_unverified) == (0, 1)


async def test_advice_whose_second_analysis_is_taken_out_is_found(countries: AgentGraph) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    first = await analyse(countries, "One", f"Ghana is large [node:{ghana}].")
    second = await analyse(countries, "Other", f"So it is [node:{ghana}].")
    advice = await advise(countries, f"Wait [node:{first}] [node:{second}].")
    await put_in(countries, advice, {"content": f"Wait [node:{first}]."})
    _, faults = await check_all(countries.database, countries.scope)
    assert [(fault.id, fault.message) for fault in faults] == [(advice, "it cites 1 analysis only")]


async def test_conclusions_of_earlier_releases_are_counted_and_not_checked(
    countries: AgentGraph,
) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    analysis = await analyse(countries, "Size", f"Ghana is large [node:{ghana}].")
    async with countries.database.transaction() as session:
        await session.execute(update(GraphNode).where(GraphNode.id == analysis).values(rules=None))
    await put_in(countries, analysis, {"summary": "Ghana has 99 million people."})
    counts, faults = await check_all(countries.database, countries.scope)
    assert faults == []
    assert (counts.values_supported, counts.conclusions_unchecked) == (0, 1)


async def test_a_superseded_value_keeps_the_conclusion_valid(countries: AgentGraph) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    await analyse(countries, "Size", f"Ghana has 33.8 million people [node:{ghana}].")
    await add(countries, "Ghana", 35_000_000, NEW)
    assert (await check_all(countries.database, countries.scope))[1] == []
    await analyse(
        countries,
        "Growth",
        f"Ghana has grown from 33.8 million to 35 million people, by 3.6 % [node:{ghana}].",
    )


async def test_a_retracted_value_keeps_the_conclusion_valid(countries: AgentGraph) -> None:
    ghana = await add(countries, "Ghana", 35_000_000, NEW)
    await analyse(countries, "Size", f"Ghana has 35 million people [node:{ghana}].")
    await add(countries, "Ghana", 33_800_000, OLD)
    async with countries.database.transaction() as session:
        await retractions.retract_source(session, countries.scope, NEW, "made up")
    await propagate_retractions(countries.database)
    assert (await check_all(countries.database, countries.scope))[1] == []


async def test_a_merged_node_keeps_the_conclusion_valid(countries: AgentGraph) -> None:
    ghana = await add(countries, "Ghana", 35_000_000, NEW)
    gold = await add(countries, "Gold Coast", 33_800_000, GOLD)
    analysis = await analyse(
        countries, "Size", f"The Gold Coast has 33.8 million people [node:{gold}]."
    )
    await merge_nodes(countries, ghana, gold)
    assert (await check_all(countries.database, countries.scope))[1] == []
    second = await analyse(countries, "Again", f"Gold Coast: 33.8 million people [node:{gold}].")
    await advise(
        countries, f"Wait for the Gold Coast: 33.8 million [node:{analysis}] [node:{second}]."
    )
    assert (await check_all(countries.database, countries.scope))[1] == []


async def test_an_imported_conclusion_is_checked_again(countries: AgentGraph) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    await analyse(countries, "Size", f"Ghana has 33.8 million people [node:{ghana}].")
    evidence_graph = EvidenceGraph(countries)
    copy = await imported(evidence_graph, await exported(evidence_graph))
    counts, faults = await check_all(countries.database, copy)
    assert faults == []
    assert (counts.values_supported, counts.conclusions_unchecked) == (1, 0)
