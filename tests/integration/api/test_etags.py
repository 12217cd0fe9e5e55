"""What has not changed is not sent again, and nobody overwrites what they have not seen."""

import httpx
import pytest
from sqlalchemy import text

from shared.database.engine import Database
from tests.support.api.asking import assert_problem, created
from tests.support.api.full import AGENT, Full, full_agent
from tests.support.api.rows import an_iteration


@pytest.fixture
async def full(api: httpx.AsyncClient, database: Database) -> Full:
    await api.get("/agents")  # makes the owner
    return await full_agent(database)


async def test_reads_are_tagged_and_not_repeated(api: httpx.AsyncClient, full: Full) -> None:
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
        tag = first.headers["etag"]
        assert tag.startswith('"'), "strong"
        for given in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = await api.get(path, headers={"if-none-match": given})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        other = await api.get(path, headers={"if-none-match": '"other"'})
        assert (other.status_code, other.json()) == (200, first.json())


async def test_a_change_changes_the_tag(api: httpx.AsyncClient, full: Full) -> None:
    path = f"/agents/{AGENT}"
    before = (await api.get(path)).headers["etag"]
    changed = await api.patch(path, json={"interval_seconds": 60})
    assert changed.headers["etag"] != before
    now = await api.get(path, headers={"if-none-match": before})
    assert (now.status_code, now.json()) == (200, changed.json())
    assert now.headers["etag"] == changed.headers["etag"]


async def test_who_has_not_seen_the_last_change_changes_nothing(
    api: httpx.AsyncClient, database: Database
) -> None:
    agent = await created(api, name="Lithium")
    seen = (await api.get("/agents/lithium")).headers["etag"]
    await an_iteration(database, "Lithium")
    worked = (await api.get("/agents/lithium")).headers["etag"]
    assert worked != seen
    renamed = await api.patch(
        "/agents/lithium", json={"name": "Cobalt"}, headers={"if-match": seen}
    )
    assert renamed.status_code == 200, "its own work stands in nobody's way"
    for late in (seen, worked, '"other"', "nonsense", ""):
        refused = await api.patch(
            f"/agents/{agent['id']}", json={"name": "Nickel"}, headers={"if-match": late}
        )
        assert_problem(refused, 412, "read it again")
    assert (await api.get(f"/agents/{agent['id']}")).json()["name"] == "Cobalt"
    for fresh in (renamed.headers["etag"], "*"):
        told = await api.patch("/agents/cobalt", json={}, headers={"if-match": fresh})
        assert told.status_code == 200


async def test_what_is_given_is_changed_and_the_rest_stays(api: httpx.AsyncClient) -> None:
    before = await created(api, name="Lithium", interval_seconds=86_400)
    wanted = {"name": " New  name ", "models": {"observer": "m"}, "active": False}
    after = (await api.patch("/agents/lithium", json=wanted)).json()
    assert (after["name"], after["models"], after["active"]) == (
        "New name",
        {"observer": "m"},
        False,
    )
    assert (after["interval_seconds"], after["mission"]) == (86_400, before["mission"])
    assert after["next_run_at"] == before["next_run_at"]
    await created(api, name="Taken")
    assert_problem(await api.patch("/agents/new name", json={"name": "taken"}), 409, "another name")
    for wrong in (
        {"name": None},
        {"name": "a/b"},
        {"interval_seconds": 1},
        {"mission": "Watch something else entirely"},
        {"models": {"dreaming": "m"}},
        {"active": "maybe"},
    ):
        assert_problem(await api.patch("/agents/new name", json=wrong), 422, next(iter(wrong)))


async def test_a_shorter_interval_begins_now_and_a_longer_one_after_the_next_run(
    api: httpx.AsyncClient, database: Database
) -> None:
    await created(api, name="Lithium")
    async with database.transaction() as session:
        await session.execute(text("update agents set next_run_at = now() + interval '1 day'"))
    far = (await api.get("/agents/lithium")).json()["next_run_at"]
    near = (await api.patch("/agents/lithium", json={"interval_seconds": 60})).json()["next_run_at"]
    assert near < far
    kept = await api.patch("/agents/lithium", json={"interval_seconds": 86_400})
    assert kept.json()["next_run_at"] == near
