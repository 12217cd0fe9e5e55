"""Faults that tests order: rules that say which calls go wrong, and how."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sandbox.http.call import Call


class FaultKind(StrEnum):
    """What goes wrong."""

    LATENCY = "latency"
    """Answered late, by `latency_seconds`."""
    STATUS = "status"
    """Refused with `status`, and `Retry-After` where `retry_after_seconds` is given."""
    HANG = "hang"
    """Not answered until the client goes or `hang_seconds` are over, and then 504."""
    CUT = "cut"
    """Billed, and the connection closed in the middle of the answer."""
    STALL = "stall"
    """Billed, and a streamed answer waits in its middle for `stall_seconds`."""
    MALFORMED_JSON = "malformed_json"
    """The JSON the model writes (an answer by schema, or a call's arguments), else the whole body, breaks off."""
    UNKNOWN_TOOL = "unknown_tool"
    """The model calls a tool that it was not offered."""
    WRONG_ARGUMENTS = "wrong_arguments"
    """The model calls a tool with arguments that the tool does not have."""


class Fault(BaseModel):
    """One rule: matched by path, phase and a part of the request, and how often it strikes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: FaultKind
    path: str = ""
    phase: str = ""
    contains: str = ""
    nth: Annotated[int, Field(ge=1)] | None = None
    """Strikes the nth matching call alone."""
    count: Annotated[int, Field(ge=1)] | None = None
    """Strikes that many matching calls; once where neither `nth` nor `always` is given."""
    always: bool = False
    latency_seconds: Annotated[float, Field(ge=0)] = 0
    status: Annotated[int, Field(ge=400, le=599)] = 500
    retry_after_seconds: float | None = None
    hang_seconds: Annotated[float, Field(gt=0)] = 60
    stall_seconds: Annotated[float, Field(ge=0)] = 60

    @model_validator(mode="after")
    def _one_frequency(self) -> Self:
        if sum([self.nth is not None, self.count is not None, self.always]) > 1:
            raise ValueError("give at most one of nth, count and always")
        return self

    def strikes(self, match_number: int) -> bool:
        """Whether the call that is the rule's `match_number`th match (from 1) goes wrong."""
        if self.nth is not None:
            return match_number == self.nth
        return self.always or match_number <= (self.count or 1)


class FaultBook:
    """The rules in force. Belongs to one running sandbox."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []
        self._matches: list[int] = []

    def add(self, rules: list[Fault]) -> None:
        """Each counts its matches from now on."""
        self._rules += rules
        self._matches += [0] * len(rules)

    def take(self, call: Call) -> list[Fault]:
        """The rules that strike this call."""
        struck: list[Fault] = []
        for place, rule in enumerate(self._rules):
            if call.matches(path=rule.path, phase=rule.phase, contains=rule.contains):
                self._matches[place] += 1
                if rule.strikes(self._matches[place]):
                    struck.append(rule)
        return struck

    def described(self) -> list[dict[str, object]]:
        """Each rule and how many calls it has matched."""
        return [
            {**rule.model_dump(mode="json"), "matched": matched}
            for rule, matched in zip(self._rules, self._matches, strict=True)
        ]
