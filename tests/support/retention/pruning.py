"""Pruners of tests, and what must stay as it was when they prune."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.queries import cost_reports, costs
from services.api.queries.cost_reports import CostScope, Period
from services.api.queries.costs import CostQuery
from services.scheduler.pruner import Pruner
from shared.database.engine import Database
from shared.database.tables import Agent, Base
from shared.enums import RetentionKind
from shared.graph.scope import GraphScope
from shared.workflow.retention import RetentionPolicy
from tests.support import budget_audit
from tests.support.graph.verification import breaks

AGES: Final = dict.fromkeys(RetentionKind, 30.0)
"""Days."""


def pruner(database: Database, days: dict[RetentionKind, float] | None = None) -> Pruner:
    """One that keeps no iteration because it is among the newest."""
    policy = RetentionPolicy.of_days(AGES if days is None else days)
    return Pruner(database, policy, pause_seconds=0, kept_iterations=0, kept_working=1)


async def prune_after(database: Database, days: float, *kinds: RetentionKind) -> dict[str, int]:
    """Prune as if so many days had passed; without kinds, all of them."""
    async with database.transaction() as session:
        now: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    of_tests = pruner(database)
    return {
        kind: await of_tests.prune(kind, now + timedelta(days=days))
        for kind in kinds or tuple(RetentionKind)
    }


async def publish_ends(database: Database) -> None:
    """As if the scheduler had received the ends of all iterations."""
    async with database.transaction() as session:
        await session.execute(text("update iterations set end_published_at = ended_at"))


async def count_rows(database: Database) -> dict[str, int]:
    async with database.snapshot() as session:
        return {
            name: (await session.execute(select(func.count()).select_from(table))).scalar_one()
            for name, table in Base.metadata.tables.items()
        }


@dataclass(frozen=True)
class Sums:
    """Everything that is summed of calls, in the form in which it is shown."""

    summary: Any
    costs: Any
    report: Any
    budgets: Any


async def read_sums(database: Database, agent: Agent) -> Sums:
    """Raises AssertionError if the budgets do not agree with the calls."""
    async with database.snapshot() as session:
        assert await budget_audit.faults(session) == []
        assert await budget_audit.spending_faults(session) == []
        return Sums(
            (await costs.agent_call_totals(session, agent.owner_id, agent.id)).model_dump(),
            [await _costs(session, agent, by) for by in ("day", "phase", "model", "agent")],
            await _report(session, agent),
            [
                tuple(row)
                for row in await session.execute(
                    text("select * from budget_days order by scope, day")
                )
            ],
        )


async def _costs(session: AsyncSession, agent: Agent, by: Any) -> Any:
    own = await costs.agent_costs(session, agent.id, CostQuery(by=by))
    of_owner = await costs.owner_costs(session, agent.owner_id, CostQuery(by=by), is_operator=True)
    return own.model_dump(), of_owner.model_dump()


async def _report(session: AsyncSession, agent: Agent) -> Any:
    now: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    period = Period.ending_now("day", 30, now)
    report = await cost_reports.read_report(
        session, CostScope(agent.owner_id, agent.id), period, "phase", now
    )
    rows = {name: [row.model_dump() for row in rows] for name, rows in report.by.items()}
    points = sorted(report.points, key=lambda point: (point.start, point.key or ""))
    return report.totals.model_dump(), rows, points, report.recent


async def find_faults(database: Database, agent: Agent) -> list[str]:
    """What `vigil verify --all` reports."""
    async with database.snapshot() as session:
        faults = await breaks(session, GraphScope(agent.owner_id, agent.id))
    return [f"{fault.link} {fault.name}: {fault.message}" for fault in faults]
