"""The assistant is killed at each failpoint: the answer is still made once, and billed as documented."""

import asyncio
import signal
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from shared.database.engine import Database
from shared.database.tables import Agent, Conversation, Memory
from shared.failpoints import Failpoint
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.conversation.conversing import (
    LONG_ANSWER,
    PHASE,
    all_steps_ended,
    assistant_process,
    list_conversation_steps,
    scripted_answer,
)
from tests.support.conversation.talk import AnswerStream, Talk
from tests.support.failpoints import arm
from tests.support.running_services import running_services
from tests.support.sandbox_control import Sandbox
from tests.support.streams import serving
from tests.support.waiting import wait_until

WISH = "Please also watch cobalt. What of Halden?"
LLM_CALLS = 3
"""The memory, the graph query, the answer."""


@pytest.fixture
def impatient(sandbox_settings: Settings) -> Settings:
    """Settings under which another worker takes over a killed worker's step within seconds."""
    changes = {"lease_seconds": 1.0, "resend_after_seconds": 1.0}
    return sandbox_settings.model_copy(update=changes)


async def ask_and_kill(
    settings: Settings, directory: Path, talk: Talk, question: str, point: Failpoint, skip: int = 0
) -> str:
    """Asks an assistant that is killed at the failpoint; returns the answer's id."""
    arm(directory, point, skip=skip)
    async with assistant_process(settings, directory) as process:
        answer_id = str((await talk.says(question))["answer"]["id"])
        assert await asyncio.wait_for(process.wait(), 30) == -signal.SIGKILL
    return answer_id


@pytest.mark.parametrize(
    ("point", "skip", "repeated"),
    [
        pytest.param(Failpoint.MESSAGE_RECEIVED, 0, 0, marks=pytest.mark.slow),
        pytest.param(Failpoint.LEASE_TAKEN, 0, 0, marks=pytest.mark.slow),
        pytest.param(Failpoint.CALL_UNSENT, 2, 0, marks=pytest.mark.slow),
        (Failpoint.CALL_ANSWERED, 0, 1),
        pytest.param(Failpoint.CALL_ANSWERED, 2, 1, marks=pytest.mark.slow),
        (Failpoint.CALL_RECORDED, 0, 0),
        pytest.param(Failpoint.CALL_RECORDED, 2, 0, marks=pytest.mark.slow),
        (Failpoint.TOOL_APPLIED, 0, 0),
        pytest.param(Failpoint.TOOL_APPLIED, 1, 0, marks=pytest.mark.slow),
        pytest.param(Failpoint.STATE_WRITTEN, 0, 0, marks=pytest.mark.slow),
        (Failpoint.STATE_COMMITTED, 0, 0),
        pytest.param(Failpoint.EVENTS_PUBLISHED, 0, 0, marks=pytest.mark.slow),
    ],
)
async def test_an_answer_survives_a_kill_of_the_assistant(
    impatient: Settings,
    agent: Agent,
    bus: Bus,
    database: Database,
    sandbox_control: Sandbox,
    tmp_path: Path,
    point: Failpoint,
    skip: int,
    repeated: int,
) -> None:
    async with serving(impatient) as api:
        talk = Talk(api, str(agent.id))
        answer_id = await ask_and_kill(impatient, tmp_path, talk, WISH, point, skip)
        async with running_services(impatient, ["scheduler", "assistant"]):
            stream = await talk.follow(answer_id)
            await wait_until(partial(all_steps_ended, database), what="the step to end")
    assert stream.names[-1] == "complete"
    assert "I will remember this preference: Watch cobalt." in stream.text
    assert stream.data_of("tool")[0]["tool"] == "remember"
    assert sandbox_control.repeated() == repeated, (
        "only a call between its response and its record is repeated"
    )
    assert sandbox_control.billed()["llm"] == LLM_CALLS + repeated
    async with database.transaction() as session:
        [memory] = await session.scalars(select(Memory))
    assert memory.content == "Watch cobalt."


@pytest.mark.parametrize("text_changes", [False, True])
async def test_after_a_kill_a_streamed_answer_continues_or_restarts_with_an_event(
    impatient: Settings,
    agent: Agent,
    bus: Bus,
    database: Database,
    sandbox_control: Sandbox,
    tmp_path: Path,
    text_changes: bool,
) -> None:
    second = f"Otherwise: {LONG_ANSWER}" if text_changes else LONG_ANSWER
    sandbox_control.script(scripted_answer(content=LONG_ANSWER), scripted_answer(content=second))
    sandbox_control.faults({"kind": "stall", "phase": PHASE, "stall_seconds": 60})
    async with serving(impatient) as api:
        talk = Talk(api, str(agent.id))
        async with assistant_process(impatient, tmp_path):
            answer_id = (await talk.says("Tell me all"))["answer"]["id"]
            stream = await talk.follow(answer_id, characters=1)
        assert isinstance(stream, AnswerStream)
        async with running_services(impatient, ["scheduler", "assistant"]):
            await talk.follow(answer_id, stream)
    assert stream.text == second
    assert stream.names.count("restart") == text_changes
    assert sandbox_control.billed()["llm"] == 2, "only the call in progress is repeated"


async def test_a_paid_summary_is_not_requested_again(
    impatient: Settings,
    agent: Agent,
    bus: Bus,
    database: Database,
    sandbox_control: Sandbox,
    tmp_path: Path,
) -> None:
    terse = impatient.model_copy(update={"conversation_tokens": 20})
    async with serving(terse) as api:
        talk = Talk(api, str(agent.id))
        question = "What are you doing?"
        # The answer is the first call, the summary the second.
        answer_id = await ask_and_kill(
            terse, tmp_path, talk, question, Failpoint.CALL_RECORDED, skip=1
        )
        assert (await talk.message(answer_id))["status"] == "complete", "before the summary"
        async with database.transaction() as session:
            assert await session.scalar(select(Conversation.summarized_turns)) == 0
        async with running_services(terse, ["scheduler", "assistant"]):
            await wait_until(partial(all_steps_ended, database), what="the step to end")
    async with database.transaction() as session:
        conversation = (await session.scalars(select(Conversation))).one()
    assert conversation.summarized_turns == 1
    assert question in conversation.summary
    assert (sandbox_control.billed()["llm"], sandbox_control.repeated()) == (2, 0)
    [step] = await list_conversation_steps(database)
    assert step.result == {"remembered": 0, "summarized": True}
