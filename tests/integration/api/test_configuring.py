"""Prompts, types and configurations over HTTP."""

from typing import Any

import httpx
import pytest

from services.api.app import build
from shared.database.engine import Database
from shared.enums import PROMPTED_PHASES, AgentStatus
from shared.graph import system_types
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.api.clients import (
    MISSION,
    assert_problem,
    create_agent,
    create_anonymous_client,
)
from tests.support.api.rows import get_agent
from tests.support.api.signed_in import SignedIn
from tests.support.factories import PROMPTS, make_ready
from tests.support.running_services import list_events, running_services
from tests.support.table_rows import change
from tests.support.waiting import wait_until


async def create_ready_agent(
    api: httpx.AsyncClient, database: Database, **params: Any
) -> dict[str, Any]:
    """Creates an agent with `PROMPTS` and the system types."""
    agent = await create_agent(api, name="Lithium", **params)
    async with database.transaction() as session:
        row = await get_agent(database, "Lithium")
        await make_ready(session, row)
        await system_types.ensure_system_types(session, row.id)
    return agent


async def test_an_unconfigured_agent_has_no_prompts_or_types(
    api: httpx.AsyncClient,
) -> None:
    await create_agent(api, name="Lithium")
    prompts = (await api.get("/agents/lithium/prompts")).json()
    assert prompts == {"version": 0, "items": []}
    assert (await api.get("/agents/lithium/prompts/history")).json() == {"items": [], "next": None}
    for kinds in ("node-types", "edge-types"):
        assert (await api.get(f"/agents/lithium/{kinds}")).json()["items"] == []
    configuration = (await api.get("/agents/lithium/configuration")).json()
    assert (configuration["status"], configuration["mission"], configuration["keep"]) == (
        "pending",
        MISSION,
        [],
    )
    assert configuration["interaction"] is None
    response = await api.put("/agents/lithium/prompts/observer", json={"prompt": "Plan."})
    assert_problem(response, 409, "no prompts yet")


async def test_prompts_are_edited_and_their_versions_are_stored(
    api: httpx.AsyncClient, database: Database
) -> None:
    await create_ready_agent(api, database)
    before = await api.get("/agents/lithium/prompts")
    assert before.headers["etag"].startswith('"1.')
    assert {prompt["phase"]: prompt["prompt"] for prompt in before.json()["items"]} == PROMPTS
    edited = await api.put("/agents/lithium/prompts/observer", json={"prompt": " Plan boldly. "})
    assert (edited.status_code, edited.headers["etag"][:3]) == (200, '"2.')
    (observer,) = [prompt for prompt in edited.json()["items"] if prompt["phase"] == "observer"]
    assert (observer["prompt"], observer["version"], observer["made_by"]) == (
        *("Plan boldly.", 2),
        "owner",
    )
    assert (await api.get("/agents/lithium")).json()["prompts"]["observer"] == "Plan boldly."

    versions = (await api.get("/agents/lithium/prompts/history?phase=observer")).json()["items"]
    assert [(version["version"], version["made_by"]) for version in versions] == [
        (2, "owner"),
        (1, "configuration"),
    ]
    assert versions[1]["prompt"] == PROMPTS["observer"]  # type: ignore[index]  # phases are strings


async def test_the_prompt_history_is_paginated(api: httpx.AsyncClient, database: Database) -> None:
    await create_ready_agent(api, database)
    versions: list[tuple[int, str]] = []
    cursor: str | None = None
    while True:
        params = {"limit": "4"} | ({"cursor": cursor} if cursor else {})
        page = (await api.get("/agents/lithium/prompts/history", params=params)).json()
        versions += [(prompt["version"], prompt["phase"]) for prompt in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert versions == [(1, phase) for phase in sorted(PROMPTED_PHASES, reverse=True)]
    response = await api.get("/agents/lithium/prompts/history?cursor=nonsense")
    assert_problem(response, response.status_code, "cursor")
    assert response.is_client_error


async def test_an_edit_with_an_outdated_etag_is_rejected(
    api: httpx.AsyncClient, database: Database
) -> None:
    await create_ready_agent(api, database)
    url, body = "/agents/lithium/prompts/observer", {"prompt": "Mine."}
    etag = (await api.get("/agents/lithium/prompts")).headers["etag"]
    first = await api.put(url, json=body, headers={"If-Match": etag})
    assert first.status_code == 200
    late = await api.put(url, json={"prompt": "Yours."}, headers={"If-Match": etag})
    assert_problem(late, 412, "read it again")
    forced = await api.put(url, json={"prompt": "Yours."}, headers={"If-Match": "*"})
    assert forced.headers["etag"].startswith('"3.')


@pytest.mark.parametrize(
    ("phase", "body", "words"),
    [
        ("configuration", {"prompt": "x"}, ["phase"]),
        ("observer", {"prompt": "  "}, ["1 to 20000"]),
        ("observer", {"prompt": "x" * 20_001}, ["1 to 20000"]),
        ("observer", {"prompt": "a\x00b"}, ["NUL"]),
        ("observer", {"text": "x"}, ["prompt"]),
    ],
)
async def test_an_invalid_prompt_is_rejected(
    api: httpx.AsyncClient, database: Database, phase: str, body: Any, words: list[str]
) -> None:
    await create_ready_agent(api, database)
    assert_problem(await api.put(f"/agents/lithium/prompts/{phase}", json=body), 422, *words)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"mission": "short"}, ["10 to 4000"]),
        ({"keep": ["dreaming"]}, ["keep"]),
        ({"wish": 1}, ["wish"]),
    ],
)
async def test_an_invalid_configuration_request_is_rejected(
    api: httpx.AsyncClient, database: Database, body: Any, words: list[str]
) -> None:
    await create_ready_agent(api, database)
    assert_problem(await api.post("/agents/lithium/configure", json=body), 422, *words)


async def test_an_agent_whose_configuration_failed_is_not_run(
    api: httpx.AsyncClient, database: Database
) -> None:
    await create_agent(api, name="Lithium")
    assert (await api.post("/agents/lithium/run")).status_code == 202
    async with database.transaction() as session:
        row = await get_agent(database, "Lithium")
        row = await change(session, row, status=AgentStatus.FAILED, fault="No key. Ask again.")
    assert_problem(await api.post("/agents/lithium/run"), 409, "cannot run", "No key. Ask again.")
    agent = (await api.post("/agents/lithium/configure")).json()
    assert (agent["status"], agent["fault"]) == ("configuring", None)


async def test_an_agent_stays_ready_while_it_is_reconfigured(
    api: httpx.AsyncClient, database: Database
) -> None:
    await create_ready_agent(api, database)
    new_mission = "Watch the copper mines of Chile and who buys from them"
    response = await api.post(
        "/agents/lithium/configure", json={"mission": new_mission, "keep": ["observer"]}
    )
    assert response.status_code == 202
    assert (response.json()["status"], response.json()["mission"]) == ("ready", MISSION)
    assert response.json()["configuration"]["status"] == "pending"
    configuration = (await api.get("/agents/lithium/configuration")).json()
    assert (configuration["mission"], configuration["keep"]) == (new_mission, ["observer"])
    second = await api.post("/agents/lithium/configure")
    assert second.json()["configuration"]["step_id"] != configuration["step_id"]


async def test_types_have_schemas_and_examples(api: httpx.AsyncClient, database: Database) -> None:
    await create_ready_agent(api, database)
    node_types = (await api.get("/agents/lithium/node-types")).json()["items"]
    assert [node_type["name"] for node_type in node_types] == ["AgentAdvice", "AgentAnalysis"]
    for node_type in node_types:
        assert node_type["properties_schema"]["required"]
        assert node_type["example_properties"]
        assert node_type["created_by"] == "system"
    (about,) = (await api.get("/agents/lithium/edge-types")).json()["items"]
    assert (about["name"], about["source_types"]) == ("about", ["AgentAnalysis"])


async def test_a_configuration_is_requested_at_once_and_its_interaction_can_be_read(
    sandbox_settings: Settings, bus: Bus, api: httpx.AsyncClient
) -> None:
    app = build(sandbox_settings)

    async def is_connected_to_nats() -> bool:
        return bool(app.state.publisher._bus.is_connected)

    async with (
        running_services(sandbox_settings, ["assistant"]),
        app.router.lifespan_context(app),
        create_anonymous_client(app, auth=SignedIn(sandbox_settings, None)) as client,
    ):
        await wait_until(is_connected_to_nats, what="the api to reach NATS")
        agent = (await client.post("/agents", json={"mission": MISSION})).json()
        assert agent["status"] == "configuring"

        async def ready_agent() -> dict[str, Any] | None:
            current: dict[str, Any] = (await client.get(f"/agents/{agent['id']}")).json()
            return current if current["status"] == "ready" else None

        ready = await wait_until(ready_agent, what="the agent to be ready")
    assert ready is not None
    assert ready["fault"] is None
    assert len(set(ready["prompts"].values())) == 6
    assert all(ready["name"] in prompt for prompt in ready["prompts"].values())
    configuration = (await api.get(f"/agents/{agent['id']}/configuration")).json()
    assert configuration["status"] == "completed"
    answers = [event["message"]["content"] for event in configuration["interaction"]["events"]]
    assert len(answers) == 2
    assert MISSION in configuration["interaction"]["request"]["messages"][0]["content"]
    types = (await api.get(f"/agents/{agent['id']}/node-types")).json()["items"]
    assert len(types) >= 8
    subjects = [event.subject for event in await list_events(bus)]
    assert subjects == ["configuration.requested", "configuration.completed"]
