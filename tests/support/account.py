"""What came of one agent's iteration, told without an id or a time, so that two runs can be laid side by side."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import (
    Call,
    Conversation,
    DeadLetter,
    GraphNode,
    InboxItem,
    Iteration,
    Message,
    Step,
)
from shared.events.envelope import Event
from shared.events.models import IterationCompleted
from shared.graph.scope import GraphScope
from shared.tools import Json
from tests.support.canonical_graph import canonical, canonical_hash
from tests.support.mission import Mission

_OF_THE_MOMENT = {"event_id", "occurred_at", "cost_usd"}
"""What an iteration costs hangs on the length of its mission's text; against the ledger it is held by `is_whole`."""


@dataclass(frozen=True)
class Account:
    knowledge: Json
    knowledge_hash: str
    ended: tuple[str, list[str]]
    steps: list[str]
    inbox: list[str]
    conversation: list[str]
    dead_letters: list[str]
    calls: Counter[str]
    """By phase, as the ledger has them."""
    said: list[str]
    """What the events say, each once, whatever the number of its copies."""
    event_ids: set[UUID] = field(compare=False)
    cost_usd: float = field(compare=False)
    """By the ledger."""
    costs_said: set[float | None] = field(compare=False)

    def is_whole(self) -> bool:
        """Whether it ended well and once, at the ledger's cost.

        And no two events say different things under one id, or the same under two.
        """
        ends = [text for text in self.said if text.startswith('["iteration.completed"')]
        return (
            self.ended[0] == "completed"
            and len(ends) == 1
            and self.costs_said == {self.cost_usd}
            and len(self.event_ids) == len(self.said)
        )


async def account_of(session: AsyncSession, mission: Mission, told: Sequence[Event]) -> Account:
    """`told` is what stands on the stream, of whatever agent."""
    agent = mission.agent
    scope = GraphScope(agent.owner_id, agent.id)
    iteration = (await session.scalars(select(Iteration).filter_by(agent_id=agent.id))).one()
    names = await _names(session, mission, iteration)
    steps = await session.scalars(select(Step).filter_by(agent_id=agent.id))
    items = await session.scalars(select(InboxItem).filter_by(agent_id=agent.id))
    messages = await session.scalars(
        select(Message).join(Conversation).where(Conversation.agent_id == agent.id)
    )
    letters = await session.scalars(select(DeadLetter).join(Step).where(Step.agent_id == agent.id))
    calls = list(await session.scalars(select(Call).filter_by(agent_id=agent.id)))
    events = [event for event in told if event.agent_id == agent.id]
    return Account(
        knowledge=await canonical(session, scope),
        knowledge_hash=await canonical_hash(session, scope),
        ended=(iteration.status, iteration.errors),
        steps=_told(names, ([s.kind, s.index, s.status, s.error, s.result] for s in steps)),
        inbox=_told(names, ([item.title, item.summary] for item in items)),
        conversation=_told(names, ([message.role, message.content] for message in messages)),
        dead_letters=_told(names, ([each.actor, each.code, each.error] for each in letters)),
        calls=Counter(call.phase for call in calls),
        said=sorted(set(_told(names, (_facts(event) for event in events)))),
        event_ids={event.event_id for event in events},
        cost_usd=float(sum(call.cost_usd or 0 for call in calls)),
        costs_said={e.cost_usd for e in events if isinstance(e, IterationCompleted)},
    )


async def _names(
    session: AsyncSession, mission: Mission, iteration: Iteration
) -> Mapping[str, str]:
    """What stands for each id of this agent, and for the tag that sets its mission apart."""
    agent_id = mission.agent.id
    steps = await session.scalars(select(Step).filter_by(agent_id=agent_id))
    nodes = await session.scalars(select(GraphNode).filter_by(agent_id=agent_id))
    names = {mission.tag: "tag", str(agent_id): "agent", str(iteration.id): "iteration"}
    names |= {str(step.id): f"{step.kind} {step.index}" for step in steps}
    return names | {str(node.id): f"{node.type} {node.name}" for node in nodes}


def _facts(event: Event) -> list[Any]:
    return [event.subject, event.model_dump(mode="json", exclude=_OF_THE_MOMENT)]


def _told(names: Mapping[str, str], things: Iterable[Any]) -> list[str]:
    """Each as JSON with names for ids, sorted."""
    texts = [json.dumps(thing, sort_keys=True) for thing in things]
    for known, name in names.items():
        texts = [text.replace(known, name) for text in texts]
    return sorted(texts)
