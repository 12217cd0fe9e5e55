"""Advice generation: only if three analyses agree."""

import json

from tests.support.sandbox.requests import ADVICE, Body, answer, arguments, next_request, request

GHANA = "00000000-0000-4000-8000-00000000000a"
CONTEXT = f'## Newest nodes\n- [node:{GHANA}] Country "Ghana" {{"summary": "x"}}'


def analyses(*directions: str) -> str:
    lines = []
    for number, direction in enumerate(directions, start=1):
        values = {
            "type": "pattern",
            "summary": "s",
            "content": f"Output {direction} in Ghana [node:{GHANA}].\nAll else fell.",
        }
        lines.append(
            f'- [node:00000000-0000-4000-8000-00000000000{number}] AgentAnalysis "Analysis {number}" {json.dumps(values)}'
        )
    return "\n".join(lines)


def body(analysis_lines: str, context: str = CONTEXT) -> Body:
    return request(
        {"mission": "Watch", "analyses": analysis_lines, "graph_context": context}, ADVICE
    )


def test_two_analyses_are_not_enough() -> None:
    reply = answer(body(analyses("rose", "rose")))
    assert reply.calls == ()
    assert reply.text.startswith("no advice: 2 analyses")


def test_analyses_that_share_no_node_do_not_agree() -> None:
    analysis_lines = analyses("rose", "rose", "rose").replace(GHANA, "", 1)
    assert "no node is cited by 3" in answer(body(analysis_lines)).text


def test_advice_on_three_agreeing_analyses_cites_only_them() -> None:
    (advice,) = arguments(answer(body(analyses("rose", "grew", "increased"))), "addAgentAdviceNode")
    assert (advice["action"], advice["name"]) == ("BUY", "BUY Ghana")
    for number in (1, 2, 3):
        assert f"[node:00000000-0000-4000-8000-00000000000{number}]" in advice["content"]
    assert GHANA not in advice["content"]
    assert (advice["horizon"], advice["confidence"]) == ("3 months", 0.5)
    assert advice["invalidation"].startswith("Falling figures for Ghana")


def test_falling_figures_give_sell_and_mixed_figures_give_hold() -> None:
    (falling,) = arguments(
        answer(body(analyses("fell", "shrank", "declined"))), "addAgentAdviceNode"
    )
    (mixed,) = arguments(answer(body(analyses("fell", "rose", "declined"))), "addAgentAdviceNode")
    assert (falling["action"], mixed["action"]) == ("SELL", "HOLD")


def test_analyses_without_a_direction_give_no_advice() -> None:
    assert answer(body(analyses("rose", "was", "was"))).text.startswith(
        "no advice: 3 analyses share"
    )


def test_a_subject_gets_advice_only_once() -> None:
    context = f'{CONTEXT}\n## Advice\n- [node:{GHANA[:-1]}b] HOLD "HOLD Ghana": wait'
    assert answer(body(analyses("rose", "grew", "increased"), context)).text.startswith(
        "no advice:"
    )


def test_ends_after_its_advice() -> None:
    request_body = body(analyses("rose", "grew", "increased"))
    assert (
        answer(next_request(request_body, answer(request_body), [{"nodeId": GHANA}])).text
        == "Advised: BUY Ghana."
    )
    after_rejection = next_request(
        request_body, answer(request_body), [{"error": "The name is taken."}]
    )
    assert answer(after_rejection).text == "no advice: it was refused. The name is taken."
