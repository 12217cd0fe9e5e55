"""Prompts, types and configurations by HTTP."""

from typing import Any

import httpx
import pytest

from services.api.app import build
from shared.database.engine import Database
from shared.enums import PROMPTED_PHASES, AgentStatus
from shared.graph import system_types
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.actors import running, told
from tests.support.api.asking import MISSION, assert_problem, client_of, created, stranger_to
from tests.support.api.rows import row_of
from tests.support.api.signed_in import SignedIn
from tests.support.making import PROMPTS, make_ready
from tests.support.waiting import until


async def ready(api: httpx.AsyncClient, database: Database, **wanted: Any) -> dict[str, Any]:
    """An agent that has `PROMPTS` and the system's types."""
    agent = await created(api, name="Lithium", **wanted)
    async with database.transaction() as session:
        row = await session.merge(await row_of(database, "Lithium"))
        await make_ready(session, row)
        await system_types.ensure_system_types(session, row.id)
    return agent


async def test_an_agent_that_is_not_configured_has_nothing_to_show(
    api: httpx.AsyncClient,
) -> None:
    await created(api, name="Lithium")
    prompts = (await api.get("/agents/lithium/prompts")).json()
    assert prompts == {"version": 0, "items": []}
    assert (await api.get("/agents/lithium/prompts/history")).json() == {"items": [], "next": None}
    for kinds in ("node-types", "edge-types"):
        assert (await api.get(f"/agents/lithium/{kinds}")).json()["items"] == []
    waiting = (await api.get("/agents/lithium/configuration")).json()
    assert (waiting["status"], waiting["mission"], waiting["keep"]) == ("pending", MISSION, [])
    assert waiting["interaction"] is None
    refused = await api.put("/agents/lithium/prompts/observer", json={"prompt": "Plan."})
    assert_problem(refused, 409, "no prompts yet")


async def test_prompts_are_read_edited_and_remembered(
    api: httpx.AsyncClient, database: Database
) -> None:
    await ready(api, database)
    read = await api.get("/agents/lithium/prompts")
    assert read.headers["etag"].startswith('"1.')
    assert {each["phase"]: each["prompt"] for each in read.json()["items"]} == PROMPTS
    edited = await api.put("/agents/lithium/prompts/observer", json={"prompt": " Plan boldly. "})
    assert (edited.status_code, edited.headers["etag"][:3]) == (200, '"2.')
    (observer,) = [each for each in edited.json()["items"] if each["phase"] == "observer"]
    assert (observer["prompt"], observer["version"], observer["made_by"]) == (
        *("Plan boldly.", 2),
        "owner",
    )
    assert (await api.get("/agents/lithium")).json()["prompts"]["observer"] == "Plan boldly."

    versions = (await api.get("/agents/lithium/prompts/history?phase=observer")).json()["items"]
    assert [(each["version"], each["made_by"]) for each in versions] == [
        (2, "owner"),
        (1, "configuration"),
    ]
    assert versions[1]["prompt"] == PROMPTS["observer"]  # type: ignore[index]  # phases are words


async def test_a_history_is_read_page_by_page(api: httpx.AsyncClient, database: Database) -> None:
    await ready(api, database)
    seen: list[tuple[int, str]] = []
    cursor: str | None = None
    while True:
        params = {"limit": "4"} | ({"cursor": cursor} if cursor else {})
        page = (await api.get("/agents/lithium/prompts/history", params=params)).json()
        seen += [(each["version"], each["phase"]) for each in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [(1, phase) for phase in sorted(PROMPTED_PHASES, reverse=True)]
    bad = await api.get("/agents/lithium/prompts/history?cursor=nonsense")
    assert_problem(bad, bad.status_code, "cursor")
    assert bad.is_client_error


async def test_an_edit_of_what_has_changed_since_is_refused(
    api: httpx.AsyncClient, database: Database
) -> None:
    await ready(api, database)
    url, wanted = "/agents/lithium/prompts/observer", {"prompt": "Mine."}
    read_tag = (await api.get("/agents/lithium/prompts")).headers["etag"]
    first = await api.put(url, json=wanted, headers={"If-Match": read_tag})
    assert first.status_code == 200
    late = await api.put(url, json={"prompt": "Yours."}, headers={"If-Match": read_tag})
    assert_problem(late, 412, "read it again")
    whatever = await api.put(url, json={"prompt": "Yours."}, headers={"If-Match": "*"})
    assert whatever.headers["etag"].startswith('"3.')


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
async def test_a_bad_prompt_is_refused(
    api: httpx.AsyncClient, database: Database, phase: str, body: Any, words: list[str]
) -> None:
    await ready(api, database)
    assert_problem(await api.put(f"/agents/lithium/prompts/{phase}", json=body), 422, *words)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"mission": "short"}, ["10 to 4000"]),
        ({"keep": ["dreaming"]}, ["keep"]),
        ({"wish": 1}, ["wish"]),
    ],
)
async def test_a_bad_wish_is_refused(
    api: httpx.AsyncClient, database: Database, body: Any, words: list[str]
) -> None:
    await ready(api, database)
    assert_problem(await api.post("/agents/lithium/configure", json=body), 422, *words)


async def test_an_agent_that_could_not_be_made_is_not_run(
    api: httpx.AsyncClient, database: Database
) -> None:
    await created(api, name="Lithium")
    assert (await api.post("/agents/lithium/run")).status_code == 202
    async with database.transaction() as session:
        row = await session.merge(await row_of(database, "Lithium"))
        row.status, row.fault = AgentStatus.FAILED, "No key. Ask again."
    assert_problem(await api.post("/agents/lithium/run"), 409, "cannot run", "No key. Ask again.")
    again = (await api.post("/agents/lithium/configure")).json()
    assert (again["status"], again["fault"]) == ("configuring", None)


async def test_making_anew_is_ordered_and_the_agent_goes_on(
    api: httpx.AsyncClient, database: Database
) -> None:
    await ready(api, database)
    another = "Watch the copper mines of Chile and who buys from them"
    answer = await api.post(
        "/agents/lithium/configure", json={"mission": another, "keep": ["observer"]}
    )
    assert answer.status_code == 202
    assert (answer.json()["status"], answer.json()["mission"]) == ("ready", MISSION)
    assert answer.json()["configuration"]["status"] == "pending"
    waiting = (await api.get("/agents/lithium/configuration")).json()
    assert (waiting["mission"], waiting["keep"]) == (another, ["observer"])
    again = await api.post("/agents/lithium/configure")
    assert again.json()["configuration"]["step_id"] != waiting["step_id"]


async def test_types_have_schemas_and_examples(api: httpx.AsyncClient, database: Database) -> None:
    await ready(api, database)
    nodes = (await api.get("/agents/lithium/node-types")).json()["items"]
    assert [each["name"] for each in nodes] == ["AgentAdvice", "AgentAnalysis"]
    for each in nodes:
        assert each["properties_schema"]["required"]
        assert each["example_properties"]
        assert each["created_by"] == "system"
    (about,) = (await api.get("/agents/lithium/edge-types")).json()["items"]
    assert (about["name"], about["source_types"]) == ("about", ["AgentAnalysis"])


async def test_anothers_agent_is_not_there(
    api: httpx.AsyncClient, database: Database, database_url: str
) -> None:
    agent = await ready(api, database)
    async with client_of(Settings(database_url=database_url), user="stranger") as other:
        for path in ("prompts", "prompts/history", "configuration"):
            assert_problem(await other.get(f"/agents/{agent['id']}/{path}"), 404)
        assert_problem(await other.post(f"/agents/{agent['id']}/configure"), 404)
        edit = await other.put(f"/agents/{agent['id']}/prompts/observer", json={"prompt": "Mine."})
        assert_problem(edit, 404)
    assert (await api.get("/agents/lithium/prompts")).json()["version"] == 1


async def test_what_is_ordered_is_told_at_once_and_the_story_can_be_read(
    sandbox_settings: Settings, bus: Bus, api: httpx.AsyncClient
) -> None:
    app = build(sandbox_settings)

    async def has_reached_nats() -> bool:
        return bool(app.state.hints._bus.is_connected)

    async with (
        running(sandbox_settings, ["assistant"]),
        app.router.lifespan_context(app),
        stranger_to(app, auth=SignedIn(sandbox_settings, None)) as client,
    ):
        await until(has_reached_nats, what="the api to reach NATS")
        agent = (await client.post("/agents", json={"mission": MISSION})).json()
        assert agent["status"] == "configuring"

        async def look() -> dict[str, Any] | None:
            found: dict[str, Any] = (await client.get(f"/agents/{agent['id']}")).json()
            return found if found["status"] == "ready" else None

        made = await until(look, what="the agent to be ready")
    assert made is not None
    assert made["fault"] is None
    assert len(set(made["prompts"].values())) == 6
    assert all(MISSION in prompt for prompt in made["prompts"].values())
    story = (await api.get(f"/agents/{agent['id']}/configuration")).json()
    assert story["status"] == "completed"
    answers = [each["message"]["content"] for each in story["interaction"]["events"]]
    assert len(answers) == 2
    assert MISSION in story["interaction"]["request"]["messages"][0]["content"]
    types = (await api.get(f"/agents/{agent['id']}/node-types")).json()["items"]
    assert len(types) >= 8
    subjects = [event.subject for event in await told(bus)]
    assert subjects == ["configuration.requested", "configuration.completed"]
