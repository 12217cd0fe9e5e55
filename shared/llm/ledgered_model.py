"""Answers of the models of one phase run, each recorded and paid for once, by the first model that can be used.

A call that the ledger has an answer for is not sent again, so a run can be resumed at any point.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Final, NoReturn, Protocol, TypeVar
from uuid import UUID

from shared.billing import call_ledger
from shared.billing.call_ledger import CallAnswer, CallRecord, CallRequest
from shared.billing.token_lengths import estimate_tokens
from shared.database import ids
from shared.errors import PermanentError, UnavailableError, VigilError
from shared.llm.answer_errors import AnswerError, FailureKind, Usage
from shared.llm.context_limit import CONTEXT_CUT, CONTEXT_TOO_SMALL, find_cut
from shared.llm.messages import ChatAnswer, ChatRequest, ToolCall, encode_json
from shared.llm.model_server import REFUSED_CONTENT, REFUSED_REQUEST
from shared.llm.paid_calls import CallSender, RunJournal
from shared.llm.provider import Model, OnDelta
from shared.llm.refused_pages import RefusedPages, is_filtered, may_be_filtered
from shared.llm.tool_calls import PARSERS, UNREAD, form_of_calls
from shared.schemas.iterations import SERVER_NOTE, UNREAD_CALLS
from shared.telemetry import tracing

CANNOT_REPLACE: Final = frozenset(
    {REFUSED_REQUEST, REFUSED_CONTENT, CONTEXT_TOO_SMALL, CONTEXT_CUT, "llm_quota"}
)
"""Errors of a model in place of another: it cannot answer this request, as when its context is shorter, or no more requests.
"""
_LACKS_USAGE: Final = "lacks_usage"
"""Key of a recorded answer whose tokens are estimated."""


class StreamListener(Protocol):
    """Receives the output of a phase while it runs. An error that it raises ends the run."""

    async def on_delta(self, text: str) -> None:
        """Receives the whole text so far of the answer that is being streamed."""

    async def on_message(self, text: str, calls: Sequence[ToolCall]) -> None:
        """Receives a complete, recorded answer. A resumed run also passes the answers of the interrupted run."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """An answer as its phase uses it, and what follows from it."""

    call_id: UUID
    answer: ChatAnswer
    is_last: bool = False
    """Whether the answer ends the phase."""
    following: Sequence[CallRequest] = ()
    """Paid calls that the answer makes."""


R = TypeVar("R", bound=Reading)


def read_answer(call_id: UUID, answer: ChatAnswer) -> Reading:
    """Reads an answer that others follow."""
    return Reading(answer=answer, call_id=call_id)


def read_last_answer(call_id: UUID, answer: ChatAnswer) -> Reading:
    return Reading(answer=answer, call_id=call_id, is_last=True)


@dataclass(frozen=True)
class _Answered:
    """A model has answered."""

    answer: ChatAnswer
    record: CallAnswer


@dataclass(frozen=True)
class _PassedOver:
    """A model cannot be used now, and the next one is to answer. Nothing was sent, or what was sent was refused."""

    outage: str | None
    """Why, if it can answer the request later."""


class LedgeredModel:
    """Answers of the models of one phase run, each recorded and paid for once."""

    def __init__(
        self,
        model: Model,
        journal: RunJournal,
        sender: CallSender,
        names: Sequence[str],
        context: str,
    ) -> None:
        """`names` are those of the agent's models, the first one and those that may answer in its place. `context` is the
        part of the message with the graph.
        """
        self._model = model
        self._journal = journal
        self._sender = sender
        self._names = names
        self._context = context
        self.refused_pages = RefusedPages(
            journal, model.database, lambda request: self._answer(request, read_answer)
        )
        self.answered_by: str | None = None
        """The model that gave the last answer."""

    async def answer(
        self,
        request: ChatRequest,
        read: Callable[[UUID, ChatAnswer], R],
        *,
        listener: StreamListener | None = None,
        max_without_answer: int | None = None,
        is_needed: bool = True,
    ) -> R:
        """Returns the model's answer as `read` reads it, from the ledger if it is there. `is_needed` is as in `send`.

        The ledger stores the server's answer; `read` gets it with the id of its call. One commit records the answer and
        opens the calls that follow from it. Pages whose text the provider refuses are left out of `request`. Raises
        NoAnswerError after `max_without_answer` attempts without an answer.
        """
        pages = self.refused_pages
        while True:
            sent = pages.without(request) if pages.since else request
            try:
                return await self._answer(sent, read, listener, max_without_answer, is_needed)
            except VigilError as error:
                may_be_left_out = is_filtered(error) or may_be_filtered(error)
                if not may_be_left_out or not await pages.leave_out(sent, error):
                    raise

    async def _answer(
        self,
        request: ChatRequest,
        read: Callable[[UUID, ChatAnswer], R],
        listener: StreamListener | None = None,
        max_without_answer: int | None = None,
        is_needed: bool = True,
    ) -> R:
        """Returns the answer to `request` as it is, by the first model that can be used."""
        journal = self._journal
        outage: str | None = None
        requests = await self._requests_by_model(request)
        for sent in requests:
            call = await journal.paid_calls.commit_call(sent.call)
            if call.answered_at is not None or journal.event_call_id is None:
                journal.event_call_id = call.id
            if call.answered_at is not None:
                answer = _restore_answer(call)
                reading = read(call.id, answer)
                break
            try:
                await self._sender.check_failures(call, FailureKind.NO_ANSWER, max_without_answer)
                outcome = await self._send(
                    sent,
                    call,
                    None if listener is None else listener.on_delta,
                    is_needed=is_needed,
                    may_pass_over=sent is not requests[-1],
                )
            except AnswerError as error:
                await self._sender.check_failures(
                    call, FailureKind.NO_ANSWER, max_without_answer, error
                )
                raise
            except (UnavailableError, PermanentError) as error:
                cannot = isinstance(error, PermanentError) and error.code in CANNOT_REPLACE
                if outage is None or not cannot:
                    raise
                # The step waits for the model that is away, as it would without a second model.
                away = UnavailableError(
                    f"{outage}; {call.model} cannot answer in its place: {error}",
                    is_announced=True,
                    is_unbilled=error.is_unbilled,
                )
                raise away from error
            if isinstance(outcome, _PassedOver):
                outage = outcome.outage or outage
                continue
            answer = outcome.answer
            reading = read(call.id, answer)
            await journal.record_answer(
                call, outcome.record, is_last=reading.is_last, following=reading.following
            )
            break
        self._note_server(sent, answer)
        self.answered_by = call.model
        if listener is not None:
            await journal.unit.commit()
            await listener.on_message(reading.answer.text, reading.answer.tool_calls)
        return reading

    async def _send(
        self,
        request: ChatRequest,
        call: CallRecord,
        on_delta: OnDelta | None,
        *,
        is_needed: bool,
        may_pass_over: bool,
    ) -> _Answered | _PassedOver:
        """Sends the request to its model; raises like `CallSender.send`.

        With `may_pass_over`, returns instead of an error that the model cannot be used now, if that is so.
        """
        if may_pass_over and (passed_over := await self._pass_over(call)) is not None:
            return passed_over
        model, lease = self._model, self._journal.lease
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": model.provider_name,
            "gen_ai.request.model": request.model,
            "gen_ai.request.max_tokens": request.max_output_tokens,
            "vigil.phase": self._journal.phase.value,
            "vigil.call.id": str(call.id),
        }
        try:
            with tracing.child(f"chat {request.model}", "client", attributes) as span:
                answer = await self._sender.send(
                    call,
                    partial(model.provider.complete, request, on_delta=on_delta),
                    is_needed=is_needed,
                )
                cut = await find_cut(model.database, lease.agent_id, request, answer)
                if cut is not None:
                    await self._refuse_cut_request(request, call, answer, cut)
                record = self._priced(request, answer)
                if span is not None:
                    finish, usd = answer.finish_reason, record.cost_usd
                    span.add(
                        {
                            "gen_ai.response.finish_reasons": [finish] if finish else None,
                            "gen_ai.usage.input_tokens": answer.input_tokens,
                            "gen_ai.usage.output_tokens": answer.output_tokens,
                            "gen_ai.usage.cache_read.input_tokens": answer.cached_tokens,
                            "gen_ai.usage.reasoning.output_tokens": answer.reasoning_tokens,
                            "vigil.cost.usd": None if usd is None else float(usd),
                        }
                    )
        except (UnavailableError, PermanentError):
            if may_pass_over and (passed_over := await self._pass_over(call)) is not None:
                return passed_over
            raise
        return _Answered(answer, record)

    async def _refuse_cut_request(
        self, request: ChatRequest, call: CallRecord, answer: ChatAnswer, cut: str
    ) -> NoReturn:
        """Records that the answer is not used, because the server has read only a part of the request."""
        usage = Usage(
            answer.input_tokens,
            answer.output_tokens,
            answer.cached_tokens,
            service_tier=answer.service_tier,
        )
        unusable = AnswerError(cut, excerpt=answer.text, usage=usage)
        await self._sender.record_failure(call, unusable)
        await self._journal.unit.commit()
        raise PermanentError(
            CONTEXT_CUT,
            f"{cut}. Its answer is not used. Serve the model with a longer context (num_ctx of Ollama), or set "
            f"{self._model.context_setting(request.model)} to what the server has",
        )

    async def _requests_by_model(self, request: ChatRequest) -> Sequence[ChatRequest]:
        """`request`, and the same for each model that may answer in place of its model.

        A call that is in the ledger is never paid for again with another model: if one of them has an answer, or a reference
        of the provider, it is the only one.
        """
        journal = self._journal
        others = [name for name in self._names if name != journal.stored.model]
        if not others or journal.paid_calls.limit is not None:
            # With a limit, the caller has judged whether this call is allowed, and no other.
            return [request]
        requests = [request, *(replace(request, model=name) for name in others)]
        if not journal.lease.is_first:
            by_id = {self.call_id(each): each for each in requests}
            started = await self._find_resumable(*by_id)
            if started is not None:
                return [by_id[started]]
        return requests

    async def _find_resumable(self, *call_ids: UUID) -> UUID | None:
        async with self._journal.unit.transaction() as transaction:
            return await call_ledger.find_resumable(transaction, call_ids)

    async def _pass_over(self, call: CallRecord) -> _PassedOver | None:
        """Why the call's model cannot be used now; None if it can. What is reserved for the call is released, if it was not
        sent; otherwise what it may have cost stays reserved, as before any other attempt.
        """
        fault = self._model.fault(call.model or "")
        if fault is None or await self._find_resumable(call.id) is not None:
            # A call that the provider has accepted is not passed over: its answer can be collected later.
            return None
        await self._journal.paid_calls.release_unbilled(call)
        return _PassedOver(fault.reason if fault.is_outage else None)

    def call_id(self, request: ChatRequest) -> UUID:
        return ids.call_id(self._journal.lease.step_id, request.call.hash)

    def max_cost_usd(self, request: ChatRequest) -> Decimal:
        """The maximum cost of one attempt of `request`."""
        return self._model.max_cost_usd(self._journal.phase, request.call)

    def _priced(self, request: ChatRequest, answer: ChatAnswer) -> CallAnswer:
        """The answer as it is recorded. Without usage, tokens are estimated by the length of what was sent and received."""
        prices = self._model.prices
        content = {"message": answer.message, "finish_reason": answer.finish_reason}
        if answer.thoughts:
            content["thoughts"] = answer.thoughts
        if answer.usage_fault is not None:
            content["usage_fault"] = answer.usage_fault
        if not answer.lacks_usage:
            return CallAnswer(
                content,
                answer.input_tokens,
                answer.output_tokens,
                prices.tokens_usd(
                    request.model,
                    answer.input_tokens,
                    answer.output_tokens,
                    answer.cached_tokens,
                    answer.service_tier,
                ),
                parts=request.tokens_by_part(self._context, answer.input_tokens or 0),
                cached_tokens=answer.cached_tokens,
                reasoning_tokens=answer.reasoning_tokens,
            )
        bytes_per_token = self._journal.lease.bytes_per_token
        read = estimate_tokens(len(request.call.canonical), bytes_per_token)
        written = estimate_tokens(len(encode_json(answer.message)), bytes_per_token)
        usd = prices.tokens_usd(request.model, read, written)
        return CallAnswer(
            content | {_LACKS_USAGE: True},
            read,
            written,
            None if usd is None else Decimal(0),
            parts=request.tokens_by_part(self._context, read),
            assumed_usd=min(usd or Decimal(0), self.max_cost_usd(request)),
        )

    def _note_server(self, request: ChatRequest, answer: ChatAnswer) -> None:
        """Notes for the owner what the server of the model lacks, once for each run."""
        found: list[str] = []
        if form_of_calls(answer, request) == UNREAD:
            found.append(f"{UNREAD_CALLS} ({PARSERS}).")
        if answer.lacks_usage:
            found.append("reports no usage; tokens and their cost are estimated.")
        notes = self._journal.notes
        for lack in found:
            if (note := f"{SERVER_NOTE}{request.model} {lack}") not in notes:
                notes.append(note)


def _restore_answer(call: CallRecord) -> ChatAnswer:
    assert call.answer is not None
    return ChatAnswer(
        call.answer["message"],
        call.answer["finish_reason"],
        call.input_tokens,
        call.output_tokens,
        lacks_usage=call.answer.get(_LACKS_USAGE, False),
        thoughts=call.answer.get("thoughts", ""),
    )
