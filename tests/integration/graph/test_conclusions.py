"""Analyses and advice: written where they stand on what they cite, and told to the owner (promise G9)."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.queries import graph
from shared.database import ids
from shared.database.tables import Conversation, GraphNode, InboxItem, Message
from shared.enums import ANALYSIS_TYPE
from shared.graph.conclusions import conclusions, queries
from shared.graph.scope import GraphScope
from shared.schemas.base import ConclusionView, Wanted
from shared.tools import ToolRefusalError
from tests.support.committing import COMMITTED
from tests.support.graph.world import World


async def _analysis(world: World, content: str, name: str = "Big") -> UUID:
    async with world.database.transaction() as session:
        return await conclusions.add_analysis(
            session,
            world.scope,
            name=name,
            kind="pattern",
            summary="It\ngrows.",
            content=content,
            confidence=0.5,
        )


async def _advice(world: World, content: str, name: str = "Wait") -> UUID:
    async with world.database.transaction() as session:
        return await conclusions.add_advice(
            session,
            world.scope,
            name=name,
            action="HOLD",
            summary="Wait.",
            content=content,
            **COMMITTED,
        )


async def _analyses(session: AsyncSession, scope: GraphScope) -> list[ConclusionView]:
    return (await queries.list_conclusions(session, scope, ANALYSIS_TYPE, Wanted())).items


async def _rows(world: World, table: type) -> int:
    async with world.database.transaction() as session:
        return await session.scalar(select(func.count()).select_from(table)) or 0


async def test_an_analysis_is_written_with_what_it_cites(world: World) -> None:
    ghana, togo = await world.node("Ghana"), await world.node("Togo")
    border = await world.edge(ghana, togo)
    written = await _analysis(world, f"It grows [node:{ghana}] there [edge:{border}].")
    async with world.database.transaction() as session:
        (analysis,) = await _analyses(session, world.scope)
        node = await session.get_one(GraphNode, written)
    assert written == ids.node_id(world.scope.agent_id, "AgentAnalysis", "Big")
    assert (analysis.id, analysis.word, analysis.summary) == (written, "pattern", "It grows.")
    assert [each.id for each in analysis.citations] == [ghana, border]
    world.validators.check(
        (await _type_schema(world, "AgentAnalysis")), node.properties, "AgentAnalysis"
    )


async def _type_schema(world: World, name: str) -> dict[str, object]:
    async with world.database.transaction() as session:
        listed = (await graph.types(session, world.scope)).nodes
    return next(each.properties_schema for each in listed if each.name == name)


async def test_an_analysis_without_ground_is_refused_and_not_written(
    world: World, stranger: World
) -> None:
    theirs = await stranger.node("Togo")
    with pytest.raises(ToolRefusalError, match="content cites nothing"):
        await _analysis(world, "It grows.")
    with pytest.raises(ToolRefusalError, match=r"do not exist: \[node:"):
        await _analysis(world, f"It grows [node:{uuid4()}].")
    with pytest.raises(ToolRefusalError, match=rf"do not exist: \[node:{theirs}\]"):
        await _analysis(world, f"It grows [node:{theirs}].")
    with pytest.raises(ToolRefusalError, match=r"Not citations: \[node:Ghana\]"):
        await _analysis(world, "It grows [node:Ghana].")
    async with world.database.transaction() as session:
        assert await _analyses(session, world.scope) == []


async def test_a_name_is_given_once(world: World) -> None:
    ghana = await world.node("Ghana")
    first = await _analysis(world, f"[node:{ghana}]")
    with pytest.raises(ToolRefusalError, match=rf"exists: \[node:{first}\]; add only what is new"):
        await _analysis(world, f"another [node:{ghana}]", name=" Big ")
    async with world.database.transaction() as session:
        (analysis,) = await _analyses(session, world.scope)
    assert analysis.content == f"[node:{ghana}]"


async def test_advice_reaches_inbox_and_conversation(world: World) -> None:
    ghana = await world.node("Ghana")
    analysis = await _analysis(world, f"[node:{ghana}]")
    written = await _advice(world, f"Nothing changed [node:{analysis}].")
    async with world.database.transaction() as session:
        item = await session.get_one(InboxItem, ids.inbox_item_id(written))
        message = await session.get_one(Message, ids.message_id(written))
        conversation = await session.get_one(Conversation, message.conversation_id)
    assert (item.owner_id, item.node_id, item.read_at) == (world.scope.owner_id, written, None)
    assert (item.title, item.summary) == ("HOLD: Wait", "Wait.")
    assert conversation.agent_id == world.scope.agent_id
    assert message.role == "agent"
    assert message.content == f"**HOLD: Wait**\n\nWait.\n\nNothing changed [node:{analysis}]."


async def test_advice_goes_on_in_the_conversation_that_there_is(world: World) -> None:
    conversation = Conversation(id=uuid4(), agent_id=world.scope.agent_id)
    async with world.database.transaction() as session:
        session.add(conversation)
    analysis = await _analysis(world, f"[node:{await world.node('Ghana')}]")
    for name in ("Wait", "Wait more"):
        await _advice(world, f"[node:{analysis}]", name)
    async with world.database.transaction() as session:
        messages = list(await session.scalars(select(Message.conversation_id)))
    assert messages == [conversation.id, conversation.id]


async def test_advice_that_stands_on_anything_but_analyses_is_refused_and_nobody_is_told(
    world: World, stranger: World
) -> None:
    ghana, togo = await world.node("Ghana"), await world.node("Togo")
    border = await world.edge(ghana, togo)
    analysis = await _analysis(world, f"[node:{ghana}]")
    theirs = await _analysis(stranger, f"[node:{await stranger.node('Ghana')}]")
    for content, reason in (
        ("Wait.", "content cites nothing"),
        (f"[node:{ghana}]", r"\(Country\)"),
        (f"[node:{analysis}] [edge:{border}]", r"\(an edge\)"),
        (f"[node:{analysis}] [node:{theirs}]", rf"do not exist: \[node:{theirs}\]"),
        (f"[node:{analysis}] [node:x]", "Not citations"),
    ):
        with pytest.raises(ToolRefusalError, match=reason):
            await _advice(world, content)
    assert [await _rows(world, table) for table in (InboxItem, Conversation, Message)] == [0, 0, 0]


async def test_advice_and_its_inbox_item_are_undone_together(world: World) -> None:
    analysis = await _analysis(world, f"[node:{await world.node('Ghana')}]")
    async with world.database.transaction() as session:
        await conclusions.add_advice(
            session,
            world.scope,
            name="Wait",
            action="HOLD",
            summary="Wait.",
            content=f"[node:{analysis}]",
            **COMMITTED,
        )
        await session.rollback()
    assert [await _rows(world, table) for table in (InboxItem, Message)] == [0, 0]
    await _advice(world, f"[node:{analysis}]")
    assert [await _rows(world, table) for table in (InboxItem, Message)] == [1, 1]
