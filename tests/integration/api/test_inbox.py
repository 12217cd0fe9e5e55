"""Triage of the inbox over HTTP: decisions, snoozing, feedback, views."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import func, update

from services.api.resources.agents.model import dashboard_counters
from services.api.resources.inbox import model as notifications
from services.api.resources.inbox.pages import Snooze
from services.api.web.rendering import load_counts
from shared.agents import agents, feedback
from shared.database.engine import Database
from shared.database.tables import Agent, InboxItem
from shared.enums import InboxKind, InboxView
from tests.support.api.access import owner_access
from tests.support.api.clients import assert_problem, create_agent
from tests.support.api.rows import add_advice, get_agent
from tests.support.scheduling import change
from tests.support.table_rows import add


@pytest.fixture
async def agent(api: httpx.AsyncClient, database: Database) -> Agent:
    await create_agent(api, name="Lithium")
    row = await get_agent(database, "Lithium")
    await add_advice(database, row)
    return row


async def listed(api: httpx.AsyncClient, view: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await api.get("/inbox", params={"view": view})).json()["items"]
    return items


async def feedback_text(database: Database, agent: Agent) -> str:
    async with database.transaction() as session:
        return feedback.format_lines(await feedback.list_feedback(agent.id).execute(session))


def soon(**units: float) -> dict[str, str]:
    return {"until": (datetime.now(UTC) + timedelta(**units)).isoformat()}


async def test_a_decision_takes_an_item_out_of_the_open_ones_and_is_told_to_the_agent(
    api: httpx.AsyncClient, database: Database, agent: Agent
) -> None:
    [item] = await listed(api, "open")
    place = f"/inbox/{item['id']}"
    assert await feedback_text(database, agent) == ""
    accepted = (await api.post(f"{place}/accept")).json()
    assert (accepted["outcome"], accepted["read_at"] is not None) == ("accepted", True)
    assert (await api.post(f"{place}/accept")).json()["answered_at"] == accepted["answered_at"]
    assert [len(await listed(api, view)) for view in ("open", "unread", "done", "all")] == [
        0,
        0,
        1,
        1,
    ]
    assert ", accepted: " in await feedback_text(database, agent)
    assert (await api.post(f"{place}/dismiss")).json()["outcome"] == "dismissed"
    assert ", dismissed: " in await feedback_text(database, agent)
    reopened = (await api.post(f"{place}/reopen")).json()
    assert reopened["outcome"] is None
    assert len(await listed(api, "open")) == 1
    assert await feedback_text(database, agent) == ""


async def test_feedback_is_replaced_and_told_to_the_agent(
    api: httpx.AsyncClient, database: Database, agent: Agent
) -> None:
    [item] = await listed(api, "open")
    place = f"/inbox/{item['id']}/feedback"
    given = (await api.post(place, json={"useful": False, "text": " Too\n late "})).json()
    assert (given["useful"], given["feedback"]) == (False, "Too late")
    assert 'not useful: "HOLD: ' in await feedback_text(database, agent)
    assert (await feedback_text(database, agent)).endswith('Owner: "Too late"')
    assert len(await listed(api, "open")) == 1
    taken_back = (await api.post(place, json={})).json()
    assert (taken_back["useful"], taken_back["feedback"]) == (None, None)
    assert await feedback_text(database, agent) == ""
    for invalid in ({"text": "x" * 501}, {"text": "\x00"}, {"useful": "perhaps"}, {"more": 1}):
        assert_problem(await api.post(place, json=invalid), 422)


async def test_a_snoozed_item_is_out_of_the_way_and_returns_as_unread(
    api: httpx.AsyncClient, database: Database, agent: Agent
) -> None:
    [item] = await listed(api, "open")
    place = f"/inbox/{item['id']}"
    await api.post(f"{place}/read")
    snoozed = (await api.post(f"{place}/snooze", json=soon(hours=1))).json()
    assert snoozed["snoozed_until"] is not None
    counts = {view: len(await listed(api, view)) for view in ("open", "unread", "snoozed", "all")}
    assert counts == {"open": 0, "unread": 0, "snoozed": 1, "all": 1}
    # Reading it meanwhile does not keep it from returning as unread.
    assert (await api.post(f"{place}/read")).json()["read_at"] is None
    assert (await api.post("/inbox/read")).json()["marked"] == 0
    async with database.transaction() as session:
        newer = InboxItem(
            id=uuid4(),
            owner_id=agent.owner_id,
            agent_id=agent.id,
            kind=InboxKind.NOTICE,
            title="Meanwhile",
            summary="",
        )
        await add(session, newer)
        await session.execute(
            update(InboxItem)
            .where(InboxItem.id != newer.id)
            .values(snoozed_until=func.clock_timestamp())
        )
    # It stands at the time of its return.
    assert [row["id"] for row in await listed(api, "unread")] == [item["id"], str(newer.id)]
    for until in (soon(hours=-1), soon(days=400), {"until": "2026-01-01T00:00:00"}, {}):
        assert_problem(await api.post(f"{place}/snooze", json=until), 422)


@pytest.mark.parametrize(
    ("commands", "unread"),
    [([], 1), (["read"], 0), (["accept"], 0), (["accept", "unread"], 0), (["snooze"], 0)],
)
async def test_an_agent_has_as_many_unread_items_as_its_inbox(
    api: httpx.AsyncClient,
    database: Database,
    agent: Agent,
    commands: list[str],
    unread: int,
) -> None:
    await create_agent(api, name="Another")
    other = await get_agent(database, "Another")
    await add_advice(database, other)
    [item] = [row for row in await listed(api, "open") if row["agent_id"] == str(agent.id)]
    for command in commands:
        body = soon(hours=1) if command == "snooze" else None
        assert (await api.post(f"/inbox/{item['id']}/{command}", json=body)).is_success
    async with database.transaction() as session:
        counters = await dashboard_counters(session, [agent.id, other.id])
        access = owner_access(session, agent.owner_id)
        of_agent = await notifications.count_by_view(access, agent_id=agent.id)
        of_all = await notifications.count_by_view(access)
        badge = (await load_counts(access)).unread
    assert (counters[agent.id].unread, of_agent[InboxView.UNREAD]) == (unread, unread)
    assert of_agent[InboxView.SNOOZED] == commands.count("snooze")
    assert of_all[InboxView.UNREAD] == badge == unread + 1


async def test_a_notice_is_dismissed_but_not_accepted(
    api: httpx.AsyncClient, database: Database, agent: Agent
) -> None:
    notice = InboxItem(
        id=uuid4(),
        owner_id=agent.owner_id,
        agent_id=agent.id,
        kind=InboxKind.NOTICE,
        title="A budget is used up",
        summary="",
    )
    async with database.transaction() as session:
        await add(session, notice)
    assert_problem(await api.post(f"/inbox/{notice.id}/accept"), 409)
    assert (await api.post(f"/inbox/{notice.id}/dismiss")).json()["outcome"] == "dismissed"
    assert await feedback_text(database, agent) == ""


async def test_items_of_nobody_are_not_found(api: httpx.AsyncClient, agent: Agent) -> None:
    for command, body in (
        ("accept", None),
        ("dismiss", None),
        ("reopen", None),
        ("snooze", soon(hours=1)),
        ("feedback", {}),
    ):
        assert_problem(await api.post(f"/inbox/{uuid4()}/{command}", json=body), 404)


@pytest.mark.parametrize(
    ("action", "body", "wakes"),
    [
        ("accept", None, True),
        ("dismiss", None, True),
        ("feedback", {"useful": False, "text": "Never mention Aruba."}, True),
        ("snooze", soon(days=1), False),
        ("read", None, False),
    ],
)
async def test_what_the_owner_says_about_advice_starts_the_next_iteration_soon(
    api: httpx.AsyncClient,
    database: Database,
    agent: Agent,
    action: str,
    body: dict[str, Any] | None,
    wakes: bool,
) -> None:
    later = datetime.now(UTC) + timedelta(hours=20)
    await change(database, agent, next_run_at=later)
    [item] = await listed(api, "open")
    for _ in range(2):
        response = await api.post(f"/inbox/{item['id']}/{action}", json=body)
        assert response.is_success, response.text
        row = await get_agent(database, agent.name)
        is_soon = row.next_run_at < datetime.now(UTC) + timedelta(seconds=agents.WAKE_SECONDS + 1)
        assert is_soon == wakes
        await change(database, agent, next_run_at=later)
        # Saying the same again is nothing new.
        wakes = False


@pytest.mark.usefixtures("agent")
async def test_the_page_of_an_item_offers_times_to_snooze_it(api: httpx.AsyncClient) -> None:
    [item] = await listed(api, "open")
    page = await api.get(
        "http://127.0.0.1/inbox",
        params={"view": "open", "item": item["id"]},
        headers={"accept": "text/html"},
    )
    assert page.status_code == 200
    assert [f'value="{snooze}"' in page.text for snooze in Snooze] == [True] * len(Snooze)
