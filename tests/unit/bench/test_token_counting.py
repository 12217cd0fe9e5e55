"""Counting of recorded model calls."""

from decimal import Decimal
from typing import Any

import pytest

from bench.tokens.__main__ import worse
from bench.tokens.counting import (
    CACHE_MIN_TOKENS,
    CACHE_STEP_TOKENS,
    CountedCall,
    Part,
    cached_tokens,
    common_prefix,
    encode,
    segments,
)
from bench.tokens.figures import figures_of
from bench.tokens.missions import MISSIONS, count_facts
from bench.tokens.proxy import Exchange
from bench.tokens.run import RecordedCall, Recording, Search
from shared.llm.messages import ChatAnswer


def make_call(text: str, *, iteration: int = 1, step: int = 0, number: int = 0) -> RecordedCall:
    request = {"model": "m", "messages": [{"role": "user", "content": text}]}
    answer = ChatAnswer({"role": "assistant", "content": "done"}, "stop")
    exchange = Exchange("key", request, answer, float(number))
    return RecordedCall(iteration, "query", step, number, "knowledge_acquisition", exchange)


def test_vocabulary_is_that_of_o200k() -> None:
    # Known encodings, from the documentation of the tokenizer.
    assert len(encode("antidisestablishmentarianism")) == 6
    assert len(encode("2 + 2 = 4")) == 7
    assert len(encode("お誕生日おめでとう")) == 8


def test_every_character_of_a_request_belongs_to_one_part() -> None:
    call: dict[str, Any] = {"id": "c", "function": {"name": "search", "arguments": '{"query":"x"}'}}
    request: dict[str, Any] = {
        "tools": [{"type": "function", "function": {"name": "search", "parameters": {}}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "Plan", "schema": {}}},
        "messages": [
            {"role": "system", "content": "Rules."},
            {
                "role": "user",
                "content": "<mission>\nM\n</mission>\n\n<graph_context>\nNodes\n</graph_context>\n\nDo it.",
            },
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "Found."},
        ],
    }
    assert list(segments(request)) == [
        (Part.TOOLS, '{"name":"search","parameters":{}}'),
        (Part.FORMAT, '{"name":"Plan","schema":{}}'),
        (Part.SYSTEM, "Rules."),
        (Part.TASK, "<mission>\nM\n</mission>\n\n"),
        (Part.CONTEXT, "<graph_context>\nNodes\n</graph_context>"),
        (Part.TASK, "\n\nDo it."),
        (Part.ANSWERS, 'search {"query":"x"}'),
        (Part.RESULTS, "Found."),
    ]


@pytest.mark.parametrize(
    ("one", "other", "length"), [([], [1], 0), ([1, 2, 3], [1, 2, 4, 3], 2), ([7] * 9, [7] * 5, 5)]
)
def test_common_prefix(one: list[int], other: list[int], length: int) -> None:
    assert common_prefix(one, other) == length == common_prefix(other, one)


PREFIX = " word" * 2_000


def test_next_call_of_a_step_reads_the_prefix_from_the_cache() -> None:
    calls = [CountedCall(make_call(PREFIX + " a")), CountedCall(make_call(PREFIX + " b", number=1))]
    assert cached_tokens(calls, 300) == [0, 2_000 // CACHE_STEP_TOKENS * CACHE_STEP_TOKENS]


def test_short_prefix_is_not_cached() -> None:
    text = " word" * (CACHE_MIN_TOKENS - 1)
    calls = [CountedCall(make_call(text + " a")), CountedCall(make_call(text + " b", number=1))]
    assert cached_tokens(calls, 300) == [0, 0]


def test_parallel_calls_do_not_read_from_each_other() -> None:
    calls = [CountedCall(make_call(PREFIX + " a")), CountedCall(make_call(PREFIX + " b", step=1))]
    assert cached_tokens(calls, 300) == [0, 0]


@pytest.mark.parametrize(("interval", "is_cached"), [(290.0, True), (400.0, False)])
def test_prefix_lives_for_five_minutes(interval: float, is_cached: bool) -> None:
    calls = [CountedCall(make_call(PREFIX)), CountedCall(make_call(PREFIX, iteration=2))]
    assert bool(cached_tokens(calls, interval)[1]) == is_cached


def make_recording(*nodes: dict[str, Any], edges: tuple[dict[str, Any], ...] = ()) -> Recording:
    searches = (Search(1, "search", Decimal("0.008")),)
    calls = (make_call(PREFIX), make_call(PREFIX, iteration=2))
    return Recording(MISSIONS[2].text, 3, calls, searches, nodes, edges)


def test_figures_are_means_of_iterations_that_called_the_model() -> None:
    figures = figures_of(make_recording())
    assert (figures.iterations, figures.working, figures.calls, figures.searches) == (3, 2, 1, 0.5)
    assert figures.input == figures.largest == 2_000 + 4


def test_facts_are_compared_with_the_corpus() -> None:
    def chile(**properties: str) -> dict[str, Any]:
        return {"name": "Chile", "properties": properties}

    mission = MISSIONS[2]
    right = chile(**{"Military Expenditures 2024": "1.5% of GDP (2024 est.)"})
    wrong = chile(**{"Military Expenditures 2024": "9.5% of GDP (2024 est.)"})
    other = {"name": "France", "properties": {"Military expenditures": "9.5%"}}
    facts = count_facts(make_recording(right, wrong, other), mission)
    assert (facts.correct, facts.wrong) == (1, 1)


def test_worse_figures_are_named() -> None:
    recorded = {"input": 100.0, "output": 10.0, "usd": 1.0, "correct_facts": 40, "wrong_facts": 0}
    assert worse(recorded, recorded) == []
    assert worse(recorded, {**recorded, "input": 104.0, "correct_facts": 39}) == []
    faults = worse(recorded, {**recorded, "input": 106.0, "correct_facts": 30, "wrong_facts": 1})
    assert faults == [
        "input is 106, recorded was 100 (+6%)",
        "30 correct facts, recorded were 40",
        "1 wrong facts, recorded were 0",
    ]
