"""Answers of one conversation are made one after another, and a failed one blocks no other."""

import httpx

from shared.database.engine import Database
from shared.database.tables import Agent
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.api.clients import assert_problem
from tests.support.conversation.conversing import PHASE, list_conversation_steps
from tests.support.conversation.talk import Talk, completed
from tests.support.running_services import running_services
from tests.support.sandbox_control import Sandbox
from tests.support.streams import serving


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
