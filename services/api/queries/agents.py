"""Agents, their configurations and their current state."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Date,
    Select,
    and_,
    bindparam,
    cast,
    exists,
    func,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.queries import costs, transcripts
from services.api.queries.notifications import IS_UNREAD
from shared.agents import agents, configuration
from shared.agents.configuration import ConfigurationInput as WantedConfiguration
from shared.agents.configuration import newest_step_id
from shared.database.pagination import Keyset, paginate
from shared.database.tables import Agent, BudgetDay, InboxItem, Iteration, PromptVersion, Step
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, AgentStatus, IterationStatus, Phase, StepStatus
from shared.schemas.agents import (
    ConfigurationDetails,
    PromptedPhase,
    PromptResponse,
    PromptsResponse,
)
from shared.schemas.base import (
    AgentDetails,
    AgentResponse,
    AttentionResponse,
    ConfigurationResponse,
    IterationSummary,
    Page,
    PageRequest,
    Trouble,
)
from shared.schemas.base import PageRequest as WantedPage
from shared.workflow import attention
from shared.workflow.attention import NEEDS_ATTENTION, OTHER_ERROR, Attention


@dataclass(frozen=True)
class DashboardCounters:
    """`spent_usd` and `spent_calls` are of today (UTC)."""

    unread: int = 0
    """Unread advice and notices."""
    spent_usd: float = 0.0
    spent_calls: int = 0


async def dashboard_counters(
    session: AsyncSession, agent_ids: Collection[UUID]
) -> dict[UUID, DashboardCounters]:
    """Returns the dashboard counters of each agent.

    The caller has checked that they are the owner's.
    """
    ids = {"agents": list(agent_ids)}
    unread: dict[UUID, int] = dict((await session.execute(_UNREAD, ids)).all())
    spent = {agent: (float(usd), calls) for agent, usd, calls in await session.execute(_SPENT, ids)}
    return {
        agent_id: DashboardCounters(unread.get(agent_id, 0), *spent.get(agent_id, (0.0, 0)))
        for agent_id in agent_ids
    }


_UNREAD: Final = (
    select(InboxItem.agent_id, func.count())
    .where(InboxItem.agent_id.in_(bindparam("agents", expanding=True)), IS_UNREAD)
    .group_by(InboxItem.agent_id)
)
_TODAY: Final = cast(func.timezone("UTC", func.statement_timestamp()), Date)
_SPENT: Final = select(BudgetDay.scope, BudgetDay.spent_usd, BudgetDay.spent_calls).where(
    BudgetDay.scope.in_(bindparam("agents", expanding=True)), BudgetDay.day == _TODAY
)


@dataclass(frozen=True)
class RecentIteration:
    number: int
    status: str
    seconds: float
    """So far, if it is running."""
    is_stopped: bool = False
    """Whether it failed only because a daily budget was reached."""


async def recent_iterations(
    session: AsyncSession, agent_ids: Collection[UUID], limit: int
) -> dict[UUID, list[RecentIteration]]:
    """Returns the last iterations of each agent, oldest first."""
    parameters = {"agents": list(agent_ids), "limit": limit}
    recent: dict[UUID, list[RecentIteration]] = {agent_id: [] for agent_id in agent_ids}
    for agent_id, number, status, seconds, stopped in await session.execute(_RECENT, parameters):
        recent[agent_id].append(RecentIteration(number, status, float(seconds), stopped))
    return recent


_RECENT: Final = text(
    f"""
    select agent.id, iteration.number, iteration.status,
        extract(epoch from coalesce(iteration.ended_at, statement_timestamp()) - iteration.started_at),
        iteration.status = '{IterationStatus.FAILED}' and iteration.errors <> '[]'
            and not jsonb_path_exists(iteration.errors, '{OTHER_ERROR}')
    from unnest(cast(:agents as uuid[])) as agent (id)
    cross join lateral (
        select number, status, errors, started_at, ended_at from iterations
        where agent_id = agent.id order by number desc limit :limit
    ) as iteration
    order by agent.id, iteration.number
    """
)


@dataclass(frozen=True)
class NewestConclusion:
    id: UUID
    name: str
    type: str
    verdict: str
    updated_at: datetime


async def newest_conclusions(
    session: AsyncSession, agent_ids: Collection[UUID]
) -> dict[UUID, NewestConclusion]:
    """Returns the newest advice of each agent, or its newest analysis if it has no advice."""
    rows = await session.execute(_NEWEST_CONCLUSIONS, {"agents": list(agent_ids)})
    return {agent_id: NewestConclusion(*columns) for agent_id, *columns in rows}


_NEWEST_CONCLUSIONS: Final = text(
    f"""
    select distinct on (agent.id) agent.id, node.id, node.name, node.type,
        coalesce(node.properties ->> 'action', node.properties ->> 'type'), node.updated_at
    from unnest(cast(:agents as uuid[])) as agent (id)
    cross join (values ('{ADVICE_TYPE}', 0), ('{ANALYSIS_TYPE}', 1)) as kind (type, place)
    cross join lateral (
        select id, name, type, properties, updated_at from graph_nodes
        where agent_id = agent.id and type = kind.type
        order by updated_at desc limit 1
    ) as node
    order by agent.id, kind.place
    """
)


_HISTORY = Keyset("prompt_versions", (PromptVersion.version, PromptVersion.phase))


async def newest_configuration(session: AsyncSession, agent: Agent) -> ConfigurationResponse | None:
    step = await _newest_step(session, agent)
    return None if step is None else _configuration_view(step)


async def newest_configuration_details(
    session: AsyncSession, agent_id: UUID
) -> ConfigurationDetails | None:
    """Returns the newest configuration, with its transcript."""
    step = await _newest_step(session, await session.get_one(Agent, agent_id))
    if step is None:
        return None
    new_configuration = WantedConfiguration.model_validate(step.input)
    runs = await transcripts.list_phase_runs_of_step(session, step.id)
    return ConfigurationDetails(
        **dict(_configuration_view(step)),
        mission=new_configuration.mission,
        keep=[phase.value for phase in new_configuration.keep],
        interaction=runs[0] if runs else None,
        running_calls=await costs.running_calls_of_step(session, step.id),
    )


async def current_prompts(session: AsyncSession, agent_id: UUID) -> PromptsResponse:
    """Returns the current prompts in the order of the phases."""
    agent = await session.get_one(Agent, agent_id, populate_existing=True)
    rows = await session.scalars(
        select(PromptVersion)
        .where(PromptVersion.agent_id == agent_id)
        .order_by(PromptVersion.phase, PromptVersion.version.desc())
        .ext(distinct_on(PromptVersion.phase))
    )
    rows_by_phase = {Phase(row.phase): row for row in rows}
    items = [
        _prompt(rows_by_phase[phase]) if phase in rows_by_phase else _unrecorded(phase, prompt)
        for phase, prompt in configuration.prompts_by_phase(agent).items()
    ]
    return PromptsResponse(version=agent.prompts_version, items=items)


async def list_prompt_versions(
    session: AsyncSession, agent_id: UUID, phase: PromptedPhase | None, page_request: WantedPage
) -> Page[PromptResponse]:
    """Lists prompt versions, newest first; with `phase`, those of one phase."""
    rows = select(PromptVersion).where(PromptVersion.agent_id == agent_id)
    if phase is not None:
        rows = rows.where(PromptVersion.phase == phase)
    return (await paginate(session, rows, _HISTORY, page_request)).page(_prompt)


async def _newest_step(session: AsyncSession, agent: Agent) -> Step | None:
    step_id = newest_step_id(agent)
    return None if step_id is None else await session.get(Step, step_id, populate_existing=True)


def _configuration_view(step: Step) -> ConfigurationResponse:
    return ConfigurationResponse(
        step_id=step.id,
        status=step.status,
        error=step.error,
        attempts=step.attempts,
        retry_at=step.retry_at,
        waiting_since=step.waiting_since,
        requested_at=step.first_requested_at,
        ended_at=step.ended_at,
    )


def _prompt(row: PromptVersion) -> PromptResponse:
    return PromptResponse.model_validate(row)


def _unrecorded(phase: Phase, prompt: str) -> PromptResponse:
    return PromptResponse(
        phase=phase.value, version=0, made_by=None, created_at=None, prompt=prompt
    )


_BEING_TRIED = (StepStatus.PENDING, StepStatus.RUNNING)
_BY_NAME = Keyset("agents", (func.lower(Agent.name),), descending=False)


@dataclass(frozen=True)
class AgentRef:
    """The identity of an agent, which is all that most requests need."""

    id: UUID
    name: str


class AgentState(StrEnum):
    """What an agent is doing, for finding it among many."""

    RUNNING = "running"
    """An iteration is running."""
    WAITING = "waiting"
    """Waiting for its next iteration; not paused."""
    PAUSED = "paused"
    """No iteration starts on schedule; one may still be running."""
    ATTENTION = "attention"
    """Its configuration failed, its iterations fail or have no result, its budget is used up, or a setting is wrong."""


async def list_agents(
    session: AsyncSession,
    owner_id: UUID,
    page_request: PageRequest,
    *,
    state: AgentState | None = None,
    search: str | None = None,
) -> Page[AgentResponse]:
    """Lists agents by name; with `state` and `search`, those in that state whose names contain all the words."""
    statement = _select_agents(owner_id)
    if state is not None:
        statement = statement.where(_IN_STATE[state])
    for word in (search or "").split():
        statement = statement.where(Agent.name.icontains(word, autoescape=True))
    page_slice = await paginate(session, statement, _BY_NAME, page_request)
    return Page(items=await _views(session, page_slice.rows), next=page_slice.next)


async def find_agent(session: AsyncSession, owner_id: UUID, reference: str) -> AgentDetails | None:
    """Returns the owner's agent with that id or name, ignoring case, or None."""
    statement = (
        _select_agents(owner_id)
        .where(matches_reference(reference))
        .order_by(func.lower(Agent.name))
    )
    rows = await session.execute(statement.limit(1))
    views = await _views(session, [(agent, iteration) for agent, iteration in rows])
    if not views:
        return None
    row = await agents.get_agent(session, views[0].id)
    return AgentDetails(
        **dict(views[0]),
        prompts={
            phase.value: prompt for phase, prompt in configuration.prompts_by_phase(row).items()
        },
        prompts_version=row.prompts_version,
        configuration=await newest_configuration(session, row),
        running_calls=await costs.running_calls_of_agent(session, row.id),
    )


_RUNS = (
    exists()
    .where(Iteration.agent_id == Agent.id, Iteration.status == IterationStatus.RUNNING)
    .correlate(Agent)
)
_IN_STATE = {
    AgentState.RUNNING: _RUNS,
    AgentState.WAITING: and_(Agent.active, ~_RUNS),
    AgentState.PAUSED: ~Agent.active,
    AgentState.ATTENTION: or_(
        Agent.status == AgentStatus.FAILED,
        Agent.fault.is_not(None),
        Agent.suspended_until > func.statement_timestamp(),
        text(NEEDS_ATTENTION),
    ),
}


async def owners_by_agent(session: AsyncSession, agent_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Returns agent id to owner id, for agents that exist."""
    rows = await session.execute(select(Agent.id, Agent.owner_id).where(Agent.id.in_(agent_ids)))
    return {row.id: row.owner_id for row in rows}


async def find_agent_ref(session: AsyncSession, owner_id: UUID, reference: str) -> AgentRef | None:
    """Returns the identity of the owner's agent with that id or name, or None."""
    parameters = {"owner_id": owner_id, "name": reference.strip().lower(), "id": _id_in(reference)}
    row = (await session.execute(_FIND_REF, parameters)).first()
    return None if row is None else AgentRef(row.id, row.name)


def matches_reference(reference: str) -> ColumnElement[bool]:
    """Returns the condition that an agent's id or name is `reference`."""
    by_name = func.lower(Agent.name) == reference.strip().lower()
    agent_id = _id_in(reference)
    return by_name if agent_id is None else or_(Agent.id == agent_id, by_name)


def _id_in(reference: str) -> UUID | None:
    try:
        return UUID(reference)
    except ValueError:
        return None


_REFERRED: Final = (
    Agent.owner_id == bindparam("owner_id"),
    or_(Agent.id == bindparam("id"), func.lower(Agent.name) == bindparam("name")),
)
_FIND_REF: Final = (
    select(Agent.id, Agent.name).where(*_REFERRED).order_by(func.lower(Agent.name)).limit(1)
)
"""Nearly every request runs this statement; building it takes longer than running it."""


_NEWEST: Final = and_(Iteration.agent_id == Agent.id, Iteration.number == Agent.iterations_started)
_FIND_STANDING: Final = (
    select(
        Agent.id,
        Agent.status,
        Agent.active,
        Agent.suspended_until,
        Iteration.status,
        Iteration.stage,
        text(NEEDS_ATTENTION),
    )
    .outerjoin(Iteration, _NEWEST)
    .where(*_REFERRED)
    .order_by(func.lower(Agent.name))
    .limit(1)
)


def _select_agents(owner_id: UUID) -> Select[Agent, Iteration]:
    """Selects agents, each with its newest iteration or None."""
    return (
        select(Agent, Iteration)
        .outerjoin(Iteration, _NEWEST)
        .where(Agent.owner_id == owner_id)
        .execution_options(populate_existing=True)
    )


async def _views(
    session: AsyncSession, rows: Sequence[tuple[Agent, Iteration | None]]
) -> list[AgentResponse]:
    agent_ids = [agent.id for agent, _ in rows]
    troubles = await _troubles(session, agent_ids)
    needing = await attention.find(agent_ids).answer(session)
    return [
        _view(agent, iteration, troubles[agent.id], needing.get(agent.id))
        for agent, iteration in rows
    ]


async def _troubles(
    session: AsyncSession, agent_ids: Iterable[UUID]
) -> defaultdict[UUID, list[Trouble]]:
    rows = await session.execute(
        select(Step, Iteration.number)
        .join(Iteration, Iteration.id == Step.iteration_id)
        .where(
            Step.agent_id.in_(agent_ids),
            Step.status.in_(_BEING_TRIED),
            Step.error.is_not(None),
            Iteration.status == IterationStatus.RUNNING,
        )
        .order_by(Iteration.number, Step.kind, Step.index)
        .execution_options(populate_existing=True)
    )
    troubles: defaultdict[UUID, list[Trouble]] = defaultdict(list)
    for step, number in rows:
        troubles[step.agent_id].append(
            Trouble(
                iteration_number=number,
                step=step.kind,
                index=step.index,
                attempts=step.attempts,
                error=step.error,
                retry_at=step.retry_at,
                waiting_since=step.waiting_since,
            )
        )
    return troubles


def _view(
    agent: Agent, iteration: Iteration | None, trouble: list[Trouble], needed: Attention | None
) -> AgentResponse:
    return AgentResponse(
        id=agent.id,
        name=agent.name,
        mission=agent.mission,
        status=agent.status,
        fault=agent.fault,
        interval_seconds=agent.interval_seconds,
        max_interval_seconds=agent.max_interval_seconds,
        feedback_rounds=agent.feedback_rounds,
        advice_from_one_analysis=agent.advice_from_one_analysis,
        entailment_usd_per_day=float(agent.entailment_usd_per_day),
        entailment_share=agent.entailment_share,
        preferred_domains=agent.preferred_domains,
        barred_domains=agent.barred_domains,
        corpus=agent.corpus,
        active=agent.active,
        models=agent.models,
        next_run_at=agent.next_run_at,
        run_requested_at=agent.run_requested_at,
        suspended_until=agent.suspended_until,
        iterations_started=agent.iterations_started,
        created_at=agent.created_at,
        updated_at=agent.updated_at,
        budget_usd_per_day=_number(agent.budget_usd_per_day),
        budget_calls_per_day=agent.budget_calls_per_day,
        last_iteration=None if iteration is None else IterationSummary.model_validate(iteration),
        trouble=trouble,
        attention=None if needed is None else AttentionResponse.model_validate(needed),
    )


def _number(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)


MAX_NAMES: Final = 500
"""A list to choose from needs no more."""


@dataclass(frozen=True)
class NewestIteration:
    status: str
    stage: str


@dataclass(frozen=True)
class AgentStanding:
    """What an agent does at the moment, as the list of agents says it of each."""

    id: UUID
    status: str
    active: bool
    suspended_until: datetime | None
    last_iteration: NewestIteration | None
    attention: bool
    """True if its iterations fail or have no result."""


async def find_standing(
    session: AsyncSession, owner_id: UUID, reference: str
) -> AgentStanding | None:
    """Returns what the owner's agent with that id or name does, or None."""
    parameters = {"owner_id": owner_id, "name": reference.strip().lower(), "id": _id_in(reference)}
    row = (await session.execute(_FIND_STANDING, parameters)).first()
    if row is None:
        return None
    agent_id, status, active, suspended_until, iteration_status, stage, needed = row
    newest = None if iteration_status is None else NewestIteration(iteration_status, stage)
    return AgentStanding(agent_id, status, active, suspended_until, newest, needed)


async def list_agent_names(session: AsyncSession, owner_id: UUID) -> list[AgentRef]:
    """Returns the names of the first `MAX_NAMES` agents by name."""
    rows = await session.execute(
        select(Agent.id, Agent.name)
        .where(Agent.owner_id == owner_id)
        .order_by(func.lower(Agent.name))
        .limit(MAX_NAMES)
    )
    return [AgentRef(row.id, row.name) for row in rows]


async def find_agent_names(
    session: AsyncSession, owner_id: UUID, search: str, *, limit: int
) -> list[AgentRef]:
    """Returns the first agents by name whose names contain all words of `search`."""
    statement = select(Agent.id, Agent.name).where(Agent.owner_id == owner_id)
    for word in search.split():
        statement = statement.where(Agent.name.icontains(word, autoescape=True))
    rows = await session.execute(statement.order_by(func.lower(Agent.name)).limit(limit))
    return [AgentRef(row.id, row.name) for row in rows]


async def names_by_id(
    session: AsyncSession, owner_id: UUID, agent_ids: Collection[UUID]
) -> dict[UUID, str]:
    """Returns names by id, for agents that exist and are the owner's."""
    rows = await session.execute(
        select(Agent.id, Agent.name).where(Agent.owner_id == owner_id, Agent.id.in_(agent_ids))
    )
    return {row.id: row.name for row in rows}
