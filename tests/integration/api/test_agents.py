"""Agents over HTTP: created, found, paused, run, deleted, and visible to their owner only."""

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
from sqlalchemy import text

from cli.local.ports import free_port
from sandbox.corpus.registry import add_corpus
from sandbox.settings import SandboxSettings
from shared.agents import agents
from shared.database.engine import Database
from shared.enums import AgentStatus
from shared.runtime.settings import Settings
from shared.schemas.iterations import NOTES_KEY, SERVER_NOTE, UNREAD_CALLS
from tests.support.api.clients import MISSION, assert_problem, create_agent, create_client
from tests.support.api.rows import get_agent
from tests.support.iteration_courses import KEY_ERROR, run_course, run_courses
from tests.support.sandbox.server import running_sandbox
from tests.support.scheduling import change


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


async def test_checks_of_evidence_have_a_budget_and_a_share(api: httpx.AsyncClient) -> None:
    agent = await create_agent(api, name="Lithium")
    assert (agent["entailment_usd_per_day"], agent["entailment_share"]) == (0, 0.05)
    path = f"/agents/{agent['id']}"
    settings = {"entailment_usd_per_day": 0.5, "entailment_share": 0.2}
    changed = await api.patch(path, json={**settings, "models": {"entailment_check": "a-model"}})
    assert changed.json() | settings == changed.json()
    assert changed.json()["models"] == {"entailment_check": "a-model"}
    for wrong in (
        {"entailment_usd_per_day": -1},
        {"entailment_usd_per_day": None},
        {"entailment_usd_per_day": 10_001},
        {"entailment_share": 1.5},
        {"entailment_share": -0.1},
    ):
        assert_problem(await api.patch(path, json=wrong), 422)
    created = await api.post("/agents", json={"mission": "Watch lithium mines", **settings})
    assert created.json() | settings == created.json()


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
async def sandbox(tmp_path: Path) -> AsyncIterator[tuple[str, Path]]:
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
    api: httpx.AsyncClient, database_url: str, sandbox: tuple[str, Path], tmp_path: Path
) -> None:
    url, registry = sandbox
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
    database_url: str, sandbox: tuple[str, Path], tmp_path: Path
) -> None:
    """Another user's is refused like one that does not exist; one of an older version is the operators'."""
    url, registry = sandbox
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
    api: httpx.AsyncClient, database_url: str, sandbox: tuple[str, Path], tmp_path: Path
) -> None:
    url, registry = sandbox
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
