"""A chat request as the reader sees it: sections, tools, and what calls have answered so far."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

SECTION = re.compile(
    r"^<(?P<tag>[a-z_]+)>[ \t]*\n(?P<body>.*?)^</(?P=tag)>", re.DOTALL | re.MULTILINE
)
INLINE_SECTION = re.compile(r"<(?P<tag>[a-z_]+)>(?P<body>.*?)</(?P=tag)>", re.DOTALL)
ESCAPED_CLOSE = "<\\/"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call that was made earlier in this request, and what it gave (None where that is not a JSON object)."""

    name: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any] | None

    @property
    def refused(self) -> str:
        """What was wrong with the call, empty where nothing was."""
        return str(self.result.get("error", "")) if self.result else ""


class ChatRequest:
    """Read only; the same body reads the same every time. Unknown parts are passed over."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body

    @cached_property
    def messages(self) -> list[Mapping[str, Any]]:
        """Those that are objects."""
        given = self._body.get("messages")
        return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []

    @cached_property
    def tools(self) -> frozenset[str]:
        """Names of the functions that may be called now: none with `tool_choice: "none"`."""
        given = self._body.get("tools")
        if self._body.get("tool_choice") == "none" or not isinstance(given, list):
            return frozenset()
        return frozenset(_function_names(given))

    @cached_property
    def offered(self) -> frozenset[str]:
        """Names of the functions described, callable now or not: they tell the phase."""
        given = self._body.get("tools")
        return frozenset(_function_names(given)) if isinstance(given, list) else frozenset()

    @cached_property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema that the answer must satisfy."""
        schema = self._format.get("schema")
        return schema if isinstance(schema, dict) else None

    @cached_property
    def schema_name(self) -> str:
        """The name given to that schema."""
        return str(self._format.get("name", ""))

    @cached_property
    def sections(self) -> Mapping[str, str]:
        """Tagged sections of the user's messages, the first of each tag, their escapes undone."""
        found: dict[str, str] = {}
        for message in self.messages:
            if message.get("role") == "user":
                text = text_of(message)
                for match in [*SECTION.finditer(text), *INLINE_SECTION.finditer(text)]:
                    found.setdefault(
                        match["tag"], match["body"].replace(ESCAPED_CLOSE, "</").strip()
                    )
        return found

    def section(self, tag: str) -> str:
        """The text between `<tag>` and `</tag>`, empty where there is none."""
        return self.sections.get(tag, "")

    @property
    def mission(self) -> str:
        """The mission section; without one, what the user said last."""
        return self.section("mission") or self.last_user_text

    @cached_property
    def last_user_text(self) -> str:
        """The newest message of the user."""
        return next(
            (text_of(one) for one in reversed(self.messages) if one.get("role") == "user"), ""
        )

    @cached_property
    def exchanges(self) -> list[Exchange]:
        """Every call that has been answered, in order."""
        results = {
            str(message.get("tool_call_id")): text_of(message)
            for message in self.messages
            if message.get("role") == "tool"
        }
        return [
            _exchange(call, results[str(call.get("id"))])
            for message in self.messages
            for call in message.get("tool_calls") or []
            if isinstance(call, dict) and str(call.get("id")) in results
        ]

    def results(self, name: str) -> list[Exchange]:
        """The answered calls of one tool that were not refused."""
        return [
            one for one in self.exchanges if one.name == name and one.result and not one.refused
        ]

    @cached_property
    def _format(self) -> Mapping[str, Any]:
        given = self._body.get("response_format")
        if not isinstance(given, dict) or given.get("type") != "json_schema":
            return {}
        inner = given.get("json_schema")
        return inner if isinstance(inner, dict) else {}


def text_of(message: Mapping[str, Any]) -> str:
    """A message's text, whether sent as a string or in parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _function_names(tools: list[Any]) -> list[str]:
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    return [str(function.get("name", "")) for function in functions if isinstance(function, dict)]


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
