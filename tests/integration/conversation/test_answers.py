"""Answers are streamed and cited, one after another; neither a broken connection nor a failed answer loses any."""

import re
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select, text

from services.assistant.answer import BROKE_OFF
from shared.database.engine import Database
from shared.database.tables import Agent, GraphNode, Interaction
from shared.enums import Phase
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.api.clients import assert_problem
from tests.support.conversation.conversing import (
    LONG_ANSWER,
    PHASE,
    list_conversation_steps,
    scripted_answer,
    tool_call,
)
from tests.support.conversation.talk import AnswerStream, Talk, completed
from tests.support.running_services import running_services
from tests.support.sandbox_control import Sandbox
from tests.support.streams import serving

UUID_PATTERN = r"[0-9a-f]{8}-[0-9a-f]{4}-"


async def test_a_question_is_answered_from_the_graph_with_citations_and_streamed(
    talk: Talk, database: Database
) -> None:
    turn = await talk.says("What of Halden and lithium?")
    question, answer = turn["question"], turn["answer"]
    assert (question["kind"], question["turn"], question["status"]) == ("question", 1, "complete")
    assert (answer["kind"], answer["turn"], answer["content"]) == ("answer", 1, "")
    stream = await talk.follow(answer["id"])
    assert stream.final_message is not None
    assert stream.names[0] == "tool"
    assert {tool_use["tool"] for tool_use in stream.data_of("tool")} == {"queryGraph"}
    assert stream.text == stream.final_message["content"]
    assert "Halden" in stream.text
    citations = stream.final_message["citations"]
    assert citations
    async with database.transaction() as session:
        names = {str(row.id): row.name for row in await session.scalars(select(GraphNode))}
    assert all(
        names[citation["id"]] == citation["name"]
        for citation in citations
        if citation["kind"] == "node"
    )


async def test_the_model_reads_and_writes_short_ids_and_the_owner_gets_citations(
    talk: Talk, database: Database, sandbox_control: Sandbox
) -> None:
    sandbox_control.script(
        scripted_answer(calls=(tool_call("queryGraph", text="Halden"),)),
        scripted_answer(content="Halden buys [n1], [n2, n3], not [n999] nor [this]." * 4),
    )
    answer_id = (await talk.says("And Halden?"))["answer"]["id"]
    stream = await talk.follow(answer_id)
    async with database.transaction() as session:
        rows = await session.execute(text("select number, kind, element_id from element_numbers"))
        cited = {
            number: f"[{'node' if kind == 'n' else 'edge'}:{element_id}]"
            for number, kind, element_id in rows
        }
        requests = list(
            await session.scalars(
                select(Interaction.message).where(Interaction.phase == Phase.CONVERSATION)
            )
        )
    missing = "00000000-0000-0000-0000-000000000999"
    expected = (
        f"Halden buys {cited[1]}, {cited[2]} {cited[3]}, not [node:{missing}] nor [this]." * 4
    )
    assert stream.final_message is not None
    marked = {each["id"]: each["name"] for each in stream.final_message["citations"]}
    assert marked[missing] is None
    assert stream.text == (await talk.message(answer_id))["content"] == expected
    assert "restart" not in stream.names
    assert requests
    assert not any(re.search(UUID_PATTERN, str(request)) for request in requests)


async def test_an_agent_answers_about_its_status_and_its_advice(
    talk: Talk, sandbox_control: Sandbox
) -> None:
    doing = await talk.says("What are you doing right now?")
    assert "You are paused" in (await talk.follow(doing["answer"]["id"])).text
    advised = await talk.says("What did you advise?")
    assert "HOLD Wait for Halden" in (await talk.follow(advised["answer"]["id"])).text
    assert sandbox_control.billed()["llm"] == 2, "the prompt has both"


async def test_a_stream_resumes_where_the_connection_broke(
    talk: Talk, sandbox_control: Sandbox
) -> None:
    sandbox_control.script(scripted_answer(content=LONG_ANSWER))
    sandbox_control.faults({"kind": "stall", "phase": PHASE, "stall_seconds": 1.5})
    answer_id = (await talk.says("Tell me all"))["answer"]["id"]
    stream = await talk.follow(answer_id, characters=1)
    assert stream.final_message is None
    assert stream.text != LONG_ANSWER
    await talk.follow(answer_id, stream)
    assert stream.text == LONG_ANSWER
    assert stream.names.count("complete") == 1
    assert "restart" not in stream.names
    again = await talk.follow(answer_id, AnswerStream(stream.events[:2]))
    assert again.text == LONG_ANSWER


async def test_a_completed_answer_is_streamed_in_one_event(
    talk: Talk, sandbox_control: Sandbox
) -> None:
    sandbox_control.script(scripted_answer(content=LONG_ANSWER))
    answer_id = (await talk.says("Tell me all"))["answer"]["id"]
    await completed(talk, [answer_id])
    stream = await talk.follow(answer_id)
    assert stream.names == ["text", "complete"]
    assert stream.text == LONG_ANSWER


async def test_a_stream_resumes_after_a_restart_of_the_api(
    sandbox_settings: Settings, agent: Agent, sandbox_control: Sandbox, bus: Bus
) -> None:
    sandbox_control.script(scripted_answer(content=LONG_ANSWER))
    sandbox_control.faults({"kind": "stall", "phase": PHASE, "stall_seconds": 1.5})
    async with running_services(sandbox_settings, ["assistant"]):
        async with serving(sandbox_settings) as api:
            answer_id = (await Talk(api, str(agent.id)).says("Tell me all"))["answer"]["id"]
            stream = await Talk(api, str(agent.id)).follow(answer_id, characters=1)
        async with serving(sandbox_settings) as api:
            await Talk(api, str(agent.id)).follow(answer_id, stream)
    assert stream.text == LONG_ANSWER
    assert sandbox_control.repeated() == 0


async def test_text_beside_tool_calls_is_replaced_by_the_answer(
    talk: Talk, sandbox_control: Sandbox
) -> None:
    query = tool_call("queryGraph", text="Halden")
    sandbox_control.script(
        scripted_answer(content="Let me look.", calls=(query,)),
        scripted_answer(content="Halden buys."),
    )
    answer_id = (await talk.says("And Halden?"))["answer"]["id"]
    stream = await talk.follow(answer_id)
    assert stream.text == "Halden buys."
    assert [event["about"] for event in stream.data_of("tool")] == ["Halden"]
    assert (await talk.message(answer_id))["content"] == "Halden buys."


async def test_a_citation_of_a_missing_node_is_marked_as_such(
    talk: Talk, sandbox_control: Sandbox
) -> None:
    missing_id = uuid4()
    sandbox_control.script(scripted_answer(content=f"So it is [node:{missing_id}]."))
    stream = await talk.follow((await talk.says("Is it?"))["answer"]["id"])
    assert stream.final_message is not None
    citation = {"kind": "node", "id": str(missing_id), "type": None, "name": None}
    assert stream.final_message["citations"] == [citation]
    assert str(missing_id) in stream.final_message["content"]


async def test_messages_are_listed_page_by_page_and_include_advice(
    talk: Talk, database: Database
) -> None:
    await talk.follow((await talk.says("What are you doing?"))["answer"]["id"])
    first = (await talk.asked("GET", "/conversation/messages?limit=2")).json()
    assert [message["kind"] for message in first["items"]] == ["answer", "question"]
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
    assert_problem(streamed, 409, "only unfinished answers")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"content": " "}, "characters"),
        ({"content": "x" * 8001}, "8,001"),
        ({"content": "a\x00"}, "NUL"),
        ({}, "missing"),
    ],
)
async def test_an_invalid_message_is_refused(
    sandbox_settings: Settings, agent: Agent, bus: Bus, body: dict[str, Any], words: str
) -> None:
    async with serving(sandbox_settings) as api:
        talk = Talk(api, str(agent.id))
        assert_problem(await talk.asked("POST", "/conversation/messages", json=body), 422, words)


async def test_an_answer_made_in_the_background_is_sent_when_complete(
    sandbox_settings: Settings, agent: Agent, sandbox_control: Sandbox, bus: Bus
) -> None:
    sandbox_control.script(scripted_answer(content=LONG_ANSWER))
    settings = sandbox_settings.model_copy(update={"model_api": "background"})
    async with serving(settings) as api, running_services(settings, ["assistant"]):
        talk = Talk(api, str(agent.id))
        stream = await talk.follow((await talk.says("Tell me all"))["answer"]["id"])
    assert stream.text == LONG_ANSWER
    assert stream.names == ["text", "complete"]


async def test_an_answer_that_reached_its_token_limit_says_so(
    sandbox_settings: Settings, agent: Agent, bus: Bus, sandbox_control: Sandbox
) -> None:
    limits = {Phase.CONVERSATION: 10}
    settings = sandbox_settings.model_copy(update={"max_output_tokens_of_phase": limits})
    sandbox_control.script(scripted_answer(content=LONG_ANSWER))
    async with serving(settings) as api, running_services(settings, ["assistant"]):
        talk = Talk(api, str(agent.id))
        answer_id = (await talk.says("Tell me all."))["answer"]["id"]
        stream = await talk.follow(answer_id)
    assert stream.final_message is not None
    content = stream.final_message["content"]
    assert content.endswith(BROKE_OFF)
    assert LONG_ANSWER.startswith(content.removesuffix(BROKE_OFF)[:20])


async def test_messages_are_answered_one_after_another(
    talk: Talk, sandbox_control: Sandbox, database: Database
) -> None:
    sandbox_control.faults({"kind": "latency", "phase": PHASE, "latency_seconds": 1})
    turns = [await talk.says(f"Question {number}: what are you doing?") for number in (1, 2, 3)]
    assert [turn["answer"]["status"] for turn in turns[1:]] == ["waiting", "waiting"]
    messages = await completed(talk, [turn["answer"]["id"] for turn in turns])
    assert [message["status"] for message in messages] == ["complete"] * 3
    steps = await list_conversation_steps(database)
    ends = [step.ended_at for step in steps]
    starts = [step.started_at for step in steps]
    assert all(end < start for end, start in zip(ends, starts[1:], strict=False) if end and start)
    assert [step.republish_count for step in steps] == [0, 0, 0], (
        "the end of a step requests the next"
    )


async def test_the_number_of_waiting_messages_is_limited(
    sandbox_settings: Settings, agent: Agent, bus: Bus
) -> None:
    async with serving(sandbox_settings) as api:
        talk = Talk(api, str(agent.id))
        for number in range(20):
            await talk.says(f"Question {number}")
        response = await talk.asked("POST", "/conversation/messages", json={"content": "More"})
    assert_problem(response, 409, "20 messages are waiting")


async def test_a_failed_answer_has_its_error_and_can_be_retried(
    sandbox_settings: Settings, talk: Talk, sandbox_control: Sandbox, database: Database
) -> None:
    sandbox_control.faults({"kind": "status", "phase": PHASE, "status": 401})
    failing, waiting = [await talk.says(text) for text in ("What are you doing?", "And your plan?")]
    answer_id = failing["answer"]["id"]
    message = (await talk.follow(answer_id)).final_message
    assert message is not None
    assert (message["status"], "Check OPENAI_API_KEY" in message["error"]) == ("failed", True)
    [next_answer] = await completed(talk, [waiting["answer"]["id"]])
    assert next_answer["status"] == "complete", "a failed answer blocks no later one"
    async with running_services(sandbox_settings, ["scheduler"]):
        response = await talk.asked("POST", f"/conversation/messages/{answer_id}/retry")
        assert (response.status_code, response.json()["status"]) == (202, "pending")
        stream = await talk.follow(answer_id)
    assert stream.names[-1] == "complete"
    second_response = await talk.asked("POST", f"/conversation/messages/{answer_id}/retry")
    assert_problem(second_response, 409, "complete")


async def test_a_failed_answer_without_its_dead_letter_can_be_retried(
    sandbox_settings: Settings, talk: Talk, sandbox_control: Sandbox
) -> None:
    sandbox_control.faults({"kind": "status", "phase": PHASE, "status": 401})
    answer_id = (await talk.says("What are you doing?"))["answer"]["id"]
    await talk.follow(answer_id)
    async with httpx.AsyncClient(
        base_url=f"{talk.url}/api/v1", headers=talk.headers, trust_env=False
    ) as client:
        [dead_letter] = (await client.get("/dead-letters")).json()["items"]
        assert (await client.delete(f"/dead-letters/{dead_letter['id']}")).status_code == 204
    await talk.asked("POST", f"/conversation/messages/{answer_id}/retry")
    impatient = sandbox_settings.model_copy(update={"resend_after_seconds": 0.5})
    async with running_services(impatient, ["scheduler"]):
        assert (await talk.follow(answer_id)).names[-1] == "complete"
