"""Advice generation: HOLD, on what several analyses cite."""

import json

import pytest

from tests.support.sandbox.requests import ADVICE, Body, answer, arguments, next_request, request

GHANA = "00000000-0000-4000-8000-00000000000a"
CONTEXT = f'## Newest nodes\n- [node:{GHANA}] Country "Ghana" {{"summary": "x"}}'
COMPARED = "Of Ghana, Mali and Togo, Ghana has the highest reported exports: $25 billion; Togo has the lowest: $2 billion."


def analysis_id(number: int) -> str:
    return f"00000000-0000-4000-8000-00000000000{number}"


def analyses(*summaries: str) -> str:
    lines = []
    for number, summary in enumerate(summaries, start=1):
        values = {
            "type": "pattern",
            "summary": summary,
            "content": f"{summary}\n\n- Ghana: “Ghana is number {number}.” [node:{GHANA}]\nAll else fell.",
        }
        lines.append(
            f'- [node:{analysis_id(number)}] AgentAnalysis "Analysis {number}" {json.dumps(values)}'
        )
    return "\n".join(lines)


def body(analysis_lines: str, context: str = CONTEXT, rules: str = "") -> Body:
    made = request(
        {"mission": "Watch", "analyses": analysis_lines, "graph_context": context}, ADVICE
    )
    if rules:
        made["messages"][0]["content"] = rules
    return made


def test_one_analysis_is_not_enough() -> None:
    reply = answer(body(analyses(COMPARED)))
    assert reply.calls == ()
    assert reply.text == "no advice: there is only one analysis, and at least two must agree."


def test_one_analysis_is_enough_where_the_instructions_say_so() -> None:
    rules = "Cite at least one analysis as [n17], and nothing else."
    (advice,) = arguments(answer(body(analyses(COMPARED), rules=rules)), "addAgentAdviceNode")
    assert advice["name"] == "Review Ghana first"
    assert f"[node:{analysis_id(1)}]" in advice["content"]


def test_analyses_that_share_no_node_do_not_agree() -> None:
    analysis_lines = analyses(COMPARED, "s").replace(GHANA, "", 1)
    assert answer(body(analysis_lines)).text == "no advice: no two analyses cite the same node."


def test_advice_cites_the_analyses_and_nothing_else() -> None:
    (advice,) = arguments(answer(body(analyses("s", "s", "s"))), "addAgentAdviceNode")
    assert advice["name"] == "Review the statements about Ghana first"
    for number in (1, 2, 3):
        assert f"[node:{analysis_id(number)}]" in advice["content"]
        assert f"Ghana: “Ghana is number {number}.”" in advice["content"]
    assert GHANA not in advice["content"]
    assert (advice["horizon"], advice["confidence"]) == ("3 months", 0.5)
    assert advice["invalidation"] == "A newer source that contradicts a statement about Ghana."


@pytest.mark.parametrize(
    "verb", ["rose", "fell", "was", "has the highest reported exports: $2 billion;"]
)
def test_the_action_is_always_hold(verb: str) -> None:
    summaries = [f"Exports of Ghana {verb}"] * 3
    (advice,) = arguments(answer(body(analyses(*summaries))), "addAgentAdviceNode")
    assert advice["action"] == "HOLD"


def test_what_is_highest_is_said_of_those_compared_only() -> None:
    lowest = (
        "Of Ghana and Mali, Mali has the higher reported growth: 5% (2024 est.); "
        "Ghana has the lower: 2% (2024 est.)."
    )
    (advice,) = arguments(answer(body(analyses(COMPARED, lowest))), "addAgentAdviceNode")
    assert advice["summary"] == (
        "Review Ghana first and make no changes yet: it has the highest reported exports of those compared ($25 billion) "
        "and the lower reported growth of those compared (2%, 2024 est.)."
    )


def test_a_subject_gets_advice_only_once() -> None:
    context = f'{CONTEXT}\n## Advice\n- [node:{GHANA[:-1]}b] HOLD "Review Ghana first": wait'
    text = answer(body(analyses(COMPARED, COMPARED), context)).text
    assert text == "no advice: there is already advice on the subject of these analyses."


def test_ends_after_its_advice() -> None:
    request_body = body(analyses(COMPARED, COMPARED))
    assert (
        answer(next_request(request_body, answer(request_body), [{"nodeId": GHANA}])).text
        == "Advice given: Review Ghana first."
    )
    after_rejection = next_request(
        request_body, answer(request_body), [{"error": "The name is taken."}]
    )
    assert (
        answer(after_rejection).text == "no advice: the tool call was refused. The name is taken."
    )
