"""What people order: agents made, paused, run and deleted."""

from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.naming import name_for, names_after
from services.api.problems import ConflictError
from services.api.prompts import default_prompts
from shared.store import agents
from shared.store.reading import agents as reading
from shared.store.reading.shapes import AgentDetails
from shared.store.tables import Agent
from shared.store.words import Phase

SHORTEST_INTERVAL_SECONDS: Final = 10
LONGEST_INTERVAL_SECONDS: Final = 366 * 24 * 3600

MISSION_CHARACTERS: Final = (10, 4000)
NAME_CHARACTERS: Final = (1, 80)


def _mission(text: str) -> str:
    text = text.strip()
    shortest, longest = MISSION_CHARACTERS
    if not shortest <= len(text) <= longest:
        raise ValueError(
            f"a mission has {shortest} to {longest} characters, this one {len(text)}: "
            "say in a sentence or more what to watch, and to what end"
        )
    return refuse_nul(text)


def _name(text: str) -> str:
    text = " ".join(text.split())
    shortest, longest = NAME_CHARACTERS
    if not shortest <= len(text) <= longest:
        raise ValueError(f"a name has {shortest} to {longest} characters, this one {len(text)}")
    if "/" in text or not any(character.isalnum() for character in text):
        raise ValueError("a name has a letter or digit and no slash, for it stands in addresses")
    return refuse_nul(text)


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("the character NUL cannot be stored; leave it out")
    return text


class NewAgent(BaseModel):
    """What a new agent is made from. Without a name it is called after words of its mission."""

    model_config = ConfigDict(extra="forbid")

    mission: Annotated[str, AfterValidator(_mission)]
    name: Annotated[str, AfterValidator(_name)] | None = None
    interval_seconds: Annotated[
        int, Field(ge=SHORTEST_INTERVAL_SECONDS, le=LONGEST_INTERVAL_SECONDS)
    ] = 300
    models: dict[Phase, Annotated[str, Field(min_length=1, max_length=200)]] = {}
    """Phase to model; phases that are not named use the installation's model."""


async def create(session: AsyncSession, owner_id: UUID, wanted: NewAgent) -> AgentDetails:
    """Raises ConflictError where the owner has an agent of that name."""
    name = wanted.name or await _free_name(session, owner_id, wanted.mission)
    prompts = default_prompts(wanted.mission, name, wanted.interval_seconds)
    try:
        agent = await agents.create(
            session,
            owner_id,
            name=name,
            mission=wanted.mission,
            prompts=prompts,
            interval_seconds=wanted.interval_seconds,
        )
    except IntegrityError as error:
        raise ConflictError(
            "agent-name-taken", f"An agent named {name!r} exists already: choose another name."
        ) from error
    agent.models = {phase.value: model for phase, model in wanted.models.items()}
    await session.flush()
    return await _details(session, owner_id, agent.id)


async def set_active(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, *, active: bool
) -> AgentDetails:
    return await _changed(session, owner_id, agent_id, active=active)


async def run_now(session: AsyncSession, owner_id: UUID, agent_id: UUID) -> AgentDetails:
    """The scheduler finds it, whether the agent is paused or not."""
    return await _changed(session, owner_id, agent_id, run_requested_at=func.clock_timestamp())


async def _free_name(session: AsyncSession, owner_id: UUID, mission: str) -> str:
    taken = set(
        await session.scalars(select(func.lower(Agent.name)).where(Agent.owner_id == owner_id))
    )
    return next(name for name in names_after(name_for(mission)) if name.lower() not in taken)


async def _changed(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, **values: object
) -> AgentDetails:
    await session.execute(
        update(Agent)
        .where(Agent.id == agent_id)
        .values(updated_at=func.clock_timestamp(), **values)
        .execution_options(synchronize_session=False)
    )
    return await _details(session, owner_id, agent_id)


async def _details(session: AsyncSession, owner_id: UUID, agent_id: UUID) -> AgentDetails:
    found = await reading.find(session, owner_id, str(agent_id))
    assert found is not None
    return found
