"""A chat request as the model reads it (sections, tools, answered calls), and the answer to it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model; `arguments` is a JSON string, as models send it."""

    name: str
    arguments: str

    @classmethod
    def of(cls, name: str, /, **arguments: Any) -> Self:
        """Create a call with arguments as compact JSON; arguments that are None are left out."""
        given = {key: value for key, value in arguments.items() if value is not None}
        return cls(name, json.dumps(given, ensure_ascii=False, separators=(",", ":")))


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer: text, or tool calls."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    is_cut: bool = False
    """It was cut off at the token limit."""


SECTION = re.compile(
    r"^<(?P<tag>[a-z_]+)>[ \t]*\n(?P<body>.*?)^</(?P=tag)>", re.DOTALL | re.MULTILINE
)
INLINE_SECTION = re.compile(r"<(?P<tag>[a-z_]+)>(?P<body>.*?)</(?P=tag)>", re.DOTALL)
ESCAPED_CLOSE = "<\\/"


@dataclass(frozen=True, slots=True)
class Exchange:
    """An answered tool call of this request; `result` is None if it is not a JSON object."""

    name: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any] | None

    @property
    def error(self) -> str:
        """The error of the call; empty if there was none."""
        return str(self.result.get("error", "")) if self.result else ""

    def items(self, key: str) -> list[Mapping[str, Any]]:
        """The objects in a list of the result."""
        value = (self.result or {}).get(key)
        return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class ChatRequest:
    """A read-only view of a request's body. Unknown parts are ignored."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body

    @cached_property
    def messages(self) -> list[Mapping[str, Any]]:
        """The messages that are objects."""
        value = self._body.get("messages")
        return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

    @cached_property
    def _functions(self) -> list[Mapping[str, Any]]:
        value = self._body.get("tools")
        tools = value if isinstance(value, list) else []
        functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
        return [each for each in functions if isinstance(each, dict)]

    @property
    def actions(self) -> list[str]:
        """The words that advice may have for what to do; empty if the tool does not list them."""
        for function in self._functions:
            if function.get("name") == "addAgentAdviceNode":
                value: Any = function
                for key in ("parameters", "properties", "action", "enum"):
                    value = value.get(key) if isinstance(value, dict) else None
                return [str(each) for each in value] if isinstance(value, list) else []
        return []

    @cached_property
    def offered_tools(self) -> frozenset[str]:
        """Names of the functions described, callable or not: they decide the phase."""
        return frozenset(str(each.get("name", "")) for each in self._functions)

    @property
    def callable_tools(self) -> frozenset[str]:
        """Names of the functions that may be called: none with `tool_choice: "none"`."""
        is_barred = self._body.get("tool_choice") == "none"
        return frozenset() if is_barred else self.offered_tools

    @cached_property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema for the answer; None if there is none."""
        schema = self._format.get("schema")
        return schema if isinstance(schema, dict) else None

    @cached_property
    def schema_name(self) -> str:
        """The name of that schema."""
        return str(self._format.get("name", ""))

    @cached_property
    def sections(self) -> Mapping[str, str]:
        """The tagged sections of the user's messages, unescaped; the first of each tag."""
        sections: dict[str, str] = {}
        for message in self.messages:
            if message.get("role") == "user":
                text = message_text(message)
                for match in [*SECTION.finditer(text), *INLINE_SECTION.finditer(text)]:
                    sections.setdefault(
                        match["tag"], match["body"].replace(ESCAPED_CLOSE, "</").strip()
                    )
        return sections

    def section(self, tag: str) -> str:
        """The text between `<tag>` and `</tag>`; empty if there is none."""
        return self.sections.get(tag, "")

    @property
    def mission(self) -> str:
        """The mission section; without one, the last message of the user."""
        return self.section("mission") or self.last_user_text

    @property
    def refusals(self) -> list[str]:
        """A sentence for each refused tool call, with its error."""
        return [f"{each.name} was refused: {each.error}" for each in self.exchanges if each.error]

    @cached_property
    def rules(self) -> str:
        """The system's messages."""
        return "\n".join(
            message_text(message) for message in self.messages if message.get("role") == "system"
        )

    @cached_property
    def last_user_text(self) -> str:
        """The last message of the user."""
        users = [message for message in self.messages if message.get("role") == "user"]
        return message_text(users[-1]) if users else ""

    @cached_property
    def exchanges(self) -> list[Exchange]:
        """All answered calls, in order."""
        results = {
            str(message.get("tool_call_id")): message_text(message)
            for message in self.messages
            if message.get("role") == "tool"
        }
        return [
            _exchange(call, results[str(call.get("id"))])
            for message in self.messages
            for call in message.get("tool_calls") or []
            if isinstance(call, dict) and str(call.get("id")) in results
        ]

    @property
    def finish_call(self) -> tuple[ToolCall, ...]:
        """The call that ends the work in the same answer as the last writes; none where it is not offered."""
        return (ToolCall.of("finish"),) if "finish" in self.callable_tools else ()

    def results(self, name: str) -> list[Exchange]:
        """The successful calls of one tool."""
        called = [each for each in self.exchanges if each.name == name]
        return [each for each in called if each.result and not each.error]

    @cached_property
    def _format(self) -> Mapping[str, Any]:
        value = self._body.get("response_format")
        if not isinstance(value, dict) or value.get("type") != "json_schema":
            return {}
        inner = value.get("json_schema")
        return inner if isinstance(inner, dict) else {}


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message, sent as a string or in parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _exchange(call: Mapping[str, Any], result: str) -> Exchange:
    function = call.get("function") or {}
    arguments = _object(function.get("arguments", "")) or {}
    return Exchange(str(function.get("name", "")), arguments, _object(result))


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        parsed = json.loads(text)
    except (TypeError, ValueError):
        return None
    return parsed if isinstance(parsed, dict) else None
