"""Normalizes the tool calls of an answer: misspelled names, broken arguments, and calls written as text."""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from shared.llm.messages import THOUGHTS, ChatAnswer, ToolCall, assistant_message
from shared.llm.repair import Repairs, UnreadableError, fit_to_schema, normalize_key, read_json
from shared.tools import Arguments, Json, Tool

MAX_CALLS_IN_TEXT: Final = 50
_MARKERS: Final = re.compile(
    r"```[a-z_]*|</?tool_calls?>|</?function_calls?>|\[/?TOOL_CALLS\]|<\|python_tag\|>|<\|im_end\|>|\[/?TOOL_REQUEST\]",
    re.IGNORECASE,
)
"""Markers that servers and models put around calls written as text. Ignored only between calls, not within JSON."""
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_USUAL_VERBS: Final = {
    **dict.fromkeys(("add", "create", "insert", "make", "new", "put", "save", "store"), "add"),
    **dict.fromkeys(("query", "search", "find", "lookup", "get"), "query"),
}
"""Synonymous verbs in tool names."""
_NAMES: Final = ("name", "tool", "toolname", "function")
_ARGUMENTS: Final = ("arguments", "parameters", "args", "toolinput", "input")


def normalize_tool_calls(answer: ChatAnswer, tools: Iterable[str]) -> ChatAnswer:
    """Returns `answer` with normalized calls: known tool names, and arguments that are JSON objects.

    If an answer has no calls and its whole text consists of calls of `tools`, these become its calls. A call among other
    text stays text, so that a quoted page cannot make calls.
    """
    names = list(tools)
    calls = answer.tool_calls
    if not calls:
        is_cut = answer.finish_reason == "length"
        if not (text_calls := _parse_text_calls(answer.text, names, is_cut=is_cut)):
            return answer
        return replace(answer, message=assistant_message(None, text_calls))
    normalized = [
        replace(call, name=tool_name(call.name, names), arguments=_json_object(call.arguments))
        for call in calls
    ]
    if normalized == calls:
        return answer
    tool_calls = [
        {**raw_call, "function": {"name": call.name, "arguments": call.arguments}}
        for raw_call, call in zip(answer.message["tool_calls"], normalized, strict=True)
    ]
    return replace(answer, message={**answer.message, "tool_calls": tool_calls})


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


def tool_name(name: str, tool_names: Sequence[str]) -> str:
    """Returns the tool of `tool_names` that `name` means, otherwise `name`.

    Ignores case, prefixes such as `functions.`, and synonyms of the verb (`createGraphNode` for `addGraphNode`).
    """
    if name in tool_names:
        return name
    last = re.split(r"[./:]", name.strip())[-1]
    for same in (normalize_key, _with_usual_verb):
        matches = [tool for tool in tool_names if same(tool) == same(last)]
        if matches:
            return matches[0] if len(matches) == 1 else name
    return name


def _with_usual_verb(name: str) -> str:
    words = [word.lower() for word in _WORDS.findall(name)]
    return "".join([_USUAL_VERBS.get(words[0], words[0]), *words[1:]]) if words else ""


def parse_arguments(tool: Tool, text: str, repairs: Repairs) -> Arguments:
    """Parses and validates the arguments of a call. Raises pydantic.ValidationError."""
    shape: type[Arguments] = tool.arguments
    try:
        value = read_json(text or "{}", repairs)
    except UnreadableError:
        return shape.model_validate_json(text)
    return shape.model_validate(fit_to_schema(shape, value, repairs, salvage=False))


def _json_object(text: str) -> str:
    """Returns `text` if it is a JSON object, otherwise an object with what can be parsed of it.

    Some servers refuse a conversation whose earlier calls have invalid JSON.
    """
    with suppress(ValueError, RecursionError):
        if isinstance(json.loads(text, parse_constant=_refuse_constant), dict):
            return text
    try:
        value = read_json(text, Repairs())
    except UnreadableError:
        return "{}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else "{}"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _parse_text_calls(text: str, names: Sequence[str], *, is_cut: bool) -> list[ToolCall]:
    """Returns the calls that `text` consists of; none if it contains anything else.

    If the server truncated it at its token limit, an incomplete last call is dropped.
    """
    remainder = THOUGHTS.sub("", text)
    decoder = json.JSONDecoder(strict=False)
    values: list[Any] = []
    while remainder := _strip_markers(remainder):
        if remainder[0] not in "{[":
            return []
        # Some models double the braces, as templates with example calls do.
        doubled = "{" if remainder.startswith("{{") else ""
        remainder = remainder.removeprefix(doubled)
        try:
            value, end = decoder.raw_decode(remainder)
        except (ValueError, RecursionError):
            if is_cut and values:
                break
            return []
        values += value if isinstance(value, list) else [value]
        remainder = remainder[end:].lstrip()
        if doubled:
            remainder = remainder.removeprefix("}")
        if len(values) > MAX_CALLS_IN_TEXT:
            return []
    calls = [_parse_call(value, names) for value in values]
    return [] if None in calls else [call for call in calls if call is not None]


def _strip_markers(text: str) -> str:
    """Removes markers, separators and blanks at the start of `text`."""
    text = text.strip().removeprefix(",").removeprefix(";").lstrip()
    while mark := _MARKERS.match(text):
        text = text[mark.end() :].lstrip()
    return text


def _parse_call(value: Any, names: Sequence[str]) -> ToolCall | None:
    if not isinstance(value, dict):
        return None
    if isinstance(inner := value.get("function"), dict):
        value = inner if value.keys() <= {"function", "type", "id"} else {}
    by_key: Json = {normalize_key(key): field for key, field in value.items()}
    name = next((by_key.pop(key) for key in _NAMES if key in by_key), None)
    arguments: Any = next((by_key.pop(key) for key in _ARGUMENTS if key in by_key), {})
    other_keys = by_key.keys() - {"type", "id"}
    if not isinstance(name, str) or other_keys or tool_name(name, names) not in names:
        return None
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall("written", tool_name(name, names), _json_object(arguments))
