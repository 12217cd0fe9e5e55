"""The result of one agent's iteration without ids and times, so that two runs can be compared."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import select

from shared.database.tables import (
    Call,
    Conversation,
    DeadLetter,
    GraphNode,
    InboxItem,
    InvestigationRequest,
    Iteration,
    Message,
    Step,
)
from shared.database.transaction import Transaction
from shared.events.envelope import Event
from shared.events.models import IterationCompleted
from shared.graph.scope import GraphScope
from shared.tools import Json
from tests.support.canonical_graph import canonical, graph_fingerprint
from tests.support.mission import Mission

_VARYING_FIELDS = {"event_id", "occurred_at", "cost_usd"}
"""An iteration's cost depends on the length of its mission's text; `is_whole` compares it with the ledger."""


@dataclass(frozen=True)
class IterationResult:
    knowledge: Json
    knowledge_hash: str
    ended: tuple[str, list[str]]
    steps: list[str]
    inbox: list[str]
    conversation: list[str]
    dead_letters: list[str]
    calls: Counter[str]
    """Number of calls in the ledger, by phase."""
    event_texts: list[str]
    """The distinct events, whatever the number of their copies."""
    event_ids: set[UUID] = field(compare=False)
    cost_usd: float = field(compare=False)
    """The cost in the ledger."""
    event_costs_usd: set[float | None] = field(compare=False)

    def is_whole(self) -> bool:
        """Whether it completed once, at the ledger's cost, and each event has exactly one id and one content."""
        ends = [text for text in self.event_texts if text.startswith('["iteration.completed"')]
        return (
            self.ended[0] == "completed"
            and len(ends) == 1
            and self.event_costs_usd == {self.cost_usd}
            and len(self.event_ids) == len(self.event_texts)
        )


async def load_iteration_result(
    session: Transaction, mission: Mission, stream: Sequence[Event]
) -> IterationResult:
    """`stream` has the events on the stream, of any agent."""
    agent = mission.agent
    scope = GraphScope(agent.owner_id, agent.id)
    iteration = (await session.scalars(select(Iteration).filter_by(agent_id=agent.id))).one()
    requests = await session.scalars(select(InvestigationRequest).filter_by(agent_id=agent.id))
    names = await _names(session, mission, iteration)
    names = {**names, **{str(each.id): f"request {each.objective}" for each in requests}}
    steps = await session.scalars(select(Step).filter_by(agent_id=agent.id))
    items = await session.scalars(select(InboxItem).filter_by(agent_id=agent.id))
    messages = await session.scalars(
        select(Message).join(Conversation).where(Conversation.agent_id == agent.id)
    )
    dead_letters = await session.scalars(
        select(DeadLetter).join(Step).where(Step.agent_id == agent.id)
    )
    calls = list(await session.scalars(select(Call).filter_by(agent_id=agent.id)))
    events = [event for event in stream if event.agent_id == agent.id]
    return IterationResult(
        knowledge=await canonical(session, scope),
        knowledge_hash=await graph_fingerprint(session, scope),
        ended=(iteration.status, iteration.errors),
        steps=_json_texts(names, ([s.kind, s.index, s.status, s.error, s.result] for s in steps)),
        inbox=_json_texts(names, ([item.title, item.summary] for item in items)),
        conversation=_json_texts(names, ([message.role, message.content] for message in messages)),
        dead_letters=_json_texts(
            names,
            (
                [dead_letter.service, dead_letter.code, dead_letter.error]
                for dead_letter in dead_letters
            ),
        ),
        calls=Counter(call.phase for call in calls),
        event_texts=sorted(set(_json_texts(names, (_facts(event) for event in events)))),
        event_ids={event.event_id for event in events},
        cost_usd=float(sum(call.cost_usd or 0 for call in calls)),
        event_costs_usd={e.cost_usd for e in events if isinstance(e, IterationCompleted)},
    )


async def _names(session: Transaction, mission: Mission, iteration: Iteration) -> Mapping[str, str]:
    """Replacements for the ids and roots of this agent, and for its mission's unique tag."""
    agent_id = mission.agent.id
    steps = await session.scalars(select(Step).filter_by(agent_id=agent_id))
    nodes = await session.scalars(select(GraphNode).filter_by(agent_id=agent_id))
    names = {mission.tag: "tag", str(agent_id): "agent", str(iteration.id): "iteration"}
    names |= {str(step.id): f"{step.kind} {step.index}" for step in steps}
    if iteration.graph_root is not None:
        names[iteration.graph_root.hex()] = "root at its end"
    return names | {str(node.id): f"{node.type} {node.name}" for node in nodes}


def _facts(event: Event) -> list[Any]:
    return [event.subject, event.model_dump(mode="json", exclude=_VARYING_FIELDS)]


def _json_texts(names: Mapping[str, str], values: Iterable[Any]) -> list[str]:
    """The values as sorted JSON texts, with ids replaced by names."""
    texts = [json.dumps(value, sort_keys=True) for value in values]
    for id_, name in names.items():
        texts = [text.replace(id_, name) for text in texts]
    return sorted(texts)
