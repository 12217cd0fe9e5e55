"""`vigil chat` and `vigil memory`, as people and programs use them."""

import asyncio
import json
import os
import signal
import sys

import pytest

from shared.database.tables import Agent
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.actors import running
from tests.support.conversation.conversing import LONG_ANSWER, PHASE, says
from tests.support.conversation.talking import Talk, completed
from tests.support.levers import Sandbox
from tests.support.streams import serving


async def begun(talk: Talk, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "cli",
        *arguments,
        env={**os.environ, "VIGIL_URL": talk.url, "VIGIL_TOKEN": talk.api.token, "NO_COLOR": "1"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def vigil(talk: Talk, *arguments: str, typed: str = "", exits: int = 0) -> tuple[str, str]:
    """What it says on stdout and on stderr."""
    process = await begun(talk, *arguments)
    said, beside = await asyncio.wait_for(process.communicate(typed.encode()), 60)
    assert process.returncode == exits, beside.decode()
    return said.decode(), beside.decode()


async def test_one_message_is_said_and_its_answer_shown_with_what_it_cites(talk: Talk) -> None:
    said, beside = await vigil(talk, "chat", talk.agent, "What of Halden and lithium?")
    assert "Halden" in said
    assert "queries the graph: Halden" in beside
    assert "Thing Halden Cells" in beside


async def test_stdin_is_said_and_programs_get_the_message(talk: Talk) -> None:
    said, beside = await vigil(talk, "chat", talk.agent, "-", "--json", typed="What are you doing?")
    message = json.loads(said)
    assert (message["kind"], message["status"], beside) == ("answer", "complete", "")
    listed, _ = await vigil(talk, "chat", talk.agent, "--history", "2", "--json")
    assert [json.loads(line)["kind"] for line in listed.splitlines()] == ["question", "answer"]
    shown, _ = await vigil(talk, "chat", talk.agent, "--history", "9")
    assert shown.index("HOLD: Wait for Halden") < shown.index("What are you doing?")


async def test_nothing_to_say_and_no_answer_are_errors(talk: Talk, levers: Sandbox) -> None:
    _, beside = await vigil(talk, "chat", talk.agent, "-", exits=2)
    assert "message is empty" in beside
    levers.faults({"kind": "status", "phase": PHASE, "status": 401})
    _, beside = await vigil(talk, "chat", talk.agent, "Hello there", exits=1)
    assert "Check OPENAI_API_KEY" in beside
    assert "--retry" in beside


async def test_ctrl_c_leaves_the_answer_running_and_says_how_to_read_on(
    talk: Talk, levers: Sandbox
) -> None:
    levers.script(says(content=LONG_ANSWER))
    levers.faults({"kind": "stall", "phase": PHASE, "stall_seconds": 2})
    process = await begun(talk, "chat", talk.agent, "Tell me all")
    assert process.stdout is not None
    await asyncio.wait_for(process.stdout.read(1), 30)
    process.send_signal(signal.SIGINT)
    _, beside = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode not in (0, None)
    follow = beside.decode().split("to read it: vigil ")[1].split("\n")[0].split()
    said, _ = await vigil(talk, "chat", talk.agent, *follow[-2:])
    assert said.strip() == LONG_ANSWER
    await completed(talk, [follow[-1]])


async def test_it_reads_on_by_itself_when_the_api_is_back(
    sandbox_settings: Settings, agent: Agent, levers: Sandbox, bus: Bus
) -> None:
    levers.script(says(content=LONG_ANSWER))
    levers.faults({"kind": "stall", "phase": PHASE, "stall_seconds": 2})
    async with running(sandbox_settings, ["assistant"]):
        async with serving(sandbox_settings) as api:
            port = int(api.url.rpartition(":")[2])
            process = await begun(Talk(api, str(agent.id)), "chat", str(agent.id), "Tell me all")
            assert process.stdout is not None
            first = await asyncio.wait_for(process.stdout.read(1), 30)
        async with serving(sandbox_settings, port=port):
            said, beside = await asyncio.wait_for(process.communicate(), 60)
    assert (first + said).decode().strip() == LONG_ANSWER
    assert process.returncode == 0, beside


@pytest.mark.parametrize("flag", ["--fact", None])
async def test_memories_by_command(talk: Talk, flag: str | None) -> None:
    kind = "fact" if flag else "wish"
    flags = [flag] if flag else []
    added, _ = await vigil(talk, "memory", "add", talk.agent, "Cobalt matters", *flags)
    assert f"Remembered as a {kind}" in added
    listed, _ = await vigil(talk, "memory", "list", talk.agent, "--json")
    [memory] = json.loads(listed)
    assert (memory["kind"], memory["content"]) == (kind, "Cobalt matters")
    assert "Cobalt matters" in (await vigil(talk, "memory", "list", talk.agent))[0]
    await vigil(talk, "memory", "forget", talk.agent, memory["id"])
    assert "Nothing is remembered" in (await vigil(talk, "memory", "list", talk.agent))[0]
