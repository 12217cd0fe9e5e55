"""Answers that tests put into the model's mouth."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from sandbox.http.call import Call, RefusedError
from sandbox.http.openai_shapes import error_body
from sandbox.reader.answer import Answer, ToolCall


class ScriptedCall(BaseModel):
    """A tool call; arguments given as a string are sent as they are, valid JSON or not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)

    def call(self) -> ToolCall:
        """As the model would make it."""
        if isinstance(self.arguments, str):
            return ToolCall(self.name, self.arguments)
        return ToolCall.with_arguments(self.name, self.arguments)


class ScriptedAnswer(BaseModel):
    """Given instead of the reader's answer to the next matching requests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    phase: str = ""
    contains: str = ""
    times: Annotated[int, Field(ge=1)] | None = 1
    """None answers every match."""
    content: str | dict[str, Any] = ""
    """An object is written as JSON."""
    tool_calls: tuple[ScriptedCall, ...] = ()
    status: int = 200
    error: str = "scripted error"
    retry_after_seconds: float | None = None

    def answer(self) -> Answer:
        """Raises RefusedError where the script is for an error."""
        if self.status != 200:
            headers = (
                {}
                if self.retry_after_seconds is None
                else {"retry-after": f"{self.retry_after_seconds:g}"}
            )
            raise RefusedError(self.status, error_body(self.error, "scripted", None), headers)
        text = self.content if isinstance(self.content, str) else json.dumps(self.content)
        return Answer(text, tuple(each.call() for each in self.tool_calls))


class ScriptQueue:
    """Scripts in the order they were given. Belongs to one running sandbox."""

    def __init__(self) -> None:
        self._left: list[tuple[ScriptedAnswer, int | None]] = []

    def add(self, scripts: list[ScriptedAnswer]) -> None:
        """Behind those already waiting."""
        self._left += [(script, script.times) for script in scripts]

    def take(self, call: Call) -> ScriptedAnswer | None:
        """The first that matches, used up by one."""
        for place, (script, times) in enumerate(self._left):
            if call.matches(phase=script.phase, contains=script.contains):
                if times == 1:
                    del self._left[place]
                elif times is not None:
                    self._left[place] = (script, times - 1)
                return script
        return None

    def __len__(self) -> int:
        return len(self._left)
