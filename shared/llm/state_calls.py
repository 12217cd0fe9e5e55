"""Runs the calls of state tools in one answer, so that a refused one leaves nothing."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from uuid import UUID

from shared.database import locks
from shared.database.statements import RoundTrip, Transaction
from shared.tools import Arguments, Json, StateTool, Tool, ToolRefusalError


@dataclass(frozen=True)
class StateCall:
    """A call of a state tool, or one that is refused before it runs."""

    tool: Tool | None
    arguments: Arguments | None
    refusal: str | None = None


def ask_state_calls(
    trip: RoundTrip, agent_id: UUID, calls: Sequence[StateCall]
) -> Callable[[Transaction], Awaitable[list[Json]]]:
    """Adds what the calls look up to `trip`. When it has been made, call the result with the transaction.

    That runs the calls in order; the result of a refused one is its error.
    """
    tools = [call.tool for call in calls if isinstance(call.tool, StateTool)]
    arguments = [call.arguments for call in calls if call.arguments is not None]
    preparations = dict.fromkeys(tool.prepare for tool in tools if tool.prepare is not None)
    if len(calls) > 1 and not preparations:
        trip.ask(locks.tool_write_lock(agent_id))
    finish = [prepare(trip, arguments) for prepare in preparations]

    async def run(transaction: Transaction) -> list[Json]:
        for hand_over in finish:
            await hand_over(transaction)
        return [await _effect_or_refusal(transaction, call) for call in calls]

    return run


async def _effect_or_refusal(transaction: Transaction, call: StateCall) -> Json:
    if call.arguments is None:
        return {"error": call.refusal}
    tool = call.tool
    assert isinstance(tool, StateTool)
    try:
        async with transaction.savepoint() if tool.needs_savepoint else nullcontext():
            result: Json = await tool.run(transaction, call.arguments)
            return result
    except ToolRefusalError as refusal:
        return {"error": str(refusal)}
