"""What tests can control in a running sandbox: faults, scripted answers, idempotency keys, the meter."""

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.http.calls import Call, Meter, RefusedError
from sandbox.http.openai_format import error_body
from sandbox.http.streaming import PiecesResponse
from sandbox.model.request import Answer, ToolCall


class FaultKind(StrEnum):
    """A kind of fault."""

    LATENCY = "latency"
    """The answer is delayed by `latency_seconds`."""
    STATUS = "status"
    """An error with `status`, and `Retry-After` if `retry_after_seconds` is set."""
    RATE_LIMIT = "rate_limit"
    """429 with `Retry-After` for each call above `per_minute`, after a burst of `burst` calls."""
    HANG = "hang"
    """No answer until the client disconnects or `hang_seconds` have passed; then 504."""
    CUT = "cut"
    """Billed, and the connection is closed in the middle of the answer."""
    STALL = "stall"
    """Billed, and a streamed answer pauses in its middle for `stall_seconds`."""
    MALFORMED_JSON = "malformed_json"
    """The JSON that the model writes (an answer or a call's arguments), else the whole body, is cut off."""
    UNKNOWN_TOOL = "unknown_tool"
    """The model calls a tool that was not offered."""
    WRONG_ARGUMENTS = "wrong_arguments"
    """The model calls a tool with unknown arguments."""


class Fault(BaseModel):
    """A rule: which calls it matches (by path, phase and part of the request), and to how many it applies."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: FaultKind
    path: str = ""
    phase: str = ""
    contains: str = ""
    nth: Annotated[int, Field(ge=1)] | None = None
    """Apply to the nth matching call only."""
    count: Annotated[int, Field(ge=1)] | None = None
    """Apply to this many matching calls; default 1 if neither `nth` nor `always` is set."""
    always: bool = False
    latency_seconds: Annotated[float, Field(ge=0)] = 0
    status: Annotated[int, Field(ge=400, le=599)] = 500
    retry_after_seconds: float | None = None
    per_minute: Annotated[float, Field(gt=0)] = 60
    burst: Annotated[float, Field(ge=1)] = 5
    hang_seconds: Annotated[float, Field(gt=0)] = 60
    stall_seconds: Annotated[float, Field(ge=0)] = 60

    @model_validator(mode="after")
    def _one_frequency(self) -> Self:
        if sum([self.nth is not None, self.count is not None, self.always]) > 1:
            raise ValueError("specify at most one of nth, count and always")
        return self

    def applies_to(self, match_number: int) -> bool:
        """Whether the rule applies to its `match_number`th match (from 1)."""
        if self.nth is not None:
            return match_number == self.nth
        return self.always or match_number <= (self.count or 1)


class TokenBucket:
    """The rate limit of one rule."""

    def __init__(self, per_minute: float, burst: float) -> None:
        self._seconds_each = 60 / per_minute
        self._burst = burst
        self._left = burst
        self._at = time.monotonic()

    def take(self) -> float:
        """Take a token; return the seconds until there is one, 0 if it was taken."""
        now = time.monotonic()
        self._left = min(self._left + (now - self._at) / self._seconds_each, self._burst)
        self._at = now
        if self._left < 1:
            return (1 - self._left) * self._seconds_each
        self._left -= 1
        return 0.0


class FaultRules:
    """The active fault rules of one running sandbox."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []
        self._matches: list[int] = []
        self._buckets: dict[int, TokenBucket] = {}
        """By the place of their rule."""

    def add(self, rules: list[Fault]) -> None:
        """Add rules; each counts its matches from now on."""
        self._rules += rules
        self._matches += [0] * len(rules)

    def matching(self, call: Call) -> list[Fault]:
        """The rules that apply to this call. Counts the matches."""
        faults: list[Fault] = []
        for place, rule in enumerate(self._rules):
            if call.matches(path=rule.path, phase=rule.phase, contains=rule.contains):
                self._matches[place] += 1
                if not rule.applies_to(self._matches[place]):
                    continue
                if rule.kind is FaultKind.RATE_LIMIT:
                    faults += self._limit(place, rule)
                else:
                    faults.append(rule)
        return faults

    def _limit(self, place: int, rule: Fault) -> list[Fault]:
        bucket = self._buckets.setdefault(place, TokenBucket(rule.per_minute, rule.burst))
        wait = bucket.take()
        if not wait:
            return []
        changes = {"kind": FaultKind.STATUS, "status": 429, "retry_after_seconds": wait}
        return [rule.model_copy(update=changes)]

    def as_json(self) -> list[dict[str, object]]:
        """Each rule with the number of its matches."""
        return [
            {**rule.model_dump(mode="json"), "matched": matched}
            for rule, matched in zip(self._rules, self._matches, strict=True)
        ]


class ScriptedCall(BaseModel):
    """A tool call; a string as arguments is sent unchanged, valid JSON or not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)

    def call(self) -> ToolCall:
        """The call as the model answers it."""
        if isinstance(self.arguments, str):
            return ToolCall(self.name, self.arguments)
        return ToolCall.with_arguments(self.name, self.arguments)


class ScriptedAnswer(BaseModel):
    """An answer that replaces the model's for the next matching requests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    phase: str = ""
    contains: str = ""
    times: Annotated[int, Field(ge=1)] | None = 1
    """None: every match."""
    content: str | dict[str, Any] = ""
    """An object is sent as JSON."""
    tool_calls: tuple[ScriptedCall, ...] = ()
    status: int = 200
    error: str = "scripted error"
    retry_after_seconds: float | None = None

    def answer(self) -> Answer:
        """The scripted answer. Raises RefusedError if the script is an error."""
        if self.status != 200:
            headers = (
                {}
                if self.retry_after_seconds is None
                else {"retry-after": f"{self.retry_after_seconds:g}"}
            )
            raise RefusedError(self.status, error_body(self.error, "scripted", None), headers)
        text = self.content if isinstance(self.content, str) else json.dumps(self.content)
        return Answer(text, tuple(call.call() for call in self.tool_calls))


class ScriptQueue:
    """The pending scripts of one running sandbox, in order."""

    def __init__(self) -> None:
        self._pending: list[tuple[ScriptedAnswer, int | None]] = []

    def add(self, scripts: list[ScriptedAnswer]) -> None:
        """Append scripts."""
        self._pending += [(script, script.times) for script in scripts]

    def pop_matching(self, call: Call) -> ScriptedAnswer | None:
        """Return the first script that matches and count it as used once."""
        for place, (script, times) in enumerate(self._pending):
            if call.matches(phase=script.phase, contains=script.contains):
                if times == 1:
                    del self._pending[place]
                elif times is not None:
                    self._pending[place] = (script, times - 1)
                return script
        return None

    def __len__(self) -> int:
        return len(self._pending)


UNKNOWN_TOOL = "noSuchTool"
WRONG_ARGUMENTS = '{"noSuchArgument":true}'
BROKEN_JSON = '{"broken'


def corrupt_answer(answer: Answer, kinds: Iterable[FaultKind], tool_names: Iterable[str]) -> Answer:
    """Apply each kind of corruption to an answer."""
    for kind in kinds:
        if kind is FaultKind.MALFORMED_JSON:
            answer = _with_broken_json(answer)
        elif kind is FaultKind.UNKNOWN_TOOL:
            answer = Answer(calls=(ToolCall(UNKNOWN_TOOL, "{}"),))
        elif kind is FaultKind.WRONG_ARGUMENTS:
            name = answer.calls[0].name if answer.calls else min(tool_names, default=UNKNOWN_TOOL)
            answer = Answer(calls=(ToolCall(name, WRONG_ARGUMENTS),))
    return answer


def _with_broken_json(answer: Answer) -> Answer:
    if answer.calls:
        return Answer(answer.text, tuple(ToolCall(call.name, BROKEN_JSON) for call in answer.calls))
    return Answer(
        answer.text[: len(answer.text) // 2] if answer.text.startswith("{") else BROKEN_JSON
    )


HEADER = "idempotency-key"
MAX_ANSWERS = 10_000


class KeyRule(BaseModel):
    """Whether idempotency keys are used from now on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    heeded: bool


class IdempotencyKeys:
    """The answers by idempotency key of one running sandbox. Disabled by default."""

    def __init__(self) -> None:
        self.is_enabled = False
        self.replayed = 0
        """Requests that got an earlier answer, at no price."""
        self._answers: OrderedDict[str, tuple[str, asyncio.Task[PiecesResponse]]] = OrderedDict()

    async def answer_once(
        self, request: Request, call: Call, make: Callable[[], Awaitable[PiecesResponse]]
    ) -> PiecesResponse:
        """Call `make`, or return the earlier answer for the same idempotency key. Errors are not stored.

        Raises RefusedError (422) for a key of another request, and what `make` raises.
        """
        key = request.headers.get(HEADER)
        if not self.is_enabled or key is None:
            return await make()
        if key not in self._answers:
            return await self._answer_first(key, call, make)
        request_hash, task = self._answers[key]
        if request_hash != call.request_hash:
            message = f"The key {key!r} was already used with a different request."
            raise RefusedError(422, {"error": {"message": message}})
        answer = (await asyncio.shield(task)).replay()
        self.replayed += 1
        return answer

    async def _answer_first(
        self, key: str, call: Call, make: Callable[[], Awaitable[PiecesResponse]]
    ) -> PiecesResponse:
        task = asyncio.ensure_future(make())
        self._answers[key] = (call.request_hash, task)
        if len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)
        try:
            return await asyncio.shield(task)
        except RefusedError:
            self._answers.pop(key, None)
            raise


Rule = TypeVar("Rule", bound=BaseModel)


@dataclass(slots=True)
class Controls:
    """The meter and the test controls of one running sandbox."""

    meter: Meter = field(default_factory=Meter)
    faults: FaultRules = field(default_factory=FaultRules)
    scripts: ScriptQueue = field(default_factory=ScriptQueue)
    keys: IdempotencyKeys = field(default_factory=IdempotencyKeys)

    def reset(self) -> None:
        """Reset everything to the state after a start."""
        self.meter, self.faults = Meter(), FaultRules()
        self.scripts, self.keys = ScriptQueue(), IdempotencyKeys()


def control_routes(controls: Controls) -> list[Route]:
    """The routes under /control."""

    async def meter(request: Request) -> Response:
        wants_detail = request.query_params.get("detail", "") not in {"", "0", "false"}
        counts = controls.meter.as_json(detail=wants_detail)
        return JSONResponse({**counts, "replayed": controls.keys.replayed})

    async def reset(_: Request) -> Response:
        controls.reset()
        return JSONResponse({"reset": True})

    async def script(request: Request) -> Response:
        return await _add_rules(request, ScriptedAnswer, lambda rules: controls.scripts.add(rules))

    async def faults(request: Request) -> Response:
        return await _add_rules(request, Fault, lambda rules: controls.faults.add(rules))

    async def keys(request: Request) -> Response:
        def obey(rules: list[KeyRule]) -> None:
            controls.keys.is_enabled = rules[-1].heeded

        return await _add_rules(request, KeyRule, obey)

    async def state(_: Request) -> Response:
        return JSONResponse({"faults": controls.faults.as_json(), "scripts": len(controls.scripts)})

    return [
        Route("/control", state, methods=["GET"]),
        Route("/control/meter", meter, methods=["GET"]),
        Route("/control/reset", reset, methods=["POST"]),
        Route("/control/script", script, methods=["POST"]),
        Route("/control/faults", faults, methods=["POST"]),
        Route("/control/keys", keys, methods=["POST"]),
    ]


async def _add_rules(
    request: Request, rule: type[Rule], add: Callable[[list[Rule]], None]
) -> Response:
    """Parse one rule or a list of them and add them; 400 with the errors if any is invalid."""
    body = await request.body()
    many = body.lstrip().startswith(b"[")
    try:
        rules = (
            TypeAdapter(list[rule]).validate_json(body)  # type: ignore[valid-type]  # a type known at run time
            if many
            else [rule.model_validate_json(body)]
        )
    except ValidationError as error:
        return JSONResponse({"error": error.errors(include_url=False, include_context=False)}, 400)
    add(rules)
    return JSONResponse({"added": len(rules)})
