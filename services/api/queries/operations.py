"""Dead letters, replicas, leases and the state of the installation.

A dead letter of a step belongs to the agent's owner. Operators see all of them; those without a
step are visible to operators only.
"""

from dataclasses import dataclass, field

from sqlalchemy import Select, Text, cast, distinct, func, select, text, true
from sqlalchemy.ext.asyncio import AsyncSession

from shared.accounts.authentication import Caller
from shared.database.pagination import Keyset, paginate
from shared.database.tables import Agent, DeadLetter, Iteration, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.schemas.base import Page, PageRequest
from shared.schemas.operations import DeadLetterDetails, DeadLetterResponse, DeadLetterStep
from shared.workflow.dead_letters import FailedStep, is_retry_requested, retry_refusal

_NEWEST = Keyset("dead letters", (DeadLetter.stored_at, DeadLetter.id))

_Visible = Select[DeadLetter, bool, Step, Iteration, Agent]
_DeadLetterRow = tuple[DeadLetter, bool, Step, Iteration, Agent]


async def list_dead_letters(
    session: AsyncSession, caller: Caller, page_request: PageRequest, *, service: str | None = None
) -> Page[DeadLetterResponse]:
    """Lists dead letters, newest first; with `service`, those of one service."""
    statement = _visible(caller)
    if service is not None:
        statement = statement.where(DeadLetter.service == service)
    page_slice = await paginate(session, statement, _NEWEST, page_request)
    return page_slice.page(lambda *row: _view(row))


async def find_dead_letters(
    session: AsyncSession, caller: Caller, reference: str
) -> list[DeadLetterDetails]:
    """Returns the dead letters whose id starts with `reference`: at most two, which is enough to detect ambiguity."""
    begins = cast(DeadLetter.id, Text).startswith(reference.strip().lower(), autoescape=True)
    rows = await session.execute(_visible(caller).where(begins).limit(2))
    return [_details((*row,)) for row in rows]


def _visible(caller: Caller) -> _Visible:
    return (
        select(DeadLetter, is_retry_requested(), Step, Iteration, Agent)
        .outerjoin(Step, Step.id == DeadLetter.step_id)
        .outerjoin(Iteration, Iteration.id == Step.iteration_id)
        .outerjoin(Agent, Agent.id == Step.agent_id)
        .where(true() if caller.is_operator else Agent.owner_id == caller.user_id)
        .execution_options(populate_existing=True)
    )


def _details(row: _DeadLetterRow) -> DeadLetterDetails:
    payload = row[0].payload
    return DeadLetterDetails(**dict(_view(row)), payload=payload, text=_text(payload))


def _view(row: _DeadLetterRow) -> DeadLetterResponse:
    dead_letter, is_wished, failed_step, iteration, agent = row
    step = _step(failed_step, iteration, agent)
    return DeadLetterResponse(
        id=dead_letter.id,
        service=dead_letter.service,
        subject=dead_letter.subject,
        code=dead_letter.code,
        error=dead_letter.error,
        attempts=dead_letter.attempts,
        created_at=dead_letter.created_at,
        stored_at=dead_letter.stored_at,
        retry_requested_at=dead_letter.retry_requested_at if is_wished else None,
        refusal=retry_refusal(
            dead_letter.service, dead_letter.subject, dead_letter.code, _failed_step(step)
        ),
        step=step,
    )


def _step(
    step: Step | None, iteration: Iteration | None, agent: Agent | None
) -> DeadLetterStep | None:
    if step is None or iteration is None or agent is None:
        return None
    return DeadLetterStep(
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


def _failed_step(step: DeadLetterStep | None) -> FailedStep | None:
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


_SERVICE_OF = {
    StepKind.OBSERVE: "observer",
    StepKind.QUERY: "researcher",
    StepKind.INSIGHT: "analyzer",
    StepKind.ADVISE: "adviser",
    StepKind.CONFIGURE: "assistant",
    StepKind.CONVERSE: "assistant",
}


@dataclass(frozen=True)
class Leases:
    """Running steps of one service."""

    held: int = 0
    lapsed: int = 0
    """Leases that were not renewed in time: their workers are dead, or PostgreSQL was unavailable."""
    workers: int = 0
    """Workers per kind of step; one that works on two kinds counts twice."""

    def and_also(self, other: "Leases") -> "Leases":
        return Leases(
            self.held + other.held, self.lapsed + other.lapsed, self.workers + other.workers
        )


@dataclass(frozen=True)
class Workforce:
    replicas: dict[str, int] = field(default_factory=dict)
    """Service to its number of processes with a database connection."""
    leases: dict[str, Leases] = field(default_factory=dict)
    """By service; services without a lease have no entry."""


async def read_workforce(session: AsyncSession) -> Workforce:
    """Reads the connections of the server, as far as any role may see them, and the leases of running steps."""
    return Workforce(await _replicas(session), await _leases(session))


async def _replicas(session: AsyncSession) -> dict[str, int]:
    # The application name of each connection is vigil-SERVICE@PROCESS.
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
    result: dict[str, Leases] = {}
    for kind, held_count, late, workers in rows:
        service = _SERVICE_OF[StepKind(kind)]
        result[service] = result.get(service, Leases()).and_also(
            Leases(held_count - late, late, workers)
        )
    return result


@dataclass(frozen=True)
class InstallationState:
    open_steps: dict[str, int]
    """By kind, without kinds that have no open step."""
    dead_letters: int
    running_iterations: int


async def read_installation_state(session: AsyncSession) -> InstallationState:
    """Counts what is open. Its cost does not grow with what has ended."""
    open_steps = await session.execute(
        select(Step.kind, func.count())
        .where(Step.status.in_((StepStatus.PENDING, StepStatus.RUNNING)))
        .group_by(Step.kind)
    )
    running = select(func.count()).where(Iteration.status == IterationStatus.RUNNING)
    return InstallationState(
        open_steps={row.kind: row[1] for row in open_steps},
        dead_letters=await session.scalar(select(func.count()).select_from(DeadLetter)) or 0,
        running_iterations=await session.scalar(running) or 0,
    )


async def postgres_version(session: AsyncSession) -> str:
    """Returns the server version, such as `16.4`."""
    result = await session.execute(text("select current_setting('server_version')"))
    return str(result.scalar_one()).split()[0]
