"""Cost reports of the pages: they agree with the API's costs, whatever the period and the grouping."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select, update

from services.api.resources.costs import model as costs
from services.api.resources.costs import reports as cost_reports
from services.api.resources.costs.ledger import CostScope
from services.api.resources.costs.model import CostQuery
from services.api.resources.costs.reports import CostReport, StackedBy
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
    days: int = 30,
    stacked_by: StackedBy = "phase",
    **options: Any,
) -> CostReport:
    now = datetime.now(UTC)
    async with database.transaction() as session:
        return await cost_reports.read_report(session, scope, days, stacked_by, now, **options)


def sums(row: CostTotals) -> dict[str, Any]:
    return {name: getattr(row, name) for name in CostTotals.model_fields}


@pytest.mark.parametrize("by", ["phase", "model"])
async def test_a_report_adds_up_to_the_owners_costs(database: Database, by: Any) -> None:
    agent = await create_agent_with_calls(database)
    report = await read(database, CostScope(agent.owner_id))
    async with database.transaction() as session:
        scope = CostScope(agent.owner_id)
        owner_costs = await costs.read_costs(session, scope, CostQuery(by=by), None)
    assert sums(report.totals) == sums(owner_costs.totals)
    assert {row.key: sums(row) for row in report.by[by]} == {
        group.key: sums(group) for group in owner_costs.groups
    }
    assert report.agent_names == {str(agent.id): agent.name}
    assert sum(point.calls for point in report.points) == 3
    foreign = await read(database, CostScope(uuid4()))
    assert (foreign.totals.calls, foreign.by["agent"], foreign.points) == (0, [], [])


async def test_calls_are_counted_on_the_day_on_which_they_began(database: Database) -> None:
    agent = await create_agent_with_calls(database)
    began = datetime.now(UTC) - timedelta(days=2)
    await move_first_call(database, agent.id, began)
    report = await read(database, CostScope(agent.owner_id, agent.id), 7)
    counts = {point.day: point.calls for point in report.points}
    assert len(report.days) == 7
    assert set(counts) <= set(report.days)
    assert counts[began.date()] == 1


async def test_what_is_before_the_period_is_recent_and_not_in_the_report(
    database: Database,
) -> None:
    agent = await create_agent_with_calls(database)
    began = datetime.now(UTC) - timedelta(days=10)
    await move_first_call(database, agent.id, began)
    scope = CostScope(agent.owner_id, agent.id)
    assert (await read(database, scope, 7)).totals.calls == 2
    async with database.transaction() as session:
        recent = await cost_reports.read_recent(session, scope, datetime.now(UTC))
    days = {day.day: day.calls for day in recent}
    assert (days[began.date()], sum(days.values())) == (1, 3)


async def test_all_but_the_most_expensive_are_one_series(database: Database) -> None:
    first = await create_agent_with_calls(database, "First")
    await create_agent_with_calls(database, "Second")
    async with database.transaction() as session:
        await session.execute(update(Call).where(Call.agent_id == first.id).values(cost_usd=1))
    report = await read(database, CostScope(first.owner_id), 30, "agent", max_series=1)
    assert {point.key: point.calls for point in report.points} == {str(first.id): 3, None: 3}
    assert report.by["agent"][0].key == str(first.id)


async def test_the_life_of_the_agents_begins_with_the_first(database: Database) -> None:
    agent = await make_agent(database, name="First")
    await make_agent(database, name="Paused", active=False)
    async with database.transaction() as session:
        created = await session.scalar(select(Agent.created_at).where(Agent.id == agent.id))
        life = await cost_reports.read_life(session, CostScope(agent.owner_id))
        assert (life.exists_since, life.is_active) == (created, True)
        nobody = await cost_reports.read_life(session, CostScope(uuid4()))
        assert (nobody.exists_since, nobody.is_active) == (None, False)


async def test_costs_are_shown_for_each_range(database: Database, api: httpx.AsyncClient) -> None:
    await api.get("/agents")  # creates the owner
    await create_agent_with_calls(database)
    for path in ("/costs?", f"/costs?agent={AGENT}"):
        for days in (7, 30, 90):
            page = await api.get(f"{ROOT}{path}&days={days}")
            assert page.status_code == 200, page.text
            assert "By phase" in page.text
            assert page.text.count("data-day=") == days
        assert (await api.get(f"{ROOT}{path}&days=8")).status_code == 422


async def test_costs_are_downloaded_as_csv(database: Database, api: httpx.AsyncClient) -> None:
    await api.get("/agents")  # creates the owner
    await create_agent_with_calls(database)
    for path, kind, key in (
        ("/costs.csv?days=90", "agent", AGENT),
        (f"/costs.csv?agent={AGENT}", "phase", "Observer"),
    ):
        file = await api.get(f"{ROOT}{path}")
        assert file.headers["content-type"] == "text/csv; charset=utf-8"
        assert file.headers["content-disposition"].startswith("attachment; ")
        head, line = file.text.splitlines()
        assert head == f"day_utc,{kind},calls,input_tokens,output_tokens,cost_usd,assumed_usd"
        assert line.split(",")[1:5] == [key, "3", "14", "6"]


async def test_the_settings_of_an_agent_have_what_it_spent(
    database: Database, api: httpx.AsyncClient
) -> None:
    await api.get("/agents")  # creates the owner
    agent = await create_agent_with_calls(database)
    page = (await api.get(f"{ROOT}/agents/{AGENT}/settings")).text
    section = page.partition('id="budget"')[2].partition("</section>")[0]
    assert "Last 7 days" in section
    assert "3 calls" in section
    assert f'href="/costs?agent={agent.id}"' in section
