"""Reading an agent's work over HTTP."""

from uuid import uuid4

import httpx
from sqlalchemy import update

from shared.database.engine import Database
from shared.database.tables import Step
from shared.enums import StepStatus
from shared.runtime.settings import Settings
from tests.support.api.clients import assert_problem, create_agent
from tests.support.api.rows import add_advice, get_agent, start_iteration
from tests.support.running_services import ended_iteration, running_services


async def test_a_failing_step_is_shown_with_its_error(
    api: httpx.AsyncClient, database: Database
) -> None:
    await create_agent(api, name="Lithium")
    iteration = await start_iteration(database, "Lithium")
    async with database.transaction() as session:
        await session.execute(
            update(Step)
            .where(Step.iteration_id == iteration)
            .values(status=StepStatus.PENDING, error="no answer from the model server", attempts=2)
        )
    agent = (await api.get("/agents/lithium")).json()
    assert agent["last_iteration"]["status"] == "running"
    assert agent["last_iteration"]["stage"] == "observing"
    (trouble,) = agent["trouble"]
    assert (trouble["step"], trouble["attempts"]) == ("observe", 2)
    assert trouble["error"] == "no answer from the model server"


async def test_two_complete_iterations_can_be_read(
    api: httpx.AsyncClient, database: Database, sandbox_settings: Settings
) -> None:
    await create_agent(
        api, name="Batteries", mission="Watch battery makers and their lithium supply"
    )
    agent = await get_agent(database, "Batteries")
    # Without a bus the API publishes nothing: the reconciler does.
    settings = sandbox_settings.model_copy(update={"resend_after_seconds": 1.0})
    async with running_services(settings):
        await ended_iteration(database, agent, 1)
        await api.post("/agents/batteries/run")
        await ended_iteration(database, agent, 2)
    newest, oldest = (await api.get("/agents/batteries/iterations")).json()["items"]
    assert [newest["number"], oldest["number"]] == [2, 1]
    iteration = (await api.get(f"/iterations/{oldest['id']}")).json()
    assert iteration["plan"]["queries"]
    assert [step["kind"] for step in iteration["steps"]] == ["observe"] + ["query"] * (
        len(iteration["steps"]) - 1
    )
    phases = [interaction["phase"] for interaction in iteration["interactions"]]
    queries = len(iteration["steps"]) - 1
    assert phases == [
        "observer",
        *["knowledge_acquisition"] * queries,
        *["graph_construction"] * queries,
    ]
    answers = [
        event
        for interaction in iteration["interactions"]
        for event in interaction["events"]
        if event["type"] == "answer"
    ]
    assert all(event["message"]["role"] == "assistant" for event in answers)
    searches = [
        event
        for interaction in iteration["interactions"]
        for event in interaction["events"]
        if event["type"] == "tool_result" and event["name"] == "tavilySearch"
    ]
    assert all("results" in event["result"] for event in searches)
    assert searches
    assert iteration["calls"]["llm_calls"] == len(answers)
    assert iteration["calls"]["search_calls"] >= 1
    calls = (await api.get("/agents/batteries/calls/summary")).json()
    assert calls["totals"]["llm_calls"] > iteration["calls"]["llm_calls"]
    assert calls["totals"]["unpriced_calls"] == 0
    assert calls["totals"]["cost_usd"] > 0
    graph = (await api.get("/agents/batteries/graph")).json()
    assert len(graph["nodes"]) == graph["counts"]["nodes"] > 0
    assert sum(node_type["nodes"] for node_type in graph["node_types"]) == graph["counts"]["nodes"]
    assert sum(edge_type["edges"] for edge_type in graph["edge_types"]) == graph["counts"]["edges"]
    analyses = (await api.get("/agents/batteries/analyses")).json()["items"]
    assert analyses
    for analysis in analyses:
        assert analysis["citations"]
        assert all(citation["name"] for citation in analysis["citations"])
    assert (await api.delete("/agents/batteries")).status_code == 204


async def test_advice_is_added_to_the_inbox_and_marked_as_read_once(
    api: httpx.AsyncClient, database: Database
) -> None:
    agent = await create_agent(api, name="Lithium")
    await add_advice(database, await get_agent(database, "Lithium"))
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
    assert [citation["type"] for citation in advice["citations"]] == ["AgentAnalysis"] * 2
    second, analysis = (await api.get(f"/agents/{agent['id']}/analyses")).json()["items"]
    assert [citation["name"] for citation in second["citations"]] == ["Lithium"]
    assert {(citation["kind"], citation["name"]) for citation in analysis["citations"]} == {
        ("node", "Halden Cells"),
        ("edge", "Halden Cells → Lithium"),
    }
