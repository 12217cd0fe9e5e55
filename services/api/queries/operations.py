"""Dead letters, replicas, leases, waiting work and the state of the installation.

A dead letter of a step belongs to the agent's owner. Operators see all of them; those without a
step are visible to operators only.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, NamedTuple
from uuid import UUID

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


MAX_COUNTED: Final = 1_000
"""As many dead letters as the navigation counts."""


async def count_dead_letters(session: AsyncSession) -> int:
    """Returns how many messages failed permanently, at most MAX_COUNTED."""
    some = select(DeadLetter.id).limit(MAX_COUNTED).subquery()
    return await session.scalar(select(func.count()).select_from(some)) or 0


async def find_dead_letters(
    session: AsyncSession, caller: Caller, reference: str
) -> list[DeadLetterDetails]:
    """Returns the dead letters whose id starts with `reference`: at most two, which is enough to detect ambiguity."""
    begins = cast(DeadLetter.id, Text).startswith(reference.strip().lower(), autoescape=True)
    rows = await session.execute(_visible(caller).where(begins).limit(2))
    return [_details((*row,)) for row in rows]


async def get_dead_letters(
    session: AsyncSession, caller: Caller, ids: Collection[UUID]
) -> list[tuple[DeadLetter, DeadLetterResponse]]:
    """Returns those of these dead letters that exist and that the caller may see."""
    rows = await session.execute(_visible(caller).where(DeadLetter.id.in_(ids)))
    return [(row[0], _view((*row,))) for row in rows]


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


@dataclass(frozen=True)
class Waiting:
    """The open steps of one service that no worker has claimed."""

    oldest_seconds: float | None = None
    """How long the oldest step has waited for a worker; None if none waits."""
    for_provider: int = 0
    """Steps that wait until the model server or the search service answers again."""
    provider_error: str | None = None
    """The last error of the step that has waited longest for a provider."""

    def and_also(self, other: "Waiting") -> "Waiting":
        waits = [each for each in (self.oldest_seconds, other.oldest_seconds) if each is not None]
        return Waiting(
            max(waits, default=None),
            self.for_provider + other.for_provider,
            self.provider_error or other.provider_error,
        )


async def read_waiting(session: AsyncSession) -> dict[str, Waiting]:
    """Reads what waits, by service. Its cost does not grow with what has ended."""
    result: dict[str, Waiting] = {}
    for row in await session.execute(_WAITING):
        service = _SERVICE_OF[StepKind(row.kind)]
        waiting = Waiting(row.oldest_seconds, row.for_provider, row.provider_error)
        result[service] = result.get(service, Waiting()).and_also(waiting)
    return result


_WAITING: Final = text("""
select kind,
  cast(extract(epoch from statement_timestamp() - min(requested_at) filter (
    where status = 'pending' and waiting_since is null and coalesce(retry_at <= statement_timestamp(), true)
  )) as double precision) as oldest_seconds,
  count(waiting_since) as for_provider,
  (array_agg(error order by waiting_since) filter (where waiting_since is not null))[1] as provider_error
from steps where status in ('pending', 'running')
group by kind
""")

Provider = Literal["model", "search", "embeddings"]


class ProviderUse(NamedTuple):
    """The last use of a provider, among the newest calls of each agent."""

    answered_at: datetime | None
    failed_at: datetime | None
    error: str | None
    """What the last failed attempt ended with."""


async def read_provider_use(session: AsyncSession) -> Mapping[Provider, ProviderUse]:
    """Reads NEWEST_CALLS calls of each agent, so that its cost does not grow with the ledger."""
    rows = await session.execute(_PROVIDER_USE, {"newest": NEWEST_CALLS})
    return {
        row.provider: ProviderUse(
            row.answered_at,
            datetime.fromisoformat(row.failure[0]) if row.failure else None,
            row.failure[1] if row.failure else None,
        )
        for row in rows
    }


NEWEST_CALLS: Final = 20
_PROVIDER_USE: Final = text("""
select provider, max(answered_at) as answered_at,
  max(array[failure ->> 'at', failure ->> 'error']) filter (where failure ->> 'at' is not null) as failure
from (
  select case when newest.kind = 'search' then 'search' when newest.is_embedding then 'embeddings' else 'model' end
    as provider, newest.answered_at, newest.failures -> -1 as failure
  from agents cross join lateral (
    select kind, request ? 'embeds' as is_embedding, answered_at, failures from calls
    where agent_id = agents.id order by started_at desc limit :newest
  ) as newest
) as used
group by provider
""")


@dataclass(frozen=True)
class MailQueue:
    """Deliveries by mail that are not sent yet, or wait for another attempt."""

    pending: int
    error: str | None
    """The last error among them."""


async def read_mail_queue(session: AsyncSession) -> MailQueue:
    row = (await session.execute(_MAIL_QUEUE)).one()
    return MailQueue(row.pending, row.error)


_MAIL_QUEUE: Final = text("""
select count(*) as pending, (array_agg(error order by next_attempt_at desc) filter (where error is not null))[1] as error
from deliveries join destinations on destinations.id = destination_id
where status = 'pending' and destinations.kind = 'mail'
""")


@dataclass(frozen=True)
class DatabaseState:
    version: str
    """Such as `16.4`."""
    size_bytes: int
    connections: int
    """To this database, of all services."""
    max_connections: int
    """Of the server."""


async def read_database_state(session: AsyncSession) -> DatabaseState:
    row = (await session.execute(_DATABASE_STATE)).one()
    return DatabaseState(
        row.version.split()[0], row.size_bytes, row.connections, row.max_connections
    )


_DATABASE_STATE: Final = text("""
select current_setting('server_version') as version, pg_database_size(current_database()) as size_bytes,
  (select count(*) from pg_stat_activity where datname = current_database()) as connections,
  cast(current_setting('max_connections') as integer) as max_connections
""")
