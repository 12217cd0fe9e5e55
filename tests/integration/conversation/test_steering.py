"""The owner's statements are remembered and used, and other texts are not."""

from datetime import date
from functools import partial
from uuid import uuid4

from sqlalchemy import select, update

from shared.agents import memories
from shared.database.engine import Database
from shared.database.tables import Agent, Conversation, Interaction, Memory
from shared.domains import host_of
from shared.enums import MemoryKind, Phase
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.api.clients import assert_problem
from tests.support.conversation.conversing import (
    all_steps_ended,
    scripted_answer,
    tool_call,
    tool_results,
)
from tests.support.conversation.talk import Talk
from tests.support.phase_runs import first_messages
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.streams import serving
from tests.support.waiting import wait_until


async def test_a_wish_is_remembered_once_and_used_in_the_next_plan(
    sandbox_settings: Settings, talk: Talk, database: Database, agent: Agent
) -> None:
    for _ in range(2):
        turn = await talk.says("Please also watch cobalt prices.")
        assert "cobalt" in (await talk.follow(turn["answer"]["id"])).text
    items = (await talk.asked("GET", "/memories")).json()["items"]
    assert [(item["kind"], item["content"]) for item in items] == [("wish", "Watch cobalt prices.")]
    assert items[0]["message_id"] is not None
    async with running_services(sandbox_settings):
        await talk.asked("POST", "/run")
        await ended_iteration(database, agent, 1)
    async with database.transaction() as session:
        statement = select(Interaction).where(Interaction.phase == Phase.OBSERVER)
        [prompt] = await first_messages(session, statement)
    assert "<memories>\n- wish: Watch cobalt prices.\n</memories>" in prompt


async def test_memories_are_added_listed_and_forgotten(talk: Talk, database: Database) -> None:
    body = {"kind": "fact", "content": "  I own   Halden. "}
    added = await talk.asked("POST", "/memories", json=body)
    assert (added.status_code, added.json()["content"]) == (201, "I own Halden.")
    again = await talk.asked("POST", "/memories", json=body)
    assert again.json()["id"] == added.json()["id"]
    path = f"/memories/{added.json()['id']}"
    assert (await talk.asked("DELETE", path)).status_code == 204
    assert (await talk.asked("GET", "/memories")).json()["items"] == []
    [forgotten] = (await talk.asked("GET", "/memories?forgotten=true")).json()["items"]
    assert forgotten["forgotten_at"] is not None
    await talk.asked("POST", "/memories", json=body)
    assert [
        memory["forgotten_at"] for memory in (await talk.asked("GET", "/memories")).json()["items"]
    ] == [None]
    assert_problem(await talk.asked("POST", "/memories", json={"content": " "}), 422, "characters")
    assert_problem(await talk.asked("DELETE", f"/memories/{uuid4()}"), 404, "memory")


async def test_the_number_of_memories_is_limited(
    talk: Talk, database: Database, agent: Agent
) -> None:
    async with database.transaction() as session:
        for number in range(memories.MAX_ACTIVE):
            await memories.remember(session, agent.id, MemoryKind.FACT, f"Fact {number}")
    response = await talk.asked("POST", "/memories", json={"content": "One more"})
    assert_problem(response, 409, "Delete one first")


async def test_only_the_owners_own_words_are_remembered(
    talk: Talk, sandbox_control: Sandbox, database: Database
) -> None:
    """Text of a page or a node is not remembered as a statement of the owner."""
    wish = tool_call("remember", kind="wish", content="Buy Orran", quote="please buy Orran")
    sandbox_control.script(scripted_answer(calls=(wish,)), scripted_answer(content="Noted."))
    await talk.follow((await talk.says("What of Orran?"))["answer"]["id"])
    [result] = await tool_results(database, "remember")
    assert "are not in the owner's message" in result["error"]
    async with database.transaction() as session:
        assert (await session.scalars(select(Memory))).all() == []


async def test_a_conversation_gets_search_excerpts_only(
    talk: Talk, sandbox_control: Sandbox, database: Database
) -> None:
    sandbox_control.script(
        scripted_answer(calls=(tool_call("tavilySearch", query="lithium Orran"),)),
        scripted_answer(content="So."),
    )
    await talk.follow((await talk.says("What is new?"))["answer"]["id"])
    [result] = await tool_results(database, "tavilySearch")
    assert result["results"]
    assert all(
        set(hit) == {"title", "url", "publishedDate", "excerpt"} for hit in result["results"]
    )
    assert all(
        len(hit["excerpt"]) <= 300 and "\n" not in hit["excerpt"] for hit in result["results"]
    )


async def test_a_conversation_finds_no_pages_of_barred_domains(
    talk: Talk, sandbox_control: Sandbox, database: Database
) -> None:
    async def search() -> list[str]:
        sandbox_control.script(
            scripted_answer(calls=(tool_call("tavilySearch", query="lithium Orran"),)),
            scripted_answer(content="So."),
        )
        await talk.follow((await talk.says("What is new?"))["answer"]["id"])
        return [hit["url"] for hit in (await tool_results(database, "tavilySearch"))[-1]["results"]]

    before = await search()
    host = host_of(before[0])
    async with database.transaction() as session:
        await session.execute(update(Agent).values(barred_domains=[host]))
    assert all(host_of(url) != host for url in await search())


async def test_a_conversation_is_held_on_the_archive_date(
    talk: Talk, sandbox_control: Sandbox, database: Database
) -> None:
    async with database.transaction() as session:
        await session.execute(update(Agent).values(archive_date=date(2024, 3, 1)))
    sandbox_control.script(
        scripted_answer(calls=(tool_call("tavilySearch", query="lithium Orran"),)),
        scripted_answer(content="So."),
    )
    await talk.follow((await talk.says("What is new?"))["answer"]["id"])
    async with database.transaction() as session:
        statement = select(Interaction).where(Interaction.phase == Phase.CONVERSATION)
        [prompt] = await first_messages(session, statement)
    assert "Now: 2024-03-01T23:59Z\nYou work as if each day were 2024-03-01:" in prompt
    [result] = await tool_results(database, "tavilySearch")
    assert result["results"] == [], "the corpus is younger"


async def test_a_long_conversation_is_summarized_and_nothing_is_deleted(
    sandbox_settings: Settings, agent: Agent, sandbox_control: Sandbox, database: Database, bus: Bus
) -> None:
    terse = sandbox_settings.model_copy(update={"conversation_tokens": 120})
    questions = [f"What are you doing, for the {number}. time?" for number in range(1, 6)]
    async with serving(terse) as api, running_services(terse, ["assistant"]):
        talk = Talk(api, str(agent.id))
        for question in questions:
            await talk.follow((await talk.says(question))["answer"]["id"])
        await wait_until(partial(all_steps_ended, database), what="the last summary to be written")
        messages = (await talk.asked("GET", "/conversation/messages?limit=200")).json()["items"]
    async with database.transaction() as session:
        conversation = (await session.scalars(select(Conversation))).one()
        prompts = await first_messages(
            session, select(Interaction).order_by(Interaction.created_at)
        )
    assert 0 < conversation.summarized_turns < 5
    assert "The owner said: What are you doing, for the 1. time?" in conversation.summary
    assert [
        message["content"] for message in reversed(messages) if message["kind"] == "question"
    ] == questions
    assert "<conversation_summary>" in prompts[-1]
    assert f"Owner: {questions[0]}" not in prompts[-1]
    assert sandbox_control.repeated() == 0
