"""Budgets and costs over HTTP, and the reports of their pages."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import func, insert, select, update

from services.api.resources.costs import model as costs
from services.api.resources.costs import reports as cost_reports
from services.api.resources.costs.ledger import CostScope
from services.api.resources.costs.model import CostQuery
from services.api.resources.costs.reports import CostReport, StackedBy
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import Agent, Call, Interaction, Iteration, Step
from shared.enums import CallKind, Phase
from shared.runtime.settings import Settings
from shared.schemas.costs import CostTotals
from shared.workflow import iterations
from tests.support.api.clients import assert_problem, create_agent, create_client
from tests.support.api.full_agent import AGENT, add_phase_run
from tests.support.api.rows import get_agent, start_iteration
from tests.support.case_files import read_cases
from tests.support.factories import make_agent, make_iteration

CASES = read_cases(__file__)


NO_CAPS = {"usd_per_day": None, "calls_per_day": None, "left_usd": None, "left_calls": None}


def caps(budget: dict[str, Any]) -> dict[str, Any]:
    return {key: budget[key] for key in NO_CAPS}


async def test_an_agents_budget_is_set_and_removed(api: httpx.AsyncClient) -> None:
    agent = await create_agent(api, name="Lithium")
    budget = (await api.get("/agents/lithium/budget")).json()
    assert (budget["agent_id"], budget["suspended_until"]) == (agent["id"], None)
    assert caps(budget["usage"]) == {**NO_CAPS, "usd_per_day": 5.0, "left_usd": 5.0}
    limits = {"usd_per_day": 1.5, "calls_per_day": 20}
    for response in (
        await api.put("/agents/lithium/budget", json=limits),
        await api.get("/agents/lithium/budget"),
    ):
        assert caps(response.json()["usage"]) == {**limits, "left_usd": 1.5, "left_calls": 20}
    response = await api.put("/agents/lithium/budget", json={"calls_per_day": 3})
    assert caps(response.json()["usage"]) == {**NO_CAPS, "calls_per_day": 3, "left_calls": 3}
    response = await api.put("/agents/lithium/budget", json={})
    assert caps(response.json()["usage"]) == NO_CAPS


async def test_the_installations_budget_is_set_and_removed(api: httpx.AsyncClient) -> None:
    assert caps((await api.get("/budget")).json()) == NO_CAPS
    limits = {"usd_per_day": 0.1, "calls_per_day": 0}
    for response in (await api.put("/budget", json=limits), await api.get("/budget")):
        assert caps(response.json()) == {**limits, "left_usd": 0.1, "left_calls": 0}
    assert caps((await api.put("/budget", json={})).json()) == NO_CAPS


async def test_an_invalid_budget_is_rejected(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    await create_agent(api, name="Lithium")
    for body, words in CASES["an_invalid_budget_is_rejected"]:
        with subtests.test(str(body)):
            for path in ("/budget", "/agents/lithium/budget"):
                assert_problem(await api.put(path, json=body), 422, *words)


async def test_new_agents_get_the_budget_of_the_settings(database_url: str) -> None:
    settings = Settings(
        database_url=database_url, budget_usd_per_day=Decimal("2.5"), budget_calls_per_day=100
    )
    async with create_client(settings) as api:
        await create_agent(api, name="Lithium")
        budget = (await api.get("/agents/lithium/budget")).json()["usage"]
    assert (budget["usd_per_day"], budget["calls_per_day"]) == (2.5, 100)


@pytest.mark.parametrize(("settings", "cap"), [({}, 5.0), ({"budget_usd_per_day": None}, None)])
async def test_new_agents_have_a_default_cap_unless_the_settings_remove_it(
    database_url: str, settings: dict[str, Any], cap: float | None
) -> None:
    async with create_client(Settings(database_url=database_url, **settings)) as api:
        agent = await create_agent(api, name="Lithium")
        budget = (await api.get("/agents/lithium/budget")).json()["usage"]
        agents = (await api.get("/agents")).json()["items"]
    assert agent["budget_usd_per_day"] == budget["usd_per_day"] == cap
    assert [row["budget_usd_per_day"] for row in agents] == [cap]


async def test_a_suspended_agent_is_not_run(api: httpx.AsyncClient, database: Database) -> None:
    await create_agent(api, name="Lithium")
    await suspend(database)
    assert_problem(await api.post("/agents/lithium/run"), 409, "suspended until", "higher budget")
    assert (await api.get("/agents/lithium")).json()["suspended_until"] is not None
    await api.put("/agents/lithium/budget", json={"usd_per_day": 1})
    assert (await api.post("/agents/lithium/run")).status_code == 202
    await suspend(database)
    await api.put("/budget", json={"calls_per_day": 10})
    assert (await api.get("/agents/lithium")).json()["suspended_until"] is None


async def suspend(database: Database) -> None:
    async with database.transaction() as session:
        until = func.clock_timestamp() + timedelta(hours=1)
        await session.execute(update(Agent).values(suspended_until=until))


async def test_costs_are_grouped_by_day_agent_phase_and_model(
    api: httpx.AsyncClient, database: Database
) -> None:
    await create_agent(api, name="Lithium")
    await create_agent(api, name="Cobalt")
    today = datetime.now(UTC).replace(hour=12)
    for days, name, cost in ((0, "Lithium", "0.25"), (1, "Lithium", "0.50"), (1, "Cobalt", "1")):
        await add_call(database, name, cost, today - timedelta(days=days))
    search = {"kind": CallKind.SEARCH, "model": None, "phase": Phase.KNOWLEDGE_ACQUISITION}
    await add_call(database, "Lithium", "0.008", today, assumed_usd=Decimal("0.01"), **search)

    async def groups(by: str, **params: Any) -> dict[str, tuple[int, float]]:
        costs = (await api.get("/costs", params={"by": by, **params})).json()
        return {group["key"]: (group["calls"], group["cost_usd"]) for group in costs["groups"]}

    yesterday = (today - timedelta(days=1)).date().isoformat()
    assert await groups("day") == {
        yesterday: (2, 1.5),
        today.date().isoformat(): (2, 0.258),
    }
    assert await groups("agent") == {"Cobalt": (1, 1.0), "Lithium": (3, 0.758)}
    assert await groups("phase") == {"observer": (3, 1.75), "knowledge_acquisition": (1, 0.008)}
    assert await groups("model") == {"m": (3, 1.75), "search": (1, 0.008)}
    assert await groups("agent", until=yesterday) == {"Cobalt": (1, 1.0), "Lithium": (1, 0.5)}
    costs = (await api.get("/agents/lithium/costs")).json()
    assert (costs["totals"]["cost_usd"], costs["totals"]["assumed_usd"]) == (0.758, 0.01)
    assert costs["totals"]["input_tokens"] == 20
    assert costs["usage"]["usd_per_day"] == 5.0


async def test_costs_are_paginated(api: httpx.AsyncClient, database: Database) -> None:
    for name in ("A", "B", "C"):
        await create_agent(api, name=name)
        await add_call(database, name, "0.1", datetime.now(UTC))
    keys: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await api.get("/costs", params={"by": "agent", "limit": 2, **cursor})).json()
        keys += [group["key"] for group in page["groups"]]
        assert page["totals"]["calls"] == 3, "of all pages"
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert keys == ["A", "B", "C"]
    assert_problem(await api.get("/costs", params={"cursor": "x\x00"}), 400, "NUL")


async def test_invalid_cost_parameters_are_rejected(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for params, words in CASES["invalid_cost_parameters_are_rejected"]:
        with subtests.test(str(params)):
            assert_problem(await api.get("/costs", params=params), 422, *words)


async def add_call(
    database: Database, agent_name: str, cost: str, started_at: datetime, **columns: Any
) -> None:
    agent = await get_agent(database, agent_name)
    async with database.transaction() as session:
        iteration = await session.scalar(select(Iteration).where(Iteration.agent_id == agent.id))
    iteration_id = iteration.id if iteration else await start_iteration(database, agent_name)
    async with database.transaction() as session:
        step = (await session.scalars(select(Step).where(Step.iteration_id == iteration_id))).one()
        number = await session.scalar(select(func.count()).select_from(Call))
        interaction_id = ids.interaction_id(step.id, Phase.OBSERVER)
        if await session.get(Interaction, interaction_id) is None:
            await session.insert(
                Interaction,
                id=interaction_id,
                agent_id=agent.id,
                step_id=step.id,
                phase=Phase.OBSERVER,
                model="m",
                system_prompt="",
                request={},
            )
        row = {
            "id": ids.call_id(step.id, f"{number}"),
            "agent_id": agent.id,
            "step_id": step.id,
            "interaction_id": interaction_id,
            "kind": CallKind.LLM,
            "phase": Phase.OBSERVER,
            "model": "m",
            "request_hash": f"{number}",
            "request": {},
            "input_tokens": 10 if "kind" not in columns else None,
            "cost_usd": Decimal(cost),
            "started_at": started_at,
            "answered_at": await iterations.database_time(session),
            **columns,
        }
        await session.execute(insert(Call).values(row))


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
