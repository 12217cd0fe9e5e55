"""The tool loop: the model calls the tools of its phase until it answers without a tool call."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Final, Protocol, TypeGuard
from uuid import UUID

from pydantic import ValidationError

from shared.billing.call_ledger import CallRequest
from shared.billing.embedding_cache import EmbeddingRequest
from shared.billing.resumable_call import ResumableCall
from shared.database.statements import Executor, RoundTrip, Transaction
from shared.enums import CallKind
from shared.errors import VigilError
from shared.failpoints import Failpoint, failpoint
from shared.llm.answers import LIMIT_REASON
from shared.llm.embeddings import Embeddings
from shared.llm.messages import (
    ChatAnswer,
    ChatRequest,
    Message,
    ToolCall,
    assistant_message,
    with_unique_ids,
)
from shared.llm.phase_run import PhaseRun, StreamListener
from shared.llm.refused_pages import RefusedPages, is_filtered
from shared.llm.repair import Repairs
from shared.llm.state_calls import StateCall, ask_state_calls
from shared.llm.tool_calls import call_repairs, normalize_tool_calls, parse_arguments
from shared.telemetry import tracing
from shared.tools import (
    INTERPRETATIONS_KEY,
    RECALLED_KEY,
    Arguments,
    Json,
    OrderedTool,
    PaidTool,
    Refusal,
    StateTool,
    Tool,
    ToolPolicy,
    ToolRefusalError,
    declaration,
)

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True)


def reply(call: ToolCall, result: Json) -> Message:
    """Returns the message with a tool's result for the model."""
    return {
        "role": "tool",
        "tool_call_id": call.id,
        # Sorted, because PostgreSQL reorders keys: a resumed run must send the same bytes, or it pays again.
        "content": _ENCODER.encode(result),
    }


def faults(tool: str, error: ValidationError) -> str:
    """Explains to the model what is wrong with the arguments of a tool."""
    messages = "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'arguments'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)[:10]
    )
    return f"the arguments of {tool} do not fit: {messages}. Correct them and call again"


MAX_TOOL_ROUNDS = 10
MAX_CALLS_AT_ONCE = 128
"""Tool calls of one answer that are run. Further ones are refused."""

_ROUNDS_USED_UP = (
    f"All {MAX_TOOL_ROUNDS} rounds of tool calls are used up. Answer now with what you have."
)


MAX_REPEATED_ROUNDS = 2
"""Consecutive rounds that bring nothing new. After so many, or one where a fallback is needed, no tool may be called."""
MAX_REFUSED_ROUNDS_BEFORE_FALLBACK, MAX_REFUSED_ROUNDS = 3, 6
"""Consecutive rounds of refused calls alone, after which no tool is offered any more: with and without a fallback."""

_REPEATING = "You make the same tool calls again, and their results stay the same. Answer now with what you have."
_ONLY_REFUSED = f"The tool calls of {MAX_REFUSED_ROUNDS} rounds were all refused. Answer now with what you have."

_SAME_RESULT: Final[Json] = {
    "note": "This very call was made before, and its result is above: use that, make another call, or answer."
}

_REFUSED_BEFORE = "This very call was refused before: do something else first, or go on without it."


_TOO_MANY_CALLS = (
    f"only the first {MAX_CALLS_AT_ONCE} tool calls of an answer are made, and this is a later one; make it again if it "
    "is still needed"
)


Calls = Sequence[tuple[str, Json]]
"""Names and arguments of tool calls."""


@dataclass(frozen=True)
class FollowUp:
    """The reaction, once per run, to a final answer that came too early: tool calls of the phase itself.

    The calls are run, paid for and recorded as if the model had made them instead of answering.
    """

    repair: str
    """What is done and why. It is recorded as a repair."""
    calls: Calls


Review = Callable[[str, "ToolLoop"], FollowUp | None]
"""Reviews the final answer of a phase; None accepts it. It must decide from the answer and the tool results alone, so that
a resumed run decides the same."""


class Fallback(Protocol):
    """Makes the tool calls of a phase whose model made none that worked. It decides from the tool results alone."""

    @property
    def repair(self) -> str:
        """What is done and why. It is recorded as a repair."""

    def is_needed(self, loop: "ToolLoop") -> bool: ...

    async def find_calls(self, run: PhaseRun) -> Calls:
        """May request another answer of the model. A resumed run must find the same calls."""


@dataclass(frozen=True)
class _ToolUse:
    """A tool call, with its validated arguments or the reason why it is refused."""

    key: str
    call: ToolCall
    tool: Tool | None
    arguments: Arguments | None
    refusal: str | None
    repairs: Repairs = field(default_factory=Repairs)
    note: str | None = None
    """What was refused of the call, whose other part is made."""
    is_written: bool = True
    """Whether the call is in the recorded answer. Other calls are recorded with their arguments."""

    @property
    def request(self) -> CallRequest | None:
        """The ledger request of a paid call; None if the call is free or refused."""
        if not _is_paid(self.tool) or self.arguments is None:
            return None
        content = {"tool": self.tool.name, **self.arguments.model_dump(mode="json", by_alias=True)}
        return CallRequest(CallKind.SEARCH, content, content, operation=self.tool.operation)

    @property
    def embedding_request(self) -> EmbeddingRequest | None:
        if not isinstance(self.tool, StateTool) or self.arguments is None:
            return None
        return self.tool.embedding_request(self.arguments)


class ShortNames(Protocol):
    """Short names that the model sees in place of ids."""

    async def number(self, session: Executor, texts: Iterable[str]) -> None:
        """Names the ids in `texts`."""

    async def load(self, session: Executor, texts: Iterable[str]) -> None:
        """Looks up the names in `texts`, which were shown before."""

    def shorten(self, text: str) -> str: ...


class ToolLoop:
    """Runs a phase to its final answer. A tool's result is committed with its effect, so a resumed run repeats no call."""

    def __init__(
        self,
        run: PhaseRun,
        tools: Sequence[Tool],
        listener: StreamListener | None = None,
        *,
        guard: ToolPolicy | None = None,
        must_act: bool = False,
        review: Review | None = None,
        fallback: Fallback | None = None,
        short_names: ShortNames | None = None,
    ) -> None:
        """With `must_act` the first answer must call a tool, if the server supports that.

        Results of state tools are shown with `short_names`. A loop that code ends requests a last answer, without tools.
        With a `fallback` it ends without text instead, and its calls are the loop's last ones.
        """
        self._must_act = must_act
        self._fallback = fallback
        self._has_fallen_back = False
        self._short_names = short_names
        self._review = review
        self._run = run
        self._listener = listener
        self._guard = guard
        self._tools = {tool.name: tool for tool in tools}
        self._results: dict[str, Json] = {}
        self._names: dict[str, str] = {}
        self._recorded: set[str] = set()
        self._reached: dict[str, None] = {}
        """Keys of the calls that the run has reached, in call order. Concurrent calls may end in another order."""
        self._refused: set[tuple[str, str]] = set()
        """Name and arguments of the calls that were refused so far."""
        self._has_followed_up = False
        self._paid_for: Counter[tuple[str, str]] = Counter()
        """How many earlier rounds answered a paid call, by name and request."""
        self._shown_results: dict[str, Json | None] = {}
        """By key of the call; None if all of it was shown before."""
        self._shown_records: dict[str, Json] = {}
        """By key of the call, what an interrupted run recorded of what it showed."""
        self._refused_pages = RefusedPages(run)
        self._is_finished = False
        """Whether a tool that ends the phase was called."""
        self._last_calls: frozenset[tuple[str, str]] = frozenset()
        """Names and arguments of the calls of the round before."""
        self._repeated_rounds = 0
        self._refused_rounds = 0
        self.broke_off = False
        """Whether the last answer is text that reached its token limit."""
        self.embeddings = Embeddings(run, run.embedder) if run.embedder else None

    async def run(self) -> str:
        """Runs the tools that the model calls until it answers without one. Returns that text."""
        text = await self._run_rounds()
        if self._needs_fallback():
            await self._run_fallback()
        return text

    async def _run_rounds(self) -> str:
        declared = [declaration(tool) for tool in self._tools.values()]
        request = await self._run.begin(declared, must_act=self._must_act)
        self._remember(self._run.interaction.events)
        if self._run.is_resumed and self._short_names is not None:
            async with self._run.transaction() as session:
                await self._short_names.load(session, [self._run.first_message])
                await self._short_names.number(
                    session, map(_ENCODER.encode, self._results.values())
                )
        for rounds_left in reversed(range(MAX_TOOL_ROUNDS)):
            answer_id, raw_answer, answer = await self._next_answer(request)
            if answer.tool_calls:
                uses = self._parse_uses(answer_id, raw_answer, answer)
                following = await self._use_tools(request, answer, uses, rounds_left=rounds_left)
                if following is None:
                    return answer.text
                request = following
            elif (follow_up := self._follow_up(answer)) is None:
                return answer.text
            else:
                request = await self._apply_follow_up(request, answer_id, follow_up)
        if request.allows_tools:
            request = request.refusing_tools({"role": "user", "content": _ROUNDS_USED_UP})
        _, _, answer = await self._next_answer(request, is_last=True)
        return answer.text

    async def _next_answer(
        self, request: ChatRequest, *, is_last: bool = False
    ) -> tuple[UUID, ChatAnswer, ChatAnswer]:
        """Returns the answer's call id, the server's answer, and the answer with normalized tool calls.

        Where no tool may be called any more, calls are dropped, and a call that is written as text is the answer's text. A
        server that ignores that, and answers with calls alone, is asked once more without tools. `is_last`: whatever the
        answer is, it ends the run.
        """
        raw_answers: list[ChatAnswer] = []

        def normalize(answer: ChatAnswer) -> ChatAnswer:
            raw_answers.append(answer)
            if request.allows_tools:
                return normalize_tool_calls(answer, self._tools, request.messages)
            return replace(answer, message=assistant_message(answer.text, []))

        def is_ignored() -> bool:
            raw_answer = raw_answers[-1]
            has_calls = bool(raw_answer.tool_calls) and not raw_answer.text.strip()
            return has_calls and bool(request.tools) and not request.allows_tools

        try:
            answer_id, answer = await self._run.request_answer(
                self._refused_pages.without(request),
                is_last=lambda answer: not is_ignored() and (is_last or self._ends(answer)),
                paid_calls=self._paid_calls,
                listener=self._listener,
                normalize=normalize,
            )
        except VigilError as error:
            if not is_filtered(error) and not is_filtered(error.__cause__):
                raise
            sent = self._refused_pages.without(request)
            if not await self._refused_pages.leave_out(sent, error):
                raise
            return await self._next_answer(request, is_last=is_last)
        if is_ignored():
            return await self._next_answer(request.without_tools(), is_last=is_last)
        self.broke_off = answer.finish_reason == LIMIT_REASON and not answer.tool_calls
        return answer_id, raw_answers[-1], answer

    def _ends(self, answer: ChatAnswer) -> bool:
        is_final = not answer.tool_calls and self._follow_up(answer) is None
        return is_final and not self._needs_fallback()

    def _needs_fallback(self) -> bool:
        if self._fallback is None or self._has_fallen_back:
            return False
        return self._fallback.is_needed(self)

    async def _run_fallback(self) -> None:
        assert self._fallback is not None
        calls = await self._fallback.find_calls(self._run)
        self._has_fallen_back = True
        repairs = Repairs([self._fallback.repair])
        await self._run.record_repairs(str(self._run.phase), repairs, key="fallback/early")
        request = ChatRequest("", ())
        answer, uses = self._own_calls(request, calls, "fallback")
        await self._use_tools(request, answer, uses, rounds_left=0)

    def _own_calls(
        self, request: ChatRequest, calls: Calls, key: str
    ) -> tuple[ChatAnswer, list[_ToolUse]]:
        """Calls that code makes, and the answer in which the model would have made them. Recorded under `key`."""
        tool_calls = [
            ToolCall("", name, json.dumps(arguments, ensure_ascii=False))
            for name, arguments in calls
        ]
        message = with_unique_ids(assistant_message(None, tool_calls), request.messages)
        answer = ChatAnswer(message, "tool_calls")
        uses = [
            replace(self._use(call, f"{key}/{index}"), is_written=False)
            for index, call in enumerate(answer.tool_calls)
        ]
        return answer, uses

    def _follow_up(self, answer: ChatAnswer) -> FollowUp | None:
        if self._review is None or self._has_followed_up:
            return None
        return self._review(answer.text, self)

    async def _apply_follow_up(
        self, request: ChatRequest, answer_id: UUID, follow_up: FollowUp
    ) -> ChatRequest:
        self._has_followed_up = True
        repairs = Repairs([follow_up.repair])
        await self._run.record_repairs(str(self._run.phase), repairs, key=f"{answer_id}/early")
        own_answer, uses = self._own_calls(request, follow_up.calls, str(answer_id))
        following = await self._use_tools(request, own_answer, uses)
        assert following is not None, "only the model's own calls end a loop"
        return following

    @property
    def left_out(self) -> Collection[str]:
        """Addresses of pages that the model was not shown, because its provider refuses their text."""
        return self._refused_pages.urls

    @property
    def has_followed_up(self) -> bool:
        """Whether the review has rejected a final answer."""
        return self._has_followed_up

    def results_of(self, tool: str) -> list[Json]:
        """Returns the results of `tool` so far, in call order, without refusals.

        A resumed run has loaded later results too. They do not count until the run reaches their answers.
        """
        return [
            result
            for key in self._reached
            if self._names[key] == tool
            and (result := self._results.get(key)) is not None
            and "error" not in result
        ]

    def _paid_calls(self, answer: ChatAnswer) -> Sequence[CallRequest]:
        calls = answer.tool_calls[:MAX_CALLS_AT_ONCE]
        paid = [call for call in calls if _is_paid(self._tools.get(call.name))]
        uses = [self._use(call, "") for call in paid]
        return [request for use in uses if (request := use.request) is not None]

    async def _use_tools(
        self,
        request: ChatRequest,
        answer: ChatAnswer,
        uses: Sequence[_ToolUse],
        *,
        rounds_left: int | None = None,
    ) -> ChatRequest | None:
        """Run the calls and return the next request; None if the loop has ended, and the run is complete.

        `rounds_left`: rounds after this one; None for calls of a review.
        """
        for use in uses:
            await self._run.record_repairs(use.call.name, use.repairs, key=use.key)
        self._reached |= dict.fromkeys(use.key for use in uses)
        self._names |= {use.key: use.call.name for use in uses}
        fresh = [use for use in uses if use.key not in self._results]
        await self._pay_all([use for use in fresh if use.request is not None])
        embedding_requests = [use.embedding_request for use in fresh]
        await self._embed([embedding for embedding in embedding_requests if embedding is not None])

        calls = frozenset(map(_name_and_arguments, uses))

        @cache
        def following() -> ChatRequest | None:
            replied = self._refused_pages.without(
                request.following(answer.message, *map(self._reply, uses))
            )
            is_repeated = all(map(self._is_repeated, uses))
            self._repeated_rounds = self._repeated_rounds + 1 if is_repeated else 0
            is_refused = all(map(self._is_refused, uses))
            self._refused_rounds = self._refused_rounds + 1 if is_refused else 0
            if rounds_left is not None and self._ends_work(uses):
                return None
            if rounds_left is not None and (message := self._end_message(rounds_left)) is not None:
                end = replied.refusing_tools({"role": "user", "content": message})
                return end if self._fallback is None else None
            return replied

        if applied := [use for use in fresh if use.request is None]:
            await self._apply(applied, following)
        elif following() is None and not self._needs_fallback():
            self._run.complete()
            await self._run.commit_unless_waiting()
        next_request = following()
        self._last_calls = calls
        self._refused |= {_name_and_arguments(use) for use in uses if self._is_refused(use)}
        self._paid_for.update(
            {
                _name_and_arguments(use)
                for use in uses
                if _is_paid(use.tool) and not self._is_refused(use)
            }
        )
        return next_request

    def _ends_work(self, uses: Sequence[_ToolUse]) -> bool:
        """Whether the calls end the phase. A refused call does not: the model may correct it."""
        ending = [use for use in uses if isinstance(use.tool, StateTool) and use.tool.ends_work]
        self._is_finished = self._is_finished or bool(ending)
        return self._is_finished and not any(map(self._is_refused, uses))

    def _end_message(self, rounds_left: int) -> str | None:
        """Why the loop must end after this round; None if it may go on."""
        if rounds_left == 0:
            return _ROUNDS_USED_UP
        needs_fallback = self._needs_fallback()
        if self._repeated_rounds >= (1 if needs_fallback else MAX_REPEATED_ROUNDS):
            return _REPEATING
        limit = MAX_REFUSED_ROUNDS_BEFORE_FALLBACK if needs_fallback else MAX_REFUSED_ROUNDS
        return _ONLY_REFUSED if self._refused_rounds >= limit else None

    def _is_refused(self, use: _ToolUse) -> bool:
        return "error" in self._results[use.key]

    def _is_repeated(self, use: _ToolUse) -> bool:
        """Whether the call brings nothing new: it is one of the round before, is refused again, or all that was paid for
        it was shown before.
        """
        if _is_paid(use.tool) and not self._is_refused(use):
            return self._shown(use) is None
        call = _name_and_arguments(use)
        return call in self._last_calls or (self._is_refused(use) and call in self._refused)

    def _reply(self, use: _ToolUse) -> Message:
        shown = self._shown(use)
        shown = _SAME_RESULT if shown is None else shown
        message = reply(use.call, {**shown, "refused": use.note} if use.note else shown)
        if self._short_names is not None and not _is_paid(use.tool):
            message["content"] = self._short_names.shorten(message["content"])
        return message

    def _shown(self, use: _ToolUse) -> Json | None:
        """What the model is shown of the result. None if it was paid for, and shown, before."""
        if use.key not in self._shown_results:
            self._shown_results[use.key] = self._show(use)
        return self._shown_results[use.key]

    def _show(self, use: _ToolUse) -> Json | None:
        result, times = self._results[use.key], self._paid_for[_name_and_arguments(use)]
        if not isinstance(use.tool, PaidTool) or use.tool.show is None or "error" in result:
            return None if times else result
        record = self._shown_records.get(use.key)
        shown = use.tool.show(result, times, record)
        if record is None and shown.record is not None:
            # Committed before the next request, as the first one that has it.
            event = {"type": "shown", "key": use.key, "name": use.call.name, "record": shown.record}
            self._run.add_event(event)
        return shown.result

    def _parse_uses(
        self, answer_id: UUID, raw_answer: ChatAnswer, answer: ChatAnswer
    ) -> list[_ToolUse]:
        """Validates the calls of `answer`, which was normalized from `raw_answer`."""
        written = [call.arguments for call in raw_answer.tool_calls]
        call_notes = call_repairs(raw_answer, answer)
        uses = []
        for index, (call, repairs) in enumerate(zip(answer.tool_calls, call_notes, strict=True)):
            key = f"{answer_id}/{index}"
            if index < MAX_CALLS_AT_ONCE:
                use = self._use(call, key, repairs, written[index : index + 1])
            else:
                use = _ToolUse(key, call, None, None, _TOO_MANY_CALLS)
            uses.append(replace(use, is_written=bool(written)))
        return uses

    def _use(
        self,
        call: ToolCall,
        key: str,
        repairs: Repairs | None = None,
        written: Sequence[str] = (),
    ) -> _ToolUse:
        """`written` has the arguments as the server sent them, to report what is wrong if they cannot be parsed."""
        repairs = Repairs() if repairs is None else repairs
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools))
            return _ToolUse(
                key, call, None, None, f"there is no tool {call.name!r} here, only: {known}"
            )
        text = call.arguments
        if text == "{}" and written:
            [text] = written
        try:
            arguments = parse_arguments(tool, text, repairs)
        except ValidationError as error:
            return _ToolUse(key, call, tool, None, faults(call.name, error), repairs)
        refused = self._refusal(arguments)
        if refused is None:
            return _ToolUse(key, call, tool, arguments, None, repairs)
        if refused.remaining is None:
            return _ToolUse(key, call, tool, None, refused.reason, repairs)
        return _ToolUse(key, call, tool, refused.remaining, None, repairs, refused.reason)

    def _refusal(self, arguments: Arguments) -> Refusal | None:
        if self._guard is None:
            return None
        earlier = [result for result in self._results.values() if "error" not in result]
        return self._guard(self._run.first_message, arguments, earlier)

    async def _pay_all(self, uses: Sequence[_ToolUse]) -> None:
        """Makes each distinct call once, all of them concurrently."""
        by_hash: dict[str, list[_ToolUse]] = {}
        for use in uses:
            assert use.request is not None
            by_hash.setdefault(use.request.hash, []).append(use)
        await _wait_for_all(map(self._pay, by_hash.values()))

    async def _embed(self, requests: Sequence[EmbeddingRequest]) -> None:
        """Requests embeddings before the tools run, because a transaction must not wait for a model server."""
        if self.embeddings is not None:
            await _wait_for_all(map(self.embeddings.ensure_in_ledger, dict.fromkeys(requests)))

    async def _pay(self, uses: Sequence[_ToolUse]) -> None:
        """Makes one call for `uses`, which have the same request."""
        request = uses[0].request
        assert request is not None
        call = await self._run.paid_calls.get_call(request)
        result, is_recalled = call.answer, False
        if result is None:
            result = await _recall(uses[0])
            is_recalled = result is not None
        if result is None:
            with tracing.child(f"execute_tool {uses[0].call.name}", "client", _traced_tools(uses)):
                result = await self._run.send(call, partial(_call_paid_tool, uses[0]))

        def write() -> None:
            self._run.record_search(call, request, result, is_recalled=is_recalled)
            for use in unrecorded:
                self._record(use, {"call_id": str(call.id)})

        unrecorded = [use for use in uses if use.key not in self._recorded]
        if unrecorded:
            await self._run.record(write)
        self._results |= {use.key: result for use in uses}

    async def _apply(
        self, uses: Sequence[_ToolUse], following: Callable[[], ChatRequest | None]
    ) -> None:
        """Runs state tools and commits their effects, their results and the next call's record in one transaction."""
        calls = [StateCall(use.tool, use.arguments, use.refusal) for use in uses]
        trip = RoundTrip()
        run_calls = ask_state_calls(trip, self._run.lease.agent_id, calls)
        is_one = len({use.call.name for use in uses}) == 1
        name = f"execute_tool {_traced_name(uses[0])}" if is_one else "execute_tools"
        with tracing.child(name, attributes=_traced_tools(uses)) as span:
            await self._apply_in_transaction(trip, run_calls, uses, following)
            refused = sum(map(self._is_refused, uses))
            if span is not None and refused:
                span.add({"vigil.tool.refusals": refused})

    async def _apply_in_transaction(
        self,
        trip: RoundTrip,
        run_calls: Callable[[Transaction], Awaitable[list[Json]]],
        uses: Sequence[_ToolUse],
        following: Callable[[], ChatRequest | None],
    ) -> None:
        async with self._run.direct_transaction(trip) as transaction:
            effects = await run_calls(transaction)
            for use, effect in zip(uses, effects, strict=True):
                result = self._mark_repeated(use, effect)
                self._record(use, {"result": result})
                self._run.add_repairs(use.call.name, _interpretations(result), key=use.key)
                failpoint(Failpoint.TOOL_APPLIED)
                self._results[use.key] = result
            if not self._ends_work(uses):
                await self._name_ids(transaction, uses)
            if (request := following()) is not None:
                self._run.paid_calls.open_call(request.as_call())
            elif not self._needs_fallback():
                self._run.complete()

    async def _name_ids(self, session: Executor, uses: Sequence[_ToolUse]) -> None:
        if self._short_names is not None:
            texts = [_ENCODER.encode(self._results[use.key]) for use in uses]
            await self._short_names.number(session, texts)

    def _mark_repeated(self, use: _ToolUse, result: Json) -> Json:
        """Tells the model if the identical call was refused before. A weak model would repeat it endlessly."""
        if "error" not in result or (use.call.name, use.call.arguments) not in self._refused:
            return result
        return {**result, "error": f"{result['error']} {_REFUSED_BEFORE}"}

    def _record(self, use: _ToolUse, outcome: Json) -> None:
        event = {"type": "tool_result", "key": use.key, "name": use.call.name, **outcome}
        if not use.is_written:
            event["arguments"] = use.call.arguments
        self._run.add_event(event)

    def _remember(self, events: Sequence[Json]) -> None:
        """Restores the results of an interrupted run. Paid results are in the ledger, where `_pay` finds them."""
        for event in events:
            self._refused_pages.remember(event)
            if event["type"] == "shown":
                self._shown_records[event["key"]] = event["record"]
            elif event["type"] == "tool_result":
                self._recorded.add(event["key"])
                self._names[event["key"]] = event["name"]
                if "result" in event:
                    self._results[event["key"]] = event["result"]
                    self._run.repair_count += len(_interpretations(event["result"]))


def _traced_tools(uses: Sequence[_ToolUse]) -> tracing.Attributes:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": _traced_name(uses[0]),
        "vigil.tool.names": [_traced_name(use) for use in uses],
    }


def _traced_name(use: _ToolUse) -> str:
    """The model can call tools that do not exist by names of any length."""
    return use.call.name if use.tool is not None else "unknown"


def _is_paid(tool: Tool | None) -> TypeGuard[PaidTool[Any] | OrderedTool[Any]]:
    return isinstance(tool, PaidTool | OrderedTool)


def _interpretations(result: Json) -> Repairs:
    """Returns the tool's notes about how it interpreted ambiguous arguments."""
    return Repairs(list(result.get(INTERPRETATIONS_KEY, ())))


async def _wait_for_all(calls: Iterable[Awaitable[None]]) -> None:
    """Waits for all calls, then raises the first error. An abandoned call would stay unrecorded and be paid for again."""
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if outcome is not None:
            raise outcome


async def _recall(use: _ToolUse) -> Json | None:
    """An earlier answer to the same call that still holds."""
    if not isinstance(use.tool, PaidTool) or use.tool.recall is None:
        return None
    answer = await use.tool.recall(use.arguments)
    return None if answer is None else {**answer, RECALLED_KEY: True}


async def _call_paid_tool(use: _ToolUse, in_flight: ResumableCall) -> Json:
    try:
        return await _send_paid_call(use, in_flight)
    except ToolRefusalError as refusal:
        return {"error": str(refusal)}


def _name_and_arguments(use: _ToolUse) -> tuple[str, str]:
    """Of a paid call, the same for the same request however it is written."""
    request = use.request
    return use.call.name, use.call.arguments if request is None else request.hash


async def _send_paid_call(use: _ToolUse, in_flight: ResumableCall) -> Json:
    tool = use.tool
    if isinstance(tool, OrderedTool):
        return await in_flight.resume_or_start(partial(_order, use, in_flight), tool.collect)
    assert isinstance(tool, PaidTool)
    async with in_flight.attempt():
        return await tool.call(use.arguments)


async def _order(use: _ToolUse, in_flight: ResumableCall, _: str) -> str:
    assert isinstance(use.tool, OrderedTool)
    async with in_flight.attempt():
        return await use.tool.order(use.arguments)
