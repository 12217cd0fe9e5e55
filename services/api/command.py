"""What people order: agents made, paused, run and deleted."""

from datetime import timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.etags import refuse_if_changed
from services.api.naming import name_for, names_after
from services.api.problems import ConflictError
from services.api.prompts import default_prompts
from shared.store import agents
from shared.store.budgets.standings import Caps
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
    return _storable(text)


def _name(text: str) -> str:
    text = " ".join(text.split())
    shortest, longest = NAME_CHARACTERS
    if not shortest <= len(text) <= longest:
        raise ValueError(f"a name has {shortest} to {longest} characters, this one {len(text)}")
    if "/" in text or not any(character.isalnum() for character in text):
        raise ValueError("a name has a letter or digit and no slash, for it stands in addresses")
    return _storable(text)


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("the character NUL cannot be stored; leave it out")
    return text


def _length(characters: tuple[int, int]) -> Any:
    """For the api's document: what is refused is said in words by the validator, which trims first."""
    shortest, longest = characters
    return Field(json_schema_extra={"minLength": shortest, "maxLength": longest})


Name = Annotated[str, AfterValidator(_name), _length(NAME_CHARACTERS)]
Interval = Annotated[int, Field(ge=SHORTEST_INTERVAL_SECONDS, le=LONGEST_INTERVAL_SECONDS)]
Models = dict[Phase, Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_storable)]]


class NewAgent(BaseModel):
    """What a new agent is made from. Without a name it is called after words of its mission."""

    model_config = ConfigDict(extra="forbid")

    mission: Annotated[str, AfterValidator(_mission), _length(MISSION_CHARACTERS)]
    name: Name | None = None
    interval_seconds: Interval = 300
    models: Models = {}
    """Phase to model; phases that are not named use the installation's model."""


class ChangedAgent(BaseModel):
    """What is given is changed, the rest stays.

    The mission is not among it: the six prompts speak of it, and are made anew with it or not at all.
    """

    model_config = ConfigDict(extra="forbid")

    # None of the defaults is ever used: what is not given is not looked at, and null is refused.
    name: Name = Field(default_factory=str)
    interval_seconds: Interval = Field(default_factory=int)
    models: Models = Field(default_factory=dict)
    """All of them: a phase that is not named here uses the installation's model from then on."""
    active: bool = Field(default_factory=bool)


async def create(
    session: AsyncSession, owner_id: UUID, wanted: NewAgent, caps: Caps
) -> AgentDetails:
    """`caps` is what the agent may spend until somebody says otherwise.

    Raises ConflictError where the owner has an agent of that name.
    """
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
        raise _taken(name) from error
    agent.models = {phase.value: model for phase, model in wanted.models.items()}
    agent.budget_usd_per_day, agent.budget_calls_per_day = caps.usd_per_day, caps.calls_per_day
    await session.flush()
    return await details(session, owner_id, agent.id)


async def change(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    wanted: ChangedAgent,
    if_match: str | None,
) -> AgentDetails:
    """Raises ProblemError (412) where the agent is not what `if_match` names, ConflictError where the name is taken."""
    await session.execute(
        select(Agent.id).where(Agent.id == agent_id).with_for_update(key_share=True)
    )
    refuse_if_changed(if_match, version_of(await details(session, owner_id, agent_id)))
    given = wanted.model_dump(mode="json", exclude_unset=True)
    if "interval_seconds" in given:
        # The next run stands where the longer rhythm put it; a shorter one begins now.
        soon = func.clock_timestamp() + timedelta(seconds=wanted.interval_seconds)
        given["next_run_at"] = func.least(Agent.next_run_at, soon)
    try:
        return await _changed(session, owner_id, agent_id, **given)
    except IntegrityError as error:
        raise _taken(wanted.name) from error


def version_of(agent: AgentDetails) -> str:
    """Differs when what people decide of the agent is changed, and not while it works."""
    return f"{agent.updated_at.timestamp():.6f}".replace(".", "-")


async def set_active(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, *, active: bool
) -> AgentDetails:
    return await _changed(session, owner_id, agent_id, active=active)


async def run_now(session: AsyncSession, owner_id: UUID, agent_id: UUID) -> AgentDetails:
    """The scheduler finds it, whether the agent is paused or not. Raises ConflictError while the agent rests."""
    rests_until = await session.scalar(
        select(Agent.resting_until).where(
            Agent.id == agent_id, Agent.resting_until > func.statement_timestamp()
        )
    )
    if rests_until is not None:
        raise ConflictError(
            "agent-rests",
            f"The agent rests until {rests_until:%Y-%m-%d %H:%M} (UTC), for a budget is used up: its inbox says which."
            " A higher budget ends the rest at once.",
        )
    return await _changed(session, owner_id, agent_id, run_requested_at=func.clock_timestamp())


def _taken(name: str) -> ConflictError:
    return ConflictError(
        "agent-name-taken", f"An agent named {name!r} exists already: choose another name."
    )


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
    return await details(session, owner_id, agent_id)


async def details(session: AsyncSession, owner_id: UUID, agent_id: UUID) -> AgentDetails:
    """Of an agent that is known to be the owner's."""
    found = await reading.find(session, owner_id, str(agent_id))
    assert found is not None
    return found
