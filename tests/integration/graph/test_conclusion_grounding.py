"""Conclusions follow from what they cite: refused at the write, and found by verification when changed by other means."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select, update

from shared.database.tables import Agent, GraphNode
from shared.graph.provenance import integrity
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.tools import add_agent_analysis_node
from shared.tools import ToolRefusalError
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.duplicates import merge_nodes
from tests.support.graph.graph_with_evidence import EvidenceGraph
from tests.support.graph.tooling import call
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


async def test_a_wrong_number_is_refused_and_the_model_can_mend_it(countries: AgentGraph) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    togo = await add(countries, "Togo", 8_650_000, TOGO)
    cited = f"Ghana has 33.8 million people [node:{ghana}], Togo 8.65 million [node:{togo}]"
    tool = add_agent_analysis_node(countries.scope)
    arguments = {"name": "Sizes", "type": "observation", "summary": "Ghana is larger."}
    with pytest.raises(ToolRefusalError) as refusal:
        await call(
            countries, tool, **arguments, content=f"{cited}, 4.9 times as many.", confidence=0.5
        )
    reason = str(refusal.value)
    assert reason.startswith("content: '4.9 times' is not what the numbers beside it give:")
    assert "33.8 million / 8.65 million is 3.91" in reason
    assert "Cite what has it, write the arithmetic with its operands, or leave it out." in reason
    async with countries.database.transaction() as session:
        names = set(await session.scalars(select(GraphNode.name)))
    assert names == {"Ghana", "Togo"}
    answer = await call(
        countries, tool, **arguments, content=f"{cited}, 3.9 times as many.", confidence=0.5
    )
    assert answer.keys() == {"nodeId"}


async def test_a_name_or_number_of_what_is_not_cited_is_refused(countries: AgentGraph) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    await add(countries, "Togo", 8_650_000, TOGO)
    with pytest.raises(ToolRefusalError, match="'Togo' is not named in anything that is cited"):
        await analyse(countries, "Sizes", f"Ghana is larger than Togo [node:{ghana}].")
    with pytest.raises(ToolRefusalError, match=r"'8.65 million' is not in anything that is cited"):
        await analyse(countries, "Sizes", f"Ghana has over 8.65 million people [node:{ghana}].")


async def test_advice_may_use_what_its_analyses_cite(countries: AgentGraph) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    togo = await add(countries, "Togo", 8_650_000, TOGO)
    first = await analyse(countries, "One", f"Ghana is large [node:{ghana}].")
    second = await analyse(countries, "Other", f"Togo is small [node:{togo}].")
    cited = f"[node:{first}] [node:{second}]"
    with pytest.raises(ToolRefusalError, match="in the analyses that it cites"):
        await advise(countries, f"Wait, for Ghana has 34.8 million people {cited}.")
    await advise(
        countries,
        f"Wait, for Ghana has 33.8 million people and Togo 8.65 million {cited}.",
        invalidation="The price of cocoa rises above 9,000 USD a tonne.",
    )
    assert (await check_all(countries.database, countries.scope))[1] == []


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


async def test_a_value_that_is_put_in_by_sql_is_found(countries: AgentGraph) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    analysis = await analyse(
        countries, "Size", f"Ghana has 33.8 million people [node:{ghana}].", "Ghana is large."
    )
    counts, faults = await check_all(countries.database, countries.scope)
    assert faults == []
    assert (counts.values_supported, counts.values_unverified, counts.conclusions_unchecked) == (
        3,
        0,
        0,
    )
    await put_in(countries, analysis, {"summary": "Ghana has 99 million people."})
    _, faults = await check_all(countries.database, countries.scope)
    assert [(fault.id, fault.broken, fault.message) for fault in faults] == [
        (
            analysis,
            "grounding",
            "its summary: '99 million' is not in anything that is cited, "
            "and does not follow from the numbers of its paragraph",
        )
    ]


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


async def test_conclusions_that_other_rules_accepted_are_no_faults(countries: AgentGraph) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    analysis = await analyse(countries, "Size", f"Ghana is large [node:{ghana}].")
    async with countries.database.transaction() as session:
        changed = update(GraphNode).where(GraphNode.id == analysis)
        await session.execute(changed.values(rules={"version": 0}))
    await put_in(countries, analysis, {"summary": "Ghana has 99 million people."})
    counts, faults = await check_all(countries.database, countries.scope)
    assert faults == []
    assert counts.values_unverified == 1


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


async def test_names_of_the_mission_stay_allowed_when_it_changes(countries: AgentGraph) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    content = f"Ghana is large, which matters to Barry Callebaut [node:{ghana}]."
    with pytest.raises(ToolRefusalError, match="'Barry Callebaut'"):
        await analyse(countries, "Buyer", content)
    for mission in ("Watch Barry Callebaut.", "Watch another one."):
        async with countries.database.transaction() as session:
            await session.execute(update(Agent).values(mission=mission))
        if "Barry" in mission:
            await analyse(countries, "Buyer", content)
    assert (await check_all(countries.database, countries.scope))[1] == []


async def test_an_imported_conclusion_is_checked_again(countries: AgentGraph) -> None:
    ghana = await add(countries, "Ghana", 33_800_000, OLD)
    await analyse(countries, "Size", f"Ghana has 33.8 million people [node:{ghana}].")
    evidence_graph = EvidenceGraph(countries)
    copy = await imported(evidence_graph, await exported(evidence_graph))
    counts, faults = await check_all(countries.database, copy)
    assert faults == []
    assert (counts.values_supported, counts.conclusions_unchecked) == (2, 0)
