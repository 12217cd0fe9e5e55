"""Pruners of tests, and what must stay as it was when they prune."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import func, select, text

from services.api.resources.costs import model as costs
from services.api.resources.costs import reports as cost_reports
from services.api.resources.costs.ledger import CostScope
from services.api.resources.costs.model import CostQuery
from services.scheduler.pruner import Pruner
from shared.database.engine import Database
from shared.database.tables import Agent, Base
from shared.database.transaction import Transaction
from shared.enums import RetentionKind
from shared.graph.scope import GraphScope
from shared.workflow.retention import RetentionPolicy
from tests.support import budget_audit
from tests.support.api.access import agent_access
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
            (
                await costs.summarize_calls(agent_access(session, agent.owner_id, agent.id))
            ).model_dump(),
            [await _costs(session, agent, by) for by in ("day", "phase", "model", "agent")],
            await _report(session, agent),
            [
                tuple(row)
                for row in await session.execute(
                    text("select * from budget_days order by scope, day")
                )
            ],
        )


async def _costs(session: Transaction, agent: Agent, by: Any) -> Any:
    scopes = CostScope(agent.owner_id, agent.id), CostScope(agent.owner_id)
    return [
        (await costs.read_costs(session, scope, CostQuery(by=by), None)).model_dump()
        for scope in scopes
    ]


async def _report(session: Transaction, agent: Agent) -> Any:
    now: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    scope = CostScope(agent.owner_id, agent.id)
    report = await cost_reports.read_report(session, scope, 30, "phase", now)
    recent = await cost_reports.read_recent(session, scope, now)
    rows = {name: [row.model_dump() for row in rows] for name, rows in report.by.items()}
    points = sorted(report.points, key=lambda point: (point.day, point.key or ""))
    return report.totals.model_dump(), rows, points, sorted(recent)


async def find_faults(database: Database, agent: Agent) -> list[str]:
    """What `vigil verify --all` reports."""
    async with database.snapshot() as session:
        faults = await breaks(session, GraphScope(agent.owner_id, agent.id))
    return [f"{fault.link} {fault.name}: {fault.message}" for fault in faults]
