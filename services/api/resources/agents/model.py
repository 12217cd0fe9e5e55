"""Agents, their configurations and their current state."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
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

from services.api.auth.dependencies import (
    Access,
    AgentAccess,
    AgentRef,
    OwnedAgent,
    matches_reference,
)
from services.api.http.dependencies import PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.reading import columns_of, paginate_rows, read_all, read_one, read_page
from services.api.resources.costs import model as costs
from services.api.resources.inbox.model import IS_UNREAD
from services.api.resources.iterations import transcripts
from shared.agents import configuration
from shared.agents.configuration import ConfigurationInput
from shared.database.pagination import Keyset
from shared.database.tables import (
    Agent,
    BudgetDay,
    Call,
    InboxItem,
    Iteration,
    PromptVersion,
    Step,
)
from shared.database.transaction import Transaction
from shared.enums import (
    ADVICE_TYPE,
    ANALYSIS_TYPE,
    PROMPTED_PHASES,
    AgentStatus,
    IterationStatus,
    StepKind,
    StepStatus,
)
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
from shared.schemas.iterations import NOTES_KEY, SERVER_NOTE
from shared.workflow import attention
from shared.workflow.attention import NEEDS_ATTENTION


@dataclass(frozen=True)
class DashboardCounters:
    """`spent_usd` and `spent_calls` are of today (UTC)."""

    unread: int = 0
    """Unread advice and notices."""
    spent_usd: float = 0.0
    spent_calls: int = 0


async def dashboard_counters(
    session: Transaction, agent_ids: Collection[UUID]
) -> dict[UUID, DashboardCounters]:
    """Returns the dashboard counters of each agent. The caller has checked that they are the owner's."""
    params = {"agents": list(agent_ids)}
    unread: dict[UUID, int] = dict((await session.execute(_UNREAD, params)).all())
    spent = {agent: (float(usd), n) for agent, usd, n in await session.execute(_SPENT, params)}
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
class NewestConclusion:
    id: UUID
    name: str
    type: str
    verdict: str
    updated_at: datetime


async def newest_conclusions(
    session: Transaction, agent_ids: Collection[UUID]
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


_HISTORY: Final = Keyset("prompt_versions", (PromptVersion.version, PromptVersion.phase))
_CONFIGURATION: Final = columns_of(
    Step, ConfigurationResponse, step_id=Step.id, requested_at=Step.first_requested_at
)


async def get_configuration(access: OwnedAgent) -> ConfigurationDetails:
    """The last configuration, with the conversation with the model."""
    session, agent_id = access.session, access.agent.id
    of_agent = select(Agent.id, Agent.configurations_ordered).where(Agent.id == agent_id)
    agent: Any = (await session.execute(of_agent)).one()
    step_id = configuration.newest_step_id(agent)
    statement = select(*_CONFIGURATION, Step.input).where(Step.id == step_id)
    step = (await session.execute(statement)).mappings().one_or_none()
    if step is None:
        raise NotFoundError("configuration of agent", access.agent.name)
    wanted = ConfigurationInput.model_validate(step["input"])
    runs = await transcripts.list_interactions(session, "step_id", step["step_id"])
    return ConfigurationDetails(
        **step,
        mission=wanted.mission,
        keep=[phase.value for phase in wanted.keep],
        interaction=runs[0] if runs else None,
        running_calls=await costs.list_running_calls(session, Call.step_id == step["step_id"]),
    )


async def current_prompts(access: AgentAccess) -> PromptsResponse:
    """Returns the current prompts in the order of the phases. Raises NoResultFound."""
    prompts, version = await _load_prompts(access.session, access.agent.id)
    versions = await read_all(
        access.session,
        PromptResponse,
        select(*columns_of(PromptVersion, PromptResponse))
        .where(PromptVersion.agent_id == access.agent.id)
        .order_by(PromptVersion.phase, PromptVersion.version.desc())
        .ext(distinct_on(PromptVersion.phase)),
    )
    by_phase = {each.phase: each for each in versions}
    items = [
        by_phase.get(phase)
        or PromptResponse(phase=phase, version=0, made_by=None, created_at=None, prompt=prompt)
        for phase, prompt in prompts.items()
    ]
    return PromptsResponse(version=version, items=items)


async def _load_prompts(session: Transaction, agent_id: UUID) -> tuple[dict[Any, str], int]:
    """Returns the agent's prompts by phase, empty until it is configured, and their version."""
    statement = select(*_PROMPTS, Agent.prompts_version).where(Agent.id == agent_id)
    row: Any = (await session.execute(statement)).one()
    prompts = configuration.prompts_by_phase(row)
    return {phase.value: prompt for phase, prompt in prompts.items()}, row.prompts_version


_PROMPTS: Final = [getattr(Agent, f"{phase}_system_prompt") for phase in PROMPTED_PHASES]


async def list_prompt_versions(
    access: OwnedAgent, page_request: PageQuery, phase: PromptedPhase | None = None
) -> Page[PromptResponse]:
    """Lists all versions of a prompt, newest first."""
    columns = columns_of(PromptVersion, PromptResponse)
    statement = select(*columns).where(PromptVersion.agent_id == access.agent.id)
    if phase is not None:
        statement = statement.where(PromptVersion.phase == phase)
    return await read_page(access.session, PromptResponse, statement, _HISTORY, page_request)


_BEING_TRIED: Final = (StepStatus.PENDING, StepStatus.RUNNING)
_BY_NAME: Final = Keyset("agents", (func.lower(Agent.name),), descending=False)


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


_RUNS: Final = (
    exists()
    .where(Iteration.agent_id == Agent.id, Iteration.status == IterationStatus.RUNNING)
    .correlate(Agent)
)
_IN_STATE: Final[dict[AgentState, ColumnElement[bool]]] = {
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
_NEWEST: Final = and_(Iteration.agent_id == Agent.id, Iteration.number == Agent.iterations_started)
_LAST: Final = [
    getattr(Iteration, name).label(f"last_{name}") for name in IterationSummary.model_fields
]


def _select_agents(owner_id: UUID) -> Select[*tuple[Any, ...]]:
    """Selects agents, each with its newest iteration or nulls."""
    return (
        select(*columns_of(Agent, AgentResponse), *_LAST)
        .outerjoin(Iteration, _NEWEST)
        .where(Agent.owner_id == owner_id)
    )


async def list_agents(
    access: Access,
    page_request: PageRequest,
    *,
    state: AgentState | None = None,
    search: str | None = None,
) -> Page[AgentResponse]:
    """Lists agents by name; with `state` and `search`, those in that state whose names contain all the words."""
    statement = _select_agents(access.owner_id)
    if state is not None:
        statement = statement.where(_IN_STATE[state])
    for word in (search or "").split():
        statement = statement.where(Agent.name.icontains(word, autoescape=True))
    rows, following = await paginate_rows(access.session, statement, _BY_NAME, page_request)
    return Page(items=await _views(access.session, rows), next=following)


async def get_agent(access: Access, agent_id: UUID) -> AgentDetails:
    """Raises NotFoundError if the owner has no such agent, or it was deleted meanwhile."""
    session = access.session
    statement = _select_agents(access.owner_id).add_columns(Agent.configurations_ordered)
    row: Any = (await session.execute(statement.where(Agent.id == agent_id))).one_or_none()
    if row is None:
        raise NotFoundError("agent", agent_id)
    [view] = await _views(session, [dict(row._mapping)])
    prompts, version = await _load_prompts(session, view.id)
    of_step = select(*_CONFIGURATION).where(Step.id == configuration.newest_step_id(row))
    return AgentDetails(
        **dict(view),
        prompts=prompts,
        prompts_version=version,
        configuration=await read_one(session, ConfigurationResponse, of_step),
        running_calls=await costs.list_running_calls(session, Call.agent_id == view.id),
    )


async def _views(session: Transaction, rows: Sequence[dict[str, Any]]) -> list[AgentResponse]:
    agent_ids = [row["id"] for row in rows]
    troubles = await _load_troubles(session, agent_ids)
    needing = await attention.find(agent_ids).execute(session)
    notes: defaultdict[UUID, list[str]] = defaultdict(list)
    for agent_id, note in await session.execute(_SERVER_NOTES, {"agents": agent_ids}):
        notes[agent_id].append(note)
    views = []
    for row in rows:
        last = {name: row[f"last_{name}"] for name in IterationSummary.model_fields}
        needed = needing.get(row["id"])
        facts = {
            "last_iteration": None if last["id"] is None else last,
            "trouble": troubles[row["id"]],
            "attention": needed and AttentionResponse.model_validate(needed),
            "server_notes": notes[row["id"]],
        }
        views.append(AgentResponse.model_validate(row | facts))
    return views


_SERVER_NOTES: Final = text(f"""
select distinct agent.id, note
from unnest(cast(:agents as uuid[])) as agent (id)
cross join lateral (
  (select id from iterations
  where agent_id = agent.id and status in ('{IterationStatus.COMPLETED}', '{IterationStatus.FAILED}')
  order by number desc limit 1)
  union
  -- An iteration without a plan calls no tools, so it says nothing about those of the server.
  (select id from iterations
  where agent_id = agent.id and status in ('{IterationStatus.COMPLETED}', '{IterationStatus.FAILED}')
    and exists (select from steps where iteration_id = iterations.id and kind <> '{StepKind.OBSERVE}')
  order by number desc limit 1)
) as newest
join steps on steps.iteration_id = newest.id
cross join lateral jsonb_array_elements_text(coalesce(steps.result -> '{NOTES_KEY}', '[]')) as note
where starts_with(note, '{SERVER_NOTE}')
order by agent.id, note
""")


async def _load_troubles(
    session: Transaction, agent_ids: Sequence[UUID]
) -> defaultdict[UUID, list[Trouble]]:
    names = {"iteration_number": Iteration.number, "step": Step.kind}
    rows = await session.execute(
        select(Step.agent_id, *columns_of(Step, Trouble, **names))
        .join(Iteration, Iteration.id == Step.iteration_id)
        .where(
            Step.agent_id.in_(agent_ids),
            Step.status.in_(_BEING_TRIED),
            Step.error.is_not(None),
            Iteration.status == IterationStatus.RUNNING,
        )
        .order_by(Iteration.number, Step.kind, Step.index)
    )
    troubles: defaultdict[UUID, list[Trouble]] = defaultdict(list)
    for row in rows:
        troubles[row.agent_id].append(Trouble.model_validate(dict(row._mapping)))
    return troubles


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


async def find_standing(access: Access, reference: str) -> AgentStanding | None:
    """Returns what the owner's agent with that id or name does, or None."""
    statement = (
        select(Agent.id, Agent.status, Agent.active, Agent.suspended_until)
        .add_columns(Iteration.status, Iteration.stage, text(NEEDS_ATTENTION))
        .outerjoin(Iteration, _NEWEST)
        .where(Agent.owner_id == access.owner_id, matches_reference(reference))
        .order_by(func.lower(Agent.name))
        .limit(1)
    )
    row = (await access.session.execute(statement)).first()
    if row is None:
        return None
    agent_id, status, active, suspended_until, iteration_status, stage, needed = row
    newest = None if iteration_status is None else NewestIteration(iteration_status, stage)
    return AgentStanding(agent_id, status, active, suspended_until, newest, needed)


async def list_agent_names(
    access: Access, search: str = "", limit: int = MAX_NAMES
) -> list[AgentRef]:
    """Returns the first agents by name whose names contain all words of `search`."""
    statement = select(Agent.id, Agent.name).where(Agent.owner_id == access.owner_id)
    for word in search.split():
        statement = statement.where(Agent.name.icontains(word, autoescape=True))
    rows = await access.session.execute(statement.order_by(func.lower(Agent.name)).limit(limit))
    return [AgentRef(*row) for row in rows]
