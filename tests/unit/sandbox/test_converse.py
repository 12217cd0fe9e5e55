"""Conversations."""

from typing import Any

import pytest

from tests.support.sandbox.requests import answer, arguments, next_request, request

MISSION = "Watch wheat prices in Argentina"


def test_says_that_it_has_no_answer_and_identifies_itself() -> None:
    text = answer({"messages": [{"role": "user", "content": "Who won?"}]}).text
    assert "This answer is from the sandbox, not from a language model." in text
    assert "I found nothing that has the words of your question." in text


def test_queries_the_graph_and_answers_from_it() -> None:
    request_body = request({}, ("queryGraph",))
    request_body["messages"][-1]["content"] = "What about Ghana?"
    lookup = answer(request_body)
    assert arguments(lookup, "queryGraph")[0]["text"] == "Ghana"
    node = {"name": "Ghana", "properties": {"summary": "Ghana exports gold."}}
    after_lookup = next_request(request_body, lookup, [{"nodes": [node], "edges": []}])
    assert "- Ghana exports gold." in answer(after_lookup).text


NODE_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
CONTEXT = f'- [node:{NODE_ID}] Country "Ghana" {{"summary": "Ghana exports gold."}}'
CONVERSATION = ("queryGraph", "tavilySearch", "remember")


def turn_request(message: str, **sections: str) -> dict[str, Any]:
    return request({"mission": MISSION, **sections, "message": message}, CONVERSATION)


def test_answers_from_the_context_are_cited() -> None:
    request_body = turn_request("What does Ghana export?", graph_context=CONTEXT)
    after_lookup = next_request(
        request_body, answer(request_body), [{"nodes": [], "edges": []}] * 2
    )
    assert f"- Ghana exports gold. [node:{NODE_ID}]" in answer(after_lookup).text


def test_searches_the_web_only_if_the_graph_has_no_answer() -> None:
    request_body = turn_request("Who won in Togo?", graph_context=CONTEXT)
    lookup = answer(request_body)
    after_lookup = next_request(
        request_body, lookup, [{"nodes": [], "edges": []}] * len(lookup.calls)
    )
    search = answer(after_lookup)
    assert [call.name for call in search.calls] == ["tavilySearch"]
    hit = {"title": "Togo", "url": "https://togo.example", "excerpt": "Togo won again."}
    assert (
        "Togo won again. https://togo.example"
        in answer(next_request(after_lookup, search, [{"results": [hit]}])).text
    )


@pytest.mark.parametrize(
    ("message", "kind", "content"),
    [
        ("Please also watch cobalt prices.", "wish", "Watch cobalt prices."),
        ("Remember that I own shares of Halden.", "fact", "I own shares of Halden."),
        ("Prefer European makers.", "wish", "Prefer European makers."),
        ("Hi, remember: no options.", "fact", "No options."),
    ],
)
def test_wishes_and_facts_are_remembered_in_the_users_own_words(
    message: str, kind: str, content: str
) -> None:
    request_body = turn_request(message)
    reply = answer(request_body)
    [params] = arguments(reply, "remember")
    assert params == {"kind": kind, "content": content, "quote": message}
    last_reply = answer(next_request(request_body, reply, [{"remembered": content}]))
    assert content in last_reply.text
    assert not last_reply.calls


@pytest.mark.parametrize("message", ["What do I prefer?", "Do you watch cobalt?", "Ghana is hot."])
def test_questions_and_remarks_are_not_remembered(message: str) -> None:
    assert arguments(answer(turn_request(message)), "remember") == []


def test_reports_its_current_state_and_its_memories() -> None:
    state_reply = answer(
        turn_request("What are you doing right now?", current_state="Iteration 4 runs.")
    )
    assert "Iteration 4 runs." in state_reply.text
    memory_reply = answer(turn_request("What do you remember?", memories="- wish: Watch cobalt."))
    assert "wish: Watch cobalt." in memory_reply.text
    no_memories = answer(turn_request("What do you remember?")).text
    assert "You have not given me any preferences or facts to remember yet." in no_memories


def test_older_turns_are_summarized() -> None:
    older = "Owner: What of Ghana?\nAgent: It exports gold. And cocoa."
    summary = answer(
        request({"summary_so_far": "Togo was asked about.", "older_turns": older})
    ).text
    assert summary == "Togo was asked about.\nThe owner said: What of Ghana?\nIt exports gold."
