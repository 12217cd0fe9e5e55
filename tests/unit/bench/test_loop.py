"""The scripted reference iteration, and the ideal makespan."""

import json
from uuid import uuid4

import pytest

from bench.loop import scripted_model
from bench.loop.driver import PROMPT
from bench.loop.makespan import CRITICAL_CALLS, ideal_makespan
from bench.loop.scripted_model import Query, Reference, answer, document_text
from shared.graph.scope import GraphScope
from shared.graph.tools import graph_construction
from shared.llm.context_limit import SUSPECT_RATIO
from shared.llm.messages import ChatRequest, encode_json
from shared.tools import declaration

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
