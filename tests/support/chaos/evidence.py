"""The result of an iteration, and the faults that no iteration may have, whatever happened during it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select

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
from shared.database.transaction import Transaction
from shared.enums import IterationStatus, StepStatus
from shared.events.codec import decode, encode
from shared.events.envelope import Event
from shared.events.topology import STREAM
from shared.graph.scope import GraphScope
from shared.runtime.bus import Bus
from shared.workflow import steps
from tests.support import table_rows
from tests.support.canonical_graph import graph_fingerprint

StreamEvents = Sequence[tuple[Event, bytes]]
"""Events in stream order, each with its payload."""


@dataclass(frozen=True)
class Result:
    """The part of a result that must be the same whichever process was killed."""

    status: str
    errors: tuple[str, ...]
    graph: str
    """Canonical hash."""
    inbox: tuple[tuple[str, str], ...]
    messages: int
    steps: tuple[tuple[str, int, str], ...]
    calls: tuple[tuple[str, int], ...]
    """Number of calls in the ledger, by kind."""


async def load_result(session: Transaction, scope: GraphScope) -> Result:
    agent_id = scope.agent_id
    iteration = (
        await session.scalars(select(Iteration).where(Iteration.agent_id == agent_id))
    ).one()
    items = await session.scalars(select(InboxItem).where(InboxItem.agent_id == agent_id))
    messages = select(func.count(Message.id)).join(
        Conversation, Message.conversation_id == Conversation.id
    )
    calls = await session.scalars(select(Call.kind).where(Call.agent_id == agent_id))
    iteration_steps = await steps.list_steps(session, iteration.id)
    return Result(
        status=iteration.status,
        errors=tuple(iteration.errors),
        graph=await graph_fingerprint(session, scope),
        inbox=tuple(sorted((item.title, item.summary) for item in items)),
        messages=await session.scalar(messages.where(Conversation.agent_id == agent_id)) or 0,
        steps=tuple((step.kind, step.index, step.status) for step in iteration_steps),
        calls=tuple(sorted(Counter(calls).items())),
    )


async def faults(session: Transaction, events: StreamEvents, agent_id: UUID) -> list[str]:
    """Describe every violated invariant of the agent's iterations."""
    messages: list[str] = []
    for iteration in await session.scalars(
        select(Iteration).where(Iteration.agent_id == agent_id).order_by(Iteration.number)
    ):
        messages += [
            f"iteration {iteration.number}: {fault}"
            for fault in [
                *await state_faults(session, iteration),
                *await unanswered_faults(session, iteration),
                *await event_faults(session, events, iteration),
            ]
        ]
    dead_letters = await session.scalar(select(func.count()).select_from(DeadLetter))
    return messages + ([f"{dead_letters} dead letters"] if dead_letters else [])


async def state_faults(session: Transaction, iteration: Iteration) -> list[str]:
    messages = []
    if iteration.status == IterationStatus.RUNNING:
        messages.append("has not ended")
    for step in await session.scalars(select(Step).where(Step.iteration_id == iteration.id)):
        # What was planned after queries that have all failed is never requested.
        is_dropped = (
            step.status == StepStatus.PLANNED and iteration.status == IterationStatus.FAILED
        )
        if step.status not in (StepStatus.COMPLETED, StepStatus.FAILED) and not is_dropped:
            messages.append(f"{step.kind} {step.index} is an orphan: {step.status}")
        if step.lease_owner is not None or step.lease_until is not None:
            messages.append(f"{step.kind} {step.index} has leaked its lease to {step.lease_owner}")
    for interaction in await session.scalars(
        select(Interaction).where(Interaction.iteration_id == iteration.id)
    ):
        messages += [f"{interaction.phase}: {fault}" for fault in _interaction_faults(interaction)]
    return messages


async def unanswered_faults(session: Transaction, iteration: Iteration) -> list[str]:
    """A call that failed for good stays without an answer if its step is retried later, and asks again."""
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
        return [f"{unanswered} calls of completed steps have no answer in the ledger"]
    return []


def _interaction_faults(interaction: Interaction) -> list[str]:
    # A result and what was shown of it have one key.
    answers = Counter(
        (event["type"], event.get("key") or event.get("call_id")) for event in interaction.events
    )
    return [
        f"{kind} {key} was recorded {times} times"
        for (kind, key), times in answers.items()
        if times > 1
    ]


async def event_faults(
    session: Transaction, events: StreamEvents, iteration: Iteration
) -> list[str]:
    """The stream must have exactly the events that the state implies, byte for byte."""
    implied = {event.event_id: encode(event) for event in await _implied_events(session, iteration)}
    published: dict[UUID, set[bytes]] = {}
    subjects: dict[UUID, str] = {}
    for event, payload in events:
        if event.correlation_id == iteration.id:
            published.setdefault(event.event_id, set()).add(payload)
            subjects[event.event_id] = event.subject
    messages = [
        f"{decode(implied[key]).subject} was never published" for key in implied.keys() - published
    ]
    for key, payloads in published.items():
        if key not in implied:
            messages.append(f"{subjects[key]} was published, but the state does not imply it")
        elif payloads != {implied[key]}:
            messages.append(
                f"{subjects[key]} was published with content that differs from the state"
            )
    return messages


async def _implied_events(session: Transaction, iteration: Iteration) -> Sequence[Event]:
    implied: list[Event] = []
    row = table_rows.as_iteration(iteration)
    its_steps = await steps.list_steps(session, iteration.id)
    for step in its_steps:
        if step.first_requested_at is not None:
            implied.append(derived_events.iteration_step_event(row, step))
        if step.ended_at is not None:
            implied += await derived_events.events_after_step(session, step)
    end = await derived_events.iteration_ended_event(session, row, its_steps)
    return [*implied, end]


async def list_events_since(bus: Bus, since: int) -> StreamEvents:
    """List the events on the stream from sequence `since` on."""
    last = (await bus.jetstream.stream_info(STREAM)).state.last_seq
    events = []
    for number in range(since, last + 1):
        payload = (await bus.jetstream.get_msg(STREAM, number, direct=True)).data or b""
        events.append((decode(payload), payload))
    return events
