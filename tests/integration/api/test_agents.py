"""Agents over HTTP: created, configured, paused, run, deleted, and visible to their owner only."""

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import delete, text

from cli.local.ports import free_port
from sandbox.corpus.registry import add_corpus
from sandbox.settings import SandboxSettings
from services.api.app import build
from services.api.auth import dependencies
from services.api.auth.dependencies import Access
from shared.agents import agents
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.enums import PROMPTED_PHASES, AgentStatus
from shared.graph import system_types
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.schemas.iterations import NOTES_KEY, SERVER_NOTE, UNREAD_CALLS
from tests.support import table_rows
from tests.support.api.clients import (
    MISSION,
    assert_problem,
    create_agent,
    create_anonymous_client,
    create_client,
)
from tests.support.api.rows import get_agent
from tests.support.api.signed_in import SignedIn
from tests.support.factories import PROMPTS, make_ready
from tests.support.iteration_courses import KEY_ERROR, run_course, run_courses
from tests.support.running_services import list_events, running_services
from tests.support.sandbox.server import running_sandbox
from tests.support.scheduling import change
from tests.support.waiting import wait_until


async def test_an_agent_is_configuring_under_a_provisional_name(api: httpx.AsyncClient) -> None:
    agent = await create_agent(api)
    assert agent["name"] == "Lithium Supply"
    assert agent["interval_seconds"] == 300
    assert agent["active"] is True
    assert agent["last_iteration"] is None
    assert (agent["status"], agent["fault"]) == ("configuring", None)
    assert (agent["prompts"], agent["prompts_version"]) == ({}, 0)
    assert agent["configuration"]["status"] == "pending"
    second = await create_agent(api)
    assert second["name"] == "Lithium Supply 2"
    agents = (await api.get("/agents")).json()["items"]
    assert [row["id"] for row in agents] == [agent["id"], second["id"]]


INVALID_AGENTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"mission": "too short"}, ["mission", "10 to 4000"]),
    ({"mission": " " * 50}, ["mission", "10 to 4000"]),
    ({"mission": "x" * 4001}, ["mission", "10 to 4000"]),
    ({"mission": MISSION, "name": " "}, ["name", "1 to 80"]),
    ({"mission": MISSION, "name": "x" * 81}, ["name", "1 to 80"]),
    ({"mission": MISSION, "name": "a/b"}, ["name", "no slash"]),
    ({"mission": MISSION, "interval_seconds": 9}, ["interval_seconds", "10"]),
    ({"mission": MISSION, "models": {"dreaming": "m"}}, ["models", "observer"]),
    ({"mission": MISSION, "mission_statement": "x"}, ["mission_statement"]),
    ({}, ["mission", "missing"]),
]


async def test_an_invalid_agent_is_rejected_with_the_reason(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for body, words in INVALID_AGENTS:
        with subtests.test(str(body)):
            assert_problem(await api.post("/agents", json=body), 422, *words)
            assert (await api.get("/agents")).json() == {"items": [], "next": None}


async def test_agent_names_are_case_insensitive(api: httpx.AsyncClient) -> None:
    await create_agent(api, name="Lithium Watch")
    response = await api.post("/agents", json={"mission": MISSION, "name": " lithium  watch "})
    assert_problem(response, 409, "lithium watch", "another name")


async def test_an_agent_is_found_by_id_and_by_name(api: httpx.AsyncClient) -> None:
    agent = await create_agent(api, name="Lithium Watch")
    for reference in (agent["id"], "Lithium Watch", "lithium watch"):
        assert (await api.get(f"/agents/{reference}")).json()["id"] == agent["id"]
    assert_problem(await api.get("/agents/cobalt"), 404, "cobalt")
    assert_problem(await api.get(f"/agents/{uuid4()}"), 404)


async def test_an_agent_is_paused_resumed_run_and_deleted(api: httpx.AsyncClient) -> None:
    await create_agent(api, name="Lithium", models={"observer": "some-model"})
    assert (await api.post("/agents/lithium/pause")).json()["active"] is False
    run = await api.post("/agents/lithium/run")
    assert (run.status_code, run.json()["run_requested_at"] is not None) == (202, True)
    resumed = (await api.post("/agents/lithium/resume")).json()
    assert (resumed["active"], resumed["models"]) == (True, {"observer": "some-model"})
    assert (await api.delete("/agents/lithium")).status_code == 204
    assert_problem(await api.delete("/agents/lithium"), 404)


async def test_feedback_rounds_range_from_zero_to_two(api: httpx.AsyncClient) -> None:
    agent = await create_agent(api, name="Lithium")
    assert agent["feedback_rounds"] == 0
    path = f"/agents/{agent['id']}"
    changed = await api.patch(path, json={"feedback_rounds": 2})
    assert changed.json()["feedback_rounds"] == 2
    for rounds in (-1, 3, None):
        assert_problem(await api.patch(path, json={"feedback_rounds": rounds}), 422)
    response = await api.post(
        "/agents", json={"mission": "Watch lithium mines", "feedback_rounds": 1}
    )
    assert response.json()["feedback_rounds"] == 1


async def test_reading_has_a_budget_and_a_share(api: httpx.AsyncClient) -> None:
    agent = await create_agent(api, name="Lithium")
    assert (agent["verification_usd_per_day"], agent["entailment_share"]) == (None, 0.05)
    path = f"/agents/{agent['id']}"
    settings = {"verification_usd_per_day": 0.5, "entailment_share": 0.2}
    changed = await api.patch(path, json={**settings, "models": {"verification": "a-model"}})
    assert changed.json() | settings == changed.json()
    assert changed.json()["models"] == {"verification": "a-model"}
    for wrong in (
        {"verification_usd_per_day": -1},
        {"verification_usd_per_day": 10_001},
        {"entailment_share": 1.5},
        {"entailment_share": -0.1},
    ):
        assert_problem(await api.patch(path, json=wrong), 422)
    created = await api.post("/agents", json={"mission": "Watch lithium mines", **settings})
    assert created.json() | settings == created.json()
    cleared = await api.patch(path, json={"verification_usd_per_day": None})
    assert cleared.json()["verification_usd_per_day"] is None
    earlier = {"entailment_usd_per_day": 0, "models": {"entailment_check": "a-model"}}
    renamed = (await api.patch(path, json=earlier)).json()
    assert renamed["verification_usd_per_day"] == 0
    assert renamed["models"] == {"verification": "a-model"}


async def test_the_owner_prefers_and_bars_domains(api: httpx.AsyncClient) -> None:
    agent = await create_agent(api, name="Lithium")
    assert (agent["preferred_domains"], agent["barred_domains"]) == ([], [])
    path = f"/agents/{agent['id']}"
    domains = {"preferred_domains": ["Reuters.com", "ft.com"], "barred_domains": ["münchen.de"]}
    stored = domains | {
        "preferred_domains": ["reuters.com", "ft.com"],
        "barred_domains": ["xn--mnchen-3ya.de"],
    }
    changed = (await api.patch(path, json=domains)).json()
    assert {name: changed[name] for name in stored} == stored
    for name in stored:
        for refused in (None, "a.com", ["https://a.com"], ["co.uk"], ["a.com"] * 51):
            assert_problem(await api.patch(path, json={name: refused}), 422, name)
    problem = await api.patch(path, json={"barred_domains": ["ft.com"], "feedback_rounds": 2})
    assert_problem(problem, 422, "ft.com is both preferred and barred")
    below = {"preferred_domains": ["news.xn--mnchen-3ya.de"]}
    assert_problem(await api.patch(path, json=below), 422, "xn--mnchen-3ya.de is barred")
    unchanged = (await api.get(path)).json()
    assert {name: unchanged[name] for name in stored} == stored
    assert unchanged["feedback_rounds"] == 0
    cleared = await api.patch(path, json={"preferred_domains": []})
    assert cleared.json()["preferred_domains"] == []
    assert cleared.json()["barred_domains"] == ["xn--mnchen-3ya.de"]
    for barred, status in (("a.com", 422), ("ads.a.com", 201)):
        body = {"mission": MISSION, "preferred_domains": ["a.com"], "barred_domains": [barred]}
        response = await api.post("/agents", json=body)
        assert response.status_code == status, response.text
    assert response.json()["barred_domains"] == ["ads.a.com"]
    assert len((await api.get("/agents")).json()["items"]) == 2


@pytest.fixture
async def corpora_sandbox(tmp_path: Path) -> AsyncIterator[tuple[str, Path]]:
    """The URL of a sandbox that asks for its key, and its list of corpora."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "gold.md").write_text("# Gold\n\nGold is what Ghana exports.")
    registry = tmp_path / "corpora.json"
    settings = SandboxSettings(
        port=0, corpus=str(tmp_path / "own"), registry=registry, key="sandbox-key"
    )
    async with running_sandbox(settings) as url:
        yield url, registry


def sandboxed_settings(database_url: str, url: str, key: str = "sandbox-key") -> Settings:
    return Settings(database_url=database_url, tavily_api_key=SecretStr(key), tavily_base_url=url)


async def test_an_agent_names_a_corpus_of_the_sandbox(
    api: httpx.AsyncClient, database_url: str, corpora_sandbox: tuple[str, Path], tmp_path: Path
) -> None:
    url, registry = corpora_sandbox
    async with create_client(sandboxed_settings(database_url, url)) as client:
        name = add_corpus(registry, tmp_path / "reports", await user_id(client))
        body = {"mission": MISSION, "corpus": name}
        agent = (await client.post("/agents", json=body)).json()
        assert agent["corpus"] == name
        path = f"/agents/{agent['id']}"
        assert_problem(await client.patch(path, json={"corpus": "other"}), 422, "corpus")
        for wrong in ("/etc", "../a", "A", "", "a" * 81):
            refused = await client.post("/agents", json={**body, "corpus": wrong})
            assert_problem(refused, 422, "corpus")
        assert (await client.get(path)).json()["corpus"] == name
    elsewhere = Settings(database_url=database_url, tavily_api_key=SecretStr("tvly-key"))
    async with create_client(elsewhere) as client:
        assert_problem(await client.post("/agents", json=body), 422, "Only the sandbox")
    assert len((await api.get("/agents")).json()["items"]) == 1


async def user_id(client: httpx.AsyncClient) -> str:
    return str((await client.get("/me")).json()["user"]["id"])


async def test_a_corpus_belongs_to_the_user_who_added_it(
    database_url: str, corpora_sandbox: tuple[str, Path], tmp_path: Path
) -> None:
    """Another user's is refused like one that does not exist; one of an older version is the operators'."""
    url, registry = corpora_sandbox
    folder, old, missing = tmp_path / "reports", "reports-1234abcd", "reports-12345678"
    registry.write_text(json.dumps({old: str(folder)}))
    settings = sandboxed_settings(database_url, url)
    async with (
        create_client(settings) as operator,
        create_client(settings, user="ada") as ada,
        create_client(settings, user="bob") as bob,
    ):
        of_ada = add_corpus(registry, folder, await user_id(ada))
        of_operator = add_corpus(registry, folder, await user_id(operator))

        async def answer(client: httpx.AsyncClient, corpus: str) -> tuple[int, str]:
            made = await client.post("/agents", json={"mission": MISSION, "corpus": corpus})
            return made.status_code, made.text.replace(corpus, "NAME")

        refusal = await answer(bob, missing)
        assert refusal[0] == 422
        for client, corpus in (
            (bob, of_ada), (bob, of_operator), (bob, old),
            (ada, of_operator), (ada, old), (operator, of_ada),
        ):  # fmt: skip
            assert await answer(client, corpus) == refusal
        for client, corpus in ((ada, of_ada), (operator, of_operator), (operator, old)):
            assert (await answer(client, corpus))[0] == 201


async def test_a_corpus_that_nobody_added_is_refused(
    api: httpx.AsyncClient, database_url: str, corpora_sandbox: tuple[str, Path], tmp_path: Path
) -> None:
    url, registry = corpora_sandbox
    body = {"mission": MISSION, "corpus": "reports-1234abcd"}
    key = {"idempotency-key": "one"}
    async with create_client(sandboxed_settings(database_url, url)) as client:
        for _ in range(2):
            refused = await client.post("/agents", json=body, headers=key)
            assert_problem(
                refused, 422, "no corpus 'reports-1234abcd'", "vigil agent create --corpus"
            )
        assert refused.json()["type"] == "urn:vigil:problem:no-such-corpus"
        # The refusal is not remembered: the folder may be added now.
        body["corpus"] = add_corpus(registry, tmp_path / "reports", await user_id(client))
        assert (await client.post("/agents", json=body)).status_code == 201
        registry.write_text("{")
        assert_problem(await client.post("/agents", json=body), 503, "the sandbox answered 503")
    async with create_client(sandboxed_settings(database_url, url, "sandbox-other")) as client:
        assert_problem(await client.post("/agents", json=body), 503, "the sandbox answered 401")
    away = sandboxed_settings(database_url, f"http://127.0.0.1:{free_port()}")
    async with create_client(away) as client:
        assert_problem(
            await client.post("/agents", json=body), 503, "the sandbox cannot be reached"
        )
    assert len((await api.get("/agents")).json()["items"]) == 1


async def test_the_form_of_a_new_agent_takes_no_corpus(api: httpx.AsyncClient) -> None:
    """Only the command line can add a folder."""
    answer = await api.post(
        "http://127.0.0.1/agents/new", data={"mission": MISSION, "corpus": "reports-1234abcd"}
    )
    assert answer.status_code == 422
    assert "This page has no field “corpus”." in answer.text
    assert (await api.get("/agents")).json()["items"] == []


async def test_the_owner_sets_the_longest_interval(
    api: httpx.AsyncClient, database: Database
) -> None:
    agent = await create_agent(api, name="Lithium", max_interval_seconds=3_600)
    assert agent["max_interval_seconds"] == 3_600
    path = f"/agents/{agent['id']}"
    assert_problem(
        await api.patch(path, json={"max_interval_seconds": 299}), 422, "299 s", "300 s", "shorter"
    )
    assert_problem(await api.patch(path, json={"interval_seconds": 3_601}), 422, "3600 s", "3601 s")
    short = {"mission": MISSION, "interval_seconds": 60, "max_interval_seconds": 59}
    assert_problem(await api.post("/agents", json=short), 422, "59 s", "60 s")
    async with database.transaction() as session:
        await session.execute(text("update agents set next_run_at = now() + interval '1 hour'"))
    scheduled = (await api.get(path)).json()["next_run_at"]
    changed = (await api.patch(path, json={"max_interval_seconds": 600})).json()
    assert (changed["max_interval_seconds"], changed["interval_seconds"]) == (600, 300)
    assert changed["next_run_at"] < scheduled, "the interval had grown beyond the new maximum"
    assert (await api.patch(path, json={"max_interval_seconds": None})).json()[
        "max_interval_seconds"
    ] is None


async def test_the_owner_sets_an_archive_date(api: httpx.AsyncClient) -> None:
    agent = await create_agent(api, name="Lithium", archive_date="2024-03-01")
    path = f"/agents/{agent['id']}"
    assert agent["archive_date"] == (await api.get(path)).json()["archive_date"] == "2024-03-01"
    moved = await api.patch(path, json={"archive_date": "2024-04-01"})
    assert moved.json()["archive_date"] == "2024-04-01"
    renamed = await api.patch(path, json={"name": "Lithium in Ghana"})
    assert renamed.json()["archive_date"] == "2024-04-01"
    today = datetime.now(UTC).date()
    assert (await api.patch(path, json={"archive_date": f"{today}"})).status_code == 200
    for day, words in (
        (
            f"{today + timedelta(days=2)}",
            ["archive_date", "cannot be in the future", "later than today"],
        ),
        ("1899-12-31", ["archive_date", "1900-01-01 or later"]),
        ("yesterday", ["archive_date", "date"]),
    ):
        body = {"mission": MISSION, "archive_date": day}
        assert_problem(await api.post("/agents", json=body), 422, *words)
        assert_problem(await api.patch(path, json={"archive_date": day}), 422, *words)
    cleared = await api.patch(path, json={"archive_date": None})
    assert cleared.json()["archive_date"] is None
    assert len((await api.get("/agents")).json()["items"]) == 1


async def test_the_pages_of_an_agent_set_and_show_its_archive_date(api: httpx.AsyncClient) -> None:
    new = "http://127.0.0.1/agents/new"
    future = f"{datetime.now(UTC).date() + timedelta(days=2)}"
    form = {"mission": MISSION, "interval_seconds": "5 min", "archive_date": future}
    refused = await api.post(new, data=form)
    assert refused.status_code == 422
    assert "An archive date cannot be in the future" in refused.text
    created = await api.post(new, data={**form, "archive_date": "2024-03-01"})
    assert created.status_code == 303
    [agent] = (await api.get("/agents")).json()["items"]
    assert agent["archive_date"] == "2024-03-01"
    page = await api.get(f"http://127.0.0.1/agents/{agent['id']}")
    assert "Works as if each day were 2024-03-01" in page.text
    settings = await api.get(f"http://127.0.0.1/agents/{agent['id']}/settings")
    assert re.search(r'name="archive_date" value="2024-03-01"', settings.text)


async def test_the_owner_allows_advice_from_one_analysis(api: httpx.AsyncClient) -> None:
    agent = await create_agent(api, name="Lithium")
    assert agent["advice_from_one_analysis"] is False
    path = f"/agents/{agent['id']}"
    changed = await api.patch(path, json={"advice_from_one_analysis": True})
    assert changed.json()["advice_from_one_analysis"] is True
    assert_problem(await api.patch(path, json={"advice_from_one_analysis": None}), 422)
    response = await api.post(
        "/agents", json={"mission": "Watch lithium mines", "advice_from_one_analysis": True}
    )
    assert response.json()["advice_from_one_analysis"] is True


async def test_the_owner_chooses_the_words_for_what_advice_tells_to_do(
    api: httpx.AsyncClient,
) -> None:
    agent = await create_agent(api, name="Lithium")
    assert list(agent["actions"]) == ["BUY", "HOLD", "SELL"]
    path, words = f"/agents/{agent['id']}", {"WAIT": "Change nothing.", "upgrade now": "At once."}
    changed = await api.patch(path, json={"actions": words})
    assert changed.json()["actions"] == words
    for wrong in ({}, None, {"WAIT": ""}, {"a:b": "c"}):
        assert_problem(await api.patch(path, json={"actions": wrong}), 422)
    created = await api.post("/agents", json={"mission": MISSION, "actions": words})
    assert created.json()["actions"] == words
    settings = f"http://127.0.0.1/agents/{agent['id']}/settings"
    page = (await api.get(settings)).text
    assert re.search(r'name="actions"[^>]*>WAIT: Change nothing.\nupgrade now: At once.<', page)
    version = re.search(r'name="version" value="([^"]*)"', page)
    assert version is not None
    form = {
        "version": version[1],
        "name": "Lithium",
        "interval_seconds": "5 min",
        "verification_usd_per_day": "0",
        "entailment_share": "0.05",
    }
    refused = await api.post(settings, data={**form, "actions": "WAIT"})
    assert refused.status_code == 422
    assert "Write each action with what it means" in refused.text
    saved = await api.post(settings, data={**form, "actions": "STAY: Change nothing.\r\n"})
    assert saved.status_code == 303
    assert (await api.get(path)).json()["actions"] == {"STAY": "Change nothing."}
    listed = await api.get(f"http://127.0.0.1/agents/{agent['id']}/conclusions?kind=advice")
    assert "<option>STAY</option>" in listed.text


async def test_what_model_servers_lack_is_shown_until_an_iteration_works_without_it(
    api: httpx.AsyncClient, database: Database
) -> None:
    note = f"{SERVER_NOTE}m {UNREAD_CALLS}."
    courses = {
        "Noted": ["wrote nothing", "quiet"],
        "Idle": ["wrote nothing", "idle"],
        "Fixed": ["wrote nothing", "wrote nodes"],
    }
    for name, each in courses.items():
        await create_agent(api, name=name)
        agent = await get_agent(database, name)
        await change(database, agent, status=AgentStatus.READY)
        first = await run_course(database, agent, each[0])
        async with database.transaction() as session:
            await session.execute(
                text("update steps set result = result || cast(:notes as jsonb) where iteration_id = :id"),
                {"notes": json.dumps({NOTES_KEY: ["Another note.", note]}), "id": first.id},
            )  # fmt: skip
        await run_course(database, agent, each[1])
    listed = (await api.get("/agents")).json()["items"]
    assert {agent["name"]: agent["server_notes"] for agent in listed} == {
        "Noted": [note], "Idle": [note], "Fixed": [],
    }  # fmt: skip
    page = await api.get("http://127.0.0.1/agents/Noted")
    assert note in page.text


async def test_an_agent_that_does_not_work_is_shown_as_such_until_it_does(
    api: httpx.AsyncClient, database: Database
) -> None:
    for name in ("Failing", "Fruitless", "Working"):
        await create_agent(api, name=name)
    courses = {
        "Failing": ["failed"] * 2,
        "Fruitless": ["wrote nothing"] * 3,
        "Working": ["wrote nodes"],
    }
    for name, each in courses.items():
        agent = await get_agent(database, name)
        await change(database, agent, status=AgentStatus.READY)
        await run_courses(database, agent, each)
    listed = (await api.get("/agents")).json()["items"]
    shown = {agent["name"]: agent["attention"] for agent in listed}
    assert shown["Working"] is None
    assert shown["Failing"]["iterations"] == 2
    assert KEY_ERROR in shown["Failing"]["reason"]
    assert shown["Failing"]["advice"]
    assert "wrote nothing" in shown["Fruitless"]["reason"]
    assert (await api.get("/agents/Failing")).json()["attention"] == shown["Failing"]
    page = await api.get("http://127.0.0.1/agents", params={"state": "attention"})
    assert [name for name in courses if name in page.text] == ["Failing", "Fruitless"]
    assert "watching" not in page.text
    page = await api.get("http://127.0.0.1/agents/Failing")
    assert "needs attention" in page.text
    assert f"This iteration failed: query: {KEY_ERROR}" in page.text
    assert "found nothing new" not in page.text


@pytest.mark.parametrize(
    ("changes", "is_due"),
    [
        ({"interval_seconds": 7200}, True),
        ({"models": {"observer": "other"}}, True),
        ({"name": "Renamed"}, True),
        ({}, False),
    ],
)
async def test_changed_settings_end_the_backoff(
    api: httpx.AsyncClient, database: Database, changes: dict[str, Any], is_due: bool
) -> None:
    await create_agent(api, name="Failing")
    agent = await get_agent(database, "Failing")
    await change(database, agent, status=AgentStatus.READY)
    await run_courses(database, agent, ["failed"] * 3)
    if changes:
        assert (await api.patch("/agents/Failing", json=changes)).status_code == 200
    due = await database.run(agents.list_due(10))
    assert [each.id for each in due] == ([agent.id] if is_due else [])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "", {"name": "Renamed"}),
        ("PATCH", "", {"interval_seconds": 600}),
        ("GET", "", None),
        ("GET", "/prompts", None),
        ("POST", "/pause", None),
        ("POST", "/run", None),
        ("PUT", "/budget", {"usd_per_day": "1"}),
        ("POST", "/conversation/messages", {"content": "What is new?"}),
        ("POST", "/memories", {"content": "It rains."}),
        ("POST", "/configure", {"mission": MISSION}),
    ],
)
async def test_the_other_request_is_answered_as_if_it_came_later(
    api: httpx.AsyncClient,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    body: dict[str, Any] | None,
) -> None:
    find_agent_ref = dependencies.find_agent_ref

    async def find_then_delete(access: Access, reference: str) -> Any:
        found = await find_agent_ref(access, reference)
        async with database.transaction() as other_session:
            await other_session.execute(delete(Agent))
        return found

    creation = await api.post("/agents", json={"mission": MISSION})
    monkeypatch.setattr(dependencies, "find_agent_ref", find_then_delete)
    answer = await api.request(method, f"/agents/{creation.json()['id']}{path}", json=body)
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) in {
        (404, "no-such-agent"),
        (404, "deleted-meanwhile"),
    }, answer.text


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
        row = await table_rows.change(
            session, row, status=AgentStatus.FAILED, fault="No key. Ask again."
        )
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
