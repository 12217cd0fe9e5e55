"""Conditional requests: unchanged resources are not sent again, and outdated updates are rejected."""

import httpx
import pytest
from sqlalchemy import text

from shared.database.engine import Database
from tests.support.api.clients import assert_problem, create_agent
from tests.support.api.full_agent import AGENT, FullAgent, create_full_agent
from tests.support.api.rows import start_iteration


@pytest.fixture
async def full(api: httpx.AsyncClient, database: Database) -> FullAgent:
    await api.get("/agents")  # creates the owner
    return await create_full_agent(database)


async def test_resources_have_etags_and_are_not_sent_again(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    for path in (
        f"/agents/{AGENT}",
        f"/agents/{AGENT}/nodes/{full.node_id}",
        f"/agents/{AGENT}/edges/{full.edge_id}",
        f"/agents/{AGENT}/node-types",
        f"/agents/{AGENT}/node-types/Thing",
        f"/agents/{AGENT}/edge-types",
        f"/agents/{AGENT}/edge-types/buys",
        f"/agents/{AGENT}/analyses/{full.analysis_id}",
        f"/agents/{AGENT}/advice/{full.advice_id}",
        f"/agents/{AGENT}/iterations/1",
        f"/iterations/{full.ended_iteration_id}",
    ):
        first = await api.get(path)
        assert first.status_code == 200, first.text
        etag = first.headers["etag"]
        assert etag.startswith('"'), "a strong validator"
        for if_none_match in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            response = await api.get(path, headers={"if-none-match": if_none_match})
            assert (response.status_code, response.content, response.headers["etag"]) == (
                304,
                b"",
                etag,
            )
        other_response = await api.get(path, headers={"if-none-match": '"other"'})
        assert (other_response.status_code, other_response.json()) == (200, first.json())


async def test_an_update_changes_the_etag(api: httpx.AsyncClient, full: FullAgent) -> None:
    path = f"/agents/{AGENT}"
    before = (await api.get(path)).headers["etag"]
    changed = await api.patch(path, json={"interval_seconds": 60})
    assert changed.headers["etag"] != before
    response = await api.get(path, headers={"if-none-match": before})
    assert (response.status_code, response.json()) == (200, changed.json())
    assert response.headers["etag"] == changed.headers["etag"]


async def test_an_update_with_an_outdated_etag_is_rejected(
    api: httpx.AsyncClient, database: Database
) -> None:
    agent = await create_agent(api, name="Lithium")
    etag = (await api.get("/agents/lithium")).headers["etag"]
    await start_iteration(database, "Lithium")
    etag_after_run = (await api.get("/agents/lithium")).headers["etag"]
    assert etag_after_run != etag
    renamed = await api.patch(
        "/agents/lithium", json={"name": "Cobalt"}, headers={"if-match": etag}
    )
    assert renamed.status_code == 200, "a run of the agent does not conflict with the update"
    for late in (etag, etag_after_run, '"other"', "nonsense", ""):
        response = await api.patch(
            f"/agents/{agent['id']}", json={"name": "Nickel"}, headers={"if-match": late}
        )
        assert_problem(response, 412, "read it again")
    assert (await api.get(f"/agents/{agent['id']}")).json()["name"] == "Cobalt"
    for fresh in (renamed.headers["etag"], "*"):
        response = await api.patch("/agents/cobalt", json={}, headers={"if-match": fresh})
        assert response.status_code == 200


async def test_only_the_fields_of_a_patch_are_changed(api: httpx.AsyncClient) -> None:
    before = await create_agent(api, name="Lithium", interval_seconds=86_400)
    changes = {"name": " New  name ", "models": {"observer": "m"}, "active": False}
    after = (await api.patch("/agents/lithium", json=changes)).json()
    assert (after["name"], after["models"], after["active"]) == (
        "New name",
        {"observer": "m"},
        False,
    )
    assert (after["interval_seconds"], after["mission"]) == (86_400, before["mission"])
    assert after["next_run_at"] == before["next_run_at"]
    await create_agent(api, name="Taken")
    assert_problem(await api.patch("/agents/new name", json={"name": "taken"}), 409, "another name")
    for invalid in (
        {"name": None},
        {"name": "a/b"},
        {"interval_seconds": 1},
        {"mission": "Watch something else entirely"},
        {"models": {"dreaming": "m"}},
        {"active": "maybe"},
    ):
        assert_problem(await api.patch("/agents/new name", json=invalid), 422, next(iter(invalid)))


async def test_a_shorter_interval_applies_now_and_a_longer_one_after_the_next_run(
    api: httpx.AsyncClient, database: Database
) -> None:
    await create_agent(api, name="Lithium")
    async with database.transaction() as session:
        await session.execute(text("update agents set next_run_at = now() + interval '1 day'"))
    scheduled = (await api.get("/agents/lithium")).json()["next_run_at"]
    rescheduled = (await api.patch("/agents/lithium", json={"interval_seconds": 60})).json()[
        "next_run_at"
    ]
    assert rescheduled < scheduled
    response = await api.patch("/agents/lithium", json={"interval_seconds": 86_400})
    assert response.json()["next_run_at"] == rescheduled
