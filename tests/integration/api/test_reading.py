"""What the api tells of an agent's work."""

from uuid import uuid4

import httpx
from sqlalchemy import update

from shared.database.engine import Database
from shared.database.tables import Step
from shared.enums import StepStatus
from shared.runtime.settings import Settings
from tests.support.actors import ended_iteration, running
from tests.support.api.asking import assert_problem, created
from tests.support.api.rows import advise, an_iteration, row_of


async def test_a_step_in_trouble_is_told_with_its_error(
    api: httpx.AsyncClient, database: Database
) -> None:
    await created(api, name="Lithium")
    iteration = await an_iteration(database, "Lithium")
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
    agent = await row_of(database, "Batteries")
    async with running(sandbox_settings):
        await ended_iteration(database, agent, 1)
        await api.post("/agents/batteries/run")
        await ended_iteration(database, agent, 2)
    newest, oldest = (await api.get("/agents/batteries/iterations")).json()["items"]
    assert [newest["number"], oldest["number"]] == [2, 1]
    told = (await api.get(f"/iterations/{oldest['id']}")).json()
    assert told["plan"]["queries"]
    assert [step["kind"] for step in told["steps"]] == ["observe"] + ["query"] * (
        len(told["steps"]) - 1
    )
    phases = [each["phase"] for each in told["interactions"]]
    queries = len(told["steps"]) - 1
    assert phases == [
        "observer",
        *["knowledge_acquisition"] * queries,
        *["graph_construction"] * queries,
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
    calls = (await api.get("/agents/batteries/calls/summary")).json()
    assert calls["totals"]["llm_calls"] > told["calls"]["llm_calls"]
    assert calls["totals"]["unpriced_calls"] == 0
    assert calls["totals"]["cost_usd"] > 0
    graph = (await api.get("/agents/batteries/graph")).json()
    assert len(graph["nodes"]) == graph["counts"]["nodes"] > 0
    assert sum(each["nodes"] for each in graph["node_types"]) == graph["counts"]["nodes"]
    assert sum(each["edges"] for each in graph["edge_types"]) == graph["counts"]["edges"]
    analyses = (await api.get("/agents/batteries/analyses")).json()["items"]
    assert analyses
    for analysis in analyses:
        assert analysis["citations"]
        assert all(citation["name"] for citation in analysis["citations"])
    assert (await api.delete("/agents/batteries")).status_code == 204


async def test_advice_reaches_the_inbox_and_is_read_once(
    api: httpx.AsyncClient, database: Database
) -> None:
    agent = await created(api, name="Lithium")
    await advise(database, await row_of(database, "Lithium"))
    (item,) = (await api.get("/inbox", params={"unread": True})).json()["items"]
    assert (item["agent_name"], item["action"], item["read_at"]) == ("Lithium", "HOLD", None)
    read = (await api.post(f"/inbox/{item['id']}/read")).json()
    assert read["read_at"] is not None
    assert (await api.post(f"/inbox/{item['id']}/read")).json()["read_at"] == read["read_at"]
    assert (await api.get("/inbox", params={"unread": True})).json()["items"] == []
    assert len((await api.get("/inbox")).json()["items"]) == 1
    assert_problem(await api.post(f"/inbox/{uuid4()}/read"), 404)
    (advice,) = (await api.get(f"/agents/{agent['id']}/advice")).json()["items"]
    assert advice["word"] == "HOLD"
    assert [cited["type"] for cited in advice["citations"]] == ["AgentAnalysis"]
    (analysis,) = (await api.get(f"/agents/{agent['id']}/analyses")).json()["items"]
    assert {(cited["kind"], cited["name"]) for cited in analysis["citations"]} == {
        ("node", "Halden Cells"),
        ("edge", "Halden Cells → Lithium"),
    }
