"""Resources around an agent: users, sessions, tokens, destinations, conversation, configuration and merges."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import func, select, update

from shared.accounts import credentials
from shared.accounts.secrets import hash_secret
from shared.agents import agents, configuration, conversations, memories
from shared.agents.configuration import ConfigurationInput
from shared.agents.conversations import TooManyOpenTurns
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import Agent, BrowserSession, Interaction, Step
from shared.database.transaction import Transaction
from shared.enums import AccessScope, DestinationKind, MemoryKind, Phase, StepStatus
from shared.notifications import deliveries, destinations
from shared.notifications.webhooks import new_secret
from shared.workflow.iterations import StepRow
from tests.support.api.rows import add_distinct_pair, add_duplicates, add_merge

ADDRESS: Final = "https://hooks.example.org/vigil"


@dataclass(frozen=True)
class AgentResources:
    user_id: UUID
    """A user who owns nothing."""
    link_secret: str
    """The secret of a sign-in link for that user; it works once."""
    token_id: UUID
    """Belongs to the agent's owner, as the session does."""
    session_id: UUID
    session_secret: str
    destination_id: UUID
    delivery_id: UUID
    """A failed delivery."""
    message_id: UUID
    """A complete answer."""
    failed_message_id: UUID
    memory_id: UUID
    merge_id: UUID
    pair_id: UUID
    kept: UUID
    """`kept` and `merged` are nodes that can be merged."""
    merged: UUID
    one: UUID
    """`one` and `other` are nodes that can be declared distinct."""
    other: UUID


async def create_agent_resources(database: Database, agent_id: UUID) -> AgentResources:
    async with database.transaction() as session:
        agent = await agents.lock_agent(session, agent_id)
        await _add_configuration(session, agent)
        user_id, link_secret = await _add_visitor(session, agent)
        session_id, session_secret = await _open_session(session, agent)
        token, _ = await credentials.create_token(
            session, agent.owner_id, name="spare", scopes=[AccessScope.READ]
        )
        destination_id, delivery_id = await _add_failed_delivery(session, agent)
        kept, duplicate = await add_duplicates(session, agent, "Cell", "Cells")
        one, other = await add_duplicates(session, agent, "Drill", "Drills")
        complete = await _add_answer(session, agent)
        failed = await _add_failed_answer(session, agent)
        return AgentResources(
            user_id=user_id,
            link_secret=link_secret,
            token_id=token.id,
            session_id=session_id,
            session_secret=session_secret,
            destination_id=destination_id,
            delivery_id=delivery_id,
            message_id=complete,
            failed_message_id=failed,
            merge_id=await add_merge(session, agent),
            pair_id=await add_distinct_pair(session, agent),
            kept=kept,
            merged=duplicate,
            one=one,
            other=other,
            memory_id=await memories.remember(session, agent.id, MemoryKind.WISH, "Watch nickel."),
        )


async def _add_configuration(session: Transaction, agent: Agent) -> None:
    step = await configuration.request_configuration(
        session, agent, ConfigurationInput(mission=agent.mission)
    )
    request = {"messages": [{"role": "user", "content": agent.mission}], "tools": []}
    await session.insert(
        Interaction,
        id=uuid4(),
        agent_id=agent.id,
        step_id=step.id,
        phase=Phase.CONFIGURATION,
        model="m",
        system_prompt="You make agents.",
        request=request,
    )
    await _end_step(session, step, StepStatus.COMPLETED)


async def _add_visitor(session: Transaction, agent: Agent) -> tuple[UUID, str]:
    user = await credentials.create_user(
        session, name=f"visitor-{agent.id}", email=None, operator=False
    )
    return user.id, await _create_link(session, user.id)


async def _open_session(session: Transaction, agent: Agent) -> tuple[UUID, str]:
    link_secret = await _create_link(session, agent.owner_id)
    secret = await credentials.open_session(session, link_secret, "a browser")
    assert secret is not None
    query = select(BrowserSession.id).where(BrowserSession.digest == hash_secret(secret))
    return (await session.scalars(query)).one(), secret


async def _create_link(session: Transaction, user_id: UUID) -> str:
    _, secret = await credentials.create_link(session, user_id)
    return secret


async def _add_failed_delivery(session: Transaction, agent: Agent) -> tuple[UUID, UUID]:
    """Creates a webhook and a test delivery that failed; returns both ids."""
    destination_id = await destinations.create(
        session,
        agent.owner_id,
        kind=DestinationKind.WEBHOOK,
        address=ADDRESS,
        agent_id=agent.id,
    )
    assert destination_id is not None
    await destinations.rotate_secret(session, destination_id, new_secret(), overlap=timedelta())
    await deliveries.create_test(session, destination_id)
    (lease,) = await deliveries.claim(
        session, "test", seconds=60, limit=1, per_destination=1, running_by_destination={}
    )
    await deliveries.record_failed(session, lease, "the receiver answered 500", 500)
    return destination_id, lease.delivery_id


async def _add_answer(session: Transaction, agent: Agent) -> UUID:
    step, answer_id = await _add_question(session, agent)
    tool_use = {"key": "1", "tool": "queryGraph", "about": "nodes of type Thing"}
    citation = {"kind": "node", "id": str(uuid4()), "type": None, "name": None}
    await conversations.store_partial_answer(
        session, answer_id, draft=1, content="Halden does.", tool_uses=[tool_use]
    )
    await conversations.complete_answer(session, answer_id, [citation])
    await _end_step(session, step, StepStatus.COMPLETED)
    return answer_id


async def _add_failed_answer(session: Transaction, agent: Agent) -> UUID:
    step, answer_id = await _add_question(session, agent)
    await _end_step(session, step, StepStatus.FAILED, error="the model is away")
    return answer_id


async def _add_question(session: Transaction, agent: Agent) -> tuple[StepRow, UUID]:
    step = await conversations.add_question(session, agent.id, "Who buys lithium?")
    assert not isinstance(step, TooManyOpenTurns | None)
    return step, ids.answer_id(agent.id, step.index)


async def _end_step(
    session: Transaction, step: StepRow, status: StepStatus, error: str | None = None
) -> None:
    await session.execute(
        update(Step)
        .where(Step.id == step.id)
        .values(status=status, error=error, ended_at=func.clock_timestamp())
    )
