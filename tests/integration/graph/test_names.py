"""One node per entity, in any spelling and with concurrent writers."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import delete, func, select

from shared.database.tables import GraphName, GraphNode
from shared.graph import elements, tools
from shared.graph.entity_resolution import aliases, candidates
from shared.graph.entity_resolution.aliases import NameRequest
from shared.graph.entity_resolution.candidates import DUPLICATE_THRESHOLD
from shared.tools import Json, ToolRefusalError
from tests.support.graph.agent_graph import COUNTRY, EVIDENCE_INPUTS, PAGE, AgentGraph
from tests.support.graph.concurrent_writes import retried

EVIDENCE = [{"sourceUrl": PAGE["url"], "quote": PAGE["content"]}]


@retried
async def _add(agent_graph: AgentGraph, name: str, **options: Any) -> UUID:
    return (await agent_graph.add_node(name, **{"type_name": "Company", **options})).id


async def _list_names(agent_graph: AgentGraph, node_id: UUID) -> list[str]:
    async with agent_graph.database.transaction() as session:
        return await aliases.list_names(session, agent_graph.scope, node_id)


async def _count(agent_graph: AgentGraph, table: type[GraphName] | type[GraphNode]) -> int:
    async with agent_graph.database.transaction() as session:
        return await session.scalar(select(func.count()).select_from(table)) or 0


@pytest.fixture
async def companies(agent_graph: AgentGraph) -> AgentGraph:
    await agent_graph.node_type("Company")
    return agent_graph


async def test_spellings_of_one_name_are_one_node_under_its_first_name(
    companies: AgentGraph,
) -> None:
    first = await _add(companies, "Nvidia Corp.")
    for spelling in ("NVIDIA Corporation", "nvidia", "NVIDIA (NVDA)", "NVDA", "NASDAQ: NVDA"):
        assert await _add(companies, spelling) == first
    async with companies.database.transaction() as session:
        assert list(await session.scalars(select(GraphNode.name))) == ["Nvidia Corp."]
    assert await _list_names(companies, first) == ["Nvidia Corp.", "nvda"]


async def test_a_name_is_unique_per_type_and_agent(
    companies: AgentGraph, stranger: AgentGraph
) -> None:
    await stranger.node_type("Company")
    node_ids = {
        await _add(companies, "Chad"),
        await _add(companies, "Chad", type_name="Country"),
        await _add(stranger, "Chad"),
    }
    assert len(node_ids) == 3


async def test_aliases_are_names_and_aliases_of_other_nodes_are_refused(
    companies: AgentGraph,
) -> None:
    meta = await _add(companies, "Meta Platforms", aliases=["Facebook, Inc.", "META"])
    assert await _add(companies, "facebook") == meta
    assert await _add(companies, "Meta Platforms, Inc.", aliases=["Facebook"]) == meta
    with pytest.raises(
        ToolRefusalError, match=rf'aliases: "FACEBOOK" is a name of \[node:{meta}\]'
    ):
        await _add(companies, "Another", aliases=["FACEBOOK"])
    assert await _count(companies, GraphNode) == 1, "a refused node leaves no rows"
    assert await _count(companies, GraphName) == 3
    with pytest.raises(ToolRefusalError, match="11 were given, but at most 10"):
        await _add(companies, "Another", aliases=[f"Name {number}" for number in range(11)])
    with pytest.raises(ToolRefusalError, match="aliases: 0 characters"):
        await _add(companies, "Another", aliases=[" "])


async def test_a_node_refused_by_its_schema_claims_no_name(companies: AgentGraph) -> None:
    async with companies.database.transaction() as session:
        with pytest.raises(ToolRefusalError, match="required"):
            await elements.add_node(
                session,
                companies.scope,
                companies.validators,
                type_name="Company",
                name="Nobody",
                properties={},
                evidence=EVIDENCE_INPUTS,
            )
    assert await _count(companies, GraphName) == 0


async def test_a_node_from_before_names_were_stored_claims_its_name(companies: AgentGraph) -> None:
    first = await _add(companies, "Nvidia Corp.")
    async with companies.database.transaction() as session:
        await session.execute(delete(GraphName))
    assert await _add(companies, "Nvidia Corp.") == first
    assert await _add(companies, "NVIDIA") == first


async def _add_by_tool(agent_graph: AgentGraph, **fields: Any) -> Json:
    tool = tools.add_graph_node(agent_graph.scope, agent_graph.validators)
    arguments = tool.arguments.model_validate(
        {"type": "Company", "properties": COUNTRY, "evidence": EVIDENCE, **fields}
    )
    async with agent_graph.database.transaction() as session:
        return await tool.run(session, arguments)


async def test_a_name_similar_to_an_existing_one_needs_confirmation(
    companies: AgentGraph,
) -> None:
    first = await _add(companies, "Taiwan Semiconductor Manufacturing")
    question = rf"There is \[node:{first}\] \"Taiwan Semiconductor Manufacturing\" \(0\.\d\d\)"
    for spelling in (
        "Taiwan Semiconducter Manufacturing",
        "Taiwan Semiconductor Manufacturers",
        "Taiwan Semiconductor",
        "Manufacturing Taiwan Semiconductor of Hsinchu",
    ):
        with pytest.raises(ToolRefusalError, match=question) as error:
            await _add_by_tool(companies, name=spelling)
        assert f'distinctFrom: ["{first}"]' in str(error.value)
    same = await _add_by_tool(companies, name="Taiwan Semiconductor Manufacturing Co., Ltd.")
    assert same == {"nodeId": str(first), "created": False}
    other = await _add_by_tool(companies, name="Taiwan Semiconductor", distinctFrom=[str(first)])
    assert other["created"]
    repeated = await _add_by_tool(companies, name="Taiwan Semiconductor")
    assert repeated == {"nodeId": other["nodeId"], "created": False}, "the name is stored now"
    with pytest.raises(ToolRefusalError, match=str(first)):
        await _add_by_tool(
            companies, name="Taiwan Semiconductor Manufactory", distinctFrom=[other["nodeId"]]
        )


async def test_distinct_numbers_dates_and_names_need_no_confirmation(companies: AgentGraph) -> None:
    for name in (
        "Results of Q1 2025",
        "Results of Q2 2025",
        "Model 3",
        "Model Y",
        "Regulation 2019/1",
        "Regulation 2019/2",
        "Report of January",
        "Report of June",
        "Halden Cells",
        "Orran Metals",
    ):
        assert (await _add_by_tool(companies, name=name))["created"]


async def test_similar_names_of_other_agents_and_types_are_ignored(
    companies: AgentGraph, stranger: AgentGraph
) -> None:
    await stranger.node_type("Company")
    await _add(stranger, "Taiwan Semiconductor Manufacturing")
    await _add(companies, "Taiwan Semiconductor Manufacturing", type_name="Country")
    assert (await _add_by_tool(companies, name="Taiwan Semiconductor Manufacturer"))["created"]


async def test_at_most_five_candidates_are_listed_most_similar_first(companies: AgentGraph) -> None:
    for end in ("ing", "er", "e", "es", "ery", "i"):
        await _add(companies, f"Halden Batteri{end}")
    name, threshold = "Halden Batterien", DUPLICATE_THRESHOLD - 0.1
    async with companies.database.transaction() as session:
        request = aliases.request_keys(NameRequest("Company", name, duplicate_threshold=threshold))
        lookup = await aliases.names_query(companies.scope, [request]).execute(session)
        matches = await candidates.rank_candidates(
            session, companies.scope, request.main[1], lookup.neighbours[request.main], threshold
        )
    similarities = [candidate.similarity for candidate in matches]
    assert len(similarities) == candidates.MAX_CANDIDATES
    assert similarities == sorted(similarities, reverse=True)


async def test_concurrent_writers_with_swapped_names_do_not_deadlock(
    companies: AgentGraph,
) -> None:
    """Each writer claims two names, in either order."""

    async def add(number: int) -> UUID:
        pair = ["Alphabet", "Google"][:: 1 if number % 2 else -1]
        return await _add(companies, pair[0], aliases=pair[1:])

    assert len(set(await asyncio.gather(*(add(number) for number in range(16))))) == 1
    assert await _count(companies, GraphName) == 2
