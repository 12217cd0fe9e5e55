"""Facts follow from their quotes: refused at the write, and found by verification when put in by other means."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from shared.database import ids
from shared.database.tables import Evidence, GraphName, GraphNode, Source
from shared.enums import Entailment
from shared.graph import tools, types
from shared.graph.grounding.values import RULES
from shared.graph.provenance import integrity
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.page_reading import Span
from shared.graph.upsert import UpsertResult
from shared.tools import Json, ToolRefusalError
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.evidence_rows import store_verdict
from tests.support.graph.shown_pages import shown_pages
from tests.support.graph.tooling import call, find_tool
from tests.support.graph.verification import check_all

URL = "https://press.example/atlantis"
TEXT = """\
Weather on the islands

More rain is expected in Atlantis. Its 1,200 people voted on 3 May 2024.

Lemuria

The port handled 4.5 million tonnes.
"""
RAIN = "More rain is expected in Atlantis."
PEOPLE = "Its 1,200 people voted on 3 May 2024."
PORT = "The port handled 4.5 million tonnes."


@pytest.fixture
async def islands(agent_graph: AgentGraph) -> AgentGraph:
    page: Json = {"url": URL, "title": "Weather", "content": TEXT}
    await agent_graph.store_search_results({"results": [page]})
    return agent_graph


async def add(
    graph: AgentGraph,
    name: str,
    properties: Json,
    *quotes: str | EvidenceInput,
    aliases: Sequence[str] = (),
) -> UpsertResult:
    evidence = [
        quote if isinstance(quote, EvidenceInput) else EvidenceInput(URL, quote) for quote in quotes
    ]
    return await graph.add_node(name, {"summary": "rain", **properties}, evidence, aliases=aliases)


async def claims_of(graph: AgentGraph, element: UpsertResult) -> dict[str, Any]:
    """What each quote supports."""
    async with graph.database.transaction() as session:
        rows = await session.execute(
            select(Evidence.first_byte, Evidence.end_byte, Evidence.claims, Evidence.rules).where(
                Evidence.node_id == element.id
            )
        )
        found = rows.all()
    assert {rules for *_, rules in found} == {RULES}
    return {Span(first, end).extract(TEXT).decode(): claims for first, end, claims, _ in found}


async def test_a_number_that_no_quote_has_is_left_out(islands: AgentGraph) -> None:
    added = await add(islands, "Atlantis", {"population": 999_000_000}, RAIN)
    reason = "999000000 is not in the cited sentences"
    assert added.tool_answer == {"created": True, "leftOut": {"population": reason}}
    async with islands.database.transaction() as session:
        assert (await session.scalars(select(GraphNode.properties))).all() == [{"summary": "rain"}]


async def test_nothing_is_written_if_nothing_is_left(islands: AgentGraph) -> None:
    with pytest.raises(ToolRefusalError) as refusal:
        await islands.add_node("Atlantis", {"population": 999_000_000}, [EvidenceInput(URL, RAIN)])
    assert str(refusal.value).startswith(
        "properties.population: 999000000 is not in the cited sentences\nNothing of this is left"
    )
    async with islands.database.transaction() as session:
        assert (await session.scalars(select(GraphNode.id))).all() == []


async def test_a_missing_property_is_refused_with_the_reason_why_it_was_left_out(
    islands: AgentGraph,
) -> None:
    properties = {"summary": "It has 999 people.", "population": 1200}
    with pytest.raises(ToolRefusalError) as refusal:
        await islands.add_node("Atlantis", properties, [EvidenceInput(URL, f"{RAIN} {PEOPLE}")])
    assert str(refusal.value).startswith("properties.summary is required: ")
    assert "999" in str(refusal.value)


async def test_a_required_text_may_be_of_other_sentences_of_the_page(islands: AgentGraph) -> None:
    properties = {"summary": "Its people, of whom it has 1,200, have more rain.", "population": 7}
    added = await islands.add_node("Atlantis", properties, [EvidenceInput(URL, RAIN)])
    assert [*added.left_out] == ["population"]


async def test_a_date_is_completed(islands: AgentGraph) -> None:
    schema = {"type": "object", "properties": {"date": {"type": "string"}}}
    async with islands.database.transaction() as session:
        await types.create_node_type(
            session,
            islands.scope,
            islands.validators,
            name="Vote",
            description="A vote of a people",
            properties_schema=schema,
            example_properties={"date": "2024-05-03"},
            created_by="test",
        )
    added = await islands.add_node(
        "Vote of Atlantis", {"date": "3 May"}, [EvidenceInput(URL, PEOPLE)], "Vote"
    )
    assert added.tool_answer == {"created": True, "completed": {"date": "2024-05-03"}}
    assert await claims_of(islands, added) == {PEOPLE: {"date": "2024-05-03"}}
    counts, faults = await check_all(islands.database, islands.scope)
    # The sentence has the date, and does not name the vote.
    assert (counts.claims_completed, counts.claims_stated, faults) == (0, 1, [])

    dated: Json = {
        "url": "https://press.example/vote",
        "title": "Vote",
        "content": "The Vote of Lemuria was on 4 May.",
        "published_date": "2024-05-06",
    }
    await islands.store_search_results({"results": [dated]})
    quote = [EvidenceInput(dated["url"], dated["content"])]
    added = await islands.add_node("Vote of Lemuria", {"date": "4 May"}, quote, "Vote")
    assert added.completed == {"date": "2024-05-04"}
    counts, faults = await check_all(islands.database, islands.scope)
    assert (counts.claims_completed, counts.claims_stated, faults) == (1, 1, [])
    assert "1 value completed by code from the page" in counts.in_words


async def test_the_publisher_of_a_page_is_filled_in(islands: AgentGraph) -> None:
    """From the one node with the site of the page; two of them may be meant otherwise."""
    imprint = "Rain Gazette, published in Atlantis, is at www.press.example."
    page: Json = {"url": "https://imprint.example/", "title": "Imprint", "content": imprint}
    await islands.store_search_results({"results": [page]})
    names = ("summary", "outlet", "publisher", "side", "site", "country")
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    async with islands.database.transaction() as session:
        for type_name in ("Claim", "Paper"):
            await types.create_node_type(
                session,
                islands.scope,
                islands.validators,
                name=type_name,
                description="Said or printed",
                properties_schema=schema,
                example_properties={"summary": "It rains."},
                created_by="test",
            )
    said = {"summary": "more rain"}
    quote = [EvidenceInput(URL, RAIN)]
    added = await islands.add_node("Rain in Atlantis", said, quote, "Claim")
    assert added.completed == {}

    site = {"site": "www.press.example"}
    quoted = [EvidenceInput("https://imprint.example/", imprint)]
    paper = await islands.add_node("Rain Gazette", site, quoted, "Paper")
    assert paper.left_out == {}
    added = await islands.add_node("Rain of Atlantis", said, quote, "Claim")
    # Nothing says its country. What has a proper name has a publisher of its own.
    assert added.completed == {"outlet": "Rain Gazette", "publisher": "Rain Gazette"}
    assert await claims_of(islands, added) == {RAIN: {**said, **added.completed}}
    added = await islands.add_node("Atlantis", said, quote, "Paper")
    assert added.completed == {}
    counts, faults = await check_all(islands.database, islands.scope)
    assert (counts.claims_completed, faults) == (2, [])

    await islands.add_node("Atlantis Press", site, quoted, "Paper")
    added = await islands.add_node("Rain on Atlantis", said, quote, "Claim")
    assert added.completed == {}


async def test_a_time_of_validity_that_no_page_says_is_left_out(islands: AgentGraph) -> None:
    invented = EvidenceInput(URL, RAIN, valid_from=datetime(1999, 1, 1, tzinfo=UTC))
    added = await add(islands, "Atlantis", {}, invented)
    [(place, reason)] = added.left_out.items()
    assert place == "evidence[0].period"
    assert reason.startswith("validFrom: the cited sentences do not have 1999")
    said = EvidenceInput(URL, PEOPLE, ("population",), datetime(2024, 5, 3, tzinfo=UTC))
    added = await add(islands, "Atlantis", {"population": 1200}, said, RAIN)
    _, faults = await check_all(islands.database, islands.scope)
    assert faults == []
    async with islands.database.transaction() as session:
        await session.execute(
            update(Evidence)
            .where(Evidence.node_id == added.id, Evidence.valid_from.is_not(None))
            .values(valid_to=datetime(2031, 1, 1, tzinfo=UTC))
        )
    _, faults = await check_all(islands.database, islands.scope)
    messages = " ".join(fault.message for fault in faults)
    assert "its validTo: the cited sentences do not have 2030" in messages


async def test_a_node_that_the_sentences_do_not_mean_is_refused(islands: AgentGraph) -> None:
    with pytest.raises(ToolRefusalError, match="no cited sentence names 'Lemuria'"):
        await add(islands, "Lemuria", {"population": 1200}, RAIN)


async def test_a_new_alias_names_the_node_only_if_it_is_another_spelling(
    islands: AgentGraph,
) -> None:
    with pytest.raises(ToolRefusalError, match="no cited sentence names 'Eldorado'"):
        await add(islands, "Eldorado", {}, RAIN, aliases=["Atlantis"])
    assert (await add(islands, "Atlantiss", {}, RAIN, aliases=["Atlantis"])).created
    added = await add(islands, "Atlantis", {}, RAIN, aliases=["Ghana"])
    assert added.left_out == {"alias Ghana": "it is not in the cited sentences"}
    async with islands.database.transaction() as session:
        names = await session.scalars(select(GraphName.name).where(GraphName.node_id == added.id))
    assert "Ghana" not in names


async def test_a_heading_or_another_quote_of_the_page_names_the_node(islands: AgentGraph) -> None:
    await add(islands, "Lemuria", {}, PORT)
    added = await add(islands, "Atlantis", {"population": 1200}, RAIN, PEOPLE)
    assert await claims_of(islands, added) == {
        RAIN: {"summary": "rain"},
        PEOPLE: {"population": 1200},
    }


async def test_the_heading_of_a_quote_far_down_a_long_page_is_whole(
    agent_graph: AgentGraph,
) -> None:
    filler = "Nothing is said here of any place at all.\n" * 1000
    page: Json = {"url": URL, "title": "Ports", "content": f"{filler}\nLemuria\n\n{PORT}\n"}
    await agent_graph.store_search_results({"results": [page]})
    assert (await add(agent_graph, "Lemuria", {}, PORT)).created


async def test_the_schema_of_a_type_says_that_names_are_labels(islands: AgentGraph) -> None:
    """For nodes, and for the ends of edges."""
    async with islands.database.transaction() as session:
        await types.create_node_type(
            session,
            islands.scope,
            islands.validators,
            name="Saying",
            description="What people say",
            properties_schema={"type": "object", "x-names": "label"},
            example_properties={},
            created_by="test",
        )
    atlantis = await add(islands, "Atlantis", {}, RAIN)
    saying = await islands.add_node("It will be wet", {}, [EvidenceInput(URL, RAIN)], "Saying")
    await islands.edge_type("is_about")
    evidence = [EvidenceInput(URL, RAIN)]
    edge = await islands.add_edge(saying.id, atlantis.id, {}, evidence, "is_about")
    assert saying.created
    assert edge.created


async def test_a_property_stays_with_the_quote_that_bears_it_out(islands: AgentGraph) -> None:
    everything = EvidenceInput(URL, RAIN, ("population", "summary"))
    added = await add(
        islands,
        "Atlantis",
        {"population": 1200},
        everything,
        EvidenceInput(URL, PEOPLE, ("population",)),
    )
    assert await claims_of(islands, added) == {
        RAIN: {"summary": "rain"},
        PEOPLE: {"population": 1200},
    }


async def test_both_ends_of_an_edge_must_be_named(islands: AgentGraph) -> None:
    atlantis = await add(islands, "Atlantis", {}, RAIN)
    lemuria = await add(islands, "Lemuria", {}, PORT)
    await islands.edge_type("borders")
    with pytest.raises(ToolRefusalError, match="no cited sentence names 'Lemuria'"):
        await islands.add_edge(atlantis.id, lemuria.id, {}, [EvidenceInput(URL, RAIN)])


async def test_verification_says_how_much_follows_by_rules(islands: AgentGraph) -> None:
    await add(islands, "Atlantis", {"population": 1200}, RAIN, PEOPLE)
    await add(islands, "Lemuria", {"summary": "port handled 4.5 million tonnes"}, PORT)
    counts, faults = await check_all(islands.database, islands.scope)
    assert faults == []
    claims = (counts.claims_supported, counts.claims_unverified, counts.claims_unchecked)
    assert claims == (1, 2, 0)
    # The sentences have both values, and do not name the islands.
    assert (counts.claims_read, counts.claims_stated) == (0, 2)
    assert "Not checked: 2 values found in a sentence only, 3 claims not read" in counts.in_words
    async with islands.database.transaction() as session:
        quotes = list(await session.scalars(select(Evidence.id)))
    for evidence_id in quotes:
        await store_verdict(islands, evidence_id, Entailment.SUPPORTED, "It says so.")
    counts, _ = await check_all(islands.database, islands.scope)
    assert (counts.claims_read, counts.claims_stated) == (2, 0)
    assert "1 figure or name matches, 2 values and relations read: supported" in counts.in_words


async def test_a_claim_that_is_put_in_by_sql_is_found(islands: AgentGraph) -> None:
    """With a correct id and correct seals, so that the bytes prove it."""
    added = await add(islands, "Atlantis", {}, RAIN)
    agent_id, claims = islands.scope.agent_id, {"population": 999_000_000}
    async with islands.database.transaction() as session:
        [(source_id, row)] = (
            await session.execute(select(Source.id, Evidence).join_from(Source, Evidence))
        ).all()
        columns: dict[str, Any] = {
            "agent_id": agent_id,
            "source_id": source_id,
            "first_byte": row.first_byte,
            "end_byte": row.end_byte,
            "quote_sha256": row.quote_sha256,
            "claims": claims,
            "valid_from": None,
            "valid_to": None,
            "as_of": row.as_of,
            "learned_at": row.learned_at,
            "rules": RULES,
        }
        content = integrity.canonical_json([claims, None, None])
        evidence_id = ids.evidence_id(added.id, source_id, row.first_byte, row.end_byte, content)
        seal = integrity.evidence_seal(evidence_id=evidence_id, element_id=added.id, **columns)
        await session.insert(Evidence, id=evidence_id, node_id=added.id, seal=seal, **columns)
        properties = {"summary": "rain", **claims}
        await session.execute(
            update(GraphNode).values(
                properties=properties,
                seal=integrity.node_seal(
                    node_id=added.id,
                    agent_id=agent_id,
                    type_name="Country",
                    name="Atlantis",
                    properties=properties,
                    evidence=[row.id, evidence_id],
                ),
            )
        )
    _, faults = await check_all(islands.database, islands.scope)
    assert [(fault.id, fault.broken, fault.message) for fault in faults] == [
        (evidence_id, "grounding", "its population: 999000000 is not in the cited sentences")
    ]


async def test_evidence_cites_sentences_by_number(islands: AgentGraph) -> None:
    pages = shown_pages({"url": URL, "content": TEXT})
    add_node = find_tool(
        tools.graph_construction(islands.scope, islands.validators, pages=pages), "addGraphNode"
    )
    arguments: Json = {
        "type": "Country",
        "name": "Atlantis",
        "properties": {"summary": "rain", "population": 1200},
    }
    answer = await call(islands, add_node, **arguments, evidence=[{"page": 1, "sentences": [2, 3]}])
    assert answer["created"]
    async with islands.database.transaction() as session:
        rows = await session.execute(
            select(Evidence.first_byte, Evidence.end_byte, Evidence.claims)
        )
        found = {Span(first, end).extract(TEXT).decode(): claims for first, end, claims in rows}
    assert found == {RAIN: {"summary": "rain"}, PEOPLE: {"population": 1200}}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"page": 2, "sentences": [1]}, r"evidence\[0\].page: there is no page 2; they are 1 to 1"),
        ({"page": 1, "sentences": [9]}, r"sentences: page 1 has no sentence 9; they are 1 to 5"),
        ({"page": 1}, r"evidence\[0\]: give the page and the numbers of its sentences"),
        ({"page": 1, "sentences": [5]}, "no cited sentence names 'Atlantis'"),
    ],
)
async def test_a_sentence_that_does_not_exist_is_refused(
    islands: AgentGraph, entry: Json, reason: str
) -> None:
    pages = shown_pages({"url": URL, "content": TEXT})
    add_node = find_tool(
        tools.graph_construction(islands.scope, islands.validators, pages=pages), "addGraphNode"
    )
    with pytest.raises(ToolRefusalError, match=reason):
        await call(
            islands,
            add_node,
            type="Country",
            name="Atlantis",
            properties={"summary": "rain"},
            evidence=[entry],
        )
