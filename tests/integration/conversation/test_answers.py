"""Answers are streamed and cited; a broken connection loses nothing of them."""

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from shared.database.engine import Database
from shared.database.tables import Agent, GraphNode
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.actors import running
from tests.support.api.asking import assert_problem
from tests.support.conversation.conversing import LONG_ANSWER, PHASE, call, says
from tests.support.conversation.talking import Heard, Talk, completed
from tests.support.levers import Sandbox
from tests.support.streams import serving


async def test_a_question_is_answered_from_the_graph_with_citations_and_streamed(
    talk: Talk, database: Database
) -> None:
    turn = await talk.says("What of Halden and lithium?")
    question, answer = turn["question"], turn["answer"]
    assert (question["kind"], question["turn"], question["status"]) == ("question", 1, "complete")
    assert (answer["kind"], answer["turn"], answer["content"]) == ("answer", 1, "")
    heard = await talk.hears(answer["id"])
    assert heard.ended is not None
    assert heard.names[0] == "tool"
    assert {look["tool"] for look in heard.of("tool")} == {"queryGraph"}
    assert heard.text == heard.ended["content"]
    assert "Halden" in heard.text
    cited = heard.ended["citations"]
    assert cited
    async with database.transaction() as session:
        names = {str(row.id): row.name for row in await session.scalars(select(GraphNode))}
    assert all(names[each["id"]] == each["name"] for each in cited if each["kind"] == "node")


async def test_it_knows_what_it_is_doing_and_what_it_advised(talk: Talk, levers: Sandbox) -> None:
    doing = await talk.says("What are you doing right now?")
    assert "You are paused" in (await talk.hears(doing["answer"]["id"])).text
    advised = await talk.says("What did you advise?")
    assert "HOLD Wait for Halden" in (await talk.hears(advised["answer"]["id"])).text
    assert levers.billed()["llm"] == 2, "both stand in what it is shown"


async def test_an_answer_is_read_on_where_the_connection_broke(talk: Talk, levers: Sandbox) -> None:
    levers.script(says(content=LONG_ANSWER))
    levers.faults({"kind": "stall", "phase": PHASE, "stall_seconds": 1.5})
    answer_id = (await talk.says("Tell me all"))["answer"]["id"]
    heard = await talk.hears(answer_id, characters=1)
    assert heard.ended is None
    assert heard.text != LONG_ANSWER
    await talk.hears(answer_id, heard)
    assert heard.text == LONG_ANSWER
    assert heard.names.count("complete") == 1
    assert "restart" not in heard.names
    again = await talk.hears(answer_id, Heard(heard.told[:2]))
    assert again.text == LONG_ANSWER


async def test_who_comes_after_the_end_gets_all_of_it_at_once(talk: Talk, levers: Sandbox) -> None:
    levers.script(says(content=LONG_ANSWER))
    answer_id = (await talk.says("Tell me all"))["answer"]["id"]
    await completed(talk, [answer_id])
    heard = await talk.hears(answer_id)
    assert heard.names == ["text", "complete"]
    assert heard.text == LONG_ANSWER


async def test_an_api_that_is_started_again_goes_on_where_it_was(
    sandbox_settings: Settings, agent: Agent, levers: Sandbox, bus: Bus
) -> None:
    levers.script(says(content=LONG_ANSWER))
    levers.faults({"kind": "stall", "phase": PHASE, "stall_seconds": 1.5})
    async with running(sandbox_settings, ["assistant"]):
        async with serving(sandbox_settings) as api:
            answer_id = (await Talk(api, str(agent.id)).says("Tell me all"))["answer"]["id"]
            heard = await Talk(api, str(agent.id)).hears(answer_id, characters=1)
        async with serving(sandbox_settings) as api:
            await Talk(api, str(agent.id)).hears(answer_id, heard)
    assert heard.text == LONG_ANSWER
    assert levers.repeated() == 0


async def test_words_beside_calls_of_tools_give_way_to_the_answer(
    talk: Talk, levers: Sandbox
) -> None:
    look = call("queryGraph", text="Halden")
    levers.script(says(content="Let me look.", calls=(look,)), says(content="Halden buys."))
    answer_id = (await talk.says("And Halden?"))["answer"]["id"]
    heard = await talk.hears(answer_id)
    assert heard.text == "Halden buys."
    assert [each["about"] for each in heard.of("tool")] == ["Halden"]
    assert (await talk.message(answer_id))["content"] == "Halden buys."


async def test_what_is_cited_and_does_not_exist_is_told(talk: Talk, levers: Sandbox) -> None:
    nowhere = uuid4()
    levers.script(says(content=f"So it is [node:{nowhere}]."))
    heard = await talk.hears((await talk.says("Is it?"))["answer"]["id"])
    assert heard.ended is not None
    told = {"kind": "node", "id": str(nowhere), "type": None, "name": None}
    assert heard.ended["citations"] == [told]
    assert str(nowhere) in heard.ended["content"]


async def test_the_conversation_is_told_page_by_page_with_advice_in_it(
    talk: Talk, database: Database
) -> None:
    await talk.hears((await talk.says("What are you doing?"))["answer"]["id"])
    first = (await talk.asked("GET", "/conversation/messages?limit=2")).json()
    assert [each["kind"] for each in first["items"]] == ["answer", "question"]
    rest = (
        await talk.asked("GET", f"/conversation/messages?limit=2&cursor={first['next']}")
    ).json()
    [advice] = rest["items"]
    assert (advice["kind"], advice["role"], advice["turn"], rest["next"]) == (
        "advice",
        "agent",
        None,
        None,
    )
    async with database.transaction() as session:
        node = await session.get_one(GraphNode, advice["node_id"])
    assert node.type == "AgentAdvice"
    streamed = await talk.asked("GET", f"/conversation/messages/{advice['id']}/stream")
    assert_problem(streamed, 409, "only answers")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"content": " "}, "characters"),
        ({"content": "x" * 8001}, "8001"),
        ({"content": "a\x00"}, "NUL"),
        ({}, "required"),
    ],
)
async def test_a_bad_message_is_refused(
    sandbox_settings: Settings, agent: Agent, bus: Bus, given: dict[str, Any], words: str
) -> None:
    async with serving(sandbox_settings) as api:
        talk = Talk(api, str(agent.id))
        assert_problem(await talk.asked("POST", "/conversation/messages", json=given), 422, words)


async def test_an_answer_made_in_the_background_comes_when_it_is_whole(
    sandbox_settings: Settings, agent: Agent, levers: Sandbox, bus: Bus
) -> None:
    levers.script(says(content=LONG_ANSWER))
    settings = sandbox_settings.model_copy(update={"model_api": "background"})
    async with serving(settings) as api, running(settings, ["assistant"]):
        talk = Talk(api, str(agent.id))
        heard = await talk.hears((await talk.says("Tell me all"))["answer"]["id"])
    assert heard.text == LONG_ANSWER
    assert heard.names == ["text", "complete"]
