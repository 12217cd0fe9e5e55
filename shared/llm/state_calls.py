"""Runs the calls of state tools in one answer, so that a refused one leaves nothing."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import locks
from shared.database.statements import flush
from shared.tools import Arguments, BatchConflictError, Json, StateTool, Tool, ToolRefusalError


@dataclass(frozen=True)
class StateCall:
    """A call of a state tool, or one that is refused before it runs."""

    tool: Tool | None
    arguments: Arguments | None
    refusal: str | None = None


async def run_state_calls(
    session: AsyncSession, agent_id: UUID, calls: Sequence[StateCall]
) -> list[Json]:
    """Run the calls in order; the result of a refused one is its error.

    Tries all with one savepoint first, because refusals are rare.
    """
    if len(calls) > 1:
        with suppress(ToolRefusalError, BatchConflictError):
            async with session.begin_nested(), _batch(session, agent_id, calls):
                return [await _effect(session, call) for call in calls]
        await locks.tool_write_lock(session, agent_id)
    return [await _effect_or_refusal(session, call) for call in calls]


@asynccontextmanager
async def _batch(
    session: AsyncSession, agent_id: UUID, calls: Sequence[StateCall]
) -> AsyncIterator[None]:
    """Runs tools together, under the lock of tools that write."""
    tools = [call.tool for call in calls if isinstance(call.tool, StateTool)]
    batch = next((tool.batch for tool in tools if tool.batch is not None), None)
    if batch is None:
        await locks.tool_write_lock(session, agent_id)
        yield
        return
    async with batch(session, [call.arguments for call in calls if call.arguments is not None]):
        yield


async def _effect_or_refusal(session: AsyncSession, call: StateCall) -> Json:
    try:
        async with session.begin_nested():
            return await _effect(session, call)
    except ToolRefusalError as refusal:
        return {"error": str(refusal)}


async def _effect(session: AsyncSession, call: StateCall) -> Json:
    """Raises ToolRefusalError."""
    if call.arguments is None:
        return {"error": call.refusal}
    assert isinstance(call.tool, StateTool)
    if call.tool.batch is None:
        await flush(session)  # it may read by other means than compiled statements
    result: Json = await call.tool.run(session, call.arguments)
    return result
