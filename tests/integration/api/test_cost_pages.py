"""Cost reports of the pages: they agree with the API's costs, whatever the period and the grouping."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select, update

from services.api.queries import cost_reports, costs
from services.api.queries.cost_reports import CostReport, CostScope, Period, StackedBy
from services.api.queries.costs import CostQuery
from shared.database.engine import Database
from shared.database.tables import Agent, Call
from shared.schemas.costs import CostTotals
from tests.support.api.full_agent import AGENT, add_phase_run
from tests.support.factories import make_agent, make_iteration

ROOT = "http://127.0.0.1"


async def create_agent_with_calls(database: Database, name: str = AGENT) -> Agent:
    """Two model calls and one search, of which each model call costs a little."""
    agent = await make_agent(database, name=name)
    await add_phase_run(database, await make_iteration(database, agent))
    async with database.transaction() as session:
        await session.execute(
            update(Call)
            .where(Call.agent_id == agent.id, Call.model.is_not(None))
            .values(cost_usd="0.00000123", output_tokens=3, attempts=1)
        )
    return agent


async def move_first_call(database: Database, agent_id: UUID, began: datetime) -> None:
    async with database.transaction() as session:
        first = select(Call.id).where(Call.agent_id == agent_id, Call.model.is_not(None)).limit(1)
        await session.execute(
            update(Call).where(Call.id == first.scalar_subquery()).values(started_at=began)
        )


async def read(
    database: Database,
    scope: CostScope,
    period: Period | None = None,
    stacked_by: StackedBy = "phase",
    **options: Any,
) -> CostReport:
    now = datetime.now(UTC)
    async with database.transaction() as session:
        return await cost_reports.read_report(
            session,
            scope,
            period or Period.ending_now("day", 30, now),
            stacked_by,
            now,
            **options,
        )


def sums(row: CostTotals) -> dict[str, Any]:
    return {name: getattr(row, name) for name in CostTotals.model_fields}


@pytest.mark.parametrize("by", ["phase", "model"])
async def test_a_report_adds_up_to_the_owners_costs(database: Database, by: Any) -> None:
    agent = await create_agent_with_calls(database)
    report = await read(database, CostScope(agent.owner_id))
    async with database.transaction() as session:
        owner_costs = await costs.owner_costs(
            session, agent.owner_id, CostQuery(by=by), is_operator=False
        )
    assert sums(report.totals) == sums(owner_costs.totals)
    assert {row.key: sums(row) for row in report.by[by]} == {
        group.key: sums(group) for group in owner_costs.groups
    }
    assert {row.key: row.calls for row in report.by["kind"]} == {"llm": 2, "search": 1}
    assert report.agent_names == {str(agent.id): agent.name}
    assert sum(point.calls for point in report.points) == 3
    foreign = await read(database, CostScope(uuid4()))
    assert (foreign.totals.calls, foreign.by["agent"], foreign.points) == (0, [], [])


@pytest.mark.parametrize("step", ["hour", "day"])
async def test_calls_are_counted_in_the_hour_or_day_in_which_they_began(
    database: Database, step: Any
) -> None:
    agent = await create_agent_with_calls(database)
    began = datetime.now(UTC) - timedelta(days=2)
    await move_first_call(database, agent.id, began)
    period = Period.ending_now(step, 7, datetime.now(UTC))
    report = await read(database, CostScope(agent.owner_id, agent.id), period)
    starts = list(period.starts())
    counts = {point.start.astimezone(UTC): point.calls for point in report.points}
    assert set(counts) <= set(starts)
    (moved,) = [start for start, calls in counts.items() if calls == 1]
    assert moved <= began < moved + cost_reports.STEPS[period.step]


async def test_what_is_before_the_period_is_recent_and_not_in_the_report(
    database: Database,
) -> None:
    agent = await create_agent_with_calls(database)
    began = datetime.now(UTC) - timedelta(days=3)
    await move_first_call(database, agent.id, began)
    scope = CostScope(agent.owner_id, agent.id)
    hours = Period.ending_now("hour", 1, datetime.now(UTC))
    long_ago = Period.of_days("day", *[(datetime.now(UTC) - timedelta(days=200)).date()] * 2)
    for period, calls in ((hours, 2), (long_ago, 0)):
        report = await read(database, scope, period)
        assert report.totals.calls == calls
        days = {day.day: day.calls for day in report.recent}
        assert days[began.date()] == 1
        assert sum(days.values()) == 3


async def test_all_but_the_most_expensive_are_one_series(database: Database) -> None:
    first = await create_agent_with_calls(database, "First")
    await create_agent_with_calls(database, "Second")
    async with database.transaction() as session:
        await session.execute(update(Call).where(Call.agent_id == first.id).values(cost_usd=1))
    report = await read(database, CostScope(first.owner_id), None, "agent", max_series=1)
    assert {point.key: point.calls for point in report.points} == {str(first.id): 3, None: 3}
    assert report.by["agent"][0].key == str(first.id)


async def test_the_most_expensive_iteration_is_first(database: Database) -> None:
    agent = await create_agent_with_calls(database, "First")
    other = await create_agent_with_calls(database, "Second")
    async with database.transaction() as session:
        await session.execute(update(Call).where(Call.agent_id == other.id).values(cost_usd=1))
    period = Period.ending_now("day", 30, datetime.now(UTC))
    async with database.transaction() as session:
        scope = CostScope(agent.owner_id)
        costly = await cost_reports.list_costly_iterations(session, scope, period)
        foreign = await cost_reports.list_costly_iterations(session, CostScope(uuid4()), period)
    assert [(each.agent_name, each.number) for each in costly] == [("Second", 1), ("First", 1)]
    assert (costly[0].spent.cost_usd, costly[0].spent.calls) == (3.0, 3)
    assert foreign == []


async def test_the_life_of_the_agents_begins_with_the_first(database: Database) -> None:
    agent = await make_agent(database, name="First")
    await make_agent(database, name="Paused", active=False)
    async with database.transaction() as session:
        created = await session.scalar(select(Agent.created_at).where(Agent.id == agent.id))
        life = await cost_reports.read_life(session, CostScope(agent.owner_id))
        assert (life.exists_since, life.is_active) == (created, True)
        nobody = await cost_reports.read_life(session, CostScope(uuid4()))
        assert (nobody.exists_since, nobody.is_active) == (None, False)


@pytest.mark.parametrize(
    "query",
    ["", "?range=24h", "?range=7d&step=hour&stack=model", "?range=90d&unit=tokens", "?step=hour"],
)
async def test_every_way_to_look_at_costs_is_rendered(
    database: Database, api: httpx.AsyncClient, query: str
) -> None:
    await api.get("/agents")  # creates the owner
    await create_agent_with_calls(database)
    for path in ("/costs", f"/agents/{AGENT}/costs"):
        page = await api.get(f"{ROOT}{path}{query}")
        assert page.status_code == 200, page.text
        assert "By phase" in page.text
        assert "data-figures" in page.text


async def test_costs_are_downloaded_as_csv(database: Database, api: httpx.AsyncClient) -> None:
    await api.get("/agents")  # creates the owner
    await create_agent_with_calls(database)
    for path in ("/costs.csv?stack=phase", f"/agents/{AGENT}/costs.csv"):
        file = await api.get(f"{ROOT}{path}")
        assert file.headers["content-type"] == "text/csv; charset=utf-8"
        assert file.headers["content-disposition"].startswith("attachment; ")
        head, line = file.text.splitlines()
        assert head.endswith("phase,calls,input_tokens,output_tokens,cost_usd,assumed_usd")
        assert line.split(",")[1:5] == ["Observer", "3", "14", "6"]
    wrong = await api.get(f"{ROOT}/costs.csv?since=2026-02-02&until=2026-01-01")
    assert (wrong.status_code, wrong.text) == (
        422,
        "2026-02-02 is after 2026-01-01: choose a first day before the last.\n",
    )
