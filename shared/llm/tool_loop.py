"""The tool loop: the model calls the tools of its phase until it answers without a tool call."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Protocol
from uuid import UUID

from shared.llm.answers import LIMIT_REASON
from shared.llm.corrections import CallMaterial, Correction
from shared.llm.embeddings import Embeddings
from shared.llm.ledgered_model import Reading, StreamListener
from shared.llm.messages import ChatAnswer, ChatRequest, assistant_message
from shared.llm.phase_run import PhaseRun
from shared.llm.repair import Repairs
from shared.llm.tool_calls import normalize_tool_calls
from shared.llm.toolset import (
    CallPreview,
    CallReader,
    Calls,
    ShortIds,
    ToolResults,
    Toolset,
    ToolUse,
    is_paid,
)
from shared.tools import Json, StateTool, Tool, ToolPolicy, declaration

MAX_TOOL_ROUNDS = 10
MAX_REPEATED_ROUNDS = 2
"""Consecutive rounds that bring nothing new. After so many, or one where a fallback is needed, no tool may be called."""
MAX_REFUSED_ROUNDS_BEFORE_FALLBACK, MAX_REFUSED_ROUNDS = 3, 6
"""Consecutive rounds of refused calls alone, after which no tool is offered any more: with and without a fallback."""

_ROUNDS_USED_UP: Final = (
    f"All {MAX_TOOL_ROUNDS} rounds of tool calls are used up. Answer now with what you have."
)
_REPEATING: Final = "You make the same tool calls again, and their results stay the same. Answer now with what you have."
_ONLY_REFUSED: Final = f"The tool calls of {MAX_REFUSED_ROUNDS} rounds were all refused. Answer now with what you have."


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


FALLBACK: Final = "fallback"
"""The key under which its calls are recorded."""


class Fallback(Protocol):
    """Makes the tool calls of a phase whose model made none that worked. It decides from the tool results alone."""

    @property
    def repair(self) -> str:
        """What is done and why. It is recorded as a repair."""

    def is_needed(self, loop: "ToolLoop") -> bool: ...

    async def find_calls(self, run: PhaseRun) -> Calls:
        """May request another answer of the model. A resumed run must find the same calls."""


@dataclass(frozen=True, kw_only=True)
class _ToolReading(Reading):
    """An answer with its tool calls, which are validated when they are used."""

    reader: CallReader
    raw_answer: ChatAnswer
    is_ignored: bool = False
    """Whether the answer has calls alone, although no tool may be called."""

    @cached_property
    def uses(self) -> Sequence[ToolUse]:
        return self.reader.read(self.call_id, self.raw_answer, self.answer)


class RoundLimits:
    """Counts rounds of tool calls that bring nothing new, or are all refused."""

    def __init__(self, tools: Toolset, results: ToolResults) -> None:
        self._tools = tools
        self._results = results
        self._repeated = 0
        self._refused = 0

    def count(self, uses: Sequence[ToolUse]) -> None:
        """Counts the round of these calls, which were executed."""
        is_repeated = all(map(self._tools.is_repeated, uses))
        self._repeated = self._repeated + 1 if is_repeated else 0
        is_refused = all(map(self._results.is_refused, uses))
        self._refused = self._refused + 1 if is_refused else 0

    def end_message(self, rounds_left: int, *, needs_fallback: bool) -> str | None:
        """Why the loop must end after this round; None if it may go on."""
        if rounds_left == 0:
            return _ROUNDS_USED_UP
        if self._repeated >= (1 if needs_fallback else MAX_REPEATED_ROUNDS):
            return _REPEATING
        limit = MAX_REFUSED_ROUNDS_BEFORE_FALLBACK if needs_fallback else MAX_REFUSED_ROUNDS
        return _ONLY_REFUSED if self._refused >= limit else None


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
        short_ids: ShortIds | None = None,
        preview: CallPreview | None = None,
        correction: CallMaterial | None = None,
    ) -> None:
        """With `must_act` the first answer must call a tool, if the server supports that.

        Results of state tools are shown with `short_ids`. A loop that code ends requests a last answer, without tools.
        With a `fallback` it ends without text instead, and its calls are the loop's last ones. With a `correction`, the
        model corrects what was refused beside a call that ends the phase in one request without the conversation.
        """
        self._run = run
        self._listener = listener
        self._must_act = must_act
        self._review = review
        self._fallback = fallback
        self._declared = {tool.name: tool for tool in tools}
        self._results = ToolResults(run)
        self._reader = CallReader(run, self._declared, self._results, guard)
        self.embeddings = Embeddings(run, run.embedder) if run.embedder else None
        self._tools = Toolset(
            run, self._results, self.embeddings, short_ids, self._is_ended, preview
        )
        self._limits = RoundLimits(self._tools, self._results)
        self._uses: Sequence[ToolUse] = ()
        """The calls of the round."""
        self._is_finished = False
        """Whether a tool that ends the phase was called."""
        self._material = correction
        self._correction: Correction | None = None
        """What the model was requested to correct."""
        self._has_fallen_back = False
        self.has_followed_up = False
        """Whether the review has rejected a final answer."""
        self.broke_off = False
        """Whether the last answer is text that reached its token limit."""

    async def run(self) -> str:
        """Runs the tools that the model calls until it answers without one. Returns that text."""
        text = await self._run_rounds()
        if self._needs_fallback:
            assert self._fallback is not None
            calls = await self._fallback.find_calls(self._run)
            self._has_fallen_back = True
            await self._use_own(ChatRequest("", ()), self._fallback.repair, calls, FALLBACK, 0)
        return text

    @property
    def has_fallen_back(self) -> bool:
        """Whether the calls of the fallback were made, also before an interruption."""
        return any(key.startswith(f"{FALLBACK}/") for key in self._results.by_key)

    @property
    def all_results(self) -> list[Json]:
        """The results of all calls so far, in call order, with refusals."""
        return self._results.reached

    def results_of(self, tool: str) -> list[Json]:
        """Returns the results of `tool` so far, in call order, without refusals."""
        return self._results.of_tool(tool)

    async def _run_rounds(self) -> str:
        declared = [declaration(tool) for tool in self._declared.values()]
        request = await self._run.begin(declared, must_act=self._must_act)
        self._results.remember(self._run.stored.events)
        if self._run.is_resumed:
            await self._tools.resume()
        for rounds_left in reversed(range(MAX_TOOL_ROUNDS)):
            reading = await self._next_answer(request)
            text = reading.answer.text
            if reading.answer.tool_calls:
                following = await self._use_tools(
                    request, reading.answer, reading.uses, rounds_left
                )
                if following is None:
                    return text
                request = following
            elif (follow_up := self._follow_up(text)) is None:
                return text
            else:
                self.has_followed_up = True
                following = await self._use_own(
                    request, follow_up.repair, follow_up.calls, str(reading.call_id), None
                )
                assert following is not None, "only the model's own calls end a loop"
                request = following
        if request.allows_tools:
            request = request.refusing_tools({"role": "user", "content": _ROUNDS_USED_UP})
        reading = await self._next_answer(request, is_last=True)
        return reading.answer.text

    async def _next_answer(self, request: ChatRequest, *, is_last: bool = False) -> _ToolReading:
        """Returns the answer with its calls.

        Where no tool may be called any more, calls are dropped, and a call that is written as text is the answer's text. A
        server that ignores that, and answers with calls alone, is asked once more without tools. `is_last`: whatever the
        answer is, it ends the run.
        """

        def read(call_id: UUID, raw_answer: ChatAnswer) -> _ToolReading:
            if request.allows_tools:
                answer = normalize_tool_calls(raw_answer, self._declared, request.messages)
            else:
                answer = replace(raw_answer, message=assistant_message(raw_answer.text, []))
            calls = answer.tool_calls
            has_only_calls = bool(raw_answer.tool_calls) and not raw_answer.text.strip()
            is_ignored = has_only_calls and bool(request.tools) and not request.allows_tools
            ends = is_last or not (calls or self._follow_up(answer.text) or self._needs_fallback)
            reading = _ToolReading(
                answer=answer,
                call_id=call_id,
                is_last=ends and not is_ignored,
                reader=self._reader,
                raw_answer=raw_answer,
                is_ignored=is_ignored,
            )
            if not any(is_paid(self._declared.get(call.name)) for call in calls):
                return reading
            requests = [use.request for use in reading.uses]
            return replace(reading, following=[each for each in requests if each is not None])

        reading = await self._run.model.answer(request, read, listener=self._listener)
        if reading.is_ignored:
            return await self._next_answer(request.without_tools(), is_last=is_last)
        answer = reading.answer
        self.broke_off = answer.finish_reason == LIMIT_REASON and not answer.tool_calls
        return reading

    @property
    def _needs_fallback(self) -> bool:
        if self._fallback is None or self._has_fallen_back:
            return False
        return self._fallback.is_needed(self)

    def _follow_up(self, text: str) -> FollowUp | None:
        if self._review is None or self.has_followed_up:
            return None
        return self._review(text, self)

    async def _use_own(
        self, request: ChatRequest, repair: str, calls: Calls, key: str, rounds_left: int | None
    ) -> ChatRequest | None:
        """Runs calls that code makes, recorded under `key`; the rest is as in `_use_tools`."""
        await self._run.record_repairs(str(self._run.phase), Repairs([repair]), key=f"{key}/early")
        answer, uses = self._reader.own(calls, key, request.messages)
        return await self._use_tools(request, answer, uses, rounds_left)

    async def _use_tools(
        self,
        request: ChatRequest,
        answer: ChatAnswer,
        uses: Sequence[ToolUse],
        rounds_left: int | None,
    ) -> ChatRequest | None:
        """Run the calls and return the next request; None if the loop has ended, and the run is complete.

        `rounds_left`: rounds after this one; None for calls of a review.
        """
        run, results = self._run, self._results
        if self._correction is not None and uses:
            repeated = self._correction.repeated(uses)
            _, own = self._reader.own(repeated, f"{uses[0].key}/waiting", request.messages)
            uses = [*uses, *own]
        self._uses = uses = await self._guarded_again(uses)
        self._is_finished = self._is_finished or any(map(_ends_work, uses))
        for use in uses:
            await run.record_repairs(use.call.name, use.repairs, key=use.key)
        results.begin_round(uses)
        fresh = [use for use in uses if use.key not in results.by_key]
        async with self._tools.execute(fresh) as transaction:
            following = self._following(request, answer, rounds_left)
            if following is None and not self._needs_fallback:
                run.complete()
            elif following is not None and transaction is not None:
                run.paid_calls.open_call(following.call)
        if transaction is None and following is None:
            await run.unit.commit_if_immediate()
        results.end_round(uses)
        return following

    async def _guarded_again(self, uses: Sequence[ToolUse]) -> Sequence[ToolUse]:
        """The calls of an answer. What the policy refused is judged again after the others that are paid for."""
        paid = [use for use in uses if use.request is not None]
        if not paid or not any(use.refused_arguments for use in uses):
            return uses
        self._results.begin_round(uses)
        async with self._tools.execute(
            [use for use in paid if use.key not in self._results.by_key]
        ):
            return [self._reader.guard_again(use) for use in uses]

    def _following(
        self, request: ChatRequest, answer: ChatAnswer, rounds_left: int | None
    ) -> ChatRequest | None:
        """The next request; None if the calls end the loop."""
        replied = self._run.model.refused_pages.without(
            request.following(answer.message, *map(self._tools.reply, self._uses))
        )
        self._limits.count(self._uses)
        if rounds_left is None:
            return replied
        if self._is_ended():
            return None
        if self._is_waiting_for_corrections and self._material is not None and rounds_left:
            return self._correction_request()
        message = self._limits.end_message(rounds_left, needs_fallback=self._needs_fallback)
        if message is None:
            return replied
        end = replied.refusing_tools({"role": "user", "content": message})
        return end if self._fallback is None else None

    def _is_ended(self) -> bool:
        """Whether the calls of the round end the phase: the model has ended it, and there is nothing to correct or to show.

        A call that only reads is made for its result, also beside one that ends the phase. If it repeats one of the round
        before, it brings nothing new.
        """
        if self._correction is not None:
            return True
        if not self._is_finished or self._is_waiting_for_corrections:
            return False
        return not self._has_read

    @property
    def _has_read(self) -> bool:
        return any(_only_reads(use) and not self._tools.is_repeated(use) for use in self._uses)

    @property
    def _is_waiting_for_corrections(self) -> bool:
        """Whether the phase has ended but for refused calls, which the model may correct."""
        return self._is_finished and not self._has_read and self._find_correction() is not None

    def _find_correction(self) -> Correction | None:
        # Where nothing was written, also what would be left out is corrected.
        return Correction.of(self._uses, self._results.by_key, includes_final=self._needs_fallback)

    def _correction_request(self) -> ChatRequest:
        """The request to correct the refused calls of the round, with the tools that these need."""
        self._correction = correction = self._find_correction()
        assert correction is not None
        assert self._material is not None
        replies = [json.loads(self._tools.reply(use)["content"]) for use in correction.refused]
        message = correction.message(replies, self._material(correction.refused))
        tools = [
            declaration(tool)
            for tool in self._declared.values()
            if tool.name in correction.tools or _ends(tool)
        ]
        request = self._run.fresh_request(message, tools=tools)
        return self._run.model.refused_pages.without(request)


def _only_reads(use: ToolUse) -> bool:
    return isinstance(use.tool, StateTool) and use.tool.only_reads


def _ends_work(use: ToolUse) -> bool:
    return use.tool is not None and _ends(use.tool)


def _ends(tool: Tool) -> bool:
    return isinstance(tool, StateTool) and tool.ends_work
