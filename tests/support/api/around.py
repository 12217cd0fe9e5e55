"""What is around an agent: who comes in, where its inbox is sent, what was said to it, how it was made."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.accounts import credentials
from shared.accounts.secrets import hash_secret
from shared.agents import agents, configuration, conversations, memories
from shared.agents.configuration import ConfigurationInput
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import Agent, BrowserSession, Interaction, Step
from shared.enums import AccessScope, DestinationKind, MemoryKind, Phase, StepStatus
from shared.notifications import deliveries, destinations
from shared.notifications.webhooks import new_secret
from tests.support.api.rows import doubled, merged

ADDRESS: Final = "https://hooks.example.org/vigil"


@dataclass(frozen=True)
class Around:
    user_id: UUID
    """Of somebody who owns nothing."""
    link_secret: str
    """By which that user may come in, once."""
    token_id: UUID
    """As the session, of the agent's owner."""
    session_id: UUID
    session_secret: str
    destination_id: UUID
    delivery_id: UUID
    """That failed."""
    message_id: UUID
    """An answer that is complete."""
    failed_message_id: UUID
    memory_id: UUID
    merge_id: UUID
    kept: UUID
    """With `gone`: nodes that can be made one."""
    gone: UUID


async def around(database: Database, agent_id: UUID) -> Around:
    async with database.transaction() as session:
        agent = await agents.lock_agent(session, agent_id)
        await _configured(session, agent)
        user_id, link_secret = await _visitor(session, agent)
        session_id, session_secret = await _signed_in(session, agent)
        token, _ = await credentials.create_token(
            session, agent.owner_id, name="spare", scopes=[AccessScope.READ]
        )
        destination_id, delivery_id = await _sent(session, agent)
        kept, gone = await doubled(session, agent, "Cell", "Cells")
        complete, failed = await _answered(session, agent), await _unanswered(session, agent)
        return Around(
            user_id=user_id,
            link_secret=link_secret,
            token_id=token.id,
            session_id=session_id,
            session_secret=session_secret,
            destination_id=destination_id,
            delivery_id=delivery_id,
            message_id=complete,
            failed_message_id=failed,
            merge_id=await merged(session, agent),
            kept=kept,
            gone=gone,
            memory_id=await memories.remember(session, agent.id, MemoryKind.WISH, "Watch nickel."),
        )


async def _configured(session: AsyncSession, agent: Agent) -> None:
    step = await configuration.request_configuration(
        session, agent, ConfigurationInput(mission=agent.mission)
    )
    asked = {"messages": [{"role": "user", "content": agent.mission}], "tools": []}
    session.add(
        Interaction(
            id=uuid4(),
            agent_id=agent.id,
            step_id=step.id,
            phase=Phase.CONFIGURATION,
            model="m",
            system_prompt="You make agents.",
            request=asked,
            events=[],
        )
    )
    await _end(session, step, StepStatus.COMPLETED)


async def _visitor(session: AsyncSession, agent: Agent) -> tuple[UUID, str]:
    user = await credentials.create_user(
        session, name=f"visitor-{agent.id}", email=None, operator=False
    )
    return user.id, await _link(session, user.id)


async def _signed_in(session: AsyncSession, agent: Agent) -> tuple[UUID, str]:
    link_secret = await _link(session, agent.owner_id)
    secret = await credentials.open_session(session, link_secret, "a browser")
    assert secret is not None
    mine = select(BrowserSession.id).where(BrowserSession.digest == hash_secret(secret))
    return (await session.scalars(mine)).one(), secret


async def _link(session: AsyncSession, user_id: UUID) -> str:
    made = await credentials.create_link(session, user_id)
    return made[1]


async def _sent(session: AsyncSession, agent: Agent) -> tuple[UUID, UUID]:
    """A webhook, and its test, which has failed."""
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


async def _answered(session: AsyncSession, agent: Agent) -> UUID:
    step, answer_id = await _asked(session, agent)
    look = {"key": "1", "tool": "queryGraph", "about": "nodes of type Thing"}
    cited = {"kind": "node", "id": str(uuid4()), "type": None, "name": None}
    await conversations.store_partial_answer(
        session, answer_id, draft=1, content="Halden does.", tool_uses=[look]
    )
    await conversations.complete_answer(session, answer_id, [cited])
    await _end(session, step, StepStatus.COMPLETED)
    return answer_id


async def _unanswered(session: AsyncSession, agent: Agent) -> UUID:
    step, answer_id = await _asked(session, agent)
    await _end(session, step, StepStatus.FAILED, error="the model is away")
    return answer_id


async def _asked(session: AsyncSession, agent: Agent) -> tuple[Step, UUID]:
    step = await conversations.add_question(session, agent.id, "Who buys lithium?")
    assert isinstance(step, Step)
    return step, ids.answer_id(agent.id, step.index)


async def _end(
    session: AsyncSession, step: Step, status: StepStatus, error: str | None = None
) -> None:
    await session.execute(
        update(Step)
        .where(Step.id == step.id)
        .values(status=status, error=error, ended_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
