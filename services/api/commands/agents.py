"""Commands about agents: create, configure, pause, run, delete."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.http.etags import refuse_if_changed
from services.api.http.openapi import length_told
from services.api.http.problem_details import ConflictError
from services.api.queries import agents as reading
from shared import derived_events
from shared.agents import agents, configuration, fields
from shared.agents.configuration import Wanted
from shared.billing.budgets import Caps
from shared.database.tables import Agent
from shared.enums import AgentStatus, Phase, PromptMaker
from shared.events.envelope import Event
from shared.schemas.agents import PromptedPhase
from shared.schemas.base import AgentDetails

MOST_WORDS: Final = 4
FEWEST_WORDS: Final = 2
LONGEST_NAME_CHARACTERS: Final = 40
FALLBACK: Final = "Watch"

# What missions are asked with, rather than about.
_COMMON: Final = frozenset(
    """
    a about above across after against all also am an and any are around as at be because been before being below
    between both but by can could did do does doing during each every few for from further had has have having how
    if in into is it its itself just keep keeping me more most my need needs no not of off on once only or other our
    out over own same shall she should so some such than that the their them then there these they this those
    through to too under until up upon us very want was we were what when where which while who whom why will with
    within would you your
    alert analyse analyze assess check collect compare describe detect discover evaluate examine explain explore find
    follow gather get give identify inform investigate investors investor know learn look looking make monitor
    monitoring notice observe please recommend report research review search see show spot study tell track tracking
    understand watch watching
    best good great important interesting latest likely main major new possible potential recent relevant
    significant useful
    change changes development developments information insight insights kind kinds news opportunities opportunity
    situation thing things way ways
    """.split()  # noqa: SIM905  a list of its own for each line would hide the words
)

_WORD: Final = re.compile(r"[^\W_][\w'’&+-]*")
_TOKEN: Final = re.compile(rf"{_WORD.pattern}|[^\w\s]")


def name_for(mission: str) -> str:
    """Two to four significant words of the mission in title case, or fewer where it has no more."""
    words: list[str] = []
    for phrase in _phrases(mission):
        fresh = [word for word in phrase if word.lower() not in map(str.lower, words)]
        room = fresh[: MOST_WORDS - len(words)]
        # Part of a phrase says something else than the phrase; it serves only where there is nothing better.
        if len(words) >= FEWEST_WORDS and not _fits(words, fresh):
            break
        words += room
    named = " ".join(_titled(word) for word in words)[:LONGEST_NAME_CHARACTERS].strip()
    return named if len(words) >= FEWEST_WORDS else f"{named} {FALLBACK}".strip()


def _phrases(mission: str) -> Iterator[list[str]]:
    """Runs of significant words that stand side by side."""
    phrase: list[str] = []
    for token in _TOKEN.findall(mission):
        if _WORD.fullmatch(token) and token.lower() not in _COMMON:
            phrase.append(token)
        elif phrase:
            yield phrase
            phrase = []
    if phrase:
        yield phrase


def _fits(words: list[str], phrase: list[str]) -> bool:
    together = [*words, *phrase]
    return len(together) <= MOST_WORDS and len(" ".join(together)) <= LONGEST_NAME_CHARACTERS


def _titled(word: str) -> str:
    """With a capital first; words that have capitals of their own (EU, McKinsey) keep them."""
    return word if any(letter.isupper() for letter in word) else word[:1].upper() + word[1:]


Mission = Annotated[fields.Mission, length_told(*fields.MISSION_CHARACTERS)]
Name = Annotated[fields.Name, length_told(*agents.NAME_CHARACTERS)]
Interval = fields.Interval
FeedbackRounds = fields.FeedbackRounds
Models = fields.Models


class NewAgent(BaseModel):
    """What a new agent is made from. Without a name it is given one, at first of words of its mission."""

    model_config = ConfigDict(extra="forbid")

    mission: Mission
    name: Name | None = None
    interval_seconds: Interval = 300
    feedback_rounds: FeedbackRounds = 0
    """How often an iteration may look for what its Analyzers lacked, and ask them again."""
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
    feedback_rounds: FeedbackRounds = Field(default_factory=int)
    models: Models = Field(default_factory=dict)
    """All of them: a phase that is not named here uses the installation's model from then on."""
    active: bool = Field(default_factory=bool)


class NewConfiguration(BaseModel):
    """What to make an agent's prompts and types of; without a mission, of the one it has."""

    model_config = ConfigDict(extra="forbid")

    mission: Mission | None = None
    keep: list[PromptedPhase] = []
    """Phases whose prompts stay as they are."""


@dataclass(frozen=True)
class Ordered:
    """The agent as it is now, and what to tell the bus when that is committed."""

    agent: AgentDetails
    event: Event


async def create(session: AsyncSession, owner_id: UUID, wanted: NewAgent, caps: Caps) -> Ordered:
    """`caps` is what the agent may spend until somebody says otherwise.

    Raises ConflictError where the owner has an agent of that name.
    """
    name = wanted.name or await agents.free(session, owner_id, name_for(wanted.mission))
    try:
        agent = await agents.create(
            session,
            owner_id,
            name=name,
            mission=wanted.mission,
            interval_seconds=wanted.interval_seconds,
        )
    except IntegrityError as error:
        raise _taken(name) from error
    agent.feedback_rounds = wanted.feedback_rounds
    agent.models = {phase.value: model for phase, model in wanted.models.items()}
    agent.budget_usd_per_day, agent.budget_calls_per_day = caps.usd_per_day, caps.calls_per_day
    provisional = None if wanted.name else name
    step = await configuration.order(
        session, agent, Wanted(mission=wanted.mission, provisional_name=provisional)
    )
    return Ordered(await details(session, owner_id, agent.id), derived_events.order(step))


async def configure(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, wanted: NewConfiguration
) -> Ordered:
    """Has the agent's prompts and types made anew; what it has stays until they are there."""
    agent = await agents.locked(session, agent_id)
    step = await configuration.order(
        session,
        agent,
        Wanted(
            mission=wanted.mission or agent.mission,
            provisional_name=await configuration.provisional_name(session, agent),
            keep=tuple(wanted.keep),
            prompts_version=agent.prompts_version,
        ),
    )
    return Ordered(await details(session, owner_id, agent_id), derived_events.order(step))


async def edit_prompt(
    session: AsyncSession, agent_id: UUID, phase: Phase, prompt: str, *, versions: str | None
) -> None:
    """Makes `prompt` the agent's for `phase`. `versions` is what If-Match says, if it was sent.

    Raises ProblemError (412) where they have changed since, and ConflictError where the agent has none yet.
    """
    agent = await agents.locked(session, agent_id)
    refuse_if_changed(versions, str(agent.prompts_version))
    if not configuration.of_agent(agent):
        raise ConflictError(
            "not-configured", f"{agent.name} has no prompts yet: wait until it is configured."
        )
    await configuration.write(session, agent, {phase: prompt}, PromptMaker.OWNER)


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
    """The scheduler finds it, whether the agent is paused or not, as soon as it is configured.

    Raises ConflictError where it could not be, and while it rests.
    """
    agent = await agents.get(session, agent_id)
    if agent.status == AgentStatus.FAILED:
        raise ConflictError("not-configured", f"{agent.name} cannot run. {agent.fault}")
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
