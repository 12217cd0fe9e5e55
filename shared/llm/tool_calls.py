"""Reads the tool calls of an answer: misspelled names, broken arguments, and calls that a model writes as text.

Models write calls as text if their server does not parse them, each family in its own form. A text is read only if it
consists of calls of known tools: a call among other text stays text, so that a quoted page cannot make calls.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from shared.llm.answer_errors import AnswerError
from shared.llm.messages import (
    ChatAnswer,
    ChatRequest,
    Message,
    ToolCall,
    assistant_message,
    with_unique_ids,
)
from shared.llm.repair import (
    Repairs,
    UnreadableError,
    WrittenNumber,
    dump_json,
    fit_to_schema,
    normalize_key,
    read_json,
    with_texts,
)
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


_MAY_NEED_REPAIR: Final = re.compile(
    r'"\s*(?:null|none|n/a|undefined)?\s*"|\bNaN\b|\bInfinity\b|\\u0000', re.IGNORECASE
)
"""Values in arguments that are repaired although they are valid."""


def parse_arguments(tool: Tool, text: str, repairs: Repairs) -> Arguments:
    """Parses and validates the arguments of a call, whose validators can add to `repairs`, their context.

    Raises pydantic.ValidationError.
    """
    shape: type[Arguments] = tool.arguments
    if not _MAY_NEED_REPAIR.search(text):
        with suppress(ValidationError):
            return shape.model_validate_json(text, context=repairs)
    try:
        value = read_json(text or "{}", repairs)
    except UnreadableError:
        return shape.model_validate_json(text)
    fit = fit_to_schema(shape, value, repairs, salvage=False)
    return shape.model_validate(fit, context=repairs)


MAX_CALLS_IN_TEXT: Final = 50
_MAX_CHARS: Final = 400_000
"""Longer texts are no calls."""
_MAX_THOUGHTS: Final = 3
_MAX_MARKERS: Final = 6 * MAX_CALLS_IN_TEXT
_MAX_LINES: Final = 40
_MAX_CODE_CHARS: Final = 20_000
_BAR: Final = r"[|｜]"
_MARKERS: Final = re.compile(
    rf"""```[a-z_]* | Action:(?=\s*```) | </?[\w:▁-]{{1,40}}> | \[/?[A-Z][A-Z_]{{1,40}}\]
    | </?{_BAR}/?[\w▁]{{1,40}}{_BAR}>(?:assistant)? | </?{_BAR}DSML{_BAR}(?:tool|function)_calls>
    | [A-Za-z_]{{1,40}}(?=\s*\[\s*\{{)
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Markers around calls: tags of any name, and a word before a list of them. Ignored between calls only."""
_THOUGHTS: Final = re.compile(
    rf"""\A\s*+(?:
      <(think|thinking|thought|seed:think)>.*?</\1>
    | \[THINK\].*?\[/THINK\]
    | <{_BAR}START_THINKING{_BAR}>.*?<{_BAR}END_THINKING{_BAR}>
    | (?:<{_BAR}start{_BAR}>assistant)?<{_BAR}channel{_BAR}>\s*analysis\s*<{_BAR}message{_BAR}>.*?<{_BAR}end{_BAR}>
    | [^{{<\[`]*+</think>
    )\s*""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
"""Thoughts before calls, also where the server has left out their opening mark."""
_NAME: Final = r"[\w.\-/]{1,128}"
_CONTROL: Final = re.compile(rf"<{_BAR}[^<>|｜]{{0,40}}(?:{_BAR}?>|\Z)|[\s\"'`(){{}}]+|\bto=")
_JSON_START: Final = re.compile(r"\s*(?:```(?:json)?\s*)?(?=\{)", re.IGNORECASE)
_XML_PARAMETER: Final = re.compile(
    rf"""\s*<(?:{_BAR}DSML{_BAR}|[\w-]+:)?parameter(?:=|\s+name\s*=\s*)["']?(?P<key>[\w.\-]+)["']?[^<>]*>
    (?P<value>.*?)</(?:{_BAR}DSML{_BAR}|[\w-]+:)?parameter>""",
    re.DOTALL | re.VERBOSE,
)
_GLM_PARAMETER: Final = re.compile(
    r"\s*<arg_key>(?P<key>.*?)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>", re.DOTALL
)
_TAG_PARAMETER: Final = re.compile(r"\s*<(?P<key>\w+)>(?P<value>.*?)</(?P=key)>", re.DOTALL)
_BEGINS_LIKE_CALL: Final = re.compile(
    r"\s*+(?:[\[{<`(“]|(?:Action|Tool)\s*+:|to\s*+=|[\w.\-/]{1,128}+\s*+[\[({])|.*</think>",
    re.DOTALL | re.IGNORECASE,
)
"""A text that begins otherwise, as prose does, is not searched for calls."""
_CURLY_KEY: Final = re.compile(r"[{,]\s*[“”]\w{1,64}[“”]\s*:")
_STRAIGHT: Final = str.maketrans("“”", '""')
PARSERS: Final = (
    "vLLM: --enable-auto-tool-choice and the --tool-call-parser of the model; SGLang: --tool-call-parser;"
    " llama.cpp: --jinja; Ollama: a model whose template has tools"
)

UNREAD: Final = "unread"
"""In place of a form: the text has a call that is not read."""

Found = tuple[str, str, int]
"""Name and arguments of a call, and where it ends."""


class _Form(NamedTuple):
    """How a family of models writes a call: what precedes its arguments, and how these are written."""

    name: str
    begin: re.Pattern[str]
    arguments: Callable[[str, int], tuple[str, int] | None]
    end: re.Pattern[str] = re.compile(r"")


def _json_arguments(text: str, at: int) -> tuple[str, int] | None:
    """A JSON object, also in a code fence."""
    begin = _JSON_START.match(text, at)
    if begin is None:
        return None
    try:
        decoder = json.JSONDecoder(strict=False, parse_float=WrittenNumber)
        value, end = decoder.raw_decode(text, begin.end())
    except (ValueError, RecursionError):
        return None
    fence = re.compile(r"\s*```").match(text, end) if "`" in begin[0] else None
    written = dump_json(value) if isinstance(value, dict) else "{}"
    return written, fence.end() if fence else end


def _parameters(pattern: re.Pattern[str]) -> Callable[[str, int], tuple[str, int] | None]:
    def read(text: str, at: int) -> tuple[str, int] | None:
        values: dict[str, Any] = {}
        while match := pattern.match(text, at):
            values[match["key"].strip()] = _value(match["value"])
            at = match.end()
        return dump_json(values), at

    return read


def _xml_or_json(text: str, at: int) -> tuple[str, int] | None:
    found = _json_arguments(text, at)
    return found if found is not None else _parameters(_XML_PARAMETER)(text, at)


def _tags_or_json(text: str, at: int) -> tuple[str, int] | None:
    found = _json_arguments(text, at)
    if found is not None:
        return found
    values, end = _parameters(_TAG_PARAMETER)(text, at) or ("{}", at)
    return (values, end) if end > at else None


def _value(text: str) -> Any:
    """The value of a parameter in tags: JSON if it is a list, an object or a quoted text, otherwise the text itself."""
    text = text.removeprefix("\n").removesuffix("\n")
    if text.lstrip()[:1] in ("[", "{", '"'):
        with suppress(ValueError, RecursionError):
            return json.loads(text, strict=False, parse_float=WrittenNumber)
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return with_texts(ast.literal_eval(text.strip()), text)
    return text.strip()


def _gemma_arguments(text: str, at: int) -> tuple[str, int] | None:
    """The arguments of FunctionGemma: `{key:<escape>text<escape>,other:1}`."""
    pattern = re.compile(
        r"\s*,?\s*(?P<key>\w+)\s*:\s*(?:<escape>(?P<text>.*?)<escape>|(?P<value>[^,{}<>]*))",
        re.DOTALL,
    )
    if text[at : at + 1] != "{":
        return None
    at, values = at + 1, {}
    while match := pattern.match(text, at):
        values[match["key"]] = match["value"] if match["text"] is None else match["text"]
        at = match.end()
    closed = re.compile(r"\s*\}").match(text, at)
    return (dump_json(values), closed.end()) if closed else None


def _form(name: str, begin: str, arguments: Any, end: str = "") -> _Form:
    begin, end = (text.replace("¦", _BAR).replace(r"\s*", r"\s*+") for text in (begin, end))
    named = begin.replace("NAME", rf"(?P<name>{_NAME})")
    flags = re.IGNORECASE | re.DOTALL
    return _Form(name, re.compile(named, flags), arguments, re.compile(rf"\s*+(?:{end})?", flags))


_FORMS: Final = (
    _form(
        "Harmony",
        r"(?:<¦start¦>assistant)?\s*(?:<¦channel¦>\s*\w+\s*)?to=NAME\s*(?:<¦channel¦>\s*\w+\s*)?"
        r"(?:<¦constrain¦>\s*)?(?:json|code)?\s*<¦message¦>",
        _json_arguments,
        "<¦call¦>",
    ),
    _form(
        "Kimi",
        r"<¦tool_call_begin¦>\s*NAME(?::\d+)?\s*<¦tool_call_argument_begin¦>",
        _json_arguments,
        "<¦tool_call_end¦>",
    ),
    _form(
        "DeepSeek",
        r"<¦tool[_▁]call[_▁]begin¦>\s*(?:function\s*<¦tool[_▁]sep¦>)?\s*NAME\s*(?:<¦tool[_▁]sep¦>)?",
        _json_arguments,
        "<¦tool[_▁]call[_▁]end¦>",
    ),
    _form(
        "DeepSeek",
        r"<¦DSML¦invoke\s+name\s*=\s*[\"']?NAME[\"']?\s*>",
        _parameters(_XML_PARAMETER),
        "</¦DSML¦invoke>",
    ),
    _form(
        "Mistral",
        r"(?:\[TOOL_CALLS\])?\s*NAME\s*(?:\[CALL_ID\]\s*[\w-]+\s*)?\[ARGS\]",
        _json_arguments,
    ),
    _form("Mistral", r"\[TOOL_CALLS\]\s*NAME\s*(?=\{)", _json_arguments),
    _form(
        "Qwen or Llama",
        r"<function\s*(?:=\s*|\s+name\s*=\s*|\()[\"']?NAME[\"']?\)?\s*>?",
        _xml_or_json,
        "</?function>",
    ),
    _form(
        "XML",
        r"<(?:[\w-]+:)?invoke\s+name\s*=\s*[\"']?NAME[\"']?\s*>",
        _parameters(_XML_PARAMETER),
        r"</(?:[\w-]+:)?invoke>",
    ),
    _form(
        "GLM",
        r"<tool_call>\s*NAME\s*(?=<arg_key>|</tool_call>)",
        _parameters(_GLM_PARAMETER),
        "</tool_call>",
    ),
    _form(
        "FunctionGemma",
        r"<start_function_call>\s*call:\s*NAME\s*(?=\{)",
        _gemma_arguments,
        "<end_function_call>",
    ),
    _form(
        "ReAct",
        r"(?:Action|Tool)\s*:\s*NAME[ \t]*\n\s*(?:Action Input|Arguments|Input)\s*:",
        _json_arguments,
    ),
    _form("tags", r"<NAME>", _tags_or_json, rf"</{_NAME}>"),
    _form("name and arguments", r"NAME\s*(?=\{)", _json_arguments, "</function>"),
)
"""In the order in which they are tried."""


class Written(NamedTuple):
    """The calls that a text consists of, and the form of the first."""

    calls: list[ToolCall]
    form: str


_NONE: Final = Written([], "")


def written_calls(text: str, names: Sequence[str], *, is_cut: bool = False) -> Written:
    """Returns the calls that `text` consists of; none if it contains anything else, or a call of another tool.

    If the server truncated it at its token limit, an incomplete last call is dropped.
    """
    if len(text) > _MAX_CHARS or not _BEGINS_LIKE_CALL.match(text):
        return _NONE
    found = _calls_in(text, names, is_cut=is_cut)
    if not found.calls and _CURLY_KEY.search(text):
        return _calls_in(text.translate(_STRAIGHT), names, is_cut=is_cut)
    return found


def _calls_in(text: str, names: Sequence[str], *, is_cut: bool) -> Written:
    for _ in range(_MAX_THOUGHTS):
        text = _THOUGHTS.sub("", text)
    remainder = text.lstrip()
    calls: list[ToolCall] = []
    form, markers = "", 0
    while remainder.strip() and len(calls) <= MAX_CALLS_IN_TEXT:
        found = _first_call(remainder, names)
        marker = _MARKERS.match(remainder) if found is None else None
        if marker is not None and marker.end() and markers < _MAX_MARKERS:
            markers += 1
            remainder = remainder[marker.end() :].lstrip()
            continue
        if found is None:
            return Written(calls, form) if is_cut and calls else _NONE
        form = form or found[0]
        calls += found[1]
        remainder = remainder[found[2] :].lstrip().removeprefix(",").removeprefix(";").lstrip()
    return Written(calls, form) if 0 < len(calls) <= MAX_CALLS_IN_TEXT else _NONE


def _first_call(text: str, names: Sequence[str]) -> tuple[str, list[ToolCall], int] | None:
    """The form of the calls at the start of `text`, they themselves, and where they end."""
    for form in _FORMS:
        begin = form.begin.match(text)
        if begin is None or tool_name(begin["name"], names) not in names:
            continue
        arguments = form.arguments(text, begin.end())
        if arguments is not None:
            written, at = arguments
            end = form.end.match(text, at)
            return form.name, [_call(begin["name"], written, names)], end.end() if end else at
    return _python_calls(text, names) or _json_calls(text, names)


def _call(name: str, arguments: str, names: Sequence[str]) -> ToolCall:
    return ToolCall("", tool_name(name, names), json_object(arguments))


def _json_calls(text: str, names: Sequence[str]) -> tuple[str, list[ToolCall], int] | None:
    """A call as a JSON object, or a list of them."""
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] not in ("{", "["):
        return None
    # Some models double the braces, as templates with example calls do.
    is_doubled = text.startswith("{{", start)
    try:
        decoder = json.JSONDecoder(strict=False, parse_float=WrittenNumber)
        value, end = decoder.raw_decode(text, start + is_doubled)
    except (ValueError, RecursionError):
        return None
    if is_doubled and text[end:].lstrip().startswith("}"):
        end = text.index("}", end) + 1
    values = value if isinstance(value, list) else [value]
    calls = [_parse_call(each, names) for each in values]
    if not calls or None in calls or len(calls) > MAX_CALLS_IN_TEXT:
        return None
    return "JSON", [call for call in calls if call is not None], end


_NAME_KEYS: Final = (
    "name",
    "tool",
    "toolname",
    "function",
    "functionname",
    "action",
    "recipientname",
)
_ARGUMENT_KEYS: Final = (
    "arguments",
    "parameters",
    "args",
    "params",
    "toolinput",
    "input",
    "actioninput",
    "kwargs",
)


def _parse_call(value: Any, names: Sequence[str]) -> ToolCall | None:
    if not isinstance(value, dict):
        return None
    for wrapper in ("function", "tool_call", "function_call", "toolCall", "functionCall"):
        if isinstance(inner := value.get(wrapper), dict):
            value = inner if value.keys() <= {wrapper, "type", "id"} else {}
            break
    by_key = {normalize_key(key): field for key, field in value.items()}
    name = next((by_key.pop(key) for key in _NAME_KEYS if key in by_key), None)
    arguments: Any = next((by_key.pop(key) for key in _ARGUMENT_KEYS if key in by_key), {})
    other_keys = by_key.keys() - {"type", "id", "toolcallid"}
    if not isinstance(name, str) or other_keys or tool_name(name, names) not in names:
        return None
    if not isinstance(arguments, str):
        arguments = dump_json(arguments)
    return _call(name, arguments, names)


def _python_calls(text: str, names: Sequence[str]) -> tuple[str, list[ToolCall], int] | None:
    """Calls as Python: `name(key='value')`, alone, printed, or in a list, up to the end of the line or the code."""
    start = len(text) - len(text.lstrip())
    if not re.compile(rf"\[?\s*(?:print\()?{_NAME}\(").match(text, start):
        return None
    ends = (
        match.start() for match in re.compile(rf"```|<{_BAR}|</|\n(?=\S)|\Z").finditer(text, start)
    )
    for end in islice(ends, _MAX_LINES):
        if end - start > _MAX_CODE_CHARS:
            return None
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            code = text[start:end].strip().rstrip(";")
            tree = ast.parse(code, mode="eval").body
            nodes = tree.elts if isinstance(tree, ast.List) else [tree]
            calls = [_python_call(node, code, names) for node in nodes]
            if not calls or None in calls:
                return None
            return "Python", [call for call in calls if call is not None], end
    return None


def _python_call(node: ast.expr, code: str, names: Sequence[str]) -> ToolCall | None:
    if not isinstance(node, ast.Call):
        return None
    name = ast.unparse(node.func)
    if name == "print" and len(node.args) == 1:
        return _python_call(node.args[0], code, names)
    if tool_name(name, names) not in names or node.args:
        return None
    values = {each.arg: _python_value(each.value) for each in node.keywords if each.arg}
    return _call(name, dump_json(with_texts(values, code)), names)


def _python_value(node: ast.expr) -> Any:
    """A literal, also with the constants of JSON. Raises ValueError."""
    if isinstance(node, ast.Name) and node.id in ("true", "false", "null"):
        return json.loads(node.id)
    return ast.literal_eval(node)


_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_USUAL_VERBS: Final = {
    **dict.fromkeys(("add", "create", "insert", "make", "new", "put", "save", "store"), "add"),
    **dict.fromkeys(("query", "search", "find", "lookup", "get"), "query"),
}
"""Synonymous verbs in tool names."""


def tool_name(name: str, tool_names: Sequence[str]) -> str:
    """Returns the tool of `tool_names` that `name` means, otherwise `name`.

    Ignores control tokens of the model, case, prefixes such as `functions.`, and synonyms of the verb (`createGraphNode`
    for `addGraphNode`).
    """
    if name in tool_names:
        return name
    for piece in _CONTROL.split(name):
        last = re.split(r"[./:]", re.sub(r":\d+$", "", piece.strip()))[-1]
        for same in (normalize_key, _with_usual_verb):
            matches = [tool for tool in tool_names if last and same(tool) == same(last)]
            if len(matches) == 1:
                return matches[0]
            if matches:
                return name
    return name


def _with_usual_verb(name: str) -> str:
    words = [word.lower() for word in _WORDS.findall(name)]
    return "".join([_USUAL_VERBS.get(words[0], words[0]), *words[1:]]) if words else ""


def json_object(text: str) -> str:
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
    return dump_json(value) if isinstance(value, dict) else "{}"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _names(tools: Any) -> Iterator[str]:
    for tool in tools or ():
        function = tool.get("function", tool) if isinstance(tool, Mapping) else {}
        if isinstance(name := function.get("name"), str):
            yield name


def has_calls(answer: ChatAnswer, body: Mapping[str, Any]) -> bool:
    """Returns true if an answer to the request `body` has calls of its tools, also if they are written as text."""
    is_cut = answer.finish_reason == "length"
    names = list(_names(body.get("tools")))
    return bool(answer.tool_calls or written_calls(answer.text, names, is_cut=is_cut).calls)


def answer_in(error: AnswerError, body: Mapping[str, Any]) -> ChatAnswer | None:
    """The answer of the model that its server sent as an error, because it could not parse it; None if it is unusable."""
    if not error.generation:
        return None
    fault = "the server sent the answer as an error, without usage"
    if body.get("tools"):
        calls = written_calls(error.generation, list(_names(body["tools"]))).calls
        if not calls:
            return None
        return ChatAnswer(assistant_message(None, calls), "tool_calls", usage_fault=fault)
    if not error.generation.lstrip().startswith(("{", "[", "```")):
        return None
    is_cut = re.search(r"max\w*[ _]\w*[ _]?tokens", str(error), re.IGNORECASE) is not None
    reason = "length" if is_cut else "stop"
    return ChatAnswer(assistant_message(error.generation, []), reason, usage_fault=fault)


_CALL_SIGN: Final = re.compile(
    rf"<tool_?call|functools\s*\[|<function[=\s(]|\[TOOL_CALLS\]|<{_BAR}(?:tool|channel|python_tag|START_ACTION)|<invoke|```tool_code"
    r"|<start_function_call|\bto=functions\.",
    re.IGNORECASE,
)
_NAMED_CALL: Final = (
    r"""["'](?:tool_?)?(?:name|tool|function|action|recipient_name)["']\s*:\s*["'](?:functions\.)?(?:NAMES)["']"""
    r"""|(?<!\w)(?:NAMES)\s*(?:\{\s*["']|\(\s*\w+\s*=)"""
)
"""A call by the name of one of the tools, in JSON or Python."""


def has_call_sign(text: str) -> bool:
    """Whether the text has the beginning of a call in one of the forms that models write."""
    return _CALL_SIGN.search(text) is not None


def form_of_calls(answer: ChatAnswer, request: ChatRequest) -> str:
    """The form of the calls that the text of `answer` consists of; UNREAD if it has calls that are not read; else empty."""
    text = answer.text or answer.thoughts
    if not request.allows_tools or answer.tool_calls or not text:
        return ""
    names = list(_names(request.tools))
    is_cut = answer.finish_reason == "length"
    written = written_calls(answer.text, names, is_cut=is_cut)
    if written.calls:
        return written.form
    named = _NAMED_CALL.replace("NAMES", "|".join(map(re.escape, names)))
    return UNREAD if has_call_sign(text) or re.search(named, text) else ""
