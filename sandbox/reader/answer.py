"""What the stand-in model answers with."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model wants made; `arguments` is JSON, as models send it."""

    name: str
    arguments: str

    @classmethod
    def of(cls, name: str, /, **arguments: Any) -> Self:
        """With arguments written as compact JSON; those that are None are left out."""
        return cls.with_arguments(
            name, {key: value for key, value in arguments.items() if value is not None}
        )

    @classmethod
    def with_arguments(cls, name: str, arguments: Mapping[str, Any]) -> Self:
        """Where a parameter's name is also a word of Python."""
        return cls(name, json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))


@dataclass(frozen=True, slots=True)
class Answer:
    """Text, or calls to make before there can be a text."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    is_cut: bool = False
    """It was to be longer than it may be."""
