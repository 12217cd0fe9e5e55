"""The api over HTTP, against real Postgres: commands, questions, and how it says no."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select, update

from cli.local.postgres import EmbeddedPostgres
from services.api.app import build
from shared.graph import conclusions, seed_types
from shared.graph.scope import Scope
from shared.runtime.settings import Settings
from shared.store.database import Database
from shared.store.tables import Agent, GraphEdge, GraphEdgeType, GraphNode, GraphNodeType, Step
from shared.store.words import StepStatus
from tests.integration.cluster import ended_iteration, running
from tests.integration.making import make_iteration

MISSION = "Watch the lithium supply of European battery makers"
NOBODY_LISTENS = "postgresql://postgres@127.0.0.1:1/vigil"


def client_of(settings: Settings, **headers: str) -> httpx.AsyncClient:
    """The application itself answers, without a socket; errors come as the answers that people get."""
    transport = httpx.ASGITransport(build(settings), raise_app_exceptions=False)
    return httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1/api/v1", headers=headers
    )


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(Settings(database_url=database_url)) as client:
        yield client


async def created(api: httpx.AsyncClient, **wanted: Any) -> dict[str, Any]:
    answer = await api.post("/agents", json={"mission": MISSION, **wanted})
    assert answer.status_code == 201, answer.text
    agent: dict[str, Any] = answer.json()
    return agent


def assert_problem(answer: httpx.Response, status: int, *words: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert all(word in body["detail"] for word in words), body["detail"]


async def test_an_agent_is_made_with_a_name_and_six_prompts(api: httpx.AsyncClient) -> None:
    agent = await created(api)
    assert agent["name"] == "Lithium Supply"
    assert agent["interval_seconds"] == 300
    assert agent["active"] is True
    assert agent["last_iteration"] is None
    assert len(set(agent["prompts"].values())) == 6
    assert all(MISSION in prompt for prompt in agent["prompts"].values())
    again = await created(api)
    assert again["name"] == "Lithium Supply 2"
    listed = (await api.get("/agents")).json()
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
    assert (await api.get("/agents")).json() == []


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
    iteration = await _an_iteration(database, "Lithium")
    stranger = Settings(database_url=database_url, owner="stranger")
    async with client_of(stranger) as other:
        assert (await other.get("/agents")).json() == []
        for path in ("", "/iterations", "/graph", "/analyses", "/advice", "/calls"):
            assert_problem(await other.get(f"/agents/{agent['id']}{path}"), 404)
        for order in ("pause", "resume", "run"):
            assert_problem(await other.post(f"/agents/{agent['id']}/{order}"), 404)
        assert_problem(await other.delete(f"/agents/{agent['id']}"), 404)
        assert_problem(await other.get(f"/iterations/{iteration}"), 404)
        assert (
            await other.post("/agents", json={"mission": MISSION, "name": "Lithium"})
        ).is_success
    assert (await api.get(f"/iterations/{iteration}")).json()["agent_name"] == "Lithium"


async def test_a_step_in_trouble_is_told_with_its_error(
    api: httpx.AsyncClient, database: Database
) -> None:
    await created(api, name="Lithium")
    iteration = await _an_iteration(database, "Lithium")
    async with database.transaction() as session:
        await session.execute(
            update(Step)
            .where(Step.iteration_id == iteration)
            .values(status=StepStatus.PENDING, error="no answer from the model server", attempts=2)
        )
    shown = (await api.get("/agents/lithium")).json()
    assert shown["last_iteration"]["status"] == "running"
    assert shown["last_iteration"]["stage"] == "observing"
    (trouble,) = shown["trouble"]
    assert (trouble["step"], trouble["attempts"]) == ("observe", 2)
    assert trouble["error"] == "no answer from the model server"


async def test_the_whole_story_of_two_iterations_can_be_read(
    api: httpx.AsyncClient, database: Database, sandbox_settings: Settings
) -> None:
    await created(api, name="Batteries", mission="Watch battery makers and their lithium supply")
    agent = await _row(database, "Batteries")
    async with running(sandbox_settings):
        await ended_iteration(database, agent, 1)
        await api.post("/agents/batteries/run")
        await ended_iteration(database, agent, 2)
    newest, oldest = (await api.get("/agents/batteries/iterations")).json()
    assert [newest["number"], oldest["number"]] == [2, 1]
    told = (await api.get(f"/iterations/{oldest['id']}")).json()
    assert told["plan"]["queries"]
    assert [step["kind"] for step in told["steps"]] == ["observe"] + ["query"] * (
        len(told["steps"]) - 1
    )
    assert [each["phase"] for each in told["interactions"]][:3] == [
        "observer",
        "knowledge_acquisition",
        "graph_construction",
    ]
    answers = [
        event
        for interaction in told["interactions"]
        for event in interaction["events"]
        if event["type"] == "answer"
    ]
    assert all(event["message"]["role"] == "assistant" for event in answers)
    searched = [
        event
        for interaction in told["interactions"]
        for event in interaction["events"]
        if event["type"] == "tool_result" and event["name"] == "tavilySearch"
    ]
    assert all("results" in event["result"] for event in searched)
    assert searched
    assert told["calls"]["llm_calls"] == len(answers)
    assert told["calls"]["search_calls"] >= 1
    calls = (await api.get("/agents/batteries/calls")).json()
    assert calls["totals"]["llm_calls"] > told["calls"]["llm_calls"]
    assert calls["totals"]["unpriced_calls"] == calls["totals"]["llm_calls"]
    graph = (await api.get("/agents/batteries/graph")).json()
    assert len(graph["nodes"]) == graph["counts"]["nodes"] > 0
    assert sum(each["nodes"] for each in graph["node_types"]) == graph["counts"]["nodes"]
    assert sum(each["edges"] for each in graph["edge_types"]) == graph["counts"]["edges"]
    analyses = (await api.get("/agents/batteries/analyses")).json()
    assert analyses
    for analysis in analyses:
        assert analysis["citations"]
        assert all(citation["name"] for citation in analysis["citations"])
    assert (await api.delete("/agents/batteries")).status_code == 204


async def test_advice_reaches_the_inbox_and_is_read_once(
    api: httpx.AsyncClient, database: Database
) -> None:
    agent = await created(api, name="Lithium")
    await _advise(database, await _row(database, "Lithium"))
    (item,) = (await api.get("/inbox", params={"unread": True})).json()
    assert (item["agent_name"], item["action"], item["read_at"]) == ("Lithium", "HOLD", None)
    read = (await api.post(f"/inbox/{item['id']}/read")).json()
    assert read["read_at"] is not None
    assert (await api.post(f"/inbox/{item['id']}/read")).json()["read_at"] == read["read_at"]
    assert (await api.get("/inbox", params={"unread": True})).json() == []
    assert len((await api.get("/inbox")).json()) == 1
    assert_problem(await api.post(f"/inbox/{uuid4()}/read"), 404)
    (advice,) = (await api.get(f"/agents/{agent['id']}/advice")).json()
    assert advice["word"] == "HOLD"
    assert [cited["type"] for cited in advice["citations"]] == ["AgentAnalysis"]
    (analysis,) = (await api.get(f"/agents/{agent['id']}/analyses")).json()
    assert {(cited["kind"], cited["name"]) for cited in analysis["citations"]} == {
        ("node", "Halden Cells"),
        ("edge", "Halden Cells → Lithium"),
    }


async def test_without_postgres_it_lives_is_not_ready_and_says_why() -> None:
    async with client_of(Settings(database_url=NOBODY_LISTENS)) as api:
        assert (await api.get("http://127.0.0.1/health/live")).status_code == 200
        ready = await api.get("http://127.0.0.1/health/ready")
        assert (ready.status_code, "PostgreSQL" in ready.json()["reason"]) == (503, True)
        answer = await api.get("/agents")
        assert_problem(answer, 503, "PostgreSQL")
        assert answer.headers["retry-after"]


async def test_without_tables_it_says_how_to_get_them(postgres: EmbeddedPostgres) -> None:
    async with client_of(Settings(database_url=postgres.dsn)) as api:
        assert_problem(await api.get("/agents"), 503, "vigil migrate")


async def test_every_error_is_a_problem(api: httpx.AsyncClient) -> None:
    assert_problem(await api.get("/nothing"), 404)
    assert_problem(await api.put("/agents"), 405)
    assert_problem(await api.get("/iterations/seven"), 422, "iteration_id")
    assert_problem(await api.post("/agents", content=b"{"), 422)


async def test_pages_of_others_are_kept_away(api: httpx.AsyncClient) -> None:
    """A page that a browser on this machine shows can reach loopback; it must not get in."""
    foreign = {"origin": "https://elsewhere.example"}
    assert_problem(await api.post("/agents/x/run", headers=foreign), 403, "elsewhere.example")
    rebound = {"host": "rebound.example"}
    assert_problem(await api.get("/agents", headers=rebound), 403, "rebound.example")
    own = {"origin": "http://127.0.0.1"}
    assert (await api.get("/agents", headers=own)).status_code == 200


async def _row(database: Database, name: str) -> Agent:
    async with database.transaction() as session:
        return (await session.scalars(select(Agent).where(Agent.name == name))).one()


async def _an_iteration(database: Database, agent_name: str) -> UUID:
    """A running iteration of the agent; its id."""
    return (await make_iteration(database, await _row(database, agent_name))).iteration.id


async def _advise(database: Database, agent: Agent) -> None:
    """A node, an edge, an analysis that cites both, and advice that stands on it."""
    scope = Scope(agent.owner_id, agent.id)
    maker, metal, edge = (uuid4() for _ in range(3))
    async with database.transaction() as session:
        await seed_types.ensure(session, agent.id)
        session.add_all(
            [
                GraphNodeType(
                    agent_id=agent.id,
                    name="Thing",
                    description="Any thing",
                    properties_schema={"type": "object"},
                    created_by="test",
                ),
                GraphEdgeType(
                    agent_id=agent.id, name="buys", description="buys", created_by="test"
                ),
            ]
        )
        await session.flush()
        for node_id, name in ((maker, "Halden Cells"), (metal, "Lithium")):
            session.add(
                GraphNode(id=node_id, agent_id=agent.id, type="Thing", name=name, properties={})
            )
        await session.flush()
        session.add(
            GraphEdge(id=edge, agent_id=agent.id, type="buys", source_id=maker, target_id=metal)
        )
        await session.flush()
        analysis = await conclusions.add_analysis(
            session,
            scope,
            name="Halden buys lithium",
            kind="observation",
            summary="It buys.",
            content=f"Halden [node:{maker}] buys it [edge:{edge}].",
        )
        await conclusions.add_advice(
            session,
            scope,
            name="Wait for Halden",
            action="HOLD",
            summary="Nothing to do.",
            content=f"As it stands [node:{analysis}].",
        )
