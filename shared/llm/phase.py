"""One run of a phase, resumable at any instant: what was answered is taken from the ledger, never asked again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.crash_points import CrashPoint, reach
from shared.errors import TransientError
from shared.llm.chat import ChatAnswer, ChatRequest, ToolCall
from shared.llm.costs import Prices, cost_usd
from shared.llm.provider import Hear, Provider
from shared.store import agents, interactions, ledger
from shared.store.database import Database
from shared.store.in_flight import InFlight
from shared.store.leases import Lease, LeaseLostError, leased_transaction
from shared.store.ledger import CallAnswer, CallRequest
from shared.store.tables import Agent, Call, Interaction
from shared.store.words import Phase

RECORD_AGAIN_SECONDS = 0.5


@dataclass(frozen=True)
class Model:
    """The provider with what every call through it needs to know."""

    provider: Provider
    database: Database
    prices: Prices
    default_name: str
    """Used for every phase for which the agent names no other."""


class Listener(Protocol):
    """Whoever follows a phase while it runs. What it raises ends the run."""

    async def hear(self, text: str) -> None:
        """All that the answer under way says so far."""

    async def heard(self, text: str, calls: Sequence[ToolCall]) -> None:
        """One answer, whole and in the ledger. A resumed run tells those that it finds there, too."""


class PhaseRun:
    """The interaction and the ledger of one phase of one step; tools and parsing are its callers'."""

    def __init__(
        self, model: Model, lease: Lease, agent: Agent, phase: Phase, user_message: str
    ) -> None:
        self._model = model
        self.lease = lease
        self.phase = phase
        self._agent = agent
        self._user_message = user_message
        self._interaction: Interaction | None = None
        self._opened: dict[str, Call] = {}

    @property
    def interaction(self) -> Interaction:
        assert self._interaction is not None, "begin() comes first"
        return self._interaction

    async def begin(
        self,
        tools: Sequence[dict[str, Any]] = (),
        response_format: dict[str, Any] | None = None,
    ) -> ChatRequest:
        """The first request; once it has an answer, as it was first sent, whatever the prompts or knowledge are now."""
        async with self.transaction() as session:
            self._interaction = await interactions.open_or_resume(
                session,
                self.lease,
                self.phase,
                model=agents.model(self._agent, self.phase, self._model.default_name),
                system_prompt=agents.system_prompt(self._agent, self.phase),
                request={
                    "messages": [{"role": "user", "content": self._user_message}],
                    "tools": [tool["function"]["name"] for tool in tools],
                },
            )
            request = ChatRequest(
                self._interaction.model,
                (
                    {"role": "system", "content": self._interaction.system_prompt},
                    *self._interaction.request["messages"],
                ),
                tuple(tools),
                response_format,
            )
            await self.open_call(session, request.as_call())
        return request

    async def answer_to(
        self,
        request: ChatRequest,
        *,
        is_last: Callable[[ChatAnswer], bool],
        paid_calls: Callable[[ChatAnswer], Sequence[CallRequest]] = lambda _: (),
        listener: Listener | None = None,
    ) -> tuple[UUID, ChatAnswer]:
        """The model's answer with its id in the ledger, from the ledger where it is there.

        One commit records the answer and opens the calls that it leads to; `is_last` says whether it ends the phase.
        """
        call = await self.opened(request.as_call())
        if call.answered_at is not None:
            answer = _restored(call)
        else:
            hear = None if listener is None else listener.hear
            answer = await self._asked(request, call, hear)
            await self._recorded(request, call, answer, is_last=is_last, paid_calls=paid_calls)
        if listener is not None:
            await listener.heard(answer.text, answer.tool_calls)
        return call.id, answer

    async def record(self, write: Callable[[AsyncSession], Awaitable[None]]) -> None:
        """Commits what was paid for, waiting for Postgres where it is away: to give up would be to pay again.

        `write` may run more than once. Raises LeaseLostError.
        """
        while True:
            try:
                async with self.transaction() as session:
                    await write(session)
                return
            except LeaseLostError:
                raise
            except TransientError as error:
                if error.counts:
                    raise
                await asyncio.sleep(RECORD_AGAIN_SECONDS)

    async def open_call(self, session: AsyncSession, request: CallRequest) -> Call:
        """Writes the call into the ledger with whatever else `session` commits."""
        call = await ledger.open_call(session, self.lease, self.interaction.id, self.phase, request)
        self._opened[request.hash] = call
        return call

    async def opened(self, request: CallRequest) -> Call:
        """The call's record, which mostly rode in an earlier commit."""
        if request.hash in self._opened:
            return self._opened[request.hash]
        async with self.transaction() as session:
            return await self.open_call(session, request)

    def in_flight(self, call: Call) -> InFlight:
        """`call` as whoever sends it needs it."""

        async def keep(reference: str) -> None:
            await self.record(lambda session: ledger.refer_call(session, call.id, reference))

        return InFlight(str(call.id), call.provider_ref, keep)

    def transaction(self) -> AbstractAsyncContextManager[AsyncSession]:
        """A transaction that only the holder of this step can begin."""
        return leased_transaction(self._model.database, self.lease)

    async def _asked(self, request: ChatRequest, call: Call, hear: Hear | None) -> ChatAnswer:
        reach(CrashPoint.CALL_UNSENT)
        answer = await self._model.provider.complete(request, self.in_flight(call), hear)
        reach(CrashPoint.CALL_ANSWERED)
        return answer

    async def _recorded(
        self,
        request: ChatRequest,
        call: Call,
        answer: ChatAnswer,
        *,
        is_last: Callable[[ChatAnswer], bool],
        paid_calls: Callable[[ChatAnswer], Sequence[CallRequest]],
    ) -> None:
        async def write(session: AsyncSession) -> None:
            await ledger.answer_call(session, call.id, self._as_recorded(request, answer))
            await interactions.append(
                session, self.interaction, {"type": "answer", "call_id": str(call.id)}
            )
            for paid in paid_calls(answer):
                await self.open_call(session, paid)
            if is_last(answer):
                await interactions.complete(session, self.interaction)

        await self.record(write)
        reach(CrashPoint.CALL_RECORDED)

    def _as_recorded(self, request: ChatRequest, answer: ChatAnswer) -> CallAnswer:
        return CallAnswer(
            {"message": answer.message, "finish_reason": answer.finish_reason},
            answer.input_tokens,
            answer.output_tokens,
            cost_usd(self._model.prices, request.model, answer.input_tokens, answer.output_tokens),
        )


def _restored(call: Call) -> ChatAnswer:
    assert call.answer is not None
    return ChatAnswer(
        call.answer["message"], call.answer["finish_reason"], call.input_tokens, call.output_tokens
    )
