"""Agents by HTTP: made, found, ordered about, and nobody else's."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from shared.database.engine import Database
from shared.runtime.settings import Settings
from tests.support.api.asking import MISSION, assert_problem, client_of, created
from tests.support.api.rows import an_iteration


async def test_an_agent_is_configuring_under_a_provisional_name(api: httpx.AsyncClient) -> None:
    agent = await created(api)
    assert agent["name"] == "Lithium Supply"
    assert agent["interval_seconds"] == 300
    assert agent["active"] is True
    assert agent["last_iteration"] is None
    assert (agent["status"], agent["fault"]) == ("configuring", None)
    assert (agent["prompts"], agent["prompts_version"]) == ({}, 0)
    assert agent["configuration"]["status"] == "pending"
    again = await created(api)
    assert again["name"] == "Lithium Supply 2"
    listed = (await api.get("/agents")).json()["items"]
    assert [each["id"] for each in listed] == [agent["id"], again["id"]]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"mission": "too short"}, ["mission", "10 to 4000"]),
        ({"mission": " " * 50}, ["mission", "10 to 4000"]),
        ({"mission": "x" * 4001}, ["mission", "10 to 4000"]),
        ({"mission": MISSION, "name": " "}, ["name", "1 to 80"]),
        ({"mission": MISSION, "name": "x" * 81}, ["name", "1 to 80"]),
        ({"mission": MISSION, "name": "a/b"}, ["name", "no slash"]),
        ({"mission": MISSION, "interval_seconds": 9}, ["interval_seconds", "10"]),
        ({"mission": MISSION, "models": {"dreaming": "m"}}, ["models", "observer"]),
        ({"mission": MISSION, "mission_statement": "x"}, ["mission_statement"]),
        ({}, ["mission", "required"]),
    ],
)
async def test_a_bad_agent_is_refused_with_what_is_wrong(
    api: httpx.AsyncClient, wanted: dict[str, Any], words: list[str]
) -> None:
    assert_problem(await api.post("/agents", json=wanted), 422, *words)
    assert (await api.get("/agents")).json() == {"items": [], "next": None}


async def test_a_name_is_taken_in_whatever_case(api: httpx.AsyncClient) -> None:
    await created(api, name="Lithium Watch")
    answer = await api.post("/agents", json={"mission": MISSION, "name": " lithium  watch "})
    assert_problem(answer, 409, "lithium watch", "another name")


async def test_an_agent_is_found_by_id_and_by_name(api: httpx.AsyncClient) -> None:
    agent = await created(api, name="Lithium Watch")
    for reference in (agent["id"], "Lithium Watch", "lithium watch"):
        assert (await api.get(f"/agents/{reference}")).json()["id"] == agent["id"]
    assert_problem(await api.get("/agents/cobalt"), 404, "cobalt")
    assert_problem(await api.get(f"/agents/{uuid4()}"), 404)


async def test_an_agent_is_paused_resumed_run_and_deleted(api: httpx.AsyncClient) -> None:
    await created(api, name="Lithium", models={"observer": "some-model"})
    assert (await api.post("/agents/lithium/pause")).json()["active"] is False
    run = await api.post("/agents/lithium/run")
    assert (run.status_code, run.json()["run_requested_at"] is not None) == (202, True)
    resumed = (await api.post("/agents/lithium/resume")).json()
    assert (resumed["active"], resumed["models"]) == (True, {"observer": "some-model"})
    assert (await api.delete("/agents/lithium")).status_code == 204
    assert_problem(await api.delete("/agents/lithium"), 404)


async def test_what_is_anothers_is_not_there(
    api: httpx.AsyncClient, database: Database, database_url: str
) -> None:
    agent = await created(api, name="Lithium")
    iteration = await an_iteration(database, "Lithium")
    async with client_of(Settings(database_url=database_url), user="stranger") as other:
        assert (await other.get("/agents")).json()["items"] == []
        lists = ("/analyses", "/advice", "/calls", "/investigation-requests")
        for path in ("", "/iterations", "/graph", *lists):
            assert_problem(await other.get(f"/agents/{agent['id']}{path}"), 404)
        for order in ("pause", "resume", "run"):
            assert_problem(await other.post(f"/agents/{agent['id']}/{order}"), 404)
        assert_problem(await other.delete(f"/agents/{agent['id']}"), 404)
        assert_problem(await other.get(f"/iterations/{iteration}"), 404)
        assert (
            await other.post("/agents", json={"mission": MISSION, "name": "Lithium"})
        ).is_success
    assert (await api.get(f"/iterations/{iteration}")).json()["agent_name"] == "Lithium"


async def test_feedback_rounds_are_none_to_two(api: httpx.AsyncClient) -> None:
    agent = await created(api, name="Lithium")
    assert agent["feedback_rounds"] == 0
    path = f"/agents/{agent['id']}"
    changed = await api.patch(path, json={"feedback_rounds": 2})
    assert changed.json()["feedback_rounds"] == 2
    for beyond in (-1, 3, None):
        assert_problem(await api.patch(path, json={"feedback_rounds": beyond}), 422)
    made = await api.post("/agents", json={"mission": "Watch lithium mines", "feedback_rounds": 1})
    assert made.json()["feedback_rounds"] == 1
