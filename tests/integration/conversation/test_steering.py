"""What the owner tells is kept and heeded; what others say is not, and nothing of it is anothers'."""

from functools import partial
from uuid import uuid4

from sqlalchemy import select, update

from shared.agents import memories
from shared.database.engine import Database
from shared.database.tables import Agent, Conversation, Interaction, Memory, Message
from shared.enums import MemoryKind, Phase
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.actors import ended_iteration, running
from tests.support.api.asking import assert_problem
from tests.support.conversation.conversing import all_ended, call, says, tool_results
from tests.support.conversation.talking import Talk
from tests.support.levers import Sandbox
from tests.support.making import make_agent, make_owner
from tests.support.streams import serving
from tests.support.waiting import until


async def test_a_wish_is_remembered_once_and_seen_by_the_next_plan(
    sandbox_settings: Settings, talk: Talk, database: Database, agent: Agent
) -> None:
    for _ in range(2):
        turn = await talk.says("Please also watch cobalt prices.")
        assert "cobalt" in (await talk.hears(turn["answer"]["id"])).text
    found = (await talk.asked("GET", "/memories")).json()["items"]
    assert [(each["kind"], each["content"]) for each in found] == [("wish", "Watch cobalt prices.")]
    assert found[0]["message_id"] is not None
    async with running(sandbox_settings):
        await talk.asked("POST", "/run")
        await ended_iteration(database, agent, 1)
    async with database.transaction() as session:
        wanted = select(Interaction).where(Interaction.phase == Phase.OBSERVER)
        [plan] = await session.scalars(wanted)
    told = plan.request["messages"][0]["content"]
    assert "<memories>\n- wish: Watch cobalt prices.\n</memories>" in told


async def test_memories_are_told_listed_and_forgotten(talk: Talk, database: Database) -> None:
    given = {"kind": "fact", "content": "  I own   Halden. "}
    told = await talk.asked("POST", "/memories", json=given)
    assert (told.status_code, told.json()["content"]) == (201, "I own Halden.")
    again = await talk.asked("POST", "/memories", json=given)
    assert again.json()["id"] == told.json()["id"]
    path = f"/memories/{told.json()['id']}"
    assert (await talk.asked("DELETE", path)).status_code == 204
    assert (await talk.asked("GET", "/memories")).json()["items"] == []
    [gone] = (await talk.asked("GET", "/memories?forgotten=true")).json()["items"]
    assert gone["forgotten_at"] is not None
    await talk.asked("POST", "/memories", json=given)
    assert [
        each["forgotten_at"] for each in (await talk.asked("GET", "/memories")).json()["items"]
    ] == [None]
    assert_problem(await talk.asked("POST", "/memories", json={"content": " "}), 422, "characters")
    assert_problem(await talk.asked("DELETE", f"/memories/{uuid4()}"), 404, "memory")


async def test_no_more_is_remembered_than_can_be_heeded(
    talk: Talk, database: Database, agent: Agent
) -> None:
    async with database.transaction() as session:
        for number in range(memories.MAX_ACTIVE):
            await memories.remember(session, agent.id, MemoryKind.FACT, f"Fact {number}")
    refused = await talk.asked("POST", "/memories", json={"content": "One more"})
    assert_problem(refused, 409, "forget one")


async def test_only_the_owners_own_words_are_remembered(
    talk: Talk, levers: Sandbox, database: Database
) -> None:
    """What a page or a node says cannot make the agent believe that its owner said it."""
    wish = call("remember", kind="wish", content="Buy Orran", quote="please buy Orran")
    levers.script(says(calls=(wish,)), says(content="Noted."))
    await talk.hears((await talk.says("What of Orran?"))["answer"]["id"])
    [refused] = await tool_results(database, "remember")
    assert "do not stand in the owner's message" in refused["error"]
    async with database.transaction() as session:
        assert (await session.scalars(select(Memory))).all() == []


async def test_no_page_reaches_the_conversation(
    talk: Talk, levers: Sandbox, database: Database
) -> None:
    levers.script(says(calls=(call("tavilySearch", query="lithium Orran"),)), says(content="So."))
    await talk.hears((await talk.says("What is new?"))["answer"]["id"])
    [found] = await tool_results(database, "tavilySearch")
    assert found["results"]
    assert all(set(hit) == {"title", "url", "publishedDate", "excerpt"} for hit in found["results"])
    assert all(
        len(hit["excerpt"]) <= 300 and "\n" not in hit["excerpt"] for hit in found["results"]
    )


async def test_a_long_conversation_is_summarized_and_nothing_is_deleted(
    sandbox_settings: Settings, agent: Agent, levers: Sandbox, database: Database, bus: Bus
) -> None:
    terse = sandbox_settings.model_copy(update={"conversation_tokens": 120})
    questions = [f"What are you doing, for the {number}. time?" for number in range(1, 6)]
    async with serving(terse) as api, running(terse, ["assistant"]):
        talk = Talk(api, str(agent.id))
        for question in questions:
            await talk.hears((await talk.says(question))["answer"]["id"])
        await until(partial(all_ended, database), what="the last summary to be written")
        listed = (await talk.asked("GET", "/conversation/messages?limit=200")).json()["items"]
    async with database.transaction() as session:
        conversation = (await session.scalars(select(Conversation))).one()
        shown = [
            each.request["messages"][0]["content"]
            for each in await session.scalars(select(Interaction).order_by(Interaction.created_at))
        ]
    assert 0 < conversation.summarized_turns < 5
    assert "The owner said: What are you doing, for the 1. time?" in conversation.summary
    assert [each["content"] for each in reversed(listed) if each["kind"] == "question"] == questions
    assert "<conversation_summary>" in shown[-1]
    assert f"Owner: {questions[0]}" not in shown[-1]
    assert levers.repeated() == 0


async def test_nothing_of_it_is_anothers(
    sandbox_settings: Settings, talk: Talk, database: Database, agent: Agent
) -> None:
    answer_id = (await talk.says("Remember that I own Halden."))["answer"]["id"]
    await talk.hears(answer_id)
    [memory] = (await talk.asked("GET", "/memories")).json()["items"]
    async with serving(sandbox_settings, user="somebody else") as api:
        stranger = Talk(api, str(agent.id))
        own = await stranger_agent(database)
        for method, path in (
            ("GET", "/conversation/messages"),
            ("POST", "/conversation/messages"),
            ("GET", f"/conversation/messages/{answer_id}"),
            ("GET", f"/conversation/messages/{answer_id}/stream"),
            ("POST", f"/conversation/messages/{answer_id}/retry"),
            ("GET", "/memories"),
            ("POST", "/memories"),
            ("DELETE", f"/memories/{memory['id']}"),
        ):
            body = {"json": {"content": "Hello"}} if method == "POST" else {}
            assert_problem(await stranger.asked(method, path, **body), 404)
            if "/messages/" in path or "/memories/" in path:
                assert_problem(await Talk(api, str(own.id)).asked(method, path, **body), 404)
    async with database.transaction() as session:
        assert await session.scalar(select(Memory.forgotten_at)) is None
        said = (await session.scalars(select(Message).where(Message.turn.is_not(None)))).all()
    assert len(said) == 2


async def stranger_agent(database: Database) -> Agent:
    """An agent of the other owner's, through which it might try."""
    agent = await make_agent(database, name="Strange", active=False)
    owner_id = await make_owner(database, "somebody else")
    async with database.transaction() as session:
        await session.execute(update(Agent).where(Agent.id == agent.id).values(owner_id=owner_id))
    return agent
