"""The tool calls of an answer, as they were meant: also those that a weak model writes into its text, or misspells."""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from shared.llm.messages import ChatAnswer, ToolCall, assistant_message
from shared.llm.repair import Repairs, UnreadableError, fitted, folded, read_json
from shared.tools import Arguments, Json, Tool

MAX_CALLS_IN_TEXT: Final = 50
_THOUGHTS: Final = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)
_MARKS: Final = re.compile(
    r"```[a-z_]*|</?tool_calls?>|</?function_calls?>|\[/?TOOL_CALLS\]|<\|python_tag\|>|<\|im_end\|>|\[/?TOOL_REQUEST\]",
    re.IGNORECASE,
)
"""What servers and models put around calls that they write as text. Only between calls; within JSON they are text."""
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_USUAL_VERBS: Final = {
    **dict.fromkeys(("add", "create", "insert", "make", "new", "put", "save", "store"), "add"),
    **dict.fromkeys(("query", "search", "find", "lookup", "get"), "query"),
}
"""Verbs that mean the same in the name of a tool."""
_NAMES: Final = ("name", "tool", "toolname", "function")
_ARGUMENTS: Final = ("arguments", "parameters", "args", "toolinput", "input")


def understood(answer: ChatAnswer, tools: Iterable[str]) -> ChatAnswer:
    """`answer` with its calls as they can be made and sent back: known names, arguments that are JSON objects.

    An answer without calls whose whole text is calls of `tools`, and nothing else, is an answer with these calls. Where a
    call stands among other words it stays text: a page that is quoted makes no calls.
    """
    names = list(tools)
    calls = answer.tool_calls
    if not calls:
        is_cut = answer.finish_reason == "length"
        if not (written := _written(answer.text, names, is_cut=is_cut)):
            return answer
        return replace(answer, message=assistant_message(None, written))
    read = [
        replace(call, name=tool_name(call.name, names), arguments=_object_text(call.arguments))
        for call in calls
    ]
    if read == calls:
        return answer
    said = [
        {**each, "function": {"name": call.name, "arguments": call.arguments}}
        for each, call in zip(answer.message["tool_calls"], read, strict=True)
    ]
    return replace(answer, message={**answer.message, "tool_calls": said})


def call_repairs(said: ChatAnswer, read: ChatAnswer) -> list[Repairs]:
    """What `understood` did, for each call of `read`."""
    if not said.tool_calls:
        return [Repairs(["The call was written as text."]) for _ in read.tool_calls]
    return [
        _repairs(one, other) for one, other in zip(said.tool_calls, read.tool_calls, strict=True)
    ]


def tool_name(name: str, known: Sequence[str]) -> str:
    """The one of `known` that `name` means, whatever its case, its verb (`createGraphNode` for `addGraphNode`) and what
    stands before it; else `name`.
    """
    if name in known:
        return name
    last = re.split(r"[./:]", name.strip())[-1]
    for same in (folded, _with_usual_verb):
        meant = [each for each in known if same(each) == same(last)]
        if meant:
            return meant[0] if len(meant) == 1 else name
    return name


def _with_usual_verb(name: str) -> str:
    words = [word.lower() for word in _WORDS.findall(name)]
    return "".join([_USUAL_VERBS.get(words[0], words[0]), *words[1:]]) if words else ""


def arguments_of(tool: Tool, text: str, repairs: Repairs) -> Arguments:
    """Raises pydantic.ValidationError."""
    shape: type[Arguments] = tool.arguments
    try:
        given = read_json(text or "{}", repairs)
    except UnreadableError:
        return shape.model_validate_json(text)
    return shape.model_validate(fitted(shape, given, repairs, salvage=False))


def _repairs(said: ToolCall, read: ToolCall) -> Repairs:
    repairs = Repairs()
    if said.name != read.name:
        repairs.add(f"{said.name!r} was read as {read.name}.")
    if said.arguments != read.arguments and read.arguments != "{}":
        repairs.add("The arguments were broken JSON and were repaired.")
    return repairs


def _object_text(text: str) -> str:
    """`text` where it is a JSON object, else one that holds what can be read of it.

    Some servers refuse a conversation whose earlier calls are no JSON.
    """
    with suppress(ValueError, RecursionError):
        if isinstance(json.loads(text), dict):
            return text
    try:
        value = read_json(text, Repairs())
    except UnreadableError:
        return "{}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else "{}"


def _written(text: str, names: Sequence[str], *, is_cut: bool) -> list[ToolCall]:
    """The calls that `text` consists of; none where it holds anything else.

    Where the server cut it off at its limit, the last call may be incomplete, and is left out.
    """
    left = _THOUGHTS.sub("", text)
    decoder = json.JSONDecoder(strict=False)
    found: list[Any] = []
    while left := _unmarked(left):
        if left[0] not in "{[":
            return []
        # Some models double the braces, as the templates do that show them how a call is written.
        doubled = "{" if left.startswith("{{") else ""
        left = left.removeprefix(doubled)
        try:
            value, end = decoder.raw_decode(left)
        except (ValueError, RecursionError):
            if is_cut and found:
                break
            return []
        found += value if isinstance(value, list) else [value]
        left = left[end:].lstrip()
        if doubled:
            left = left.removeprefix("}")
        if len(found) > MAX_CALLS_IN_TEXT:
            return []
    calls = [_call(each, names) for each in found]
    return [] if None in calls else [call for call in calls if call is not None]


def _unmarked(text: str) -> str:
    """`text` without the marks and blanks at its beginning."""
    text = text.strip().removeprefix(",").removeprefix(";").lstrip()
    while mark := _MARKS.match(text):
        text = text[mark.end() :].lstrip()
    return text


def _call(value: Any, names: Sequence[str]) -> ToolCall | None:
    if not isinstance(value, dict):
        return None
    if isinstance(inner := value.get("function"), dict):
        value = {key: each for key, each in value.items() if key not in ("function", "type", "id")}
        value = inner if not value else {}
    by_key: Json = {folded(key): each for key, each in value.items()}
    name = next((by_key.pop(key) for key in _NAMES if key in by_key), None)
    arguments: Any = next((by_key.pop(key) for key in _ARGUMENTS if key in by_key), {})
    others = by_key.keys() - {"type", "id"}
    if not isinstance(name, str) or others or tool_name(name, names) not in names:
        return None
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall("written", tool_name(name, names), _object_text(arguments))
