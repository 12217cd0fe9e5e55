"""Adapts requests to what the server of a model refuses, as far as its errors say what that is."""

import json
import re
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from shared.errors import PermanentError, VigilError
from shared.llm.answer_errors import AnswerError
from shared.llm.model_server import REFUSED_REQUEST, RefusedAloneError

T = TypeVar("T")
Json = dict[str, Any]

RULES: Final = Path(__file__).with_suffix(".toml")
MAX_CHANGES: Final = 6
"""Changes that are tried for one request."""


class Omitted(Enum):
    """The value of a parameter that is left out."""

    OMITTED = "omitted"


OMITTED: Final = Omitted.OMITTED
_LIMITS: Final = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})
"""Names of the token limit. Budgets depend on it, so one of them is always sent."""
_EXCLUSIVE: Final = re.compile(r"exclusive|(?:lower|less|smaller) than", re.IGNORECASE)
"""In a refusal whose limit is itself refused."""
_ANY_LIMIT: Final = re.compile(
    r"max(?:imum)?(?: number of)?[ _-]?(?:output|completion|new|generated|response)?[ _-]?tokens|num_predict",
    re.IGNORECASE,
)
"""The token limit by names that Vigil does not send."""
_KEPT: Final = frozenset({"model", "messages", "input", "tools", "text"})
_KEYWORDS: Final = frozenset(
    {"maxItems", "minItems", "additionalProperties", "strict", "anyOf", "enum", "$ref", "$defs"}
)
"""Keywords of schemas that can be left out: code checks the answers in any case."""
_SCHEMA: Final = "Answer with JSON that fits this JSON Schema, and with nothing else:\n{}"
_WORD: Final = r"['\"`‘“]?(?P<value>[\w.-]+)"
_VALUES: Final = frozenset(
    {
        "none",
        "null",
        "true",
        "false",
        "auto",
        "default",
        "minimal",
        "low",
        "medium",
        "high",
        "xhigh",
    }
)
"""Values that are recognized without quotation marks."""
_SET: Final = re.compile(
    r"\b(?:set|setting|use|using|pass|specify|with)\s+(?:the\s+)?(?:parameter\s+|field\s+)?"
    rf"['\"`‘“]?(?P<name>[a-z][\w.]*)['\"`’”]?\s*(?:to|=|:|as)\s*{_WORD}",
    re.IGNORECASE,
)
_MUST: Final = re.compile(
    r"['\"`‘“]?(?P<name>[a-z][\w.]*)['\"`’”]?\s+(?:parameter\s+|field\s+|value\s+)?"
    r"(?:must|should|has to|needs to|can only|is required to|to)\s+(?:only\s+)?be\s+(?:set\s+to\s+|equal\s+to\s+)?"
    rf"{_WORD}",
    re.IGNORECASE,
)
_LISTED: Final = re.compile(
    r"\b(?:(?:supported|allowed|valid|possible|permitted|accepted|available)\s+(?:values?|options?)"
    r"|(?:must|should|has to) be (?:one of|either)|expected one of|input should be|only (?:supports?|accepts?|allows?))"
    r"[^\w'\"`‘“]+(?:(?:are|is|the|values?)[^\w'\"`‘“]+)*(?P<rest>.{1,200})",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED: Final = re.compile(r"['\"`‘“]([\w.-]+)['\"`’”]")
_PAIR: Final = re.compile(
    r"['\"`‘“]?(?P<name>\w*(?:reasoning|thinking|tool)\w*(?:\.\w+)?)['\"`’”]?\s*[:=]\s*"
    r"['\"`‘“]?(?P<value>none|minimal|low|medium|high|auto|disabled|enabled|true|false)\b",
    re.IGNORECASE,
)
"""A parameter and its value, as in JSON. Only of these parameters: errors also show what was sent, and other objects."""
_STATUS: Final = re.compile(r"^\W*answered \d+:")
_NUMBER: Final = re.compile(
    r"(?<![\w.-])(?P<less>less than )?(?:\d{1,3}(?:[,_]\d{3})+(?!\d)|\d+)(?![\w-])",
    re.IGNORECASE | re.ASCII,
)
_TOO_LARGE: Final = re.compile(
    r"(?:lower|smaller) than|too (large|high|big|many)"
    r"|exceed|at most|maximum|less than|up to|limit(ed)? (is|of|to)|between|range"
    r"|[<>≤]|最大|超过|超出|范围",
    re.IGNORECASE,
)
_OF_CONTEXT: Final = re.compile(
    r"context.?(?:length |window |size )?(?:is|of|has)\b|maximum (?:context|model) length",
    re.IGNORECASE,
)
_COUNT: Final = r"\d[\d,_]*"
_SUM: Final = re.compile(
    r"(?:inputs?|prompt|messages)\W*(?:tokens?|length)?\W*\+|\btotal (?:number of )?tokens|\bsum of",
    re.IGNORECASE,
)
"""In a refusal because prompt and limit together are too long, which may not name the context."""
_CONTEXT_LENGTH: Final = re.compile(
    rf"(?:context|model length)(?:.?(?:length|window|size))?\D{{0,40}}(?P<context>{_COUNT})"
    rf"|(?:<=?|≤|at most|(?:less|smaller|lower) than(?: or equal to)?|exceeds?|limit)\D{{0,12}}(?P<most>{_COUNT})",
    re.IGNORECASE,
)
_PROMPT_LENGTH: Final = re.compile(
    rf"given:?\D{{0,10}}({_COUNT})|({_COUNT}) .?(?:inputs?|prompt).? tokens"
    rf"|({_COUNT}) (?:tokens )?(?:in|from|of) (?:the |your )?(?:messages|prompt|input)"
    rf"|(?:prompt|input|messages)[^.\d]{{0,30}}({_COUNT})",
    re.IGNORECASE,
)
_DIFFERENCE: Final = re.compile(rf"{_COUNT}\s*>\s*(?P<context>{_COUNT})\s*-\s*(?P<prompt>{_COUNT})")
"""As vLLM writes it: the limit, the context and the prompt."""
SYSTEM: Final = "the system message"
"""Name of the change that sends the rules as a part of the user's message."""
CONTEXT: Final = "the context"
"""Name of the change by which the limit of an answer follows from the context and the prompt."""
MIN_LIMIT: Final = 256
"""Smallest token limit to which a context lowers the limit of an answer: shorter answers are not usable."""
BYTES_PER_TOKEN: Final = 3
"""Of UTF-8. English prose has about 4, JSON 3.2, Chinese 3: an estimate that is rarely too low."""
_REASONING_PARAMETERS: Final = (
    "reasoning_effort",
    "reasoning",
    "thinking",
    "enable_thinking",
    "think",
)


@dataclass(frozen=True)
class Change:
    """One difference between the requests that a model is sent and those that others are."""

    name: str
    value: Any = OMITTED
    only_with_tools: bool = False
    """Whether only requests with tools are refused otherwise."""
    is_once: bool = False
    """Whether it is for one request alone, and not remembered."""

    def __str__(self) -> str:
        name = self.name.removeprefix("messages.")
        if self.name == SYSTEM:
            return "the system message is sent as a part of the user's"
        if self.name == CONTEXT:
            return f"the limit of answers leaves room for the prompt in {self.value:,} tokens"
        if self.value is OMITTED:
            return f"{name!r} is omitted"
        shown = self.value.get("type") if isinstance(self.value, dict) else self.value
        return f"{name!r} is sent as {shown!r}{' with tools' if self.only_with_tools else ''}"

    def __hash__(self) -> int:
        return hash((self.name, json.dumps(self.value, default=str)))


@dataclass
class Adaptations:
    """Changes to the requests for the models of one server, for the lifetime of the process.

    A refusal that names a parameter is tried again with what it asks for, or without the parameter. What helped is
    remembered for the model. The recorded call and its hash do not change.
    """

    server: str
    warn: Callable[[str], None]
    always: frozenset[str] = frozenset()
    """Parameters that are never changed."""
    _by_model: dict[str, tuple[Change, ...]] = field(default_factory=dict)
    _told: set[tuple[str, str]] = field(default_factory=set)

    def changes(self, model: str) -> Sequence[Change]:
        """Return the changes learned for `model`."""
        return self._by_model.get(model, ())

    def tell(self, model: str, key: str, message: str) -> None:
        """Warns once for each model and `key`."""
        if (model, key) not in self._told:
            self._told.add((model, key))
            self.warn(f"{self.server}: {message}")

    async def send(self, body: Json, send: Callable[[Json], Awaitable[T]]) -> T:
        """Sends `body` as its model's server accepts it. Raises the last error if no change helps."""
        model = str(body["model"])
        changes = list(self.changes(model))
        tried: set[Change] = set(changes)
        most = len(tried) + MAX_CHANGES
        reasons: dict[Change, VigilError] = {}
        last: Change | None = None
        earlier = changes
        while True:
            adapted = apply(body, changes) if changes else body
            try:
                answer = await send(adapted)
            except VigilError as error:
                possible = (
                    each
                    for each in self._candidates(adapted, error)
                    if each not in tried and len(tried) < most
                )
                change = next(possible, None)
                if change is None:
                    raise
                tried.add(change)
                if last is not None and str(reasons[last]) == str(error):
                    del reasons[last]  # it has changed nothing
                    changes = earlier
                reasons[change], last, earlier = error, change, changes
                changes = [each for each in changes if each.name != change.name] + [change]
            else:
                if reasons:
                    self._remember(model, changes, reasons)
                return answer

    def _remember(
        self, model: str, changes: Sequence[Change], reasons: Mapping[Change, VigilError]
    ) -> None:
        known = {change.name: change for change in self.changes(model)}
        for change in changes:
            if change in reasons and known.get(change.name) != change and not change.is_once:
                known[change.name] = change
                self.warn(f"{self.server}: {change} for {model} from now on: {reasons[change]}")
        self._by_model[model] = tuple(known.values())

    def _candidates(self, body: Json, error: VigilError) -> Iterator[Change]:
        """The changes that the error asks for, the most specific first."""
        if isinstance(error, NoCallError):
            yield Change("tool_choice")
            return
        if isinstance(error, AnswerError) and error.has_no_end and "stream" not in self.always:
            yield Change("stream")
            return
        words = _STATUS.sub("", str(error).replace(self.server, ""))
        if isinstance(error, RefusedAloneError):
            if "tool_choice" in body:
                # Some servers fail on a forced call.
                yield Change("tool_choice")
            yield from _changes_by_rule("content", body, words)
            return
        if isinstance(error, AnswerError):
            # Never from a model's words: a web page could make the model say that the server cannot stream.
            is_refusal = error.is_error_body and not error.is_filtered
        else:
            is_refusal = isinstance(error, PermanentError) and error.code == REFUSED_REQUEST
        if not is_refusal:
            return
        param = getattr(error.__cause__, "param", None)
        found = [
            each
            for each in _named_changes(body, words, param if isinstance(param, str) else None)
            if each.name not in self.always
        ]
        if not found and re.search("reasoning|thinking", words, re.IGNORECASE):
            sent = [Change(name) for name in _REASONING_PARAMETERS if name in body]
            found = [
                each
                for each in (*_changes_by_rule("reasoning", body, words), *sent)
                if each.name not in self.always
            ]
        yield from found or [
            *_changes_by_rule("system", body, words),
            *_changes_by_rule("unnamed", body, words),
        ]


class NoCallError(AnswerError):
    """The model made no tool call although the request demanded one."""


def apply(body: Json, changes: Iterable[Change]) -> Json:
    """`body` with the changes."""
    body = dict(body)
    limit = next((body[name] for name in body.keys() & _LIMITS), None)
    for change in changes:
        name, value = change.name, change.value
        if change.only_with_tools and not body.get("tools"):
            continue
        if name == SYSTEM:
            body["messages"] = _without_system(body["messages"])
        elif name in _KEYWORDS:
            for field_name in ("tools", "response_format", "text"):
                if field_name in body:
                    body[field_name] = _without_keyword(body[field_name], name)
        elif name.startswith("messages."):
            body["messages"] = _with_field(body["messages"], name.partition(".")[2], value)
        elif name == "response_format":
            if name in body:
                body = _with_schema_as_text(body, value)
        elif name == CONTEXT:
            room = value - _estimated_tokens(body)
            for each in body.keys() & _LIMITS:
                if room >= MIN_LIMIT:
                    body[each] = min(body[each], room)
        elif name in _LIMITS and isinstance(value, int):
            for each in body.keys() & _LIMITS:
                body[each] = min(body[each], value)
        elif value is not OMITTED:
            is_responses = name == "reasoning_effort" and "input" in body
            _set(body, ["reasoning", "effort"] if is_responses else name.split("."), value)
        else:
            body.pop(name, None)
    if "stream" not in body:
        body.pop("stream_options", None)
    if limit is not None and not body.keys() & _LIMITS:
        omitted = {change.name for change in changes if change.value is OMITTED}
        others = {"max_tokens", "max_completion_tokens"} - omitted
        body[others.pop() if others else "max_tokens"] = limit
    return body


def _set(body: Json, path: Sequence[str], value: Any) -> None:
    *parents, last = path
    for parent in parents:
        inner = body.get(parent)
        body[parent] = body = dict(inner) if isinstance(inner, dict) else {}
    body[last] = value


def _without_keyword(value: Any, keyword: str) -> Any:
    if isinstance(value, list):
        return [_without_keyword(each, keyword) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        # Properties are named by the schema's author.
        name: {key: _without_keyword(inner, keyword) for key, inner in each.items()}
        if name == "properties" and isinstance(each, dict)
        else _without_keyword(each, keyword)
        for name, each in value.items()
        if name != keyword
    }


def _with_schema_as_text(body: Json, value: Any) -> Json:
    """`body` with its schema in the last message, because the server does not support schemas."""
    schema = (body["response_format"].get("json_schema") or {}).get("schema")
    body = {name: each for name, each in body.items() if name != "response_format"}
    if value is not OMITTED:
        body["response_format"] = value
    if schema is not None:
        text = _SCHEMA.format(json.dumps(schema, ensure_ascii=False))
        *earlier, last = body["messages"]
        if last.get("role") == "user" and isinstance(last.get("content"), str):
            last = {**last, "content": f"{last['content']}\n\n{text}"}
            body["messages"] = [*earlier, last]
        else:
            body["messages"] = [*body["messages"], {"role": "user", "content": text}]
    return body


def _with_field(messages: Sequence[Json], name: str, value: Any) -> list[Json]:
    """The assistant's messages without the field `name`, or with `value` where a message with calls lacks it.

    An empty content counts as none, so that a text can replace it.
    """
    changed = []
    for message in messages:
        if message.get("role") == "assistant":
            if value is OMITTED:
                message = _without_field(message, name)
            elif message.get("tool_calls") and name == "thought_signature":
                message = {**message, "tool_calls": _signed(message["tool_calls"], value)}
            elif message.get("tool_calls") and name == "content":
                message = {**message, name: message.get(name) or value}
            elif message.get("tool_calls"):
                message = {name: value, **message}
        changed.append(message)
    return changed


def _without_field(message: Json, name: str) -> Json:
    kept = {key: each for key, each in message.items() if key != name}
    if "tool_calls" in kept:
        kept["tool_calls"] = [
            {key: each for key, each in call.items() if key != name} for call in kept["tool_calls"]
        ]
    return kept


def _without_system(messages: Sequence[Json]) -> list[Json]:
    """`messages` with the system's texts at the beginning of the first message of the user."""
    texts = [each["content"] for each in messages if each.get("role") == "system"]
    others = [each for each in messages if each.get("role") != "system"]
    if not others or others[0].get("role") != "user":
        others.insert(0, {"role": "user", "content": ""})
    first = "\n\n".join(filter(None, [*texts, others[0].get("content")]))
    return [{**others[0], "content": first}, *others[1:]]


def _signed(calls: Sequence[Json], signature: Any) -> list[Json]:
    google = {"extra_content": {"google": {"thought_signature": signature}}}
    return [{**google, **call} for call in calls]


def _named_changes(body: Json, words: str, param: str | None) -> list[Change]:
    """The changes for the parameters that `words` name, in the order of their names."""
    asked = _asked_values(words)
    names = _named(body, words, param)
    known = {*names, *_KEPT}
    further = [
        Change(name, value)
        for name, value in asked.items()
        if name.partition(".")[0] not in known and ("_" in name or "." in name or name in _SETTABLE)
    ]
    changes = [
        # The plain word "reasoning" is also the name of a field of messages.
        *(each for each in further if each.name in _REASONING_PARAMETERS),
        *_message_changes(body, words),
        *(Change(name) for name in names if name in _KEYWORDS),
        *(change for name in names for change in _changes_of(body, name, words, asked)),
    ]
    if not names and (_OF_CONTEXT.search(words) or _SUM.search(words)):
        changes += [
            each for limit in body.keys() & _LIMITS for each in _context_changes(body, limit, words)
        ]
    if "response_format" in body and _OF_SCHEMA.search(words):
        changes += _changes_of(body, "response_format", words, asked)
    changes += [each for each in further if each not in changes]
    if body.get("tools") and re.search(r"\b(tool|function)s?\b", words, re.IGNORECASE):
        with_tools = ("reasoning_effort", "thinking", "enable_thinking")
        return [
            replace(each, only_with_tools=True) if each.name in with_tools else each
            for each in changes
        ]
    return changes


_OF_SCHEMA: Final = re.compile(r"json_schema|(?<!tool )\bschemas?\b|\bgrammars?\b", re.IGNORECASE)
"""In a refusal of the schema of an answer."""
_SETTABLE: Final = frozenset({"stream", "temperature", "thinking", "n"})
"""Parameters without an underscore that a server can ask for."""


def _named(body: Json, words: str, param: str | None) -> list[str]:
    """The parameters of `body` and keywords of its schemas that `words` or `param` name, in order of their places."""
    parameters = [name for name in body if name not in _KEPT]
    keywords = _keywords(
        [body.get("tools"), body.get("response_format"), body.get("text")]
    ) & _KEYWORDS  # fmt: skip
    places = []
    for name in [*parameters, *keywords]:
        spelled = r"[._\s-]?".join(map(re.escape, name.split("_")))
        pattern = re.compile(rf"(?<![\w$]){spelled}(ing)?(?!\w)", re.IGNORECASE | re.ASCII)
        if param is not None and pattern.search(param):
            places.append((-1, -len(name), name))
        elif match := pattern.search(words):
            places.append((match.start(), -len(name), name))
    if not any(name in _LIMITS for *_, name in places) and (match := _ANY_LIMIT.search(words)):
        places += [(match.start(), -len(name), name) for name in body.keys() & _LIMITS]
    return [name for *_, name in sorted(places)]


def _keywords(value: Any) -> set[str]:
    if isinstance(value, list):
        return {keyword for each in value for keyword in _keywords(each)}
    if isinstance(value, dict):
        return {*value, *(keyword for each in value.values() for keyword in _keywords(each))}
    return set()


def _changes_of(body: Json, name: str, words: str, asked: Mapping[str, Any]) -> Sequence[Change]:
    """Return the change to try instead of the parameter `name`, which the server refuses."""
    if name in _KEYWORDS:
        return ()
    if name in _LIMITS:
        return _limit_changes(body, name, words)
    if name == "tool_choice":
        return (Change(name),)
    if name == "response_format":
        is_schema = body[name].get("type") == "json_schema"
        as_object = (Change(name, {"type": "json_object"}),) if is_schema else ()
        return (*as_object, Change(name))
    listed = [_convert(each) for each in _listed_values(words)]
    values = [asked[name]] if name in asked else listed
    wanted = [Change(name, value) for value in values if value != body[name]][:1]
    return (*wanted, Change(name))


def _limit_changes(body: Json, name: str, words: str) -> Sequence[Change]:
    if _OF_CONTEXT.search(words) or _SUM.search(words):
        return _context_changes(body, name, words)
    numbers = [
        _int(re.sub("[^0-9]", "", each[0])) - bool(each["less"])
        for each in _NUMBER.finditer(words)
        if len(each[0]) < 22
    ]
    if not _TOO_LARGE.search(words):
        return (Change(name),)
    limit = body[name]
    # The limit that was tried, as the server named it, may be the first one that it refuses.
    lower = [each for each in numbers if 16 <= each < limit] or [limit - 1] * (
        numbers.count(limit) > 1 or _EXCLUSIVE.search(words) is not None
    )
    return (Change(name, max(lower)),) if lower else ()


def _context_changes(body: Json, name: str, words: str) -> Sequence[Change]:
    """Limits that leave the prompt its place in a context of which `words` give the length; none if they do not.

    The first one follows from the estimated length of each prompt, the second one from the length that `words` give of this
    one.
    """
    if difference := _DIFFERENCE.search(words):
        context, prompt = _int(difference["context"]), _int(difference["prompt"])
    else:
        lengths = _CONTEXT_LENGTH.search(words)
        read = _PROMPT_LENGTH.search(words)
        if lengths is None:
            return ()
        context = _int(lengths["context"] or lengths["most"])
        prompt = _int(next(filter(None, read.groups()))) if read else _estimated_tokens(body)
    room = context - prompt
    if not MIN_LIMIT <= room < body[name]:
        return ()
    return (Change(CONTEXT, context), Change(name, room, is_once=True))


def _estimated_tokens(body: Json) -> int:
    """Tokens of a prompt, rarely too few."""
    prompt = [body.get(name) for name in ("messages", "input", "tools")]
    return len(json.dumps(prompt, ensure_ascii=False).encode()) // BYTES_PER_TOKEN


def _int(digits: str) -> int:
    return int(re.sub("[,_]", "", digits))


def _message_changes(body: Json, words: str) -> Iterator[Change]:
    """Changes of the assistant's messages: fields that the server requires back, or refuses."""
    assistants = [each for each in body.get("messages") or () if each.get("role") == "assistant"]
    calls = [call for each in assistants for call in each.get("tool_calls") or ()]
    yield from islice(_changes_by_rule("back", body, words), 1)
    yield from _changes_by_rule("content", body, words)
    usual = {"role", "content", "tool_calls", "id", "type", "function"}
    further = {name for each in [*assistants, *calls] for name in each} - usual
    for name in sorted(further, key=len, reverse=True):
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words):
            yield Change(f"messages.{name}")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A change that follows from the words of a refusal. Its file explains the fields."""

    change: str
    words: str
    has: str
    also: str = ""
    unless: str | None = None
    value: Any = OMITTED
    only_with_tools: bool = False

    def change_of(self, body: Json, words: str) -> Change | None:
        match = re.search(self.words, words, re.IGNORECASE)
        is_meant = match is not None and re.search(self.also, words, re.IGNORECASE) is not None
        is_excluded = self.unless and re.search(self.unless, words, re.IGNORECASE)
        if match is None or not is_meant or is_excluded or not self._applies_to(body):
            return None
        names = [name for name in match.groupdict().values() if name]
        return Change(self.change.format(name=(names or [""])[0]), self.value, self.only_with_tools)

    def _applies_to(self, body: Json) -> bool:
        calling = [each for each in body.get("messages") or () if each.get("tool_calls")]
        match self.has:
            case "calls":
                return bool(calling)
            case "system":
                return any(each.get("role") == "system" for each in body.get("messages") or ())
            case "calls without text":
                return not all(each.get("content") for each in calling)
            case parameter:
                return bool(body.get(parameter))


@cache
def rules() -> Mapping[str, Sequence[Rule]]:
    """The rules by group. Raises TypeError if one has an unknown field."""
    groups = tomllib.loads(RULES.read_text("utf-8"))
    return {name: [Rule(**each) for each in group] for name, group in groups.items()}


def _changes_by_rule(group: str, body: Json, words: str) -> Iterator[Change]:
    for rule in rules()[group]:
        if (change := rule.change_of(body, words)) is not None:
            yield change


def _asked_values(words: str) -> dict[str, Any]:
    """The values that `words` ask for, by parameter."""
    asked: dict[str, Any] = {}
    for match in (*_SET.finditer(words), *_MUST.finditer(words), *_PAIR.finditer(words)):
        name = match["name"].lower()
        for prefix in ("parameter.", "parameters.", "body.", "params."):
            name = name.removeprefix(prefix)
        name = {"reasoning.effort": "reasoning_effort"}.get(name, name)
        value = match["value"].rstrip(".")
        is_quoted = words[match.start("value") - 1] in "'\"`‘“"
        if is_quoted or value.lower() in _VALUES or value.isdecimal():
            asked.setdefault(name, _convert(value))
    return asked


def _listed_values(words: str) -> Sequence[str]:
    if (match := _LISTED.search(words)) is None:
        return ()
    rest = re.split(r"\.\s|;|\n", match["rest"])[0]
    quoted: list[str] = _QUOTED.findall(rest)
    return quoted or [each for each in re.findall(r"[\w-]+", rest) if each.lower() in _VALUES]


def _convert(value: str) -> Any:
    plain = {"true": True, "false": False, "null": OMITTED, "None": "none"}
    if value.isdecimal():
        return int(value)
    return plain.get(value.lower(), plain.get(value, value))
