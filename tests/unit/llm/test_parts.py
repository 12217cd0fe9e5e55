"""The input tokens of a call are shared out among the parts of its request."""

from typing import Any

from shared.llm.messages import ChatRequest

CONTEXT = "c" * 400


def messages(*further: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return (
        {"role": "system", "content": "s" * 100},
        {"role": "user", "content": f"{CONTEXT}{'t' * 200}"},
        *further,
    )


def test_tokens_follow_the_lengths_of_the_parts() -> None:
    result = {"role": "tool", "tool_call_id": "1", "content": "r" * 300}
    parts = ChatRequest("model", messages(result)).tokens_by_part(CONTEXT, 500)
    assert parts == (50, 0, 200, 150)


def test_declared_tools_and_the_schema_of_the_answer_are_one_part() -> None:
    tool = {"type": "function", "function": {"name": "x", "description": "d" * 952}}
    request = ChatRequest("model", messages(), (tool,), {"type": "json_object"})
    without = ChatRequest("model", messages(), (tool,))
    assert request.tokens_by_part(CONTEXT, 1000).tools > without.tokens_by_part(CONTEXT, 1000).tools
    assert without.tokens_by_part(CONTEXT, 1000).tools > 500


def test_without_counts_nothing_is_known() -> None:
    assert ChatRequest("model", messages()).tokens_by_part(CONTEXT, 0) == (0, 0, 0, 0)
    assert ChatRequest("model", ()).tokens_by_part("", 100) == (0, 0, 0, 0)
