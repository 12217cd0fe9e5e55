"""Budgets and costs over HTTP."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest
from sqlalchemy import func, insert, select, update

from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import Agent, Call, Interaction, Iteration, Step
from shared.enums import CallKind, Phase
from shared.runtime.settings import Settings
from shared.workflow import iterations
from tests.support.api.clients import assert_problem, create_agent, create_client
from tests.support.api.rows import get_agent, start_iteration
from tests.support.case_files import read_cases

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
