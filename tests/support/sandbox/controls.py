"""What tests can control in a running sandbox: faults, scripted answers, idempotency keys, the meter.

`python -m sandbox --handler tests.support.sandbox.controls:ControlledHandler` serves them under /control.
"""

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.http.calls import Call, RefusedError
from sandbox.http.endpoint import CallHandler, Endpoint, Reply, cut_off
from sandbox.http.openai_format import count_tokens, error_body
from sandbox.model import ChatRequest, answer_request
from sandbox.model.request import Answer, ToolCall
from tests.support.sandbox.embeddings import embedding_route
from tests.support.sandbox.meter import Meter, embedding_usd, operation_usd, tokens_usd
from tests.support.sandbox.replies import PiecesResponse, SendOptions


class FaultKind(StrEnum):
    """A kind of fault."""

    LATENCY = "latency"
    """The answer is delayed by `latency_seconds`."""
    STATUS = "status"
    """An error with `status`, and `Retry-After` if `retry_after_seconds` is set."""
    RATE_LIMIT = "rate_limit"
    """429 with `Retry-After` for each call above `per_minute`, after a burst of `burst` calls."""
    CUT = "cut"
    """Billed, and the connection is closed in the middle of the answer."""
    STALL = "stall"
    """Billed, and a streamed answer pauses in its middle for `stall_seconds`."""
    MALFORMED_JSON = "malformed_json"
    """The JSON that the model writes (an answer or a call's arguments), else the whole body, is cut off."""


class Rule(BaseModel):
    """Which calls a fault or a script applies to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = ""
    phase: str = ""
    contains: str = ""
    """Is searched in the strings of the request."""

    def matches(self, call: Call) -> bool:
        part = self.contains
        return (
            call.path.endswith(self.path)
            and self.phase in ("", call.phase)
            and (part in call.text or json.dumps(part)[1:-1] in call.text)
        )


class Fault(Rule):
    """A fault of matching calls, and to how many of them it applies: one, if none of nth, count and always is set."""

    kind: FaultKind
    nth: Annotated[int, Field(ge=1)] | None = None
    """Apply to the nth matching call only."""
    count: Annotated[int, Field(ge=1)] | None = None
    always: bool = False
    latency_seconds: Annotated[float, Field(ge=0)] = 0
    status: Annotated[int, Field(ge=400, le=599)] = 500
    retry_after_seconds: float | None = None
    per_minute: Annotated[float, Field(gt=0)] = 60
    burst: Annotated[float, Field(ge=1)] = 5
    stall_seconds: Annotated[float, Field(ge=0)] = 60

    def applies_to(self, match_number: int) -> bool:
        """Whether the fault applies to its `match_number`th match (from 1)."""
        if self.nth is not None:
            return match_number == self.nth
        return self.always or match_number <= (self.count or 1)


@dataclass(slots=True)
class ActiveFault:
    """A fault of one running sandbox, and the calls that have matched it."""

    rule: Fault
    matched: int = 0
    allowed: float = 0.0
    """Of a rate limit: how many calls it allowed at `allowed_at`."""
    allowed_at: float = field(default_factory=time.monotonic)

    def of_call(self, call: Call) -> Fault | None:
        """The fault, if it applies to this call. Counts the match."""
        if not self.rule.matches(call):
            return None
        self.matched += 1
        if not self.rule.applies_to(self.matched):
            return None
        return self._over_limit() if self.rule.kind is FaultKind.RATE_LIMIT else self.rule

    def _over_limit(self) -> Fault | None:
        """A refusal with the seconds until the next call is allowed; None for a call that is."""
        seconds_each, now = 60 / self.rule.per_minute, time.monotonic()
        grown = (now - self.allowed_at) / seconds_each
        left = self.rule.burst if self.matched == 1 else min(self.allowed + grown, self.rule.burst)
        self.allowed, self.allowed_at = (left - 1 if left >= 1 else left), now
        if left >= 1:
            return None
        wait = (1 - left) * seconds_each
        changes = {"kind": FaultKind.STATUS, "status": 429, "retry_after_seconds": wait}
        return self.rule.model_copy(update=changes)


class ScriptedCall(BaseModel):
    """A tool call; a string as arguments is sent unchanged, valid JSON or not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)

    def call(self) -> ToolCall:
        """The call as the model answers it."""
        if isinstance(self.arguments, str):
            return ToolCall(self.name, self.arguments)
        return ToolCall(
            self.name, json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"))
        )


class ScriptedAnswer(Rule):
    """An answer that replaces the model's for the next matching requests."""

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
            body = error_body(self.error, "scripted", None)
            raise RefusedError(self.status, body, retry_after(self.retry_after_seconds))
        text = self.content if isinstance(self.content, str) else json.dumps(self.content)
        return Answer(text, tuple(call.call() for call in self.tool_calls))


def retry_after(seconds: float | None) -> dict[str, str]:
    return {} if seconds is None else {"retry-after": f"{seconds:g}"}


BROKEN_JSON = '{"broken'


def _with_broken_json(answer: Answer) -> Answer:
    if answer.calls:
        return Answer(answer.text, tuple(ToolCall(call.name, BROKEN_JSON) for call in answer.calls))
    is_json = answer.text.startswith("{")
    return Answer(answer.text[: len(answer.text) // 2] if is_json else BROKEN_JSON)


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


@dataclass(slots=True)
class Controls:
    """The meter and the test controls of one running sandbox."""

    meter: Meter = field(default_factory=Meter)
    faults: list[ActiveFault] = field(default_factory=list)
    scripts: list[ScriptedAnswer] = field(default_factory=list)
    """Those to come, in order."""
    keys: IdempotencyKeys = field(default_factory=IdempotencyKeys)

    def faults_of(self, call: Call) -> list[Fault]:
        """The faults that apply to this call. Counts the matches."""
        return [fault for each in self.faults if (fault := each.of_call(call)) is not None]

    def next_script(self, call: Call) -> ScriptedAnswer | None:
        """The first script that matches. Counts it as used once."""
        for place, script in enumerate(self.scripts):
            if script.matches(call):
                left = script.times and script.times - 1
                again = [script.model_copy(update={"times": left})] if left != 0 else []
                self.scripts[place : place + 1] = again
                return script
        return None


@dataclass(frozen=True, slots=True)
class ControlledCall(Call):
    """A call with the faults that apply to it."""

    is_malformed: bool = False
    """Whether its answer's JSON is cut off."""
    usage: dict[str, int] = field(default_factory=dict)
    """That of the model's answer, as soon as there is one."""

    @property
    def usd(self) -> Decimal:
        """The price of the answered call."""
        if self.kind == "llm":
            return tokens_usd(self.usage)
        if self.kind == "embedding":
            return embedding_usd(sum(map(count_tokens, self.body["input"])))
        return operation_usd(self.kind, self.body)


class ControlledHandler(CallHandler):
    """Answers as the scripts and faults of its controls say, and counts answered calls in their meter."""

    def __init__(self, latency_seconds: float = 0.0, pace_seconds: float = 0.0) -> None:
        super().__init__(latency_seconds, pace_seconds)
        self.controls = Controls()

    def more_routes(self) -> list[Route]:
        """Those under /control, of embeddings, and of the Responses API."""
        from tests.support.sandbox.responses import responses_routes

        routes = [*control_routes(self.controls), *responses_routes(self)]
        return [*routes, embedding_route(self)]

    def complete(self, call: Call) -> tuple[Answer, dict[str, int]]:
        """The scripted answer if there is one, else the model's, corrupted as the call says."""
        assert isinstance(call, ControlledCall)
        request, script = ChatRequest(call.body), self.controls.next_script(call)
        answer = script.answer() if script else answer_request(request)
        if call.is_malformed:
            answer = _with_broken_json(answer)
        answer, usage = cut_off(call, answer)
        call.usage.update(usage)
        return answer, usage

    async def send(self, request: Request, call: Call, endpoint: Endpoint) -> Response:
        make = partial(self._reply, call, endpoint)
        return await self.controls.keys.answer_once(request, call, make)

    async def _reply(self, call: Call, endpoint: Endpoint) -> PiecesResponse:
        controls, faults = self.controls, self.controls.faults_of(call)
        await asyncio.sleep(self.latency_seconds + sum(each.latency_seconds for each in faults))
        apply_error_faults(faults, endpoint.error_shape)
        controlled = controlled_call(call, faults)
        reply = await endpoint.respond(controlled)
        if call.kind not in ("llm", "embedding") and controlled.is_malformed:
            reply = Reply(tuple(piece[: len(piece) // 2] for piece in reply.pieces))
        controls.meter.bill(call, controlled.usd)
        return PiecesResponse(reply, send_options(faults, self.pace_seconds))


def controlled_call(call: Call, faults: Iterable[Fault]) -> ControlledCall:
    is_malformed = any(fault.kind is FaultKind.MALFORMED_JSON for fault in faults)
    return ControlledCall(call.kind, call.path, call.body, call.phase, is_malformed)


def send_options(faults: Iterable[Fault], pace_seconds: float = 0.0) -> SendOptions:
    """How the reply is sent, given its faults."""
    faults_by_kind = {fault.kind: fault for fault in faults}
    stall = faults_by_kind.get(FaultKind.STALL)
    return SendOptions(
        is_cut_off=FaultKind.CUT in faults_by_kind,
        pace_seconds=pace_seconds,
        stall_seconds=stall.stall_seconds if stall else 0.0,
    )


def apply_error_faults(
    faults: Iterable[Fault], error_shape: Callable[[str], Mapping[str, Any]]
) -> None:
    """Raise RefusedError if a fault asks for an error status."""
    for fault in faults:
        if fault.kind is FaultKind.STATUS:
            message = f"The sandbox was configured to answer with status {fault.status}."
            headers = retry_after(fault.retry_after_seconds)
            raise RefusedError(fault.status, error_shape(message), headers)


def control_routes(controls: Controls) -> list[Route]:
    """The routes under /control."""

    async def meter(_: Request) -> Response:
        return JSONResponse({**controls.meter.as_json(), "replayed": controls.keys.replayed})

    async def reset(_: Request) -> Response:
        controls.meter, controls.keys = Meter(), IdempotencyKeys()
        controls.faults.clear()
        controls.scripts.clear()
        return JSONResponse({"reset": True})

    async def script(request: Request) -> Response:
        return await _add(request, ScriptedAnswer, controls.scripts.extend)

    async def faults(request: Request) -> Response:
        return await _add(request, Fault, lambda new: controls.faults.extend(map(ActiveFault, new)))

    async def keys(request: Request) -> Response:
        def obey(rules: list[KeyRule]) -> None:
            controls.keys.is_enabled = rules[-1].heeded

        return await _add(request, KeyRule, obey)

    async def state(_: Request) -> Response:
        faults = [
            {**each.rule.model_dump(mode="json"), "matched": each.matched}
            for each in controls.faults
        ]
        return JSONResponse({"faults": faults})

    return [
        Route("/control", state, methods=["GET"]),
        Route("/control/meter", meter, methods=["GET"]),
        Route("/control/reset", reset, methods=["POST"]),
        Route("/control/script", script, methods=["POST"]),
        Route("/control/faults", faults, methods=["POST"]),
        Route("/control/keys", keys, methods=["POST"]),
    ]


Body = TypeVar("Body", bound=BaseModel)


async def _add(request: Request, form: type[Body], add: Callable[[list[Body]], None]) -> Response:
    """Parse one rule or a list of them and add them."""
    body = await request.body()
    whole = body if body.lstrip().startswith(b"[") else b"[%b]" % body
    rules = TypeAdapter(list[form]).validate_json(whole)  # type: ignore[valid-type]  # a type known at run time
    add(rules)
    return JSONResponse({"added": len(rules)})
