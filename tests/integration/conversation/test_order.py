"""Answers of one conversation are made one after another, and one that fails holds up none."""

import httpx

from shared.database.engine import Database
from shared.database.tables import Agent
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.actors import running
from tests.support.api.asking import assert_problem
from tests.support.conversation.conversing import PHASE, steps_of_talk
from tests.support.conversation.talking import Talk, completed
from tests.support.levers import Sandbox
from tests.support.streams import serving


async def test_messages_are_answered_one_after_another(
    talk: Talk, levers: Sandbox, database: Database
) -> None:
    levers.faults({"kind": "latency", "phase": PHASE, "latency_seconds": 1})
    turns = [await talk.says(f"Question {number}: what are you doing?") for number in (1, 2, 3)]
    assert [turn["answer"]["status"] for turn in turns[1:]] == ["waiting", "waiting"]
    ended = await completed(talk, [turn["answer"]["id"] for turn in turns])
    assert [each["status"] for each in ended] == ["complete"] * 3
    steps = await steps_of_talk(database)
    ends = [step.ended_at for step in steps]
    starts = [step.started_at for step in steps]
    assert all(end < start for end, start in zip(ends, starts[1:], strict=False) if end and start)
    assert [step.republish_count for step in steps] == [0, 0, 0], (
        "each is asked for by the end of the last"
    )


async def test_so_many_may_wait_and_no_more(
    sandbox_settings: Settings, agent: Agent, bus: Bus
) -> None:
    async with serving(sandbox_settings) as api:
        talk = Talk(api, str(agent.id))
        for number in range(20):
            await talk.says(f"Question {number}")
        refused = await talk.asked("POST", "/conversation/messages", json={"content": "More"})
    assert_problem(refused, 409, "20 messages wait")


async def test_a_failed_answer_says_so_and_can_be_asked_again(
    sandbox_settings: Settings, talk: Talk, levers: Sandbox, database: Database
) -> None:
    levers.faults({"kind": "status", "phase": PHASE, "status": 401})
    failing, waiting = [await talk.says(text) for text in ("What are you doing?", "And your plan?")]
    answer_id = failing["answer"]["id"]
    ended = (await talk.hears(answer_id)).ended
    assert ended is not None
    assert (ended["status"], "Check OPENAI_API_KEY" in ended["error"]) == ("failed", True)
    [next_one] = await completed(talk, [waiting["answer"]["id"]])
    assert next_one["status"] == "complete", "what follows a failed answer is answered"
    async with running(sandbox_settings, ["scheduler"]):
        retried = await talk.asked("POST", f"/conversation/messages/{answer_id}/retry")
        assert (retried.status_code, retried.json()["status"]) == (202, "pending")
        heard = await talk.hears(answer_id)
    assert heard.names[-1] == "complete"
    refused = await talk.asked("POST", f"/conversation/messages/{answer_id}/retry")
    assert_problem(refused, 409, "complete")


async def test_a_failed_answer_whose_letter_was_discarded_can_be_asked_again(
    sandbox_settings: Settings, talk: Talk, levers: Sandbox
) -> None:
    levers.faults({"kind": "status", "phase": PHASE, "status": 401})
    answer_id = (await talk.says("What are you doing?"))["answer"]["id"]
    await talk.hears(answer_id)
    async with httpx.AsyncClient(
        base_url=f"{talk.url}/api/v1", headers=talk.headers, trust_env=False
    ) as client:
        [letter] = (await client.get("/dead-letters")).json()["items"]
        assert (await client.delete(f"/dead-letters/{letter['id']}")).status_code == 204
    await talk.asked("POST", f"/conversation/messages/{answer_id}/retry")
    impatient = sandbox_settings.model_copy(update={"resend_after_seconds": 0.5})
    async with running(impatient, ["scheduler"]):
        assert (await talk.hears(answer_id)).names[-1] == "complete"
