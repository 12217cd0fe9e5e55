"""What an iteration left behind, and everything that would be wrong with it whatever happened on the way."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared import derived_events
from shared.database.tables import (
    Call,
    Conversation,
    DeadLetter,
    InboxItem,
    Interaction,
    Iteration,
    Message,
    Step,
)
from shared.enums import IterationStatus, StepStatus
from shared.events.codec import decode, encode
from shared.events.envelope import Event
from shared.events.topology import STREAM
from shared.graph.scope import GraphScope
from shared.runtime.bus import Bus
from shared.workflow import steps
from tests.support.canonical_graph import canonical_hash

Told = Sequence[tuple[Event, bytes]]
"""Events in the order of the stream, and the bytes that each came in."""


@dataclass(frozen=True)
class Result:
    """What must be the same whoever was killed."""

    status: str
    errors: tuple[str, ...]
    graph: str
    """Canonical hash."""
    inbox: tuple[tuple[str, str], ...]
    messages: int
    steps: tuple[tuple[str, int, str], ...]
    calls: tuple[tuple[str, int], ...]
    """Kinds of calls in the ledger, and how many."""


async def result_of(session: AsyncSession, scope: GraphScope) -> Result:
    agent_id = scope.agent_id
    iteration = (
        await session.scalars(select(Iteration).where(Iteration.agent_id == agent_id))
    ).one()
    items = await session.scalars(select(InboxItem).where(InboxItem.agent_id == agent_id))
    messages = select(func.count(Message.id)).join(
        Conversation, Message.conversation_id == Conversation.id
    )
    calls = await session.scalars(select(Call.kind).where(Call.agent_id == agent_id))
    done = await steps.list_steps(session, iteration.id)
    return Result(
        status=iteration.status,
        errors=tuple(iteration.errors),
        graph=await canonical_hash(session, scope),
        inbox=tuple(sorted((item.title, item.summary) for item in items)),
        messages=await session.scalar(messages.where(Conversation.agent_id == agent_id)) or 0,
        steps=tuple((step.kind, step.index, step.status) for step in done),
        calls=tuple(sorted(Counter(calls).items())),
    )


async def faults(session: AsyncSession, told: Told, agent_id: UUID) -> list[str]:
    """What may never be, in words."""
    found: list[str] = []
    for iteration in await session.scalars(
        select(Iteration).where(Iteration.agent_id == agent_id).order_by(Iteration.number)
    ):
        found += [
            f"iteration {iteration.number}: {fault}"
            for fault in [
                *await _of_state(session, iteration),
                *await _of_bus(session, told, iteration),
            ]
        ]
    letters = await session.scalar(select(func.count()).select_from(DeadLetter))
    return found + ([f"{letters} dead letters"] if letters else [])


async def _of_state(session: AsyncSession, iteration: Iteration) -> list[str]:
    found = []
    if iteration.status == IterationStatus.RUNNING:
        found.append("has not ended")
    for step in await steps.list_steps(session, iteration.id):
        if step.status not in (StepStatus.COMPLETED, StepStatus.FAILED):
            found.append(f"{step.kind} {step.index} is an orphan: {step.status}")
        if step.lease_owner is not None or step.lease_until is not None:
            found.append(f"{step.kind} {step.index} has leaked its lease to {step.lease_owner}")
    unanswered = await session.scalar(
        select(func.count())
        .select_from(Call)
        .join(Step, Step.id == Call.step_id)
        .where(
            Call.iteration_id == iteration.id,
            Call.answered_at.is_(None),
            Step.status == StepStatus.COMPLETED,
        )
    )
    if unanswered:
        found.append(f"{unanswered} calls of completed steps have no answer in the ledger")
    for interaction in await session.scalars(
        select(Interaction).where(Interaction.iteration_id == iteration.id)
    ):
        found += [f"{interaction.phase}: {fault}" for fault in _of_interaction(interaction)]
    return found


def _of_interaction(interaction: Interaction) -> list[str]:
    answers = Counter(event.get("key") or event.get("call_id") for event in interaction.events)
    return [f"{key} was recorded {times} times" for key, times in answers.items() if times > 1]


async def _of_bus(session: AsyncSession, told: Told, iteration: Iteration) -> list[str]:
    """The events on the stream are exactly those that the state implies, byte for byte."""
    implied = {event.event_id: encode(event) for event in await _implied(session, iteration)}
    heard: dict[UUID, set[bytes]] = {}
    subjects: dict[UUID, str] = {}
    for event, payload in told:
        if event.correlation_id == iteration.id:
            heard.setdefault(event.event_id, set()).add(payload)
            subjects[event.event_id] = event.subject
    found = [f"{decode(implied[key]).subject} was never told" for key in implied.keys() - heard]
    for key, payloads in heard.items():
        if key not in implied:
            found.append(f"{subjects[key]} was told, and the state knows nothing of it")
        elif payloads != {implied[key]}:
            found.append(f"{subjects[key]} was told otherwise than the state has it")
    return found


async def _implied(session: AsyncSession, iteration: Iteration) -> Sequence[Event]:
    implied: list[Event] = []
    for step in await steps.list_steps(session, iteration.id):
        if step.requested_at is not None:
            implied.append(derived_events.iteration_step_event(iteration, step))
        implied += await derived_events.events_after_step(session, step)
    return [*implied, await derived_events.iteration_ended_event(session, iteration)]


async def told_since(bus: Bus, since: int) -> Told:
    """What the stream holds from sequence `since` on."""
    last = (await bus.jetstream.stream_info(STREAM)).state.last_seq
    told = []
    for number in range(since, last + 1):
        payload = (await bus.jetstream.get_msg(STREAM, number, direct=True)).data or b""
        told.append((decode(payload), payload))
    return told
