"""Advice generation: only if three analyses agree."""

import json

from tests.support.sandbox.asking import ADVICE, Body, answer, arguments, followed, request

GHANA = "00000000-0000-4000-8000-00000000000a"
CONTEXT = f'## Newest nodes\n- [node:{GHANA}] Country "Ghana" {{"summary": "x"}}'


def analyses(*directions: str) -> str:
    lines = []
    for number, direction in enumerate(directions, start=1):
        told = {
            "type": "pattern",
            "summary": "s",
            "content": f"Output {direction} in Ghana [node:{GHANA}].\nAll else fell.",
        }
        lines.append(
            f'- [node:00000000-0000-4000-8000-00000000000{number}] AgentAnalysis "Analysis {number}" {json.dumps(told)}'
        )
    return "\n".join(lines)


def body(shown: str, context: str = CONTEXT) -> Body:
    return request({"mission": "Watch", "analyses": shown, "graph_context": context}, ADVICE)


def test_two_analyses_are_not_enough() -> None:
    given = answer(body(analyses("rose", "rose")))
    assert given.calls == ()
    assert given.text.startswith("no advice: 2 analyses")


def test_analyses_that_share_no_node_do_not_agree() -> None:
    shown = analyses("rose", "rose", "rose").replace(GHANA, "", 1)
    assert "no node is cited by 3" in answer(body(shown)).text


def test_three_that_agree_are_advised_on_citing_them_alone() -> None:
    (made,) = arguments(answer(body(analyses("rose", "grew", "increased"))), "addAgentAdviceNode")
    assert (made["action"], made["name"]) == ("BUY", "BUY Ghana")
    for number in (1, 2, 3):
        assert f"[node:00000000-0000-4000-8000-00000000000{number}]" in made["content"]
    assert GHANA not in made["content"]
    assert (made["horizon"], made["confidence"]) == ("3 months", 0.5)
    assert made["invalidation"].startswith("Falling figures for Ghana")


def test_falling_is_sold_and_both_are_held() -> None:
    (sold,) = arguments(answer(body(analyses("fell", "shrank", "declined"))), "addAgentAdviceNode")
    (held,) = arguments(answer(body(analyses("fell", "rose", "declined"))), "addAgentAdviceNode")
    assert (sold["action"], held["action"]) == ("SELL", "HOLD")


def test_analyses_without_a_direction_give_no_advice() -> None:
    assert answer(body(analyses("rose", "was", "was"))).text.startswith(
        "no advice: 3 analyses share"
    )


def test_a_subject_is_advised_on_once() -> None:
    advised = f'{CONTEXT}\n## Advice\n- [node:{GHANA[:-1]}b] HOLD "HOLD Ghana": wait'
    assert answer(body(analyses("rose", "grew", "increased"), advised)).text.startswith(
        "no advice:"
    )


def test_ends_after_its_advice() -> None:
    asked = body(analyses("rose", "grew", "increased"))
    assert answer(followed(asked, answer(asked), [{"nodeId": GHANA}])).text == "Advised: BUY Ghana."
    refused = followed(asked, answer(asked), [{"error": "The name is taken."}])
    assert answer(refused).text == "no advice: it was refused. The name is taken."
