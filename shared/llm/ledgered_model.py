"""The way of a paid call: its record, its budget, its attempts, and the commit of its answer.

A call that the ledger has an answer for is not sent again, so a run can be resumed at any point. `LedgeredModel.answer`
requests answers of a model; `CallSender.send` sends calls of every kind. What they write, `RunJournal` commits.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, Final, NoReturn, Protocol, TypeVar
from uuid import UUID

from shared.billing import call_ledger
from shared.billing.call_ledger import CallAnswer, CallRecord, CallRequest, Failure
from shared.billing.resumable_call import ResumableCall
from shared.billing.token_lengths import estimate_tokens
from shared.database import ids
from shared.database.engine import Database
from shared.database.statements import Batch, BoundQuery
from shared.database.tables import Interaction
from shared.database.text import error_text
from shared.database.transaction import Transaction
from shared.database.unit_of_work import Changes, UnitOfWork
from shared.enums import Phase
from shared.errors import PermanentError, TransientError, UnavailableError, VigilError, unbilled
from shared.failpoints import Failpoint, failpoint
from shared.llm import phase_run_store
from shared.llm.answers import (
    COMPLETE_KINDS,
    AnswerError,
    FailureKind,
    LostAnswerError,
    NoAnswerError,
    Usage,
)
from shared.llm.context_limit import CONTEXT_CUT, CONTEXT_TOO_SMALL, find_cut
from shared.llm.messages import ChatAnswer, ChatRequest, ToolCall, encode_json
from shared.llm.model_server import REFUSED_CONTENT, REFUSED_REQUEST, SettingNames
from shared.llm.paid_calls import PaidCalls
from shared.llm.pricing import Prices
from shared.llm.provider import Embedder, ModelFault, OnDelta, Provider
from shared.llm.refused_pages import RefusedPages, is_filtered
from shared.llm.repair import Repairs
from shared.llm.tool_calls import PARSERS, UNREAD, form_of_calls
from shared.schemas.iterations import NOTES_KEY, SERVER_NOTE, UNREAD_CALLS
from shared.telemetry import metrics, tracing
from shared.tools import Json
from shared.workflow import leases
from shared.workflow.leases import Lease
from shared.workflow.steps import wait_ending

T = TypeVar("T")

CANNOT_REPLACE: Final = frozenset(
    {REFUSED_REQUEST, REFUSED_CONTENT, CONTEXT_TOO_SMALL, CONTEXT_CUT, "llm_quota"}
)
"""Errors of a model in place of another: it cannot answer this request, as when its context is shorter, or no more requests.
"""
MAX_TIMEOUTS: Final = 2
"""Timed-out attempts of one request before it fails."""
_LACKS_USAGE: Final = "lacks_usage"
"""Key of a recorded answer whose tokens are estimated."""


@dataclass(frozen=True)
class Model:
    """The provider and the configuration that all calls to it share."""

    provider: Provider
    database: Database
    prices: Prices
    default_name: str
    """The model of phases for which the agent names none."""
    max_output_tokens: Mapping[Phase, int]
    """Sent with each request, so that its maximum cost is known before. Reasoning tokens count too."""
    embedder: Embedder | None = None
    """None if embedding search is off."""
    options: Mapping[Phase, Mapping[str, str]] = field(default_factory=dict)
    """Parameters of the requests of a phase; see `ChatRequest.options`."""
    requires_tools: bool = True
    """Whether requests that must call a tool set `tool_choice`."""
    fault: Callable[[str], ModelFault | None] = lambda _: None
    """Why a model cannot be used now; None if it can."""
    context_setting: Callable[[str], str] = lambda _: SettingNames.context
    """The setting that states the context of a model."""
    phase_seconds: Mapping[Phase, float] = field(default_factory=dict)
    """How long a worker may work on a phase."""
    provider_name: str | None = None
    """In traces, by the semantic conventions for generative AI; None if it is not known."""

    def max_cost_usd(self, phase: Phase, request: CallRequest) -> Decimal:
        """The maximum cost of one attempt of a call."""
        if request.operation is not None:
            return self.prices.of_operation(request.operation)
        max_output = request.max_output_tokens
        if max_output is None:
            max_output = self.max_output_tokens[phase]
        return self.prices.max_cost_usd(
            request.model or "",
            len(request.canonical),
            max_output,
            self.options.get(phase, {}).get("service_tier"),
        )


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


def summary(repairs: int, notes: Sequence[str]) -> Json:
    """The part of a step's result that says how its answers were used."""
    return {name: value for name, value in (("repairs", repairs), (NOTES_KEY, [*notes])) if value}


@dataclass
class _RunChanges:
    """The changes to a run that one transaction writes."""

    events: dict[UUID, list[Json]] = field(default_factory=dict)
    """By the call in whose row they are stored."""
    answered: set[UUID] = field(default_factory=set)
    """Calls whose events are written with their answers."""
    is_complete: bool = False


class RunJournal:
    """What one phase run writes: its calls, its events and its end, each with the next commit of its unit of work."""

    def __init__(self, model: Model, lease: Lease, phase: Phase) -> None:
        self.lease = lease
        self.phase = phase
        self._interaction: Interaction | None = None
        self.unit = lease.unit or UnitOfWork(model.database, leases.fence(lease), waits=False)
        self.paid_calls = PaidCalls(
            model.database,
            lease,
            self.unit,
            lambda request: call_ledger.new_row(lease, self.interaction.id, phase, request),
            partial(model.max_cost_usd, phase),
        )
        self.newest_answer_id: UUID | None = None
        """The call whose row has the next events."""
        self.has_been_answered = False
        """Whether a provider has answered a call of this process."""
        self.repair_count = 0
        """Repairs that this run, and the runs that it resumes, recorded."""
        self.notes: list[str] = []
        """Notes for the owner, such as pages that were left out of the run."""

    @property
    def interaction(self) -> Interaction:
        assert self._interaction is not None, "begin() comes first"
        return self._interaction

    @property
    def repair_summary(self) -> Json:
        """The number of repairs and the notes, for the step's result; empty if there were none."""
        return summary(self.repair_count, self.notes)

    async def record_repairs(self, subject: str, repairs: Repairs, *, key: str) -> None:
        """Records the repairs of an answer. `key` identifies the answer."""
        self.add_repairs(subject, repairs, key=key)
        await self.unit.commit_unless_waiting()

    def add_repairs(self, subject: str, repairs: Repairs, *, key: str) -> None:
        """Does the same with the next commit."""
        if repairs:
            notes = repairs.all_notes
            self.repair_count += len(repairs)
            self.add_event({"type": "repair", "key": key, "subject": subject, "repairs": notes})

    def add_event(self, event: Json) -> None:
        """Adds `event` at the end of the transaction, to the row of the call that was answered last, or of the first."""
        assert self.newest_answer_id is not None, "no event precedes the first request"
        self._pending_changes().events.setdefault(self.newest_answer_id, []).append(event)

    def complete(self) -> None:
        """Marks the run as complete at the end of the transaction."""
        self._pending_changes().is_complete = True

    def add_answer(self, call: CallRecord, answer: CallAnswer, *events: Json) -> None:
        """Adds the answer and its cost at the end of the transaction, with `events` and those that follow."""
        if self.lease.is_after_wait and self.has_been_answered:
            self.unit.defer_query(wait_ending(self.lease))
        if call.answered_at is None:
            self.newest_answer_id = call.id
        run_changes = self._pending_changes()
        run_changes.answered.add(call.id)
        events_of_call = run_changes.events.setdefault(call.id, [])
        events_of_call.extend(events)
        self.paid_calls.record_answer(call, replace(answer, events=events_of_call))
        self.unit.after_commit(partial(failpoint, Failpoint.CALL_RECORDED))

    def _pending_changes(self) -> _RunChanges:
        changes = self.unit.changes
        if self not in changes.of_writer:
            changes.of_writer[self] = _RunChanges()
            self.unit.defer(partial(self._write_changes, changes))
        run_changes: _RunChanges = changes.of_writer[self]
        return run_changes

    def _write_changes(self, changes: Changes, batch: Batch) -> None:
        run_changes: _RunChanges = changes.of_writer[self]
        for call_id, events in run_changes.events.items():
            if call_id not in run_changes.answered:
                batch.add(call_ledger.append_events(call_id, events))
        if run_changes.is_complete:
            batch.add(phase_run_store.completion(self.interaction.id))

    async def record_answer(self, call: CallRecord, answer: CallAnswer, reading: Reading) -> None:
        """Records the answer of a model, and opens the paid calls that follow from it, in one commit."""

        def write() -> None:
            self.add_answer(call, answer, {"type": "answer", "call_id": str(call.id)})
            if reading.is_last:
                self.complete()
            for request in reading.following:
                self.paid_calls.open_call(request)

        await self.unit.save(write)

    async def record_in_session(self, write: Callable[[Transaction], Awaitable[T]]) -> T:
        """Records a paid result that needs a session, even if the worker is cancelled; see `UnitOfWork.commit_durably`."""

        async def write_all(session: Transaction) -> T:
            self.unit.after_commit(partial(failpoint, Failpoint.CALL_RECORDED))
            if self.lease.is_after_wait and self.has_been_answered:
                await wait_ending(self.lease).execute(session)
            return await write(session)

        return await self.unit.commit_durably(write_all)

    def defer(self, query: BoundQuery[Any]) -> None:
        """Runs the query with the next commit; its result is not needed."""
        self.unit.defer_query(query)

    async def commit_unless_waiting(self) -> None:
        """See `UnitOfWork.commit_unless_waiting`."""
        await self.unit.commit_unless_waiting()

    def transaction(self, batch: Batch | None = None) -> AbstractAsyncContextManager[Transaction]:
        """Opens a part of a transaction that only the holder of the step's lease can start; see `UnitOfWork`."""
        return self.unit.transaction(batch)


class CallSender:
    """Sends the paid calls of one phase run: to models, search services and servers of embeddings."""

    def __init__(self, model: Model, journal: RunJournal) -> None:
        self._model = model
        self._journal = journal
        self._started_at = time.monotonic()

    async def send(
        self,
        call: CallRecord,
        ask: Callable[[ResumableCall], Awaitable[T]],
        *,
        is_needed: bool = True,
    ) -> T:
        """Sends `call` with `ask` and returns its result. Raises what `ask` raises.

        If the budget is used up, the agent is suspended only if the call `is_needed`.
        """
        journal, database = self._journal, self._model.database

        async def store_reference(reference: str) -> None:
            await journal.record_in_session(
                lambda session: call_ledger.record_reference(session, call.id, reference)
            )

        # After an unusable answer the key is a new one, because a server that supports it would repeat that answer.
        unusable = sum(failure["kind"] in COMPLETE_KINDS for failure in call.failures)
        in_flight = ResumableCall(
            f"{call.id}-{unusable}" if unusable else str(call.id),
            call.provider_ref,
            store_reference,
            partial(self._attempt, call, is_needed=is_needed),
            partial(call_ledger.report_progress, database, call.id),
            journal.lease.waited_seconds,
        )
        await journal.unit.commit()
        failpoint(Failpoint.CALL_UNSENT)
        with journal.unit.external_call_in_progress():
            try:
                async with self._time_limit() as time_limit:
                    answer = await ask(replace(in_flight, time_limit=time_limit))
            except VigilError as error:
                if isinstance(error, AnswerError | LostAnswerError):
                    await self.record_failure(call, error)
                await journal.paid_calls.release_unbilled(call)
                raise
            except asyncio.CancelledError:
                # A call that was waiting for its turn costs nothing. If that cannot be stored, because the lease is lost or
                # PostgreSQL is unavailable, the next worker writes the reservation off.
                with suppress(VigilError):
                    await asyncio.shield(journal.paid_calls.release_unbilled(call))
                raise
        failpoint(Failpoint.CALL_ANSWERED)
        journal.has_been_answered = True
        return answer

    @asynccontextmanager
    async def _attempt(self, call: CallRecord, *, is_needed: bool) -> AsyncIterator[None]:
        """Context of one attempt of `call`. Records an attempt without a usable answer, with its cost.

        Raises PermanentError after MAX_TIMEOUTS timeouts.
        """
        await self.check_failures(call, FailureKind.TIMEOUT, MAX_TIMEOUTS)
        try:
            async with self._journal.paid_calls.attempt(call, is_needed=is_needed):
                try:
                    yield
                except VigilError as error:
                    if isinstance(error, AnswerError):
                        outcome: str = error.kind
                    else:
                        is_transient = isinstance(error, TransientError)
                        outcome = "unavailable" if is_transient else "refused"
                    metrics.count_call(self._journal.phase, call.model, outcome)
                    raise
                metrics.count_call(self._journal.phase, call.model, "answered")
        except AnswerError as error:
            await self.record_failure(call, error)
            if error.kind is FailureKind.TIMEOUT:
                await self.check_failures(call, FailureKind.TIMEOUT, MAX_TIMEOUTS, error)
            raise

    async def record_failure(self, call: CallRecord, error: AnswerError | LostAnswerError) -> None:
        """Records an answer that cannot be used, with its cost, unless it is recorded already."""
        unusable = error.unusable if isinstance(error, LostAnswerError) else error
        usage = unusable.usage
        cost_usd = self._model.prices.tokens_usd(
            call.model or "",
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            usage.service_tier,
        )
        failure = Failure(
            unusable.kind,
            error_text(str(unusable)),
            unusable.excerpt,
            usage.input_tokens,
            usage.output_tokens,
            cost_usd,
        )
        await self._journal.paid_calls.record_failure(call, self._journal.lease.epoch, failure)

    async def check_failures(
        self, call: CallRecord, kind: FailureKind, limit: int, cause: AnswerError | None = None
    ) -> None:
        """Raises PermanentError if `limit` attempts of `call` failed so since the last retry that the user requested."""
        failures = [failure for failure in call.failures if failure["kind"] == kind]
        if len(failures) < limit:
            return
        async with self._journal.transaction() as session:
            retried_epoch = await leases.retried_epoch(session, self._journal.lease.step_id)
        failures = [failure for failure in failures if failure["epoch"] > retried_epoch]
        if len(failures) < limit:
            return
        count, last = len(failures), failures[-1]["error"]
        if kind is FailureKind.TIMEOUT:
            raise PermanentError(
                "llm_timeout",
                f"{last}. The request was sent {count} times and will not be sent again: "
                "raise that limit, or use a faster model or server",
            ) from cause
        raise NoAnswerError(
            f"the model gave no answer in {count} attempts; the last error: {last}",
            is_filtered=cause is not None and cause.is_filtered,
        ) from cause

    @asynccontextmanager
    async def _time_limit(self) -> AsyncIterator[asyncio.Timeout | None]:
        """Raises TransientError when the time of the phase is over. Yields the limit; None if there is none."""
        phase = self._journal.phase
        seconds = self._model.phase_seconds.get(phase)
        if seconds is None:
            yield None
            return
        timer = asyncio.timeout(self._started_at + seconds - time.monotonic())
        try:
            async with timer:
                expires_at = timer.when()
                try:
                    yield timer
                finally:
                    # Without the time for which the call has waited for its turn.
                    self._started_at += (timer.when() or 0.0) - (expires_at or 0.0)
        except TimeoutError:
            if not timer.expired():
                raise
            raise TransientError(
                f"the phase {phase} was not done within {seconds:g} s (VIGIL_PHASE_SECONDS)"
            ) from None


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
                if not is_filtered(error) or not await pages.leave_out(sent, error):
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
            call = await journal.paid_calls.get_call(sent.as_call())
            if call.answered_at is not None or journal.newest_answer_id is None:
                journal.newest_answer_id = call.id
            if call.answered_at is not None:
                answer = _restore_answer(call)
                reading = read(call.id, answer)
                break
            try:
                if max_without_answer is not None:
                    await self._sender.check_failures(
                        call, FailureKind.NO_ANSWER, max_without_answer
                    )
                outcome = await self._send(
                    sent,
                    call,
                    None if listener is None else listener.on_delta,
                    is_needed=is_needed,
                    may_pass_over=sent is not requests[-1],
                )
            except AnswerError as error:
                if max_without_answer is not None:
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
                )
                raise (unbilled(away) if error.unbilled else away) from error
            if isinstance(outcome, _PassedOver):
                outage = outcome.outage or outage
                continue
            answer = outcome.answer
            reading = read(call.id, answer)
            await journal.record_answer(call, outcome.record, reading)
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
        others = [name for name in self._names if name != journal.interaction.model]
        if not others or journal.paid_calls.limit is not None:
            # With a limit, the caller has judged whether this call is allowed, and no other.
            return [request]
        requests = [request, *(replace(request, model=name) for name in others)]
        if not journal.lease.is_first:
            by_id = {self.call_id(each): each for each in requests}
            started = await self._find_started(*by_id)
            if started is not None:
                return [by_id[started]]
        return requests

    async def _find_started(self, *call_ids: UUID) -> UUID | None:
        async with self._journal.transaction() as session:
            return await call_ledger.find_started(session, call_ids)

    async def _pass_over(self, call: CallRecord) -> _PassedOver | None:
        """Why the call's model cannot be used now; None if it can. What is reserved for the call is released, if it was not
        sent; otherwise what it may have cost stays reserved, as before any other attempt.
        """
        fault = self._model.fault(call.model or "")
        if fault is None or await self._find_started(call.id) is not None:
            # A call that the provider has accepted is not passed over: its answer can be collected later.
            return None
        await self._journal.paid_calls.release_unbilled(call)
        return _PassedOver(fault.reason if fault.is_outage else None)

    def call_id(self, request: ChatRequest) -> UUID:
        return ids.call_id(self._journal.lease.step_id, request.as_call().hash)

    def max_cost_usd(self, request: ChatRequest) -> Decimal:
        """The maximum cost of one attempt of `request`."""
        return self._model.max_cost_usd(self._journal.phase, request.as_call())

    def _priced(self, request: ChatRequest, answer: ChatAnswer) -> CallAnswer:
        """The answer as it is recorded. Without usage, tokens are estimated by the length of what was sent and received."""
        prices = self._model.prices
        content = {"message": answer.message, "finish_reason": answer.finish_reason}
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
        read = estimate_tokens(len(request.as_call().canonical), bytes_per_token)
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
    )
