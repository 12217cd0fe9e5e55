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
    and_,
    bindparam,
    exists,
    func,
    literal_column,
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
from services.api.reading import columns_of, paginate_rows, read_all, read_page
from services.api.resources.costs import model as costs
from services.api.resources.inbox.model import IS_UNREAD
from services.api.resources.iterations import transcripts
from shared.agents import configuration
from shared.agents.configuration import ConfigurationInput
from shared.billing.budgets import spent_today_sql
from shared.database.pagination import Keyset
from shared.database.statements import CompiledStatement, Row, rows_together, uuid_array
from shared.database.tables import (
    Agent,
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
    counters = {agent_id: DashboardCounters() for agent_id in agent_ids}
    for row in await _COUNTERS.rows(session, {"agents": uuid_array(agent_ids)}):
        usd, calls = row.spent
        counters[row.id] = DashboardCounters(row.unread, float(usd), int(calls))
    return counters


_COUNTERS: Final = CompiledStatement(
    select(
        Agent.id,
        select(func.count())
        .where(InboxItem.agent_id == Agent.id, IS_UNREAD)
        .correlate(Agent)
        .scalar_subquery()
        .label("unread"),
        literal_column(
            f"(select array[usd, calls] from ({spent_today_sql('agents.id')}) as today)"
        ).label("spent"),
    ).where(text("agents.id = any(cast(:agents as uuid[]))"))
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
    rows = await _NEWEST_CONCLUSIONS.tuples(session, {"agents": uuid_array(agent_ids)})
    return {agent_id: NewestConclusion(*columns) for agent_id, *columns in rows}


_NEWEST_CONCLUSIONS: Final = CompiledStatement(
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
    calls = await costs.list_running_calls(session, agent_id)
    return ConfigurationDetails(
        **step,
        mission=wanted.mission,
        keep=[phase.value for phase in wanted.keep],
        interaction=runs[0] if runs else None,
        running_calls=[call for call in calls if call.step_id == step["step_id"]],
    )


async def current_prompts(access: AgentAccess) -> PromptsResponse:
    """Returns the current prompts in the order of the phases. Raises NotFoundError."""
    params = {"of_agent": access.agent.id, "of_owner": access.owner_id}
    agent = await _AGENT.row(access.session, params)
    if agent is None:
        raise NotFoundError("agent", access.agent.id)
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
        for phase, prompt in _prompts_of(agent).items()
    ]
    return PromptsResponse(version=agent.prompts_version, items=items)


async def list_prompt_versions(
    access: OwnedAgent, page_request: PageQuery, phase: PromptedPhase | None = None
) -> Page[PromptResponse]:
    """Lists all versions of a prompt, newest first."""
    columns = columns_of(PromptVersion, PromptResponse)
    statement = select(*columns).where(PromptVersion.agent_id == access.agent.id)
    if phase is not None:
        statement = statement.where(PromptVersion.phase == phase)
    return await read_page(access.session, PromptResponse, statement, _HISTORY, page_request)


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


_AGENTS: Final = select(*columns_of(Agent, AgentResponse), *_LAST).outerjoin(Iteration, _NEWEST)
"""Agents, each with its newest iteration or nulls."""


async def list_agents(
    access: Access,
    page_request: PageRequest,
    *,
    state: AgentState | None = None,
    search: str | None = None,
) -> Page[AgentResponse]:
    """Lists agents by name; with `state` and `search`, those in that state whose names contain all the words."""
    statement = _AGENTS.where(Agent.owner_id == access.owner_id)
    if state is not None:
        statement = statement.where(_IN_STATE[state])
    for word in (search or "").split():
        statement = statement.where(Agent.name.icontains(word, autoescape=True))
    rows, following = await paginate_rows(access.session, statement, _BY_NAME, page_request)
    views = await _views(access.session, rows)
    return Page(items=[AgentResponse.model_validate(view) for view in views], next=following)


_PROMPTS: Final = {phase.value: f"{phase}_system_prompt" for phase in PROMPTED_PHASES}
"""Phase to column."""
_AGENT: Final = CompiledStatement(
    _AGENTS.add_columns(
        Agent.configurations_ordered,
        Agent.prompts_version,
        *(getattr(Agent, column) for column in _PROMPTS.values()),
    ).where(Agent.id == bindparam("of_agent"), Agent.owner_id == bindparam("of_owner"))
)
_CONFIGURATION_STEP: Final = CompiledStatement(
    select(*_CONFIGURATION).where(Step.id == bindparam("of_step"))
)


async def get_agent(access: Access, agent_id: UUID) -> AgentDetails:
    """Raises NotFoundError if the owner has no such agent, or it was deleted meanwhile."""
    session, params = access.session, {"of_agent": agent_id, "of_owner": access.owner_id}
    rows, calls = await rows_together(session, params, _AGENT, costs.RUNNING_CALLS)
    if not rows:
        raise NotFoundError("agent", agent_id)
    [row] = rows
    [facts] = await _views(session, [row._asdict()])
    step = None
    if row.configurations_ordered:
        step_id = configuration.newest_step_id(row)
        step = await _CONFIGURATION_STEP.row(session, {"of_step": step_id})
    return AgentDetails.model_validate(
        facts
        | {
            "prompts": _prompts_of(row),
            "configuration": step,
            "running_calls": calls,
        }
    )


def _prompts_of(agent: Row) -> dict[Any, str]:
    """Returns the prompts by phase, empty until the agent is configured."""
    prompts = {phase: getattr(agent, column) for phase, column in _PROMPTS.items()}
    return {phase: prompt for phase, prompt in prompts.items() if prompt}


async def _views(session: Transaction, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds what iterations and steps say of the agents."""
    find = attention.find([row["id"] for row in rows])
    found, tried, noted = await rows_together(
        session, find.params, find.statement, _TROUBLES, _SERVER_NOTES
    )
    needing = find.read(found)
    troubles: defaultdict[UUID, list[Row]] = defaultdict(list)
    for trouble in tried:
        troubles[trouble.agent_id].append(trouble)
    notes: defaultdict[UUID, list[str]] = defaultdict(list)
    for agent_id, note in noted:
        notes[agent_id].append(note)
    return [
        {
            **row,
            "last_iteration": None
            if row["last_id"] is None
            else {name: row[f"last_{name}"] for name in IterationSummary.model_fields},
            "trouble": troubles[row["id"]],
            "attention": needing.get(row["id"]),
            "server_notes": notes[row["id"]],
        }
        for row in rows
    ]


_SERVER_NOTES: Final = CompiledStatement(f"""
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


_TROUBLES: Final = CompiledStatement(
    select(
        Step.agent_id,
        *columns_of(Step, Trouble, iteration_number=Iteration.number, step=Step.kind),
    )
    .join(Iteration, Iteration.id == Step.iteration_id)
    .where(
        text("steps.agent_id = any(cast(:agents as uuid[]))"),
        or_(Step.status == StepStatus.PENDING, Step.status == StepStatus.RUNNING),
        Step.error.is_not(None),
        Iteration.status == IterationStatus.RUNNING,
    )
    .order_by(Iteration.number, Step.kind, Step.index)
)


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
