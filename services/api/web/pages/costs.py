"""Cost pages: of all agents, and of one. Each can be downloaded as CSV."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.responses import HTMLResponse, Response

from services.api.auth.dependencies import OwnedAccess, OwnedAgent
from services.api.queries import cost_reports, costs
from services.api.queries.cost_reports import (
    CostScope,
    Life,
    Period,
    PeriodError,
    PeriodStep,
    StackedBy,
)
from services.api.web.forms import UNLESS_BLANK
from services.api.web.presenters.costs import (
    Unit,
    as_csv,
    budget_share,
    build_chart,
    build_tiles,
    find_unit,
    kinds_of,
    prompt_parts,
    share_of,
)
from services.api.web.rendering import PAGE_HEADERS, PageResponse
from shared.schemas.costs import BudgetUsage

router = APIRouter()

Range = Literal["24h", "7d", "30d", "90d"]
RANGE_DAYS: Final[dict[Range, int]] = {"24h": 1, "7d": 7, "30d": 30, "90d": 90}
_HOURLY: Final[tuple[Range, ...]] = ("24h", "7d")
_DAILY: Final[tuple[Range, ...]] = ("7d", "30d", "90d")
_YOUNG: Final = timedelta(days=2)
"""An agent younger than this has more to show by the hour."""
MAX_CSV_SERIES: Final = 10_000

_Day = Annotated[
    # The bounds apply to the date only, not to None.
    Annotated[date, Field(ge=date(2000, 1, 1), le=date(2999, 12, 31))] | None,
    # An emptied field is sent as an empty string.
    UNLESS_BLANK,
    Query(),
]


@dataclass(frozen=True)
class Choice:
    """What to show: the last hours or days, or from one day to another."""

    step: PeriodStep
    span: Range | None
    """None for a choice of days."""
    stack: StackedBy
    unit: Unit | None
    """None: dollars, unless nothing was billed."""
    since: date | None = None
    until: date | None = None

    def period(self, now: datetime) -> Period:
        """Raises PeriodError."""
        if self.span is not None:
            return Period.ending_now(self.step, RANGE_DAYS[self.span], now)
        until = self.until or now.date()
        return Period.of_days(self.step, self.since or until - timedelta(days=29), until)

    def query(self, **changes: str | None) -> str:
        """The query string of this choice, with other values for some parameters; None leaves one out."""
        parameters: dict[str, str | None] = {
            "range": self.span,
            "since": str(self.since) if self.since else None,
            "until": str(self.until) if self.until else None,
            "step": self.step,
            "stack": self.stack,
            "unit": self.unit,
        }
        return urlencode({k: v for k, v in (parameters | changes).items() if v is not None})

    @property
    def ranges(self) -> "list[Option]":
        """Each by the hour or day that fits it."""
        options = []
        for span in RANGE_DAYS:
            step = self.step if span == "7d" else ("hour" if span in _HOURLY else "day")
            query = self.query(range=span, step=step, since=None, until=None)
            options.append(Option(span, _RANGE_WORDS[span], query, span == self.span))
        return options

    @property
    def steps(self) -> "list[Option]":
        """By hour or by day: with the range as it is, or one that fits."""
        options = []
        for step, words in _STEP_WORDS.items():
            changes = {} if self._fits(step) else {"range": "7d", "since": None, "until": None}
            query = self.query(step=step, **changes)
            options.append(Option(step, words, query, step == self.step))
        return options

    def stacks(self, *, of_agent: bool) -> "list[Option]":
        return [
            Option(stack, words, self.query(stack=stack), stack == self.stack)
            for stack, words in _STACK_WORDS.items()
            if not (of_agent and stack == "agent")
        ]

    def units(self, shown: Unit) -> "list[Option]":
        return [
            Option("usd", "Cost", self.query(unit=None), shown == "usd"),
            Option("tokens", "Tokens", self.query(unit="tokens"), shown == "tokens"),
        ]

    def _fits(self, step: PeriodStep) -> bool:
        if self.span is not None:
            return self.span in (_HOURLY if step == "hour" else _DAILY)
        days = (self.until - self.since).days + 1 if self.until and self.since else None
        return step == "day" or (days is not None and days <= cost_reports.MAX_HOURLY_DAYS)


class Option(NamedTuple):
    """One of several ways to look at costs, as a link."""

    value: str
    words: str
    query: str
    is_chosen: bool


_RANGE_WORDS: Final[dict[Range, str]] = {
    "24h": "24 hours",
    "7d": "7 days",
    "30d": "30 days",
    "90d": "90 days",
}
_STEP_WORDS: Final[dict[PeriodStep, str]] = {"hour": "By hour", "day": "By day"}
_STACK_WORDS: Final[dict[StackedBy, str]] = {"phase": "Phase", "agent": "Agent", "model": "Model"}


@dataclass(frozen=True)
class _Wanted:
    """The parameters of the page; what is missing depends on how old the agent is."""

    span: Range | None
    step: PeriodStep | None
    stack: StackedBy | None
    unit: Unit | None
    since: date | None
    until: date | None

    def choice(self, life: Life, *, of_agent: bool) -> Choice:
        stack = self.stack or ("phase" if of_agent else "agent")
        if self.since or self.until:
            return Choice(self.step or "day", None, stack, self.unit, self.since, self.until)
        age = life.now - (life.exists_since or life.now)
        span = self.span or ("24h" if age < _YOUNG else "30d")
        step = self.step or ("hour" if span == "24h" else "day")
        if span not in (_HOURLY if step == "hour" else _DAILY):
            step = "hour" if span in _HOURLY else "day"
        return Choice(step, span, stack, self.unit)


def _wanted(
    span: Annotated[Range | None, Query(alias="range")] = None,
    step: PeriodStep | None = None,
    stack: StackedBy | None = None,
    unit: Unit | None = None,
    since: _Day = None,
    until: _Day = None,
) -> _Wanted:
    return _Wanted(span, step, stack, unit, since, until)


Wanted = Annotated[_Wanted, Depends(_wanted)]


@router.get("/costs")
async def show_costs(access: OwnedAccess, page: PageResponse, wanted: Wanted) -> HTMLResponse:
    """Shows the costs of all agents; operators also see what is left of the installation's budget."""
    usage = None
    if access.caller.is_operator:
        usage = await costs.installation_usage(access.session)
    scope = CostScope(access.owner_id)
    return await _show(page, "costs/all.html", access.session, scope, wanted, usage)


@router.get("/agents/{agent}/costs")
async def show_agent_costs(access: OwnedAgent, page: PageResponse, wanted: Wanted) -> HTMLResponse:
    budget = await costs.agent_budget(access.session, access.agent.id)
    return await _show(
        page,
        "costs/agent.html",
        access.session,
        CostScope(access.owner_id, access.agent.id),
        wanted,
        budget.usage,
        agent=access.agent,
        suspended_until=budget.suspended_until,
    )


@router.get("/costs.csv")
async def download_costs(access: OwnedAccess, wanted: Wanted) -> Response:
    return await _download(access.session, CostScope(access.owner_id), wanted, "vigil-costs.csv")


@router.get("/agents/{agent}/costs.csv")
async def download_agent_costs(access: OwnedAgent, wanted: Wanted) -> Response:
    scope = CostScope(access.owner_id, access.agent.id)
    return await _download(access.session, scope, wanted, f"vigil-costs-{access.agent.id}.csv")


async def _show(
    page: PageResponse,
    template: str,
    session: AsyncSession,
    scope: CostScope,
    wanted: _Wanted,
    usage: BudgetUsage | None,
    **context: Any,
) -> HTMLResponse:
    life = await cost_reports.read_life(session, scope)
    choice = wanted.choice(life, of_agent=scope.agent_id is not None)
    wrong = None
    try:
        period = choice.period(life.now)
    except PeriodError as error:
        wrong = str(error)
        choice = Choice("day", "30d", choice.stack, choice.unit)
        period = choice.period(life.now)
    report = await cost_reports.read_report(session, scope, period, choice.stack, life.now)
    unit, is_billed = find_unit(report, choice.unit), find_unit(report) == "usd"
    return await page.answer(
        template,
        status=HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        wrong=wrong,
        choice=choice,
        stacks=choice.stacks(of_agent=scope.agent_id is not None),
        units=choice.units(unit) if is_billed else [],
        report=report,
        unit=unit,
        tiles=build_tiles(life, report.recent, unit, usage.usd_per_day if usage else None),
        chart=build_chart(report, unit),
        parts_of=prompt_parts,
        share_of=share_of,
        kinds_of=kinds_of,
        usage=usage,
        used_share=budget_share(usage) if usage else None,
        costly=await cost_reports.list_costly_iterations(session, scope, period),
        sampled=cost_reports.SAMPLED_ITERATIONS,
        **context,
    )


async def _download(
    session: AsyncSession, scope: CostScope, wanted: _Wanted, name: str
) -> Response:
    life = await cost_reports.read_life(session, scope)
    choice = wanted.choice(life, of_agent=scope.agent_id is not None)
    try:
        period = choice.period(life.now)
    except PeriodError as error:
        return Response(f"{error}.\n", HTTPStatus.UNPROCESSABLE_ENTITY, PAGE_HEADERS, "text/plain")
    report = await cost_reports.read_report(
        session, scope, period, choice.stack, life.now, max_series=MAX_CSV_SERIES
    )
    headers = {**PAGE_HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(as_csv(report), HTTPStatus.OK, headers, "text/csv; charset=utf-8")
