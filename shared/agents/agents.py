"""Agents and their names."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import count
from typing import Any, Final, Protocol
from uuid import UUID, uuid4

from sqlalchemy import delete as sql_delete
from sqlalchemy import func, or_, select
from sqlalchemy.dialects.postgresql import insert

from shared.agents.model_choice import renamed_phases
from shared.billing import reservations
from shared.database.statements import BoundQuery, CompiledStatement
from shared.database.tables import Agent, Iteration, Step, User
from shared.database.text import refuse_nul
from shared.database.transaction import Transaction
from shared.domains import DomainPreferences
from shared.enums import PROMPTED_PHASES, AgentStatus, IterationStatus, Phase, StepKind, StepStatus
from shared.errors import DeletedError
from shared.workflow.attention import NEEDS_ATTENTION
from shared.workflow.iterations import DueAgent

# Not clock_timestamp(): it is volatile, so PostgreSQL cannot compare it by an index.
_DUE: Final = CompiledStatement(f"""
select id, cast(cast(xmin as text) as bigint) as version, iterations_started,
  case when run_requested_at is null then 'due' else 'run_now' end as why
from agents
where (active and next_run_at <= statement_timestamp() or run_requested_at is not null)
  and status = '{AgentStatus.READY}'
  and coalesce(suspended_until, statement_timestamp()) <= statement_timestamp()
  and not exists (
    select from iterations where agent_id = agents.id and status = '{IterationStatus.RUNNING}')
order by next_run_at limit :most
""")


WAKE_SECONDS: Final = 10
"""Until the next run of an agent whose owner gave feedback, so that several decisions in a row are read by one iteration."""
_WAKE: Final = CompiledStatement(f"""
update agents set next_run_at = least(next_run_at, clock_timestamp() + make_interval(secs => {WAKE_SECONDS}))
where id = :of_agent
""")
_END_BACKOFF: Final = CompiledStatement(f"""
update agents set next_run_at = least(next_run_at, clock_timestamp()) where id = :of_agent and {NEEDS_ATTENTION}
""")


class WorkerAgent(Protocol):
    """The settings of an agent that its phases read: of an AgentRow, or of a whole row. It has a prompt for each phase."""

    @property
    def mission(self) -> str: ...
    @property
    def models(self) -> Mapping[str, str]: ...
    @property
    def verification_usd_per_day(self) -> Decimal | None: ...
    @property
    def entailment_share(self) -> float: ...
    @property
    def preferred_domains(self) -> Sequence[str]: ...
    @property
    def barred_domains(self) -> Sequence[str]: ...
    @property
    def corpus(self) -> str | None: ...
    @property
    def archive_date(self) -> date | None: ...


async def ensure_user(transaction: Transaction, name: str) -> UUID:
    """Returns the id of the user with this name. Creates the user if there is none."""
    await transaction.execute(
        insert(User).values(id=uuid4(), name=name).on_conflict_do_nothing(index_elements=["name"])
    )
    return (await transaction.scalars(select(User.id).where(User.name == name))).one()


async def create_agent(
    transaction: Transaction,
    owner_id: UUID,
    *,
    name: str,
    mission: str,
    interval_seconds: int,
    **settings: Any,
) -> Agent:
    """Creates an agent, which is not configured yet. Its first run is due as soon as it is configured.

    `settings` are other columns of it. Raises UniqueViolation if the owner has another agent of that name.
    """
    return await transaction.insert(
        Agent,
        id=uuid4(),
        owner_id=owner_id,
        name=name,
        mission=mission,
        status=AgentStatus.CONFIGURING,
        interval_seconds=interval_seconds,
        **{f"{phase}_system_prompt": "" for phase in PROMPTED_PHASES},
        **settings,
    )


async def lock_agent(transaction: Transaction, agent_id: UUID) -> Agent:
    """Returns the agent and locks its row until the transaction ends. Raises DeletedError if it was deleted."""
    agent = await transaction.scalar(
        select(Agent)
        .where(Agent.id == agent_id)
        # Not the key: transactions that write rows referring to the agent hold a lock on it.
        .with_for_update(key_share=True)
    )
    return _existing(agent, agent_id)


def list_due(limit: int) -> BoundQuery[list[DueAgent]]:
    """Agents whose next run is due or whose run was requested, without suspended ones."""
    return BoundQuery(_DUE, {"most": limit}, lambda rows: [DueAgent(*row) for row in rows])


def wake(agent_id: UUID) -> BoundQuery[None]:
    """Lets the next iteration of an agent that is not paused start soon, not at its interval."""
    return BoundQuery(_WAKE, {"of_agent": agent_id}, lambda _: None)


def end_backoff(agent_id: UUID) -> BoundQuery[None]:
    """Lets an agent that runs less often, because its iterations do not work, run now. For changes of its settings."""
    return BoundQuery(_END_BACKOFF, {"of_agent": agent_id}, lambda _: None)


async def delete_agent(transaction: Transaction, agent_id: UUID) -> None:
    """Deletes the agent and all its data, even in the middle of an iteration.

    First locks the rows in the order in which workers lock them. A cascade alone would use another order and could
    deadlock with a worker.
    """
    open_steps = Step.status.not_in((StepStatus.COMPLETED, StepStatus.FAILED))
    # A worker on such a step may lock the agent or its iteration next: a plan advances the iteration.
    first = or_(Step.iteration_id.is_(None), Step.kind == StepKind.OBSERVE)
    for rows in (
        select(Step.id).where(Step.agent_id == agent_id, first, open_steps).order_by(Step.id),
        select(Agent.id).where(Agent.id == agent_id),
        select(Iteration.id).where(Iteration.agent_id == agent_id),
        # Planned steps last: a worker that ends a step may request one of them next.
        select(Step.id)
        .where(Step.agent_id == agent_id, open_steps)
        .order_by(Step.status == StepStatus.PLANNED, Step.id),
    ):
        await transaction.execute(rows.with_for_update(key_share=True))
    reserved = await reservations.load_reserved(transaction, agent_id)
    await transaction.execute(sql_delete(Agent).where(Agent.id == agent_id))
    await reservations.forget_agent(transaction, agent_id, reserved)


async def get_agent(transaction: Transaction, agent_id: UUID) -> Agent:
    """Raises DeletedError if the agent was deleted."""
    return _existing(await transaction.get(Agent, agent_id), agent_id)


def _existing(agent: Agent | None, agent_id: UUID) -> Agent:
    if agent is None:
        raise DeletedError(f"agent {agent_id} was deleted")
    return agent


def system_prompt(agent: WorkerAgent, phase: Phase) -> str:
    """Returns the agent's prompt for `phase`, which must be in PROMPTED. Empty until the agent is configured."""
    prompt: str = getattr(agent, f"{phase}_system_prompt")
    return prompt


def model_name(agent: WorkerAgent, phase: Phase, default: str) -> str:
    """Returns the model name that the agent has for `phase`, otherwise `default`."""
    return renamed_phases(agent.models).get(phase, default)


def domain_preferences(agent: WorkerAgent) -> DomainPreferences:
    """Returns the domains that the agent's owner prefers and bars."""
    return DomainPreferences(tuple(agent.preferred_domains), tuple(agent.barred_domains))


NAME_CHARACTERS: Final = (1, 80)


def validate_name(text: str) -> str:
    """Validates `text` as an agent's name and normalizes its white space. Raises ValueError if it is invalid."""
    name = " ".join(text.split())
    min_length, max_length = NAME_CHARACTERS
    if not min_length <= len(name) <= max_length:
        raise ValueError(
            f"a name has {min_length} to {max_length} characters; this one has {len(name)}"
        )
    if "/" in name or not any(character.isalnum() for character in name):
        raise ValueError(
            "a name must contain a letter or digit, and no slash, because it is part of URLs"
        )
    return refuse_nul(name)


async def find_free_name(
    transaction: Transaction, owner_id: UUID, preferred: str, *, excluded_id: UUID | None = None
) -> str:
    """Returns the first of `names_after(preferred)` that no agent of the owner has, except agent `excluded_id`.

    Another transaction may still use the name before this one commits.
    """
    names = select(func.lower(Agent.name)).where(Agent.owner_id == owner_id)
    if excluded_id is not None:
        names = names.where(Agent.id != excluded_id)
    used_names = set(await transaction.scalars(names))
    return next(name for name in names_after(preferred) if name.lower() not in used_names)


def names_after(name: str) -> Iterator[str]:
    """Yields `name`, `name 2`, `name 3` and so on."""
    yield name
    for number in count(2):
        yield f"{name} {number}"
