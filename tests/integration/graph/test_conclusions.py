"""Analyses and advice: stored only with valid citations and forecast terms, and sent to the owner."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, func, select, update

from services.api.resources.conclusions import model as latest
from services.api.resources.inbox import model as notifications
from shared.database import ids
from shared.database.tables import (
    Agent,
    Conversation,
    GraphNode,
    GraphNodeType,
    InboxItem,
    Message,
    Position,
    Source,
)
from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph import system_types, types
from shared.graph.conclusions import conclusions, queries
from shared.graph.conclusions.commitments import MAX_CONFIDENCE_OF_ONE_ORIGIN
from shared.graph.conclusions.readings import NOT_READ
from shared.graph.provenance.origins import ORIGIN_KEY, read_origin
from shared.graph.scope import GraphScope
from shared.graph.types import get_node_type
from shared.schemas.base import ConclusionResponse, PageRequest
from shared.tools import ToolRefusalError
from tests.support.api.access import agent_access, owner_access
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.page_evidence import said
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.table_rows import add


async def _analysis(agent_graph: AgentGraph, content: str, name: str = "Big") -> UUID:
    return await agent_graph.analysis(content, name, summary="It\ngrows.")


async def _two_analyses(agent_graph: AgentGraph) -> str:
    """Their citations."""
    ghana = await agent_graph.node("Ghana")
    analyses = [await _analysis(agent_graph, f"[node:{ghana}]", name) for name in ("Big", "Bigger")]
    return " ".join(f"[node:{analysis}]" for analysis in analyses)


async def _analyses(session: Transaction, scope: GraphScope) -> list[ConclusionResponse]:
    return (await queries.list_conclusions(session, scope, ANALYSIS_TYPE, PageRequest())).items


async def _count_rows(agent_graph: AgentGraph, table: type) -> int:
    async with agent_graph.database.transaction() as session:
        return await session.scalar(select(func.count()).select_from(table)) or 0


async def test_an_analysis_is_stored_with_its_citations(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    border = await agent_graph.edge(ghana, togo)
    analysis_id = await _analysis(agent_graph, f"It grows [node:{ghana}] there [edge:{border}].")
    async with agent_graph.database.transaction() as session:
        (analysis,) = await _analyses(session, agent_graph.scope)
        node = await session.get_one(GraphNode, analysis_id)
    assert analysis_id == ids.node_id(agent_graph.scope.agent_id, "AgentAnalysis", "Big")
    assert (analysis.id, analysis.word, analysis.summary) == (analysis_id, "pattern", "It grows.")
    assert [citation.id for citation in analysis.citations] == [ghana, border]
    agent_graph.validators.check(
        (await _type_schema(agent_graph, "AgentAnalysis")), node.properties, "AgentAnalysis"
    )


async def _type_schema(agent_graph: AgentGraph, name: str) -> dict[str, object]:
    async with agent_graph.database.transaction() as session:
        node_types = await types.list_node_types(session, agent_graph.scope)
    return next(node_type.properties_schema for node_type in node_types if node_type.name == name)


async def test_an_analysis_without_valid_citations_is_refused_and_not_stored(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    foreign_node = await stranger.node("Togo")
    with pytest.raises(ToolRefusalError, match="content cites nothing"):
        await _analysis(agent_graph, "It grows.")
    with pytest.raises(ToolRefusalError, match=r"do not exist: \[node:"):
        await _analysis(agent_graph, f"It grows [node:{uuid4()}].")
    with pytest.raises(ToolRefusalError, match=rf"do not exist: \[node:{foreign_node}\]"):
        await _analysis(agent_graph, f"It grows [node:{foreign_node}].")
    with pytest.raises(ToolRefusalError, match=r"Not citations: \[node:Ghana\]"):
        await _analysis(agent_graph, "It grows [node:Ghana].")
    async with agent_graph.database.transaction() as session:
        assert await _analyses(session, agent_graph.scope) == []


async def test_a_second_analysis_of_the_same_name_is_refused(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    first = await _analysis(agent_graph, f"[node:{ghana}]")
    with pytest.raises(ToolRefusalError, match=rf"exists: \[node:{first}\]; add only what is new"):
        await _analysis(agent_graph, f"another [node:{ghana}]", name=" Big ")
    async with agent_graph.database.transaction() as session:
        (analysis,) = await _analyses(session, agent_graph.scope)
    assert analysis.content == f"[node:{ghana}]"


@pytest.mark.parametrize(
    ("name", "summary", "address"),
    [
        ("Big", "It grows, see HTTPS://evil.example/buy.", "HTTPS://evil.example/buy"),
        ("Big", "It grows [here](http://evil.example/p).", "http://evil.example/p"),
        ("Big https://evil.example", "It grows.", "an address"),
    ],
)
async def test_an_address_that_no_cited_page_has_is_refused(
    agent_graph: AgentGraph, name: str, summary: str, address: str
) -> None:
    ghana = await agent_graph.node("Ghana")
    cited = f"[node:{ghana}]"
    with pytest.raises(ToolRefusalError, match=re.escape(address)):
        await agent_graph.analysis(f"It grows {cited}.", name, summary=summary)
    with pytest.raises(ToolRefusalError, match="an address is a property"):
        await agent_graph.node("Togo https://evil.example")
    async with agent_graph.database.transaction() as session:
        pages = (await session.scalars(select(Source.url))).all()
    await agent_graph.analysis(f"It grows {cited}, says {pages[0]}.", "Big", summary="It grows.")


async def test_advice_reaches_inbox_and_conversation(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    first = await _analysis(agent_graph, f"[node:{ghana}]")
    second = await _analysis(agent_graph, f"[node:{ghana}]", "Bigger")
    cited = f"[node:{first}] [node:{second}]"
    advice_id = await agent_graph.advice(f"Nothing changed {cited}.")
    async with agent_graph.database.transaction() as session:
        item = await session.get_one(InboxItem, ids.inbox_item_id(advice_id))
        message = await session.get_one(Message, ids.message_id(advice_id))
        conversation = await session.get_one(Conversation, message.conversation_id)
    assert (item.owner_id, item.node_id, item.read_at) == (
        agent_graph.scope.owner_id,
        advice_id,
        None,
    )
    assert (item.title, item.summary) == ("HOLD: Wait", f"{NOT_READ} Wait.")
    assert conversation.agent_id == agent_graph.scope.agent_id
    assert message.role == "agent"
    assert message.content == f"**HOLD: Wait**\n\n{NOT_READ} Wait.\n\nNothing changed {cited}."


async def test_advice_is_added_to_the_existing_conversation(agent_graph: AgentGraph) -> None:
    conversation = Conversation(id=uuid4(), agent_id=agent_graph.scope.agent_id)
    async with agent_graph.database.transaction() as session:
        await add(session, conversation)
    cited = await _two_analyses(agent_graph)
    first = await agent_graph.advice(cited, "Wait")
    await agent_graph.advice(
        cited, "Wait more", replaces=[first], change="It has grown more slowly since."
    )
    async with agent_graph.database.transaction() as session:
        messages = list(await session.scalars(select(Message.conversation_id)))
    assert messages == [conversation.id, conversation.id]


async def test_advice_citing_anything_but_analyses_is_refused_without_notice(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    border = await agent_graph.edge(ghana, togo)
    analysis = await _analysis(agent_graph, f"[node:{ghana}]")
    foreign_analysis = await _analysis(stranger, f"[node:{await stranger.node('Ghana')}]")
    for content, reason in (
        ("Wait.", "content cites nothing"),
        (f"[node:{ghana}]", r"\(Country\)"),
        (f"[node:{analysis}] [edge:{border}]", r"\(an edge\)"),
        (
            f"[node:{analysis}] [node:{foreign_analysis}]",
            rf"do not exist: \[node:{foreign_analysis}\]",
        ),
        (f"[node:{analysis}] [node:x]", "Not citations"),
    ):
        with pytest.raises(ToolRefusalError, match=reason):
            await agent_graph.advice(content)
    assert [
        await _count_rows(agent_graph, table) for table in (InboxItem, Conversation, Message)
    ] == [
        0,
        0,
        0,
    ]


async def test_advice_and_its_inbox_item_are_rolled_back_together(agent_graph: AgentGraph) -> None:
    cited = await _two_analyses(agent_graph)
    async with agent_graph.database.transaction() as session:
        await conclusions.add_advice(
            session,
            agent_graph.scope,
            name="Wait",
            action="HOLD",
            summary="Wait.",
            content=cited,
            **ADVICE_TERMS,
        )
        await session.rollback()
    assert [await _count_rows(agent_graph, table) for table in (InboxItem, Message)] == [0, 0]
    await agent_graph.advice(cited)
    assert [await _count_rows(agent_graph, table) for table in (InboxItem, Message)] == [1, 1]


ATLAS: Final = "atlas.example"
"""The site of the page of `AgentGraph`."""


@pytest.fixture
async def agent_graph_with_advice(agent_graph: AgentGraph) -> AgentGraph:
    await agent_graph.advice_on(await agent_graph.node("Ghana"), horizon="10 days")
    return agent_graph


async def _set_properties(agent_graph: AgentGraph, **properties: object) -> None:
    """Writes the advice as an earlier version did."""
    async with agent_graph.database.transaction() as session:
        await session.execute(delete(Position))
        defaults = {"action": "HOLD", "summary": "Wait.", "content": "Wait.", "generated_at": "x"}
        await session.execute(
            update(GraphNode)
            .where(GraphNode.type == ADVICE_TYPE)
            .values(properties=defaults | properties)
        )


async def _load_responses(agent_graph: AgentGraph) -> tuple[dict[str, object], dict[str, object]]:
    """The responses for the advice and for its inbox item."""
    async with agent_graph.database.transaction() as session:
        (advice,) = (
            await queries.list_conclusions(session, agent_graph.scope, ADVICE_TYPE, PageRequest())
        ).items
        (item,) = (
            await notifications.list_inbox_items(
                owner_access(session, agent_graph.scope.owner_id), PageRequest()
            )
        ).items
    return advice.model_dump(), item.model_dump()


async def test_advice_and_inbox_items_include_forecast_terms(
    agent_graph_with_advice: AgentGraph,
) -> None:
    until = datetime.now(UTC).date() + timedelta(days=10)
    for response in await _load_responses(agent_graph_with_advice):
        assert (response["confidence"], response["expired"]) == (0.5, False)
        assert response["horizon"] in {until, until - timedelta(days=1)}
        assert response["invalidation"] == ADVICE_TERMS["invalidation"]


async def test_advice_past_its_horizon_is_expired(agent_graph_with_advice: AgentGraph) -> None:
    await _set_properties(agent_graph_with_advice, horizon="2020-01-01")
    for response in await _load_responses(agent_graph_with_advice):
        assert response["expired"] is True


async def test_advice_without_valid_forecast_terms_is_still_readable(
    agent_graph_with_advice: AgentGraph,
) -> None:
    for properties in ({}, {"horizon": "some day"}):
        await _set_properties(agent_graph_with_advice, **properties)
        for response in await _load_responses(agent_graph_with_advice):
            assert (response["confidence"], response["horizon"], response["expired"]) == (
                None,
                None,
                False,
            )


async def test_a_past_horizon_is_refused_by_the_database_date(agent_graph: AgentGraph) -> None:
    with pytest.raises(ToolRefusalError, match="2020-01-01 is not in the future"):
        await agent_graph.advice("Wait.", horizon="2020-01-01")


async def test_outdated_system_types_are_updated(agent_graph: AgentGraph) -> None:
    async with agent_graph.database.transaction() as session:
        await session.execute(
            update(GraphNodeType)
            .where(GraphNodeType.name == ADVICE_TYPE)
            .values(properties_schema={"type": "object"})
        )
        await system_types.ensure_system_types(session, agent_graph.scope.agent_id)
        advice_type = await get_node_type(session, agent_graph.scope, ADVICE_TYPE)
    assert "invalidation" in advice_type.properties_schema["properties"]


async def _confidence(agent_graph: AgentGraph, name: str, *cited: UUID) -> float:
    """What is kept of a confidence of 0.9 in an analysis that cites these nodes."""
    content = " ".join(f"[node:{node}]" for node in cited)
    return await _stored(agent_graph, await agent_graph.analysis(content, name, confidence=0.9))


async def _stored(agent_graph: AgentGraph, conclusion_id: UUID) -> float:
    async with agent_graph.database.transaction() as session:
        node = await session.get_one(GraphNode, conclusion_id)
    return float(node.properties["confidence"])


async def test_pages_of_one_site_allow_a_limited_confidence(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    for number in range(5):
        await said(agent_graph, f"https://{number}.{ATLAS}/x", "Ghana and Togo.", node=ghana)
    assert await _confidence(agent_graph, "One", ghana) == MAX_CONFIDENCE_OF_ONE_ORIGIN
    assert await _confidence(agent_graph, "Other", ghana, togo) == MAX_CONFIDENCE_OF_ONE_ORIGIN
    await said(agent_graph, "https://press.example/x", "Togo is small.", node=togo)
    assert await _confidence(agent_graph, "Both", ghana, togo) == 0.9
    assert await _confidence(agent_graph, "One again", ghana) == MAX_CONFIDENCE_OF_ONE_ORIGIN
    retraction_graph = RetractionGraph(agent_graph)
    await retraction_graph.retract("https://press.example/x")
    assert await _confidence(agent_graph, "Both again", ghana, togo) == MAX_CONFIDENCE_OF_ONE_ORIGIN


async def test_a_text_on_several_sites_allows_a_limited_confidence(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    text = "Ghana sold the ferry line between Yeji and Makango to a company of the north on Monday, its minister says."
    await said(agent_graph, "https://press.example/x", text, node=ghana)
    await said(agent_graph, "https://wire.example/x", f"{text} More on this follows.", node=ghana)
    async with agent_graph.database.transaction() as session:
        for page in await session.scalars(select(Source)):
            origin = {ORIGIN_KEY: read_origin(page.text)}
            await session.execute(update(Source).values(reading=origin).where(Source.id == page.id))
        await session.execute(update(Agent).values(barred_domains=[ATLAS]))
    assert await _confidence(agent_graph, "Two sites", ghana) == MAX_CONFIDENCE_OF_ONE_ORIGIN
    await said(agent_graph, "https://other.example/x", "The ferry of Ghana is sold.", node=ghana)
    assert await _confidence(agent_graph, "Two origins", ghana) == 0.9


async def test_pages_of_barred_domains_do_not_count_as_origins(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    await said(agent_graph, "https://press.example/x", "Ghana.", node=ghana)
    await said(agent_graph, "https://blog.wire.example/x", "Ghana.", node=ghana)

    async def bar(*domains: str) -> None:
        async with agent_graph.database.transaction() as session:
            await session.execute(update(Agent).values(barred_domains=list(domains)))

    for number, (barred, confidence) in enumerate(
        (
            ((), 0.9),
            (("press.example",), 0.9),
            (("ads.press.example", "blog.wire.example"), 0.9),
            (("press.example", "blog.wire.example"), MAX_CONFIDENCE_OF_ONE_ORIGIN),
            (("press.example", "wire.example", ATLAS), MAX_CONFIDENCE_OF_ONE_ORIGIN),
        )
    ):
        await bar(*barred)
        assert await _confidence(agent_graph, f"Number {number}", ghana) == confidence


async def test_advice_rests_on_the_origins_of_its_analyses(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")

    async def advise(name: str, **options: Any) -> UUID:
        analyses = [
            await agent_graph.analysis(f"It is so [node:{node}].", f"{name} {which}")
            for node, which in ((ghana, "here"), (togo, "there"))
        ]
        content = " ".join(f"[node:{analysis}]" for analysis in analyses)
        return await agent_graph.advice(content, name, confidence=0.8, **options)

    first = await advise("Wait")
    assert await _stored(agent_graph, first) == MAX_CONFIDENCE_OF_ONE_ORIGIN
    await said(agent_graph, "https://press.example/x", "Togo is small.", node=togo)
    change = {"replaces": [first], "change": "A second site says so since."}
    assert await _stored(agent_graph, await advise("Wait on", **change)) == 0.8


async def _growth(agent_graph: AgentGraph, name: str, node: UUID) -> UUID:
    return await agent_graph.analysis(f"It grows [node:{node}].", name, summary=f"{name} grows.")


async def test_advice_and_analyses_are_listed_newest_first(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    first, second = (
        await _growth(agent_graph, "First", ghana),
        await _growth(agent_graph, "Second", ghana),
    )
    advice = await agent_graph.advice(f"As [node:{first}] and [node:{second}] say.")
    third = await _growth(agent_graph, "Third", ghana)
    async with agent_graph.database.transaction() as session:
        newest = await latest.newest_conclusions(agent_access(session, agent_graph.scope), 3)
    assert [conclusion.id for conclusion in newest] == [third, advice, second]
    assert [conclusion.word for conclusion in newest] == ["pattern", "HOLD", "pattern"]
    assert (newest[0].name, newest[0].summary) == ("Third", "Third grows.")
    assert newest[0].doubted_since is None


async def test_the_latest_conclusions_are_shown_without_their_citations(
    agent_graph: AgentGraph,
) -> None:
    ghana = await agent_graph.node("Ghana")
    text = f"It grows [node:{ghana}]."
    await agent_graph.analysis(text, "Growth", summary=text)
    async with agent_graph.database.transaction() as session:
        newest = await latest.newest_conclusions(agent_access(session, agent_graph.scope), 3)
    assert [each.summary for each in newest] == ["It grows."]


async def test_an_agent_without_conclusions_has_an_empty_list(agent_graph: AgentGraph) -> None:
    async with agent_graph.database.transaction() as session:
        assert await latest.newest_conclusions(agent_access(session, agent_graph.scope), 3) == []
