"""The scripted reference iteration, its server and its requests, and what counts as a route."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from bench.loop import scripted_model
from bench.loop.driver import PROMPT
from bench.loop.makespan import CRITICAL_CALLS, ideal_makespan
from bench.loop.providers_server import ProvidersProtocol
from bench.loop.scripted_model import (
    INSIGHTS,
    OUTPUT_TOKENS,
    QUERIES,
    Query,
    Reference,
    answer,
    document_text,
)
from bench.peers import reference
from bench.peers.kills import Calls, Kill
from bench.peers.measuring import Figures, median, median_ratio
from bench.peers.reference import Json
from bench.routes import Count, Counts, RouteCounter, find_growth
from shared.agents.model_choice import check_models
from shared.database.text import refuse_nul
from shared.graph.grounding.words import phrases
from shared.graph.scope import GraphScope
from shared.graph.tools import graph_construction
from shared.llm.context_limit import SUSPECT_RATIO
from shared.llm.messages import ChatRequest, encode_json
from shared.llm.model_server import Limits, ModelServer, Stream
from shared.llm.provider import ChatProvider
from shared.tools import declaration
from shared.web_search.client import SearchClient
from tests.support.model_server import make_resumable_call

CONCURRENCY = {"observer": 2, "researcher": 4, "analyzer": 4, "adviser": 2}
REFERENCE = Reference(uuid4(), (uuid4(), uuid4()))
QUERY = Query("0123456789abcdef")


def test_one_agent_takes_its_critical_path() -> None:
    assert ideal_makespan(1, CONCURRENCY, 0.2) == pytest.approx(CRITICAL_CALLS * 0.2)


def test_steps_wait_for_each_other_when_slots_are_scarce() -> None:
    one_at_a_time = dict.fromkeys(CONCURRENCY, 1)
    assert ideal_makespan(1, one_at_a_time, 1.0) == pytest.approx(1 + 3 * 4 + 2 * 1 + 1)


def test_more_slots_are_never_slower() -> None:
    makespans = [
        ideal_makespan(20, {**CONCURRENCY, "researcher": 4 * factor}, 0.2) for factor in (1, 2, 4)
    ]
    assert makespans == sorted(makespans, reverse=True)
    assert makespans[0] >= 20 * 3 * 4 * 0.2 / 4


def test_node_names_share_no_words() -> None:
    names = [
        scripted_model.node_name(f"{key:016x}", index) for key in range(200) for index in range(4)
    ]
    words = [word for name in names for word in name.split()]
    assert len(set(words)) == len(words)


def test_every_quote_is_in_the_page() -> None:
    text = QUERY.page["content"]
    for arguments in scripted_model.parse_arguments(scripted_model.write_calls(REFERENCE, QUERY)):
        for evidence in arguments["evidence"]:
            assert evidence["sourceUrl"] == QUERY.url
            assert evidence["quote"] in text


def test_a_request_identifies_its_reference_and_query() -> None:
    assert Reference.parse(f"<mission>\n{REFERENCE.mission}\n</mission>") == REFERENCE
    plan = scripted_model.plan_for(REFERENCE, QUERY.key)
    keys = [Query.parse(query["objective"]).key for query in plan["queries"]]
    keys += [Query.parse(insight["observation"]).key for insight in plan["insights"]]
    assert len(set(keys)) == scripted_model.QUERIES + scripted_model.INSIGHTS


def test_no_request_looks_as_if_only_a_part_of_it_was_read() -> None:
    tools = graph_construction(GraphScope(uuid4(), REFERENCE.agent_id))
    request = ChatRequest(
        "any",
        (
            {"role": "system", "content": PROMPT},
            {
                "role": "user",
                "content": f"{REFERENCE.mission} key={QUERY.key}\n{document_text(QUERY)}",
            },
        ),
        tuple(map(declaration, tools)),
    )
    read_tokens = answer(request, "one").input_tokens
    assert read_tokens
    assert len(encode_json([*request.messages, *request.tools])) / read_tokens < SUSPECT_RATIO


def test_the_same_call_gets_the_same_answer() -> None:
    request = ChatRequest(
        "any",
        ({"role": "system", "content": ""}, {"role": "user", "content": REFERENCE.mission}),
        response_format={"type": "json_schema"},
    )
    first, repeat, other = (answer(request, key) for key in ("one", "one", "two"))
    assert first == repeat != other
    assert len(json.loads(first.text)["queries"]) == scripted_model.QUERIES


MISSION = reference.mission(uuid4())
FIGURES = Figures(0.1, 0.05, 0.2, 0.06, 10.0, 0.3, 17.0, 40_000.0)


def ask(request: Json) -> Json:
    """The scripted answer's message."""
    chat_request = ChatRequest(
        request["model"],
        tuple(request["messages"]),
        tuple(request.get("tools", ())),
        request.get("response_format"),
    )
    return answer(chat_request, "one").message


def called_tools(message: Json) -> list[str]:
    return [call["function"]["name"] for call in message["tool_calls"]]


def test_the_requests_of_the_peers_are_answered_by_the_script() -> None:
    objectives, observations = reference.read_plan(ask(reference.plan_request(MISSION)))
    assert (len(objectives), len(observations)) == (QUERIES, INSIGHTS)
    message = ask(reference.search_request(MISSION, objectives[0]))
    found = {"results": [Query.parse(reference.read_search(message)).page]}
    document = ask(reference.document_request(MISSION, objectives[0], message, found))
    assert document["content"].startswith("# On ")
    facts = ask(reference.facts_request(MISSION, objectives[0], document))
    assert "addGraphNode" in called_tools(facts)
    conclusion = ask(reference.conclusion_request(MISSION, observations[0]))
    assert called_tools(conclusion)[0] == "addAgentAnalysisNode"
    assert ask(reference.advice_request(MISSION))["content"]


def test_ratios_are_those_of_each_round() -> None:
    mine = [replace(FIGURES, p50_alone=seconds) for seconds in (2.0, 30.0, 4.0)]
    theirs = [replace(FIGURES, p50_alone=seconds) for seconds in (1.0, 10.0, 4.0)]
    assert median_ratio(mine, theirs, lambda figures: figures.p50_alone) == 2.0
    assert median(mine) == replace(FIGURES, p50_alone=4.0)
    assert FIGURES.seconds_alone == pytest.approx(0.15)


def test_calls_that_were_made_again_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    calls = Calls(log)
    log.write_text("received a\nanswered a\nreceived b\nanswered b\nreceived c\nreceived d\n")
    before = calls.moment()
    log.write_text(log.read_text() + "received c\nreceived b\nreceived e\n")
    assert calls.kill(before) == Kill(2, 1, 2, 1)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: ProvidersProtocol(0.0), "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


def request_for(tool: str) -> ChatRequest:
    prompt = f"{REFERENCE.mission} key={QUERY.key}"
    tools = ({"type": "function", "function": {"name": tool, "parameters": {}}},)
    messages = ({"role": "system", "content": ""}, {"role": "user", "content": prompt})
    return ChatRequest("m", messages, tools)


@pytest.mark.parametrize("stream", ["never", "always"])
async def test_the_model_answers_as_scripted_whole_and_streamed(url: str, stream: Stream) -> None:
    server = ModelServer(api_key="k", base_url=f"{url}/v1", limits=Limits(), stream=stream)
    provider = ChatProvider(server)
    try:
        for _ in range(2):
            answer = await provider.complete(request_for("addGraphNode"), make_resumable_call())
            arguments = [json.loads(call.arguments) for call in answer.tool_calls]
            expected = scripted_model.write_calls(REFERENCE, QUERY)
            assert arguments == [*scripted_model.parse_arguments(expected), {}]
            assert answer.tool_calls[-1].name == "finish"
            assert answer.input_tokens
            assert answer.output_tokens == OUTPUT_TOKENS
    finally:
        await provider.close()


async def test_the_search_answers_as_scripted(url: str) -> None:
    client = SearchClient(api_key="k", base_url=url, timeout_seconds=10.0)
    try:
        found = await client.search(f"key={QUERY.key}", max_results=5, topic=None, time_range=None)
        assert found["results"][0]["content"] == QUERY.page["content"]
    finally:
        await client.close()


RECORDED: Counts = {"a route": Count(20, 100)}


def test_a_function_counts_once_in_every_open_route() -> None:
    counter = RouteCounter()
    with counter.counted("outer"):
        check_models("one, then two")
        with counter.counted("inner"):
            refuse_nul("one")
            refuse_nul("two")
            json.dumps("other code")
    assert counter.medians() == {"outer": Count(2, 3), "inner": Count(1, 1)}


def test_what_was_suspended_when_the_route_began_does_not_count() -> None:
    counter = RouteCounter()
    running = phrases("one")
    next(running)
    with counter.counted("a route"):
        assert list(running) == []
    assert counter.medians() == {"a route": Count(0, 0)}


def test_a_closed_route_counts_nothing() -> None:
    counter = RouteCounter()
    with counter.counted("a route"):
        pass
    refuse_nul("one")
    counter.end("a route")
    assert counter.counts == {"a route": [Count(0, 0)]}


@pytest.mark.parametrize(
    ("now", "growth"),
    [
        (Count(20, 100), []),
        (Count(22, 110), []),
        (Count(3, 111), ["a route: 111 functions, recorded were 100"]),
        (Count(22.5, 10), ["a route: 22.5 files, recorded were 20"]),
    ],
)
def test_growth_above_the_tolerance_is_reported(now: Count, growth: list[str]) -> None:
    assert find_growth(RECORDED, {"a route": now}) == growth
