"""Commands about agents: create, configure, pause, run, delete."""

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Body
from psycopg.errors import IntegrityError
from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from sqlalchemy import func, select, update

from services.api.auth.dependencies import Access, AgentAccess, OwnedAgent
from services.api.http.dependencies import EventAfterCommit, PublishAfterCommit
from services.api.http.etags import refuse_if_changed
from services.api.http.problem_details import ConflictError, ProblemError
from services.api.http.texts import length_in_schema
from services.api.resources.agents import model
from shared import derived_events
from shared.agents import agents, configuration, fields
from shared.agents.configuration import ConfigurationInput
from shared.billing.budgets import Caps
from shared.database.tables import Agent
from shared.domains import DomainPreferences
from shared.enums import AgentStatus, Phase, PromptMaker
from shared.schemas.agents import PromptedPhase
from shared.schemas.base import AgentDetails

MAX_NAME_WORDS: Final = 4
MIN_NAME_WORDS: Final = 2
MAX_NAME_CHARS: Final = 40
FALLBACK_NAME: Final = "Watch"

# Words that missions begin with or ask with. They say nothing about the subject.
_STOP_WORDS: Final = frozenset(
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


def name_from_mission(mission: str) -> str:
    """Returns a name of two to four significant words of the mission in title case, or fewer."""
    words: list[str] = []
    for phrase in _phrases(mission):
        fresh = [word for word in phrase if word.lower() not in map(str.lower, words)]
        room = fresh[: MAX_NAME_WORDS - len(words)]
        # A part of a phrase can mean something else than the phrase, so parts are used only as a
        # fallback.
        if len(words) >= MIN_NAME_WORDS and not _fits(words, fresh):
            break
        words += room
    name = " ".join(_title_case(word) for word in words)[:MAX_NAME_CHARS].strip()
    return name if len(words) >= MIN_NAME_WORDS else f"{name} {FALLBACK_NAME}".strip()


def _phrases(mission: str) -> Iterator[list[str]]:
    """Returns runs of adjacent significant words."""
    phrase: list[str] = []
    for token in _TOKEN.findall(mission):
        if _WORD.fullmatch(token) and token.lower() not in _STOP_WORDS:
            phrase.append(token)
        elif phrase:
            yield phrase
            phrase = []
    if phrase:
        yield phrase


def _fits(words: list[str], phrase: list[str]) -> bool:
    together = [*words, *phrase]
    return len(together) <= MAX_NAME_WORDS and len(" ".join(together)) <= MAX_NAME_CHARS


def _title_case(word: str) -> str:
    """Capitalizes a word, unless it has capitals of its own (EU, McKinsey)."""
    return word if any(letter.isupper() for letter in word) else word[:1].upper() + word[1:]


Mission = Annotated[fields.Mission, length_in_schema(*fields.MISSION_CHARACTERS)]
Name = Annotated[fields.Name, length_in_schema(*agents.NAME_CHARACTERS)]
Interval = fields.Interval
FeedbackRounds = fields.FeedbackRounds
Models = fields.Models
DEFAULT_ENTAILMENT_SHARE = 0.05
_CAP_OF_READING: Any = Field(
    None,
    validation_alias=AliasChoices("verification_usd_per_day", "entailment_usd_per_day"),
)
"""The second name is that of releases before 0.4."""
Domains = fields.Domains


class NewAgent(BaseModel):
    """A new agent. Without a name it gets one, at first from words of its mission."""

    model_config = ConfigDict(extra="forbid")

    mission: Mission
    name: Name | None = None
    interval_seconds: Interval = 300
    max_interval_seconds: Interval | None = None
    """The interval grows up to this while iterations are quiet; null: it does not grow."""
    feedback_rounds: FeedbackRounds = 0
    """How often an iteration may research data that its Analyzers lacked and then run them again."""
    advice_from_one_analysis: bool = False
    """Whether advice may cite a single analysis; else it must cite two."""
    actions: fields.Actions | None = None
    """The words for what advice tells the owner to do, with what each means; null: BUY, HOLD and SELL."""
    verification_usd_per_day: fields.VerificationUsd | None = _CAP_OF_READING
    """Daily cap (UTC) in USD of reading conclusions and evidence; 0: nothing is read, null: no cap of its own."""
    entailment_share: fields.EntailmentShare = DEFAULT_ENTAILMENT_SHARE
    """Share of new evidence that is read. Of what conclusions cite, all is."""
    preferred_domains: Domains = []
    """Their pages are the first in search results. A domain covers its subdomains."""
    barred_domains: Domains = []
    """Their pages are neither found nor read nor cited."""
    corpus: fields.Corpus | None = None
    """A corpus that the sandbox's search reads for this agent; null: that of the installation. It cannot be changed."""
    archive_date: fields.ArchiveDate | None = None
    """The agent works as if each day were this date, and does not use what was published later; null: the real date."""
    models: Models = {}
    """Phase to model. Phases without an entry use the installation's model."""


class ChangedAgent(BaseModel):
    """Changes of an agent; missing fields stay.

    The mission is not among them, because the six prompts depend on it: use `configure`.
    """

    model_config = ConfigDict(extra="forbid")

    # The defaults are never used: fields that are not set are ignored, and null is rejected if the type has none.
    name: Name = Field(default_factory=str)
    interval_seconds: Interval = Field(default_factory=int)
    max_interval_seconds: Interval | None = None
    """Null ends the growth of the interval."""
    feedback_rounds: FeedbackRounds = Field(default_factory=int)
    advice_from_one_analysis: bool = Field(default_factory=bool)
    actions: fields.Actions = Field(default_factory=dict)
    """The complete mapping. Advice keeps the word that it was given with."""
    verification_usd_per_day: fields.VerificationUsd | None = _CAP_OF_READING
    """Null: no cap of its own."""
    entailment_share: fields.EntailmentShare = Field(default_factory=float)
    preferred_domains: Domains = Field(default_factory=list)
    """The complete list, as are the barred ones."""
    barred_domains: Domains = Field(default_factory=list)
    archive_date: fields.ArchiveDate | None = None
    """Null: the real date."""
    models: Models = Field(default_factory=dict)
    """The complete mapping: phases without an entry use the installation's model from then on."""
    active: bool = Field(default_factory=bool)


class NewConfiguration(BaseModel):
    """What to make an agent's prompts and types of; without a mission, of the one it has."""

    model_config = ConfigDict(extra="forbid")

    mission: Mission | None = None
    keep: list[PromptedPhase] = []
    """Phases whose prompts stay as they are."""


async def create_agent(
    access: Access, new_agent: NewAgent, caps: Caps, afterwards: PublishAfterCommit
) -> AgentDetails:
    """Creates an agent and requests its configuration.

    `caps` is its initial budget. Raises ConflictError where the owner has an agent of that name, and ProblemError (422)
    where the same domain is preferred and barred, or the longest interval is shorter than the interval.
    """
    session, owner_id = access.session, access.owner_id
    _refuse_short_maximum(new_agent.interval_seconds, new_agent.max_interval_seconds)
    _refuse_contradiction(new_agent.preferred_domains, new_agent.barred_domains)
    name = new_agent.name or await agents.find_free_name(
        session, owner_id, name_from_mission(new_agent.mission)
    )
    settings = {field: getattr(new_agent, field) for field in NewAgent.model_fields}
    if new_agent.actions is None:
        del settings["actions"]
    try:
        agent = await agents.create_agent(
            session,
            owner_id,
            **settings
            | {
                "name": name,
                "models": {phase.value: model for phase, model in new_agent.models.items()},
                "budget_usd_per_day": caps.usd_per_day,
                "budget_calls_per_day": caps.calls_per_day,
            },
        )
    except IntegrityError as error:
        raise _name_taken_error(name) from error
    provisional = None if new_agent.name else name
    step = await configuration.request_configuration(
        session, agent, ConfigurationInput(mission=new_agent.mission, provisional_name=provisional)
    )
    afterwards.publish(derived_events.agent_task_event(step))
    return await model.get_agent(access, agent.id)


async def configure(
    access: OwnedAgent,
    afterwards: EventAfterCommit,
    body: Annotated[NewConfiguration, Body()] = NewConfiguration(),  # noqa: B008  never changed
) -> AgentDetails:
    """Generates prompts and types again, from another mission if one is given. The agent keeps its present ones until
    then. A failed configuration is retried. If requested twice, the last request counts.
    """
    agent = await agents.lock_agent(access.session, access.agent.id)
    step = await configuration.request_configuration(
        access.session,
        agent,
        ConfigurationInput(
            mission=body.mission or agent.mission,
            provisional_name=await configuration.provisional_name(access.session, agent),
            keep=tuple(body.keep),
            prompts_version=agent.prompts_version,
        ),
    )
    afterwards.publish(derived_events.agent_task_event(step))
    return await model.get_agent(access, access.agent.id)


async def edit_prompt(
    access: AgentAccess, phase: Phase, prompt: str, *, versions: str | None
) -> None:
    """Replaces the agent's prompt for `phase`. `versions` are the ETags of If-Match, if sent.

    Raises ProblemError (412) where the prompts have changed since, and ConflictError where the
    agent has none yet.
    """
    agent = await agents.lock_agent(access.session, access.agent.id)
    refuse_if_changed(versions, str(agent.prompts_version))
    if not configuration.prompts_by_phase(agent):
        raise ConflictError(
            "not-configured", f"{agent.name} has no prompts yet: wait until it is configured."
        )
    await configuration.store_prompts(access.session, agent, {phase: prompt}, PromptMaker.OWNER)
    await agents.end_backoff(access.agent.id).execute(access.session)


async def change_agent(
    access: AgentAccess, changes: ChangedAgent, if_match: str | None
) -> AgentDetails:
    """Changes an agent's settings.

    Raises ProblemError (412) where the agent's version is none of `if_match`, or (422) where the same domain is
    preferred and barred or the longest interval is shorter than the interval, and ConflictError where the name is taken.
    """
    of_agent = select(Agent.id).where(Agent.id == access.agent.id)
    await access.session.execute(of_agent.with_for_update(key_share=True))
    details = await model.get_agent(access, access.agent.id)
    refuse_if_changed(if_match, agent_version(details))
    values = changes.model_dump(mode="json", exclude_unset=True)
    if "archive_date" in values:
        values["archive_date"] = changes.archive_date
    if values.keys() & {"preferred_domains", "barred_domains"}:
        _refuse_contradiction(
            values.get("preferred_domains", details.preferred_domains),
            values.get("barred_domains", details.barred_domains),
        )
    _refuse_short_maximum(
        values.get("interval_seconds", details.interval_seconds),
        values.get("max_interval_seconds", details.max_interval_seconds),
    )
    if values.keys() & {"interval_seconds", "max_interval_seconds"}:
        # `next_run_at` was computed with another interval, or with one that had grown.
        seconds = values.get("interval_seconds", details.interval_seconds)
        soon = func.clock_timestamp() + timedelta(seconds=seconds)
        values["next_run_at"] = func.least(Agent.next_run_at, soon)
    try:
        return await _update_agent(access, **values)
    except IntegrityError as error:
        raise _name_taken_error(changes.name) from error


def agent_version(agent: AgentDetails) -> str:
    """Returns a version that changes with the settings of the agent, but not with its work."""
    return f"{agent.updated_at.timestamp():.6f}".replace(".", "-")


async def delete_agent(access: OwnedAgent) -> None:
    """Deletes an agent with its graph. Its running work ends."""
    await agents.delete_agent(access.session, access.agent.id)


async def pause_agent(access: OwnedAgent) -> AgentDetails:
    """Pauses the schedule: no more iterations are started by it. A running iteration continues."""
    return await _update_agent(access, active=False)


async def resume_agent(access: OwnedAgent) -> AgentDetails:
    return await _update_agent(access, active=True)


async def run_agent(access: OwnedAgent) -> AgentDetails:
    """Requests an iteration now, or after the running one. Repeated requests count once.

    Refused for an agent that is suspended by its budget or whose configuration failed.
    """
    agent = await agents.get_agent(access.session, access.agent.id)
    if agent.status == AgentStatus.FAILED:
        raise ConflictError("not-configured", f"{agent.name} cannot run. {agent.fault}")
    suspended_until = await access.session.scalar(
        select(Agent.suspended_until).where(
            Agent.id == agent.id, Agent.suspended_until > func.statement_timestamp()
        )
    )
    if suspended_until is not None:
        raise ConflictError(
            "agent-suspended",
            f"The agent is suspended until {suspended_until:%Y-%m-%d %H:%M} (UTC): a daily budget is reached."
            " Your inbox says which one. A higher budget resumes it immediately.",
        )
    # The agent itself stays as it is, so that its next plan does not state a change.
    return await _update_agent(
        access, run_requested_at=func.clock_timestamp(), updated_at=Agent.updated_at
    )


def _refuse_short_maximum(seconds: int, maximum: int | None) -> None:
    if maximum is not None and maximum < seconds:
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "short-maximum",
            f"The longest interval ({maximum} s) must not be shorter than the interval ({seconds} s).",
        )


def _refuse_contradiction(preferred: Sequence[str], barred: Sequence[str]) -> None:
    if (contradiction := DomainPreferences(preferred, barred).contradiction()) is not None:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "contradictory-domains", contradiction)


def _name_taken_error(name: str) -> ConflictError:
    return ConflictError(
        "agent-name-taken", f"An agent named {name!r} already exists: choose another name."
    )


async def _update_agent(access: AgentAccess, **values: object) -> AgentDetails:
    """Lets an agent whose settings change run without the delay of failed iterations."""
    await access.session.execute(
        update(Agent)
        .where(Agent.id == access.agent.id)
        .values(**{"updated_at": func.clock_timestamp(), **values})
    )
    await agents.end_backoff(access.agent.id).execute(access.session)
    return await model.get_agent(access, access.agent.id)
