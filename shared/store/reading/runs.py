"""Phase runs: what each cost, and, one by one, what was said in it, each tool's result beside its call."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.reading.interactions import failures_of
from shared.store.reading.iteration_shapes import PhaseRun, Saying, Spent, ToolUse
from shared.store.reading.iteration_sums import SPENT
from shared.store.reading.shapes import Json
from shared.store.tables import Agent, Call, Interaction
from shared.store.words import CallKind


async def of_iteration(session: AsyncSession, iteration_id: UUID) -> list[PhaseRun]:
    """In the order in which they began. The caller has seen to it that the iteration is the owner's."""
    columns = [getattr(Interaction, name) for name in PhaseRun.model_fields if name not in _MADE]
    rows = await session.execute(
        select(*columns, func.jsonb_array_length(Interaction.events).label("event_count"))
        .where(Interaction.iteration_id == iteration_id)
        .order_by(Interaction.created_at, Interaction.id)
    )
    summed = await session.execute(
        select(Call.interaction_id, *SPENT)
        .where(Call.iteration_id == iteration_id)
        .group_by(Call.interaction_id)
    )
    spent = {row["interaction_id"]: Spent.model_validate(dict(row)) for row in summed.mappings()}
    return [PhaseRun(**dict(row), spent=spent.get(row["id"], Spent())) for row in rows.mappings()]


async def said(session: AsyncSession, owner_id: UUID, interaction_id: UUID) -> list[Saying] | None:
    """The oldest first; None where the owner has no such run."""
    events = await session.scalar(
        select(Interaction.events)
        .join(Agent, Agent.id == Interaction.agent_id)
        .where(Interaction.id == interaction_id, Agent.owner_id == owner_id)
    )
    if events is None:
        return None
    rows = await session.scalars(select(Call).where(Call.interaction_id == interaction_id))
    return _sayings(events, {str(call.id): call for call in rows})


def _sayings(events: Sequence[Json], calls: Mapping[str, Call]) -> list[Saying]:
    """Tools give their results before the model is asked again."""
    rounds: list[tuple[str, list[Json]]] = []
    for event in events:
        if event["type"] == "answer":
            rounds.append((event["call_id"], []))
        elif rounds and event["type"] == "tool_result":
            rounds[-1][1].append(event)
    answered = {call_id for call_id, _ in rounds}
    # What the model was asked last may have brought nothing but failures so far.
    failing = [
        _saying_nothing(call)
        for call in calls.values()
        if call.failures and str(call.id) not in answered and call.kind == CallKind.LLM
    ]
    return [*(_saying(call_id, results, calls) for call_id, results in rounds), *failing]


def _saying_nothing(call: Call) -> Saying:
    return Saying(
        is_kept=True,
        text=None,
        tool_uses=[],
        failures=failures_of([call]),
        spent=_spent(call),
        started_at=call.started_at,
        answered_at=None,
    )


def _saying(call_id: str, results: Sequence[Json], calls: Mapping[str, Call]) -> Saying:
    call = calls.get(call_id)
    message: Json | None = ((call.answer if call else None) or {}).get("message")
    asked: list[Json] = (message or {}).get("tool_calls") or []
    uses = [
        _use(each["function"], _result_of(f"{call_id}/{index}", each, results), calls)
        for index, each in enumerate(asked)
    ]
    if not asked:
        # Calls that the model wrote into its text, or that the phase made itself. Or what was asked for has expired with
        # the answer, while what the tools gave back stands in the run itself.
        uses = [_use({"arguments": "", **each}, each, calls) for each in results]
    return Saying(
        is_kept=message is not None,
        text=(message or {}).get("content"),
        tool_uses=uses,
        failures=[] if call is None else failures_of([call]),
        spent=_spent(call),
        started_at=call.started_at if call else None,
        answered_at=call.answered_at if call else None,
    )


def _result_of(key: str, asked: Json, results: Sequence[Json]) -> Json | None:
    """By its place in the answer; in old runs by the id that the model gave the call."""
    for each in results:
        if each.get("key") == key or each.get("tool_call_id", key) == asked.get("id"):
            return each
    return None


def _use(asked: Json, event: Json | None, calls: Mapping[str, Call]) -> ToolUse:
    """A free tool's result stands in the event itself, a paid one's in the ledger."""
    is_paid = event is not None and "call_id" in event
    call = calls.get(event["call_id"]) if event is not None and is_paid else None
    free = None if event is None else event.get("result")
    return ToolUse(
        name=asked["name"],
        arguments=asked["arguments"],
        has_ended=event is not None,
        result=call.answer if call is not None else free,
        spent=_spent(call) if is_paid else None,
    )


def _spent(call: Call | None) -> Spent:
    if call is None:
        return Spent()
    figures: dict[str, Any] = {
        "input_tokens": call.input_tokens or 0,
        "output_tokens": call.output_tokens or 0,
        "cost_usd": call.cost_usd or 0,
        "presumed_usd": call.presumed_usd,
        "unpriced": int(call.kind == CallKind.LLM and call.cost_usd is None),
    }
    return Spent(calls=1, **figures)


_MADE = ("event_count", "spent")
