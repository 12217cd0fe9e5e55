"""Details of an agent: interactions with their events, neighbourhoods, the inbox and the call ledger."""

from uuid import uuid4

import httpx
import pytest

from shared.database.engine import Database
from tests.support.api.clients import assert_problem
from tests.support.api.full_agent import AGENT, ANSWER_TEXT, PLAN, FullAgent, create_full_agent


@pytest.fixture
async def full(api: httpx.AsyncClient, database: Database) -> FullAgent:
    await api.get("/agents")  # creates the owner
    return await create_full_agent(database)


async def test_the_events_of_an_interaction_are_joined_with_its_calls(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    path = f"/interactions/{full.interaction_id}"
    interaction = (await api.get(path)).json()
    assert (interaction["phase"], interaction["event_count"], interaction["system_prompt"]) == (
        "observer",
        4,
        "You plan.",
    )
    assert interaction["request"]["messages"][0]["content"] == "Plan."
    first_answer, search_result, query_result, last_answer = (
        await api.get(f"{path}/events")
    ).json()["items"]
    (call,) = first_answer["tool_calls"]
    assert (call["id"], call["name"], call["arguments"]) == ("t1", "tavilySearch", '{"query": "x"}')
    assert (first_answer["text"], last_answer["text"], last_answer["tool_calls"]) == (
        None,
        ANSWER_TEXT,
        [],
    )
    assert (search_result["tool_call_id"], search_result["result"]) == ("t1", {"results": []})
    assert (query_result["name"], query_result["result"]) == ("queryGraph", {"nodes": []})
    first_page = (await api.get(f"{path}/events", params={"limit": 3})).json()
    rest = await api.get(f"{path}/events", params={"limit": 3, "cursor": first_page["next"]})
    assert first_page["items"] == [first_answer, search_result, query_result]
    assert rest.json() == {"items": [last_answer], "next": None}
    for unknown_path in (f"/interactions/{uuid4()}", f"/interactions/{uuid4()}/events"):
        assert_problem(await api.get(unknown_path), 404)


async def test_an_iteration_is_found_by_its_number(api: httpx.AsyncClient, full: FullAgent) -> None:
    iteration = (await api.get(f"/agents/{AGENT}/iterations/1")).json()
    assert iteration == (await api.get(f"/iterations/{full.ended_iteration_id}")).json()
    assert (iteration["plan"], iteration["interactions"][0]["id"]) == (
        PLAN,
        str(full.interaction_id),
    )
    assert_problem(await api.get(f"/agents/{AGENT}/iterations/3"), 404, "3")
    for number in (0, 2**31, "x"):
        assert_problem(await api.get(f"/agents/{AGENT}/iterations/{number}"), 422, "number")


async def test_the_neighbourhood_of_a_node_is_limited_by_depth_and_size(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    """Lithium is linked to Halden Cells, which is linked to the analysis about it."""
    response = await api.get(
        f"/agents/{AGENT}/nodes", params={"search": "lithium", "type": "Thing"}
    )
    (metal,) = response.json()["items"]
    path = f"/agents/{AGENT}/nodes/{metal['id']}"
    assert [edge["type"] for edge in (await api.get(path)).json()["edges"]["items"]] == ["buys"]
    neighbourhood = (await api.get(f"{path}/neighbourhood")).json()
    assert [node["name"] for node in neighbourhood["nodes"]] == ["Lithium", "Halden Cells"]
    assert [edge["type"] for edge in neighbourhood["edges"]] == ["buys"]
    assert neighbourhood["cut"] is False
    two_steps = (await api.get(f"{path}/neighbourhood", params={"depth": 2})).json()
    assert [node["name"] for node in two_steps["nodes"]] == [
        "Lithium",
        "Halden Cells",
        "Halden grows",
    ]
    assert sorted(edge["type"] for edge in two_steps["edges"]) == ["about", "buys"]
    truncated = (await api.get(f"{path}/neighbourhood", params={"depth": 2, "limit": 2})).json()
    assert ([node["name"] for node in truncated["nodes"]], truncated["cut"]) == (
        ["Lithium", "Halden Cells"],
        True,
    )
    assert_problem(await api.get(f"{path}/neighbourhood", params={"depth": 3}), 422, "depth")
    for suffix in ("", "/edges", "/neighbourhood"):
        assert_problem(await api.get(f"/agents/{AGENT}/nodes/{uuid4()}{suffix}"), 404)


async def test_types_are_shown_with_their_schema(api: httpx.AsyncClient, full: FullAgent) -> None:
    advice = (await api.get(f"/agents/{AGENT}/node-types/AgentAdvice")).json()
    assert advice["created_by"] == "system"
    assert "action" in advice["properties_schema"]["properties"]
    assert advice["example_properties"]["action"] in ("BUY", "SELL", "HOLD")
    buys = (await api.get(f"/agents/{AGENT}/edge-types/buys")).json()
    assert (buys["source_types"], buys["target_types"]) == ([], [])
    for unknown_path in ("node-types/Nothing", "edge-types/nothing", f"edges/{uuid4()}"):
        assert_problem(await api.get(f"/agents/{AGENT}/{unknown_path}"), 404)


async def test_analyses_and_advice_have_separate_paths(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    analysis = (await api.get(f"/agents/{AGENT}/analyses/{full.analysis_id}")).json()
    assert analysis in (await api.get(f"/agents/{AGENT}/analyses")).json()["items"]
    assert_problem(await api.get(f"/agents/{AGENT}/advice/{full.analysis_id}"), 404)
    assert_problem(await api.get(f"/agents/{AGENT}/analyses/{full.node_id}"), 404)


async def test_inbox_items_are_marked_one_at_a_time_or_all_together(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    unread = {"unread": True}
    assert (await api.get(f"/inbox/{full.item_id}")).json()["read_at"] is None
    await api.post(f"/inbox/{full.item_id}/read")
    assert len((await api.get("/inbox", params=unread)).json()["items"]) == 1
    marked = await api.post(f"/inbox/{full.item_id}/unread")
    assert marked.json()["read_at"] is None
    assert (await api.post("/inbox/read")).json() == {"marked": 2}
    assert (await api.post("/inbox/read")).json() == {"marked": 0}
    assert (await api.get("/inbox", params=unread)).json()["items"] == []
    agent_items = await api.get("/inbox", params={"agent_id": str(full.agent_id)})
    no_items = await api.get("/inbox", params={"agent_id": str(uuid4())})
    assert (len(agent_items.json()["items"]), no_items.json()["items"]) == (2, [])
    for unknown_path in (f"/inbox/{uuid4()}/unread", f"/inbox/{uuid4()}/read"):
        assert_problem(await api.post(unknown_path), 404)
    assert_problem(await api.get(f"/inbox/{uuid4()}"), 404)


async def test_calls_are_listed_and_filtered(api: httpx.AsyncClient, full: FullAgent) -> None:
    path = f"/agents/{AGENT}/calls"
    calls = (await api.get(path)).json()["items"]
    assert {call["interaction_id"] for call in calls} >= {str(full.interaction_id)}
    searches = (await api.get(path, params={"kind": "search"})).json()["items"]
    assert [call["model"] for call in searches] == [None, None]
    assert (await api.get(path, params={"phase": "conversation"})).json()["items"] == []
    assert (await api.get(f"{path}/summary")).json()["totals"]["llm_calls"] == 4
    runs = (await api.get(f"/agents/{AGENT}/interactions", params={"phase": "observer"})).json()
    assert [run["event_count"] for run in runs["items"]] == [4, 4]
