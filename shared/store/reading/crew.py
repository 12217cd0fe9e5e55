"""Who is at work, as Postgres sees it: replicas by their connections, workers by their leases."""

from dataclasses import dataclass, field

from sqlalchemy import distinct, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.tables import Step
from shared.store.words import StepKind, StepStatus

_ACTOR_OF = {
    StepKind.OBSERVE: "observer",
    StepKind.QUERY: "researcher",
    StepKind.INSIGHT: "analyzer",
    StepKind.ADVISE: "adviser",
    StepKind.CONFIGURE: "concierge",
    StepKind.CONVERSE: "concierge",
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
