"""One run of a phase, resumable at any instant: what was answered is taken from the ledger, never asked again."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.agents import agents
from shared.billing import call_ledger
from shared.billing.call_ledger import CallAnswer, CallRequest, Failure, NewRow
from shared.billing.resumable_call import InFlight
from shared.database.engine import Database
from shared.database.statements import RoundTrip
from shared.database.tables import Agent, Call, Interaction
from shared.database.text import error_text
from shared.database.unit_of_work import UnitOfWork
from shared.enums import Phase
from shared.errors import PermanentError, VigilError
from shared.failpoints import CrashPoint, reach
from shared.llm import phase_run_store
from shared.llm.answers import WHOLE, AnswerError, FailureKind
from shared.llm.messages import ChatAnswer, ChatRequest, ToolCall
from shared.llm.paid_calls import Account, Purse
from shared.llm.pricing import Prices
from shared.llm.prompt_leak_guard import Secret
from shared.llm.provider import Embedder, Provider
from shared.llm.repair import Repairs
from shared.tools import Json
from shared.workflow import leases
from shared.workflow.leases import Lease, ensure_held
from shared.workflow.steps import end_wait

T = TypeVar("T")

MAX_TIMEOUTS: Final = 2
"""How often one request is sent and then given up for taking too long."""


@dataclass(frozen=True)
class Model:
    """The provider with what every call through it needs to know."""

    provider: Provider
    database: Database
    prices: Prices
    default_name: str
    """Used for every phase for which the agent names no other."""
    most_output_tokens: Mapping[Phase, int]
    """Sent with each request, so that what it can cost is known before; thoughts count among them."""
    embedder: Embedder | None = None
    """None where nothing is searched by meaning."""
    requires_tools: bool = True
    """Whether requests that must call a tool say so with `tool_choice`."""


class Listener(Protocol):
    """Whoever follows a phase while it runs. What it raises ends the run."""

    async def hear(self, text: str) -> None:
        """All that the answer under way says so far."""

    async def heard(self, text: str, calls: Sequence[ToolCall]) -> None:
        """One answer, whole and in the ledger. A resumed run tells those that it finds there, too."""


@dataclass
class _Telling:
    """What one transaction is to tell of a run."""

    events: list[Json] = field(default_factory=list)
    is_complete: bool = False


class NoAnswerError(PermanentError):
    """The model refused, repeated itself or said nothing as often as it may."""

    def __init__(self, message: str) -> None:
        super().__init__("no_answer", message)


class PhaseRun:
    """The interaction and the ledger of one phase of one step; tools and parsing are its callers'."""

    def __init__(
        self,
        model: Model,
        lease: Lease,
        agent: Agent,
        phase: Phase,
        user_message: str,
        *,
        system_prompt: str | None = None,
        context: str = "",
    ) -> None:
        """Without a `system_prompt` it is the agent's own for `phase`.

        `context` is what of the message others are told too: its words are kept once for all of them.
        """
        self._model = model
        self.lease = lease
        self.phase = phase
        self._agent = agent
        self._user_message = user_message
        self._system_prompt = system_prompt
        self._context = context
        self._interaction: Interaction | None = None
        self._has_been_answered = False
        self.repair_count = 0
        """Repairs that were recorded in this run, or by the run that it resumes."""
        self._unit = lease.unit or UnitOfWork(
            model.database, partial(ensure_held, lease=lease), waits=False
        )
        self._purse = Purse(model.database, lease, self._unit)
        self._account = Account(lease, self._unit, self._purse, self._new_row, self._most_usd)

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

    @cached_property
    def secret(self) -> Secret:
        """Once it has begun: as it was first sent."""
        begun = self.interaction
        return Secret(begun.system_prompt, begun.request["messages"][0]["content"])

    async def begin(
        self,
        tools: Sequence[dict[str, Any]] = (),
        response_format: dict[str, Any] | None = None,
        *,
        must_act: bool = False,
    ) -> ChatRequest:
        """The first request; once it has an answer, as it was first sent, whatever the prompts or knowledge are now.

        With `must_act` it demands a tool call of the model, where the settings allow that.
        """
        demanded = {"tool_choice": "required"} if must_act and self._model.requires_tools else {}
        async with self.transaction() as session:
            self._interaction = await phase_run_store.open_or_resume(
                session,
                self.lease,
                self.phase,
                model=agents.model(self._agent, self.phase, self._model.default_name),
                system_prompt=self._system_prompt or agents.system_prompt(self._agent, self.phase),
                request={
                    "messages": [{"role": "user", "content": self._user_message}],
                    "tools": [tool["function"]["name"] for tool in tools],
                    **demanded,
                },
                context=self._context,
            )
            request = ChatRequest(
                self._interaction.model,
                (
                    {"role": "system", "content": self._interaction.system_prompt},
                    *self._interaction.request["messages"],
                ),
                tuple(tools),
                response_format,
                self._model.most_output_tokens[self.phase],
                tool_choice=self.tool_choice,
            )
            self.open_call(session, request.as_call())
        return request

    @property
    def tool_choice(self) -> str | None:
        """What a request of this run says that must call a tool: as the first one said, whatever the settings are now."""
        choice: str | None = self.interaction.request.get("tool_choice")
        return choice

    async def note_repairs(self, subject: str, repairs: Repairs, *, key: str) -> None:
        """Records what was repaired of an answer; `key` tells it from what was repaired of others."""
        if repairs:
            async with self.transaction() as session:
                self.tell_repairs(session, subject, repairs, key=key)

    def tell_repairs(
        self, session: AsyncSession, subject: str, repairs: Repairs, *, key: str
    ) -> None:
        """As `note_repairs`, as part of a transaction."""
        if repairs:
            self.repair_count += len(repairs)
            event = {"type": "repair", "key": key, "subject": subject, "repairs": repairs.told}
            self.tell(session, event)

    @property
    def repairs_told(self) -> Json:
        """For the result of the run's step: how much was repaired, where anything was."""
        return {"repairs": self.repair_count} if self.repair_count else {}

    async def answer_to(
        self,
        request: ChatRequest,
        *,
        is_last: Callable[[ChatAnswer], bool],
        paid_calls: Callable[[ChatAnswer], Sequence[CallRequest]] = lambda _: (),
        listener: Listener | None = None,
        understood: Callable[[ChatAnswer], ChatAnswer] = lambda answer: answer,
        most_without_answer: int | None = None,
    ) -> tuple[UUID, ChatAnswer]:
        """The model's answer with its id in the ledger, from the ledger where it is there.

        The ledger keeps what the server said; `is_last`, `paid_calls`, the listener and the caller get what `understood`
        makes of it. One commit records the answer and opens the calls that it leads to; `is_last` says whether it ends
        the phase. Raises NoAnswerError instead of sending it after the model gave none `most_without_answer` times.
        """
        call = await self.opened(request.as_call())
        if call.answered_at is not None:
            answer = understood(_restored(call))
        else:
            hear = None if listener is None else listener.hear
            await self._ensure_answers(call, most_without_answer)
            try:
                ask = partial(self._model.provider.complete, request, hear=hear)
                said = await self.sent(call, ask)
            except AnswerError as error:
                await self._ensure_answers(call, most_without_answer, error)
                raise
            answer = understood(said)
            await self._recorded(
                request, call, said, is_last=is_last(answer), paid_calls=paid_calls(answer)
            )
        if listener is not None:
            await self._unit.commit()
            await listener.heard(answer.text, answer.tool_calls)
        return call.id, answer

    async def sent(
        self, call: Call, ask: Callable[[InFlight], Awaitable[T]], *, is_needed: bool = True
    ) -> T:
        """What `ask` gives, which sends `call`. Raises what it does. Only for want of what `is_needed` the agent rests."""
        await self._unit.commit()
        reach(CrashPoint.CALL_UNSENT)
        with self._unit.sending():
            try:
                answer = await ask(self._in_flight(call, is_needed=is_needed))
            except VigilError as error:
                await self._record_failure(call, error)
                await self._purse.give_up(call)
                raise
        reach(CrashPoint.CALL_ANSWERED)
        self._has_been_answered = True
        return answer

    async def record(self, write: Callable[[AsyncSession], Awaitable[T]]) -> T:
        """Writes what was paid for; see `UnitOfWork.keep`."""

        async def written(session: AsyncSession) -> T:
            self._unit.once_committed(partial(reach, CrashPoint.CALL_RECORDED))
            if self.lease.is_after_wait and self._has_been_answered:
                await end_wait(session, self.lease)
            return await write(session)

        return await self._unit.keep(written)

    def tell(self, session: AsyncSession, event: Json) -> None:
        """Adds `event` to the interaction at the end of the transaction: its row is long, and written once then."""
        self._telling(session).events.append(event)

    def complete(self, session: AsyncSession) -> None:
        """The same, that the run is over."""
        self._telling(session).is_complete = True

    def _telling(self, session: AsyncSession) -> "_Telling":
        if self not in session.info:
            session.info[self] = _Telling()
            self._unit.last(self._tell)
        telling: _Telling = session.info[self]
        return telling

    def _tell(self, session: AsyncSession, trip: RoundTrip) -> None:
        telling: _Telling = session.info.pop(self)
        trip.ask(phase_run_store.told(self.interaction, telling.events, telling.is_complete))

    def open_call(self, session: AsyncSession, request: CallRequest) -> None:
        """See `Account.open`."""
        self._account.open(session, request)

    async def opened(self, request: CallRequest) -> Call:
        """The call's record, which mostly was written with what came before it. Nothing waits to be committed then."""
        return await self._account.opened(request)

    def answered(self, call: Call, request: CallRequest, content: Json) -> None:
        """Records what a search gave; one that was refused has cost nothing."""
        assert request.operation is not None
        billed = self._purse.was_billed(call)
        cost_usd = self._model.prices.of_operation(request.operation) if billed else Decimal(0)
        self._account.answer(call, CallAnswer(content, cost_usd=cost_usd))

    async def answered_now(self, session: AsyncSession, call: Call, answer: CallAnswer) -> None:
        """Records an answer that is looked for in the ledger as soon as it has come."""
        await self._account.answer_now(session, call, answer)

    def _new_row(self, request: CallRequest) -> NewRow:
        return call_ledger.new_row(
            self.lease,
            self.interaction.id,
            self.phase,
            request,
        )

    def _most_usd(self, request: CallRequest) -> Decimal:
        prices = self._model.prices
        if request.operation is not None:
            return prices.of_operation(request.operation)
        most_output = request.most_output_tokens
        if most_output is None:
            most_output = self._model.most_output_tokens[self.phase]
        return prices.most_usd(request.model or "", len(request.canonical), most_output)

    def _in_flight(self, call: Call, *, is_needed: bool) -> InFlight:
        """`call` as whoever sends it needs it."""

        async def keep(reference: str) -> None:
            await self.record(lambda session: call_ledger.refer_call(session, call.id, reference))

        progressed = partial(call_ledger.report_progress, self._model.database, call.id)
        sending = partial(self._sending, call, is_needed=is_needed)
        return InFlight(_key(call), call.provider_ref, keep, sending, progressed)

    @asynccontextmanager
    async def _sending(self, call: Call, *, is_needed: bool) -> AsyncIterator[None]:
        """One sending of `call`. One that brings no usable answer is recorded with what it cost.

        Raises PermanentError where Vigil's own time limits have ended it as often as they may.
        """
        await self._ensure_patience(call)
        try:
            async with self._purse.sending(call, is_needed=is_needed):
                yield
        except AnswerError as error:
            await self._record_failure(call, error)
            if error.kind is FailureKind.TIMEOUT:
                await self._ensure_patience(call, error)
            raise

    async def _record_failure(self, call: Call, error: BaseException) -> None:
        failed = error if isinstance(error, AnswerError) else error.__cause__
        if not isinstance(failed, AnswerError) or failed.is_recorded:
            return
        failed.is_recorded = True
        usage = failed.usage
        cost_usd = self._model.prices.tokens_usd(
            call.model or "", usage.input_tokens, usage.output_tokens
        )
        failure = Failure(
            failed.kind,
            error_text(str(failed)),
            failed.said,
            usage.input_tokens,
            usage.output_tokens,
            cost_usd,
        )
        await self._purse.fail(call, self.lease.epoch, failure)

    async def _ensure_patience(self, call: Call, cause: AnswerError | None = None) -> None:
        """Raises PermanentError where too many sendings of `call` ended by a time limit since a person last asked for its
        step's retry.
        """
        timeouts = await self._recent_failures(call, FailureKind.TIMEOUT, MAX_TIMEOUTS)
        if timeouts:
            raise PermanentError(
                "llm_timeout",
                f"{timeouts[-1]['error']}. It was sent {len(timeouts)} times and is not sent again: raise that setting, or "
                "use a faster model or server",
            ) from cause

    async def _ensure_answers(
        self, call: Call, most: int | None, cause: AnswerError | None = None
    ) -> None:
        if most is None:
            return
        failures = await self._recent_failures(call, FailureKind.NO_ANSWER, most)
        if failures:
            raise NoAnswerError(
                f"the model gave no answer in {len(failures)} tries; the last time: {failures[-1]['error']}"
            ) from cause

    async def _recent_failures(self, call: Call, kind: FailureKind, least: int) -> Sequence[Json]:
        """Of `kind` since a person last asked for the retry of the call's step; none where they are fewer than `least`."""
        failures = [each for each in call.failures or () if each["kind"] == kind]
        if len(failures) < least:
            return ()
        async with self.transaction() as session:
            retried_epoch = await leases.retried_epoch(session, self.lease.step_id)
        recent = [each for each in failures if each["epoch"] > retried_epoch]
        return recent if len(recent) >= least else ()

    def transaction(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Part of a transaction that only the holder of this step can begin; see `UnitOfWork`."""
        return self._unit.transaction()

    async def _recorded(
        self,
        request: ChatRequest,
        call: Call,
        answer: ChatAnswer,
        *,
        is_last: bool,
        paid_calls: Sequence[CallRequest],
    ) -> None:
        recorded = self._as_recorded(request, answer)

        async def write(session: AsyncSession) -> None:
            self.tell(session, {"type": "answer", "call_id": str(call.id)})
            if is_last:
                self.complete(session)
            self._account.answer(call, recorded)
            for paid in paid_calls:
                self.open_call(session, paid)

        await self.record(write)

    def _as_recorded(self, request: ChatRequest, answer: ChatAnswer) -> CallAnswer:
        content = {"message": answer.message, "finish_reason": answer.finish_reason}
        if answer.usage_fault is not None:
            content["usage_fault"] = answer.usage_fault
        return CallAnswer(
            content,
            answer.input_tokens,
            answer.output_tokens,
            self._model.prices.tokens_usd(request.model, answer.input_tokens, answer.output_tokens),
        )


def _key(call: Call) -> str:
    """The idempotency key of the next sending: a server that heeds it would only repeat an answer that is not usable."""
    unusable = sum(each["kind"] in WHOLE for each in call.failures or ())
    return f"{call.id}-{unusable}" if unusable else str(call.id)


def _restored(call: Call) -> ChatAnswer:
    assert call.answer is not None
    return ChatAnswer(
        call.answer["message"], call.answer["finish_reason"], call.input_tokens, call.output_tokens
    )
