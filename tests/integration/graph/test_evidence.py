"""Writes need a quote as evidence, and refusals say how to correct the call."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError
from sqlalchemy import func, select, update

from shared.database.tables import Agent, Evidence, GraphEdge, GraphNode, Source
from shared.errors import TransientError
from shared.graph import tools
from shared.graph.provenance import evidence as evidence_module
from shared.graph.provenance import integrity
from shared.graph.provenance.evidence import EvidenceInput, VerifiedQuote
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.scope import GraphScope
from shared.graph.upsert import UpsertResult
from shared.tools import INTERPRETATIONS_KEY, Json, ToolRefusalError
from tests.support.case_files import read_cases
from tests.support.graph.agent_graph import COUNTRY, EVIDENCE_INPUTS, AgentGraph
from tests.support.graph.tooling import EVIDENCE, call, find_tool

CASES = read_cases(__file__)


URL = "https://press.example/ghana"
TEXT = (
    "Ghana – “Gold Coast” – has 33 million people.\n"
    "Its capital is Accra; the cedi is its money.\n\n"
    "Its border with Togo is 1,098 km long.\n"
    "Cocoa output fell to 530,000 tonnes in 2024."
)
CAPITAL = "Its capital is Accra"
PEOPLE = 'Ghana - "Gold Coast" - has 33 million people.'
BORDER = "Its border with Togo is 1,098 km long."


@pytest.fixture
async def ghana(agent_graph: AgentGraph) -> AgentGraph:
    """An agent whose graph has a stored page about Ghana."""
    await agent_graph.store_search_results(
        {
            "results": [
                {
                    "url": URL,
                    "title": "Ghana, and Togo",
                    "content": TEXT,
                    "published_date": "2024-05-01",
                }
            ]
        }
    )
    return agent_graph


async def add(
    agent_graph: AgentGraph, *evidence: EvidenceInput, scope: GraphScope | None = None, **more: Any
) -> UpsertResult:
    graph = replace(agent_graph, scope=scope or agent_graph.scope)
    return await graph.add_node("Ghana", {**COUNTRY, **more}, evidence)


async def load_evidence(agent_graph: AgentGraph, element: UpsertResult) -> list[Evidence]:
    async with agent_graph.database.transaction() as session:
        rows = await session.scalars(
            select(Evidence)
            .where(func.coalesce(Evidence.node_id, Evidence.edge_id) == element.id)
            .order_by(Evidence.first_byte, Evidence.as_of)
        )
        return list(rows)


async def count_rows(agent_graph: AgentGraph) -> tuple[int, int, int]:
    async with agent_graph.database.transaction() as session:
        counts = [
            await session.scalar(select(func.count()).select_from(table))
            for table in (GraphNode, GraphEdge, Evidence)
        ]
    return counts[0] or 0, counts[1] or 0, counts[2] or 0


async def test_a_quote_is_stored_as_its_byte_span(ghana: AgentGraph) -> None:
    result = await add(
        ghana,
        EvidenceInput(URL, PEOPLE, ("summary", "population")),
        EvidenceInput(URL, f"  {CAPITAL}; the\ncedi", ("capital",)),
        population=33_000_000,
        capital="Accra",
    )
    people, capital = await load_evidence(ghana, result)
    page = TEXT.encode()
    assert page[people.first_byte : people.end_byte].decode() == TEXT.splitlines()[0]
    assert page[capital.first_byte : capital.end_byte] == b"Its capital is Accra; the cedi"
    assert people.claims == {**COUNTRY, "population": 33_000_000}
    assert capital.claims == {"capital": "Accra"}
    assert capital.quote_sha256 == integrity.sha256("Its capital is Accra; the cedi")
    assert {people.as_of, capital.as_of} == {datetime(2024, 5, 1, tzinfo=UTC)}


async def bar(graph: AgentGraph, *domains: str) -> None:
    async with graph.database.transaction() as session:
        await session.execute(update(Agent).values(barred_domains=list(domains)))


async def test_a_page_of_a_barred_domain_is_refused_as_evidence(ghana: AgentGraph) -> None:
    """Also if it was read before the domain was barred. What rests on it already stays."""
    kept = await add(ghana, EvidenceInput(URL, PEOPLE), population=33_000_000)
    before = await count_rows(ghana)
    await bar(ghana, "example.org", "press.example")
    for url in (URL, f"{URL}/#top", URL.replace("press", "PRESS")):
        with pytest.raises(
            ToolRefusalError,
            match=r"from press\.example, which the agent.s owner has barred.* another site",
        ):
            await add(ghana, EvidenceInput(url, CAPITAL), capital="Accra")
    with pytest.raises(ToolRefusalError, match="no page was read at") as refusal:
        await add(ghana, EvidenceInput("https://press.example/other", CAPITAL))
    assert URL not in str(refusal.value)
    assert await count_rows(ghana) == before
    assert len(await load_evidence(ghana, kept)) == 1
    await bar(ghana, "example.org")
    await add(ghana, EvidenceInput(URL, CAPITAL), capital="Accra")
    assert len(await load_evidence(ghana, kept)) == 2


async def test_written_rows_are_sealed(ghana: AgentGraph) -> None:
    result = await add(
        ghana,
        EvidenceInput(URL, PEOPLE),
        EvidenceInput(URL, CAPITAL, ("capital",)),
        capital="Accra",
    )
    rows = await load_evidence(ghana, result)
    async with ghana.database.transaction() as session:
        node = await session.get_one(GraphNode, result.id)
        source = (await session.scalars(select(Source).where(Source.url == URL))).one()
    assert node.seal == integrity.node_seal(
        node_id=node.id,
        agent_id=node.agent_id,
        type_name="Country",
        name="Ghana",
        properties=node.properties,
        evidence=[row.id for row in rows],
    )
    for row in rows:
        assert row.source_id == source.id
        assert row.seal == integrity.evidence_seal(
            evidence_id=row.id,
            element_id=node.id,
            **{
                column: getattr(row, column)
                for column in (
                    *("agent_id", "source_id", "first_byte", "end_byte", "quote_sha256"),
                    *("claims", "valid_from", "valid_to", "as_of", "learned_at", "rules"),
                )
            },
        )


async def test_evidence_without_property_names_covers_the_remaining_properties(
    ghana: AgentGraph,
) -> None:
    result = await add(
        ghana,
        EvidenceInput(URL, CAPITAL, ("capital",)),
        EvidenceInput(URL, PEOPLE),
        EvidenceInput(URL, "Cocoa output fell", ()),
        capital="Accra",
        population=33_000_000,
    )
    people, capital, cocoa = await load_evidence(ghana, result)
    assert people.claims == {**COUNTRY, "population": 33_000_000}
    assert (capital.claims, cocoa.claims) == ({"capital": "Accra"}, {})


async def test_properties_that_no_entry_names_are_checked_with_all_entries(
    ghana: AgentGraph,
) -> None:
    result = await add(ghana, EvidenceInput(URL, CAPITAL, ("capital",)), capital="Accra", area=5)
    assert [*result.left_out] == ["area"]
    [capital] = await load_evidence(ghana, result)
    assert capital.claims == {**COUNTRY, "capital": "Accra"}


async def test_evidence_for_a_property_that_has_no_value_is_noted(agent_graph: AgentGraph) -> None:
    noted = await _add(agent_graph, [EVIDENCE[0], {**EVIDENCE[0], "properties": ["area"]}])
    assert noted[INTERPRETATIONS_KEY] == ["evidence: area is not in properties."]


INVALID_EVIDENCE: list[tuple[list[EvidenceInput], str]] = [
    ([], "evidence: 0 entries; give 1 to 10"),
    ([EvidenceInput(URL, PEOPLE)] * 11, "evidence: 11 entries"),
    ([EvidenceInput(URL, "cocoa")], r"evidence\[0\].quote: 5 characters; quote 8 to 1000"),
    ([EvidenceInput(URL, "x" * 1_001)], "1001 characters"),
    ([EvidenceInput(URL, " " * 20)], "0 characters"),
    ([EvidenceInput(URL, "a\x00bcdefgh")], r"evidence\[0\]\[1\]: contains U\+0000"),
    (
        [EvidenceInput(URL, PEOPLE), EvidenceInput(URL, "Cocoa output rose")],
        r"evidence\[1\].quote: it is not in",
    ),
    (
        [EvidenceInput(URL, "its capital is accra")],
        "The nearest sentence is: 'Its capital is Accra; the cedi",
    ),
    (
        [EvidenceInput(URL, "Cocoa output fell to 350,000 tonnes in 2024.")],
        "fell to 530,000 tonnes",
    ),
    (
        [EvidenceInput(URL, "Zebras zigzag, quizzically")],
        "Nothing there is similar. Quote a sentence",
    ),
    (
        [EvidenceInput("https://press.example/togo", PEOPLE)],
        f"no page was read at .*\n{URL}\nhttps://atlas",
    ),
    (
        [
            EvidenceInput(
                URL,
                PEOPLE,
                valid_from=datetime(2024, 1, 1, tzinfo=UTC),
                valid_to=datetime(2023, 1, 1, tzinfo=UTC),
            )
        ],
        "validTo is not after validFrom",
    ),
]


async def test_writes_without_valid_evidence_are_refused_and_store_nothing(
    ghana: AgentGraph, subtests: pytest.Subtests
) -> None:
    for evidence, reason in INVALID_EVIDENCE:
        with subtests.test(reason):
            with pytest.raises(ToolRefusalError, match=reason):
                await add(ghana, *evidence, capital="Accra")
            assert await count_rows(ghana) == (0, 0, 0)


async def test_evidence_from_a_retracted_page_is_refused(ghana: AgentGraph) -> None:
    async with ghana.database.transaction() as session:
        await session.execute(
            update(Source)
            .where(Source.url == URL)
            .values(retracted_at=func.clock_timestamp(), retraction_reason="It was made up")
        )
    with pytest.raises(ToolRefusalError, match="this page is retracted: It was made up"):
        await add(ghana, EvidenceInput(URL, PEOPLE))
    assert await count_rows(ghana) == (0, 0, 0)


@pytest.mark.parametrize("is_repeated", [False, True], ids=["new", "repeated"])
async def test_a_retraction_while_a_page_is_quoted_is_detected(
    ghana: AgentGraph, monkeypatch: pytest.MonkeyPatch, is_repeated: bool
) -> None:
    if is_repeated:
        await add(ghana, EvidenceInput(URL, PEOPLE))
    counts = await count_rows(ghana)
    verify_quotes = evidence_module.verify_quotes

    async def verify_and_retract(*args: Any) -> list[VerifiedQuote]:
        quotes = await verify_quotes(*args)
        async with ghana.database.transaction() as session:
            await retractions.retract_source(session, ghana.scope, URL, "It was made up")
        await propagate_retractions(ghana.database)
        return quotes

    monkeypatch.setattr(evidence_module, "verify_quotes", verify_and_retract)
    with pytest.raises(TransientError, match="was retracted while it was being quoted"):
        await add(ghana, EvidenceInput(URL, PEOPLE))
    monkeypatch.undo()
    assert await count_rows(ghana) == counts
    with pytest.raises(ToolRefusalError, match="this page is retracted: It was made up"):
        await add(ghana, EvidenceInput(URL, PEOPLE))


async def test_a_quote_may_come_from_any_version_of_a_page(ghana: AgentGraph) -> None:
    await ghana.store_search_results(
        {"results": [{"url": URL, "content": "The page has moved elsewhere."}]}
    )
    result = await add(
        ghana, EvidenceInput(URL, PEOPLE), EvidenceInput(URL, "The page has moved", ())
    )
    assert len({row.source_id for row in await load_evidence(ghana, result)}) == 2


async def test_evidence_from_pages_of_other_agents_is_refused(
    ghana: AgentGraph, stranger: AgentGraph
) -> None:
    await stranger.node_type("River")
    with pytest.raises(ToolRefusalError, match="no page was read at"):
        await add(stranger, EvidenceInput(URL, PEOPLE))
    assert await count_rows(ghana) == (0, 0, 0)


async def test_repeated_evidence_is_stored_once(ghana: AgentGraph) -> None:
    first = await add(ghana, EvidenceInput(URL, PEOPLE))
    rows = [(row.id, row.learned_at) for row in await load_evidence(ghana, first)]
    second = await add(
        ghana, EvidenceInput(URL, PEOPLE), EvidenceInput(f"{URL}/#people", f" {PEOPLE} ")
    )
    assert (second.id, second.created, second.tool_answer) == (first.id, False, {"created": False})
    assert [(row.id, row.learned_at) for row in await load_evidence(ghana, first)] == rows


async def test_a_schema_violation_is_refused_with_its_evidence(ghana: AgentGraph) -> None:
    await add(ghana, EvidenceInput(URL, PEOPLE))
    before = await count_rows(ghana)
    with pytest.raises(ToolRefusalError, match="'many' is not of type 'integer'"):
        await add(ghana, EvidenceInput(URL, CAPITAL), population="many")
    assert await count_rows(ghana) == before


async def connect(
    agent_graph: AgentGraph, *ends: Any, evidence: Any = EVIDENCE_INPUTS, **properties: Any
) -> UpsertResult:
    return await agent_graph.add_edge(ends[0], ends[1], properties, evidence)


async def test_an_edge_needs_evidence_too(ghana: AgentGraph) -> None:
    ends = [await ghana.node(name) for name in ("Ghana", "Togo")]
    with pytest.raises(ToolRefusalError, match="evidence: 0 entries"):
        await connect(ghana, *ends, evidence=())
    bare = await connect(ghana, *ends, evidence=[EvidenceInput(URL, CAPITAL, ())], length_km=1098)
    assert [*bare.left_out] == ["length_km"]
    more = await connect(ghana, *ends, evidence=[EvidenceInput(URL, BORDER)], length_km=1098)
    capital, border = await load_evidence(ghana, bare)
    assert (bare.id, capital.claims, border.claims) == (more.id, {}, {"length_km": 1098})
    async with ghana.database.transaction() as session:
        edge = await session.get_one(GraphEdge, bare.id)
    assert edge.properties == {"length_km": 1098}
    assert edge.seal == integrity.edge_seal(
        edge_id=edge.id,
        agent_id=edge.agent_id,
        type_name="borders",
        source_id=ends[0],
        target_id=ends[1],
        properties=edge.properties,
        evidence=[capital.id, border.id],
    )


async def _add(agent_graph: AgentGraph, evidence: list[dict[str, Any]], **properties: Any) -> Json:
    add = find_tool(
        tools.graph_construction(agent_graph.scope, agent_graph.validators), "addGraphNode"
    )
    return await call(
        agent_graph,
        add,
        type="Country",
        name="Ghana",
        properties=COUNTRY | properties,
        evidence=evidence,
    )


async def test_evidence_has_a_validity_and_answers_report_superseded_values(
    agent_graph: AgentGraph,
) -> None:
    of_2022 = [{**EVIDENCE[0], "validFrom": "2022", "validTo": "2022"}]
    of_2023 = [{**EVIDENCE[0], "validFrom": "2023-05-01T12:00:00+02:00", "validTo": None}]
    await _add(agent_graph, of_2022, population=31)
    newer = await _add(agent_graph, of_2023, population=33)
    assert newer["superseded"] == {"population": {"held": 31, "asOf": "2022-01-01T00:00:00Z"}}
    older = await _add(agent_graph, of_2022, population=30)
    assert older["kept"] == {"population": {"held": 33, "asOf": "2023-05-01T10:00:00Z"}}
    async with agent_graph.database.transaction() as session:
        ends = set(await session.scalars(select(Evidence.valid_to)))
    assert ends == {None, datetime(2023, 1, 1, tzinfo=UTC)}


async def test_invalid_evidence_is_refused(
    agent_graph: AgentGraph, subtests: pytest.Subtests
) -> None:
    for entry, reason in CASES["invalid_evidence_is_refused"]:
        with subtests.test(str(entry)), pytest.raises(ToolRefusalError, match=reason):
            await _add(agent_graph, [EVIDENCE[0] | entry])


async def test_a_wrapped_value_is_unwrapped(agent_graph: AgentGraph) -> None:
    wrapped = {"validFrom": "2023-01-01", "value": 31}
    result = await _add(agent_graph, EVIDENCE, population=wrapped)
    assert result[INTERPRETATIONS_KEY] == ["properties.population: its inner value was taken."]
    async with agent_graph.database.transaction() as session:
        [properties] = await session.scalars(select(GraphNode.properties))
    assert properties["population"] == 31


async def test_an_invalid_property_is_left_out_and_reported(agent_graph: AgentGraph) -> None:
    naming = [EVIDENCE[0], {**EVIDENCE[0], "properties": ["population"]}]
    result = await _add(agent_graph, naming, population="many")
    [note] = result[INTERPRETATIONS_KEY]
    assert "population: 'many' is not of type" in note
    assert "left out" in note
    async with agent_graph.database.transaction() as session:
        [properties] = await session.scalars(select(GraphNode.properties))
        claims = await session.scalars(select(Evidence.claims))
    assert "population" not in properties
    assert all("population" not in claim for claim in claims)


async def test_a_node_without_any_valid_property_is_refused(agent_graph: AgentGraph) -> None:
    add = find_tool(
        tools.graph_construction(agent_graph.scope, agent_graph.validators), "addGraphNode"
    )
    with pytest.raises(ToolRefusalError, match="population: 'many' is not of type"):
        await call(
            agent_graph,
            add,
            type="Country",
            name="Ghana",
            properties={"population": "many"},
            evidence=EVIDENCE,
        )
    async with agent_graph.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(GraphNode)) == 0


async def test_arguments_without_evidence_are_invalid(agent_graph: AgentGraph) -> None:
    for name in ("addGraphNode", "addGraphEdge"):
        tool = find_tool(tools.graph_construction(agent_graph.scope), name)
        for evidence in (None, [], EVIDENCE * 11):
            with pytest.raises(ValidationError, match="evidence"):
                tool.arguments.model_validate({"type": "x", "name": "x", "evidence": evidence})


async def test_an_analyzer_links_only_analyses(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    await agent_graph.edge_type("resembles")
    analyzer = tools.analysis_generation(agent_graph.scope)
    link = find_tool(analyzer, "addGraphEdge")
    arguments = {"type": "borders", "sourceId": str(ghana), "targetId": str(togo)}
    with pytest.raises(ToolRefusalError, match="Neither end is an AgentAnalysis"):
        await call(agent_graph, link, **arguments)
    with pytest.raises(ValidationError, match="evidence"):
        link.arguments.model_validate({**arguments, "evidence": EVIDENCE})
    analysis = await call(
        agent_graph,
        find_tool(analyzer, "addAgentAnalysisNode"),
        name="Growth",
        type="observation",
        summary="It grows.",
        content=f"It grows [node:{ghana}].",
        confidence=0.5,
    )
    for properties in ({"share": 1}, {"why": "both grow"}):
        answer = await call(
            agent_graph,
            link,
            type="resembles",
            sourceId=str(ghana),
            targetId=analysis["nodeId"],
            properties=properties,
        )
    assert answer["created"] is False
    async with agent_graph.database.transaction() as session:
        edge = await session.get_one(GraphEdge, UUID(answer["edgeId"]))
        node = await session.get_one(GraphNode, UUID(analysis["nodeId"]))
        assert await session.scalar(select(func.count()).where(Evidence.edge_id == edge.id)) == 0
    assert edge.properties == {}, "no page would support them"
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
        rules=node.rules,
    )


async def test_graph_construction_cannot_add_edges_to_conclusions(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    analysis = await agent_graph.analysis(f"It grows [node:{ghana}].", "Growth")
    connect = find_tool(tools.graph_construction(agent_graph.scope), "addGraphEdge")
    with pytest.raises(ToolRefusalError, match="An end is an AgentAnalysis"):
        await call(
            agent_graph,
            connect,
            type="about",
            sourceId=str(analysis),
            targetId=str(ghana),
            evidence=EVIDENCE,
        )
