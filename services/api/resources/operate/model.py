"""Dead letters, replicas, leases, waiting work and the state of the installation.

A dead letter of a step belongs to the agent's owner. Operators see all of them; those without a
step are visible to operators only.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Text, case, cast, distinct, func, select, text, true
from sqlalchemy.orm import InstrumentedAttribute

from services.api.auth.dependencies import Access
from services.api.reading import columns_of, paginate_rows
from services.api.resources.operate.dead_letters import explain
from shared.database.pagination import Keyset
from shared.database.tables import Agent, DeadLetter, Iteration, Step
from shared.database.transaction import Transaction
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.schemas.base import Page, PageRequest
from shared.schemas.operations import DeadLetterDetails, DeadLetterStep
from shared.workflow.dead_letters import FailedStep, retry_refusal

_NEWEST: Final = Keyset("dead letters", (DeadLetter.stored_at, DeadLetter.id))
_STEP: Final[Mapping[str, ColumnElement[Any] | InstrumentedAttribute[Any]]] = {
    "id": Step.id,
    "kind": Step.kind,
    "index": Step.index,
    "status": Step.status,
    "iteration_id": Iteration.id,
    "iteration_number": Iteration.number,
    "iteration_status": Iteration.status,
    "agent_id": Agent.id,
    "agent_name": Agent.name,
}
"""The columns of a DeadLetterStep."""
_LETTER: Final = (
    *columns_of(
        DeadLetter,
        DeadLetterDetails,
        # Only of a message that has not failed again since.
        retry_requested_at=case(
            (DeadLetter.retry_requested_at > DeadLetter.stored_at, DeadLetter.retry_requested_at)
        ),
    ),
    *(column.label(f"step_{name}") for name, column in _STEP.items()),
)


async def list_dead_letters(
    access: Access, page_request: PageRequest, *, service: str | None = None
) -> Page[DeadLetterDetails]:
    """Lists dead letters with their contents, newest first; with `service`, those of one service."""
    statement = _select_visible(access)
    if service is not None:
        statement = statement.where(DeadLetter.service == service)
    rows, following = await paginate_rows(access.session, statement, _NEWEST, page_request)
    return Page(items=[_view(row) for row in rows], next=following)


async def find_dead_letters(access: Access, reference: str) -> list[DeadLetterDetails]:
    """Returns the dead letters whose id starts with `reference`: at most two, which is enough to detect ambiguity."""
    begins = cast(DeadLetter.id, Text).startswith(reference.strip().lower(), autoescape=True)
    rows = await access.session.execute(_select_visible(access).where(begins).limit(2))
    return [_view(dict(row)) for row in rows.mappings()]


async def get_dead_letters(access: Access, ids: Collection[UUID]) -> list[DeadLetterDetails]:
    """Returns those of these dead letters that exist and that the caller may see."""
    rows = await access.session.execute(_select_visible(access).where(DeadLetter.id.in_(ids)))
    return [_view(dict(row)) for row in rows.mappings()]


def _select_visible(access: Access) -> Select[*tuple[Any, ...]]:
    return (
        select(*_LETTER)
        .outerjoin(Step, Step.id == DeadLetter.step_id)
        .outerjoin(Iteration, Iteration.id == Step.iteration_id)
        .outerjoin(Agent, Agent.id == Step.agent_id)
        .where(true() if access.caller.is_operator else Agent.owner_id == access.owner_id)
    )


def _view(row: Mapping[str, Any]) -> DeadLetterDetails:
    step = failed_step = None
    if None not in (row["step_id"], row["step_iteration_id"], row["step_agent_id"]):
        step = DeadLetterStep(**{name: row[f"step_{name}"] for name in _STEP})
        failed_step = FailedStep(
            StepKind(step.kind),
            step.iteration_number,
            IterationStatus(step.iteration_status),
            step.agent_name,
        )
    try:
        payload_text = row["payload"].decode()
    except UnicodeDecodeError:
        payload_text = None
    refusal = retry_refusal(row["service"], row["subject"], row["code"], failed_step)
    letter = DeadLetterDetails.model_validate(
        {**row, "refusal": refusal, "step": step, "text": payload_text}
    )
    return letter.model_copy(update=explain(letter)._asdict())


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


async def read_workforce(session: Transaction) -> Workforce:
    """Reads the connections of the server, as far as any role may see them, and the leases of running steps."""
    return Workforce(await _replicas(session), await _leases(session))


async def _replicas(session: Transaction) -> dict[str, int]:
    # The application name of each connection is vigil-SERVICE@PROCESS.
    rows = await session.execute(
        text(
            "select split_part(substr(application_name, 7), '@', 1), count(distinct application_name)"
            " from pg_stat_activity"
            " where datname = current_database() and application_name like 'vigil-%@%' group by 1"
        )
    )
    return {row[0]: row[1] for row in rows}


async def _leases(session: Transaction) -> dict[str, Leases]:
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


async def read_installation_state(session: Transaction) -> InstallationState:
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


async def read_waiting(session: Transaction) -> dict[str, Waiting]:
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


async def read_provider_use(session: Transaction) -> Mapping[Provider, ProviderUse]:
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


class MailQueue(NamedTuple):
    """Deliveries by mail that are not sent yet, or wait for another attempt."""

    pending: int
    error: str | None
    """The last error among them."""


async def read_mail_queue(session: Transaction) -> MailQueue:
    return MailQueue(*(await session.execute(_MAIL_QUEUE)).one())


_MAIL_QUEUE: Final = text("""
select count(*) as pending, (array_agg(error order by next_attempt_at desc) filter (where error is not null))[1] as error
from deliveries join destinations on destinations.id = destination_id
where status = 'pending' and destinations.kind = 'mail'
""")


class DatabaseState(NamedTuple):
    version: str
    """Such as `16.4`."""
    size_bytes: int
    connections: int
    """To this database, of all services."""
    max_connections: int
    """Of the server."""


async def read_database_state(session: Transaction) -> DatabaseState:
    return DatabaseState(*(await session.execute(_DATABASE_STATE)).one())


_DATABASE_STATE: Final = text("""
select split_part(current_setting('server_version'), ' ', 1) as version, pg_database_size(current_database()) as size_bytes,
  (select count(*) from pg_stat_activity where datname = current_database()) as connections,
  cast(current_setting('max_connections') as integer) as max_connections
""")
