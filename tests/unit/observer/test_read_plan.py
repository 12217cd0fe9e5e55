"""Parsing of plans as a weak model writes them."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from services.observer.prompts import (
    MAX_HINTS,
    MAX_INSIGHTS,
    MAX_QUERIES,
    ObserverPlan,
    first_query,
    parse_folded_plan,
    parse_plan,
)
from shared.llm.repair import Repairs, UnreadableError, read_json
from shared.llm.structured_output import response_format
from tests.support.case_files import read_cases
from tests.support.mutation_statements import broken_text, damage
from tests.support.seeds import first_seed, repeatable, seed_count

CASES = read_cases(__file__)

QUERY = {
    "objective": "Who digs?",
    "reasoning": "Unknown.",
    "searchHints": ["lithium"],
    "answers": [],
}
INSIGHT = {"observation": "They merge.", "relevantNodeIds": ["Ghana"], "synthesisDirection": "Why?"}
PLAN = {"queries": [QUERY], "insights": [INSIGHT]}


@pytest.mark.parametrize("plan", [PLAN, {"queries": [], "insights": []}])
def test_a_valid_plan_is_parsed_without_notes(plan: Any) -> None:
    repairs = Repairs()
    assert parse_plan(plan, repairs) == ObserverPlan.model_validate(plan)
    assert repairs.all_notes == []


@pytest.mark.parametrize(
    "value",
    [
        {"Queries": [QUERY], "INSIGHTS": [INSIGHT]},
        {"queries": QUERY, "insights": INSIGHT},
        {"plan": PLAN},
        [PLAN],
        [QUERY, INSIGHT],
        [{"queries": [QUERY]}, {"insights": [INSIGHT]}],
        {"queries": [{**QUERY, "searchHints": "lithium"}], "insights": [INSIGHT]},
        {
            "queries": [
                {
                    "query": "Who digs?",
                    "why": "Unknown.",
                    "search_queries": ["lithium"],
                    "priority": 1,
                }
            ],
            "insights": [{"pattern": "They merge.", "nodes": "Ghana", "direction": "Why?"}],
        },
        {"queries": [QUERY, QUERY, {**QUERY, "objective": "WHO DIGS"}], "insights": [INSIGHT]},
        {"queries": [QUERY, {"objective": " "}, None, 7], "insights": [INSIGHT]},
    ],
)
def test_other_forms_are_parsed_as_the_same_plan(value: Any) -> None:
    repairs = Repairs()
    assert parse_plan(value, repairs) == ObserverPlan.model_validate(PLAN)
    assert repairs.all_notes


@pytest.mark.parametrize(
    "skipped",
    [
        [{"url": "https://example.org/a", "reason": "Old."}],
        [{"address": "https://example.org/a", "why": "Old."}],
        {"URL": "https://example.org/a", "rationale": "Old."},
    ],
)
def test_skipped_news_is_read_in_its_forms(skipped: Any) -> None:
    plan = parse_plan({**PLAN, "skipped": skipped}, Repairs())
    assert [(each.url, each.reason) for each in plan.skipped] == [("https://example.org/a", "Old.")]
    alone = parse_plan({"skipped": skipped}, Repairs())
    assert (alone.queries, alone.skipped) == ([], plan.skipped)


@pytest.mark.parametrize(
    "text", ["none", "N/A", "-", "nothing", "Nothing new.", "No queries needed", "null", "[]"]
)
@pytest.mark.parametrize("form", ["{}", "list", "object"])
def test_a_text_that_says_that_there_is_nothing_is_no_query(text: str, form: str) -> None:
    values = {"{}": text, "list": [text], "object": [{"objective": text, "observation": text}]}
    plan = parse_plan({"queries": values[form], "insights": values[form]}, Repairs())
    assert (plan.queries, plan.insights) == ([], [])
    kept = parse_plan({"queries": [QUERY, text], "insights": [INSIGHT, text]}, Repairs())
    assert kept == ObserverPlan.model_validate(PLAN)


@pytest.mark.parametrize("text", ["Nothing but copper: who digs?", "None of the mines", "No. 7"])
def test_an_objective_that_begins_with_such_a_word_is_one(text: str) -> None:
    plan = parse_plan({"queries": [text], "insights": []}, Repairs())
    assert [query.objective for query in plan.queries] == [text]


def test_a_text_in_place_of_a_query_is_its_objective() -> None:
    plan = parse_plan({"queries": ["Who digs?"], "insights": []}, Repairs())
    assert [query.objective for query in plan.queries] == ["Who digs?"]
    assert plan.queries[0].search_hints == []


def test_a_repetitive_plan_is_cut() -> None:
    """An Observer of 1.5 billion parameters repeated one query for 7,000 tokens, until the limit."""
    queries = [*[QUERY] * 80, *[{**QUERY, "objective": f"Who digs {n}?"} for n in range(30)]]
    hints = {**QUERY, "searchHints": [f"lithium {n % 12}" for n in range(60)]}
    repairs = Repairs()
    text = json.dumps({"queries": [hints, *queries], "insights": [INSIGHT] * 50})
    plan = parse_plan(read_json(text[:-30], repairs, is_cut=True), repairs)
    assert len(plan.queries) == MAX_QUERIES
    assert len({query.objective for query in plan.queries}) == MAX_QUERIES
    assert len(plan.insights) == 1 <= MAX_INSIGHTS
    assert len(plan.queries[0].search_hints) == MAX_HINTS
    assert "80 queries repeated others and were left out." in repairs.all_notes


@pytest.mark.parametrize("value", CASES["an_invalid_plan_is_an_error"])
@pytest.mark.parametrize("parse", [parse_plan, parse_folded_plan])
def test_an_invalid_plan_is_an_error(parse: Callable[..., ObserverPlan], value: Any) -> None:
    with pytest.raises(ValueError, match="quer"):
        parse(value, Repairs())


@pytest.mark.parametrize("value", CASES["a_plan_is_empty_only_if_its_lists_say_so"])
def test_a_plan_is_empty_only_if_its_lists_say_so(value: Any) -> None:
    plan = parse_plan(value, Repairs())
    assert (plan.queries, plan.insights) == ([], [])


def test_a_plan_that_looks_something_up_needs_no_lists() -> None:
    plan = parse_folded_plan({"lookUp": ["Company: A"]}, Repairs())
    assert (plan.look_up, plan.queries, plan.insights) == (["Company: A"], [], [])
    both = parse_folded_plan({"lookUp": ["Company: A"], "Queries": [QUERY]}, Repairs())
    assert [query.objective for query in both.queries] == ["Who digs?"]


def test_the_maximum_of_each_list_is_in_the_schema_and_stated() -> None:
    properties = response_format(ObserverPlan, "plan")["json_schema"]["schema"]["properties"]
    query = properties["queries"]["items"]["properties"]
    for list_schema, maximum in (
        (properties["queries"], MAX_QUERIES),
        (properties["insights"], MAX_INSIGHTS),
        (query["searchHints"], MAX_HINTS),
    ):
        assert list_schema["maxItems"] == maximum
        assert f"At most {maximum} entries" in list_schema["description"]


def test_a_mission_of_any_length_becomes_a_query() -> None:
    for mission in ("Watch lithium", "word " * 5_000, "x" * 5_000):
        query = first_query(mission)
        assert query.objective
        assert 2 <= len(query.search_hints[0]) <= 400


def test_a_randomly_damaged_plan_is_parsed_or_an_error() -> None:
    start = first_seed()
    for seed in range(start, start + (seed_count() or 300)):
        with repeatable(seed):
            rng = random.Random(seed)
            text = broken_text(damage(PLAN, rng, rng.randrange(8)), rng)
            repairs = Repairs()
            try:
                plan = parse_plan(read_json(text, repairs, is_cut=rng.random() < 0.3), repairs)
            except UnreadableError:
                continue
            except ValueError as error:
                message = str(error)
            else:
                message = "query"
                assert len(plan.queries) <= MAX_QUERIES
            assert "quer" in message
