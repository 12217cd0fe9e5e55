"""The page of costs, of all agents or of one, which can be downloaded as CSV."""

from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query
from starlette.responses import HTMLResponse, Response

from services.api.auth.dependencies import Access, AgentRef, OwnedAccess, find_agent_ref
from services.api.resources.costs import model
from services.api.resources.costs.charts import (
    as_csv,
    budget_share,
    build_chart,
    build_tiles,
    kinds_of,
    share_of,
    unit_of,
)
from services.api.resources.costs.ledger import CostScope
from services.api.resources.costs.reports import (
    MAX_SERIES,
    CostReport,
    Life,
    read_life,
    read_recent,
    read_report,
)
from services.api.web.rendering import PAGE_HEADERS, PageResponse
from shared.schemas.costs import BudgetUsage

router = APIRouter()

Days = Literal["7", "30", "90"]
DAYS: Final[tuple[Days, ...]] = ("7", "30", "90")
MAX_CSV_SERIES: Final = 10_000


@dataclass(frozen=True)
class _Wanted:
    """The parameters of the page."""

    days: Days = "30"
    agent: Annotated[str, Query(max_length=200)] = ""
    """An id or a name; empty for all agents."""


Wanted = Annotated[_Wanted, Depends()]


@dataclass(frozen=True)
class _Scope:
    """Whose costs are shown, and the budget that limits them."""

    costs: CostScope
    agent: AgentRef | None = None
    suspended_until: datetime | None = None
    usage: BudgetUsage | None = None
    """Of the installation only operators see it."""


async def _scope(access: Access, wanted: _Wanted) -> _Scope:
    """Raises NotFoundError."""
    if not wanted.agent:
        usage = await model.budget_usage(access.session) if access.caller.is_operator else None
        return _Scope(CostScope(access.owner_id), usage=usage)
    agent = await find_agent_ref(access, wanted.agent)
    budget = await model.agent_budget(access.session, agent.id)
    scope = CostScope(access.owner_id, agent.id)
    return _Scope(scope, agent, budget.suspended_until, budget.usage)


async def _report(
    access: Access, scope: _Scope, wanted: _Wanted, max_series: int = MAX_SERIES
) -> tuple[Life, CostReport]:
    life = await read_life(access.session, scope.costs)
    stacked_by: Literal["phase", "agent"] = "phase" if scope.agent else "agent"
    report = await read_report(
        access.session,
        scope.costs,
        int(wanted.days),
        stacked_by,
        life.now,
        max_series=max_series,
    )
    return life, report


@router.get("/costs")
async def show_costs(access: OwnedAccess, page: PageResponse, wanted: Wanted) -> HTMLResponse:
    """Shows the costs of all agents, or of one of them."""
    scope = await _scope(access, wanted)
    life, report = await _report(access, scope, wanted)
    recent = await read_recent(access.session, scope.costs, life.now)
    usage, unit = scope.usage, unit_of(recent, report.totals)
    return await page.answer(
        "costs/page.html",
        agent=scope.agent,
        suspended_until=scope.suspended_until,
        days=wanted.days,
        choices=DAYS,
        report=report,
        unit=unit,
        tiles=build_tiles(life, recent, unit, usage.usd_per_day if usage else None),
        chart=build_chart(report, unit),
        share_of=share_of,
        kinds_of=kinds_of,
        usage=usage,
        used_share=budget_share(usage) if usage else None,
    )


@router.get("/costs.csv")
async def download_costs(access: OwnedAccess, wanted: Wanted) -> Response:
    scope = await _scope(access, wanted)
    _, report = await _report(access, scope, wanted, MAX_CSV_SERIES)
    name = f"vigil-costs-{scope.agent.id}.csv" if scope.agent else "vigil-costs.csv"
    headers = {**PAGE_HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(as_csv(report), HTTPStatus.OK, headers, "text/csv; charset=utf-8")
