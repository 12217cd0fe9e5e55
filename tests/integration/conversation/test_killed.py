"""The assistant is killed wherever it can be: the answer is made all the same, once, and paid for as is said of it."""

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
from tests.support.actors import running
from tests.support.conversation.conversing import (
    LONG_ANSWER,
    PHASE,
    all_ended,
    assistant_process,
    says,
    steps_of_talk,
)
from tests.support.conversation.talking import Heard, Talk
from tests.support.levers import Sandbox
from tests.support.streams import serving
from tests.support.waiting import until

WISH = "Please also watch cobalt. What of Halden?"
LLM_CALLS = 3
"""The wish, the look into the graph, the answer."""


@pytest.fixture
def hasty(sandbox_settings: Settings) -> Settings:
    """Settings under which a killed worker's step is given to another within seconds."""
    given = {"lease_seconds": 1.0, "resend_after_seconds": 1.0}
    return sandbox_settings.model_copy(update=given)


async def killed_at(
    settings: Settings, directory: Path, talk: Talk, question: str, point: Failpoint, skip: int = 0
) -> str:
    """Says it to an assistant that dies there; gives the answer's id."""
    for number in range(skip):
        (directory / f"{point}.skip{number}").touch()
    (directory / point).write_text("SIGKILL")
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
async def test_an_answer_survives(
    hasty: Settings,
    agent: Agent,
    bus: Bus,
    database: Database,
    levers: Sandbox,
    tmp_path: Path,
    point: Failpoint,
    skip: int,
    repeated: int,
) -> None:
    async with serving(hasty) as api:
        talk = Talk(api, str(agent.id))
        answer_id = await killed_at(hasty, tmp_path, talk, WISH, point, skip)
        async with running(hasty, ["scheduler", "assistant"]):
            heard = await talk.hears(answer_id)
            await until(partial(all_ended, database), what="the step to end")
    assert heard.names[-1] == "complete"
    assert "I will keep this wish in mind: Watch cobalt." in heard.text
    assert heard.of("tool")[0]["tool"] == "remember"
    assert levers.repeated() == repeated, "paid twice in the window between answer and record alone"
    assert levers.billed()["llm"] == LLM_CALLS + repeated
    async with database.transaction() as session:
        [memory] = await session.scalars(select(Memory))
    assert memory.content == "Watch cobalt."


@pytest.mark.parametrize("text_changes", [False, True])
async def test_killed_in_the_middle_of_its_words_it_goes_on_or_says_that_it_begins_anew(
    hasty: Settings,
    agent: Agent,
    bus: Bus,
    database: Database,
    levers: Sandbox,
    tmp_path: Path,
    text_changes: bool,
) -> None:
    second = f"Otherwise: {LONG_ANSWER}" if text_changes else LONG_ANSWER
    levers.script(says(content=LONG_ANSWER), says(content=second))
    levers.faults({"kind": "stall", "phase": PHASE, "stall_seconds": 60})
    async with serving(hasty) as api:
        talk = Talk(api, str(agent.id))
        async with assistant_process(hasty, tmp_path):
            answer_id = (await talk.says("Tell me all"))["answer"]["id"]
            heard = await talk.hears(answer_id, characters=1)
        assert isinstance(heard, Heard)
        async with running(hasty, ["scheduler", "assistant"]):
            await talk.hears(answer_id, heard)
    assert heard.text == second
    assert heard.names.count("restart") == text_changes
    assert levers.billed()["llm"] == 2, "what was under way is lost, and no more"


async def test_a_summary_that_was_paid_for_is_not_made_again(
    hasty: Settings,
    agent: Agent,
    bus: Bus,
    database: Database,
    levers: Sandbox,
    tmp_path: Path,
) -> None:
    terse = hasty.model_copy(update={"conversation_tokens": 20})
    async with serving(terse) as api:
        talk = Talk(api, str(agent.id))
        question = "What are you doing?"
        # The answer is the first call, the summary the second.
        answer_id = await killed_at(
            terse, tmp_path, talk, question, Failpoint.CALL_RECORDED, skip=1
        )
        assert (await talk.message(answer_id))["status"] == "complete", "before the summary"
        async with database.transaction() as session:
            assert await session.scalar(select(Conversation.summarized_turns)) == 0
        async with running(terse, ["scheduler", "assistant"]):
            await until(partial(all_ended, database), what="the step to end")
    async with database.transaction() as session:
        conversation = (await session.scalars(select(Conversation))).one()
    assert conversation.summarized_turns == 1
    assert question in conversation.summary
    assert (levers.billed()["llm"], levers.repeated()) == (2, 0)
    [step] = await steps_of_talk(database)
    assert step.result == {"remembered": 0, "summarized": True}
