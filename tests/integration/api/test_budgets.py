"""Budgets and costs by HTTP."""

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
from tests.support.api.asking import assert_problem, client_of, created
from tests.support.api.rows import an_iteration, row_of

NO_CAPS = {"usd_per_day": None, "calls_per_day": None, "left_usd": None, "left_calls": None}


def told(allowance: dict[str, Any]) -> dict[str, Any]:
    return {key: allowance[key] for key in NO_CAPS}


async def test_an_agents_budget_is_set_and_taken_away(api: httpx.AsyncClient) -> None:
    agent = await created(api, name="Lithium")
    shown = (await api.get("/agents/lithium/budget")).json()
    assert (shown["agent_id"], shown["suspended_until"]) == (agent["id"], None)
    assert told(shown["allowance"]) == {**NO_CAPS, "usd_per_day": 5.0, "left_usd": 5.0}
    wanted = {"usd_per_day": 1.5, "calls_per_day": 20}
    for answer in (
        await api.put("/agents/lithium/budget", json=wanted),
        await api.get("/agents/lithium/budget"),
    ):
        assert told(answer.json()["allowance"]) == {**wanted, "left_usd": 1.5, "left_calls": 20}
    answer = await api.put("/agents/lithium/budget", json={"calls_per_day": 3})
    assert told(answer.json()["allowance"]) == {**NO_CAPS, "calls_per_day": 3, "left_calls": 3}
    answer = await api.put("/agents/lithium/budget", json={})
    assert told(answer.json()["allowance"]) == NO_CAPS


async def test_the_installations_budget_is_set_and_taken_away(api: httpx.AsyncClient) -> None:
    assert told((await api.get("/budget")).json()) == NO_CAPS
    wanted = {"usd_per_day": 0.1, "calls_per_day": 0}
    for answer in (await api.put("/budget", json=wanted), await api.get("/budget")):
        assert told(answer.json()) == {**wanted, "left_usd": 0.1, "left_calls": 0}
    assert told((await api.put("/budget", json={})).json()) == NO_CAPS


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"usd_per_day": -1}, ["usd_per_day"]),
        ({"usd_per_day": 10**9}, ["usd_per_day"]),
        ({"usd_per_day": "NaN"}, ["usd_per_day"]),
        ({"calls_per_day": 1.5}, ["calls_per_day"]),
        ({"calls_per_day": -1}, ["calls_per_day"]),
        ({"usd": 1}, ["usd"]),
        ([], ["body"]),
    ],
)
async def test_a_bad_budget_is_refused(
    api: httpx.AsyncClient, wanted: Any, words: list[str]
) -> None:
    await created(api, name="Lithium")
    for path in ("/budget", "/agents/lithium/budget"):
        assert_problem(await api.put(path, json=wanted), 422, *words)


async def test_new_agents_have_the_budget_that_the_settings_say(database_url: str) -> None:
    settings = Settings(
        database_url=database_url, budget_usd_per_day=Decimal("2.5"), budget_calls_per_day=100
    )
    async with client_of(settings) as api:
        await created(api, name="Lithium")
        shown = (await api.get("/agents/lithium/budget")).json()["allowance"]
    assert (shown["usd_per_day"], shown["calls_per_day"]) == (2.5, 100)


@pytest.mark.parametrize(("settings", "cap"), [({}, 5.0), ({"budget_usd_per_day": None}, None)])
async def test_new_agents_are_capped_and_told_so_unless_the_settings_say_none(
    database_url: str, settings: dict[str, Any], cap: float | None
) -> None:
    async with client_of(Settings(database_url=database_url, **settings)) as api:
        made = await created(api, name="Lithium")
        shown = (await api.get("/agents/lithium/budget")).json()["allowance"]
        listed = (await api.get("/agents")).json()["items"]
    assert made["budget_usd_per_day"] == shown["usd_per_day"] == cap
    assert [each["budget_usd_per_day"] for each in listed] == [cap]


async def test_an_agent_that_rests_is_not_run(api: httpx.AsyncClient, database: Database) -> None:
    await created(api, name="Lithium")
    await rest(database)
    assert_problem(await api.post("/agents/lithium/run"), 409, "rests until", "higher budget")
    assert (await api.get("/agents/lithium")).json()["suspended_until"] is not None
    await api.put("/agents/lithium/budget", json={"usd_per_day": 1})
    assert (await api.post("/agents/lithium/run")).status_code == 202
    await rest(database)
    await api.put("/budget", json={"calls_per_day": 10})
    assert (await api.get("/agents/lithium")).json()["suspended_until"] is None


async def rest(database: Database) -> None:
    async with database.transaction() as session:
        until = func.clock_timestamp() + timedelta(hours=1)
        await session.execute(update(Agent).values(suspended_until=until))


async def test_costs_are_told_by_day_agent_phase_and_model(
    api: httpx.AsyncClient, database: Database
) -> None:
    await created(api, name="Lithium")
    await created(api, name="Cobalt")
    today = datetime.now(UTC).replace(hour=12)
    for days, name, cost in ((0, "Lithium", "0.25"), (1, "Lithium", "0.50"), (1, "Cobalt", "1")):
        await a_call(database, name, cost, today - timedelta(days=days))
    search = {"kind": CallKind.SEARCH, "model": None, "phase": Phase.KNOWLEDGE_ACQUISITION}
    await a_call(database, "Lithium", "0.008", today, assumed_usd=Decimal("0.01"), **search)

    async def groups(by: str, **params: Any) -> dict[str, tuple[int, float]]:
        found = (await api.get("/costs", params={"by": by, **params})).json()
        return {each["key"]: (each["calls"], each["cost_usd"]) for each in found["groups"]}

    yesterday = (today - timedelta(days=1)).date().isoformat()
    assert await groups("day") == {
        yesterday: (2, 1.5),
        today.date().isoformat(): (2, 0.258),
    }
    assert await groups("agent") == {"Cobalt": (1, 1.0), "Lithium": (3, 0.758)}
    assert await groups("phase") == {"observer": (3, 1.75), "knowledge_acquisition": (1, 0.008)}
    assert await groups("model") == {"m": (3, 1.75), "search": (1, 0.008)}
    assert await groups("agent", until=yesterday) == {"Cobalt": (1, 1.0), "Lithium": (1, 0.5)}
    whole = (await api.get("/agents/lithium/costs")).json()
    assert (whole["totals"]["cost_usd"], whole["totals"]["assumed_usd"]) == (0.758, 0.01)
    assert whole["totals"]["input_tokens"] == 20
    assert whole["allowance"]["usd_per_day"] == 5.0


async def test_costs_come_in_pages(api: httpx.AsyncClient, database: Database) -> None:
    for name in ("A", "B", "C"):
        await created(api, name=name)
        await a_call(database, name, "0.1", datetime.now(UTC))
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await api.get("/costs", params={"by": "agent", "limit": 2, **cursor})).json()
        seen += [group["key"] for group in page["groups"]]
        assert page["totals"]["calls"] == 3, "of all pages"
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == ["A", "B", "C"]
    assert_problem(await api.get("/costs", params={"cursor": "x\x00"}), 400, "NUL")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"by": "mood"}, ["by", "phase"]),
        ({"since": "2026-01-02", "until": "2026-01-01"}, ["0 days", "366"]),
        ({"since": "2020-01-01", "until": "2026-01-01"}, ["366 at a time"]),
        ({"since": "0001-01-01"}, ["since"]),
        ({"until": "9999-12-31"}, ["until"]),
        ({"since": "yesterday"}, ["since"]),
        ({"limit": 0}, ["limit"]),
    ],
)
async def test_costs_that_cannot_be_told_are_refused(
    api: httpx.AsyncClient, params: dict[str, Any], words: list[str]
) -> None:
    assert_problem(await api.get("/costs", params=params), 422, *words)


async def test_anothers_money_is_not_seen(
    api: httpx.AsyncClient, database: Database, database_url: str
) -> None:
    agent = await created(api, name="Lithium")
    await a_call(database, "Lithium", "1", datetime.now(UTC))
    async with client_of(Settings(database_url=database_url, owner="stranger")) as other:
        for path in ("budget", "costs"):
            assert_problem(await other.get(f"/agents/{agent['id']}/{path}"), 404)
        answer = await other.put(f"/agents/{agent['id']}/budget", json={"usd_per_day": 1})
        assert_problem(answer, 404)
        assert (await other.get("/costs")).json()["totals"]["calls"] == 0


async def a_call(
    database: Database, agent_name: str, cost: str, begun: datetime, **given: Any
) -> None:
    agent = await row_of(database, agent_name)
    async with database.transaction() as session:
        running = await session.scalar(select(Iteration).where(Iteration.agent_id == agent.id))
    iteration_id = running.id if running else await an_iteration(database, agent_name)
    async with database.transaction() as session:
        step = (await session.scalars(select(Step).where(Step.iteration_id == iteration_id))).one()
        number = await session.scalar(select(func.count()).select_from(Call))
        interaction_id = ids.interaction_id(step.id, Phase.OBSERVER)
        if await session.get(Interaction, interaction_id) is None:
            session.add(
                Interaction(
                    id=interaction_id,
                    agent_id=agent.id,
                    step_id=step.id,
                    phase=Phase.OBSERVER,
                    model="m",
                    system_prompt="",
                    request={},
                )
            )
            await session.flush()
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
            "input_tokens": 10 if "kind" not in given else None,
            "cost_usd": Decimal(cost),
            "started_at": begun,
            "answered_at": await iterations.database_time(session),
            **given,
        }
        await session.execute(insert(Call).values(row))
