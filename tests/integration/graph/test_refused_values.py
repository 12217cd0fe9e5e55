"""Values that a reading has refused: they do not count, older ones return, and nothing else is touched."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, text

from shared.database.tables import (
    ConclusionProof,
    ConclusionVerdict,
    Evidence,
    GraphNode,
    Source,
)
from shared.enums import Entailment, SentenceKind, SentenceVerdict
from shared.graph.context import recent
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.retraction import doubts
from shared.graph.verification.report import verify_conclusion
from shared.tools import Json
from shared.tools.readings import EXISTS
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.evidence_rows import store_verdict
from tests.support.graph.retraction_graph import RetractionGraph

OLD, NEW, LATER = "https://old.example/1", "https://new.example/2", "https://later.example/3"
REFUSALS: Final = [Entailment.CONTRADICTED, Entailment.NOT_STATED]
RULE: Final[Mapping[str, Any]] = {"decidedOn": "2026-12-08", "rule": "not before 8 December"}


@pytest.fixture
def graph(agent_graph: AgentGraph) -> RetractionGraph:
    return RetractionGraph(agent_graph)


async def read(
    graph: RetractionGraph, element_id: UUID, url: str, verdict: Entailment, *names: str
) -> None:
    """Store a verdict on values that a page gives of an element, and propagate it."""
    async with graph.agent_graph.database.transaction() as session:
        of_page = (Source.url == url, Source.id == Evidence.source_id)
        of_element = (Evidence.node_id == element_id) | (Evidence.edge_id == element_id)
        [evidence_id] = await session.scalars(select(Evidence.id).where(*of_page, of_element))
    await store_verdict(graph.agent_graph, evidence_id, verdict, "It reads otherwise.", *names)
    await graph.propagate_refusals()


async def properties_of(graph: RetractionGraph, node_id: UUID) -> Json:
    """Those of the row, which contexts show too."""
    stored = (await graph.get_node(node_id)).properties
    nodes = recent.nodes_by_ids(graph.agent_graph.scope, [node_id])
    assert (await graph.agent_graph.database.run(nodes))[node_id].properties == stored
    return stored


async def breaks(graph: RetractionGraph, conclusion: UUID) -> list[str]:
    agent_graph = graph.agent_graph
    async with agent_graph.database.snapshot() as session:
        found = await verify_conclusion(session, agent_graph.scope.owner_id, conclusion)
    assert found is not None
    links = [*found.conclusions, *found.elements, *found.evidence, *found.sources]
    return [fault.message for link in links for fault in link.breaks]


@pytest.mark.parametrize("verdict", REFUSALS)
async def test_a_false_value_leaves_the_true_one_of_its_sentence(
    graph: RetractionGraph, verdict: Entailment
) -> None:
    law = await graph.node("The law", {NEW: RULE})
    analysis = await graph.analysis("On the law", f"[node:{law}]")
    await read(graph, law, NEW, Entailment.SUPPORTED, "rule")
    assert await graph.doubted() == set()
    await read(graph, law, NEW, verdict, "decidedOn")
    assert await properties_of(graph, law) == {"rule": RULE["rule"]}
    assert await graph.doubted() == {analysis}
    async with graph.agent_graph.database.transaction() as session:
        [doubt] = (await doubts.list_doubts(session, [analysis]))[analysis]
    assert (doubt.cause, doubt.reason) == (verdict.value, "It reads otherwise.")
    assert await breaks(graph, analysis) == []


async def store_reading(graph: RetractionGraph, conclusion: UUID, stated: str | None) -> None:
    """Store that a model has read the conclusion, and that it states this property of the evidence of NEW."""
    async with graph.agent_graph.database.transaction() as session:
        agent = {"agent_id": graph.agent_graph.scope.agent_id}
        by = {"model": "m", "prompt_version": 4, "call_id": uuid4(), "step_id": uuid4()}
        await session.insert(
            ConclusionVerdict,
            conclusion_id=conclusion,
            number=1,
            sentence="It is so.",
            kind=SentenceKind.STATES,
            verdict=SentenceVerdict.SUPPORTED,
            reason="",
            **agent,
            **by,
        )
        if stated is None:
            return
        of_page = (Source.url == NEW, Source.id == Evidence.source_id)
        [evidence] = await session.scalars(select(Evidence).where(*of_page))
        await session.insert(
            ConclusionProof,
            conclusion_id=conclusion,
            number=9,
            sentence=1,
            stated="so",
            kind="node",
            element_id=evidence.node_id,
            type="Law",
            name="The law",
            property=stated,
            value=evidence.claims[stated],
            source_id=evidence.source_id,
            first_byte=evidence.first_byte,
            end_byte=evidence.end_byte,
            **agent,
        )


async def test_a_conclusion_that_was_read_is_doubted_only_if_it_states_the_refused_value(
    graph: RetractionGraph,
) -> None:
    law = await graph.node("The law", {NEW: RULE})
    wrong, right, other, unread = [
        await graph.analysis(f"On the law {number}", f"[node:{law}]") for number in range(4)
    ]
    on_wrong, on_right = [
        await graph.advice(f"Wait {number}", each) for number, each in enumerate((wrong, right))
    ]
    for conclusion, stated in (
        (wrong, "decidedOn"),
        (right, "rule"),
        (other, None),
        (on_wrong, None),
        (on_right, None),
    ):
        await store_reading(graph, conclusion, stated)
    await read(graph, law, NEW, Entailment.CONTRADICTED, "decidedOn")
    assert await graph.doubted() == {wrong, on_wrong, unread}
    await read(graph, law, NEW, Entailment.NOT_STATED, "rule")
    assert await graph.doubted() == {wrong, on_wrong, unread, right, on_right}


@pytest.mark.parametrize("verdict", REFUSALS)
async def test_an_older_value_returns_and_a_better_quote_restores_the_refused_one(
    graph: RetractionGraph, verdict: Entailment
) -> None:
    town = await graph.node("Town", {OLD: {"mayor": "Ada"}, NEW: {"mayor": "Ben"}})
    analysis = await graph.analysis("On the town", f"[node:{town}]")
    assert await properties_of(graph, town) == {"mayor": "Ben"}
    await read(graph, town, NEW, verdict, "mayor")
    assert await properties_of(graph, town) == {"mayor": "Ada"}
    assert await graph.doubted() == {analysis}
    assert await breaks(graph, analysis) == []
    await graph.says(LATER, {"mayor": "Ben"}, node_id=town, day=5)
    assert await properties_of(graph, town) == {"mayor": "Ben"}
    await graph.resolve_doubts()
    assert await graph.doubted() == set()
    await read(graph, town, LATER, Entailment.SUPPORTED, "mayor")
    assert await properties_of(graph, town) == {"mayor": "Ben"}


async def test_the_last_value_leaves_and_its_node_stays(graph: RetractionGraph) -> None:
    town = await graph.node("Town", {NEW: {"mayor": "Ben"}})
    await read(graph, town, NEW, Entailment.NOT_STATED, "mayor")
    assert await properties_of(graph, town) == {}


async def test_an_edge_that_is_refused_leaves_contexts_and_its_values_do_not_decide_that(
    graph: RetractionGraph,
) -> None:
    one, other = await graph.node("One", {OLD: {}}), await graph.node("Other", {OLD: {}})
    border = await graph.edge(one, other)
    await graph.says(NEW, {"km": 5}, edge_id=border)
    await read(graph, border, NEW, Entailment.CONTRADICTED, "km")
    assert await shown_edges(graph, border) == [{}]
    await read(graph, border, NEW, Entailment.NOT_STATED, EXISTS)
    assert await shown_edges(graph, border) == []
    await graph.says(LATER, {}, edge_id=border)
    assert await shown_edges(graph, border) == [{}]


async def shown_edges(graph: RetractionGraph, edge_id: UUID) -> list[Json]:
    """The properties of the edge, if contexts show it."""
    query = recent.edges_by_ids(graph.agent_graph.scope, [edge_id])
    async with graph.agent_graph.database.transaction() as session:
        return [each.properties for each in await query.execute(session)]


async def test_a_verdict_without_a_property_counts_for_all_values(graph: RetractionGraph) -> None:
    town = await graph.node("Town", {OLD: {"mayor": "Ada"}, NEW: {"mayor": "Ben", "people": 7}})
    await read(graph, town, NEW, Entailment.NOT_STATED)
    assert await properties_of(graph, town) == {"mayor": "Ada"}
    await read(graph, town, NEW, Entailment.SUPPORTED, "people")
    async with graph.agent_graph.database.transaction() as session:
        await session.execute(
            text("update entailment_verdicts set applied_at = null where property is null")
        )
    await graph.propagate_refusals()
    assert await properties_of(graph, town) == {"mayor": "Ada", "people": 7}, (
        "its own verdict decides"
    )


async def test_a_verdict_of_the_release_before_is_applied(graph: RetractionGraph) -> None:
    """It is not due, and its API may have noted that it was applied."""
    town = await graph.node("Town", {OLD: {"mayor": "Ada"}, NEW: {"mayor": "Ben"}})
    async with graph.agent_graph.database.transaction() as session:
        await session.execute(
            text(
                "insert into entailment_verdicts (evidence_id, agent_id, verdict, reason, model, call_id, step_id)"
                " select evidence.id, evidence.agent_id, 'not_stated', 'no', 'm', gen_random_uuid(), gen_random_uuid()"
                " from evidence join sources on sources.id = source_id where url = :url on conflict do nothing"
            ),
            {"url": NEW},
        )
    await graph.propagate_refusals()
    assert await properties_of(graph, town) == {"mayor": "Ada"}


async def test_a_changed_verdict_on_a_value_is_found(graph: RetractionGraph) -> None:
    town = await graph.node("Town", {OLD: {"mayor": "Ada"}, NEW: {"mayor": "Ben"}})
    analysis = await graph.analysis("On the town", f"[node:{town}]")
    await read(graph, town, NEW, Entailment.NOT_STATED, "mayor")
    assert await breaks(graph, analysis) == []
    for change in ("property = 'people'", "verdict = 'supported'"):
        async with graph.agent_graph.database.transaction() as session:
            await session.execute(text("set local application_name = 'psql'"))
            await session.execute(text(f"update entailment_verdicts set {change}"))
        assert any("verdict" in each for each in await breaks(graph, analysis))


SENTENCES: Final = (
    "The population of Ferrytown is 22.",
    "Ferrytown has a population of 22 from 2002 until 2026.",
    "Ferrytown is in the harbour.",
)


async def test_a_validity_and_a_speaker_stay_with_the_sentences_that_state_the_value(
    agent_graph: AgentGraph,
) -> None:
    url = "https://town.example/7"
    page = {"url": url, "title": "Ferrytown, says Ada Roe", "content": " ".join(SENTENCES)}
    await agent_graph.store_search_results({"results": [page]})
    entry = [
        EvidenceInput(
            url,
            sentence,
            valid_from=datetime(2002, 1, 1, tzinfo=UTC),
            valid_to=datetime(2027, 1, 1, tzinfo=UTC),
            place="evidence[0]",
            speaker="Ada Roe",
        )
        for sentence in SENTENCES
    ]
    await agent_graph.add_node(
        "Ferrytown", {"summary": "A town in the harbour.", "population": 22}, entry
    )
    async with agent_graph.database.transaction() as session:
        node = (await session.scalars(select(GraphNode).where(GraphNode.name == "Ferrytown"))).one()
        rows = (await session.scalars(select(Evidence).where(Evidence.node_id == node.id))).all()
        found = {
            sorted(row.claims)[0] if row.claims else "": (row.valid_from, row.speaker)
            for row in rows
        }
    start = datetime(2002, 1, 1, tzinfo=UTC)
    assert found == {
        "": (None, None),
        "population": (start, "Ada Roe"),
        "summary": (start, "Ada Roe"),
    }
