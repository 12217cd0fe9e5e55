"""Normalizes the tool calls of an answer: misspelled names, broken arguments, and calls written as text."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from shared.llm.messages import ChatAnswer, Message, assistant_message, with_unique_ids
from shared.llm.repair import Repairs, UnreadableError, fit_to_schema, read_json
from shared.llm.written_calls import json_object, tool_name, written_calls
from shared.tools import Arguments, Tool


def normalize_tool_calls(
    answer: ChatAnswer, tools: Iterable[str], earlier: Sequence[Message] = ()
) -> ChatAnswer:
    """Returns `answer` with normalized calls: known tool names, arguments that are JSON objects, and ids that no call of
    the `earlier` messages has.

    If an answer has no calls and its whole text consists of calls of `tools`, these become its calls. A call among other
    text stays text, so that a quoted page cannot make calls.
    """
    names = list(tools)
    calls = answer.tool_calls
    if not calls:
        is_cut = answer.finish_reason == "length"
        if not (text_calls := written_calls(answer.text, names, is_cut=is_cut).calls):
            return answer
        message = assistant_message(None, text_calls)
        return replace(answer, message=with_unique_ids(message, earlier))
    normalized = [
        replace(call, name=tool_name(call.name, names), arguments=json_object(call.arguments))
        for call in calls
    ]
    message = answer.message
    if normalized != calls:
        tool_calls = [
            {
                **raw_call,
                "function": {
                    **raw_call["function"], "name": call.name, "arguments": call.arguments,
                },
            }
            for raw_call, call in zip(message["tool_calls"], normalized, strict=True)
        ]  # fmt: skip
        message = {**message, "tool_calls": tool_calls}
    unique = with_unique_ids(message, earlier)
    return answer if unique is answer.message else replace(answer, message=unique)


def call_repairs(raw_answer: ChatAnswer, answer: ChatAnswer) -> list[Repairs]:
    """Returns the repairs of `normalize_tool_calls` for each call of `answer`."""
    if not raw_answer.tool_calls:
        return [Repairs(["The call was written as text."]) for _ in answer.tool_calls]
    repairs_of_calls = []
    for raw_call, call in zip(raw_answer.tool_calls, answer.tool_calls, strict=True):
        repairs = Repairs()
        if raw_call.name != call.name:
            repairs.add(f"{raw_call.name!r} was read as {call.name}.")
        if raw_call.arguments != call.arguments and call.arguments != "{}":
            repairs.add("The arguments were broken JSON and were repaired.")
        repairs_of_calls.append(repairs)
    return repairs_of_calls


def parse_arguments(tool: Tool, text: str, repairs: Repairs) -> Arguments:
    """Parses and validates the arguments of a call. Raises pydantic.ValidationError."""
    shape: type[Arguments] = tool.arguments
    try:
        value = read_json(text or "{}", repairs)
    except UnreadableError:
        return shape.model_validate_json(text)
    return shape.model_validate(fit_to_schema(shape, value, repairs, salvage=False))
