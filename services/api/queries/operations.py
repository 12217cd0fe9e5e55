"""Dead letters, workers, leases and the state of the database.

A letter about a step is its agent's owner's. Operators, who look after the installation, see all of them; those that are
about no step nobody else sees.
"""

from dataclasses import dataclass, field

from sqlalchemy import Select, Text, cast, distinct, func, select, text, true
from sqlalchemy.ext.asyncio import AsyncSession

from shared.accounts.authentication import Caller
from shared.database.pagination import Keyset, slice_of
from shared.database.tables import Agent, DeadLetter, Iteration, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.schemas.base import Page, Wanted
from shared.schemas.operations import DeadLetterDetails, DeadLetterView, LetterStepView
from shared.workflow.dead_letters import FailedStep, refusal, wished

_NEWEST = Keyset("dead letters", (DeadLetter.kept_at, DeadLetter.id))

_Visible = Select[DeadLetter, bool, Step, Iteration, Agent]
_Found = tuple[DeadLetter, bool, Step, Iteration, Agent]


async def seen_by(
    session: AsyncSession, caller: Caller, wanted: Wanted, *, actor: str | None = None
) -> Page[DeadLetterView]:
    """The newest first; of one actor where it is given."""
    statement = _visible(caller)
    if actor is not None:
        statement = statement.where(DeadLetter.actor == actor)
    found = await slice_of(session, statement, _NEWEST, wanted)
    return found.page(lambda *row: _view(row))


async def find(session: AsyncSession, caller: Caller, reference: str) -> list[DeadLetterDetails]:
    """Those whose id is or begins with `reference`: at most two, which is to say that it is ambiguous."""
    begins = cast(DeadLetter.id, Text).startswith(reference.strip().lower(), autoescape=True)
    rows = await session.execute(_visible(caller).where(begins).limit(2))
    return [_details((*row,)) for row in rows]


def _visible(caller: Caller) -> _Visible:
    return (
        select(DeadLetter, wished(), Step, Iteration, Agent)
        .outerjoin(Step, Step.id == DeadLetter.step_id)
        .outerjoin(Iteration, Iteration.id == Step.iteration_id)
        .outerjoin(Agent, Agent.id == Step.agent_id)
        .where(true() if caller.is_operator else Agent.owner_id == caller.user_id)
        .execution_options(populate_existing=True)
    )


def _details(row: _Found) -> DeadLetterDetails:
    payload = row[0].payload
    return DeadLetterDetails(**dict(_view(row)), payload=payload, text=_text(payload))


def _view(row: _Found) -> DeadLetterView:
    letter, is_wished, failed_step, iteration, agent = row
    step = _step(failed_step, iteration, agent)
    return DeadLetterView(
        id=letter.id,
        actor=letter.actor,
        subject=letter.subject,
        code=letter.code,
        error=letter.error,
        attempts=letter.attempts,
        created_at=letter.created_at,
        kept_at=letter.kept_at,
        retry_requested_at=letter.retry_requested_at if is_wished else None,
        refusal=refusal(letter.actor, letter.subject, letter.code, _failed(step)),
        step=step,
    )


def _step(
    step: Step | None, iteration: Iteration | None, agent: Agent | None
) -> LetterStepView | None:
    if step is None or iteration is None or agent is None:
        return None
    return LetterStepView(
        id=step.id,
        kind=step.kind,
        index=step.index,
        status=step.status,
        iteration_id=iteration.id,
        iteration_number=iteration.number,
        iteration_status=iteration.status,
        agent_id=agent.id,
        agent_name=agent.name,
    )


def _failed(step: LetterStepView | None) -> FailedStep | None:
    if step is None:
        return None
    return FailedStep(
        StepKind(step.kind),
        step.iteration_number,
        IterationStatus(step.iteration_status),
        step.agent_name,
    )


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


_ACTOR_OF = {
    StepKind.OBSERVE: "observer",
    StepKind.QUERY: "researcher",
    StepKind.INSIGHT: "analyzer",
    StepKind.ADVISE: "adviser",
    StepKind.CONFIGURE: "assistant",
    StepKind.CONVERSE: "assistant",
}


@dataclass(frozen=True)
class Leases:
    """Steps of one actor that are being worked on."""

    held: int = 0
    lapsed: int = 0
    """Held by workers that have not renewed in time; they are dead, or Postgres was away."""
    workers: int = 0
    """Those of one kind of step; who works on two kinds is counted for each."""

    def and_also(self, other: "Leases") -> "Leases":
        return Leases(
            self.held + other.held, self.lapsed + other.lapsed, self.workers + other.workers
        )


@dataclass(frozen=True)
class Crew:
    replicas: dict[str, int] = field(default_factory=dict)
    """Actor to the number of its processes that are connected to this database."""
    leases: dict[str, Leases] = field(default_factory=dict)
    """By actor; who holds none is not there."""


async def crew(session: AsyncSession) -> Crew:
    """Reads what any role may see of the server's connections, and the leases of running steps."""
    return Crew(await _replicas(session), await _leases(session))


async def _replicas(session: AsyncSession) -> dict[str, int]:
    # A process names each of its connections vigil-ACTOR@PROCESS.
    rows = await session.execute(
        text(
            "select split_part(substr(application_name, 7), '@', 1), count(distinct application_name)"
            " from pg_stat_activity"
            " where datname = current_database() and application_name like 'vigil-%@%' group by 1"
        )
    )
    return {row[0]: row[1] for row in rows}


async def _leases(session: AsyncSession) -> dict[str, Leases]:
    lapsed = func.count().filter(Step.lease_until < func.clock_timestamp())
    rows = await session.execute(
        select(Step.kind, func.count(), lapsed, func.count(distinct(Step.lease_owner)))
        .where(Step.status == StepStatus.RUNNING)
        .group_by(Step.kind)
    )
    found: dict[str, Leases] = {}
    for kind, held, late, workers in rows:
        actor = _ACTOR_OF[StepKind(kind)]
        found[actor] = found.get(actor, Leases()).and_also(Leases(held - late, late, workers))
    return found


@dataclass(frozen=True)
class State:
    open_steps: dict[str, int]
    """By kind; a kind of which none is open is not there."""
    dead_letters: int
    running_iterations: int


async def of_installation(session: AsyncSession) -> State:
    """Costs what is open, whatever has ended."""
    open_steps = await session.execute(
        select(Step.kind, func.count())
        .where(Step.status.in_((StepStatus.PENDING, StepStatus.RUNNING)))
        .group_by(Step.kind)
    )
    running = select(func.count()).where(Iteration.status == IterationStatus.RUNNING)
    return State(
        open_steps={row.kind: row[1] for row in open_steps},
        dead_letters=await session.scalar(select(func.count()).select_from(DeadLetter)) or 0,
        running_iterations=await session.scalar(running) or 0,
    )


async def version(session: AsyncSession) -> str:
    """Its number, as in `16.4`."""
    told = await session.execute(text("select current_setting('server_version')"))
    return str(told.scalar_one()).split()[0]
