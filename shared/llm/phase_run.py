"""One run of a phase. It can be resumed at any point: answers that are in the ledger are not requested again."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.agents import agents
from shared.agents.contexts import StepGroup
from shared.agents.model_choice import first_model, split_models
from shared.billing import call_ledger
from shared.billing.call_ledger import CallAnswer, CallRecord, CallRequest, Failure, NewRow
from shared.billing.resumable_call import ResumableCall
from shared.database import ids
from shared.database.engine import Database
from shared.database.statements import BoundQuery, RoundTrip, Transaction
from shared.database.tables import Agent, Interaction
from shared.database.text import error_text
from shared.database.unit_of_work import Changes, UnitOfWork
from shared.enums import Phase
from shared.errors import PermanentError, TransientError, UnavailableError, VigilError
from shared.failpoints import Failpoint, failpoint
from shared.llm import phase_run_store
from shared.llm.answers import COMPLETE_KINDS, AnswerError, FailureKind, Usage
from shared.llm.context_limit import CONTEXT_TOO_SMALL
from shared.llm.cut_prompts import CONTEXT_CUT, find_cut
from shared.llm.messages import ChatAnswer, ChatRequest, ToolCall
from shared.llm.model_server import REFUSED_CONTENT, REFUSED_REQUEST, SettingNames
from shared.llm.paid_calls import PaidCalls
from shared.llm.pricing import Prices
from shared.llm.provider import Embedder, ModelFault, OnDelta, Provider
from shared.llm.repair import Repairs
from shared.provider_limits.gate import time_limit
from shared.schemas.iterations import NOTES_KEY
from shared.telemetry import metrics, tracing
from shared.tools import Json
from shared.workflow import leases
from shared.workflow.leases import Lease
from shared.workflow.steps import wait_ending

T = TypeVar("T")
E = TypeVar("E", bound=VigilError)

CANNOT_REPLACE: Final = frozenset(
    {REFUSED_REQUEST, REFUSED_CONTENT, CONTEXT_TOO_SMALL, CONTEXT_CUT, "llm_quota"}
)
"""Errors of a model in place of another: it cannot answer this request, as when its context is shorter, or no more requests.
"""
MAX_TIMEOUTS: Final = 2
"""Timed-out attempts of one request before it fails."""


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


class StreamListener(Protocol):
    """Receives the output of a phase while it runs. An error that it raises ends the run."""

    async def on_delta(self, text: str) -> None:
        """Receives the whole text so far of the answer that is being streamed."""

    async def on_message(self, text: str, calls: Sequence[ToolCall]) -> None:
        """Receives a complete, recorded answer. A resumed run also passes the answers of the interrupted run."""


@dataclass
class _RunChanges:
    """The changes to a run that one transaction writes."""

    events: dict[UUID, list[Json]] = field(default_factory=dict)
    """By the call in whose row they are stored."""
    answered: set[UUID] = field(default_factory=set)
    """Calls whose events are written with their answers."""
    is_complete: bool = False


@dataclass(frozen=True)
class _Choice:
    """A request to one of the models that may answer it."""

    request: ChatRequest
    is_last: bool = True


class NoAnswerError(PermanentError):
    """The model refused, repeated itself or gave an empty answer too often."""

    def __init__(self, message: str) -> None:
        super().__init__("no_answer", message)


def summary(repairs: int, notes: Sequence[str]) -> Json:
    """The part of a step's result that says how its answers were used."""
    return {name: value for name, value in (("repairs", repairs), (NOTES_KEY, [*notes])) if value}


class PhaseRun:
    """One phase of one step: its interaction row and its calls. The callers handle tools and parsing."""

    def __init__(
        self,
        model: Model,
        lease: Lease,
        agent: Agent | agents.AgentRow,
        phase: Phase,
        user_message: str,
        *,
        system_prompt: str | None = None,
        rules: str = "",
        context: str = "",
        pinned_for: StepGroup | None = None,
    ) -> None:
        """Without a `system_prompt`, uses the agent's prompt for `phase`.

        `rules` are those of the phase for every agent. They stand before the prompt.

        `context` is the part of the message that other runs share. It is stored once for all of them, and pinned for the
        steps `pinned_for`.
        """
        self._model = model
        self.lease = lease
        self.phase = phase
        self._agent = agent
        self._user_message = user_message
        prompt = system_prompt or agents.system_prompt(agent, phase)
        self._system_prompt = f"{rules}\n\n{prompt}" if rules else prompt
        self._context = context
        self._pinned_for = pinned_for
        self._interaction: Interaction | None = None
        self._has_been_answered = False
        self._started_at = time.monotonic()
        self._newest_answer_id: UUID | None = None
        self._outage: str | None = None
        """Why a model was passed over that can answer the request later."""
        self.answered_model: str | None = None
        """The model that gave the last answer."""
        self.repair_count = 0
        self.notes: list[str] = []
        """What the owner must know of the run, such as pages that were left out."""
        """Repairs that this run, and the runs that it resumes, recorded."""
        self._unit = lease.unit or UnitOfWork(model.database, leases.fence(lease), waits=False)
        self.paid_calls = PaidCalls(
            model.database, lease, self._unit, self._new_row, self._max_cost_usd
        )

    @property
    def _models(self) -> str:
        return agents.model_name(self._agent, self.phase, self._model.default_name)

    @property
    def _model_names(self) -> Sequence[str]:
        """The model that the run began with, then those that may answer in its place."""
        began_with = self.interaction.model
        return [began_with, *(name for name in split_models(self._models) if name != began_with)]

    @property
    def embedder(self) -> Embedder | None:
        return self._model.embedder

    @property
    def prices(self) -> Prices:
        return self._model.prices

    @property
    def interaction(self) -> Interaction:
        assert self._interaction is not None, "begin() comes first"
        return self._interaction

    @property
    def first_message(self) -> str:
        """The first message of the request, as it was first sent. The run must have started."""
        message: str = self.interaction.request["messages"][0]["content"]
        return message

    @property
    def is_resumed(self) -> bool:
        """Whether an earlier worker started the run. Call it after `begin`."""
        return bool(self.interaction.events) or self.first_message != self._user_message

    async def begin(
        self,
        tools: Sequence[dict[str, Any]] = (),
        response_format: dict[str, Any] | None = None,
        *,
        must_act: bool = False,
        opens_call: bool = True,
    ) -> ChatRequest:
        """Creates or resumes the run and returns its first request, whose call it opens unless `opens_call` is False.

        A resumed run sends the request as it was first sent, even if the prompts or the graph changed since. With
        `must_act` the model must call a tool, if the settings allow to demand that.
        """
        tool_choice = {"tool_choice": "required"} if must_act and self._model.requires_tools else {}
        interaction = phase_run_store.NewInteraction(
            self._model.database,
            self.lease,
            self.phase,
            model=first_model(self._models),
            system_prompt=self._system_prompt,
            request={
                "messages": [{"role": "user", "content": self._user_message}],
                "tools": [tool["function"]["name"] for tool in tools],
                **tool_choice,
            },
            context=self._context,
            pinned_for=self._pinned_for,
        )
        if self.lease.unit is not None and self.lease.is_first:
            self._interaction = interaction.record
            self._unit.defer(interaction.write)
        else:
            async with self.transaction() as session:
                self._interaction = await interaction.open_or_resume(session)
        request = ChatRequest(
            self._interaction.model,
            (
                {"role": "system", "content": self._interaction.system_prompt},
                *self._interaction.request["messages"],
            ),
            tuple(tools),
            response_format,
            self._model.max_output_tokens[self.phase],
            cache_key=self._cache_key,
            options=self._model.options.get(self.phase, {}),
            tool_choice=self.tool_choice,
        )
        if opens_call:
            self.paid_calls.open_call(request.as_call())
        return request

    def fresh_request(self, message: str, response_format: dict[str, Any]) -> ChatRequest:
        """A request of this run with the same system prompt, another message and no conversation."""
        return ChatRequest(
            self.interaction.model,
            (
                {"role": "system", "content": self.interaction.system_prompt},
                {"role": "user", "content": message},
            ),
            response_format=response_format,
            max_output_tokens=self._model.max_output_tokens[self.phase],
            cache_key=self._cache_key,
            options=self._model.options.get(self.phase, {}),
        )

    @property
    def _cache_key(self) -> str:
        """The requests of a phase of an agent share their beginning."""
        return f"{self.lease.agent_id}:{self.phase}"

    @property
    def tool_choice(self) -> str | None:
        """The `tool_choice` of requests that must call a tool. A resumed run keeps that of its first request."""
        choice: str | None = self.interaction.request.get("tool_choice")
        return choice

    async def record_repairs(self, subject: str, repairs: Repairs, *, key: str) -> None:
        """Records the repairs of an answer. `key` identifies the answer."""
        self.add_repairs(subject, repairs, key=key)
        await self.commit_unless_waiting()

    def add_repairs(self, subject: str, repairs: Repairs, *, key: str) -> None:
        """Does the same with the next commit."""
        if repairs:
            self.repair_count += len(repairs)
            event = {
                "type": "repair",
                "key": key,
                "subject": subject,
                "repairs": repairs.all_notes,
            }
            self.add_event(event)

    @property
    def repair_summary(self) -> Json:
        """The number of repairs and the notes, for the step's result; empty if there were none."""
        return summary(self.repair_count, self.notes)

    async def request_answer(
        self,
        request: ChatRequest,
        *,
        is_last: Callable[[ChatAnswer], bool],
        paid_calls: Callable[[ChatAnswer], Sequence[CallRequest]] = lambda _: (),
        listener: StreamListener | None = None,
        normalize: Callable[[ChatAnswer], ChatAnswer] = lambda answer: answer,
        max_without_answer: int | None = None,
        is_needed: bool = True,
    ) -> tuple[UUID, ChatAnswer]:
        """Returns the call's id and the model's answer, from the ledger if it is there. `is_needed` is as in `send`.

        The ledger stores the server's answer. `is_last`, `paid_calls`, the listener and the caller get the result of
        `normalize`. One commit records the answer and opens the calls that follow from it. `is_last` says whether the
        answer ends the phase. Raises NoAnswerError after `max_without_answer` attempts without an answer.
        """
        on_delta = None if listener is None else listener.on_delta
        self._outage = None
        for choice in await self._choices(request):
            call = await self.paid_calls.get_call(choice.request.as_call())
            if call.answered_at is not None or self._newest_answer_id is None:
                self._newest_answer_id = call.id
            if call.answered_at is not None:
                answer = normalize(_restore_answer(call))
                break
            await self._check_unanswered(call, max_without_answer)
            try:
                sent = await self._send_choice(choice, call, on_delta, is_needed=is_needed)
            except AnswerError as error:
                await self._check_unanswered(call, max_without_answer, error)
                raise
            if sent is None:
                continue
            raw_answer, call_answer = sent
            answer = normalize(raw_answer)
            await self._record_answer(
                call, call_answer, is_last=is_last(answer), paid_calls=paid_calls(answer)
            )
            break
        self.answered_model = call.model
        if listener is not None:
            await self._unit.commit()
            await listener.on_message(answer.text, answer.tool_calls)
        return call.id, answer

    async def _send_choice(
        self, choice: _Choice, call: CallRecord, on_delta: OnDelta | None, *, is_needed: bool
    ) -> tuple[ChatAnswer, CallAnswer] | None:
        """The answer; None if the next model is to be asked instead. Otherwise raises like `send`."""
        if not choice.is_last and await self._is_passed_over(call):
            return None
        request = choice.request
        try:
            ask = partial(self._complete, request, on_delta)
            with self._traced(request, call) as span:
                answer = await self.send(call, ask, is_needed=is_needed)
                call_answer = self._call_answer(request, answer)
                if span is not None:
                    span.add(_usage_attributes(call_answer, answer))
        except (UnavailableError, PermanentError) as error:
            if choice.is_last:
                raise self._last_error(error, call) from error.__cause__
            if not await self._is_passed_over(call):
                raise
            return None
        return answer, call_answer

    async def _complete(
        self, request: ChatRequest, on_delta: OnDelta | None, in_flight: ResumableCall
    ) -> ChatAnswer:
        """The answer of the model. Raises PermanentError if the server has read only a part of `request`."""
        answer = await self._model.provider.complete(request, in_flight, on_delta)
        cut = await find_cut(self._model.database, self.lease.agent_id, request, answer)
        if cut is None:
            return answer
        usage = Usage(
            answer.input_tokens,
            answer.output_tokens,
            answer.cached_tokens,
            service_tier=answer.service_tier,
        )
        unused = AnswerError(cut, excerpt=answer.text, usage=usage)
        setting = self._model.context_setting(request.model)
        raise PermanentError(
            CONTEXT_CUT,
            f"{cut}. Its answer is not used. Serve the model with a longer context (num_ctx of Ollama), or set {setting} to"
            " what the server has",
        ) from unused

    def _last_error(self, error: E, call: CallRecord) -> E | UnavailableError:
        """The error of the last model. If it cannot answer in place of one that is away, the step waits for that one, as it
        would without a second model.
        """
        cannot = isinstance(error, PermanentError) and error.code in CANNOT_REPLACE
        if self._outage is None or not cannot:
            return error
        away = UnavailableError(f"{self._outage}; {call.model} cannot answer in its place: {error}")
        away.unbilled, away.is_announced = error.unbilled, True
        return away

    async def _choices(self, request: ChatRequest) -> Sequence[_Choice]:
        """`request`, and the same for each model that may answer in place of its model.

        A call that is in the ledger is never paid for again with another model: if one of them has an answer, or a reference
        of the provider, it is the only choice.
        """
        if len(self._model_names) == 1 or self.paid_calls.limit is not None:
            # The caller has judged whether this call is allowed, and no other.
            return [_Choice(request)]
        requests = [request, *(replace(request, model=name) for name in self._model_names[1:])]
        if not self.lease.is_first:
            by_id = {self.call_id(each): each for each in requests}
            started = await self._find_started(*by_id)
            if started is not None:
                return [_Choice(by_id[started])]
        return [_Choice(each, is_last=each is requests[-1]) for each in requests]

    async def _find_started(self, *call_ids: UUID) -> UUID | None:
        async with self.transaction() as session:
            return await call_ledger.find_started(session, call_ids)

    async def _is_passed_over(self, call: CallRecord) -> bool:
        """Whether the call's model cannot be used now. Then what is reserved for the call is released, if it was not sent.

        If it was sent, what it may have cost stays reserved, as before any other attempt.
        """
        fault = self._model.fault(call.model or "")
        if fault is None:
            return False
        if await self._find_started(call.id) is not None:
            # The provider has accepted it, and its answer can be collected later.
            return False
        if fault.is_outage:
            self._outage = fault.reason
        await self.paid_calls.release_unbilled(call)
        return True

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
        await self._unit.commit()
        failpoint(Failpoint.CALL_UNSENT)
        with self._unit.external_call_in_progress():
            try:
                async with self._time_limit():
                    answer = await ask(self._in_flight(call, is_needed=is_needed))
            except VigilError as error:
                await self._record_failure(call, error)
                await self.paid_calls.release_unbilled(call)
                raise
            except asyncio.CancelledError:
                # A call that was waiting for its turn costs nothing. If that cannot be stored, because the lease is lost or
                # PostgreSQL is unavailable, the next worker writes the reservation off.
                with suppress(VigilError):
                    await asyncio.shield(self.paid_calls.release_unbilled(call))
                raise
        failpoint(Failpoint.CALL_ANSWERED)
        self._has_been_answered = True
        return answer

    @asynccontextmanager
    async def _time_limit(self) -> AsyncIterator[None]:
        """Raises TransientError when the time of the phase is over."""
        seconds = self._model.phase_seconds.get(self.phase)
        if seconds is None:
            yield
            return
        timer = asyncio.timeout(self._started_at + seconds - time.monotonic())
        token = time_limit.set(timer)
        try:
            async with timer:
                expires_at = timer.when()
                try:
                    yield
                finally:
                    # Without the time for which the call has waited for its turn.
                    self._started_at += (timer.when() or 0.0) - (expires_at or 0.0)
        except TimeoutError:
            if not timer.expired():
                raise
            raise TransientError(
                f"the phase {self.phase} was not done within {seconds:g} s (VIGIL_PHASE_SECONDS)"
            ) from None
        finally:
            time_limit.reset(token)

    async def record(self, write: Callable[[], None]) -> None:
        """Writes a paid result, even if the worker is cancelled; see `UnitOfWork.save`."""

        def write_all() -> None:
            if self.lease.is_after_wait and self._has_been_answered:
                self.defer(wait_ending(self.lease))
            write()
            self._note_recorded()

        await self._unit.save(write_all)

    async def record_in_session(self, write: Callable[[AsyncSession], Awaitable[T]]) -> T:
        """Does the same for a write that needs a session; see `UnitOfWork.commit_durably`."""

        async def write_all(session: AsyncSession) -> T:
            self._note_recorded()
            if self.lease.is_after_wait and self._has_been_answered:
                await wait_ending(self.lease).answer(session)
            return await write(session)

        return await self._unit.commit_durably(write_all)

    def _note_recorded(self) -> None:
        self._unit.after_commit(partial(failpoint, Failpoint.CALL_RECORDED))

    async def commit_unless_waiting(self) -> None:
        """See `UnitOfWork.commit_unless_waiting`."""
        await self._unit.commit_unless_waiting()

    def add_event(self, event: Json) -> None:
        """Adds `event` at the end of the transaction, to the row of the call that was answered last, or of the first."""
        assert self._newest_answer_id is not None, "no event precedes the first request"
        self._pending_changes().events.setdefault(self._newest_answer_id, []).append(event)

    def complete(self) -> None:
        """Marks the run as complete at the end of the transaction."""
        self._pending_changes().is_complete = True

    def _pending_changes(self) -> "_RunChanges":
        changes = self._unit.changes
        if self not in changes.of_writer:
            changes.of_writer[self] = _RunChanges()
            self._unit.defer(partial(self._write_changes, changes))
        run_changes: _RunChanges = changes.of_writer[self]
        return run_changes

    def _write_changes(self, changes: Changes, trip: RoundTrip) -> None:
        run_changes: _RunChanges = changes.of_writer[self]
        for call_id, events in run_changes.events.items():
            if call_id not in run_changes.answered:
                trip.ask(call_ledger.append_events(call_id, events))
        if run_changes.is_complete:
            trip.ask(phase_run_store.completion(self.interaction.id))

    def _record_with_events(self, call: CallRecord, answer: CallAnswer) -> None:
        """Records the answer, with the events that the transaction adds from now on."""
        if call.answered_at is None:
            self._newest_answer_id = call.id
        run_changes = self._pending_changes()
        run_changes.answered.add(call.id)
        events = run_changes.events.setdefault(call.id, [])
        self.paid_calls.record_answer(call, replace(answer, events=events))

    def defer(self, query: BoundQuery[Any]) -> None:
        """Runs the query with the next commit; its result is not needed."""
        self._unit.defer_query(query)

    def record_search(
        self, call: CallRecord, request: CallRequest, content: Json, *, is_recalled: bool = False
    ) -> None:
        """Records the result of a search. A search that was refused, or an earlier answer that was used, costs nothing."""
        assert request.operation is not None
        is_billed = not is_recalled and self.paid_calls.was_billed(call)
        cost_usd = self._model.prices.of_operation(request.operation) if is_billed else Decimal(0)
        self._record_with_events(call, CallAnswer(content, cost_usd=cost_usd))

    def _new_row(self, request: CallRequest) -> NewRow:
        return call_ledger.new_row(self.lease, self.interaction.id, self.phase, request)

    def max_cost_usd(self, request: ChatRequest) -> Decimal:
        """The maximum cost of one attempt of `request`."""
        return self._max_cost_usd(request.as_call())

    def call_id(self, request: ChatRequest) -> UUID:
        return ids.call_id(self.lease.step_id, request.as_call().hash)

    def _max_cost_usd(self, request: CallRequest) -> Decimal:
        prices = self._model.prices
        if request.operation is not None:
            return prices.of_operation(request.operation)
        max_output = request.max_output_tokens
        if max_output is None:
            max_output = self._model.max_output_tokens[self.phase]
        return prices.max_cost_usd(
            request.model or "",
            len(request.canonical),
            max_output,
            self._model.options.get(self.phase, {}).get("service_tier"),
        )

    def _in_flight(self, call: CallRecord, *, is_needed: bool) -> ResumableCall:
        """Returns `call` in the form that the provider needs."""

        async def record_reference(reference: str) -> None:
            await self.record_in_session(
                lambda session: call_ledger.record_reference(session, call.id, reference)
            )

        progressed = partial(call_ledger.report_progress, self._model.database, call.id)
        attempt = partial(self._attempt, call, is_needed=is_needed)
        return ResumableCall(_key(call), call.provider_ref, record_reference, attempt, progressed)

    @asynccontextmanager
    async def _attempt(self, call: CallRecord, *, is_needed: bool) -> AsyncIterator[None]:
        """Context of one attempt of `call`. Records an attempt without a usable answer, with its cost.

        Raises PermanentError after MAX_TIMEOUTS timeouts.
        """
        await self._check_timeouts(call)
        try:
            async with self.paid_calls.attempt(call, is_needed=is_needed):
                try:
                    yield
                except VigilError as error:
                    metrics.count_call(self.phase, call.model, _outcome(error))
                    raise
                metrics.count_call(self.phase, call.model, "answered")
        except AnswerError as error:
            await self._record_failure(call, error)
            if error.kind is FailureKind.TIMEOUT:
                await self._check_timeouts(call, error)
            raise

    async def _record_failure(self, call: CallRecord, error: BaseException) -> None:
        cause = error if isinstance(error, AnswerError) else error.__cause__
        if not isinstance(cause, AnswerError) or cause.is_recorded:
            return
        cause.is_recorded = True
        usage = cause.usage
        cost_usd = self._model.prices.tokens_usd(
            call.model or "",
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            usage.service_tier,
        )
        failure = Failure(
            cause.kind,
            error_text(str(cause)),
            cause.excerpt,
            usage.input_tokens,
            usage.output_tokens,
            cost_usd,
        )
        await self.paid_calls.record_failure(call, self.lease.epoch, failure)

    async def _check_timeouts(self, call: CallRecord, cause: AnswerError | None = None) -> None:
        """Raises PermanentError if too many attempts of `call` timed out since the user last requested a retry."""
        timeouts = await self._recent_failures(call, FailureKind.TIMEOUT, MAX_TIMEOUTS)
        if timeouts:
            raise PermanentError(
                "llm_timeout",
                f"{timeouts[-1]['error']}. The request was sent {len(timeouts)} times and will not be sent again: "
                "raise that limit, or use a faster model or server",
            ) from cause

    async def _check_unanswered(
        self, call: CallRecord, limit: int | None, cause: AnswerError | None = None
    ) -> None:
        if limit is None:
            return
        failures = await self._recent_failures(call, FailureKind.NO_ANSWER, limit)
        if failures:
            raise NoAnswerError(
                f"the model gave no answer in {len(failures)} attempts; the last error: {failures[-1]['error']}"
            ) from cause

    async def _recent_failures(
        self, call: CallRecord, kind: FailureKind, minimum: int
    ) -> Sequence[Json]:
        """Returns the failures of `kind` since the user last requested a retry of the call's step.

        Empty if there are fewer than `minimum`.
        """
        failures = [failure for failure in call.failures if failure["kind"] == kind]
        if len(failures) < minimum:
            return ()
        async with self.transaction() as session:
            retried_epoch = await leases.retried_epoch(session, self.lease.step_id)
        recent = [failure for failure in failures if failure["epoch"] > retried_epoch]
        return recent if len(recent) >= minimum else ()

    async def read(self, query: BoundQuery[T]) -> T:
        """The result of a query that writes nothing, outside of the run's transactions."""
        return await self._model.database.run(query)

    def transaction(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Opens a part of a transaction that only the holder of the step's lease can start; see `UnitOfWork`."""
        return self._unit.transaction()

    def direct_transaction(self, trip: RoundTrip) -> AbstractAsyncContextManager[Transaction]:
        """The same without a session; see `UnitOfWork`."""
        return self._unit.direct_transaction(trip)

    async def _record_answer(
        self,
        call: CallRecord,
        call_answer: CallAnswer,
        *,
        is_last: bool,
        paid_calls: Sequence[CallRequest],
    ) -> None:
        def write() -> None:
            self._record_with_events(call, call_answer)
            self.add_event({"type": "answer", "call_id": str(call.id)})
            if is_last:
                self.complete()
            for paid_call in paid_calls:
                self.paid_calls.open_call(paid_call)

        await self.record(write)

    def _traced(self, request: ChatRequest, call: CallRecord) -> tracing.SpanContext:
        """The span of one attempt of a call, by the semantic conventions for generative AI."""
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._model.provider_name,
            "gen_ai.request.model": request.model,
            "gen_ai.request.max_tokens": request.max_output_tokens,
            "vigil.phase": self.phase.value,
            "vigil.call.id": str(call.id),
        }
        return tracing.child(f"chat {request.model}", "client", attributes)

    def _call_answer(self, request: ChatRequest, answer: ChatAnswer) -> CallAnswer:
        content = {"message": answer.message, "finish_reason": answer.finish_reason}
        if answer.usage_fault is not None:
            content["usage_fault"] = answer.usage_fault
        return CallAnswer(
            content,
            answer.input_tokens,
            answer.output_tokens,
            self._model.prices.tokens_usd(
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


def _outcome(error: VigilError) -> str:
    """The outcome of a failed attempt, for metrics."""
    if isinstance(error, AnswerError):
        return error.kind
    return "unavailable" if isinstance(error, TransientError) else "refused"


def _usage_attributes(call_answer: CallAnswer, answer: ChatAnswer) -> tracing.Attributes:
    cost_usd = call_answer.cost_usd
    return {
        "gen_ai.response.finish_reasons": [answer.finish_reason] if answer.finish_reason else None,
        "gen_ai.usage.input_tokens": answer.input_tokens,
        "gen_ai.usage.output_tokens": answer.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": answer.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": answer.reasoning_tokens,
        "vigil.cost.usd": None if cost_usd is None else float(cost_usd),
    }


def _key(call: CallRecord) -> str:
    """Returns the idempotency key of the next attempt.

    After an unusable answer it is a new one, because a server that supports the key would repeat that answer.
    """
    unusable = sum(failure["kind"] in COMPLETE_KINDS for failure in call.failures)
    return f"{call.id}-{unusable}" if unusable else str(call.id)


def _restore_answer(call: CallRecord) -> ChatAnswer:
    assert call.answer is not None
    return ChatAnswer(
        call.answer["message"], call.answer["finish_reason"], call.input_tokens, call.output_tokens
    )
