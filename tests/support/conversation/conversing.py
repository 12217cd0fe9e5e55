"""Scripted responses, an assistant process and queries for the conversation tests."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import select

from shared.database.engine import Database
from shared.database.tables import Call, Interaction, Step
from shared.enums import Phase, StepKind
from shared.failpoints import DIRECTORY
from shared.runtime.settings import Settings
from tests.support.warm_processes import WarmProcess, start_python

PHASE = "conversation"
LONG_ANSWER = " ".join(f"word{number}" for number in range(120))
"""The sandbox streams it in many chunks."""


def scripted_answer(
    *, contains: str = "", content: str = "", calls: tuple[dict[str, Any], ...] = (), **fields: Any
) -> dict[str, Any]:
    """A scripted answer to the next message that contains `contains`."""
    return {"phase": PHASE, "contains": contains, "content": content, "tool_calls": calls, **fields}


def tool_call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


@asynccontextmanager
async def assistant_process(
    settings: Settings, crash_directory: Path
) -> AsyncIterator[WarmProcess]:
    """An assistant in its own process, killed at the end of the block if it still runs."""
    environment = {
        **os.environ,
        DIRECTORY: str(crash_directory),
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
        "VIGIL_LEASE_SECONDS": str(settings.lease_seconds),
        "VIGIL_CONVERSATION_TOKENS": str(settings.conversation_tokens),
        "VIGIL_MODEL": settings.model,
        "OPENAI_BASE_URL": str(settings.openai_base_url),
        "TAVILY_BASE_URL": str(settings.tavily_base_url),
    }
    process = await start_python(
        "-m", "services.assistant", env=environment, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()


async def list_conversation_steps(database: Database) -> list[Step]:
    """The conversation steps in the order of their turns."""
    async with database.transaction() as session:
        statement = select(Step).where(Step.kind == StepKind.CONVERSE).order_by(Step.index)
        return list(await session.scalars(statement))


async def tool_results(database: Database, tool: str) -> list[dict[str, Any]]:
    """The results of the calls of `tool` in conversations, free or paid, oldest first."""
    async with database.transaction() as session:
        interactions = await session.scalars(
            select(Interaction)
            .where(Interaction.phase == Phase.CONVERSATION)
            .order_by(Interaction.created_at)
        )
        events = [event for interaction in interactions for event in interaction.events]
        calls = [event for event in events if event.get("name") == tool]
        paid_results = {
            str(call.id): call.answer or {} for call in await session.scalars(select(Call))
        }
    return [
        event["result"] if "result" in event else paid_results[event["call_id"]] for event in calls
    ]


async def all_steps_ended(database: Database) -> bool:
    return all(step.ended_at is not None for step in await list_conversation_steps(database))
