"""Answers in a conversation, chats, and steering by them."""

import asyncio
import json
import os
import re
import signal
from datetime import date
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select, text, update

from services.assistant.answer import BROKE_OFF
from shared.agents import memories
from shared.database.engine import Database
from shared.database.tables import Agent, Conversation, GraphNode, Interaction, Memory
from shared.domains import host_of
from shared.enums import MemoryKind, Phase
from shared.graph.provenance.sources import store_pages
from shared.graph.retraction.retractions import retract_source
from shared.graph.scope import GraphScope
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.api.clients import assert_problem
from tests.support.conversation.conversing import (
    LONG_ANSWER,
    PHASE,
    all_steps_ended,
    list_conversation_steps,
    scripted_answer,
    tool_call,
    tool_results,
)
from tests.support.conversation.talk import AnswerStream, Talk, completed
from tests.support.phase_runs import first_messages
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.streams import serving
from tests.support.waiting import wait_until
from tests.support.warm_processes import WarmProcess, start_python

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


async def start_cli(talk: Talk, *arguments: str) -> WarmProcess:
    return await start_python(
        "-m",
        "cli",
        *arguments,
        env={**os.environ, "VIGIL_URL": talk.url, "VIGIL_TOKEN": talk.api.token, "NO_COLOR": "1"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def run_cli(
    talk: Talk, *arguments: str, stdin: str = "", exit_code: int = 0
) -> tuple[str, str]:
    """Runs the command; returns its stdout and stderr."""
    process = await start_cli(talk, *arguments)
    stdout, stderr = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
    assert process.returncode == exit_code, stderr.decode()
    return stdout.decode(), stderr.decode()


async def test_chat_sends_a_message_and_shows_the_answer_with_its_citations(talk: Talk) -> None:
    stdout, stderr = await run_cli(talk, "chat", talk.agent, "What of Halden and lithium?")
    assert "Halden" in stdout
    assert "queries the graph: Halden" in stderr
    assert "Thing Halden Cells" in stderr
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", stdout)


async def test_chat_reads_stdin_and_prints_json_for_programs(talk: Talk) -> None:
    stdout, stderr = await run_cli(
        talk, "chat", talk.agent, "-", "--json", stdin="What are you doing?"
    )
    message = json.loads(stdout)
    assert (message["kind"], message["status"], stderr) == ("answer", "complete", "")
    listed, _ = await run_cli(talk, "chat", talk.agent, "--history", "2", "--json")
    assert [json.loads(line)["kind"] for line in listed.splitlines()] == ["question", "answer"]
    history, _ = await run_cli(talk, "chat", talk.agent, "--history", "9")
    assert history.index("HOLD: Wait for Halden") < history.index("What are you doing?")


async def test_an_empty_message_and_a_failed_answer_are_errors(
    talk: Talk, sandbox_control: Sandbox
) -> None:
    _, stderr = await run_cli(talk, "chat", talk.agent, "-", exit_code=2)
    assert "message is empty" in stderr
    sandbox_control.faults({"kind": "status", "phase": PHASE, "status": 401})
    _, stderr = await run_cli(talk, "chat", talk.agent, "Hello there", exit_code=1)
    assert "Check OPENAI_API_KEY" in stderr
    assert "--retry" in stderr


async def test_ctrl_c_leaves_the_answer_running_and_says_how_to_read_it(
    talk: Talk, sandbox_control: Sandbox
) -> None:
    sandbox_control.script(scripted_answer(content=LONG_ANSWER))
    sandbox_control.faults({"kind": "stall", "phase": PHASE, "stall_seconds": 2})
    process = await start_cli(talk, "chat", talk.agent, "Tell me all")
    assert process.stdout is not None
    await asyncio.wait_for(process.stdout.read(1), 30)
    process.send_signal(signal.SIGINT)
    _, stderr = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 130
    follow = stderr.decode().split("to read it: vigil ")[1].split("\n")[0].split()
    stdout, _ = await run_cli(talk, "chat", talk.agent, *follow[-2:])
    assert stdout.strip() == LONG_ANSWER
    history, _ = await run_cli(talk, "chat", talk.agent, "--history", "1", "--json")
    answer_id = json.loads(history)["id"]
    assert answer_id.startswith(follow[-1])
    await completed(talk, [answer_id])


async def test_chat_reconnects_when_the_api_is_back(
    sandbox_settings: Settings, agent: Agent, sandbox_control: Sandbox, bus: Bus
) -> None:
    sandbox_control.script(scripted_answer(content=LONG_ANSWER))
    sandbox_control.faults({"kind": "stall", "phase": PHASE, "stall_seconds": 2})
    async with running_services(sandbox_settings, ["assistant"]):
        async with serving(sandbox_settings) as api:
            port = int(api.url.rpartition(":")[2])
            process = await start_cli(
                Talk(api, str(agent.id)), "chat", str(agent.id), "Tell me all"
            )
            assert process.stdout is not None
            first = await asyncio.wait_for(process.stdout.read(1), 30)
        async with serving(sandbox_settings, port=port):
            stdout, stderr = await asyncio.wait_for(process.communicate(), 60)
    assert (first + stdout).decode().strip() == LONG_ANSWER
    assert process.returncode == 0, stderr


@pytest.mark.parametrize("flag", ["--fact", None])
async def test_memories_are_added_listed_and_forgotten_by_command(
    talk: Talk, flag: str | None
) -> None:
    kind, shown = ("fact", "fact") if flag else ("wish", "preference")
    flags = [flag] if flag else []
    added, _ = await run_cli(talk, "memory", "add", talk.agent, "Cobalt matters", *flags)
    assert f"Remembered as a {shown}" in added
    listed, _ = await run_cli(talk, "memory", "list", talk.agent, "--json")
    [memory] = json.loads(listed)
    assert (memory["kind"], memory["content"]) == (kind, "Cobalt matters")
    assert "Cobalt matters" in (await run_cli(talk, "memory", "list", talk.agent))[0]
    await run_cli(talk, "memory", "forget", talk.agent, memory["id"])
    assert (
        "The agent remembers nothing yet" in (await run_cli(talk, "memory", "list", talk.agent))[0]
    )


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


async def test_a_conversation_finds_no_retracted_pages(
    talk: Talk, agent: Agent, sandbox_control: Sandbox, database: Database
) -> None:
    async def search() -> list[str]:
        sandbox_control.script(
            scripted_answer(calls=(tool_call("tavilySearch", query="lithium Orran"),)),
            scripted_answer(content="So."),
        )
        await talk.follow((await talk.says("What is new?"))["answer"]["id"])
        return [hit["url"] for hit in (await tool_results(database, "tavilySearch"))[-1]["results"]]

    before = await search()
    scope = GraphScope(agent.owner_id, agent.id)
    async with database.transaction() as session:
        pages = {"results": [{"url": before[0], "content": "It was read."}]}
        await store_pages(session, scope, pages)
        await retract_source(session, scope, before[0], "made up")
    assert await search() == [url for url in before if url != before[0]]


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
