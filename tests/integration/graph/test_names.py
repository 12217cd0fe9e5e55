"""Nodes and edges are stored once, in any spelling of their names and with concurrent writers."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, func, select, text

from services.api.resources.graph import model as graph
from shared.database.tables import Evidence, GraphEdge, GraphName, GraphNode
from shared.database.transaction import Transaction
from shared.graph import elements, tools
from shared.graph.entity_resolution import aliases, candidates
from shared.graph.entity_resolution.relations import similarity
from shared.graph.projection import EDGES, NODES, ElementKind
from shared.graph.provenance.claims import PropertyChange
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.upsert import Element, UpsertResult
from shared.tools import Json, ToolRefusalError
from tests.support.api.access import agent_access
from tests.support.graph.agent_graph import COUNTRY, EVIDENCE_INPUTS, PAGE, AgentGraph
from tests.support.graph.concurrent_writes import resolve_and_reserve, retried
from tests.support.waiting import wait_until

EVIDENCE = [{"sourceUrl": PAGE["url"], "quote": PAGE["content"]}]


@retried
async def _add(agent_graph: AgentGraph, name: str, **options: Any) -> UUID:
    return (await agent_graph.add_node(name, **{"type_name": "Company", **options})).id


async def _list_names(agent_graph: AgentGraph, node_id: UUID) -> list[str]:
    async with agent_graph.database.transaction() as session:
        return await aliases.list_names(session, agent_graph.scope, node_id)


async def _count(agent_graph: AgentGraph, table: type[GraphNode | GraphName | Evidence]) -> int:
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
    question = rf'There is \[node:{first}\] "Taiwan Semiconductor Manufacturing" \(A state\)'
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


async def test_a_similar_name_with_the_same_summary_is_a_question(companies: AgentGraph) -> None:
    """Unless a number in the name, or a figure, is another."""
    said = {"summary": "Volta and Toyota say that Assini Cocoa will grow.", "population": 7}
    known = await _add(companies, "Volta estimate of Assini Cocoa", properties=said)
    with pytest.raises(ToolRefusalError, match=rf"There is \[node:{known}\]"):
        await _add_by_tool(companies, name="Toyota estimate of Assini Cocoa", properties=said)
    for name, properties in (
        ("Toyota estimate of Assini Cocoa 2", said),
        ("Google estimate of Assini Cocoa", {**said, "population": 8}),
        ("Facebook estimate of Assini Cocoa", {"summary": "Assini Cocoa will grow."}),
    ):
        assert (await _add_by_tool(companies, name=name, properties=properties))["created"]


async def test_at_most_three_candidates_are_listed_most_similar_first(
    companies: AgentGraph,
) -> None:
    for end in ("ing", "er", "e", "es", "ery", "i"):
        await _add(companies, f"Halden Batteri{end}")
    name = "Halden Batterien"
    with pytest.raises(ToolRefusalError) as error:
        await _add_by_tool(companies, name=name)
    listed = re.findall(r'\[node:([0-9a-f-]{36})\] "([^"]+)"', str(error.value))
    assert len(listed) == candidates.MAX_CANDIDATES
    similarities = [similarity(shown.lower(), name.lower()) for _, shown in listed]
    assert similarities == sorted(similarities, reverse=True)
    ids = [node_id for node_id, _ in listed]
    assert (await _add_by_tool(companies, name=name, distinctFrom=ids))["created"], "one question"


async def test_concurrent_writers_with_swapped_names_do_not_deadlock(
    companies: AgentGraph,
) -> None:
    """Each writer claims two names, in either order."""

    async def add(number: int) -> UUID:
        pair = ["Alphabet", "Google"][:: 1 if number % 2 else -1]
        return await _add(companies, pair[0], aliases=pair[1:])

    assert len(set(await asyncio.gather(*(add(number) for number in range(16))))) == 1
    assert await _count(companies, GraphName) == 2


async def _add_within(
    agent_graph: AgentGraph, session: Transaction, name: str, **options: Any
) -> UpsertResult:
    return await elements.add_node(
        session,
        agent_graph.scope,
        agent_graph.validators,
        type_name="Company",
        name=name,
        properties=COUNTRY,
        evidence=EVIDENCE_INPUTS,
        **options,
    )


@retried
async def _add_in_transaction(agent_graph: AgentGraph, name: str, **options: Any) -> UpsertResult:
    async with agent_graph.database.transaction() as session:
        return await _add_within(agent_graph, session, name, **options)


async def _count_waiting(agent_graph: AgentGraph) -> int:
    async with agent_graph.database.transaction() as session:
        statement = text(
            "select count(*) from pg_locks join pg_stat_activity using (pid)"
            " where not granted and datname = current_database()"
        )
        return int((await session.execute(statement)).scalar_one())


@asynccontextmanager
async def _add_behind_a_claim(
    agent_graph: AgentGraph, first: str, *, name: str, **options: Any
) -> AsyncIterator[tuple[Transaction, "asyncio.Task[UpsertResult]"]]:
    """Yield a session that claimed `first` without committing, and a task that waits for it to add `name`."""
    async with agent_graph.database.transaction() as session:
        await resolve_and_reserve(
            session, agent_graph.scope, [aliases.NameRequest("Company", first)]
        )
        task = asyncio.create_task(_add_in_transaction(agent_graph, name, **options))
        await wait_until(
            lambda: _count_waiting(agent_graph), what="the second to wait for the first's name"
        )
        yield session, task


async def test_losing_the_only_name_yields_the_other_node(companies: AgentGraph) -> None:
    async with _add_behind_a_claim(companies, "Nvidia", name="NVIDIA Corp.") as (session, task):
        await _add_within(companies, session, "Nvidia")
    result = await task
    assert not result.created
    assert await _list_names(companies, result.id) == ["Nvidia"]
    assert await _count(companies, GraphNode) == 1


async def test_a_rolled_back_claim_frees_the_name_for_a_new_node(companies: AgentGraph) -> None:
    async with _add_behind_a_claim(companies, "Nvidia", name="NVIDIA Corp.") as (session, task):
        await session.rollback()
    result = await task
    assert result.created
    assert await _list_names(companies, result.id) == ["NVIDIA Corp."]
    assert await _count(companies, GraphNode) == 1


async def test_losing_one_of_two_names_keeps_the_other(companies: AgentGraph) -> None:
    """The node is written without its derived alias, which belongs to another node."""
    name = "Nvidia (NASDAQ: NVDA)"
    async with _add_behind_a_claim(companies, "NVDA", name=name) as (session, task):
        await _add_within(companies, session, "NVDA")
    result = await task
    assert result.created
    assert await _list_names(companies, result.id) == [name]
    assert await _count(companies, GraphNode) == await _count(companies, GraphName) == 2
    assert await _count(companies, Evidence) == 2


async def test_a_duplicate_that_appears_meanwhile_is_refused_and_claims_no_name(
    companies: AgentGraph,
) -> None:
    name = "Nvidia (NASDAQ: NVDA)"
    async with _add_behind_a_claim(companies, "NVDA", name=name, duplicate_threshold=0.55) as (
        session,
        task,
    ):
        await _add_within(companies, session, "NVDA")
    with pytest.raises(Exception, match="call again with sameAs"):
        await task
    assert await _count(companies, GraphName) == await _count(companies, GraphNode) == 1


async def test_a_retraction_while_evidence_is_written_is_applied(
    companies: AgentGraph,
) -> None:
    """The running write still sees the page as valid, so the worker that propagates the retraction waits for it."""
    async with _add_behind_a_claim(companies, "Nvidia", name="NVIDIA Corp.") as (session, task):
        async with companies.database.transaction() as other:
            await retractions.retract_source(other, companies.scope, PAGE["url"], "made up")
        work = asyncio.create_task(propagate_retractions(companies.database))
        await wait_until(lambda: _two_wait_or_done(companies, work), what="the worker to wait")
        await session.rollback()
    result = await task
    await work
    async with companies.database.transaction() as session:
        node = await session.get_one(GraphNode, result.id)
        assert node.properties == {}
        assert node.unsupported_since is not None


async def _two_wait_or_done(agent_graph: AgentGraph, work: "asyncio.Task[None]") -> bool:
    return work.done() or await _count_waiting(agent_graph) > 1


WRITERS = 16


@retried
async def _upsert(agent_graph: AgentGraph, name: str, **properties: object) -> tuple[object, bool]:
    result = await agent_graph.add_node(name, properties)
    return result.id, result.created


async def _properties(agent_graph: AgentGraph, name: str) -> dict[str, object]:
    async with agent_graph.database.transaction() as session:
        properties = await session.scalar(
            select(GraphNode.properties).where(GraphNode.name == name)
        )
    assert properties is not None
    return properties


async def test_the_same_name_updates_the_same_node(agent_graph: AgentGraph) -> None:
    first, created = await _upsert(agent_graph, "Ghana", summary="A state.", capital="Accra")
    second, created_again = await _upsert(
        agent_graph, " Ghana\n", summary="A republic.", population=3
    )
    assert (first, created, created_again) == (second, True, False)
    assert await _properties(agent_graph, "Ghana") == {
        "summary": "A republic.",
        "capital": "Accra",
        "population": 3,
    }


async def test_an_update_needs_only_the_new_properties(agent_graph: AgentGraph) -> None:
    await _upsert(agent_graph, "Ghana", summary="A state.")
    await _upsert(agent_graph, "Ghana", population=3)
    assert await _properties(agent_graph, "Ghana") == {"summary": "A state.", "population": 3}


async def test_an_update_changes_updated_at_and_keeps_created_at(agent_graph: AgentGraph) -> None:
    node_id, _ = await _upsert(agent_graph, "Ghana", summary="A state.")
    async with agent_graph.database.transaction() as session:
        before = await session.get_one(GraphNode, node_id)
    await _upsert(agent_graph, "Ghana", population=3)
    async with agent_graph.database.transaction() as session:
        after = await session.get_one(GraphNode, node_id)
    assert after.updated_at > before.updated_at
    assert after.created_at == before.created_at


async def test_a_refused_update_leaves_node_and_transaction_unchanged(
    agent_graph: AgentGraph,
) -> None:
    await _upsert(agent_graph, "Ghana", summary="A state.")
    async with agent_graph.database.transaction() as session:
        with pytest.raises(ToolRefusalError, match=r"population: 'many' is not of type 'integer'"):
            await elements.add_node(
                session,
                agent_graph.scope,
                agent_graph.validators,
                type_name="Country",
                name="Ghana",
                properties={"population": "many"},
                evidence=EVIDENCE_INPUTS,
            )
        await elements.add_node(
            session,
            agent_graph.scope,
            agent_graph.validators,
            type_name="Country",
            name="Togo",
            properties={"summary": "Another."},
            evidence=EVIDENCE_INPUTS,
        )
    assert await _properties(agent_graph, "Ghana") == {"summary": "A state."}
    assert await _properties(agent_graph, "Togo") == {"summary": "Another."}


INVALID_NODES: list[tuple[str, str, dict[str, str], str]] = [
    ("Country", "Ghana", {}, "'summary' is a required property"),
    ("Country", "Ghana", {"summary": "a", "colour": "red"}, "'colour' was unexpected"),
    ("Country", "  ", {"summary": "a"}, "give 1 to 200"),
    ("Country", "x" * 201, {"summary": "a"}, "201 characters"),
    ("Country", "Gh\x00ana", {"summary": "a"}, r"name: contains U\+0000"),
    ("Country", "Ghana", {"summary": "\ud800"}, r"properties.summary: contains U\+D800"),
    ("Country", "Ghana", {"summary": "a" * 20_000}, "bytes, more than the limit of 20000"),
    ("country", "Ghana", {"summary": "a"}, r"no node type 'country'.* mean Country\?"),
    ("AgentAnalysis", "Ghana", {"summary": "a"}, "conclusions and cannot be added here"),
    ("AgentAdvice", "Ghana", {"summary": "a"}, "conclusions and cannot be added here"),
]


async def test_invalid_nodes_are_refused_with_the_reason(
    agent_graph: AgentGraph, subtests: pytest.Subtests
) -> None:
    for type_name, name, properties, reason in INVALID_NODES:
        with subtests.test(reason):
            async with agent_graph.database.transaction() as session:
                with pytest.raises(ToolRefusalError, match=reason):
                    await elements.add_node(
                        session,
                        agent_graph.scope,
                        agent_graph.validators,
                        type_name=type_name,
                        name=name,
                        properties=properties,
                        evidence=EVIDENCE_INPUTS,
                    )
                assert (
                    await graph.count_by_type(agent_access(session, agent_graph.scope))
                ).totals.nodes == 0


async def test_concurrent_writers_store_overlapping_nodes_once(agent_graph: AgentGraph) -> None:
    async def write(writer: int) -> int:
        order = [(writer + index) % 10 for index in range(10)]
        results = [
            await _upsert(agent_graph, f"Country {index}", summary="A state.", population=writer)
            for index in order
        ]
        return sum(created for _, created in results)

    created = await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    assert sum(created) == 10
    async with agent_graph.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(GraphNode)) == 10


async def test_concurrent_updates_of_one_node_lose_nothing(agent_graph: AgentGraph) -> None:
    @retried
    async def write(writer: int) -> None:
        await agent_graph.add_node("Ghana", {"summary": "A state.", **property_of(writer)})

    def property_of(writer: int) -> dict[str, object]:
        return {"population": 7} if writer % 2 else {"capital": "Accra"}

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    assert await _properties(agent_graph, "Ghana") == {
        "summary": "A state.",
        "population": 7,
        "capital": "Accra",
    }


async def test_concurrent_writers_store_each_edge_once(agent_graph: AgentGraph) -> None:
    ends = [await agent_graph.node(name) for name in ("Ghana", "Togo", "Benin")]
    pairs = [(a, b) for a in ends for b in ends if a != b]

    async def write(writer: int) -> None:
        for index in range(len(pairs)):
            await agent_graph.edge(*pairs[(writer + index) % len(pairs)])

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    async with agent_graph.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(GraphEdge)) == len(pairs)


async def test_an_edge_is_updated_with_new_properties(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")

    async def add(**properties: object) -> tuple[object, bool]:
        async with agent_graph.database.transaction() as session:
            result = await elements.add_edge(
                session,
                agent_graph.scope,
                agent_graph.validators,
                type_name="borders",
                source_id=ghana,
                target_id=togo,
                properties=dict(properties),
                evidence=EVIDENCE_INPUTS,
            )
            return result.id, result.created

    first, created = await add(length_km=1)
    second, created_again = await add(length_km=2, since=1914)
    assert (first, created, created_again) == (second, True, False)
    async with agent_graph.database.transaction() as session:
        edge = await session.scalar(select(GraphEdge))
    assert edge is not None
    assert edge.properties == {"length_km": 2, "since": 1914}


async def test_an_edge_joins_two_different_nodes_of_the_right_types(
    agent_graph: AgentGraph,
) -> None:
    await agent_graph.node_type("River")
    ghana, volta = await agent_graph.node("Ghana"), await agent_graph.node("Volta", "River")
    with pytest.raises(ToolRefusalError, match="an edge joins two different nodes"):
        await agent_graph.edge(ghana, ghana)
    with pytest.raises(ToolRefusalError, match="borders edges lead to Country nodes, not River"):
        await agent_graph.edge(ghana, volta)
    with pytest.raises(ToolRefusalError, match="borders edges start from Country nodes, not River"):
        await agent_graph.edge(volta, ghana)
    with pytest.raises(ToolRefusalError, match=r"no edge type 'border'.* mean borders"):
        await agent_graph.edge(ghana, volta, "border")


async def test_ends_that_only_fit_the_other_way_round_are_exchanged(
    agent_graph: AgentGraph,
) -> None:
    await agent_graph.node_type("River")
    await agent_graph.edge_type("feeds", source_types=["River"], target_types=["Country"])
    ghana, volta = await agent_graph.node("Ghana"), await agent_graph.node("Volta", "River")
    edge = await agent_graph.edge(ghana, volta, "feeds")
    async with agent_graph.database.transaction() as session:
        row = await session.get_one(GraphEdge, edge)
        assert (row.source_id, row.target_id) == (volta, ghana)


async def test_edges_to_nodes_of_another_agent_are_refused(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    ghana, foreign_node = await agent_graph.node("Ghana"), await stranger.node("Togo")
    with pytest.raises(ToolRefusalError, match=f"targetId: no such node: {foreign_node}"):
        await agent_graph.edge(ghana, foreign_node)
    with pytest.raises(ToolRefusalError, match=f"sourceId: no such node: {foreign_node}"):
        await agent_graph.edge(foreign_node, ghana)


@pytest.mark.parametrize("kind", [NODES, EDGES])
async def test_updating_a_missing_element_fails(agent_graph: AgentGraph, kind: ElementKind) -> None:
    ends = {"source_id": uuid4(), "target_id": uuid4()}
    identity = {"type": "Country", "name": "Ghana", **ends}
    element = Element(kind, agent_graph.scope, uuid4(), identity)
    async with agent_graph.database.transaction() as session:
        with pytest.raises(RuntimeError, match=f"{element.id} is locked"):
            await element.update(session, PropertyChange({}), [])
