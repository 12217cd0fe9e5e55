"""Paying for the calls of one phase run: reserved before every sending, settled by the answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.errors import TransientError, VigilError
from shared.store import ledger, paid_calls
from shared.store.budgets import books, resting
from shared.store.budgets.books import Sending
from shared.store.database import Database
from shared.store.leases import Lease
from shared.store.ledger import CallAnswer
from shared.store.paid_calls import Failure
from shared.store.round_trip import RoundTrip
from shared.store.tables import Call
from shared.store.unit_of_work import UnitOfWork


@dataclass
class _Fare:
    """What has been reserved for a call last."""

    sending: Sending
    is_unsent: bool
    """Nothing that may be billed has been sent for it: it serves for the next sending, or is released."""


class Purse:
    """Of one phase run. What another run has reserved for a call before is not its own, unless it waits for that."""

    def __init__(self, database: Database, lease: Lease, unit: UnitOfWork) -> None:
        """`unit` is what the step's holder writes in."""
        self._database = database
        self._agent_id = lease.agent_id
        self._unit = unit
        self._bounds: dict[UUID, Decimal] = {}
        self._fares: dict[UUID, _Fare] = {}

    def note(self, call: Call, bound_usd: Decimal, reserved: Sending | None) -> None:
        """The most that one sending of `call` can cost, and what its record was just written with."""
        self._bounds[call.id] = bound_usd
        if reserved is not None:
            self._fares[call.id] = _Fare(reserved, is_unsent=True)
        elif paid_calls.was_never_sent(call):
            # What may have been reserved for it was undone with all that was to be committed.
            self._fares.pop(call.id, None)
        elif call.provider_ref is not None and call.reserved_on is not None:
            # It is found again under that reference, and then settled.
            assert call.reserved_usd is not None
            sent = Sending(
                call.id, self._agent_id, call.sendings, call.reserved_on, call.reserved_usd
            )
            self._fares[call.id] = _Fare(sent, is_unsent=False)

    @asynccontextmanager
    async def sending(self, call: Call, *, is_needed: bool = True) -> AsyncIterator[None]:
        """One sending of `call`, which may be billed. Raises BudgetUsedUpError, or TransientError where the budget may
        suffice in a moment, or where the work goes on without it and is not to rest for it; then nothing was sent.
        """
        fare = self._fares.get(call.id)
        if fare is None or not fare.is_unsent:
            fare = await self._another(call.id, is_needed=is_needed)
        fare.is_unsent = False
        try:
            yield
        except VigilError as error:
            fare.is_unsent = error.unbilled
            raise

    def answer(self, call: Call, answer: CallAnswer) -> None:
        """`call` was answered: that and what it has cost is written at the end of the transaction, which is open."""
        fare = self._fares.get(call.id)
        if fare is None:
            self._unit.last(
                lambda _, __: partial(ledger.answer_call, call_id=call.id, answer=answer)
            )
            return
        sending, is_billed = fare.sending, not fare.is_unsent
        self._unit.last(
            lambda _, trip: paid_calls.answer_call(trip, sending, answer, is_billed=is_billed)
        )

    def settle(self, call: Call, cost_usd: Decimal | None) -> None:
        """The same, where its answer is recorded: at that cost, None where nobody says so."""
        fare = self._fares.get(call.id)
        if fare is None:
            return
        closing = (
            books.released(fare.sending)
            if fare.is_unsent
            else books.settled(fare.sending, cost_usd)
        )

        def close(_: AsyncSession, trip: RoundTrip) -> None:
            trip.ask(books.closed(closing))

        self._unit.last(close)

    async def fail(self, call: Call, epoch: int, failure: Failure) -> None:
        """The last sending of `call` is over without a usable answer: that and its cost is committed now."""
        fare = self._fares.pop(call.id, None)
        if fare is None:
            return
        async with self._unit.transaction() as session:
            failed = await paid_calls.fail_sending(session, fare.sending, epoch, failure)
        if failed is not None:
            call.failures = [*(call.failures or ()), failed]

    def was_billed(self, call: Call) -> bool:
        """Whether any sending of this run's may have been."""
        fare = self._fares.get(call.id)
        return fare is None or not fare.is_unsent

    async def give_up(self, call: Call) -> None:
        """Releases what was reserved for `call`, if that has certainly cost nothing."""
        fare = self._fares.get(call.id)
        if fare is not None and fare.is_unsent:
            async with self._unit.transaction() as session:
                await books.release(session, fare.sending)
            del self._fares[call.id]

    async def _another(self, call_id: UUID, *, is_needed: bool) -> _Fare:
        bound_usd = self._bounds[call_id]
        async with self._unit.transaction() as session:
            await books.presume_call(session, call_id)
            reserved = await books.reserve(session, self._agent_id, {call_id: bound_usd})
        if reserved is None and not is_needed:
            raise TransientError(
                f"the budget leaves too little for what this may cost: ${bound_usd:f}", counts=False
            )
        if reserved is None:
            # In a transaction of its own, without the step: the agent's row is locked after no other.
            async with self._database.transaction() as session:
                refusal = await resting.rest_or_wait(session, self._agent_id, bound_usd)
            raise refusal
        fare = self._fares[call_id] = _Fare(reserved[0], is_unsent=True)
        return fare
