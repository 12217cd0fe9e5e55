"""What is told of an agent one by one: interactions with their events, what lies around a node, the inbox, the ledger."""

from uuid import uuid4

import httpx
import pytest

from shared.database.engine import Database
from tests.support.api.asking import assert_problem
from tests.support.api.full import AGENT, PLAN, SAID, Full, full_agent


@pytest.fixture
async def full(api: httpx.AsyncClient, database: Database) -> Full:
    await api.get("/agents")  # makes the owner
    return await full_agent(database)


async def test_an_interactions_events_are_joined_from_the_ledger(
    api: httpx.AsyncClient, full: Full
) -> None:
    path = f"/interactions/{full.interaction_id}"
    told = (await api.get(path)).json()
    assert (told["phase"], told["event_count"], told["system_prompt"]) == (
        "observer",
        4,
        "You plan.",
    )
    assert told["request"]["messages"][0]["content"] == "Plan."
    asked, searched, looked, said = (await api.get(f"{path}/events")).json()["items"]
    (call,) = asked["tool_calls"]
    assert (call["id"], call["name"], call["arguments"]) == ("t1", "tavilySearch", '{"query": "x"}')
    assert (asked["text"], said["text"], said["tool_calls"]) == (None, SAID, [])
    assert (searched["tool_call_id"], searched["result"]) == ("t1", {"results": []})
    assert (looked["name"], looked["result"]) == ("queryGraph", {"nodes": []})
    first = (await api.get(f"{path}/events", params={"limit": 3})).json()
    rest = await api.get(f"{path}/events", params={"limit": 3, "cursor": first["next"]})
    assert first["items"] == [asked, searched, looked]
    assert rest.json() == {"items": [said], "next": None}
    for wrong in (f"/interactions/{uuid4()}", f"/interactions/{uuid4()}/events"):
        assert_problem(await api.get(wrong), 404)


async def test_an_iteration_is_found_by_its_number(api: httpx.AsyncClient, full: Full) -> None:
    told = (await api.get(f"/agents/{AGENT}/iterations/1")).json()
    assert told == (await api.get(f"/iterations/{full.ended_iteration_id}")).json()
    assert (told["plan"], told["interactions"][0]["id"]) == (PLAN, str(full.interaction_id))
    assert_problem(await api.get(f"/agents/{AGENT}/iterations/3"), 404, "3")
    for number in (0, 2**31, "x"):
        assert_problem(await api.get(f"/agents/{AGENT}/iterations/{number}"), 422, "number")


async def test_what_lies_around_a_node(api: httpx.AsyncClient, full: Full) -> None:
    """Lithium — Halden Cells — the analyses about it."""
    listed = await api.get(f"/agents/{AGENT}/nodes", params={"search": "lithium", "type": "Thing"})
    (metal,) = listed.json()["items"]
    path = f"/agents/{AGENT}/nodes/{metal['id']}"
    assert [edge["type"] for edge in (await api.get(path)).json()["edges"]["items"]] == ["buys"]
    near = (await api.get(f"{path}/neighbourhood")).json()
    assert [node["name"] for node in near["nodes"]] == ["Lithium", "Halden Cells"]
    assert [edge["type"] for edge in near["edges"]] == ["buys"]
    assert near["cut"] is False
    far = (await api.get(f"{path}/neighbourhood", params={"depth": 2})).json()
    assert [node["name"] for node in far["nodes"]] == ["Lithium", "Halden Cells", "Halden grows"]
    assert sorted(edge["type"] for edge in far["edges"]) == ["about", "buys"]
    cut = (await api.get(f"{path}/neighbourhood", params={"depth": 2, "limit": 2})).json()
    assert ([node["name"] for node in cut["nodes"]], cut["cut"]) == (
        ["Lithium", "Halden Cells"],
        True,
    )
    assert_problem(await api.get(f"{path}/neighbourhood", params={"depth": 3}), 422, "depth")
    for wrong in ("", "/edges", "/neighbourhood"):
        assert_problem(await api.get(f"/agents/{AGENT}/nodes/{uuid4()}{wrong}"), 404)


async def test_types_are_told_with_their_schema(api: httpx.AsyncClient, full: Full) -> None:
    advice = (await api.get(f"/agents/{AGENT}/node-types/AgentAdvice")).json()
    assert advice["created_by"] == "system"
    assert "action" in advice["properties_schema"]["properties"]
    assert advice["example_properties"]["action"] in ("BUY", "SELL", "HOLD")
    buys = (await api.get(f"/agents/{AGENT}/edge-types/buys")).json()
    assert (buys["source_types"], buys["target_types"]) == ([], [])
    for wrong in ("node-types/Nothing", "edge-types/nothing", f"edges/{uuid4()}"):
        assert_problem(await api.get(f"/agents/{AGENT}/{wrong}"), 404)


async def test_an_analysis_is_no_advice(api: httpx.AsyncClient, full: Full) -> None:
    analysis = (await api.get(f"/agents/{AGENT}/analyses/{full.analysis_id}")).json()
    assert analysis in (await api.get(f"/agents/{AGENT}/analyses")).json()["items"]
    assert_problem(await api.get(f"/agents/{AGENT}/advice/{full.analysis_id}"), 404)
    assert_problem(await api.get(f"/agents/{AGENT}/analyses/{full.node_id}"), 404)


async def test_an_inbox_is_marked_one_by_one_and_as_a_whole(
    api: httpx.AsyncClient, full: Full
) -> None:
    unread = {"unread": True}
    assert (await api.get(f"/inbox/{full.item_id}")).json()["read_at"] is None
    await api.post(f"/inbox/{full.item_id}/read")
    assert len((await api.get("/inbox", params=unread)).json()["items"]) == 1
    again = await api.post(f"/inbox/{full.item_id}/unread")
    assert again.json()["read_at"] is None
    assert (await api.post("/inbox/read")).json() == {"marked": 2}
    assert (await api.post("/inbox/read")).json() == {"marked": 0}
    assert (await api.get("/inbox", params=unread)).json()["items"] == []
    of_agent = await api.get("/inbox", params={"agent_id": str(full.agent_id)})
    of_nobody = await api.get("/inbox", params={"agent_id": str(uuid4())})
    assert (len(of_agent.json()["items"]), of_nobody.json()["items"]) == (2, [])
    for wrong in (f"/inbox/{uuid4()}/unread", f"/inbox/{uuid4()}/read"):
        assert_problem(await api.post(wrong), 404)
    assert_problem(await api.get(f"/inbox/{uuid4()}"), 404)


async def test_the_ledger_is_told_call_by_call(api: httpx.AsyncClient, full: Full) -> None:
    path = f"/agents/{AGENT}/calls"
    calls = (await api.get(path)).json()["items"]
    assert {call["interaction_id"] for call in calls} >= {str(full.interaction_id)}
    searches = (await api.get(path, params={"kind": "search"})).json()["items"]
    assert [call["model"] for call in searches] == [None, None]
    assert (await api.get(path, params={"phase": "conversation"})).json()["items"] == []
    assert (await api.get(f"{path}/summary")).json()["totals"]["llm_calls"] == 4
    runs = (await api.get(f"/agents/{AGENT}/interactions", params={"phase": "observer"})).json()
    assert [run["event_count"] for run in runs["items"]] == [4, 4]
