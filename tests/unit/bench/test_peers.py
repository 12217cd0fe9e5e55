"""The requests of the peers fit the script, and their figures are compared by round."""

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from bench.loop.scripted_model import INSIGHTS, QUERIES, Query, answer
from bench.peers import reference
from bench.peers.kills import Calls, Kill
from bench.peers.measuring import Figures, median, median_ratio
from bench.peers.reference import Json
from shared.llm.messages import ChatRequest

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
