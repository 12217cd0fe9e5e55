"""`vigil chat` and `vigil memory`, as users and programs run them."""

import asyncio
import json
import os
import re
import signal

import pytest

from shared.database.tables import Agent
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.conversation.conversing import LONG_ANSWER, PHASE, scripted_answer
from tests.support.conversation.talk import Talk, completed
from tests.support.running_services import running_services
from tests.support.sandbox_control import Sandbox
from tests.support.streams import serving
from tests.support.warm_processes import WarmProcess, start_python


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
